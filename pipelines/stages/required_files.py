"""The files in a folder of official tasks that fine-tunings need, checked for before anything is read."""

import sys

from electra.errors import SourceUnreachable
from electra.finetuning.tasks import SQUAD
from pipelines.config.params import PAPER, Params
from pipelines.sources import LocalTasks, TaskSourceConfig, preview
from pipelines.sources.glue import official


def needed(params: Params, source: str, only: str = "") -> dict[str, str]:
    """Task -> the key that selects it, for all fine-tunings on a source of tasks, or for the `only` one."""
    keys: dict[str, str] = {}
    for name, config in params.finetunings.items():
        if config.tasks == source and only in {"", name}:
            changes, where = params.changes(name), f"recipes.{config.recipe}"
            run = f"{where if 'run' in changes else f'recipes.{PAPER}'}.run"
            for task in params.finetune.selected(changes, where, params.own_tasks(source)):
                keys.setdefault(task, run)
            for version in params.squad_versions(name):
                keys.setdefault(SQUAD[version], f"{where}.squad.versions")
    return keys or dict.fromkeys(params.finetune.run, f"recipes.{PAPER}.run")


def check_tasks(params: Params, name: str, finetuning: str = "") -> None:
    """Raise SourceUnreachable or BadInput unless every file of a source is there that fine-tunings (one) need."""
    source, where = params.tasks[name], f"tasks.{name}"
    preview.check(source, where)
    if isinstance(source, LocalTasks):
        _require(source, needed(params, name, finetuning), where)


def source_of(params: Params, name: str) -> TaskSourceConfig:
    """A source of tasks with its files here. Raises SourceUnreachable for one that is missing."""
    source = params.tasks[name]
    if isinstance(source, LocalTasks):
        _require(source, needed(params, name), f"tasks.{name}")
    return source


def _require(source: LocalTasks, tasks: dict[str, str], where: str) -> None:
    """A warning is enough for MNLI's second dev set."""
    for task, split, path in official(source.glue, source.squad):
        if task not in tasks or split.startswith("test") or path.is_file():
            continue
        if split in {"train", "dev"}:
            do = f"put it there, or leave {task} out of {tasks[task]}"
            raise SourceUnreachable(where, f"there is no {path}", f"the {split} rows of {task}", do)
        print(f"warning: {where}: there is no {path}; {task} is scored without its {split}", file=sys.stderr)
