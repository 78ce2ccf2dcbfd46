"""Fine-tune on SQuAD, pre-trained and from scratch: build/squad/M/<version> (answers, null scores).

The answers are in the official format and as they would be handed in: left empty where the null
score is above the threshold. Finished runs are in runs/finetune, as in the glue stage.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.config import plain
from electra.files import atomic_folder, lock_folder, read_jsonl, write_json
from electra.finetuning.tasks import SQUAD
from electra.storage.manifest import write_manifest
from pipelines.config.params import Params
from pipelines.finetuning_runs import summary
from pipelines.finetuning_runs.job import Job, answer_together
from pipelines.stages import RESULTS, verified_inputs
from pipelines.stages.glue import (
    FINETUNING,
    gather,
    label,
    of_arms,
    place,
    plan,
    provenance,
    run_jobs,
    workers,
)
from pipelines.tracking import flatten

FILES = {
    "dev.json": ".json",
    "dev-null-odds.json": "-null-odds.json",
    "dev-nbest.json": "-nbest.json",
}


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage: every version, arm and seed; then answers and scores. Nothing where a source has
    no SQuAD.
    """
    config = params.finetunings[name]
    rows, encoder = (
        verified_inputs.task_rows(config.tasks),
        verified_inputs.encoder(config.model, params),
    )
    jobs = []
    for version in (wanted := params.squad_versions(name)):
        settings = params.finetune.resolve_squad(params.changes(name), f"recipes.{config.recipe}")
        jobs += plan(SQUAD[version], settings, rows, encoder)
    with lock_folder(FINETUNING / f".squad-{name}"):
        records = run_jobs(jobs, workers(params, config.model), f"squad {name}", tracker)
        with atomic_folder(Path("build/squad") / name) as folder:
            gather(jobs, folder, FILES)
            together = ensembles(jobs, folder)
            versions = {
                place(job): summary.of_task(job.task, records[job.task.name]) for job in jobs
            }
            for version in wanted:
                versions[version]["baselines"] = {
                    "never_answering": never_answering(rows / SQUAD[version])
                }
            for version, figures in together.items():
                versions[version]["ensemble"] = figures
            result = {
                **label(params, config.tasks),
                "versions": versions,
                "provenance": provenance(jobs),
            }
            write_json(folder / RESULTS, result)
            write_manifest(folder, kind="squad", name=name)


def settings(name: str, params: Params) -> dict[str, str]:
    """Return the settings in use."""
    recipe = f"recipes.{params.finetunings[name].recipe}"
    return flatten(plain(params.finetune.resolve_squad(params.changes(name), recipe)))


def never_answering(rows: Path) -> float:
    """Exact match and F1, in points, of one who leaves every dev question unanswered."""
    dev = read_jsonl(rows / "dev.jsonl")
    return round(100 * sum(not row["answers"] for row in dev) / len(dev), 4)


def ensembles(jobs: Sequence[Job], folder: Path) -> dict[str, dict[str, Any]]:
    """The seeds of each version and arm as one, where the settings ask for it: its files and its
    dev scores.
    """
    scores: dict[str, dict[str, Any]] = {}
    for (_, arm), runs in of_arms([job for job in jobs if job.candidates]):
        (figures, files), version = answer_together(runs), place(runs[0])
        for name, content in files.items():
            write_json(folder / version / f"{arm}-ensemble{FILES[name]}", content)
        scores.setdefault(version, {})[arm] = {"seeds": [job.seed for job in runs], **figures}
    return scores
