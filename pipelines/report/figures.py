"""The report's figures, each a function from records to a matplotlib figure. `draw_all` writes them
as SVGs and returns them.

Small figures on purpose: three stand side by side on a desk screen, one fills a phone, and the type
stays the same size. Lines differ by dash and marker too, so that they can be distinguished without
colour.
"""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.finetuning.tasks import GLUE
from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import HIGHEST, difference, mean, predict_next
from pipelines.report.records import (
    ARMS,
    Ablation,
    Inputs,
    Measured,
    ModelResults,
    Series,
    chance_of,
)
from pipelines.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    context,
    inline_svg,
    new_figure,
    save,
)
from pipelines.report.table import CAPTIONS, flops, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Named = tuple[str, str, "Figure"]  # name, caption, figure
DASHED = (0, (4, 2))
DOTTED = (0, (1, 1.5))
# of lines that are drawn together
LOOKS: list[dict[str, Any]] = [
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": ORANGE, "linestyle": DASHED, "marker": "s"},
    {"color": GREEN, "linestyle": "-", "marker": "^"},
    {"color": GREY, "linestyle": DASHED, "marker": "D"},
    {"color": INK, "linestyle": DOTTED, "marker": "v"},
    {"color": BLUE, "linestyle": DOTTED, "marker": "P"},
]
BARS: dict[str, Any] = {"linewidth": 1.2, "marker": "o", "markersize": 6}
LEGEND: dict[str, Any] = {"loc": "best", "frameon": False, "fontsize": 8.5}
# of the marks of a task
MARKS: dict[str, dict[str, Any]] = {
    "from scratch": {
        **{"marker": "o", "markersize": 6, "color": GREY},
        **{"markerfacecolor": PAPER, "markeredgewidth": 1.4},
    },
    "pre-trained": {"marker": "o", "markersize": 6, "color": BLUE},
    "best without a network": {
        **{"marker": "x", "markersize": 5, "color": ORANGE, "markeredgewidth": 1.4},
    },
    "chance": {"marker": "|", "markersize": 9, "color": ORANGE, "markeredgewidth": 1.6},
}


@dataclass(frozen=True)
class Drawn:
    """A figure that is on disk: its file stem, its caption, and its SVG for the page."""

    name: str
    caption: str
    svg: str


def draw_all(inputs: Inputs, folder: Path) -> dict[str, Drawn]:
    """Draw every figure that the inputs allow into `folder`."""
    drawn = {}
    with context():
        figures = itertools.chain(
            *map(draw_model, inputs.models), *map(draw_ablation, inputs.ablations)
        )
        for name, caption, figure in figures:
            svg = save(figure, folder, name)
            drawn[name] = Drawn(name, caption, inline_svg(svg, name, caption))
    return drawn


def draw_model(model: ModelResults) -> Iterator[Named]:
    """Yield every figure that a model's results allow."""
    if any(any(task.scores.values()) for task in model.tasks):
        caption = f"{model.name}: {CAPTIONS['tasks']} ({model.data})"
        if model.recorded.get("average"):
            caption += f"; {CAPTIONS['bracket']}"
        yield f"{model.name}-tasks", caption, draw_tasks(model)
    for name, caption, figure in draw_curves(model) if model.config else ():
        yield f"{model.name}-{name}", f"{model.name}: {caption}", figure


def draw_tasks(model: ModelResults) -> "Figure":
    """Draw one line a task, that of their mean first, with what it is compared with."""
    average = [model.average] if model.average and any(model.average.scores.values()) else []
    measured = [row for row in (*model.tasks, *model.squad) if any(row.scores.values())]
    rows = [*average, *measured]
    figure = new_figure(4.4, 1.15 + 0.3 * len(rows))
    axes = figure.subplots()
    places = [float(place) for place in range(len(rows))]
    if average:
        places[1:] = [place + 0.4 for place in places[1:]]
    for place, row in zip(places, rows, strict=True):
        _draw_task(axes, place, row)
    squad = {row.title: f"{row.title}, F1" for row in model.squad}
    labels = ["mean of the tasks" if row is model.average else row.title for row in rows]
    axes.set_yticks(places, [squad.get(label, label) for label in labels], color=INK)
    if average:
        axes.get_yticklabels()[0].set_fontweight("bold")
        if inside := predict_next(model.recorded.get("average", ())):
            axes.plot(inside, [-0.36] * 2, color=BLUE, linewidth=1.2, marker="|", markersize=5)
    lowest = min(min(itertools.chain(*row.scores.values()), default=HIGHEST) for row in rows)
    start = min(0.0, lowest) if lowest < 20 else 10 * math.floor(lowest / 10)
    axes.set(xlim=(start - 2, 102), ylim=(places[-1] + 0.6, -0.75), xlabel="score, points")
    axes.grid(axis="y", visible=False)
    for label, style in MARKS.items():
        axes.plot([], [], linestyle="none", label=label, **style)
    figure.legend(
        loc="outside upper left", ncols=2, columnspacing=1.0, frameon=False, handletextpad=0.1
    )
    return figure


def _draw_task(axes: "Axes", place: float, row: Measured) -> None:
    """Draw the two arms' means joined, their standard deviations as bars, every seed as a small
    mark, and the baselines.
    """
    means = [statistics.fmean(row.scores[arm]) for arm in ARMS if row.scores[arm]]
    if found := row.difference:
        line: dict[str, Any] = {"color": MUTED, "linewidth": 1.6}
        if not found.counts:
            line = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (2, 2))}
        axes.plot(means, [place] * len(means), zorder=1, **line)
    if (chance := row.baselines.get("chance")) is not None:
        line = {"color": ORANGE, "linewidth": 1.6, "zorder": 1}
        axes.plot([chance, chance], [place - 0.36, place + 0.36], **line)
    if row.best_baseline:
        style = MARKS["best without a network"]
        axes.plot(row.best_baseline[0], place, zorder=4, **style)
    for arm in reversed(ARMS):
        if scores := row.scores[arm]:
            style = MARKS[ARMS[arm]]
            middle = mean(scores) or 0.0
            width = sd(scores) or 0.0
            bar = [[width], [min(width, HIGHEST - middle)]]  # which ends with the scale
            axes.errorbar(middle, place, xerr=bar, zorder=3, **style)
            places = [place + 0.26] * len(scores)
            axes.plot(scores, places, "|", color=style["color"], markersize=4, markeredgewidth=1)


def draw_curves(model: ModelResults) -> Iterator[Named]:
    """Yield pre-training, held-out where the run measured it, as (name, caption, figure) for each
    measure in the curve.
    """
    weight = model.config.objective.discriminator_weight
    base_rate = majority_loss(model) if model.series("disc_loss") else None
    panels: dict[str, tuple[str, dict[str, Series | None], dict[str, float]]] = {
        "disc-loss": (
            f"Discriminator loss × {weight:g}",
            {**_both(model, "disc_loss", weight), "always the base rate": base_rate},
            {"bottom": 0},
        ),
        "auc": ("AUC on replaced tokens", _both(model, "disc_auc"), {"bottom": 0.45, "top": 1}),
        "precision-recall": (
            "Precision and recall, replaced tokens",
            {"precision": model.series("disc_precision"), "recall": model.series("disc_recall")},
            {"bottom": 0, "top": 1},
        ),
        "mlm-loss": ("MLM loss (generator)", _both(model, "mlm_loss"), {}),
        "main-loss": ("Loss on tokens (main network)", _both(model, "main_loss"), {}),
    }
    for name, (title, lines, limits) in panels.items():
        if any(lines.values()):
            yield (
                name,
                CAPTIONS[name].format(weight=f"{weight:g}"),
                _draw_over_steps(title, lines, limits),
            )


def _both(model: ModelResults, metric: str, factor: float = 1.0) -> dict[str, Series | None]:
    return {
        "training": model.series(f"train_{metric}", factor),
        "held out": model.series(metric, factor),
    }


def majority_loss(model: ModelResults) -> Series | None:
    """Return weight · H(r): the loss of one who always answers with the replaced rate r, which is
    what collapse looks like.
    """
    rates = model.series("replaced_rate") or model.series("train_replaced_rate")
    weight = model.config.objective.discriminator_weight
    return rates and (rates[0], [weight * entropy(rate) for rate in rates[1]])


def entropy(rate: float) -> float:
    """Return H(r) in nats."""
    return -rate * math.log(rate) - (1 - rate) * math.log1p(-rate) if 0 < rate < 1 else 0.0


def _draw_over_steps(
    title: str, lines: dict[str, Series | None], limits: dict[str, float]
) -> "Figure":
    """Draw lines over steps, each named in its own colour. `limits` are the `bottom` and `top` of
    the vertical axis.
    """
    figure = new_figure(3.9, 2.75)
    axes = figure.subplots()
    for label, points in lines.items():
        if points:
            style: dict[str, Any] = {"color": BLUE, "linewidth": 1.7}
            if label == "training":
                style = {"color": GREY, "linewidth": 1.1}
            elif label in {"recall", "always the base rate"}:
                style = {"color": ORANGE, "linewidth": 1.7, "linestyle": DASHED}
            axes.plot(*points, label=label, **style)
    if "AUC" in title:
        axes.axhline(0.5, color=ORANGE, linestyle=DASHED, linewidth=1.2, label="guessing")
    axes.set_ylim(**limits)  # type: ignore[arg-type]
    axes.set(title=title, xlabel="step")
    if len(axes.lines) > 1:
        axes.legend(labelcolor="linecolor", handlelength=1.4, **LEGEND)
    return figure


def draw_ablation(ablation: Ablation) -> Iterator[Named]:
    """Yield the figure that an ablation's results allow: scores over a run, lines over a grid, or
    differences of arms.
    """
    name = f"ablation-{ablation.name}"
    caption = f"{ablation.title}: mean over the tasks ({ablation.origin})"
    if any(len(arm.points) > 1 for arm in ablation.arms):
        yield f"{name}-points", f"{caption} {CAPTIONS['points']}", draw_over_flops(ablation)
    elif len(ablation.axes) in {1, 2} and any(arm.scores and arm.values for arm in ablation.arms):
        yield name, f"{caption}, bar = ± sd over seeds", draw_over_grid(ablation)
    elif (reference := ablation.reference) and reference.scores:
        caption += f" minus that of {reference.label}, bar = 95 % interval"
        if ablation.paper:
            caption += f"; diamonds: GLUE dev at base size ({ablation.paper.source})"
        yield name, caption, draw_differences(ablation, reference)


def draw_differences(ablation: Ablation, reference: Any) -> "Figure":
    """Draw each arm minus the reference, ours with its interval and the paper's next to it."""
    published = ablation.paper.arms if ablation.paper else {}
    others = [arm for arm in ablation.arms if arm is not reference]
    figure = new_figure(4.4, 1.0 + 0.34 * len(others))
    axes = figure.subplots()
    axes.axvline(0, color=ORANGE, linewidth=1.2)
    for place, arm in enumerate(others):
        found = difference(arm.scores, reference.scores)
        if found is None:
            status = "failed" if arm.failed else "no result"
            at: Any = ("axes fraction", "data")
            axes.annotate(status, (0.02, place), xycoords=at, va="center", color=ORANGE)
        else:
            reach = None
            if found.low is not None and found.high is not None:
                reach = [[found.points - found.low], [found.high - found.points]]
            axes.errorbar(found.points, place, xerr=reach, color=BLUE, **BARS)
        if {arm.name, reference.name} <= published.keys():
            gap = published[arm.name][1] - published[reference.name][1]
            axes.plot(gap, place + 0.3, "D", color=GREY, markersize=4.5)
            text: dict[str, Any] = {"va": "center", "color": MUTED, "fontsize": 8.5}
            text["textcoords"] = "offset points"
            axes.annotate(f"{signed(gap)} in the paper", (gap, place + 0.3), (7, 0), **text)
    axes.set_yticks(range(len(others)), [arm.label for arm in others], color=INK)
    axes.set(ylim=(len(others) - 0.4, -0.6), xlabel=f"points above {reference.label}")
    axes.margins(x=0.12)
    axes.grid(axis="y", visible=False)
    return figure


def draw_over_grid(ablation: Ablation) -> "Figure":
    """Draw the score along a grid's longest axis, a line for each value of the other (the paper's
    Figures 3 and 4).
    """
    lengths = [len(axis) for axis in ablation.axes]
    axis = lengths.index(max(lengths))
    along = ablation.axes[axis]
    across = ablation.axes[1 - axis] if len(ablation.axes) > 1 else ("",)
    figure = new_figure(4.3, 3.0)
    axes = figure.subplots()
    for look, name in zip(LOOKS * len(across), across, strict=False):
        points = [
            (float(along.index(arm.values[axis])), arm.scores)
            for arm in ablation.arms
            if arm.scores and (name in arm.values or not name)
        ]
        _draw_line(axes, sorted(points), look, ablation.label(name))
    axes.set_xticks(range(len(along)), [ablation.label(value) for value in along])
    axes.set(xlim=(-0.3, len(along) - 0.7), ylabel="mean of the tasks")
    axes.set_xlabel(ablation.axis_names[axis])
    _draw_chance(axes, ablation)
    if len(across) > 1:
        axes.legend(**LEGEND)
    return figure


def draw_over_flops(ablation: Ablation) -> "Figure":
    """Draw the score at points of each run against the FLOPs spent (the paper's Figure 1)."""
    figure = new_figure(4.6, 3.3)
    axes = figure.subplots()
    arms = [arm for arm in ablation.arms if arm.points]
    for look, arm in zip(LOOKS * len(arms), arms, strict=False):
        points = [(point.flops, point.scores) for point in arm.points if point.scores]
        _draw_line(axes, points, look, arm.label)
    axes.set_xscale("log")
    spent = [point.flops for point in ablation.arms[0].points]
    axes.set_xticks(spent, [flops(value) for value in spent])
    axes.minorticks_off()
    axes.set(xlabel="pre-training FLOPs", ylabel="mean of the tasks")
    _draw_chance(axes, ablation)
    axes.legend(**LEGEND)
    return figure


def _draw_chance(axes: "Axes", ablation: Ablation) -> None:
    """Draw a line at the mean of the tasks that guessing reaches, where all of them are GLUE's."""
    tasks = ablation.tasks
    if tasks and GLUE.keys() >= tasks.keys():
        level = mean([chance_of(task) for task in tasks]) or 0.0
        axes.axhline(level, color=INK, linestyle=DOTTED, linewidth=1.2, label="chance")


def _draw_line(
    axes: "Axes", points: Sequence[tuple[float, Sequence[float]]], look: dict[str, Any], label: str
) -> None:
    """Draw means over seeds at each place, with their standard deviations as bars."""
    axes.errorbar(
        [x for x, _ in points],
        [mean(scores) or 0.0 for _, scores in points],
        yerr=[sd(scores) or 0.0 for _, scores in points],
        label=label,
        markersize=5,
        elinewidth=1,
        linewidth=1.3,
        **look,
    )
