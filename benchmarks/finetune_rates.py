"""Was either arm helped by its learning rate? `python benchmarks/finetune_rates.py tiny 2.5e-4 5e-4 1e-3 2e-3`.

Fine-tunes a finished model and the same model from scratch on all its tasks and SQuAD at each rate, with the seeds of
params.yaml, and writes benchmarks/results/finetune-rates-M.json: for each rate and arm the mean over the tasks and
SQuAD's F1, seed by seed. What it has done it does not repeat (runs/finetune-rates-M).
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance as origin
from electra.files import write_json
from electra.finetuning.runs import summary
from electra.finetuning.runs.plan import Plan
from electra.finetuning.tasks import SQUAD
from pipelines.config.params import Params, load
from pipelines.stages.glue import configs_of, is_sample, label, plan_glue, provenance, run_jobs, workers
from pipelines.tracking import Tracker

ARMS = ("pretrained", "scratch")


def at_rate(params: Params, name: str, rate: float) -> dict[str, Any]:
    """Both arms at one rate."""
    config = params.finetunings[name]
    rows, encoder = Path("build/tasks") / config.tasks, Path("build/models") / config.model / "encoder"
    state = Path(f"runs/finetune-rates-{name}") / f"{rate:g}"
    configs = {key: dataclasses.replace(one, learning_rate=rate) for key, one in configs_of(name, params).items()}
    jobs = plan_glue(configs, rows, encoder, state)
    squad = dataclasses.replace(params.finetune.resolve_squad(params.changes(name)), learning_rate=rate)
    task = SQUAD[squad.versions[0]]
    jobs += Plan(task, squad, rows=rows / task, model=encoder, state=state).jobs()
    records = run_jobs(jobs, workers(params, config.model), f"{name} at {rate:g}", Tracker(None), first_metric)
    answers = summary.of_squad(records.pop(task))
    by_name = {job.task.name: job.task for job in jobs}
    tasks = {key: summary.of_task(by_name[key], found) for key, found in records.items()}
    return {
        **summary.average(tasks, sample=is_sample(params, config.tasks)),
        "tasks": {key: {arm: found[arm]["mean"] for arm in ARMS} for key, found in tasks.items()},
        f"{task} f1": {arm: answers[arm]["f1"] for arm in ARMS},
        "provenance": provenance(jobs),
    }


def first_metric(record: dict[str, Any]) -> float:
    """What the progress line shows."""
    return float(next(iter(record["metrics"].values())))


def main() -> None:
    name, *rates = sys.argv[1:]
    params = load()
    found = {rate: at_rate(params, name, float(rate)) for rate in rates}
    record = {
        "command": f"python benchmarks/finetune_rates.py {' '.join(sys.argv[1:])}",
        **label(params, params.finetunings[name].tasks),
        "rates": found,
        **origin(),
    }
    write_json(Path(f"benchmarks/results/finetune-rates-{name}.json"), record)


if __name__ == "__main__":
    main()
