"""The report's figures, each a function from records to a matplotlib figure. `draw_all` writes them
as SVGs and returns them.

Small figures on purpose: three stand side by side on a desk screen, one fills a phone, and the type
stays the same size. Lines differ by dash and marker too, so that they can be distinguished without
colour.
"""

import itertools
import math
import statistics
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.special import entr

from electra.finetuning.tasks import GLUE
from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import HIGHEST, compare_scores, mean, predict_next
from pipelines.report.records import (
    ARMS,
    Ablation,
    Inputs,
    Measured,
    ModelResults,
    Series,
    chance_score,
)
from pipelines.report.style import (
    BLUE,
    GREY,
    INK,
    MUTED,
    ORANGE,
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
STYLES = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
MARKS = STYLES["marks"]
LINES = STYLES["lines"]
CURVES = STYLES["curves"]


@dataclass(frozen=True)
class Drawn:
    """A figure that is on disk: its caption, and its SVG for the page."""

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
            drawn[name] = Drawn(caption, inline_svg(svg, name, caption))
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
    """Draw one line per task, their mean first, with its baselines."""
    rows = [row for row in model.rows if any(row.scores.values())]
    has_mean = rows[0] is model.average
    labels = [f"{row.title}, F1" if row.metric == "f1" else row.title for row in rows]
    gap = 0.4 if has_mean else 0.0
    places = [0.0, *(place + gap for place in range(1, len(rows)))]
    figure = new_figure(4.4, 1.15 + 0.3 * len(rows))
    axes = figure.subplots()
    for place, row in zip(places, rows, strict=True):
        _draw_task(axes, place, row)
    if has_mean:
        labels[0] = "mean of the tasks"
        if inside := predict_next(model.recorded.get("average", ())):
            axes.plot(inside, [-0.36] * 2, color=BLUE, linewidth=1.2, marker="|", markersize=5)
    axes.set_yticks(places, labels, color=INK)
    if has_mean:
        axes.get_yticklabels()[0].set_fontweight("bold")
    lowest = min(min(itertools.chain(*row.scores.values())) for row in rows)
    start = min(0.0, lowest) if lowest < 20 else 10 * math.floor(lowest / 10)
    axes.set(xlim=(start - 2, 102), ylim=(places[-1] + 0.6, -0.75), xlabel="score, points")
    axes.grid(axis="y", visible=False)
    for label, style in MARKS.items():
        axes.plot([], [], linestyle="none", label=label, **style)
    figure.legend(
        loc="outside upper left", ncols=2, columnspacing=1.0, handletextpad=0.1, fontsize="medium"
    )
    return figure


def _draw_task(axes: "Axes", place: float, row: Measured) -> None:
    """Draw the two arms' means joined, their standard deviations as bars, every seed as a small
    mark, and the baselines.
    """
    if difference := row.difference:
        line = LINES["moved" if difference.counts else "cannot tell"]
        means = [statistics.fmean(scores) for scores in row.scores.values()]
        axes.plot(means, [place, place], zorder=1, **line)
    if row.chance is not None:
        across = (place - 0.36, place + 0.36)
        axes.plot([row.chance] * 2, across, zorder=1, **LINES["chance"])
    if row.best_baseline:
        axes.plot(row.best_baseline[0], place, zorder=4, **MARKS["best without a network"])
    for arm in reversed(ARMS):
        if scores := row.scores[arm]:
            style = MARKS[ARMS[arm]]
            middle = statistics.fmean(scores)
            width = sd(scores) or 0.0
            bar = [[width], [min(width, HIGHEST - middle)]]  # cut at the end of the scale
            axes.errorbar(middle, place, xerr=bar, zorder=3, **style)
            places = [place + 0.26] * len(scores)
            axes.plot(scores, places, "|", color=style["color"], markersize=4, markeredgewidth=1)


def draw_curves(model: ModelResults) -> Iterator[Named]:
    """Yield each measure of pre-training on held-out text, as (name, caption, figure)."""
    weight = model.config.objective.discriminator_weight
    for name, curve in CURVES.items():
        factor = weight if name == "disc-loss" else 1.0
        lines = {label: model.series(column, factor) for label, column in curve["columns"].items()}
        if name == "disc-loss":
            lines["always the base rate"] = majority_loss(model)
        if any(lines.values()):
            figure = _draw_over_steps(curve, lines)
            figure.axes[0].set_title(curve["title"].format(weight=f"{weight:g}"))
            yield name, CAPTIONS[name].format(weight=f"{weight:g}"), figure


def majority_loss(model: ModelResults) -> Series | None:
    """Return weight · H(r): the loss of always answering with the replaced rate r, as a collapsed
    discriminator does.
    """
    rates = model.series("replaced_rate")
    weight = model.config.objective.discriminator_weight
    return rates and (rates[0], [weight * (entr(rate) + entr(1 - rate)) for rate in rates[1]])


def _draw_over_steps(curve: dict[str, Any], lines: dict[str, Series | None]) -> "Figure":
    """Draw lines over steps, each named in its own colour."""
    figure = new_figure(3.9, 2.75)
    axes = figure.subplots()
    for label, points in lines.items():
        if points:
            axes.plot(*points, label=label, **LINES[label])
    if "guessing" in curve:
        axes.axhline(curve["guessing"], label="guessing", **LINES["guessing"])
    axes.set_ylim(**curve.get("limits", {}))
    axes.set_xlabel("step")
    if len(axes.lines) > 1:
        axes.legend(labelcolor="linecolor", handlelength=1.4)
    return figure


def draw_ablation(ablation: Ablation) -> Iterator[Named]:
    """Yield the figure that an ablation's results allow: scores over a run, lines over a grid, or
    differences of arms.
    """
    name = f"ablation-{ablation.name}"
    caption = f"{ablation.title}: mean over the tasks ({ablation.origin})"
    if any(len(arm.points) > 1 for arm in ablation.arms):
        yield f"{name}-points", f"{caption} {CAPTIONS['points']}", draw_over_flops(ablation)
    elif len(ablation.config.grid) in {1, 2} and any(
        arm.scores and arm.values for arm in ablation.arms
    ):
        yield name, f"{caption}, bar = ± sd over seeds", draw_over_grid(ablation)
    elif ablation.reference.scores:
        caption += f" minus that of {ablation.reference.label}, bar = 95 % interval"
        if ablation.paper:
            caption += f"; diamonds: GLUE dev at base size ({ablation.paper.source})"
        yield name, caption, draw_differences(ablation)


def draw_differences(ablation: Ablation) -> "Figure":
    """Draw each arm minus the reference, ours with its interval and the paper's next to it."""
    published = ablation.paper.arms if ablation.paper else {}
    reference = ablation.reference
    others = [arm for arm in ablation.arms if arm is not reference]
    figure = new_figure(4.4, 1.0 + 0.34 * len(others))
    axes = figure.subplots()
    axes.axvline(0, color=ORANGE, linewidth=1.2)
    for place, arm in enumerate(others):
        difference = compare_scores(arm.scores, reference.scores)
        if difference is None:
            status = "no result" if arm.ok else "failed"
            across = axes.get_yaxis_transform()
            axes.text(0.02, place, status, transform=across, va="center", color=ORANGE)
        else:
            reach = None
            points = difference.points
            if difference.low is not None and difference.high is not None:
                reach = [[points - difference.low], [difference.high - points]]
            axes.errorbar(
                points, place, xerr=reach, color=BLUE, linewidth=1.2, marker="o", markersize=6
            )
        if {arm.name, reference.name} <= published.keys():
            gap = published[arm.name][1] - published[reference.name][1]
            axes.plot(gap, place + 0.3, "D", color=GREY, markersize=4.5)
            axes.annotate(
                f"{signed(gap)} in the paper",
                (gap, place + 0.3),
                (7, 0),
                textcoords="offset points",
                va="center",
                color=MUTED,
                fontsize=8.5,
            )
    axes.set_yticks(range(len(others)), [arm.label for arm in others], color=INK)
    axes.set(ylim=(len(others) - 0.4, -0.6), xlabel=f"points above {reference.label}")
    axes.margins(x=0.12)
    axes.grid(axis="y", visible=False)
    return figure


def draw_over_grid(ablation: Ablation) -> "Figure":
    """Draw the score along a grid's longest axis, a line for each value of the other (the paper's
    Figures 3 and 4).
    """
    grid = ablation.config.grid
    labels = ablation.config.labels
    axis = max(grid, key=lambda name: len(grid[name]))
    others = [name for name in grid if name != axis]
    along = list(ablation.config.axis(axis))
    across = list(ablation.config.axis(others[0])) if others else [""]
    figure = new_figure(4.3, 3.0)
    axes = figure.subplots()
    axes.set_prop_cycle(**STYLES["cycle"])
    for name in across:
        scores = {arm.values: arm.scores for arm in ablation.arms if name in (*arm.values, "")}
        points = []
        for place, value in enumerate(along):
            chosen = [scores[values] for values in scores if value in values]
            points += [(place, of_arm) for of_arm in chosen if of_arm]
        _draw_line(axes, points, labels.get(name, name))
    axes.set_xticks(range(len(along)), [labels[value] for value in along])
    axes.set(xlim=(-0.3, len(along) - 0.7), ylabel="mean of the tasks")
    axes.set_xlabel(axis.rpartition(".")[2].replace("_", " "))
    _draw_chance(axes, ablation)
    if len(across) > 1:
        axes.legend()
    return figure


def draw_over_flops(ablation: Ablation) -> "Figure":
    """Draw the score at points of each run against the FLOPs spent (the paper's Figure 1)."""
    figure = new_figure(4.6, 3.3)
    axes = figure.subplots()
    arms = [arm for arm in ablation.arms if arm.points]
    axes.set_prop_cycle(**STYLES["cycle"])
    for arm in arms:
        points = [(point.flops, point.scores) for point in arm.points if point.scores]
        _draw_line(axes, points, arm.label)
    axes.set_xscale("log")
    spent = [point.flops for point in ablation.arms[0].points]
    axes.set_xticks(spent, [flops(value) for value in spent])
    axes.minorticks_off()
    axes.set(xlabel="pre-training FLOPs", ylabel="mean of the tasks")
    _draw_chance(axes, ablation)
    axes.legend()
    return figure


def _draw_chance(axes: "Axes", ablation: Ablation) -> None:
    """Draw a line at the mean of the tasks that guessing reaches, where all of them are GLUE's."""
    tasks = ablation.tasks
    if tasks and GLUE.keys() >= tasks.keys():
        level = mean([chance_score(task) for task in tasks]) or 0.0
        axes.axhline(level, color=INK, linestyle=":", linewidth=1.2, label="chance")


def _draw_line(axes: "Axes", points: Sequence[tuple[float, Sequence[float]]], label: str) -> None:
    """Draw means over seeds at each place, with their standard deviations as bars."""
    axes.errorbar(
        [x for x, _ in points],
        [mean(scores) or 0.0 for _, scores in points],
        yerr=[sd(scores) or 0.0 for _, scores in points],
        label=label,
        markersize=5,
        elinewidth=1,
        linewidth=1.3,
    )
