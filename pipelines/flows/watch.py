"""What is done of an experiment, as a table in Prefect that grows while the stage runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect.artifacts import create_table_artifact

from electra.errors import UserError
from electra.files import read_json
from pipelines.flows import ending


def watching(name: str, log: Callable[[str], None], folder: Path) -> Callable[[str], None]:
    """A log that also renews the table `ablation-<name>-progress` whenever the stage has noted something new."""
    known: list[Any] = [_read(folder, name)]

    def spoken(lines: str) -> None:
        log(lines)
        rows = _read(folder, name)
        if rows and rows != known[0]:
            known[0] = rows
            ending.tell(show, name, rows)

    return spoken


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Leave the table: an arm and seed a row, with its state and its mean over the tasks."""
    shown = [{**row, "score": "" if row["score"] is None else f"{row['score']:.1f}"} for row in rows]
    done = sum(row["status"] != "waiting or running" for row in rows)
    key = f"ablation-{name}-progress".lower().replace("+", "p").replace("_", "-")
    create_table_artifact(key=key, table=shown, description=f"{name}: {done} of {len(rows)} runs have ended")


def _read(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / "runs" / f"ablation-{name}" / "progress.json")
    except UserError:
        return None
