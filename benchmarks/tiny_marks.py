"""The default run's marks over three pre-trainings, to benchmarks/results/tiny-marks.json: `benchmarks/tiny_marks.py`.

Pre-trains `tiny` with three seeds (one thread each; of the corpus, the tasks and the tokenizer there is one),
fine-tunes each on the nine tasks and SQuAD 2.0 with the same seed, and beside each the same network from fresh
weights. So the standard deviations are those of whole pre-trainings. What is finished is not done again;
`python benchmarks/tiny_marks.py 2` does the work of seed 2 alone and writes no record, so that several
processes can share it. Marks:

    mean of nine    at least 84, and at least 38 points over scratch
    each task       at least 20 points over scratch, and three standard deviations of pre-trainings over it
    SQuAD 2.0, F1   at least 25 points over scratch, and 20 over never answering
"""

import dataclasses
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.config import plain
from electra.files import write_json
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.pool import run_all
from electra.finetuning.tasks import GLUE
from pipelines.config.params import Params, load
from pipelines.stages import baselines, code_deps
from pipelines.stages.arms import Arm, train
from pipelines.stages.squad import never_answering

OUT = Path("benchmarks/results/tiny-marks.json")
MODEL, SEEDS, SQUAD = "tiny", (1, 2, 3), "squad2"
ARMS = ("pretrained", "scratch")
MEAN, GAIN, TASK_GAIN, SDS, SQUAD_GAIN, SQUAD_OVER_NULL = 84.0, 38.0, 20.0, 3.0, 25.0, 20.0
Scores = dict[str, dict[str, float]]  # by task and arm


def pretrained(params: Params, tokens: str, seed: int) -> tuple[Path, dict[str, Any]]:
    """The encoder of `tiny`, pre-trained with a seed on some rows, and the record of how."""
    config = params.models[MODEL].electra()
    config = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, seed=seed, threads=1))
    arm = Arm(f"tiny on {tokens}", seed, config, tokens)
    record = train(arm, params)
    return arm.folder / record["fingerprint"], record


def finetuned(
    params: Params, home: Path, seed: int, arms: Sequence[str], tasks: Sequence[str] = (*GLUE, SQUAD)
) -> tuple[Scores, Scores]:
    """Scores of each task on dev, and on as many training rows, by arm."""
    changes, source = params.changes(MODEL), params.finetunings[MODEL].tasks
    jobs = []
    for task in tasks:
        config = params.finetune.resolve_squad(changes) if task == SQUAD else params.finetune.resolve(task, changes)
        config = dataclasses.replace(config, seeds=(seed,), arms=tuple(arms), keep="none")  # type: ignore[arg-type]
        rows = Path("build/tasks") / source / task
        jobs += Plan(
            task, config, rows=rows, model=home / "point-1", state=home / "tasks/marks", code=code_deps.finetuning()
        ).jobs()
    scores, on_train = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for job, record in zip(jobs, run_all(jobs, 1), strict=True):
        task, metric = job.task.name, job.task.metrics[0]
        scores.setdefault(task, {})[job.arm] = record["metrics"][metric]
        if "train_metrics" in record:
            on_train.setdefault(task, {})[job.arm] = record["train_metrics"][metric]
    return scores, on_train


def prepare(params: Params) -> None:
    """Text, rows and tasks, by the stages themselves."""
    rows, source = params.models[MODEL].tokens, params.finetunings[MODEL].tasks
    for stage in (["inputs"], ["corpus", params.tokens[rows].corpus], ["tasks", source], ["tokens", rows]):
        subprocess.run([sys.executable, "-m", "pipelines", *stage], check=True)


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Values with mean and standard deviation (n - 1)."""
    return {
        "scores": [round(value, 2) for value in values],
        "mean": round(statistics.fmean(values), 2),
        "std": round(statistics.stdev(values), 2) if len(values) > 1 else None,
    }


def marks(tasks: dict[str, Any], mean: dict[str, Any], never: float) -> list[dict[str, Any]]:
    """Every mark with what was asked, what was found, and whether that is enough."""

    def one(what: str, asked: float, found: float) -> dict[str, Any]:
        return {"mark": what, "asked": asked, "found": round(found, 2), "met": found >= asked}

    def gain(of: dict[str, Any]) -> float:
        return float(of["pretrained"]["mean"] - of["scratch"]["mean"])

    found = [
        one("mean of nine", MEAN, mean["pretrained"]["mean"]),
        one("mean of nine over scratch", GAIN, gain(mean)),
        one("SQuAD 2.0 F1 over scratch", SQUAD_GAIN, gain(tasks[SQUAD])),
        one("SQuAD 2.0 F1 over never answering", SQUAD_OVER_NULL, tasks[SQUAD]["pretrained"]["mean"] - never),
    ]
    for task in GLUE:
        found.append(one(f"{task} over scratch", TASK_GAIN, gain(tasks[task])))
        sd = tasks[task]["pretrained"]["std"] or 1e-9
        found.append(one(f"{task} over scratch in standard deviations", SDS, gain(tasks[task]) / sd))
    return found


def main() -> None:
    origin, params = provenance(("torch", "scikit-learn")), load()
    if len(sys.argv) > 1:
        finetuned(params, pretrained(params, params.models[MODEL].tokens, seed := int(sys.argv[1]))[0], seed, ARMS)
        return
    prepare(params)
    model, runs, on_dev, on_train = params.models[MODEL], [], [], []
    source, changes = Path("build/tasks") / params.finetunings[MODEL].tasks, params.changes(MODEL)
    for seed in SEEDS:
        home, record = pretrained(params, model.tokens, seed)
        end = record["history"][-1]
        runs.append({"seed": seed, "steps": record["steps"], "flops": record["flops"], "disc_auc": end["disc_auc"]})
        scores, train_scores = finetuned(params, home, seed, ARMS)
        on_dev.append(scores)
        on_train.append(train_scores)
        print(f"seed {seed}: {scores}", flush=True)
    tasks: dict[str, Any] = {}
    for task in (*GLUE, SQUAD):
        arms = {arm: spread([scores[task][arm] for scores in on_dev]) for arm in ARMS}
        tasks[task] = {"metric": GLUE[task].metrics[0] if task in GLUE else "f1", **arms}
        if task in GLUE:
            rows, config = source / task, params.finetune.resolve(task, changes)
            tasks[task]["train"] = {arm: [round(scores[task][arm], 2) for scores in on_train] for arm in arms}
            tasks[task]["baselines"] = baselines.of_task(GLUE[task], rows, config)
    mean = {arm: spread([statistics.fmean(scores[task][arm] for task in GLUE) for scores in on_dev]) for arm in ARMS}
    never = never_answering(source / SQUAD)
    found = marks(tasks, mean, never)
    write_json(
        OUT,
        {
            "command": "python benchmarks/tiny_marks.py",
            "data": "sample world",
            "recipe": plain(model.electra()),
            "finetune": params.recipe(params.finetunings[MODEL].recipe),
            "pretrainings": runs,
            "mean_of_nine": mean,
            "tasks": tasks,
            "never_answering_f1": never,
            "marks": found,
            "missed": [mark["mark"] for mark in found if not mark["met"]],
            **origin,
        },
    )
    print(f"mean of nine {mean}, missed: {[mark['mark'] for mark in found if not mark['met']]}")


if __name__ == "__main__":
    main()
