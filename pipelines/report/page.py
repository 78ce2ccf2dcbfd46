"""The page: one HTML file with its styles and figures inside, no network, no framework; and the
same in Markdown.

The HTML is in templates/; this module makes the values that they show. In a template an indented
line continues the line before it, so that they can be indented without a space in the page. The
page is a function of the results alone: its one script fills a box from run.js (clock, machine,
commit), if that exists.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension
from markupsafe import Markup

from pipelines.report import claims, examples, findings, paper, provenance
from pipelines.report.comparison import predict_next
from pipelines.report.figures import Drawn
from pipelines.report.records import Inputs, ModelResults, number
from pipelines.report.table import CAPTIONS, MISSING, Table, flops, integer


class Indented(Extension):
    """Joins the indented lines of an HTML template to the line before them and drops its empty
    ones.
    """

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


def render(
    inputs: Inputs, params: Any, figures: dict[str, Drawn], tables: dict[str, Table], root: Path
) -> Iterator[tuple[str, str]]:
    """The name and text of each page: index.html, and report.md to paste or to read in a terminal."""
    models, shown, notes = inputs.models, set[str](), {}
    for name, table in tables.items():  # a note is shown once
        notes[name] = [note for note in table.notes if note not in shown]
        shown.update(table.notes)
    content = {
        "inputs": inputs,
        "figures": figures,
        "first_figure": next(
            (figures[key] for model in models if (key := f"{model.name}-tasks") in figures), None
        ),
        "tables": tables,
        "notes": notes,
        "headlines": [
            f"{model.name}: " * (len(models) > 1) + findings.headline(model) for model in models
        ],
        "runs": [
            what_was_run(model, params, inputs.data[f"results/{model.name}/corpus.json"])
            for model in models
        ],
        "learnt_here": [sentence for model in models for sentence in findings.learnt(model)],
        "shortfalls": findings.all_shortfalls(inputs),
        "examples_of": examples,
        "root": root,
        "curves": [
            (
                model,
                [figures[key] for each in CAPTIONS if (key := f"{model.name}-{each}") in figures],
            )
            for model in models
        ],
        "claims": claims,
        "files": provenance.files(inputs, root),
        "citation": paper.PUBLISHED["citation"],
    }
    templates = environment()
    for page in ("report.md", "index.html"):
        yield page, templates.get_template(page).render(content)


def what_was_run(model: ModelResults, params: Any, corpus: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts a reader asks first; `corpus` is what the corpus stage counted."""
    config = params.models[model.name]
    encoder, trained = config.encoder, config.pretrain
    steps = number(model.pretrain, "steps") or number(vars(trained), "steps")
    phases = [(phase.batch or trained.batch, phase.length) for phase in trained.phases]
    read = ", then ".join(
        f"{rows} × {length}" for rows, length in phases or [(trained.batch, trained.length)]
    )
    size = f", {model.parameters} parameters" if model.parameters else ""
    documents, text = number(corpus, "documents"), number(corpus, "bytes") or 0.0
    amounts = [f"{integer(documents)} documents"] if documents else []
    amounts += [f"{text / 1e6:.1f} MB" if text < 1e9 else f"{text / 1e9:.2f} GB"] if text else []
    facts = {
        "model": f"{model.name}: {encoder.layers} layers, hidden {encoder.hidden}{size}",
        "pre-training": f"{integer(steps)} steps of {read} tokens, objective {config.objective.name}",
        "text": model.corpus.replace("_", " ") + (f": {', '.join(amounts)}" if amounts else ""),
        "cost": _cost(model),
    }
    if seeds := max(
        (len(scores) for task in model.tasks for scores in task.scores.values()), default=0
    ):
        facts["spread"] = f"{seeds} fine-tunings a task and arm, of 1 pre-training"
        if inside := predict_next(over := model.recorded.get("average", ())):
            facts["spread"] += (
                f"; by a record of {len(over)}, the mean of another is {inside[0]:.1f} to "
            )
            facts["spread"] += f"{min(inside[1], 100):.1f}, 95 times in 100"
    return [*facts.items(), ("try it", f"electra play {model.name}")]


def _cost(model: ModelResults) -> str:
    """FLOPs, and those of a point of the mean over fresh weights; run.js adds the minutes."""
    if not model.flops:
        return MISSING
    gained = model.average.difference.points if model.average and model.average.difference else 0.0
    each = (
        f", {flops(model.flops / gained)} for each point over fresh weights" if gained > 0 else ""
    )
    return f"{flops(model.flops)} FLOPs of pre-training{each}"
