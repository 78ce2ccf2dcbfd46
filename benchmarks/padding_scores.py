"""Does fine-tuning without padding score like fine-tuning with it? `python benchmarks/padding_scores.py tiny --seeds 10`.

Fine-tunes a finished model on GLUE's tasks (or those named) with some seeds, once as the project does and once with every row
padded to the task's length and masked, by the encoder of pre-training. Settings are the model's, with dropout 0.1 in both
arms: a seed's draws then fall on other tokens, so scores are compared over seeds: the means of the arms should lie within
one pooled standard deviation. By chance alone two like arms of 5 seeds miss that once in nine times, of 10 seeds once in 40
(the difference of their means has a standard error of sqrt(2 / seeds) standard deviations). Without dropout, logits and
gradients of both are compared in tests/electra/finetuning/test_batches.py. Writes benchmarks/results/padding-scores-M.json,
or padding-scores-M-TASKS.json for the tasks named.
"""

import argparse
import dataclasses
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.finetuning import heads
from electra.finetuning.batches import Batch
from electra.finetuning.job import Job
from electra.finetuning.jobs import plan
from electra.finetuning.solve import solve
from electra.finetuning.tasks import GLUE
from electra.finetuning.unpadded import first_hidden
from electra.model.encoder import Encoder
from electra.progress import Progress
from electra.workers import run_units, worker_count
from pipelines.params import load

First = Callable[[Encoder, Batch], Tensor]


def padded(length: int) -> First:
    """What `first_hidden` gives, by the padded encoder on rows of `length`."""

    def first(encoder: Encoder, batch: Batch) -> Tensor:
        ids_BT, segments_BT = batch.grid(batch.ids_P, 0), batch.grid(batch.segments_P, 0)
        missing = (0, length - ids_BT.shape[1])
        length_B = torch.bincount(batch.row_P, minlength=len(batch))
        hidden_BTH: Tensor = encoder(F.pad(ids_BT, missing), F.pad(segments_BT, missing), length_B)
        return hidden_BTH[:, 0]

    return first


def score(unit: tuple[Job, str]) -> float:
    """The task's metric on its dev rows after fine-tuning in one arm."""
    job, arm = unit
    torch.set_num_threads(1)
    heads.first_hidden = padded(job.config.length) if arm == "padded" else first_hidden
    return float(solve(job).record["metrics"][GLUE[job.task].metrics[0]])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("model", help="a finished model of params.yaml")
    options.add_argument("tasks", nargs="*", default=list(GLUE), help="of GLUE; default all nine")
    options.add_argument("--seeds", type=int, default=10)
    given = options.parse_args()
    name, tasks, seeds = given.model, given.tasks, tuple(range(1, given.seeds + 1))
    params = load()
    model = params.models[name]
    encoder = Path("build/models") / name / "encoder"
    work: list[tuple[Job, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks:
            config = params.finetune.resolve(task, model.finetune, f"models.{name}.finetune", {})
            config = dataclasses.replace(
                config, dropout=0.1, head_dropout=0.1, seeds=seeds, arms=("pretrained",), keep="none"
            )
            jobs = plan(task, config, rows=Path("build/tasks") / model.tasks / task, model=encoder, state=Path(folder))
            work += [(job, arm) for job in jobs for arm in ("unpadded", "padded")]
        found: dict[str, dict[str, list[float]]] = {task: {"unpadded": [], "padded": []} for task in tasks}
        results: dict[int, float] = {}
        with Progress("padding scores", len(work), "runs") as progress:
            for index, value in run_units(score, work, worker_count(), preload=("electra.finetuning.preload",)):
                results[index] = value
                progress.update(len(results))
    for index, (job, arm) in enumerate(work):
        found[job.task][arm].append(results[index])
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
        "data": model.tasks,
        "seeds": seeds,
        "tasks": facts,
        **provenance(("torch",)),
    }
    named = "" if tasks == list(GLUE) else f"-{'-'.join(tasks)}"
    write_json(Path(f"benchmarks/results/padding-scores-{name}{named}.json"), record)


if __name__ == "__main__":
    main()
