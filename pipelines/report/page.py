"""The page: one HTML file with its styles and figures inside, no network, no framework; and the same in Markdown.

The HTML stands in templates/, this makes what they show. In a template an indented line continues the line before it,
so that they can be indented without a space in the page. A function of the results alone: the one script fills a box
from run.js (clock, machine, commit), if that is there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension
from markupsafe import Markup

from pipelines.report import claims, examples, findings, paper, provenance
from pipelines.report.figures import Drawn
from pipelines.report.records import Inputs, ModelResults, number
from pipelines.report.table import MISSING, Spread, Table, flops, integer

SHOWN_CURVES = ("disc-loss", "auc", "precision-recall")  # the others are folded away


@dataclass(frozen=True)
class Report:
    """What the page is drawn from."""

    inputs: Inputs
    params: Any
    figures: dict[str, Drawn]
    tables: dict[str, Table]
    root: Path

    @property
    def first_figure(self) -> Drawn | None:
        """This run's own picture: each task of its first model that has scores."""
        names = (f"{model.name}-tasks" for model in self.inputs.models)
        return next((self.figures[name] for name in names if name in self.figures), None)


class Indented(Extension):
    """Joins the indented lines of an HTML template to the line before them and drops its empty ones."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """A template's source as the page has it."""
        if not (name or "").endswith(".html"):
            return source
        return re.sub(r"\n +", "", re.sub(r"\n\s*\n", "\n", source))


def environment() -> jinja2.Environment:
    """The templates, with autoescape; a name that they do not get is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("pipelines.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        extensions=[Indented],
    )
    made.filters["percent"] = lambda share: round(100 * share)
    made.filters["md"] = lambda text: Markup(escape(text, quote=False))  # noqa: S704
    return made


def render(report: Report) -> Iterator[tuple[str, str]]:
    """The name and text of each page: index.html, and report.md to paste or to read in a terminal."""
    inputs, models = report.inputs, report.inputs.models
    shown: set[str] = set()
    notes = {}
    for name, table in report.tables.items():  # a note is shown once
        notes[name] = [note for note in table.notes if note not in shown]
        shown.update(table.notes)
    sources: dict[str, list[Table]] = {}
    for table in provenance.all_tables(inputs, report.params, report.root):
        title = "Ablations: settings of each arm" if table.name.startswith("facts-ablation") else table.title
        sources.setdefault(title, []).append(table)
    content = {
        "inputs": inputs,
        "figures": report.figures,
        "first_figure": report.first_figure,
        "tables": report.tables,
        "notes": notes,
        "headlines": [findings.headline(model, named=len(models) > 1) for model in models],
        "runs": [what_was_run(report, model) for model in models],
        "learnt_here": [sentence for model in models for sentence in findings.learnt(model)],
        "shortfalls": findings.all_shortfalls(inputs),
        "shown_examples": [_examples(report, model) for model in models],
        "curves": [(model, *_curves(report, model)) for model in models],
        "claims": claims,
        "sources": sources,
        "citation": paper.PUBLISHED["citation"],
    }
    templates = environment()
    for page in ("report.md", "index.html"):
        yield page, templates.get_template(page).render(content)


def _examples(report: Report, model: ModelResults) -> tuple[Any, ...]:
    rows = examples.sentences(model)
    answers, mistakes = (list(of(model, report.root)) for of in (examples.answers, examples.mistakes))
    return model, rows, examples.counts(rows), answers, mistakes


def _curves(report: Report, model: ModelResults) -> tuple[list[Drawn], list[Drawn]]:
    """The curves that are shown, and those that are folded away."""
    prefix = f"{model.name}-"
    names = [name for name in report.figures if name.startswith(prefix) and name != f"{prefix}tasks"]
    first = [f"{prefix}{curve}" for curve in SHOWN_CURVES if f"{prefix}{curve}" in names]
    return [report.figures[name] for name in first], [report.figures[name] for name in names if name not in first]


def what_was_run(report: Report, model: ModelResults) -> list[tuple[str, str]]:
    """The facts a reader asks first."""
    config = report.params.models[model.name]
    encoder, trained = config.encoder, config.pretrain
    steps = number(model.pretrain, "steps") or number(vars(trained), "steps")
    phases = [(phase.batch or trained.batch, phase.length) for phase in trained.phases]
    read = ", then ".join(f"{rows} × {length}" for rows, length in phases or [(trained.batch, trained.length)])
    size = f", {model.parameters} parameters" if model.parameters else ""
    facts = {
        "model": f"{model.name}: {encoder.layers} layers, hidden {encoder.hidden}{size}",
        "pre-training": f"{integer(steps)} steps of {read} tokens, objective {config.objective.name}",
        "FLOPs": f"{flops(model.flops)} (the authors' way of counting)" if model.flops else MISSING,
        "text": _corpus(report, model),
        "tasks": model.data,
    }
    if seeds := max((len(scores) for task in model.tasks for scores in task.scores.values()), default=0):
        facts["spread"] = f"{seeds} fine-tunings a task and arm, of 1 pre-training"
        if over := model.recorded.get(("average", "")):
            facts["spread"] += f"; a record of {len(over)} pre-trainings has a mean of {Spread(over).text()}"
    return [*facts.items(), ("try it", f"electra play {model.name}")]


def _corpus(report: Report, model: ModelResults) -> str:
    values = report.inputs.corpora.get(model.corpus) or {}
    documents, size = number(values, "documents"), number(values, "bytes")
    parts = [f"{integer(documents)} documents"] if documents else []
    if size:
        parts.append(f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB")
    return ": ".join([model.corpus.replace("_", " "), *([", ".join(parts)] if parts else [])])
