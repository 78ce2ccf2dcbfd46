"""The page: one HTML file with its styles and figures inside, no network, no framework.

The HTML is in templates/. This module makes the values that they show. In a template an indented
line continues the line before it, so that they can be indented without a space in the page.

The page is a function of the results alone, so that two clones write the same bytes. Facts that
differ from run to run (time, duration, machine, commit) go into run.js next to it, which nothing
depends on. The page shows it if it exists.
"""

import itertools
import json
import re
import time
from pathlib import Path

import jinja2
from jinja2.ext import Extension

from electra.config import to_jsonable
from electra.errors import pluralize
from electra.files import sha256_file, write_atomic
from electra.storage.manifest import read_cache
from pipelines.report import claims, examples, findings, paper
from pipelines.report.comparison import predict_next
from pipelines.report.figures import CURVES, Drawn
from pipelines.report.records import Inputs
from pipelines.report.table import TEXTS, Row, Table, flops, integer, left
from pipelines.tracking import flatten
from pipelines.tracking.lineage import printed


class Indented(Extension):
    """Joins the indented lines of an HTML template to the line before them and drops its empty
    ones.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return a template's source as the page has it."""
        if not (name or "").endswith(".html"):
            return source
        return re.sub(r"\n +", "", re.sub(r"\n\s*\n", "\n", source))


def environment() -> jinja2.Environment:
    """Return the templates, with autoescape. A name that they do not get is an error."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("pipelines.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        extensions=[Indented],
    )
    templates.filters |= {
        "percent": lambda share: round(100 * share),
        "integer": integer,
        "pluralize": pluralize,
        "flops": flops,
    }
    return templates


def render(inputs: Inputs, figures: dict[str, Drawn], tables: dict[str, Table]) -> str:
    """Return the page."""
    shown: set[str] = set()
    notes = {}
    for name, table in tables.items():  # a note is shown once
        notes[name] = [note for note in table.notes if note not in shown]
        shown.update(table.notes)
    models = inputs.models
    return (
        environment()
        .get_template("index.html")
        .render(
            inputs=inputs,
            figures=figures,
            tables=tables,
            notes=notes,
            curves=CURVES,
            predict_next=predict_next,
            settings={
                model.name: flatten(to_jsonable(model.config)) for model in models if model.config
            },
            methods=TEXTS["methods"],
            strengths=list(itertools.chain(*map(findings.strengths, models))),
            shortfalls=findings.all_shortfalls(inputs),
            findings=findings,
            examples=examples,
            claims=claims,
            files=hash_files(inputs),
            citation=paper.PUBLISHED["citation"],
        )
        .replace(" %", "\N{NO-BREAK SPACE}%")
    )


def hash_files(inputs: Inputs) -> Table:
    """Return the sha256 of every file that was read. Settings, seeds, data and code are recorded in
    these files.
    """
    names = [
        *inputs.files,
        *(f"build/models/{model.model}/MANIFEST.json" for model in inputs.models),
    ]
    rows: list[Row] = [
        {left("file"): name, left("sha256"): sha256_file(Path(name))}
        for name in names
        if Path(name).is_file()
    ]
    return Table("files", "files read, sha256", rows)


def write_run(path: Path) -> None:
    """Write run.js: when and at which commit, and how long each stage took on what machine."""
    run = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "commit": printed("git", "rev-parse", "--short=12", "HEAD"),
        "changed": bool(printed("git", "status", "--porcelain", "-uno")),
        "stages": read_cache(Path("runs/timings.json")),
    }
    write_atomic(path, f"window.electraRun = {json.dumps(run, indent=2, ensure_ascii=False)};\n")
