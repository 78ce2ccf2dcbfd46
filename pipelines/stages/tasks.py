"""tasks@T: GLUE and SQuAD, wherever they come from → build/tasks/T/<task>/<split>.jsonl, one row a
line.

The sample world writes the official layouts first (build/tasks/T/official) and they are read back
by the same reader as the official files. Rows in = rows kept + rows quarantined, for every task and
split.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.config import to_jsonable
from electra.errors import BadInput, pluralize
from electra.files import atomic_folder, sha256_file, write_json, write_jsonl
from electra.finetuning.tasks import FACTS
from electra.storage.manifest import MANIFEST, write_manifest
from pipelines.sources import (
    CustomTasks,
    HubTasks,
    SampleTasks,
    TaskSourceConfig,
    custom_tasks,
    glue,
    hub,
    squad,
)
from pipelines.sources.paths import require_folder
from pipelines.sources.streams import Skipped
from pipelines.stages import BUILD, RESULTS
from pipelines.stages.inputs import require_task_files
from pipelines.stages.progress_bar import ProgressBar, print_left_out
from pipelines.text.cleaning import QuarantineConfig, Rejected

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

Row = dict[str, Any]
Split = tuple[str, str, Iterator[Row | Rejected | Skipped]]  # task, split, rows


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """Run the stage: params.yaml `tasks.<name>` → build/tasks/<name>."""
    folder = BUILD / "tasks" / name
    key = f"tasks.{name}"
    metrics = gather(require_task_files(params, name), key, folder)
    bad = metrics["quarantined"]
    advice = f"see {folder / 'quarantine.jsonl'}, and {key}.quarantine to change it"
    print_left_out(key, bad, metrics["rows"] + bad, "rows", "cannot be read", advice)
    tracker.summary(metrics["tasks"])
    tracker.dataset(f"tasks/{name}", sha256_file(folder / MANIFEST), "tasks")


def gather(source: TaskSourceConfig, where: str, folder: Path) -> dict[str, Any]:
    """Write the rows of every task that the source has to `folder`. Return the rows kept and
    quarantined.
    """
    tasks: dict[str, dict[str, dict[str, int]]] = {}
    quarantine: list[dict[str, str]] = []
    training_inputs: set[int] = set()
    total = 0

    def warn(count: int, place: str, fault: str) -> None:
        print(f"warning: {where}: {place}: {pluralize(count, 'row')} {fault}", file=sys.stderr)

    with atomic_folder(folder) as temporary, ProgressBar(where, 0, "rows") as progress:
        for task, split, rows in open_splits(source, where, temporary / "official"):
            items = []
            for item in rows:
                items.append(item)
                progress.update(progress.done + 1, task=task)
            kept, bad = read_split(task, split, items, where, source.quarantine)
            write_jsonl(temporary / task / f"{split}.jsonl", kept)
            quarantine += bad
            total += len(kept)
            counts = {"rows": len(kept), "quarantined": len(bad)}
            tasks.setdefault(task, {})[split] = counts
            if skipped := len(items) - len(kept) - len(bad):
                counts["without_label"] = skipped
                warn(skipped, f"{task} {split}", "without a label, left out")
            if split == "train":
                training_inputs = set(map(hash_input, kept))
            elif "train" in tasks[task]:
                repeated = sum(hash_input(row) in training_inputs for row in kept)
                if repeated:
                    counts["also_in_train"] = repeated
                    warn(repeated, f"{task} {split}", "also in the training rows")
        if isinstance(source, CustomTasks):
            for task, config in source.tasks.items():
                write_json(temporary / task / FACTS, to_jsonable(custom_tasks.facts(task, config)))
        if not tasks:
            raise BadInput(
                f"{where}: has none of the tasks; "
                "put official files of GLUE or SQuAD in its folders"
            )
        write_jsonl(temporary / "quarantine.jsonl", quarantine)
        metrics = {
            "source": source.kind,
            "rows": total,
            "quarantined": len(quarantine),
            "tasks": tasks,
        }
        write_json(temporary / RESULTS, metrics)
        name = where.rpartition(".")[2]
        write_manifest(temporary, kind="tasks", name=name, source=source.kind, tasks=tasks)
    return metrics


def hash_input(row: Row) -> int:
    """Return a hash of a row's input to a model, without regard to case and spaces."""
    texts = row.get("words") or [row.get(key) or "" for key in ("a", "b", "question", "context")]
    return hash(tuple(" ".join(text.lower().split()) for text in texts))


def read_split(
    task: str,
    split: str,
    rows: Iterable[Row | Rejected | Skipped],
    where: str,
    config: QuarantineConfig,
) -> tuple[list[Row], list[dict[str, str]]]:
    """Return the good and the bad rows of a split.

    Raises BadInput when it is empty or has more bad rows than the quarantine tolerates. The
    sentence shows the first.
    """
    kept: list[Row] = []
    bad: list[dict[str, str]] = []
    rows_skipped = 0
    for row in rows:
        if isinstance(row, Rejected):
            bad.append(asdict(row))
        elif isinstance(row, Skipped):
            rows_skipped += 1
        else:
            kept.append(row)
    rows_read = len(kept) + len(bad)
    first = bad[0] if bad else None
    refuse_bad_rows(first, len(bad), rows_read, config, f" in {task} {split}")
    if not kept:
        fault = "with a label; check the setting `label`" if rows_skipped else ""
        raise BadInput(f"{where}: has no rows in {task} {split} {fault}".rstrip())
    return kept, bad


def refuse_bad_rows(
    first: Mapping[str, Any] | None,
    bad: int,
    rows: int,
    config: QuarantineConfig,
    place: str = "",
) -> None:
    """Raise BadInput when more rows are bad than the quarantine tolerates, or all are."""
    tolerated = config.tolerated(rows)
    if first and (bad > tolerated or bad == rows):
        raise BadInput(
            f"{first['where']}: {first['reason']} (the first of {bad:,} bad rows of {rows:,}"
            f"{place}); expected at most {tolerated:,}; "
            "fix the input, or raise `quarantine` to leave such rows out"
        )


def open_splits(source: TaskSourceConfig, where: str, official: Path) -> Iterator[Split]:
    """Yield every task and split that a source has, with its rows unread. Tasks and splits without
    a file are left out.

    The sample world writes its files to the folder `official`.
    """
    if isinstance(source, CustomTasks):
        for task, config in source.tasks.items():
            for split in ("train", "dev", "test"):
                if name := getattr(config, split):
                    labelled = split != "test"
                    rows = custom_tasks.read_rows(Path(name), config, task, labelled=labelled)
                    yield task, split, rows
    elif isinstance(source, HubTasks):
        yield from hub_splits(source, where)
    elif isinstance(source, SampleTasks):
        from pipelines.sources.sample_world import write_tasks

        official.mkdir(parents=True)
        write_tasks(official, source.seed)
        yield from _official_splits(str(official / "glue"), str(official / "squad"))
    else:
        for key in ("glue", "squad"):
            if folder := getattr(source, key):
                require_folder(Path(folder), f"{where}.{key}")
        yield from _official_splits(source.glue, source.squad)


def _official_splits(glue_folder: str | None, squad_folder: str | None) -> Iterator[Split]:
    for task, split, path in glue.find_official(glue_folder, squad_folder):
        if task in squad.FILES:
            yield task, split, squad.read_questions(path)
        else:
            yield task, split, glue.read_tsv(path, task, split)


def hub_splits(source: HubTasks, where: str) -> Iterator[Split]:
    """Yield GLUE and SQuAD of the hub, at the commits that the settings name."""
    if source.glue:
        name = source.glue.dataset
        place = f"{where}.glue"
        commit = hub.resolve(name, source.glue.revision, place)
        for task, layout in glue.LAYOUTS.items():
            for split, config, hub_split in layout.hub_places(task):
                rows = hub.read_rows(name, config, hub_split, commit, place)
                yield task, split, glue.hub_rows(rows, task, f"{name}/{config}/{hub_split}")
    for task in ("squad1", "squad2"):
        if dataset := getattr(source, task):
            name = dataset.dataset
            place = f"{where}.{task}"
            commit = hub.resolve(name, dataset.revision, place)
            for split, hub_split in (("train", "train"), ("dev", "validation")):
                rows = hub.read_rows(name, None, hub_split, commit, place)
                yield task, split, squad.hub_rows(rows, task, f"{name}/{hub_split}")
