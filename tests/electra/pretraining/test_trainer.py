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
from electra.files import lock_folder
from electra.optim.adamw import clip_gradients
from electra.pretraining import trainer
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import add_sums
from electra.pretraining.model import Pretraining
from electra.storage import checkpoint
from tests.conftest import each_with_some, harm, largest_file
from tests.electra.helpers import SPECIAL, TWO_STAGES, VOCAB, config, data, state, train
from tests.electra.pretraining.step_helpers import QUIET

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
    train(run)
    return run, time.monotonic() - started


@pytest.fixture(scope="module")
def expected(reference):
    return state(reference[0])


def test_both_networks_learn(tmp_path):
    easy = {
        **QUIET,
        "generator__width": 1.0,
        "pretrain__batch": 32,
        "pretrain__steps": 160,
        "pretrain__warmup": 20,
        "pretrain__learning_rate": 3e-3,
        "pretrain__eval_every": 80,
    }
    trained = train(tmp_path, config(**easy))
    first, *_, last = trained.history
    assert last["mlm_loss"] < 0.5 * first["mlm_loss"]
    assert last["disc_loss"] < 0.5 * last["disc_baseline"]
    assert last["disc_auc"] > 0.9 and last["disc_recall"] > 0.5


def test_a_weak_discriminator_is_warned_of_once_and_not_on_the_plateau(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(trainer, "weakness", lambda record, text: f"too weak for {text} tokens")
    train(tmp_path / "short", config(pretrain__warmup=1, pretrain__eval_every=2))
    warning = f"WARNING at step 20: too weak for {data().train.tokens} tokens"
    assert warning in capsys.readouterr().err
    monkeypatch.setattr(trainer, "PLATEAU", 1e3)
    train(tmp_path / "long", config(pretrain__warmup=1, pretrain__eval_every=2))
    stderr = capsys.readouterr().err
    assert stderr.count("too weak") == 1 and "WARNING at step 20" not in stderr
    stages = config(**TWO_STAGES, pretrain__warmup=4, pretrain__eval_every=2)
    train(tmp_path / "stages", stages)
    assert "WARNING at step 16: too weak" in capsys.readouterr().err, "of the second, after 10"


def test_accumulation_changes_the_loss_by_rounding_only(tmp_path):
    whole = train(tmp_path / "a", config(**QUIET)).history[-1]["loss"]
    parts = train(tmp_path / "b", config(**QUIET, pretrain__accumulate=4)).history[-1]["loss"]
    assert parts == pytest.approx(whole, rel=2e-5)  # fp32 sums in another order, over 20 steps


@pytest.mark.parametrize("most", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path, reference, expected, most):
    seconds = reference[1]
    chance = random.Random(0)
    kills = 0
    attempts = 0
    while kills < most:
        run = tmp_path / f"run-{attempts}"
        attempts += 1
        while True:
            process = FORK.Process(target=train_and_leave, args=(run,))
            process.start()
            process.join(chance.uniform(0.02, seconds))
            if process.exitcode is not None:
                assert process.exitcode == 0
                break
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
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


@pytest.mark.parametrize(
    "number, when", [(signal.SIGTERM, 10), (signal.SIGINT, 10), (signal.SIGTERM, 11)]
)
def test_a_signal_saves_and_says_run_again(tmp_path, monkeypatch, expected, number, when):
    calls = iter(range(1000))

    def interrupt(total, part):
        add_sums(total, part)
        if next(calls) == 2 * when - 1:  # the last of the two calls of a step
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # impatience changes nothing
            time.sleep(0.01)

    with pytest.raises(Stopped) as stopped:
        monkeypatch.setattr(trainer, "add_sums", interrupt)
        train(tmp_path)
    monkeypatch.undo()
    assert stopped.value.exit_code == 75
    assert checkpoint.steps(tmp_path)[-1] == when
    train(tmp_path)
    assert state(tmp_path) == expected


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    with lock_folder(tmp_path), pytest.raises(Busy, match=str(os.getpid())):
        train(tmp_path)


def test_a_process_that_finds_other_settings_than_the_main_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(World, "broadcast_object", lambda self, value: {"config": "other"})
    with pytest.raises(BadInput, match="process 0 finds other settings, data or code"):
        train(tmp_path)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_nonfinite_numbers_stop_before_the_update(tmp_path, monkeypatch, where):
    original = clip_gradients
    calls = iter(range(1000))

    def poison(parameters, limit):
        if next(calls) == 8:
            parameters[0].grad[0] = float("nan" if where == "loss" else "inf")
        return original(parameters, limit)

    monkeypatch.setattr("electra.pretraining.step.clip_gradients", poison)
    with pytest.raises(NonFinite) as refused:
        train(tmp_path)
    assert refused.value.exit_code == 70 and "step 9" in str(refused.value)
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


def test_the_logged_gradient_norm_and_loss_are_means(tmp_path, monkeypatch):
    norms = []
    logged = []

    def clip(parameters, limit):
        norms.append(clip_gradients(parameters, limit).item())
        return torch.tensor(norms[-1])

    monkeypatch.setattr("electra.pretraining.step.clip_gradients", clip)
    log = lambda step, numbers: logged.append(numbers) if "train/loss" in numbers else None  # noqa: E731
    history = train(tmp_path, log=log).history
    means = [numbers["train/grad_norm"] for numbers in logged]
    assert means == pytest.approx([sum(norms[i : i + 5]) / 5 for i in range(0, 20, 5)], rel=1e-6)
    losses = [numbers["train/loss"] for numbers in logged]
    curve = [record["train_loss"] for record in history[1:]]  # of 10 steps each
    assert curve == pytest.approx([sum(losses[:2]) / 2, sum(losses[2:]) / 2])
    assert logged[0].keys() >= {"train/mlm_loss", "train/disc_loss"}


def test_a_run_keeps_its_precision_wherever_it_continues(tmp_path, monkeypatch):
    train(tmp_path, stop_at=6)
    monkeypatch.setattr(trainer, "choose", lambda setting, device: "bf16")
    assert train(tmp_path, stop_at=12).precision == "fp32"
