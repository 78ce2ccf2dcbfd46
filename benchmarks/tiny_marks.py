"""The default run over eight pre-trainings, to benchmarks/results/tiny-marks.json: `python
benchmarks/tiny_marks.py`.

Pre-trains `tiny` as `dvc repro` does, with eight seeds (of the corpus, the tasks and the tokenizer
there is one), fine-tunes each on the nine tasks and SQuAD 2.0 with the same seed, and beside each
the same network from fresh weights. So the standard deviations are those of whole pre-trainings.
What is finished is not done again.
"""

import dataclasses
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import arguments, provenance, write_record
from electra.config import plain
from electra.finetuning.tasks import GLUE
from electra.storage.run_dir import RunFolder
from pipelines.config.params import Params, load
from pipelines.finetuning_runs.plan import Plan, run_all
from pipelines.stages import FINETUNING, baselines, corpus, tasks, tokens
from pipelines.stages.ablation import Arm, arm_folder, train
from pipelines.stages.pretrain import ModelRows
from pipelines.stages.squad import never_answering
from pipelines.tracking import Tracker
from pipelines.versioning.code import digest_of

MODEL, SEEDS, SQUAD = "tiny", range(1, 9), "squad2"
ARMS = ("pretrained", "scratch")
METRICS = {task: facts.metrics[0] for task, facts in GLUE.items()} | {SQUAD: "f1"}
Scores = dict[str, dict[str, dict[str, float]]]  # metrics or train_metrics, task, arm


def prepare(params: Params) -> None:
    """Text, rows and tasks, by the stages themselves."""
    rows, source = params.models[MODEL].tokens, params.finetunings[MODEL].tasks
    for stage, name in ((corpus, params.tokens[rows].corpus), (tasks, source), (tokens, rows)):
        stage.run(name, params, Tracker(None))


def scores_of(params: Params, seed: int) -> tuple[Scores, dict[str, Any]]:
    """Pre-train with a seed and fine-tune; the scores, and how the pre-training ended."""
    model, changes = params.models[MODEL], params.changes(MODEL)
    settings = dataclasses.replace(model.electra().pretrain, seed=seed)
    arm = Arm(
        f"tiny on {model.tokens}",
        seed,
        dataclasses.replace(model.electra(), pretrain=settings),
        model.tokens,
    )
    with RunFolder(arm_folder(arm, params), patience=math.inf) as held:
        home, record = held.path, train(arm, ModelRows(params, arm.tokens, arm.config), held)
    jobs, rows = [], Path("build/tasks") / params.finetunings[MODEL].tasks
    for task in METRICS:
        config = params.finetune.resolve(task, changes)
        config = dataclasses.replace(config, seeds=(seed,), arms=ARMS, keep="none")
        where = {"rows": rows / task, "model": home / "point-1", "state": home / "tasks/marks"}
        jobs += Plan(task, config, **where, code=digest_of(FINETUNING)).jobs()
    found: Scores = {"metrics": {}, "train_metrics": {}}
    for job, done in zip(jobs, run_all(jobs, 1), strict=True):
        for kind in found.keys() & done.keys():
            found[kind].setdefault(job.task.name, {})[job.arm] = done[kind][METRICS[job.task.name]]
    print(f"seed {seed}: {found['metrics']}", flush=True)
    end = {"disc_auc": record["history"][-1]["disc_auc"]}
    return found, {"seed": seed, "steps": record["steps"], "flops": record["flops"], **end}


def deviation(values: Sequence[float]) -> dict[str, Any]:
    """Values with mean and standard deviation (n - 1)."""
    found = [round(value, 2) for value in values]
    return {
        "scores": found,
        "mean": round(statistics.fmean(values), 2),
        "std": round(statistics.stdev(values), 2),
    }


def main() -> None:
    options = arguments(__doc__, "tiny-marks.json").parse_args()
    origin, params = provenance("torch", "scikit-learn"), load()
    prepare(params)
    scores, runs = zip(*(scores_of(params, seed) for seed in SEEDS), strict=True)
    rows, changes = Path("build/tasks") / params.finetunings[MODEL].tasks, params.changes(MODEL)
    found: dict[str, Any] = {}
    for task, metric in METRICS.items():
        found[task] = {"metric": metric}
        found[task] |= {
            arm: deviation([each["metrics"][task][arm] for each in scores]) for arm in ARMS
        }
        if task in GLUE:
            train_scores = {
                arm: [round(each["train_metrics"][task][arm], 2) for each in scores] for arm in ARMS
            }
            chance = baselines.score_baselines(
                GLUE[task], rows / task, params.finetune.resolve(task, changes)
            )
            found[task] |= {"train": train_scores, "baselines": chance}
    means = {
        arm: [statistics.fmean(each["metrics"][task][arm] for task in GLUE) for each in scores]
        for arm in ARMS
    }
    record = {
        "data": "sample world",
        "recipe": plain(params.models[MODEL].electra()),
        "finetune": params.recipe(params.finetunings[MODEL].recipe),
        "pretrainings": runs,
        "mean_of_nine": {arm: deviation(values) for arm, values in means.items()},
        "tasks": found,
        "never_answering_f1": never_answering(rows / SQUAD),
    }
    write_record(options.output, record, origin)


if __name__ == "__main__":
    main()
