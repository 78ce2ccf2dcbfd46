"""The nine GLUE tasks in their official layouts, to rows {"id", "a", "b", "label"}.

The files aren't regular TSV: quotes are text, MRPC's dev file begins with a byte order mark, CoLA's
train and dev have no header, MNLI's columns differ between train and dev. So columns are found by
the header's names, and a row that has not exactly as many as its header is rejected. An id is the
row's number in its file, which is also the index that the GLUE server asks for. A row is rejected,
never repaired.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.finetuning.labels import read_label
from electra.finetuning.tasks import GLUE, Task
from pipelines.sources import custom_tasks
from pipelines.sources.local import decoded_lines
from pipelines.sources.paths import require_file
from pipelines.sources.squad import FILES, find_file
from pipelines.sources.streams import EXCERPT, FileRange
from pipelines.text.cleaning import Rejected

Row = dict[str, Any]
# Each split, its file, and its name in the hub's data set. A file with a folder is next to the
# task's folder, not in it; a name with a configuration before it belongs to that, not to the
# task's.
SPLITS = """
    train train.tsv train
    dev dev.tsv validation
    test test.tsv test
"""


@dataclass(frozen=True)
class TaskFiles:
    """The layout of a task: its folder, and the names of its columns in the files and in the hub's
    data set.
    """

    folder: str
    a: str
    b: str | None
    label: str = "label"
    hub_a: str = ""  # where the hub calls it otherwise
    hub_b: str = ""
    # the hub's class numbers, where they are not the file's digits
    hub_labels: tuple[str, ...] = ()
    headerless: tuple[str, ...] = ()  # the columns of files without a header
    splits: str = SPLITS

    def paths(self) -> dict[str, str]:
        """Return the file of each split, from GLUE's folder."""
        return {
            split: file if "/" in file else f"{self.folder}/{file}"
            for split, file, _ in self._splits()
        }

    def hub_places(self, task: str) -> Iterator[tuple[str, str, str]]:
        """Yield (split, configuration and split of the hub's GLUE)."""
        for split, _, name in self._splits():
            config, _, theirs = name.rpartition("/")
            yield split, config or task, theirs

    def _splits(self) -> list[list[str]]:
        return [line.split() for line in self.splits.strip().split("\n")]


_PAIR = ("entailment", "not_entailment")
_MNLI_SPLITS = """
    train train.tsv train
    dev dev_matched.tsv validation_matched
    dev_mismatched dev_mismatched.tsv validation_mismatched
    test test_matched.tsv test_matched
    test_mismatched test_mismatched.tsv test_mismatched
    test_diagnostic diagnostic/diagnostic.tsv ax/test
"""
_MNLI = TaskFiles(
    "MNLI", "sentence1", "sentence2", "gold_label", hub_a="premise", hub_b="hypothesis",
    hub_labels=("entailment", "neutral", "contradiction"), splits=_MNLI_SPLITS,
)  # fmt: skip
LAYOUTS: dict[str, TaskFiles] = {
    "cola": TaskFiles("CoLA", "sentence", None, headerless=("source", "label", "star", "sentence")),
    "sst2": TaskFiles("SST-2", "sentence", None),
    "mrpc": TaskFiles(
        "MRPC", "#1 String", "#2 String", "Quality", hub_a="sentence1", hub_b="sentence2"
    ),
    "stsb": TaskFiles("STS-B", "sentence1", "sentence2", "score"),
    "qqp": TaskFiles("QQP", "question1", "question2", "is_duplicate"),
    "mnli": _MNLI,
    "qnli": TaskFiles("QNLI", "question", "sentence", hub_labels=_PAIR),
    "rte": TaskFiles("RTE", "sentence1", "sentence2", hub_labels=_PAIR),
    "wnli": TaskFiles("WNLI", "sentence1", "sentence2"),
}


def official(glue: str | None, squad: str | None) -> Iterator[tuple[str, str, Path]]:
    """Yield (task, split, file) of everything that the folders of GLUE and SQuAD may hold."""
    if glue:
        for task, layout in LAYOUTS.items():
            for split, name in layout.paths().items():
                yield task, split, Path(glue) / name
    if squad:
        for task, files in FILES.items():
            for split, name in files.items():
                yield task, split, find_file(Path(squad), name)


def find_official(glue: str | None, squad: str | None) -> Iterator[tuple[str, str, Path]]:
    """Yield those that exist. Raise SourceUnreachable for a link to nothing."""
    for task, split, path in official(glue, squad):
        if path.is_symlink() or path.exists():
            require_file(path)
            yield task, split, path


def read_tsv(path: Path, task: str, split: str) -> Iterator[Row | Rejected]:
    """Yield the rows of one official file. Raises BadInput when its header lacks a column."""
    layout = LAYOUTS[task]
    labelled = not split.startswith("test")
    wanted = [name for name in (layout.a, layout.b, layout.label if labelled else None) if name]
    header: list[str] = []
    first = 0  # the number of the first row's line
    for item in decoded_lines(FileRange(path)):
        if isinstance(item, Rejected):
            yield item
            continue
        number, line = item
        fields = line.split("\t")
        where = f"{path}:{number}"
        if not header:
            bare = len(fields) == len(layout.headerless) and not set(wanted) <= set(fields)
            header, first = (list(layout.headerless), 1) if bare else (fields, number + 1)
            custom_tasks.require(
                wanted, header, where, f"the official {layout.folder} layout has it"
            )
            if not bare:
                continue
        if len(fields) != len(header):
            yield Rejected(where, f"{len(fields)} columns instead of {len(header)}", line[:EXCERPT])
            continue
        row = dict(zip(header, fields, strict=True))
        label = row[layout.label] if labelled else None
        b = row[layout.b] if layout.b else None
        yield make_row(GLUE[task], str(number - first), row[layout.a], b, label, where)


def hub_rows(rows: Iterable[Mapping[str, Any]], task: str, where: str) -> Iterator[Row | Rejected]:
    """Yield the rows of a split of the hub's GLUE, whose labels are numbers (-1: hidden)."""
    layout = LAYOUTS[task]
    a = layout.hub_a or layout.a
    b = layout.hub_b or layout.b
    for number, row in enumerate(rows):
        place = f"{where}:{number}"
        if not isinstance(row.get(a), str) or (b and not isinstance(row.get(b), str)):
            yield Rejected(place, f"no text in {a!r} or {b!r}", repr(row)[:EXCERPT])
            continue
        label: Any = row.get("label")
        if label == -1:
            label = None
        elif isinstance(label, int) and 0 <= label < len(layout.hub_labels):
            label = layout.hub_labels[label]
        yield make_row(GLUE[task], str(number), row[a], row[b] if b else None, label, place)


def make_row(
    task: Task, identity: str, a: str, b: str | None, label: Any, where: str
) -> Row | Rejected:
    """Return a row with its label checked: a class name of the task, a finite number for
    regression, None for hidden ones.
    """
    row: Row = {
        "id": identity,
        "a": a.strip(),
        "b": b.strip() if b is not None else None,
        "label": None,
    }
    if not row["a"] and not row["b"]:
        return Rejected(where, "no text")
    if label is None:
        return row
    row["label"], fault = read_label(label, task.labels)
    if task.regression and not fault and not 0 <= row["label"] <= task.scale:
        fault = f"label {label!r} is not from 0 to {task.scale:g}"
    return Rejected(where, fault) if fault else row
