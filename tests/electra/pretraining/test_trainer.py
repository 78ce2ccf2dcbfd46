"""The loop: learning, exact resume after any kill, polite stops, refused non-finite numbers."""

import multiprocessing
import os
import random
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
import torch

from electra.errors import BadInput, Busy, NonFinite, OutOfRoom, Stopped
from electra.files import lock_folder, read_json
from electra.optim.adamw import clip_gradients
from electra.pretraining import trainer
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining
from electra.storage import checkpoint
from tests.support.pretraining import SPECIAL, TWO_STAGES, VOCAB, config, data, state, train
from tests.support.project import each_with_some, harm, largest_file
from tests.support.steps import QUIET

FORK = multiprocessing.get_context("fork")


def train_and_leave(run):
    """Train in a fork, and leave it without the goodbyes of libraries that were loaded before it."""
    train(run)
    os._exit(0)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """(The folder of a run that nothing disturbed, the seconds that it took)."""
    run = tmp_path_factory.mktemp("reference")
    started = time.monotonic()
    assert not train(run).model.training, "for those who go on to use it"
    return run, time.monotonic() - started


@pytest.fixture(scope="module")
def expected(reference):
    return state(reference[0])


@pytest.mark.parametrize(
    "plateau, changes, step",
    [
        (5e6, {}, 20),
        (1e3, {"pretrain__warmup": 6}, 8),
        (1e3, {**TWO_STAGES, "pretrain__warmup": 4}, 16),  # of the second, after 10
    ],
)
def test_a_weak_discriminator_is_warned_of_once_and_not_on_the_plateau(
    tmp_path, capsys, monkeypatch, plateau, changes, step
):
    monkeypatch.setattr(trainer, "weakness", lambda record, text: f"too weak for {text} tokens")
    monkeypatch.setattr(trainer, "PLATEAU", plateau)
    train(tmp_path, config(**changes, pretrain__eval_every=2))
    output = capsys.readouterr().err
    assert f"WARNING at step {step}: too weak for {data().train.tokens} tokens" in output
    assert output.count("WARNING") == 1


def test_accumulation_changes_the_loss_by_rounding_only(tmp_path):
    whole = train(tmp_path / "a", config(**QUIET)).history[-1]["loss"]
    parts = train(tmp_path / "b", config(**QUIET, pretrain__accumulate=4)).history[-1]["loss"]
    assert parts == pytest.approx(whole, rel=2e-5)  # fp32 sums in another order, over 20 steps


def test_each_slice_of_each_step_has_its_own_dropout(tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    train(tmp_path, config(pretrain__accumulate=2))
    assert len({*seeds}) == len(seeds) == 1 + 2 * 20, "one is for the first weights"


@pytest.mark.parametrize("runs", [2, pytest.param(15, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path, reference, expected, runs):
    chance = random.Random(0)
    for number in range(runs):
        run = tmp_path / str(number)
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            process = FORK.Process(target=train_and_leave, args=(run,))
            process.start()
            process.join(chance.uniform(0.02, reference[1]))
            process.kill()
            process.join()
            code = process.exitcode
        assert code == 0
        assert state(run) == expected


@pytest.mark.parametrize(
    "file, how",
    each_with_some(
        ["model.safetensors", "optimizer.safetensors", "progress.json", "MANIFEST.json"],
        ["cut", "empty", "zero", "flipped", "missing", "swapped"],
    ),
)
def test_a_damaged_checkpoint_is_set_aside_and_the_run_ends_with_the_same_bytes(
    tmp_path, reference, expected, file, how, capsys
):
    shutil.copytree(reference[0], tmp_path, dirs_exist_ok=True)
    older, newest = (tmp_path / f"step-{step}" for step in checkpoint.steps(tmp_path)[-2:])
    if how == "swapped":
        shutil.copy(older / file, newest / file)
    else:
        harm(newest / file, how)
    train(tmp_path)
    assert state(tmp_path) == expected
    assert (tmp_path / newest.name.replace("step", "bad-step")).is_dir()
    assert "set aside" in capsys.readouterr().err


@pytest.mark.parametrize("number, when", [(signal.SIGINT, 10), (signal.SIGTERM, 11)])
def test_a_signal_saves_and_says_run_again(tmp_path, expected, number, when):
    def interrupt(step):
        if step.done == when:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # impatience changes nothing

    with pytest.raises(Stopped, match=f"{when} of 20; everything is saved") as stopped:
        train(tmp_path, on_step=interrupt)
    assert stopped.value.exit_code == 75
    assert checkpoint.steps(tmp_path)[-1] == when
    train(tmp_path)
    assert state(tmp_path) == expected


def test_a_run_goes_on_at_the_beginning_of_its_second_stage(tmp_path):
    settings = config(**TWO_STAGES, pretrain__save_every=10)
    train(tmp_path, settings)
    expected = state(tmp_path)
    shutil.rmtree(tmp_path / "step-20")
    assert read_json(tmp_path / "step-10/progress.json")["stage"] == "discriminator"
    train(tmp_path, settings)
    assert state(tmp_path) == expected


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    with lock_folder(tmp_path), pytest.raises(Busy, match=str(os.getpid())):
        train(tmp_path)


def test_a_process_that_finds_other_settings_than_the_main_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(World, "broadcast_object", lambda self, value: {"config": "other"})
    with pytest.raises(BadInput, match="process 0 finds other settings, data or code"):
        train(tmp_path)


def test_nonfinite_numbers_stop_before_the_update(tmp_path, monkeypatch):
    calls = iter(range(1, 1000))

    def poison(parameters, limit):
        assert limit == 2
        if next(calls) == 9:
            parameters[0].grad[0] = torch.nan
        return clip_gradients(parameters, limit)

    monkeypatch.setattr("electra.pretraining.step.clip_gradients", poison)
    with pytest.raises(NonFinite, match="step 9") as refused:
        train(tmp_path, config(pretrain__max_grad_norm=2))
    assert refused.value.exit_code == 70
    assert checkpoint.steps(tmp_path) == [6]


@pytest.mark.parametrize("limit", [0, 4000, 50_000])
def test_a_disk_that_is_full_at_any_byte_is_a_sentence_and_the_run_goes_on_later(
    tmp_path, expected, limit, monkeypatch
):
    original = checkpoint.save

    def save(*arguments, **named):
        with largest_file(limit):
            original(*arguments, **named)

    monkeypatch.setattr(checkpoint, "save", save)
    with pytest.raises(OutOfRoom):
        train(tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.glob(".step-*"))
    train(tmp_path)
    assert state(tmp_path) == expected


def test_room_for_one_more_checkpoint_than_are_kept_is_required(tmp_path, monkeypatch):
    """A checkpoint has the weights and two moments of each."""
    model = Pretraining(config(), VOCAB, SPECIAL)
    size = 3 * 4 * sum(parameter.numel() for parameter in model.parameters())
    disk = SimpleNamespace()
    monkeypatch.setattr("shutil.disk_usage", lambda path: disk)
    for step, missing in ((0, 3), (6, 2)):  # one is there after step 6
        disk.free = missing * size - 1
        with pytest.raises(OutOfRoom, match=f"has {disk.free:,} b"):
            train(tmp_path)
        disk.free += 1
        train(tmp_path, stop_at=step + 6)


def test_a_run_keeps_its_precision_wherever_it_continues(tmp_path, monkeypatch):
    train(tmp_path, stop_at=6)
    monkeypatch.setattr(trainer, "choose", lambda setting, device: "bf16")
    assert train(tmp_path, stop_at=12).precision == "fp32"
