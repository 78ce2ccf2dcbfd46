"""The files and data sets that stages need, checked for before anything is read."""

import sys
from pathlib import Path

from electra.errors import SourceUnreachable
from electra.finetuning.tasks import SQUAD
from pipelines.config.params import PAPER, Params
from pipelines.sources import (
    CustomTasks,
    HubCorpus,
    HubTasks,
    LocalCorpus,
    LocalTasks,
    SourceConfig,
    TaskSourceConfig,
    hub,
)
from pipelines.sources.glue import official
from pipelines.sources.paths import find_files, require_folder


def check_source(source: SourceConfig | TaskSourceConfig, where: str = "source") -> None:
    """Raise SourceUnreachable or BadInput unless a source is there; read nothing of it."""
    if isinstance(source, LocalCorpus):
        find_files(source.files, where)
    elif isinstance(source, HubCorpus):
        hub.resolve(source.dataset, source.revision, where)
    elif isinstance(source, LocalTasks):
        for text in filter(None, (source.glue, source.squad)):
            require_folder(Path(text), where)
    elif isinstance(source, CustomTasks):
        for task in source.tasks.values():
            find_files(tuple(filter(None, (task.train, task.dev, task.test))), where)
    elif isinstance(source, HubTasks):
        for part in filter(None, (source.glue, source.squad1, source.squad2)):
            hub.resolve(part.dataset, part.revision, where)


def needed(params: Params, source: str, only: str = "") -> dict[str, str]:
    """Return task -> the key that selects it, for all fine-tunings on a source of tasks, or for the
    `only` one.
    """
    keys: dict[str, str] = {}
    for name, config in params.finetunings.items():
        if config.tasks == source and only in {"", name}:
            changes = params.changes(name)
            where = f"recipes.{config.recipe}"
            run = f"{where if 'run' in changes else f'recipes.{PAPER}'}.run"
            for task in params.finetune.selected(changes, where, params.own_tasks(source)):
                keys.setdefault(task, run)
            for version in params.squad_versions(name):
                keys.setdefault(SQUAD[version], f"{where}.squad.versions")
    return keys or dict.fromkeys(params.finetune.run, f"recipes.{PAPER}.run")


def check_tasks(params: Params, name: str, finetuning: str = "") -> None:
    """Raise SourceUnreachable or BadInput unless all files of a source are there that fine-tunings
    (one) need.
    """
    source = params.tasks[name]
    where = f"tasks.{name}"
    check_source(source, where)
    if isinstance(source, LocalTasks):
        _require(source, needed(params, name, finetuning), where)


def source_of(params: Params, name: str) -> TaskSourceConfig:
    """Return a source of tasks; raise SourceUnreachable for a file that is missing."""
    source = params.tasks[name]
    if isinstance(source, LocalTasks):
        _require(source, needed(params, name), f"tasks.{name}")
    return source


def _require(source: LocalTasks, tasks: dict[str, str], where: str) -> None:
    """Raise SourceUnreachable for a missing file; a warning is enough for MNLI's second dev set."""
    for task, split, path in official(source.glue, source.squad):
        if task not in tasks or split.startswith("test") or path.is_file():
            continue
        if split in {"train", "dev"}:
            do = f"put the {split} rows of {task} there, or leave {task} out of {tasks[task]}"
            raise SourceUnreachable(f"{where}: there is no {path}; {do}")
        print(
            f"warning: {where}: there is no {path}; {task} is scored without its {split}",
            file=sys.stderr,
        )
