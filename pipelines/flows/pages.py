"""The page that a stage leaves in Prefect: headline numbers, where to look first, and a table of all numbers."""

from typing import TYPE_CHECKING, Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from electra.files import read_json
from pipelines.flows import shutdown
from pipelines.runtime.dvc_runner import Outcome
from pipelines.stages.summary import headline

if TYPE_CHECKING:
    from pipelines.flows.steps import Running

DETAILS = {
    "pretrain": "results/{}/pretrain.json",
    "glue": "results/{}/glue.json",
    "squad": "results/{}/squad.json",
    "ablation": "results/ablations/{}.json",
}
LONGEST = 60  # rows of a page; all of them are in the table


def show(stage: str, name: str, outcome: Outcome, running: "Running") -> str:
    """Make the page of a stage and say whether it ran."""
    made = [each for each in outcome.ran if each in {f"{stage}@{name}", "report"} or each.startswith("arm@")]
    word = "ran" if made else "cached"
    path = DETAILS.get(stage, "").format(name)
    if path and (running.place.folder / path).exists():
        shutdown.tell(leave, stage, name, word, path, running)
    return word


def leave(stage: str, name: str, word: str, path: str, running: "Running") -> None:
    """A table and a page of a stage's numbers."""
    values = read_json(running.place.folder / path)
    rows, request = table(values), running.request
    key = f"{stage}-{name}".lower().replace("_", "-")
    create_table_artifact(key=f"{key}-numbers", table=rows, description=f"`{path}`")
    lines = [f"# {stage}@{name}: {word}", "", *_rows(table(headline(stage, values))), ""]
    if request.commit:
        lines += [f"- commit `{request.commit}`", *(f"- `{key}={value}`" for key, value in request.settings)]
        lines += [f"- experiment `{request.name}`: `dvc exp branch {request.name} BRANCH` makes a branch of it"]
    if running.parent:
        lines += [f"- MLflow run `{running.parent}`"]
    lines += [f"- all numbers: `{path}`", "", *_rows(rows[:LONGEST])]
    create_markdown_artifact(key=key, markdown="\n".join(lines), description=f"{stage} of {name}")


def table(values: Any, prefix: str = "") -> list[dict[str, Any]]:
    """The scalars of a result file as rows, dotted; lists (seeds, curves) are left to the file."""
    rows: list[dict[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            rows.extend(table(value, f"{prefix}{key}."))
        elif isinstance(value, float):
            rows.append({"number": f"{prefix}{key}", "value": f"{value:.4g}"})
        elif isinstance(value, int | str):
            rows.append({"number": f"{prefix}{key}", "value": str(value)})
    return rows


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    return ["| | |", "|-|-|", *(f"| {row['number']} | {row['value']} |" for row in rows)]
