"""What the numbers stand on, as tables: text and tokens read, task rows by split, and whatever was left out."""

from collections.abc import Iterable
from typing import Any

from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.report.inputs import Inputs
from pipelines.report.table import Cell, Column, Table

SPLITS = ("train", "dev", "dev_mismatched", "test", "test_mismatched")
TITLES = {task: info.title for task, info in GLUE.items()} | {
    task: f"SQuAD {version}" for version, task in SQUAD.items()
}


def all_tables(inputs: Inputs) -> list[Table]:
    """One table of texts, one of rows for pre-training, one of rows for each task source."""
    found = [texts(inputs), rows(inputs), *(tasks(name, values) for name, values in inputs.tasks.items())]
    return [table for table in found if table.rows]


def texts(inputs: Inputs) -> Table:
    """Each corpus: what was kept, what was dropped as a duplicate or by a filter, what could not be read."""
    return Table(
        name="data-text",
        title=f"Text for pre-training ({_names(inputs.corpora)})",
        columns=(
            Column("corpus", align="left"),
            Column("documents"),
            Column("lines"),
            Column("MB", 1),
            Column("dropped", align="left"),
            Column("quarantined", align="left"),
        ),
        rows=tuple(
            (
                name.replace("_", " "),
                values.get("documents"),
                values.get("lines"),
                values["bytes"] / 1e6 if "bytes" in values else None,
                _reasons({**values.get("dropped", {}), **values.get("dropped_lines", {})}),
                f"{values.get('quarantined', 0)}"
                + (f" ({reasons})" if (reasons := _reasons(values.get("reasons"))) != "0" else ""),
            )
            for name, values in inputs.corpora.items()
            if values
        ),
    )


def rows(inputs: Inputs) -> Table:
    """Each set of rows: vocabulary, length, rows and tokens in training and held out, share of padding."""
    cells: list[tuple[Cell, ...]] = []
    for name, values in inputs.tokens.items():
        for length, splits in sorted(_sections(values.get("rows")).items(), key=lambda item: str(item[0])):
            train, valid = _sections(splits).get("train") or {}, _sections(splits).get("valid") or {}
            if not isinstance(train, dict) or not isinstance(valid, dict):
                continue
            padding = train.get("padding")
            cells.append(
                (
                    name.replace("_", " "),
                    values.get("vocab_size"),
                    str(length),
                    train.get("rows"),
                    train.get("tokens"),
                    valid.get("rows"),
                    None if padding is None else f"{100 * padding:.1f} %",
                    None if "unknown_rate" not in values else f"{100 * values['unknown_rate']:.2f} %",
                )
            )
    return Table(
        name="data-rows",
        title=f"Rows for pre-training ({_names(inputs.tokens)})",
        columns=(
            Column("rows", align="left"),
            Column("vocabulary"),
            Column("length"),
            Column("training rows"),
            Column("training tokens"),
            Column("held-out rows"),
            Column("padding"),
            Column("unknown words"),
        ),
        rows=tuple(cells),
    )


def tasks(name: str, values: dict[str, Any]) -> Table:
    """Rows of every task and split that were kept, and how many could not be read."""
    found = _sections(values.get("tasks"))
    present = [split for split in SPLITS if any(split in _sections(splits) for splits in found.values())]
    order = list(TITLES)
    cells: list[tuple[Cell, ...]] = []
    for task in sorted(found, key=lambda task: (order.index(task) if task in TITLES else 99, task)):
        splits = _sections(found[task])
        kept = [splits[split].get("rows") if split in splits else None for split in present]
        lost = sum(splits[split].get("quarantined", 0) for split in splits)
        cells.append((TITLES.get(task, task), *kept, lost))
    return Table(
        name=f"data-tasks-{name}",
        title=f"Task rows ({name.replace('_', ' ')})",
        columns=(
            Column("task", align="left"),
            *(Column(split.replace("_", ", ")) for split in present),
            Column("quarantined"),
        ),
        rows=tuple(cells),
    )


def _reasons(counts: Any) -> str:
    """`110 duplicate documents, 3 short`; 0 if nothing was left out."""
    found = {str(reason).replace("_", " "): count for reason, count in _sections(counts).items() if count}
    return ", ".join(f"{count} {reason}" for reason, count in sorted(found.items())) or "0"


def _sections(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(of: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in of)
