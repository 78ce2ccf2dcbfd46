"""The nine GLUE tasks in their official layouts, to rows {"id", "a", "b", "label"}.

The files are no regular TSV: quotes are text, MRPC's dev file begins with a byte order mark, CoLA's train and dev have
no header, MNLI's columns differ between train and dev. So columns are found by the header's names, and a row that has
not exactly as many as its header is rejected. An id is the row's number in its file, which is also the index that the
GLUE server asks for. A row is rejected, never repaired.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.data.text import Rejected
from electra.errors import BadInput
from electra.finetuning.labels import read_label
from electra.finetuning.tasks import GLUE, Task
from pipelines.sources.local import EXCERPT, decoded_lines
from pipelines.sources.squad import FILES
from pipelines.sources.streams import Piece

Row = dict[str, Any]


@dataclass(frozen=True)
class TaskFiles:
    """Where a task lies: its folder, the names of its columns in the files and in the hub's data set."""

    folder: str
    a: str
    b: str | None
    label: str = "label"
    hub_a: str = ""  # where the hub calls it otherwise
    hub_b: str = ""
    hub_labels: tuple[str, ...] = ()  # the hub's class numbers, where they are not the file's digits
    headerless: tuple[str, ...] = ()  # the columns of files without a header
    files: Mapping[str, str] = field(  # by split; a name with a folder stands beside the task's folder, not in it
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    )
    hub_splits: Mapping[str, str] = field(  # a name with a configuration before it belongs to that, not to the task's
        default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"}
    )

    def path(self, split: str) -> str:
        """The file of a split, from GLUE's folder."""
        return name if "/" in (name := self.files[split]) else f"{self.folder}/{name}"

    def hub_place(self, split: str, task: str) -> tuple[str, str]:
        """(configuration, split) of the hub's GLUE."""
        config, _, name = self.hub_splits[split].rpartition("/")
        return config or task, name


_PAIR = ("entailment", "not_entailment")
_MNLI_FILES = {
    "train": "train.tsv", "dev": "dev_matched.tsv", "dev_mismatched": "dev_mismatched.tsv",
    "test": "test_matched.tsv", "test_mismatched": "test_mismatched.tsv",
    "test_diagnostic": "diagnostic/diagnostic.tsv",
}  # fmt: skip
_MNLI_SPLITS = {
    "train": "train", "dev": "validation_matched", "dev_mismatched": "validation_mismatched",
    "test": "test_matched", "test_mismatched": "test_mismatched", "test_diagnostic": "ax/test",
}  # fmt: skip
_MNLI = TaskFiles(
    "MNLI", "sentence1", "sentence2", "gold_label", hub_a="premise", hub_b="hypothesis",
    hub_labels=("entailment", "neutral", "contradiction"), files=_MNLI_FILES, hub_splits=_MNLI_SPLITS,
)  # fmt: skip
LAYOUTS: dict[str, TaskFiles] = {
    "cola": TaskFiles("CoLA", "sentence", None, headerless=("source", "label", "star", "sentence")),
    "sst2": TaskFiles("SST-2", "sentence", None),
    "mrpc": TaskFiles("MRPC", "#1 String", "#2 String", "Quality", hub_a="sentence1", hub_b="sentence2"),
    "stsb": TaskFiles("STS-B", "sentence1", "sentence2", "score"),
    "qqp": TaskFiles("QQP", "question1", "question2", "is_duplicate"),
    "mnli": _MNLI,
    "qnli": TaskFiles("QNLI", "question", "sentence", hub_labels=_PAIR),
    "rte": TaskFiles("RTE", "sentence1", "sentence2", hub_labels=_PAIR),
    "wnli": TaskFiles("WNLI", "sentence1", "sentence2"),
}


def official(glue: str | Path | None, squad: str | Path | None) -> Iterator[tuple[str, str, Path]]:
    """(task, split, file) of everything that the folders of GLUE and SQuAD may hold."""
    for task, layout in LAYOUTS.items() if glue else ():
        yield from ((task, split, Path(glue or "") / layout.path(split)) for split in layout.files)
    for task, files in FILES.items() if squad else ():
        yield from ((task, split, Path(squad or "") / name) for split, name in files.items())


def read_tsv(path: Path, task: str, split: str) -> Iterator[Row | Rejected]:
    """The rows of one official file; raises BadInput when its header lacks a column."""
    layout, labelled = LAYOUTS[task], not split.startswith("test")
    wanted = [name for name in (layout.a, layout.b, layout.label if labelled else None) if name]
    columns: dict[str, int] = {}
    count = 0
    for item in decoded_lines(Piece(path)):
        if isinstance(item, Rejected):
            yield item
            continue
        number, line = item
        fields = line.split("\t")
        if not columns:
            header = fields
            if not set(wanted) <= set(fields) and layout.headerless and len(fields) == len(layout.headerless):
                header = list(layout.headerless)
            columns = {name: place for place, name in enumerate(header)}
            if missing := [name for name in wanted if name not in columns]:
                found = f"has no column {missing[0]!r} among {', '.join(map(repr, fields[:12]))}"[:300]
                raise BadInput(f"{path}:{number}", found, f"the official {layout.folder} layout")
            count = len(header)
            if header is fields:
                first = number + 1
                continue
            first = number
        where = f"{path}:{number}"
        if len(fields) != count:
            yield Rejected(where, f"{len(fields)} columns instead of {count}", line[:EXCERPT])
            continue
        label = fields[columns[layout.label]] if labelled else None
        b = fields[columns[layout.b]] if layout.b else None
        yield make_row(GLUE[task], str(number - first), fields[columns[layout.a]], b, label, where)


def hub_rows(rows: Iterable[Mapping[str, Any]], task: str, where: str) -> Iterator[Row | Rejected]:
    """The rows of a split of the hub's GLUE, whose labels are numbers (-1: hidden)."""
    layout = LAYOUTS[task]
    a, b = layout.hub_a or layout.a, layout.hub_b or layout.b
    for number, row in enumerate(rows):
        place = f"{where}:{number}"
        if not isinstance(row.get(a), str) or (b and not isinstance(row.get(b), str)):
            yield Rejected(place, f"no text in {a!r} or {b!r}", repr(row)[:EXCERPT])
            continue
        label: Any = row.get("label")
        if label == -1:
            label = None
        elif layout.hub_labels and isinstance(label, int) and 0 <= label < len(layout.hub_labels):
            label = layout.hub_labels[label]
        yield make_row(GLUE[task], str(number), row[a], row[b] if b else None, label, place)


def make_row(task: Task, identity: str, a: str, b: str | None, label: Any, where: str) -> Row | Rejected:
    """A row with its label checked: a class name of the task, a finite number for regression, None for hidden ones."""
    row: Row = {"id": identity, "a": a.strip(), "b": b.strip() if b is not None else None, "label": None}
    if not row["a"] and not row["b"]:
        return Rejected(where, "no text")
    if label is None:
        return row
    row["label"], fault = read_label(label, task.labels)
    if task.regression and not fault and not 0 <= row["label"] <= task.scale:
        fault = f"label {label!r} is not from 0 to {task.scale:g}"
    return Rejected(where, fault) if fault else row
