"""Does fine-tuning without padding score like fine-tuning with it? `python benchmarks/padding_scores.py tiny`.

Fine-tunes a finished model on GLUE's tasks (or those named) with some seeds, once as the project does and once with
every row padded to the task's length and masked, by the encoder of pre-training. Settings are the model's, with dropout
0.1 in both arms. The means of the arms should lie within one pooled standard deviation. Which numbers dropout draws:

- `--draws shared` (the default): each number belongs to a cell of the padded grid, so that a seed drops the same in
  both arms and padding is all that differs.
- `--draws own`: each arm draws what it needs, as in use; a seed's numbers then fall on other tokens. By chance alone
  two like arms of 5 seeds miss the mark once in nine times, of 20 seeds once in 600 (the difference of their means has
  a standard error of sqrt(2 / seeds) standard deviations).

Without dropout, logits and gradients of both are compared in tests/electra/finetuning/test_batches.py, with shared
draws in tests/benchmarks/test_padding_scores.py. Writes benchmarks/results/padding-scores-M-DRAWS.json, or
padding-scores-M-DRAWS-TASKS.json for the tasks named.
"""

import argparse
import dataclasses
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.finetuning import heads
from electra.finetuning.batches import PackedBatch
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.solve import solve
from electra.finetuning.tasks import GLUE
from electra.finetuning.unpadded import first_hidden
from electra.nn import attention, dropout
from electra.nn.encoder import Encoder
from electra.workers import run_units, worker_count
from pipelines.config.params import load
from pipelines.runtime.progress_bar import ProgressBar

First = Callable[[Encoder, PackedBatch], Tensor]


def padded(length: int) -> First:
    """What `first_hidden` gives, by the padded encoder on rows of `length`."""

    def first(encoder: Encoder, batch: PackedBatch) -> Tensor:
        ids_BT, segments_BT = batch.grid(batch.ids_P, 0), batch.grid(batch.segments_P, 0)
        missing = (0, length - ids_BT.shape[1])
        length_B = torch.bincount(batch.row_P, minlength=len(batch))
        hidden_BTH: Tensor = encoder(F.pad(ids_BT, missing), F.pad(segments_BT, missing), length_B)
        return hidden_BTH[:, 0]

    return first


@contextmanager
def shared_draws(length: int) -> Iterator[Callable[[First], First]]:
    """Meanwhile dropout draws for every cell of the grid of B rows of `length`, a cell's number for its token.

    Gives a wrapper for `first_hidden` and its like, which tells what batch is being read: what is dropped does not say.
    """
    draw, elements = dropout._compare, attention._ELEMENTS
    now: list[PackedBatch] = []

    def wrapper(first: First) -> First:
        def told(encoder: Encoder, batch: PackedBatch) -> Tensor:
            now[:] = [batch]
            return first(encoder, batch)

        return told

    def compare(comparison: Callable[..., Tensor], like: Tensor, rate: float) -> Tensor:
        (batch,) = now
        rows, *inner, width = like.shape
        if like.ndim == 4:  # attention of B rows: all queries, or the first alone
            cells = draw(comparison, like.new_empty(rows, inner[0], length, length), rate)
            return cells[:, :, : inner[1], :width].contiguous()
        cells = draw(comparison, like.new_empty(len(batch), length, width), rate)
        if like.ndim == 3:
            return cells
        return cells[:, 0] if rows == len(batch) else cells[batch.row_P, batch.positions_P]

    dropout._compare, attention._ELEMENTS = compare, sys.maxsize  # all rows in one pass, so that they draw at once
    try:
        yield wrapper
    finally:
        dropout._compare, attention._ELEMENTS = draw, elements


def score(unit: tuple[Job, str, str]) -> float:
    """The task's metric on its dev rows after fine-tuning in one arm."""
    job, arm, draws = unit
    torch.set_num_threads(1)
    first = padded(job.config.length) if arm == "padded" else first_hidden
    with shared_draws(job.config.length) if draws == "shared" else nullcontext(lambda same: same) as wrapper:
        heads.first_hidden = wrapper(first)
        return float(solve(job).record["metrics"][job.task.metrics[0]])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("model", help="a finished model of params.yaml")
    options.add_argument("tasks", nargs="*", default=list(GLUE), help="of GLUE; default all nine")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--draws", choices=("shared", "own"), default="shared")
    given = options.parse_args()
    name, tasks, seeds = given.model, given.tasks, tuple(range(1, given.seeds + 1))
    params = load()
    source = params.finetunings[name].tasks
    encoder = Path("build/models") / name / "encoder"
    work: list[tuple[Job, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks:
            config = params.finetune.resolve(task, params.changes(name))
            config = dataclasses.replace(
                config, dropout=0.1, head_dropout=0.1, seeds=seeds, arms=("pretrained",), keep="none"
            )
            jobs = Plan(
                task, config, rows=Path("build/tasks") / source / task, model=encoder, state=Path(folder)
            ).jobs()
            work += [(job, arm, given.draws) for job in jobs for arm in ("unpadded", "padded")]
        found: dict[str, dict[str, list[float]]] = {task: {"unpadded": [], "padded": []} for task in tasks}
        results: dict[int, float] = {}
        with ProgressBar("padding scores", len(work), "runs") as progress:
            for index, value in run_units(score, work, worker_count(), preload=("electra.finetuning.runs.preload",)):
                results[index] = value
                progress.update(len(results))
    for index, (job, arm, _) in enumerate(work):
        found[job.task.name][arm].append(results[index])
    facts: dict[str, Any] = {}
    for task, arms in found.items():
        means = {arm: statistics.fmean(values) for arm, values in arms.items()}
        pooled = math.sqrt(statistics.fmean(statistics.variance(values) for values in arms.values()))
        difference = means["unpadded"] - means["padded"]
        facts[task] = {
            "metric": GLUE[task].metrics[0],
            "scores": arms,
            "mean": means,
            "pooled_std": pooled,
            "difference": difference,
            "standard_error": pooled * math.sqrt(2 / len(seeds)),
            "within_one_std": abs(difference) <= pooled,
        }
        print(f"{task}: {means['unpadded']:.2f} without padding, {means['padded']:.2f} with, std {pooled:.2f}")
    record = {
        "what": __doc__,
        "command": f"python benchmarks/padding_scores.py {' '.join(sys.argv[1:])}",
        "model": name,
        "data": source,
        "seeds": seeds,
        "draws": given.draws,
        "tasks": facts,
        **provenance(("torch",)),
    }
    named = "" if tasks == list(GLUE) else f"-{'-'.join(tasks)}"
    write_json(Path(f"benchmarks/results/padding-scores-{name}-{given.draws}{named}.json"), record)


if __name__ == "__main__":
    main()
