"""Show a stage on Prefect's pages: bars while it runs, then its numbers."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from prefect import artifacts

from electra.config import leaves
from pipelines.flows import server
from pipelines.stages import STAGES
from pipelines.stages.summarize import headline

# as pipelines/stages/progress_bar.py writes it
SHARE = re.compile(r"^([\w.@-]+(?: [\w.@-]+)?) +(\d+)%  ", re.M)
EVERY = 5.0  # seconds between two updates of a bar


def show_numbers(stage: str, word: str, values: dict[str, Any], origin: Sequence[str]) -> None:
    """Create a page and a table of a stage's numbers.

    `word` is `ran` or `cached`, `origin` the lines of the page that say where they come from.
    """
    kind, _, name = stage.partition("@")
    path = STAGES[kind].results(name)
    key = artifact_key(f"{kind}-{name}")
    lines = [f"# {stage}: {word}", "", "| | |", "|-|-|"]
    lines += [
        f"| {row['number']} | {row['value']} |" for row in number_rows(headline({kind: values}))
    ]
    lines += ["", *origin, f"- all numbers: `{path}`, and the artifact `{key}-numbers`"]
    table = number_rows(values)
    server.send(
        artifacts.create_table_artifact, key=f"{key}-numbers", table=table, description=f"`{path}`"
    )
    server.send(
        artifacts.create_markdown_artifact,
        key=key,
        markdown="\n".join(lines),
        description=f"{kind} of {name}",
    )


def number_rows(values: Any) -> list[dict[str, Any]]:
    """Return the scalars of a result file as rows with dotted names. Lists (seeds, curves) are
    left out.
    """
    return [
        {"number": key, "value": f"{value:.4g}" if isinstance(value, float) else str(value)}
        for key, value in leaves(values)
        if isinstance(value, int | float | str)
    ]


def artifact_key(text: str) -> str:
    """Return a text as a key of an artifact."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())


def show_progress(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a `log` that also moves a bar `<what>-progress` for each line of a progress bar."""
    bars: dict[str, Any] = {}
    moved: dict[str, float] = {}

    def move(what: str, share: float) -> None:
        if what in bars:
            artifacts.update_progress_artifact(bars[what], progress=share)
        else:
            key = artifact_key(f"{what}-progress")
            bars[what] = artifacts.create_progress_artifact(
                progress=share, key=key, description=what
            )

    def log_and_move(lines: str) -> None:
        log(lines)
        for what, share in dict(SHARE.findall(lines)).items():
            if share == "100" or time.monotonic() - moved.get(what, -EVERY) >= EVERY:
                moved[what] = time.monotonic()
                server.send(move, what, float(share))

    return log_and_move
