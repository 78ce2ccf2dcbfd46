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
from electra.pretraining import distributed, trainer
from electra.pretraining.distributed import World, join
from electra.pretraining.step import Step
from electra.storage import checkpoint
from tests.conftest import free_port
from tests.electra import helpers
from tests.electra.helpers import TWO_STAGES, config
from tests.electra.pretraining.step_helpers import Rerun

FORK = multiprocessing.get_context("fork")
CLOSE = {"rel": 1e-5, "abs": 1e-6}
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
        helpers.train(run, settings)
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
        process.join(60)
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
        # another order of one pair moves it by 3e-5
        auc = ours.pop("disc_auc", 0)
        assert auc == pytest.approx(theirs.get("disc_auc", 0), abs=1e-4)
        assert ours == pytest.approx(
            {key: theirs[key] for key in theirs.keys() - {"disc_auc"}}, **CLOSE
        )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One process's curve, the batch in two slices; the compiler's imports happen once, before any
    fork.
    """

    return train(tmp_path_factory.mktemp("alone"))[0]


def test_two_processes_give_the_curve_of_one_with_dropout_too(tmp_path, alone):
    curve, codes = train(tmp_path, 2, pretrain__save_every=2)  # sums are pooled between records
    assert codes == [0, 0]
    agree(curve, alone)


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, alone, before, after):
    def ask(rank):
        if rank == before - 1:  # one process is asked, all of them stop at the same step
            at_step(3, lambda: os.kill(os.getpid(), signal.SIGTERM))

    _, codes = train(tmp_path, before, ask)
    assert codes == [75] * before and checkpoint.steps(tmp_path) == [4]
    curve, codes = train(tmp_path, after)
    assert codes == [0] * after
    agree(curve, alone)


def test_accumulation_and_processes_cut_a_batch_into_the_same_slices():
    def cut(size, accumulate):
        worlds = [World(rank, size, torch.device("cpu")) for rank in range(size)]
        return [list(world.slices([32], accumulate)[1]) for world in worlds]

    assert cut(1, 4) == [[0, 1, 2, 3]]
    assert cut(2, 4) == [[0, 1], [2, 3]]
    assert cut(4, 4) == [[0], [1], [2], [3]]
    assert cut(2, 1) == [[0], [1]]
    with pytest.raises(
        BadConfig, match="is 32, which 3 processes and accumulate 1 cut into 3 slices"
    ):
        World(0, 3, torch.device("cpu")).slices([33, 32], 1)


def test_the_end_of_one_process_ends_the_others_with_run_again(tmp_path, alone):
    def die(rank):
        if rank == 1:
            at_step(4, lambda: os.kill(os.getpid(), signal.SIGKILL))

    _, codes = train(tmp_path, 2, die)
    assert codes == [75, -signal.SIGKILL]
    assert "another process of this run has ended" in (tmp_path / "error-0").read_text()


def test_a_nonfinite_number_in_one_process_stops_all_before_the_update(tmp_path, alone):
    def poison(rank):
        original = World.sum_in_place
        calls = iter(range(1000))

        def poisoned(self, tensors):  # the loss alone: no gradient tells the others
            if rank == 1 and next(calls) == 4:  # the third step's
                tensors[0].fill_(float("inf"))
            original(self, tensors)

        World.sum_in_place = poisoned

    _, codes = train(tmp_path, 2, poison)
    assert codes == [70, 70]
    assert not checkpoint.steps(tmp_path)


def test_parameters_without_a_gradient_in_a_stage_are_no_obstacle(tmp_path, alone):
    expected, _ = train(tmp_path / "one", 1, **TWO_STAGES)
    curve, codes = train(tmp_path / "two", 2, **TWO_STAGES)
    assert codes == [0, 0]
    agree(curve, expected)


def test_a_bug_in_one_of_several_processes_keeps_its_name(monkeypatch):
    monkeypatch.setattr(distributed, "rank", lambda: (0, 2))
    monkeypatch.setattr(distributed, "_end_with", lambda parent: None)
    for name in ("init_process_group", "get_rank", "get_world_size"):
        monkeypatch.setattr(torch.distributed, name, lambda *_: 0)
    with pytest.raises(RuntimeError, match="a bug"), join(torch.device("cpu"), "test"):
        raise RuntimeError("a bug")


@pytest.mark.parametrize(
    "device, expected", [("cuda:1", [torch.device("cuda:1")]), ("cuda", []), ("cpu", [])]
)
def test_a_single_process_makes_its_gpu_the_current_one(monkeypatch, device, expected):
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    with join(torch.device(device), "test") as world:
        assert world.size == 1 and chosen == expected


@pytest.mark.slow
@pytest.mark.parametrize("slices", [2, 4])
def test_two_processes_that_capture_their_steps_give_the_curve_of_one(tmp_path, slices, alone):
    """Gradients are summed between the captured slices and the captured update: no collective is in
    a capture.
    """

    def capture(rank):
        def captured(*args, **options):
            return Step(*args, **options | {"graphs": Rerun()})

        pytest.MonkeyPatch().setattr(trainer, "Step", captured)

    expected = alone if slices == 2 else train(tmp_path / "alone", pretrain__accumulate=slices)[0]
    curve, codes = train(tmp_path / "two", 2, capture, pretrain__accumulate=slices)
    assert codes == [0, 0]
    agree(curve, expected)
