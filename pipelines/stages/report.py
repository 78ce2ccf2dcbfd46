"""Stage `report`: draw results/report/ from everything that the other stages measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.tracking import Tracker

OUT = Path("results/report")


def run(name: str, params: Any, tracker: "Tracker") -> None:
    """Write results/report/ (index.html, report.md, figures, tables); `name` is not used."""
    from pipelines import report
    from pipelines.report import findings

    inputs = report.build(params, OUT)
    for path in sorted((OUT / "figures").glob("*.svg")):
        tracker.artifact(path, "figures")
    for path in (OUT / "index.html", OUT / "report.md"):
        tracker.artifact(path)
    tracker.summary(findings.headline_numbers(inputs))
    missing = f" ({len(inputs.missing)} things missing)" if inputs.missing else ""
    print(f"report: {OUT / 'index.html'}{missing}")
