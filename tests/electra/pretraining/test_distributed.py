"""Several processes train as one: the same rows, masks, samples, dropout, losses; checkpoints fit
any number.
"""

import json
import multiprocessing
import os
import signal

import pytest
import torch

from electra.errors import BadConfig, UserError
from electra.optim.adamw import set_learning_rate
from electra.pretraining import trainer
from electra.pretraining.distributed import World, join
from electra.pretraining.step import Step
from electra.storage import checkpoint
from tests.support import pretraining
from tests.support.pretraining import TWO_STAGES, config
from tests.support.project import free_port
from tests.support.steps import CPU, Rerun

FORK = multiprocessing.get_context("fork")
SHORT = {
    "pretrain__accumulate": 2,
    "pretrain__steps": 6,
    "pretrain__eval_every": 3,
    "pretrain__save_every": 100,
}


def work(rank, size, port, run, settings, before):
    """One process, as torchrun would start it; its exit code is its error's."""
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    torch.set_num_threads(1)
    if before:
        before(rank)
    try:
        pretraining.train(run, settings)
    except UserError as error:
        (run / f"error-{rank}").write_text(str(error))
        os._exit(error.exit_code)
    os._exit(0)  # without the goodbyes of libraries that were loaded before the fork


def train(run, size=1, before=None, **changes):
    """Train with `size` processes; returns the curve and the exit codes."""
    settings = config(**SHORT | changes)
    port = str(free_port())
    arguments = (size, port, run, settings, before)
    processes = [FORK.Process(target=work, args=(rank, *arguments)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()  # one that hangs would keep pytest from ending
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines], codes


def at_step(step, action):
    """Do something at the beginning of a step of this process."""
    calls = iter(range(1000))

    def count_calls(optimizer, rate):
        if next(calls) == step:
            action()
        return set_learning_rate(optimizer, rate)

    pytest.MonkeyPatch().setattr(trainer, "set_learning_rate", count_calls)


def agree(curve, expected):
    assert len(curve) == len(expected) == 3
    for ours, theirs in zip(curve, expected, strict=True):
        # another order of one pair moves disc_auc by 3e-5
        assert ours == pytest.approx(theirs, rel=1e-5, abs=5e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One process's curve, the batch in two slices; the compiler's imports happen once, before any
    fork.
    """
    return train(tmp_path_factory.mktemp("alone"))[0]


def capture(rank):
    """Capture this process's steps: no collective is in a capture, since gradients are summed
    between the slices and the update.
    """

    def captured(*args, **options):
        return Step(*args, **options | {"graphs": Rerun()})

    pytest.MonkeyPatch().setattr(trainer, "Step", captured)


@pytest.mark.parametrize(
    "before, changes",
    [
        (None, {"pretrain__save_every": 2}),  # sums are pooled between records
        (None, TWO_STAGES),  # parameters without a gradient are no obstacle
        pytest.param(capture, {"pretrain__accumulate": 4}, marks=pytest.mark.slow),
    ],
)
def test_two_processes_give_the_curve_of_one_with_dropout_too(tmp_path, alone, before, changes):
    expected, _ = train(tmp_path / "one", **changes)
    curve, codes = train(tmp_path / "two", 2, before, **changes)
    assert codes == [0, 0]
    agree(curve, expected)


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, alone, before, after):
    def ask(rank):
        if rank == before - 1:  # one process is asked, all of them stop at the same step
            at_step(3, lambda: os.kill(os.getpid(), signal.SIGTERM))

    _, codes = train(tmp_path, before, ask)
    assert codes == [75] * before and checkpoint.steps(tmp_path) == [4]
    assert checkpoint.read_progress(tmp_path / "step-4")["processes"] == before
    curve, codes = train(tmp_path, after)
    assert codes == [0] * after
    agree(curve, alone)


@pytest.mark.parametrize(
    "size, accumulate, expected",
    [
        (2, 4, [range(2), range(2, 4)]),
        (2, 1, [range(1), range(1, 2)]),
    ],
)
def test_accumulation_and_processes_cut_a_batch_into_the_same_slices(size, accumulate, expected):
    worlds = [World(rank, size, CPU) for rank in range(size)]
    assert [world.slices([32], accumulate)[1] for world in worlds] == expected


def test_a_batch_that_cannot_be_cut_is_refused():
    with pytest.raises(BadConfig, match="is 32, which 3 processes and accumulate 1 cut into 3"):
        World(0, 3, CPU).slices([33, 32], 1)


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise RuntimeError("a bug")


@pytest.mark.parametrize("end, code", [(kill_self, -signal.SIGKILL), (fail, 1)])
def test_the_end_of_one_process_ends_the_others_with_run_again(tmp_path, alone, end, code):
    """The process that has a bug exits as with any bug, and the others say `run again`."""
    _, codes = train(tmp_path, 2, lambda rank: rank == 1 and at_step(4, end))
    assert codes == [75, code]
    assert "another process of this run has ended" in (tmp_path / "error-0").read_text()


def test_a_nonfinite_number_in_one_process_stops_all_before_the_update(tmp_path, alone):
    def poison(rank):
        original = World.sum_in_place
        calls = iter(range(1000))

        def poisoned(self, tensors):  # the loss alone: no gradient tells the others
            if rank == 1 and next(calls) == 2:  # the third step's
                tensors[0].fill_(float("inf"))
            original(self, tensors)

        World.sum_in_place = poisoned

    _, codes = train(tmp_path, 2, poison)
    assert codes == [70, 70]
    assert not checkpoint.steps(tmp_path)


def test_a_single_process_makes_its_gpu_the_current_one(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for name in ("cuda:1", "cuda", "cpu"):
        with join(torch.device(name), "test") as world:
            assert world.size == 1
    assert chosen == [torch.device("cuda:1")]
