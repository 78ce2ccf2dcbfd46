"""What a stage leaves on Prefect's pages: bars while it runs, for an ablation a table that grows,
then its numbers.
"""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prefect import artifacts

from electra.errors import UserError
from electra.files import read_json
from pipelines.flows import server
from pipelines.stages import STAGES
from pipelines.stages.summarize import headline
from pipelines.tracking import leaves

WITH_NUMBERS = ("pretrain", "glue", "squad", "ablation")
Rows = list[dict[str, Any]]
# as pipelines/stages/progress_bar.py writes it
SHARE = re.compile(r"^([\w.@-]+(?: [\w.@-]+)?) +(\d+)%  ", re.M)
EVERY = 5.0  # seconds between two updates of a bar


def show_numbers(stage: str, word: str, folder: Path, origin: Sequence[str]) -> None:
    """A page and a table of a stage's result file, if it has one. `word`: ran or cached; `origin`:
    Markdown.
    """
    kind, _, name = stage.partition("@")
    if kind not in WITH_NUMBERS:
        return
    path = STAGES[kind].results(name)
    if (folder / path).exists():
        values = read_json(folder / path)
        rows, key = number_rows(values), _key(f"{kind}-{name}")
        first = ["", *_markdown(number_rows(headline(kind, values))), ""]
        lines = [
            f"# {stage}: {word}",
            *first,
            *origin,
            f"- all numbers: `{path}`, and the artifact `{key}-numbers`",
        ]
        server.send(
            artifacts.create_table_artifact,
            key=f"{key}-numbers",
            table=rows,
            description=f"`{path}`",
        )
        text = "\n".join(lines)
        server.send(
            artifacts.create_markdown_artifact,
            key=key,
            markdown=text,
            description=f"{kind} of {name}",
        )


def number_rows(values: Any) -> Rows:
    """The scalars of a result file as rows with dotted names; lists (seeds, curves) are left out."""
    scalars = (
        (key, value) for key, value in leaves(values) if isinstance(value, int | float | str)
    )
    return [
        {"number": key, "value": f"{of:.4g}" if isinstance(of, float) else str(of)}
        for key, of in scalars
    ]


def _markdown(rows: Rows) -> list[str]:
    return ["| | |", "|-|-|", *(f"| {row['number']} | {row['value']} |" for row in rows)]


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())


def show_progress(stage: str, log: Callable[[str], None], folder: Path) -> Callable[[str], None]:
    """A `log` that also moves a bar `<what>-progress` for each progress line, and renews an
    ablation's table.
    """
    kind, _, name = stage.partition("@")
    file = folder / "runs" / f"ablation-{name}" / "progress.json"
    arms = _arms(file)
    bars: dict[str, Any] = {}
    moved: dict[str, float] = {}

    def move(what: str, share: float) -> None:
        if what in bars:
            artifacts.update_progress_artifact(bars[what], progress=share)
        else:
            key = _key(f"{what}-progress")
            bars[what] = artifacts.create_progress_artifact(
                progress=share, key=key, description=what
            )

    def spoken(lines: str) -> None:
        nonlocal arms
        log(lines)
        for what, share in dict(SHARE.findall(lines)).items():
            if share == "100" or time.monotonic() - moved.get(what, -EVERY) >= EVERY:
                moved[what] = time.monotonic()
                server.send(move, what, float(share))
        if kind == "ablation" and (found := _arms(file)) and found != arms:
            arms = found
            rows = [
                {**row, "score": "" if row["score"] is None else f"{row['score']:.1f}"}
                for row in found
            ]
            ended = f"{sum(row['status'] != 'waiting or running' for row in rows)} of {len(rows)} runs have ended"
            key = _key(f"ablation-{name}-progress")
            server.send(
                artifacts.create_table_artifact, key=key, table=rows, description=f"{name}: {ended}"
            )

    return spoken


def _arms(file: Path) -> Any:
    try:
        return read_json(file)
    except UserError:
        return None
