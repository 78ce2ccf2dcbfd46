"""What is done of a stage while it runs: a bar in Prefect, and for an ablation a table that grows."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact

from electra.errors import UserError
from electra.files import read_json
from pipelines.flows import shutdown


def watching(name: str, log: Callable[[str], None], folder: Path) -> Callable[[str], None]:
    """A log that also renews the table `ablation-<name>-progress` whenever the stage has noted something new."""
    known: list[Any] = [_read(folder, name)]

    def spoken(lines: str) -> None:
        log(lines)
        rows = _read(folder, name)
        if rows and rows != known[0]:
            known[0] = rows
            shutdown.tell(show, name, rows)

    return spoken


SHARE = re.compile(
    r"^([\w.@-]+(?: [\w.@-]+)?) +(\d+)%  ", re.M
)  # as pipelines/runtime/progress_bar.py writes it into logs
EVERY = 5.0  # seconds between two renewals of a bar


def bars(log: Callable[[str], None]) -> Callable[[str], None]:
    """A log that also moves a bar `<what>-progress` for each thing that tells its progress."""
    made: dict[str, Any] = {}
    renewed: dict[str, float] = {}

    def move(what: str, share: float) -> None:
        key = re.sub(r"[^a-z0-9]+", "-", f"{what}-progress".lower())
        if what in made:
            update_progress_artifact(made[what], progress=share)
        else:
            made[what] = create_progress_artifact(progress=share, key=key, description=what)

    def spoken(lines: str) -> None:
        log(lines)
        for what, share in dict(SHARE.findall(lines)).items():
            if share == "100" or time.monotonic() - renewed.get(what, -EVERY) >= EVERY:
                renewed[what] = time.monotonic()
                shutdown.tell(move, what, float(share))

    return spoken


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Leave the table: an arm and seed a row, with its state and its mean over the tasks."""
    shown = [{**row, "score": "" if row["score"] is None else f"{row['score']:.1f}"} for row in rows]
    done = sum(row["status"] != "waiting or running" for row in rows)
    key = f"ablation-{name}-progress".lower().replace("_", "-")
    create_table_artifact(key=key, table=shown, description=f"{name}: {done} of {len(rows)} runs have ended")


def _read(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / "runs" / f"ablation-{name}" / "progress.json")
    except UserError:
        return None
