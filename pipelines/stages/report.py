"""Stage `report`: draw results/report/ from everything that the other stages measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.tracking import Tracker

OUT = Path("results/report")


def run(name: str, params: Any, tracker: "Tracker") -> None:
    """Write results/report/{index.html, figures/, tables/, run.js}. `name` is not used."""
    from pipelines import report
    from pipelines.report import findings
    from pipelines.tracking import NOTE

    inputs = report.build(params, OUT)
    for path in sorted((OUT / "figures").glob("*.svg")):
        tracker.artifact(path, "figures")
    tracker.artifact(OUT / "index.html")
    headlines = [f"{model.name}: {findings.headline(model)}" for model in inputs.models]
    if headlines:
        tracker.tags({NOTE: "\n".join(headlines)})
    missing = f" ({len(inputs.missing)} things missing)" if inputs.missing else ""
    print("\n".join([*headlines, f"report: {OUT / 'index.html'}{missing}"]))
