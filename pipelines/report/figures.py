"""The report's figures, each a function from records to a matplotlib figure; `draw_all` writes and
returns SVGs.

Small figures on purpose: three stand side by side on a desk screen, one fills a phone, and the type
stays the same size. Lines differ by dash and marker too, so that they can be distinguished without
colour.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.finetuning.tasks import GLUE
from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import difference, mean, predict_next
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
Line = tuple[str, str, Any, Series | None]  # label, colour, dash, points
Look = tuple[str, Any, str]  # colour, dash, marker

PANEL = (3.9, 2.75)  # inches
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))
DASHES = ("-", DASHED, "-", DASHED, DOTTED, DOTTED)
LOOKS: tuple[Look, ...] = tuple(
    zip((BLUE, ORANGE, GREEN, GREY, INK, BLUE), DASHES, "os^DvP", strict=True)
)


@dataclass(frozen=True)
class Drawn:
    """A figure that is on disk: its file stem, its caption, and its SVG for the page."""

    name: str
    caption: str
    svg: str


def draw_all(inputs: Inputs, folder: Path) -> dict[str, Drawn]:
    """Draw every figure that the inputs allow into `folder`."""
    with context():
        named = [one for model in inputs.models for one in of_model(model)]
        named += [one for ablation in inputs.ablations for one in of_ablation(ablation)]
        drawn = ((name, caption, save(figure, folder, name)) for name, caption, figure in named)
        return {
            name: Drawn(name, caption, inline_svg(svg, name, caption))
            for name, caption, svg in drawn
        }


def of_model(model: ModelResults) -> Iterator[Named]:
    """Every figure that a model's results allow."""
    if any(any(task.scores.values()) for task in model.tasks):
        caption = (
            f"{model.name}: the mean of the tasks and each task ({model.data}), a small mark for each fine-tuning; "
            "bracket: where the mean of another pre-training falls 95 times in 100"
        )
        yield f"{model.name}-tasks", caption, tasks(model)
    for name, caption, figure in curves(model):
        yield (
            f"{model.name}-{name}",
            f"{model.name}: {caption} ({model.corpus.replace('_', ' ')})",
            figure,
        )


def tasks(model: ModelResults) -> "Figure":
    """One line a task, that of their mean first, with what it is compared with; all on one axis."""
    first = [model.average] if model.average and any(model.average.scores.values()) else []
    rows = [*first, *(row for row in (*model.tasks, *model.squad) if any(row.scores.values()))]
    figure = new_figure(4.4, 1.15 + 0.3 * len(rows))
    axes = figure.subplots()
    places = [place + 0.4 * (place > 0) * len(first) for place in range(len(rows))]
    for place, row in zip(places, rows, strict=True):
        _dumbbell(axes, place, row)
    labels = ["mean of the tasks" if row is model.average else row.title for row in rows]
    axes.set_yticks(
        places,
        [f"{label}, F1" if label.startswith("SQuAD") else label for label in labels],
        color=INK,
    )
    looks: list[tuple[str, str, str, dict[str, Any]]] = [
        (
            "from scratch",
            "o",
            GREY,
            {"markerfacecolor": PAPER, "markersize": 6, "markeredgewidth": 1.4},
        ),
        ("pre-trained", "o", BLUE, {"markersize": 6}),
        ("best without a network", "x", ORANGE, {"markersize": 5, "markeredgewidth": 1.4}),
        ("chance", "|", ORANGE, {"markersize": 9, "markeredgewidth": 1.6}),
    ]
    if first:
        axes.get_yticklabels()[0].set_fontweight("bold")
        if model.control is not None:
            looks.insert(
                2,
                (
                    "published initial values",
                    "D",
                    BLUE,
                    {"markerfacecolor": PAPER, "markersize": 5},
                ),
            )
            axes.plot(model.control, 0, "D", color=BLUE, zorder=3, **looks[2][3])
        if inside := predict_next(model.recorded.get("average", ())):
            axes.plot(inside, [-0.36] * 2, color=BLUE, linewidth=1.2, marker="|", markersize=5)
    low = min(score for row in rows for scores in row.scores.values() for score in scores)
    left = min(0.0, low) - 2 if low < 20 else 10 * math.floor(low / 10) - 2
    axes.set(
        xlim=(left, 102),
        ylim=(places[-1] + 0.6, -0.75),
        xlabel=_axis_label("score, points", model.data),
    )
    axes.grid(axis="y", visible=False)
    for label, marker, colour, style in looks:
        axes.plot([], [], marker, color=colour, label=label, **style)
    figure.legend(
        loc="outside upper left", ncols=3, columnspacing=1.0, frameon=False, handletextpad=0.1
    )
    return figure


def _dumbbell(axes: "Axes", place: float, row: Measured) -> None:
    """The two arms' means joined, their standard deviations as bars, every seed as a small mark,
    and the baselines.
    """
    means = [middle for middle in map(row.mean, ARMS) if middle is not None]
    if found := row.difference:
        solid, dotted = (
            {"color": MUTED, "linewidth": 1.6},
            {"color": GREY, "linewidth": 0.9, "linestyle": (0, (2, 2))},
        )
        axes.plot(means[::-1], [place, place], zorder=1, **(solid if found.counts else dotted))  # type: ignore[arg-type]
    if (chance := row.ground.get("chance")) is not None:
        axes.plot(
            [chance, chance], [place - 0.36, place + 0.36], color=ORANGE, linewidth=1.6, zorder=1
        )
    if row.simple:
        axes.plot(
            row.simple[0], place, "x", color=ORANGE, markersize=5, markeredgewidth=1.4, zorder=4
        )
    for arm, colour, face in (("scratch", GREY, PAPER), ("pretrained", BLUE, BLUE)):
        if scores := row.scores[arm]:
            dot: dict[str, Any] = {
                "markerfacecolor": face,
                "markersize": 6.2,
                "markeredgewidth": 1.4,
                "zorder": 3,
            }
            axes.errorbar(
                mean(scores) or 0.0,
                place,
                xerr=sd(scores) or 0.0,
                color=colour,
                linewidth=1.2,
                marker="o",
                **dot,
            )
            axes.plot(
                scores,
                [place + 0.26] * len(scores),
                "|",
                color=colour,
                markersize=4,
                markeredgewidth=1,
            )


def curves(model: ModelResults) -> list[Named]:
    """Pre-training, held-out where the run measured it: (name, caption, figure) for each measure in
    the curve.
    """
    series, weight = model.series, model.discriminator_weight

    def both(metric: str, factor: float = 1.0) -> list[Line]:
        lines = (("training", GREY, f"train_{metric}"), ("held out", BLUE, metric))
        return [(label, colour, "-", series(column, factor)) for label, colour, column in lines]

    majority = (
        f"majority, {weight:g}·H(r)",
        ORANGE,
        DASHED,
        series("disc_loss") and majority_loss(model),
    )
    found = [
        ("precision", BLUE, "-", series("disc_precision")),
        ("recall", ORANGE, DASHED, series("disc_recall")),
    ]
    panels: list[tuple[str, str, list[Line], dict[str, float]]] = [
        (
            "disc-loss",
            f"Discriminator loss × {weight:g}",
            [*both("disc_loss", weight), majority],
            {"bottom": 0},
        ),
        (
            "auc",
            "AUC on replaced tokens",
            both("disc_auc"),
            {"bottom": 0.45, "top": 1, "guessing": 0.5},
        ),
        (
            "precision-recall",
            "Precision and recall, replaced tokens",
            found,
            {"bottom": 0, "top": 1},
        ),
        ("mlm-loss", "MLM loss (generator)", both("mlm_loss"), {}),
        ("main-loss", "Loss on tokens (main network)", both("main_loss"), {}),
    ]
    return [
        (name, CAPTIONS[name].format(weight=f"{weight:g}"), _over_steps(title, lines, **limits))
        for name, title, lines, limits in panels
        if any(points for *_, points in lines)
    ]


def majority_loss(model: ModelResults) -> Series | None:
    """weight · H(r): the loss of one who always answers with the replaced rate r, which is what
    collapse looks like.
    """
    rates = model.series("replaced_rate") or model.series("train_replaced_rate")
    return rates and (rates[0], [model.discriminator_weight * entropy(rate) for rate in rates[1]])


def entropy(rate: float) -> float:
    """H(r) in nats."""
    return -rate * math.log(rate) - (1 - rate) * math.log1p(-rate) if 0 < rate < 1 else 0.0


def _over_steps(
    title: str, lines: Sequence[Line], *, guessing: float | None = None, **limits: float
) -> "Figure":
    """Lines over steps, each named in its own colour; `limits` are the `bottom` and `top` of the
    vertical axis.
    """
    figure = new_figure(*PANEL)
    axes = figure.subplots()
    for label, colour, dash, points in lines:
        if points:
            axes.plot(
                *points,
                color=colour,
                linestyle=dash,
                linewidth=1.1 if label == "training" else 1.7,
                label=label,
            )
    if guessing is not None:
        axes.axhline(guessing, color=ORANGE, linestyle=DASHED, linewidth=1.2, label="guessing")
    axes.set_ylim(**limits)  # type: ignore[arg-type]
    axes.set(title=title, xlabel="step")
    if len(axes.lines) > 1:
        axes.legend(
            loc="best", frameon=False, fontsize=8.5, labelcolor="linecolor", handlelength=1.4
        )
    return figure


def of_ablation(ablation: Ablation) -> Iterator[Named]:
    """The figure that an ablation's results allow: scores over a run, lines over a grid, or
    differences of arms.
    """
    name, caption = (
        f"ablation-{ablation.name}",
        f"{ablation.title}: mean over the tasks ({ablation.origin})",
    )
    if any(len(arm.points) > 1 for arm in ablation.arms):
        caption += " at fractions of each run, bar = ± sd over seeds"
        before = "before the end of a run the learning rate has not come down yet"
        yield f"{name}-points", f"{caption}; {before}", over_flops(ablation)
    elif len(ablation.axes) in {1, 2} and any(arm.scores and arm.values for arm in ablation.arms):
        yield name, f"{caption}, bar = ± sd over seeds", over_grid(ablation)
    elif (reference := ablation.reference) and reference.scores:
        beside = (
            f"; diamonds: GLUE dev at base size ({ablation.paper.source})" if ablation.paper else ""
        )
        yield (
            name,
            f"{caption} minus that of {reference.label}, bar = 95 % interval{beside}",
            differences(ablation),
        )


def differences(ablation: Ablation) -> "Figure":
    """Each arm minus the reference, ours with its interval and the paper's beside it, on one axis
    with a line at 0.
    """
    reference, theirs = ablation.reference, ablation.paper.arms if ablation.paper else {}
    assert reference is not None
    others = [arm for arm in ablation.arms if arm is not reference]
    figure = new_figure(4.4, 1.0 + 0.34 * len(others))
    axes = figure.subplots()
    axes.axvline(0, color=ORANGE, linewidth=1.2)
    for place, arm in enumerate(others):
        found = difference(arm.scores, reference.scores)
        if found is None:
            status = "failed" if arm.failed else "no result"
            axes.annotate(
                status, (0.02, place), xycoords=("axes fraction", "data"), va="center", color=ORANGE
            )
        elif found.low is None or found.high is None:
            axes.plot(found.points, place, "o", color=BLUE, markersize=6)
        else:
            reach = [[found.points - found.low], [found.high - found.points]]
            axes.errorbar(
                found.points, place, xerr=reach, color=BLUE, marker="o", markersize=6, linewidth=1.2
            )
        if {arm.name, reference.name} <= theirs.keys():
            gap = theirs[arm.name][1] - theirs[reference.name][1]
            axes.plot(gap, place + 0.3, "D", color=GREY, markersize=4.5)
            style: dict[str, Any] = {
                "textcoords": "offset points",
                "va": "center",
                "color": MUTED,
                "fontsize": 8.5,
            }
            axes.annotate(f"{signed(gap)} in the paper", (gap, place + 0.3), (7, 0), **style)
    axes.set_yticks(range(len(others)), [arm.label for arm in others], color=INK)
    label = _axis_label(f"difference from “{reference.label}”, points", ablation.data)
    axes.set(ylim=(len(others) - 0.4, -0.6), xlabel=label)
    axes.margins(x=0.12)
    axes.grid(axis="y", visible=False)
    return figure


def over_grid(ablation: Ablation) -> "Figure":
    """The score along a grid's longest axis, a line for each value of the other (the paper's
    Figures 3 and 4).
    """
    axis, along = max(enumerate(ablation.axes), key=lambda each: len(each[1]))
    across = ablation.axes[1 - axis] if len(ablation.axes) > 1 else ("",)
    cells = {arm.values: arm.scores for arm in ablation.arms if arm.scores}
    figure = new_figure(4.3, 3.0)
    axes = figure.subplots()
    for look, name in zip(LOOKS * len(across), across, strict=False):
        places = [(name, value) if axis else (value, name)[: len(ablation.axes)] for value in along]
        points = [(float(x), cells[place]) for x, place in enumerate(places) if place in cells]
        _line(axes, points, look, ablation.label(name))
    axes.set_xticks(range(len(along)), [ablation.label(value) for value in along])
    labels = {
        "xlabel": ablation.axis_names[axis],
        "ylabel": _axis_label("mean of the tasks", ablation.data),
    }
    axes.set(xlim=(-0.3, len(along) - 0.7), **labels)
    _chance(axes, ablation)
    if len(across) > 1:
        axes.legend(loc="best", frameon=False, fontsize=8.5)
    return figure


def over_flops(ablation: Ablation) -> "Figure":
    """The score at points of each run against the FLOPs spent by then (the paper's Figure 1)."""
    figure = new_figure(4.6, 3.3)
    axes = figure.subplots()
    for look, arm in zip(
        LOOKS * len(ablation.arms), (arm for arm in ablation.arms if arm.points), strict=False
    ):
        _line(
            axes,
            [(point.flops, point.scores) for point in arm.points if point.scores],
            look,
            arm.label,
        )
    axes.set_xscale("log")
    spent = [point.flops for point in ablation.arms[0].points]
    axes.set_xticks(spent, [flops(value) for value in spent])
    axes.minorticks_off()
    axes.set(xlabel="pre-training FLOPs", ylabel=_axis_label("mean of the tasks", ablation.data))
    _chance(axes, ablation)
    axes.legend(loc="best", frameon=False, fontsize=8)
    return figure


def _chance(axes: "Axes", ablation: Ablation) -> None:
    """A line at the mean of the tasks that guessing reaches, where all of them are GLUE's."""
    tasks = [task for arm in ablation.arms for task in arm.tasks]
    if tasks and GLUE.keys() >= set(tasks):
        level = sum(map(chance_of, dict.fromkeys(tasks))) / len(set(tasks))
        axes.axhline(level, color=INK, linestyle=DOTTED, linewidth=1.2, label="chance")


def _line(
    axes: "Axes", points: Sequence[tuple[float, tuple[float, ...]]], look: Look, label: str
) -> None:
    """Means over seeds at each place, with their standard deviations as bars."""
    style = dict[str, Any](zip(("color", "linestyle", "marker"), look, strict=True))
    x, y, bars = (
        [x for x, _ in points],
        [mean(of) or 0.0 for _, of in points],
        [sd(of) or 0.0 for _, of in points],
    )
    axes.errorbar(x, y, yerr=bars, label=label, markersize=5, elinewidth=1, linewidth=1.3, **style)


def _axis_label(what: str, data: str) -> str:
    """An axis label that names its data, on a line of its own where it is long."""
    return f"{what} ({data})" if len(data) < 16 else f"{what}\n({data})"
