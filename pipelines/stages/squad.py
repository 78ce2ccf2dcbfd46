"""Fine-tune on SQuAD, pre-trained and from scratch: build/squad/M/<version> (answers, null scores).

The answers are in the official format and as they would be handed in: left empty where the null
score is above the threshold. Finished runs are in runs/finetune, as in the glue stage.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.config import to_jsonable
from electra.files import atomic_folder, read_jsonl, write_json
from electra.finetuning.tasks import SQUAD
from electra.storage.manifest import write_manifest
from pipelines.config.params import Params
from pipelines.finetuning_runs import summary
from pipelines.finetuning_runs.job import Job, answer_together
from pipelines.stages import BUILD, RESULTS, glue, inputs
from pipelines.tracking import flatten

SUFFIXES = {
    "dev.json": ".json",
    "dev-null-odds.json": "-null-odds.json",
    "dev-nbest.json": "-nbest.json",
}


def run(name: str, params: Params, tracker: Any) -> None:
    """Run the stage: every version, arm and seed. Then answers and scores. Nothing where a source
    has no SQuAD.
    """
    config = params.finetunings[name]
    rows = inputs.task_rows(config.tasks)
    encoder = inputs.encoder_folder(config.model, params)
    jobs: list[Job] = []
    for version in params.squad_versions(name):
        jobs += glue.plan_task(SQUAD[version], params.task_config(name, "squad"), rows, encoder)
    workers = glue.count_workers(params, config.model)
    records = glue.run_jobs(jobs, workers, f"squad {name}", tracker)
    versions: dict[str, Any] = {}
    for job in {job.task.name: job for job in jobs}.values():
        facts = summary.summarize_task(job.task, records[job.task.name])
        facts["baselines"] = {"never_answering": never_answering(job.rows)}
        versions[glue.folder_name(job)] = facts
    with atomic_folder(BUILD / "squad" / name) as folder:
        glue.copy_outputs(jobs, folder, SUFFIXES)
        for version, figures in write_ensembles(jobs, folder).items():
            versions[version]["ensemble"] = figures
        result = {
            **glue.label(params, config.tasks),
            "versions": versions,
            "provenance": glue.provenance(jobs),
        }
        write_json(folder / RESULTS, result)
        write_manifest(folder, kind="squad", name=name)


def settings(name: str, params: Params) -> dict[str, str]:
    """Return the settings in use: none where the source has no SQuAD."""
    if not params.squad_versions(name):
        return {}
    return flatten(to_jsonable(params.task_config(name, "squad")))


def never_answering(rows: Path) -> float:
    """Return exact match and F1, in points, of leaving every dev question unanswered."""
    dev = read_jsonl(rows / "dev.jsonl")
    return round(100 * sum(not row["answers"] for row in dev) / len(dev), 4)


def write_ensembles(jobs: Sequence[Job], folder: Path) -> dict[str, dict[str, Any]]:
    """Write the answers of the seeds of each version and arm as one, where the settings ask for it.
    Return their dev scores.
    """
    scores: dict[str, dict[str, Any]] = {}
    for (_, arm), runs in glue.group_by_arm([job for job in jobs if job.candidates]):
        figures, files = answer_together(runs)
        version = glue.folder_name(runs[0])
        for name, content in files.items():
            write_json(folder / version / f"{arm}-ensemble{SUFFIXES[name]}", content)
        scores.setdefault(version, {})[arm] = {"seeds": [job.seed for job in runs], **figures}
    return scores
