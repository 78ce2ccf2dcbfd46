"""Stage `report`: draw results/report/ from everything that the other stages measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.tracking import Tracker

OUT = Path("results/report")


def run(name: str, params: Any, tracker: "Tracker") -> None:
    """Write results/report/{index.html, report.md, figures/, tables/, run.js}; `name` is not used."""
    from pipelines import report
    from pipelines.report import findings, inputs

    index = report.build(params, OUT)
    found = inputs.load(params)
    for path in sorted((OUT / "figures").glob("*.svg")):
        tracker.figure(path)
    for path in (index, OUT / "report.md"):
        tracker.artifact(path)
    tracker.summary(findings.headline_numbers(found))
    print(f"report: {index} ({len(found.missing)} things missing)" if found.missing else f"report: {index}")
