"""The page: one HTML file with its styles and figures inside, no network, no framework; and the same in Markdown.

A function of the results alone. The one script fills a box from run.js (clock, machine, commit), if that is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from pipelines.report import claims, examples, findings, paper, provenance
from pipelines.report.experiments import Ablation, number
from pipelines.report.figures import Drawn
from pipelines.report.inputs import Inputs, ModelResults, held_out
from pipelines.report.table import MISSING, Table, flops, integer
from pipelines.report.tables import parameters

SAMPLE_WORLD = (
    "The sample world is a small made-up world written by a seeded grammar: its articles, its nine tasks and its questions "
    "only have the form of GLUE and SQuAD. Its scores say whether the method works here; they are not GLUE or SQuAD scores."
)

OTHER_SETTINGS = "Its settings were others than params.yaml has now: its arms compare with each other, and with nothing else on this page."

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
"""


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
        ("answers", "Question answering", _question_answering(report)),
        ("pretraining", "Pre-training", _pretraining(report)),
        ("ablations", "Ablations", "".join(_ablation(report, ablation) for ablation in inputs.ablations)),
        ("records", "Recorded runs", _records(report)),
        ("short", "What fell short, what is missing", _short(report)),
        ("examples", "Examples", _examples(report)),
        ("paper", "Beside the paper", _paper(report)),
        ("data", "Data", "".join(report.table(name) for name in report.tables if name.startswith("data-"))),
        ("provenance", "Provenance", _provenance(report)),
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
        f"<footer><p>The method and the published numbers: {escape(paper.CITATION)}. Figures and tables also stand beside "
        "this page as PNG, SVG, CSV and Markdown.</p></footer>\n"
        f'<script src="run.js"></script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
    )


def data_labels(inputs: Inputs) -> list[str]:
    """What data the numbers are of."""
    return list(dict.fromkeys([*(m.data for m in inputs.models), *(a.data for a in inputs.ablations)]))


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


def _first_page(report: Report) -> str:
    models = report.inputs.models
    several = len(models) > 1
    said = "".join(f'<p class="say">{escape(findings.headline(model, named=several))}</p>' for model in models)
    hero = figure(headline_figure(report) or _tasks_figure(report), models[0].name if len(models) == 1 else "")
    sample = f"<p>{escape(SAMPLE_WORLD)}</p>" if any(model.sample for model in models) else ""
    return (
        f'<div class="hero"><div>{said or "<p class=say>No model is selected in params.yaml: run.models.</p>"}{sample}{_runs(report)}'
        f'<div class="run" id="run"><span class="none">When, how long, on what machine: not recorded.</span></div></div>'
        f"{hero}</div>"
    )


def headline_figure(report: Report) -> Drawn | None:
    """This run's own picture: each task of its model; of several models the score against FLOPs."""
    models = report.inputs.models
    return report.figures.get("score-by-flops") if len(models) > 1 else _tasks_figure(report)


def _tasks_figure(report: Report) -> Drawn | None:
    return next((drawn for model in report.inputs.models if (drawn := report.figures.get(f"{model.name}-tasks"))), None)


def _runs(report: Report) -> str:
    """What was run: a list for one model, a column each for several."""
    runs = [what_was_run(report, model) for model in report.inputs.models]
    if len(runs) == 1:
        return f'<dl class="facts">{"".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in runs[0])}</dl>'
    keys = list(dict.fromkeys(key for run in runs for key, _ in run))
    rows = "".join(
        f"<tr><th scope=row class=left>{escape(key)}</th>"
        + "".join(f"<td class=left>{escape(dict(run).get(key, MISSING))}</td>" for run in runs)
        + "</tr>"
        for key in keys
    )
    return f'<div class="scroll runs"><table><tbody>{rows}</tbody></table></div>' if runs else ""


def what_was_run(report: Report, model: ModelResults) -> list[tuple[str, str]]:
    """The facts a reader asks first."""
    config = report.params.models[model.name]
    encoder = config.encoder
    steps = number(model.pretrain, "steps") or number(vars(config.pretrain), "steps")
    batches = [(phase.batch or config.pretrain.batch, phase.length) for phase in config.pretrain.phases]
    batches = batches or [(config.pretrain.batch, config.pretrain.length)]
    size = parameters(model)
    rows = [
        (
            "model",
            f"{model.name}: {encoder.layers} layers, hidden {encoder.hidden}"
            + (f", {size} parameters" if size else ""),
        ),
        (
            "pre-training",
            f"{integer(steps)} steps of {', then '.join(f'{rows} × {length}' for rows, length in batches)} tokens, "
            f"objective {config.objective.name}",
        ),
        ("FLOPs", f"{flops(model.flops)} (the authors' way of counting)" if model.flops else MISSING),
        ("text", _corpus(report, model)),
        ("tasks", model.data),
    ]
    seeds = max((len(scores) for task in model.tasks for scores in task.scores.values()), default=0)
    if seeds:
        rows.append(("seeds", f"{seeds} fine-tunings a task and arm, of 1 pre-training"))
    if auc := held_out(model.curve, "disc_auc"):
        rows.append(("discriminator", f"AUC {auc[1][-1]:.3f} on held-out text at the end"))
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
        drawn = None if drawn is (headline_figure(report) or _tasks_figure(report)) else drawn
        more = report.table(f"{model.name}-metrics")
        hidden = f"<details><summary>Every metric</summary>{more}</details>" if more else ""
        parts.append(f"{report.table(f'{model.name}-tasks')}{figure(drawn, model.name)}{hidden}")
    return "".join(parts)


def _question_answering(report: Report) -> str:
    return "".join(report.table(f"{model.name}-squad") for model in report.inputs.models)


def _pretraining(report: Report) -> str:
    parts = []
    for model in report.inputs.models:
        panels = [
            d
            for name, d in report.figures.items()
            if name.startswith(f"{model.name}-") and name != f"{model.name}-tasks"
        ]
        if panels:
            title = f"<h3>{escape(model.name)}</h3>" if len(report.inputs.models) > 1 else ""
            lead = f'<p class="lead">Measured on held-out text of {escape(model.corpus.replace("_", " "))} with the same masks each time; grey: training.</p>'
            parts.append(
                f'{title}{lead}<div class="grid">{"".join(figure(panel, model.name) for panel in panels)}</div>'
            )
    return "".join(parts)


def _ablation(report: Report, ablation: Ablation) -> str:
    name = f"ablation-{ablation.name}"
    shown = [report.figures.get(name), report.figures.get(f"{name}-points")]
    drawn = "".join(figure(one, ablation.title) for one in shown)
    orders = claims.orders(ablation)
    said = f"<div><h4>What the paper says, pair by pair</h4>{bullets(orders, '')}</div>" if orders else ""
    lead = f'<p class="lead">{escape(recorded(ablation.record))}</p>' if ablation.record else ""
    tables = "".join(report.table(f"{name}{part}") for part in ("", "-points", "-tasks"))
    over = [
        drawn for key, drawn in report.figures.items() if key.startswith(f"{name}-") and not key.endswith("-points")
    ]
    panels = "".join(figure(one, ablation.title) for one in over)
    if panels:
        panels = f'<details><summary>Training curves</summary><div class="grid">{panels}</div></details>'
    return f'<h3 id="{name}">{escape(ablation.title)}</h3>{lead}<div class="pair">{drawn}{said}</div>{tables}{panels}'


def recorded(record: dict[str, Any]) -> str:
    """When, where and how long a recorded run was."""
    minutes = number(record, "seconds")
    took = f" in {minutes / 60:.0f} minutes" if minutes else ""
    said = f"Recorded {record.get('recorded')} at commit {record.get('commit')}{took}, on {record.get('machine')}."
    return f"{said} {OTHER_SETTINGS}" if record.get("other_settings") else said


def _records(report: Report) -> str:
    """Runs of other models, as recorded."""
    parts = []
    for record in report.inputs.records:
        facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(said)}</dd>" for key, said in record.facts)
        inner = f'<dl class="facts">{facts}</dl>{report.table(f"record-{record.name}")}'
        parts.append(f"<h3>{escape(record.name)} <small>{escape(record.data)}</small></h3>{inner}")
    return "".join(parts)


def _examples(report: Report) -> str:
    parts = []
    for model in report.inputs.models:
        title = f"{model.name}, {model.data}"
        if inner := examples.sentences(model):
            parts.append(f"<h3>Replaced or original? <small>{escape(title)}, held-out text</small></h3>{inner}")
        if inner := examples.answers(model, report.root):
            parts.append(f"<h3>Answers <small>{escape(title)}, pre-trained, first seed</small></h3>{inner}")
        if inner := examples.mistakes(model, report.root):
            lead = '<p class="lead">The mistakes the model was surest of, so the worst ones, not typical ones.</p>'
            parts.append(f"<h3>Mistakes <small>{escape(title)}, pre-trained, first seed</small></h3>{lead}{inner}")
    return "".join(parts)


def _paper(report: Report) -> str:
    names = [name for name in report.tables if name.startswith("paper-")]
    lead = "The published numbers, with ours in rows and columns of their own. Only orders and gaps can be compared."
    return f'<p class="lead">{lead}</p>' + "".join(map(report.table, names))


def _short(report: Report) -> str:
    met = [sentence for model in report.inputs.models for reached, sentence in findings.goals(model) if reached]
    sample = any(model.sample for model in report.inputs.models)
    marks = bullets(met, "None of the marks set for the sample world is reached (or it was not run).")
    return (
        (f"<h3>Marks reached</h3>{marks}" if sample else "")
        + "<h3>Fell short</h3>"
        + bullets(findings.all_shortfalls(report.inputs), "Nothing that these results show.")
        + "<h3>Missing or failed</h3>"
        + bullets(report.inputs.missing, "Nothing: every stage, arm and seed that was asked for has a result.")
        + ("<h3>Not run</h3>" + bullets(report.inputs.unrun, "") if report.inputs.unrun else "")
    )


def _provenance(report: Report) -> str:
    parts = []
    for table in provenance.facts(report.inputs, report.params, report.root):
        inner = table.html().replace('<figure class="table"', '<figure class="table facts"')
        parts.append(f"<details><summary>{escape(table.title)}</summary>{inner}</details>")
    return (
        '<p class="lead">Settings, data and code as recorded by the stages; clock, commit and machine are in the box at the top.</p>'
        + "".join(parts)
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
    shown = [*([first] if first else []), *(drawn for drawn in report.figures.values() if drawn is not first)]
    pictures = [escape(f"![{drawn.caption}](figures/{drawn.name}.png)", quote=False) for drawn in shown]
    lines = [*(escape(line, quote=False) for line in lines), *pictures[:1], ""]
    tables = [table.markdown() for table in report.tables.values()]
    for part in (*tables[:1], "\n".join(pictures[1:]), *tables[1:]):
        lines += [part, ""]
    orders = [
        f"{ablation.title} ({ablation.origin}): {said}"
        for ablation in inputs.ablations
        for said in claims.orders(ablation)
    ]
    for title, sentences in (
        ("What the paper says, pair by pair", orders),
        ("Fell short", findings.all_shortfalls(inputs)),
        ("Missing or failed", inputs.missing),
        ("Not run", inputs.unrun),
    ):
        lines += [f"## {title}", "", *(f"- {escape(said, quote=False)}" for said in sentences or ["nothing"]), ""]
    return "\n".join(lines).rstrip() + "\n"
