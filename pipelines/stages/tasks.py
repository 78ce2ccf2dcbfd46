"""tasks@T: GLUE and SQuAD, wherever they come from → build/tasks/T/<task>/<split>.jsonl, one row a
line.

The sample world writes the official layouts first (build/tasks/T/official) and they are read back
by the same reader as the official files. Rows in = rows kept + rows quarantined, for every task and
split.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.config import plain
from electra.errors import BadInput
from electra.files import atomic_folder, sha256_file, write_json, write_jsonl
from electra.finetuning.tasks import FACTS
from electra.storage.manifest import MANIFEST, write_manifest
from pipelines.runtime.progress_bar import ProgressBar, print_left_out
from pipelines.sources import (
    CustomTasks,
    HubTasks,
    LocalTasks,
    SampleTasks,
    TaskSourceConfig,
    custom_tasks,
    glue,
    hub,
    squad,
)
from pipelines.sources.paths import require_folder
from pipelines.stages import RESULTS
from pipelines.stages.required_files import source_of
from pipelines.text.cleaning import QuarantineConfig, Rejected

if TYPE_CHECKING:
    from pipelines.config.params import Params
    from pipelines.tracking import Tracker

Row = dict[str, Any]
Split = tuple[str, str, Iterator[Row | Rejected]]  # task, split, rows


def run(name: str, params: "Params", tracker: "Tracker") -> None:
    """The stage: params.yaml `tasks.<name>` → build/tasks/<name>."""
    folder = Path("build/tasks") / name
    metrics = gather(source_of(params, name), f"tasks.{name}", folder)
    bad, key = metrics["quarantined"], f"tasks.{name}"
    more = f"see {folder / 'quarantine.jsonl'}, and {key}.quarantine to change it"
    print_left_out(key, bad, metrics["rows"] + bad, "rows", "cannot be read", more)
    tracker.summary(metrics["tasks"])
    tracker.dataset(f"tasks/{name}", sha256_file(folder / MANIFEST), "tasks")


def gather(source: TaskSourceConfig, where: str, folder: Path) -> dict[str, Any]:
    """Write the rows of every task that the source has to `folder`; return the rows kept and
    quarantined.
    """
    counts: dict[str, dict[str, dict[str, int]]] = {}
    quarantine: list[dict[str, str]] = []
    trained: dict[str, set[int]] = {}
    with atomic_folder(folder) as temporary, ProgressBar(where, 0, "rows") as progress:
        for task, split, rows in open_splits(source, where, temporary / "official"):
            kept, bad = read_split(
                task, split, _shown(rows, task, progress), where, source.quarantine
            )
            write_jsonl(temporary / task / f"{split}.jsonl", kept)
            counts.setdefault(task, {})[split] = {"rows": len(kept), "quarantined": len(bad)}
            quarantine += bad
            if split == "train":
                trained = {task: {input_of(row) for row in kept}}
            elif same := sum(input_of(row) in trained.get(task, ()) for row in kept):
                counts[task][split]["also_in_train"] = same
                warning = f"{same:,} of {len(kept):,} rows of {task} {split} are training rows, too"
                print(f"warning: {where}: {warning}", file=sys.stderr)
        if isinstance(source, CustomTasks):
            for task, each in source.tasks.items():
                write_json(temporary / task / FACTS, plain(custom_tasks.facts(task, each)))
        if not counts:
            raise BadInput(
                where,
                "has none of the tasks",
                "official files of GLUE or SQuAD",
                "check the folders",
            )
        write_jsonl(temporary / "quarantine.jsonl", quarantine)
        rows_in_all = sum(split["rows"] for splits in counts.values() for split in splits.values())
        metrics = {
            "source": source.kind,
            "rows": rows_in_all,
            "quarantined": len(quarantine),
            "tasks": counts,
        }
        write_json(temporary / RESULTS, metrics)
        write_manifest(
            temporary, kind="tasks", name=where.rpartition(".")[2], source=source.kind, tasks=counts
        )
    return metrics


def _shown(
    rows: Iterator[Row | Rejected], task: str, progress: ProgressBar
) -> Iterator[Row | Rejected]:
    for row in rows:
        progress.update(progress.done + 1, task=task)
        yield row


def input_of(row: Row) -> int:
    """A hash of what a model sees of a row, without regard to case and spaces."""
    texts = (
        row["words"]
        if "words" in row
        else [row.get(key) or "" for key in ("a", "b", "question", "context")]
    )
    return hash(tuple(" ".join(text.lower().split()) for text in texts))


def read_split(
    task: str, split: str, rows: Iterable[Row | Rejected], where: str, config: QuarantineConfig
) -> tuple[list[Row], list[dict[str, str]]]:
    """The good and the bad rows of a split. Stops when it is empty or has more bad ones than the
    quarantine tolerates; the sentence shows the first.
    """
    kept, bad = list[Row](), list[dict[str, str]]()
    for row in rows:
        if isinstance(row, Rejected):
            bad.append(asdict(row))
        else:
            kept.append(row)
    count = len(kept) + len(bad)
    if len(bad) > config.tolerated(count) or (bad and not kept):
        found = f"{bad[0]['reason']} (the first of {len(bad):,} bad rows of {count:,} in {task} {split})"
        do = "fix the file, or raise `quarantine` to leave such rows out"
        raise BadInput(bad[0]["where"], found, f"at most {config.tolerated(count):,}", do)
    if not kept:
        raise BadInput(where, f"has no rows in {task} {split}", "at least one")
    return kept, bad


def open_splits(source: TaskSourceConfig, where: str, official: Path) -> Iterator[Split]:
    """Every task and split that a source has, with its rows unread."""
    if isinstance(source, SampleTasks):
        from pipelines.sources.sample_world import write_tasks

        official.mkdir(parents=True)
        write_tasks(official, source.seed)
        source = LocalTasks(
            kind="local", glue=str(official / "glue"), squad=str(official / "squad")
        )
    if isinstance(source, LocalTasks):  # tasks and splits without a file are left out
        for key, folder in (("glue", source.glue), ("squad", source.squad)):
            if folder:
                require_folder(Path(folder), f"{where}.{key}")
        for task, split, path in glue.official(source.glue, source.squad):
            if path.is_file():
                yield (
                    task,
                    split,
                    squad.read_json(path)
                    if task in squad.FILES
                    else glue.read_tsv(path, task, split),
                )
    elif isinstance(source, CustomTasks):
        for task, each in source.tasks.items():
            for split, name in (("train", each.train), ("dev", each.dev), ("test", each.test)):
                if name:
                    yield (
                        task,
                        split,
                        custom_tasks.read_rows(Path(name), each, task, labelled=split != "test"),
                    )
    else:
        yield from hub_splits(source, where)


def hub_splits(source: HubTasks, where: str) -> Iterator[Split]:
    """GLUE and SQuAD of the hub, at the commits that the settings name."""
    if source.glue:
        name, commit = (
            source.glue.dataset,
            hub.resolve(source.glue.dataset, source.glue.revision, f"{where}.glue"),
        )
        for task, layout in glue.LAYOUTS.items():
            for split, config, theirs in layout.hub_places(task):
                rows = hub.read_rows(name, config, theirs, commit, f"{where}.glue")
                yield task, split, glue.hub_rows(rows, task, f"{name}/{config}/{theirs}")
    for task, part in (("squad1", source.squad1), ("squad2", source.squad2)):
        if part:
            commit = hub.resolve(part.dataset, part.revision, f"{where}.{task}")
            for split, theirs in (("train", "train"), ("dev", "validation")):
                rows = hub.read_rows(part.dataset, None, theirs, commit, f"{where}.{task}")
                yield task, split, squad.hub_rows(rows, task, f"{part.dataset}/{theirs}")
