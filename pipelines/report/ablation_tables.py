"""Tables of an ablation: arms beside the paper's numbers, each task, points of each run."""

from pipelines.report.ablation_records import Ablation
from pipelines.report.comparison import difference
from pipelines.report.table import Cell, Column, Mark, Spread, Table, signed
from pipelines.report.tables import RULE, caution, mark

SPREAD_OF_ARMS = "± is the standard deviation over seeds; each seed is a pre-training and a fine-tuning of its own."
POINTS = (
    "A point before the end is a checkpoint of the same run: its learning rate has not come down yet, so a run of that "
    "length by itself could score higher."
)


def all_tables(ablation: Ablation) -> list[Table]:
    """Every table of one ablation."""
    found = [arms(ablation)]
    if any(arm.points for arm in ablation.arms):
        found.append(points(ablation))
    if any(arm.tasks for arm in ablation.arms):
        found.append(arm_tasks(ablation))
    return found


def arms(ablation: Ablation) -> Table:
    """The paper's Table 5 and its relatives: the paper's score, where it has one, and ours in separate columns."""
    beside, reference = ablation.paper, ablation.reference
    against = f"against {reference.label}" if reference else "against the first"
    ours = f"ours, {ablation.model}, {ablation.data}"
    rows: list[tuple[Cell, ...]] = []
    for arm in ablation.arms:
        found = difference(arm.scores, reference.scores) if reference and arm is not reference else None
        reading = Mark("the reference") if arm is reference else mark(found)
        published: tuple[Cell, ...] = (beside.arms.get(arm.name, ("", None))[1],) if beside else ()
        rows.append(
            (
                arm.label,
                *published,
                Spread(arm.scores),
                None if found is None else signed(found.points),
                None if found is None or found.sds is None else signed(found.sds),
                Mark(arm.status, "bad") if arm.failed else reading,
                arm.flops,
                arm.steps,
            )
        )
    return Table(
        name=f"ablation-{ablation.name}",
        title=f"{ablation.title} (ours: {ablation.origin})",
        columns=(
            Column("arm", align="left"),
            *((Column("GLUE dev", 1, group=beside.source),) if beside else ()),
            Column("mean of the tasks", 1, group=ours),
            Column(against, group=ours),
            Column("in sd", under=against, suffix=" sd"),
            Column("reading", align="left", group=ours),
            Column("FLOPs", group=ours),
            Column("steps", under="FLOPs", suffix=" steps"),
        ),
        rows=tuple(rows),
        notes=(*(caution([ablation]) if beside else ()), SPREAD_OF_ARMS, RULE),
    )


def points(ablation: Ablation) -> Table:
    """The paper's Table 1 for one's own runs: the score at fractions of each, a row an arm."""
    fractions = sorted({point.fraction for arm in ablation.arms for point in arm.points})
    rows: list[tuple[Cell, ...]] = []
    for arm in ablation.arms:
        scores = {point.fraction: Spread(point.scores) for point in arm.points}
        size = f"{arm.parameters / 1e6:.2f}M" if arm.parameters else None
        rows.append((arm.label, size, arm.flops, *(scores.get(fraction) for fraction in fractions)))
    group = f"ours, {ablation.data}: mean of the tasks when so much of the run is done"
    return Table(
        name=f"ablation-{ablation.name}-points",
        title=f"{ablation.title}: points of each run ({ablation.origin})",
        columns=(
            Column("arm", align="left"),
            Column("parameters"),
            Column("FLOPs of the run"),
            *(Column(f"{100 * fraction:g} %", 1, group=group) for fraction in fractions),
        ),
        rows=tuple(rows),
        notes=(SPREAD_OF_ARMS, POINTS),
    )


def arm_tasks(ablation: Ablation) -> Table:
    """Each arm's score on each task."""
    return Table(
        name=f"ablation-{ablation.name}-tasks",
        title=f"{ablation.title}: each task ({ablation.origin})",
        columns=(Column("arm", align="left"), *(Column(title, 1) for title in ablation.tasks.values())),
        rows=tuple((arm.label, *(Spread(arm.tasks.get(task, ())) for task in ablation.tasks)) for arm in ablation.arms),
        notes=(SPREAD_OF_ARMS,),
    )
