"""Stage `report`: draw results/report/ from everything that the other stages measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.tracking import Tracker

# of the fine-tunings that `run` selects; any other has a folder below it
OUT = Path("results/report")


def run(name: str, params: Any, tracker: "Tracker") -> None:
    """Write results/report/{index.html, figures/, tables/, run.js}. With a name, write those of
    that fine-tuning alone to results/report/NAME.
    """
    from pipelines import report
    from pipelines.report import findings
    from pipelines.stages.summarize import summarize
    from pipelines.tracking import NOTE

    out = OUT / name
    if name:
        params.require("finetunings", name)
        summarize(name, params)
    inputs = report.build(params, out, name=name)
    for path in sorted((out / "figures").glob("*.svg")):
        tracker.artifact(path, "figures")
    tracker.artifact(out / "index.html")
    headlines = [f"{model.name}: {findings.headline(model)}" for model in inputs.models]
    if headlines:
        tracker.tags({NOTE: "\n".join(headlines)})
    missing = " (it lists what failed or is missing)" if inputs.missing else ""
    print("\n".join([*headlines, f"report: {out / 'index.html'}{missing}"]))
