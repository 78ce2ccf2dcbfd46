"""Figures of an ablation: a mark per arm beside the paper's, lines over a grid, scores over a run.

Lines differ by colour and by dash and marker, so that they are told apart without colour.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from electra.finetuning.runs.summary import sd
from pipelines.report.ablation_records import Ablation, ArmRecord, lines
from pipelines.report.comparison import mean
from pipelines.report.style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Named = tuple[str, str, "Figure"]  # name, caption, figure
LOOKS: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (ORANGE, (0, (4, 2)), "s"),
    (GREEN, "-", "^"),
    (GREY, (0, (4, 2)), "D"),
    (INK, (0, (1, 1.5)), "v"),
    (BLUE, (0, (1, 1.5)), "P"),
)


def all_figures(ablation: Ablation) -> Iterator[Named]:
    """Every figure that an ablation's results allow: (name, caption, figure)."""
    name, title, data = f"ablation-{ablation.name}", ablation.title, ablation.origin
    if any(len(arm.points) > 1 for arm in ablation.arms):
        said = f"{title}: mean over the tasks ({data}) at fractions of each run, bar = ± sd over seeds"
        yield f"{name}-points", said, over_flops(ablation)
    elif (grid := lines(ablation)) and any(arm and arm.scores for row in grid[2] for arm in row):
        yield name, f"{title}: mean over the tasks ({data}), bar = ± sd over seeds", over_grid(ablation, grid)
    elif any(arm.scores for arm in ablation.arms):
        said = f"{title}: mean over the tasks ({data}), one small mark per seed, bar = mean ± sd"
        yield name, said, marks(ablation)


def marks(ablation: Ablation) -> "Figure":
    """Left, our mean over the tasks per arm; right, the paper's GLUE score where it has one."""
    beside = ablation.paper
    figure = new_figure(4.5 if beside else 4.2, 0.95 + 0.34 * len(ablation.arms))
    grid = figure.subplots(1, 2 if beside else 1, sharey=True, squeeze=False)[0]
    ours = grid[0]
    for place, arm in enumerate(ablation.arms):
        if not arm.scores:
            told = "failed" if arm.failed else "no result"
            ours.annotate(told, (0.02, place), xycoords=("axes fraction", "data"), va="center", color=ORANGE)
            continue
        colour = BLUE if arm is ablation.reference else INK
        ours.errorbar(mean(arm.scores), place, xerr=sd(arm.scores) or 0.0, color=colour, linewidth=1.2)
        ours.plot(arm.scores, [place + 0.24] * len(arm.scores), "|", color=colour, markersize=4, markeredgewidth=1)
        ours.plot(mean(arm.scores), place, "o", color=colour, markersize=6)
    ours.set_yticks(range(len(ablation.arms)), [arm.label for arm in ablation.arms], color=INK)
    ours.set_ylim(len(ablation.arms) - 0.45, -0.6)
    ours.set_title("ours")
    ours.set_xlabel(on("mean", ablation.data))
    ours.margins(x=0.12)
    if beside:
        theirs = grid[1]
        for place, arm in enumerate(ablation.arms):
            if arm.name in beside.arms:
                _, score = beside.arms[arm.name]
                theirs.plot(score, place, "D", color=GREY, markersize=5)
                where = {"textcoords": "offset points", "va": "center", "color": MUTED}
                theirs.annotate(f"{score:.1f}", (score, place), (7, 0), **where)
        theirs.margins(x=0.3)
        theirs.set_title(beside.source)
        theirs.set_xlabel("GLUE dev, base size")
    for axes in grid:
        axes.grid(axis="y", visible=False)
    return figure


def over_grid(
    ablation: Ablation, grid: tuple[Sequence[str], Sequence[str], Sequence[Sequence[ArmRecord | None]]]
) -> "Figure":
    """The score along a grid's longest axis, a line for each value of the other (the paper's Figures 3 and 4)."""
    along, across, rows = grid
    figure = new_figure(4.3, 3.0)
    axes = figure.subplots()
    for look, name, row in zip(LOOKS * len(rows), across, rows, strict=False):
        found = [(x, arm.scores) for x, arm in enumerate(row) if arm and arm.scores]
        _line(axes, [x for x, _ in found], [scores for _, scores in found], look, ablation.label(name))
    axes.set_xticks(range(len(along)), [ablation.label(value) for value in along])
    axes.set_xlim(-0.3, len(along) - 0.7)
    axes.set_xlabel(ablation.axis_names[[set(values) == set(along) for values in ablation.axes].index(True)])
    axes.set_ylabel(on("mean of the tasks", ablation.data))
    if len(across) > 1:
        axes.legend(loc="best", frameon=False, fontsize=8.5)
    return figure


def over_flops(ablation: Ablation) -> "Figure":
    """The score at points of each run against the FLOPs spent by then (the paper's Figure 1)."""
    figure = new_figure(4.6, 3.3)
    axes = figure.subplots()
    first = [arm.values[0] for arm in ablation.arms if arm.values]
    groups = list(dict.fromkeys(first))
    rest = list(dict.fromkeys(arm.values[1:] for arm in ablation.arms if arm.values))
    for number, arm in enumerate(arm for arm in ablation.arms if arm.points):
        colour, dash, marker = LOOKS[number % len(LOOKS)]
        if arm.values and len(groups) > 1:  # colour tells the first axis, marker and dash the others
            colour = (BLUE, ORANGE, GREEN, GREY, INK)[groups.index(arm.values[0]) % 5]
            _, dash, marker = LOOKS[rest.index(arm.values[1:]) % len(LOOKS)]
        points = [point for point in arm.points if point.scores]
        spent, scores = [point.flops for point in points], [point.scores for point in points]
        _line(axes, spent, scores, (colour, dash, marker), arm.label)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xlabel("pre-training FLOPs")
    axes.set_ylabel(on("mean of the tasks", ablation.data))
    axes.legend(loc="best", frameon=False, fontsize=8)
    return figure


def _line(
    axes: "Axes", x: Sequence[float], scores: Sequence[tuple[float, ...]], look: tuple[str, Any, str], label: str
) -> None:
    colour, dash, marker = look
    bars = [sd(of) or 0.0 for of in scores]
    y = [mean(of) or 0.0 for of in scores]
    style = {"color": colour, "linestyle": dash, "marker": marker, "markersize": 5, "elinewidth": 1, "linewidth": 1.3}
    axes.errorbar(x, y, yerr=bars, label=label, **style)


def on(what: str, data: str) -> str:
    """An axis label that names its data, on a line of its own where it is long."""
    return f"{what} ({data})" if len(data) < 16 else f"{what}\n({data})"
