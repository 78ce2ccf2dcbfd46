"""The page: one HTML file with its styles and figures inside, no network, no framework.

The HTML is in templates/. This module makes the values that they show. In a template an indented
line continues the line before it, so that they can be indented without a space in the page.

The page is a function of the results alone, so that two clones write the same bytes. What differs
from run to run (when, how long, where, at which commit) goes into run.js next to it, which nothing
depends on. The page shows it when it is there.
"""

import itertools
import json
import os
import platform
import re
import time
from pathlib import Path

import jinja2
from jinja2.ext import Extension

from electra.config import plain
from electra.files import sha256_file, write_atomic
from electra.storage.manifest import read_notes
from pipelines.report import claims, examples, findings, paper
from pipelines.report.comparison import predict_next
from pipelines.report.figures import Drawn
from pipelines.report.records import Inputs, ModelResults, number
from pipelines.report.table import CAPTIONS, Row, Table, flops, integer, left
from pipelines.tracking import flatten
from pipelines.tracking.lineage import gpus, printed


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
    templates.filters["percent"] = lambda share: round(100 * share)
    return templates


def render(inputs: Inputs, figures: dict[str, Drawn], tables: dict[str, Table], root: Path) -> str:
    """Return the page."""
    shown: set[str] = set()
    notes = {}
    for name, table in tables.items():  # a note is shown once
        notes[name] = [note for note in table.notes if note not in shown]
        shown.update(table.notes)
    models = inputs.models
    firsts = [
        figures[f"{model.name}-tasks"] for model in models if f"{model.name}-tasks" in figures
    ]
    curves = {
        model.name: [
            figures[f"{model.name}-{name}"]
            for name in CAPTIONS
            if name != "tasks" and f"{model.name}-{name}" in figures
        ]
        for model in models
    }
    return (
        environment()
        .get_template("index.html")
        .render(
            inputs=inputs,
            root=root,
            figures=figures,
            first_figure=firsts[0] if firsts else None,
            tables=tables,
            notes=notes,
            curves=curves,
            facts={model.name: list_facts(model) for model in models},
            settings={model.name: list_settings(model) for model in models},
            strengths=list(itertools.chain(*map(findings.strengths, models))),
            shortfalls=findings.all_shortfalls(inputs),
            findings=findings,
            examples=examples,
            claims=claims,
            files=hash_files(inputs, root),
            citation=paper.PUBLISHED["citation"],
        )
    )


def list_facts(model: ModelResults) -> dict[str, str]:
    """Return what a reader asks next: sizes, cost, and how far another run may be from this one."""
    if model.config is None:
        return {}
    trained = model.config.pretrain
    steps = number(model.pretrain, "steps") or number(vars(trained), "steps")
    phases = [(phase.batch or trained.batch, phase.length) for phase in trained.phases]
    rows = [f"{batch} × {length}" for batch, length in phases or [(trained.batch, trained.length)]]
    documents = number(model.corpus_facts, "documents")
    facts = {
        "pre-training": f"{integer(steps)} steps of {', then '.join(rows)} tokens",
        "text": f"{integer(documents)} documents" if documents else "",
        "cost": f"{flops(model.flops)} FLOPs of pre-training" if model.flops else "",
    }
    seeds = [max(map(len, task.scores.values())) for task in model.tasks]
    if any(seeds):
        facts["spread"] = f"{max(seeds)} fine-tunings a task and arm, of one pre-training"
        average = model.recorded.get("average", ())
        if inside := predict_next(average):
            facts["spread"] += (
                f". By a record of {len(average)}, the mean of another is "
                f"{inside[0]:.1f} to {inside[1]:.1f}, 95 times in 100"
            )
    return {key: text for key, text in facts.items() if text}


def list_settings(model: ModelResults) -> dict[str, dict[str, str]]:
    """Return the settings of a pre-training, and the environment that it ran in."""
    if model.config is None:
        return {}
    environment = ("torch", "device", "threads", "precision", "seed")
    return {
        "Settings of pre-training": flatten(plain(model.config)),
        "Environment of pre-training": {
            key: str(model.pretrain[key]) for key in environment if key in model.pretrain
        },
    }


def hash_files(inputs: Inputs, root: Path) -> Table:
    """Return the sha256 of every file that was read. Settings, seeds, data and code are recorded in
    these files.
    """
    names = [
        *inputs.files,
        *(f"build/models/{model.model}/MANIFEST.json" for model in inputs.models),
    ]
    rows: list[Row] = [
        {left("file"): name, left("sha256"): sha256_file(root / name)}
        for name in names
        if (root / name).is_file()
    ]
    return Table("files", "files read, sha256", rows)


def write_run(path: Path, root: Path = Path()) -> None:
    """Write run.js: when, how long each stage took, on what machine, at which commit."""
    timings = read_notes(root / "runs/timings.json")
    commit = printed("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    cores = f"{os.cpu_count()} CPU cores"
    python = f"Python {platform.python_version()}"
    run = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "commit": commit,
        "changed": bool(printed("git", "-C", str(root), "status", "--porcelain", "-uno")),
        "machine": ", ".join([platform.system(), platform.machine(), cores, python, *gpus()]),
        "durations": {key: value["seconds"] for key, value in timings.items()},
        "clocks": {key: value["clock"] for key, value in timings.items() if "clock" in value},
    }
    write_atomic(path, f"window.electraRun = {json.dumps(run, indent=2, ensure_ascii=False)};\n")
