"""The page: one HTML file with its styles and figures inside, no network, no framework; and the same in Markdown.

A function of the results alone. The one script fills a box from run.js (clock, machine, commit), if that is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from pipelines.report import claims, examples, findings, paper, provenance
from pipelines.report.ablation_records import Ablation, number
from pipelines.report.figures import Drawn
from pipelines.report.inputs import Inputs, ModelResults
from pipelines.report.records import Record
from pipelines.report.table import MISSING, Table, flops, integer
from pipelines.report.tables import parameters

SAMPLE_WORLD = (
    "The sample world is a small made-up world written by a seeded grammar: its articles, its nine tasks and its "
    "questions only have the form of GLUE and SQuAD. Its scores say whether the method works here; they are not GLUE "
    "or SQuAD scores."
)

PLAY = "http://127.0.0.1:8008/"
TELLING = ("disc-loss", "auc", "precision-recall")  # curves that are shown; the others are folded away
OTHER_SETTINGS = (
    "Its settings were others than params.yaml has now: its arms compare with each other, and with nothing else on "
    "this page."
)

SCRIPT = """
const box = document.getElementById("run"), run = window.electraRun;
if (run) {
  const minutes = s => s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${(s / 60).toFixed(1)} min` : `${(s / 3600).toFixed(1)} h`;
  const stages = Object.entries(run.durations || {});
  const total = stages.reduce((sum, [, s]) => sum + (s || 0), 0);
  const rows = [["drawn", run.date], ["commit", run.commit || "not in a git checkout"], ["machine", run.machine],
    ["stages took", stages.length ? minutes(total) + " in all: " + stages.map(([k, s]) => `${k} ${minutes(s || 0)}`).join(", ") : "not recorded"],
    ["versions", Object.entries(run.versions || {}).map(([k, v]) => `${k} ${v}`).join(", ")]];
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, value] of rows) for (const [tag, text] of [["dt", key], ["dd", value]]) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    list.append(cell);
  }
  box.replaceChildren(list);
}
"""  # noqa: E501


@dataclass(frozen=True)
class Report:
    """What the page is drawn from; `said` holds the notes that a table has already shown."""

    inputs: Inputs
    params: Any
    figures: dict[str, Drawn]
    tables: dict[str, Table]
    root: Path
    said: set[str] = field(default_factory=set)

    def table(self, name: str) -> str:
        """A table as HTML, or nothing."""
        return self.tables[name].html(self.said) if name in self.tables else ""


def render(report: Report) -> str:
    """The whole HTML file."""
    inputs = report.inputs
    labels = data_labels(inputs)
    pills = "".join(f'<span class="pill">{escape(label)}</span>' for label in labels)
    sections = [
        ("results", "Results by task", _results(report)),
        ("learnt", "What was learnt, what not", _learnt(report)),
        ("examples", "Examples to read", _examples(report)),
        ("pretraining", "Pre-training", _pretraining(report)),
        ("paper", "The paper's statements", _paper(report)),
        ("provenance", "Where the numbers come from", _provenance(report)),
    ]
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title, _ in sections)
    body = "".join(
        f'<section><h2 id="{anchor}">{escape(title)}</h2>{inner}</section>' for anchor, title, inner in sections
    )
    css = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>ELECTRA: {escape(', '.join(model.name for model in inputs.models) or 'report')}</title>\n"
        f"<style>\n{css}</style>\n</head>\n<body>\n<header><h1>ELECTRA, pre-trained and measured {pills}</h1>"
        f'<nav aria-label="Sections">{links}</nav></header>\n<main>{_first_page(report)}\n{body}</main>\n'
        f"<footer><p>The method and the published numbers: {escape(paper.CITATION)}. Figures and tables also stand "
        "beside this page as SVG, CSV and Markdown.</p></footer>\n"
        f'<script src="run.js"></script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
    )


def data_labels(inputs: Inputs) -> list[str]:
    """What data this run's numbers are of."""
    ablations = (ablation.data for ablation in inputs.ablations if not ablation.record)
    return list(dict.fromkeys([*(model.data for model in inputs.models), *ablations]))


def figure(drawn: Drawn | None, owner: str = "") -> str:
    """A figure with its caption, or nothing; the owner's name is left out where its heading has it."""
    if drawn is None:
        return ""
    caption = drawn.caption.removeprefix(f"{owner}: ")
    return f"<figure>{drawn.svg}<figcaption>{escape(caption[:1].upper() + caption[1:])}.</figcaption></figure>"


def bullets(sentences: Sequence[str], empty: str) -> str:
    """Sentences as a list."""
    if not sentences:
        return f'<p class="none">{escape(empty)}</p>'
    return f"<ul class=plainlist>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def folded(title: str, inner: str, more: str = "", anchor: str = "") -> str:
    """What is there for those who look for it: a line that opens."""
    named = f' id="{anchor}"' if anchor else ""
    line = f"{escape(title)} <span>{escape(more)}</span>"
    return f"<details{named}><summary>{line}</summary>{inner}</details>" if inner else ""


def _first_page(report: Report) -> str:
    models = report.inputs.models
    several = len(models) > 1
    said = "".join(f'<p class="say">{escape(findings.headline(model, named=several))}</p>' for model in models)
    hero = figure(headline_figure(report), models[0].name if len(models) == 1 else "")
    sample = f"<p>{escape(SAMPLE_WORLD)}</p>" if any(model.sample for model in models) else ""
    return (
        f'<div class="hero"><div>{said or "<p class=say>No model is selected in params.yaml: run.models.</p>"}'
        f"{sample}{_runs(report)}</div>{hero}</div>"
    )


def headline_figure(report: Report) -> Drawn | None:
    """This run's own picture: each task of its first model that has scores."""
    return next((drawn for model in report.inputs.models if (drawn := report.figures.get(f"{model.name}-tasks"))), None)


def _runs(report: Report) -> str:
    """What was run, a list for each model."""
    facts = [what_was_run(report, model) for model in report.inputs.models]
    inner = ("".join(f"<dt>{escape(key)}</dt><dd>{escape(said)}</dd>" for key, said in rows) for rows in facts)
    return "".join(f'<dl class="facts">{rows}</dl>' for rows in inner)


def what_was_run(report: Report, model: ModelResults) -> list[tuple[str, str]]:
    """The facts a reader asks first."""
    config = report.params.models[model.name]
    encoder, trained = config.encoder, config.pretrain
    steps = number(model.pretrain, "steps") or number(vars(trained), "steps")
    batches = [(phase.batch or trained.batch, phase.length) for phase in trained.phases] or [
        (trained.batch, trained.length)
    ]
    read = ", then ".join(f"{rows} × {length}" for rows, length in batches)
    size = f", {known} parameters" if (known := parameters(model)) else ""
    rows = [
        ("model", f"{model.name}: {encoder.layers} layers, hidden {encoder.hidden}{size}"),
        ("pre-training", f"{integer(steps)} steps of {read} tokens, objective {config.objective.name}"),
        ("FLOPs", f"{flops(model.flops)} (the authors' way of counting)" if model.flops else MISSING),
        ("text", _corpus(report, model)),
        ("tasks", model.data),
    ]
    seeds = max((len(scores) for task in model.tasks for scores in task.scores.values()), default=0)
    if seeds:
        told = f"{seeds} fine-tunings a task and arm, of 1 pre-training"
        if over := model.recorded.get(("average", "")):
            told += f"; a record of {len(over)} pre-trainings has a mean of {findings.spread(over)}"
        rows.append(("spread", told))
    rows.append(("try it", f"electra play {model.name}"))
    return rows


def _corpus(report: Report, model: ModelResults) -> str:
    values = report.inputs.corpora.get(model.corpus) or {}
    name = model.corpus.replace("_", " ")
    parts = []
    if documents := number(values, "documents"):
        parts.append(f"{integer(documents)} documents")
    if size := number(values, "bytes"):
        parts.append(f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB")
    return f"{name}: {', '.join(parts)}" if parts else name


def _results(report: Report) -> str:
    parts = []
    for model in report.inputs.models:
        drawn = report.figures.get(f"{model.name}-tasks")
        drawn = None if drawn is headline_figure(report) else drawn
        more = folded("Every metric", report.table(f"{model.name}-metrics"))
        parts.append(f"{report.table(f'{model.name}-tasks')}{figure(drawn, model.name)}{more}")
    return "".join(parts)


def _pretraining(report: Report) -> str:
    parts = []
    for model in report.inputs.models:
        panels = {name: drawn for name, drawn in report.figures.items() if name.startswith(f"{model.name}-")}
        panels.pop(f"{model.name}-tasks", None)
        first = [panels.pop(name) for telling in TELLING if (name := f"{model.name}-{telling}") in panels]
        shown, more = (
            f'<div class="grid">{"".join(figure(one, model.name) for one in of)}</div>' if of else ""
            for of in (first, panels.values())
        )
        if shown or more:
            title = f"<h3>{escape(model.name)}</h3>" if len(report.inputs.models) > 1 else ""
            text = escape(model.corpus.replace("_", " "))
            said = f"Measured on held-out text of {text} with the same masks each time; grey: training."
            lead = f'<p class="lead">{said}</p>'
            parts.append(f"{title}{lead}{shown}{folded('More curves', more)}")
    return "".join(parts)


def _ablation(report: Report, ablation: Ablation) -> str:
    """One line, which opens to figure, statements and tables."""
    name = f"ablation-{ablation.name}"
    drawn = "".join(figure(report.figures.get(f"{name}{part}"), ablation.title) for part in ("", "-points"))
    orders = claims.orders(ablation)
    said = f"<div><h4>What the paper says, pair by pair</h4>{bullets(orders, '')}</div>" if orders else ""
    lead = f'<p class="lead">{escape(f"{ablation.title}. {recorded(ablation.record)}")}</p>' if ablation.record else ""
    tables = "".join(report.table(f"{name}{part}") for part in ("", "-points", "-tasks"))
    return folded(
        ablation.title.partition(" (")[0],
        f'{lead}<div class="pair">{drawn}{said}</div>{tables}',
        claims.line(ablation),
        name,
    )


def recorded(record: dict[str, Any]) -> str:
    """When, where and how long a recorded run was."""
    minutes = number(record, "seconds")
    took = f" in {minutes / 60:.0f} minutes" if minutes else ""
    said = f"Recorded {record.get('recorded')} at commit {record.get('commit')}{took}, on {record.get('machine')}."
    return f"{said} {OTHER_SETTINGS}" if record.get("other_settings") else said


def _record(report: Report, record: Record) -> str:
    """A run of another model, as recorded."""
    facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(said)}</dd>" for key, said in record.details)
    return folded(
        record.name,
        f'<dl class="facts">{facts}</dl>{report.table(f"record-{record.name}")}',
        f"recorded, {record.data}",
    )


def _examples(report: Report) -> str:
    parts = []
    for model in report.inputs.models:
        title = f"{model.name}, {model.data}"
        if inner := examples.sentences(model):
            play = (
                f'<p class="lead"><code>electra play {escape(model.name)}</code> judges any text so, and answers any '
                f'question, in the browser (<a href="{PLAY}">{PLAY}</a> while it runs). This is what it shows of the '
                "first held-out texts and questions.</p>"
            )
            parts.append(f"<h3>Replaced or original? <small>{escape(title)}, held-out text</small></h3>{play}{inner}")
        if inner := examples.answers(model, report.root):
            parts.append(f"<h3>Answers <small>{escape(title)}, pre-trained, first seed</small></h3>{inner}")
        if inner := examples.mistakes(model, report.root):
            said = "The mistake of each task that the model was surest of, so the worst ones, not typical ones."
            lead = f'<p class="lead">{said}</p>'
            parts.append(f"<h3>Mistakes <small>{escape(title)}, pre-trained, first seed</small></h3>{lead}{inner}")
    return "".join(parts)


def _paper(report: Report) -> str:
    inputs = report.inputs
    published = "".join(report.table(name) for name in report.tables if name.startswith("paper-"))
    said = "The published numbers, with ours in rows and columns of their own. Only orders and gaps can be compared."
    lead = f'<p class="lead">{said}</p>'
    ablations = "".join(_ablation(report, ablation) for ablation in inputs.ablations)
    records = "".join(_record(report, record) for record in inputs.records)
    return (
        report.table("claims")
        + (f"<h3>The ablations, one by one</h3>{ablations}" if ablations else "")
        + (f"<h3>Recorded runs of other models</h3>{records}" if records else "")
        + "<h3>The paper's tables</h3>"
        + folded("Tables 1, 2 and 4, and ours beside them", published and lead + published)
    )


def _learnt(report: Report) -> str:
    inputs = report.inputs
    learnt = [sentence for model in inputs.models for sentence in findings.learnt(model)]
    missing, unrun = (bullets(sentences, "") if sentences else "" for sentences in (inputs.missing, inputs.unrun))
    short = bullets(findings.all_shortfalls(inputs), "Nothing that these results show.")
    return (
        f'<div class="pair"><div><h3>Learnt</h3>{bullets(learnt, "Nothing that these results show.")}</div>'
        f"<div><h3>Fell short</h3>{short}</div></div>"
        + (
            folded("Missing or failed", missing, str(len(inputs.missing)))
            or '<p class="none">Every stage, arm and seed has a result.</p>'
        )
        + folded("Not run, and gaps in records", unrun, str(len(inputs.unrun)))
    )


def _provenance(report: Report) -> str:
    data = "".join(report.table(name) for name in report.tables if name.startswith("data-"))
    facts: dict[str, str] = {"Text, rows and tasks": data}
    for table in provenance.all_tables(report.inputs, report.params, report.root):
        title = "Ablations: settings of each arm" if table.name.startswith("facts-ablation") else table.title
        facts[title] = facts.get(title, "") + table.html().replace('class="table"', 'class="table facts"')
    return (
        '<div class="run" id="run"><span class="none">When, how long, on what machine: not recorded.</span></div>'
        '<p class="lead">Settings, data and code as recorded by the stages.</p>'
        + "".join(folded(title, inner) for title, inner in facts.items())
    )


def markdown(report: Report) -> str:
    """report.md: the same findings, tables and figures, to paste or to read in a terminal."""
    inputs = report.inputs
    lines = [f"# ELECTRA: {', '.join(model.name for model in inputs.models)} ({', '.join(data_labels(inputs))})", ""]
    for model in inputs.models:
        lines += [findings.headline(model, named=len(inputs.models) > 1), ""]
        lines += [f"- {key}: {value}" for key, value in what_was_run(report, model)] + [""]
        if model.sample:
            lines += [SAMPLE_WORLD, ""]
    first = headline_figure(report)
    lines = [escape(line, quote=False) for line in lines]
    if first:
        lines += [escape(f"![{first.caption}](figures/{first.name}.svg)", quote=False), ""]
    shown = [f"{model.name}-tasks" for model in inputs.models]
    lines += [report.tables[name].markdown() for name in (*shown, "claims") if name in report.tables]
    lines += [
        "## Ablations",
        "",
        *(f"- {escape(a.title, quote=False)}: {claims.line(a)}" for a in inputs.ablations),
        "",
    ]
    for title, sentences in (
        ("Learnt", [sentence for model in inputs.models for sentence in findings.learnt(model)]),
        ("Fell short", findings.all_shortfalls(inputs)),
        ("Missing or failed", inputs.missing),
        ("Not run, and gaps in records", inputs.unrun),
    ):
        lines += [f"## {title}", "", *(f"- {escape(said, quote=False)}" for said in sentences or ["nothing"]), ""]
    return "\n".join(lines).rstrip() + "\n\nEvery table stands in `tables/`, every figure in `figures/`.\n"
