"""The report's figures, each a function from records to a matplotlib figure; `draw_all` writes and returns SVGs.

Small figures on purpose: three stand side by side on a desk screen, one fills a phone, and the type stays the same
size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.finetuning.runs.summary import sd
from pipelines.report import ablation_figures
from pipelines.report.comparison import difference, mean
from pipelines.report.inputs import Inputs, Measured, ModelResults, held_out, training
from pipelines.report.style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PAPER, context, inline_svg, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.9, 2.75)  # inches


@dataclass(frozen=True)
class Drawn:
    """A figure that is on disk: its file stem, its caption, and its SVG for the page."""

    name: str
    caption: str
    svg: str


def draw_all(inputs: Inputs, folder: Path) -> dict[str, Drawn]:
    """Draw every figure that the inputs allow into `folder`."""
    drawn: dict[str, Drawn] = {}

    def keep(name: str, caption: str, figure: "Figure | None") -> None:
        if figure is not None:
            drawn[name] = Drawn(name, caption, inline_svg(save(figure, folder, name), name, caption))

    with context():
        for model in inputs.models:
            if any(_any_scores(task) for task in model.tasks):
                caption = (
                    f"{model.name}: each task from scratch and pre-trained, beside chance (SQuAD: never answering) and "
                    f"the commonest class, one small mark per fine-tuning ({model.data})"
                )
                keep(f"{model.name}-tasks", caption, tasks(model))
            text = model.corpus.replace("_", " ")
            for name, caption, figure in curves(model):
                keep(f"{model.name}-{name}", f"{model.name}: {caption} ({text})", figure)
        for ablation in inputs.ablations:
            for name, caption, figure in ablation_figures.all_figures(ablation):
                keep(name, caption, figure)
    return drawn


def tasks(model: ModelResults) -> "Figure":
    """One line a task: the two arms' means joined, their standard deviations as bars, every seed as a small mark."""
    rows = [task for task in model.tasks if _any_scores(task)]
    if model.average and _any_scores(model.average):
        rows.append(model.average)
    squad = [m for metrics in model.squad.values() for m in metrics if _any_scores(m)]
    figure = new_figure(4.4, 0.9 + 0.3 * (len(rows) + len(squad)))
    axes = figure.subplots()
    labels = []
    place = 0.0
    places = []
    for row in [*rows, *squad]:
        if row is (squad[0] if squad else None) or row is model.average:
            place += 0.45  # a gap where another kind of number begins
        _dumbbell(axes, place, row)
        name = "mean of the tasks" if row is model.average else row.title
        labels.append(f"{name}, {row.metric_title}" if row in squad else name)
        places.append(place)
        place += 1
    axes.set_yticks(places, labels, color=INK)
    if model.average in rows:
        axes.get_yticklabels()[rows.index(model.average)].set_fontweight("bold")
    axes.set_ylim(place - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    low = min(min(scores) for row in [*rows, *squad] for scores in row.scores.values() if scores)
    axes.set_xlim(min(0.0, low) - 2 if low < 20 else 10 * math.floor(low / 10) - 2, 102)
    axes.set_xlabel(ablation_figures.on("score, points", model.data))
    handles = [
        axes.plot([], [], "o", color=GREY, markerfacecolor=PAPER, markersize=6, markeredgewidth=1.4)[0],
        axes.plot([], [], "o", color=BLUE, markersize=6)[0],
        axes.plot([], [], "|", color=ORANGE, markersize=9, markeredgewidth=1.6)[0],
        axes.plot([], [], "x", color=ORANGE, markersize=5, markeredgewidth=1.4)[0],
    ]
    named = ["from scratch", "pre-trained", "chance", "majority"]
    figure.legend(
        handles, named, loc="outside upper left", ncols=4, columnspacing=1.2, frameon=False, handletextpad=0.2
    )
    return figure


def _dumbbell(axes: "Axes", place: float, row: Measured) -> None:
    means = {arm: mean(scores) for arm, scores in row.scores.items()}
    if means["pretrained"] is not None and means["scratch"] is not None:
        found = difference(row.scores["pretrained"], row.scores["scratch"])
        line = (
            {"color": MUTED, "linewidth": 1.6}
            if found and found.counts
            else {"color": GREY, "linewidth": 0.9, "linestyle": (0, (2, 2))}
        )
        axes.plot([means["scratch"], means["pretrained"]], [place, place], zorder=1, **line)  # type: ignore[arg-type]
    if (chance := row.ground.get("chance")) is not None:
        axes.plot([chance, chance], [place - 0.36, place + 0.36], color=ORANGE, linewidth=1.6, zorder=1)
    if (majority := row.ground.get("majority")) is not None:
        axes.plot(majority, place, "x", color=ORANGE, markersize=5, markeredgewidth=1.4, zorder=1)
    for arm, colour, face in (("scratch", GREY, PAPER), ("pretrained", BLUE, BLUE)):
        scores, middle = row.scores[arm], means[arm]
        if middle is None:
            continue
        axes.errorbar(middle, place, xerr=sd(scores) or 0.0, color=colour, linewidth=1.2, zorder=2)
        axes.plot(scores, [place + 0.26] * len(scores), "|", color=colour, markersize=4, markeredgewidth=1, zorder=2)
        axes.plot(middle, place, "o", color=colour, markerfacecolor=face, markersize=6.2, markeredgewidth=1.4, zorder=3)


def curves(model: ModelResults) -> list[tuple[str, str, "Figure"]]:
    """Pre-training, held-out where the run measured it: (name, caption, figure) for whatever the curve holds."""
    curve, weight = model.curve, model.discriminator_weight
    result, both = list[tuple[str, str, Any]](), partial(_both, curve)

    def panel(name: str, caption: str, lines: Sequence[tuple[str, str, Any, Any]], title: str, **limits: Any) -> None:
        present = [(label, colour, dash, points) for label, colour, dash, points in lines if points]
        if present:
            result.append((name, caption, _lines(present, title, **limits)))

    panel("mlm-loss", "generator's loss at the masked positions, nats", both("mlm_loss"), "MLM loss (generator)")
    panel("main-loss", "main network's loss on tokens, nats", both("main_loss"), "Loss on tokens (main network)")
    majority = (f"majority, {weight:g}·H(r)", ORANGE, (0, (4, 2)), baseline(curve, weight))
    panel(
        "disc-loss",
        f"discriminator's loss × {weight:g} against always answering with the replaced rate, {weight:g} · H(r)",
        [*both("disc_loss", weight), majority] if held_out(curve, "disc_loss") else [],
        f"Discriminator loss × {weight:g}",
        bottom=0,
    )
    panel(
        "mlm-accuracy",
        "how often the generator's first choice, and its sample, is the original token",
        [
            ("first choice", BLUE, "-", held_out(curve, "mlm_accuracy")),
            ("sample", GREEN, (0, (4, 2)), held_out(curve, "sample_accuracy")),
        ],
        "MLM accuracy (generator)",
        bottom=0,
    )
    panel(
        "replaced-rate",
        "fraction of all tokens that the generator replaced by another",
        both("replaced_rate"),
        "Replaced tokens, fraction",
        bottom=0,
    )
    panel(
        "auc",
        "discriminator: area under the ROC curve, 0.5 is guessing",
        both("disc_auc"),
        "AUC on replaced tokens",
        line=(0.5, "guessing"),
        bottom=0.45,
        top=1,
    )
    panel(
        "precision-recall",
        "discriminator, threshold 0.5: precision and recall on replaced tokens",
        [
            ("precision", BLUE, "-", held_out(curve, "disc_precision")),
            ("recall", ORANGE, (0, (4, 2)), held_out(curve, "disc_recall")),
        ],
        "Precision and recall, replaced tokens",
        bottom=0,
        top=1,
    )
    return result


def _both(curve: dict[str, list[float]], metric: str, factor: float = 1.0) -> list[tuple[str, str, Any, Any]]:
    return [
        ("training", GREY, "-", _scaled(training(curve, metric), factor)),
        ("held out", BLUE, "-", _scaled(held_out(curve, metric), factor)),
    ]


def baseline(curve: dict[str, list[float]], weight: float) -> tuple[list[float], list[float]] | None:
    """weight · H(r): the loss of one who always answers with the replaced rate r, which is what collapse looks like."""
    rates = held_out(curve, "replaced_rate") or training(curve, "replaced_rate")
    return rates and (rates[0], [weight * entropy(rate) for rate in rates[1]])


def entropy(rate: float) -> float:
    """H(r) in nats."""
    if not 0 < rate < 1:
        return 0.0
    return -rate * math.log(rate) - (1 - rate) * math.log1p(-rate)


def _scaled(points: tuple[list[float], list[float]] | None, factor: float) -> tuple[list[float], list[float]] | None:
    return points and (points[0], [factor * value for value in points[1]])


def _lines(
    lines: Sequence[tuple[str, str, Any, tuple[list[float], list[float]]]],
    title: str,
    *,
    bottom: float | None = None,
    top: float | None = None,
    line: tuple[float, str] | None = None,
) -> "Figure":
    """Lines over steps, each named at its right end instead of in a box."""
    figure = new_figure(*PANEL)
    axes = figure.subplots()
    for label, colour, dash, (x, y) in lines:
        axes.plot(x, y, color=colour, linestyle=dash, linewidth=1.1 if label == "training" else 1.7, label=label)
    if line:
        axes.axhline(line[0], color=ORANGE, linestyle=(0, (4, 2)), linewidth=1.2, label=line[1])
    low, high = axes.get_ylim()
    axes.set_ylim(low if bottom is None else bottom, high if top is None else top)
    axes.set_title(title)
    axes.set_xlabel("step")
    if len(lines) + bool(line) > 1:
        axes.legend(loc="best", frameon=False, fontsize=8.5, labelcolor="linecolor", handlelength=1.4)
    return figure


def _any_scores(row: Measured) -> bool:
    return any(row.scores.values())
