"""Two models, or two runs of one, side by side: `python -m pipelines compare FIRST SECOND`.

Either is a model's name (results/NAME here), a folder that holds its results (of another clone, say), or
REVISION:NAME for the results as they were committed (`HEAD~1:tiny`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput
from electra.files import as_written, read_json
from pipelines.report.comparison import difference
from pipelines.report.load_results import measured_average, measured_squad, measured_tasks
from pipelines.report.records import number
from pipelines.report.table import NOTES, Column, Row, Spread, Table, flops, left, verdict
from pipelines.tracking.lineage import printed

FILES = ("pretrain.json", "glue.json", "squad.json")
FACTS = ("flops", "steps", "seed", "rows_sha256", "tokenizer_sha256", "threads", "device", "torch")


def compare(first: str, second: str, root: Path = Path()) -> str:
    """The comparison as Markdown, which reads well in a terminal too."""
    names, sides = (first, second), [read(first, root), read(second, root)]
    with as_written(f"{first}, {second}"):
        if not (rows := list(_rows(names, sides))):
            do = f"fine-tune them first: dvc repro pipelines/dvc.yaml:glue@{Path(first.rpartition(':')[2]).name}"
            raise BadInput(f"{first}, {second}", "have no scores", "scores of GLUE or SQuAD of one at least", do)
        title = f"{first} against {second}: pre-trained arms, points on dev"
        return Table("compare", title, rows, (NOTES["spread"], NOTES["rule"], *_cautions(names, sides))).markdown()


def read(place: str, root: Path = Path()) -> dict[str, Any]:
    """The results files at a place, by file name; BadInput if there is none."""
    revision, colon, name = place.partition(":")
    if colon and not (root / place).exists():
        found = {file: _committed(root, revision, f"results/{name}/{file}") for file in FILES}
    else:
        folder = root / place if "/" in place else root / "results" / place
        found = {file: read_json(folder / file) if (folder / file).is_file() else None for file in FILES}
    found = {file: values for file, values in found.items() if values is not None}
    if not found:
        expected = f"a model's name, a folder with {' or '.join(FILES)}, or REVISION:NAME"
        do = f"run it first: dvc repro pipelines/dvc.yaml:glue@{Path(name or place).name}"
        raise BadInput(place, "has no results", expected, do)
    return found


def _committed(root: Path, revision: str, path: str) -> Any:
    if revision.startswith("-"):
        raise BadInput(revision, "is not a git revision", "a commit, tag or branch")
    text = printed("git", "-C", str(root), "show", "--end-of-options", f"{revision}:./{path}")
    try:
        return json.loads(text) if text else None
    except json.JSONDecodeError:
        raise BadInput(f"{revision}:{path}", "is not JSON", "a results file") from None


def _rows(names: tuple[str, str], sides: list[dict[str, Any]]) -> Iterator[Row]:
    """A row for each metric of a task that either side has."""
    first, second = map(_scores, sides)
    for task, metric in first | second:
        pair = first.get((task, metric), ()), second.get((task, metric), ())
        scores = {Column(name, 1): Spread(of) for name, of in zip(names, pair, strict=True)}
        found = verdict(difference(*pair), "difference", left(f"{names[0]} is"))
        yield {left("task"): task, left("metric"): metric, **scores, **found}


def _scores(side: dict[str, Any]) -> dict[tuple[str, str], tuple[float, ...]]:
    """The pre-trained arm's scores, by the titles of task and metric."""
    glue = side.get("glue.json", {})
    average = measured_average(glue)
    rows = (*measured_tasks(glue), *([average] if average else []), *measured_squad(side.get("squad.json", {})))
    return {(row.title, row.metric_title): row.scores["pretrained"] for row in rows}


def _cautions(names: tuple[str, str], sides: list[dict[str, Any]]) -> list[str]:
    """Other differences between the sides: different data make a comparison void, different budgets unfair."""
    result = []
    labels = [str(side.get("glue.json", side.get("squad.json", {})).get("label", "?")) for side in sides]
    if labels[0] != labels[1]:
        result.append(f"Not comparable: {names[0]} is measured on {labels[0]}, {names[1]} on {labels[1]}.")
    facts = [side.get("pretrain.json", {}) for side in sides]
    for key in FACTS:
        if facts[0].get(key) != facts[1].get(key):
            shown = [flops(number(of, key)) if key == "flops" else str(of.get(key)) for of in facts]
            result.append(f"They differ in {key}: {shown[0]} and {shown[1]}.")
    return result or ["Both were pre-trained on the same rows, with the same budget, seed, threads and versions."]
