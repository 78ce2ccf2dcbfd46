"""What checkpoints and evaluations would cost a run of `small` on an H100: `python benchmarks/saving.py`. An estimate.

Measured here, on one thread: the copy of a whole checkpoint, what another thread then does with it (looks for NaN,
writes, hashes, reads back), and what the host does with the scores of an evaluation. Assumed, since no GPU was there:
the speeds below. The share of the wall is given twice: as designed, where the loop waits for the copy alone, and as the
worst case, where the other thread held the interpreter all the time that it works. Writes
benchmarks/results/saving.json.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.pretraining.config import PretrainConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import area_under_curve
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.state import State
from pipelines.config.params import load

RESULT = Path("benchmarks/results/saving.json")
ASSUMED = {
    "tokens_per_second": 2.7e6,  # a roofline's upper end for an H100: the faster a step, the more an interruption costs
    "copy_bytes_per_second": 20e9,  # from a GPU into pinned memory; PCIe 5 x16 carries 64e9
    "launches_per_evaluated_batch": 1989,  # by an eager training step (benchmarks/results/rehearsal.json)
    "seconds_per_launch": 1e-5,  # by the host, of an evaluation's unrecorded pass
}


def seconds(work: Callable[[], Any], times: int) -> float:
    """The median of several tries."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def measure(times: int) -> dict[str, float]:
    """Bytes and seconds of one checkpoint and of one evaluation of `small`."""
    torch.set_num_threads(1)
    config = load().models["small"].electra()
    model = Pretraining(config, 30_522, SpecialIds(pad=0, cls=101, sep=102, mask=103))
    optimizer = optimizer_of(model)
    names = {parameter: name for name, parameter in model.named_parameters()}
    world = World(0, 1, torch.device("cpu"))
    copied, written = [], []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        state = State(Path(folder), {}, world, names, optimizer, aside=True)  # type: ignore[arg-type]
        for step in range(times + 1):  # the first copy gets the memory
            begun = time.perf_counter()
            state.save(step, {}, keep=2)
            copied.append(time.perf_counter() - begun)
            state.written()
            written.append(time.perf_counter() - begun - copied[-1])
        size = sum(tensor.nbytes for tensors in state.copies.values() for tensor in tensors.values())
        state.writer.shutdown()
    settings = config.pretrain
    draw = np.random.default_rng(0)
    count = settings.eval_batches * settings.batch * settings.length
    scores, truths = draw.normal(size=count).astype(np.float32), draw.random(count) < 0.09
    return {
        "checkpoint_bytes": size,
        "copy_seconds_here": statistics.median(copied[1:]),
        "write_aside_seconds_here": statistics.median(written[1:]),
        "evaluation_host_seconds_here": seconds(lambda: area_under_curve(scores, truths), times),
    }


def shares(settings: PretrainConfig, measured: dict[str, float], assumed: dict[str, float]) -> dict[str, float]:
    """Parts of the wall, and what they are made of."""
    step = settings.batch * settings.length / assumed["tokens_per_second"]
    between = {
        "save": max(settings.save_every * step, settings.min_save_interval_minutes * 60),
        "evaluation": max(settings.eval_every * step, settings.min_eval_interval_minutes * 60),
    }
    copy = measured["checkpoint_bytes"] / assumed["copy_bytes_per_second"]
    batch = max(step / 3, assumed["launches_per_evaluated_batch"] * assumed["seconds_per_launch"])
    look = settings.eval_batches * batch + measured["evaluation_host_seconds_here"]
    looking, worst = look / between["evaluation"], measured["write_aside_seconds_here"] + copy
    return {
        "seconds_between_saves": between["save"],
        "seconds_between_evaluations": between["evaluation"],
        "copy_seconds": copy,
        "evaluation_seconds": look,
        "share": copy / between["save"] + looking,
        "share_at_worst": worst / between["save"] + looking,
        "share_at_worst_by_steps_alone": worst / (settings.save_every * step) + look / (settings.eval_every * step),
    }


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--times", type=int, default=5, help="tries of each, of which the median counts")
    parse.add_argument("--output", type=Path, default=RESULT)
    options = parse.parse_args()
    facts = {"what": __doc__, "command": " ".join(["python", *sys.argv]), **provenance(("torch",))}
    measured = measure(options.times)
    estimated = shares(load().models["small"].electra().pretrain, measured, ASSUMED)
    write_json(options.output, facts | {"measured": measured, "assumed": ASSUMED, "estimated": estimated})
    print("\n".join(f"{name}: {value:,.4g}" for name, value in (measured | estimated).items()))
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
