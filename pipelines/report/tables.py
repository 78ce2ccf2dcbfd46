"""The report's tables: a model's tasks, the paper's tables with ours in separate columns, and
ablations.

Sample-world numbers are labelled in the title of every table that holds one.
"""

from collections.abc import Iterator, Sequence

from electra.finetuning.tasks import GLUE
from pipelines.report import claims, paper
from pipelines.report.comparison import difference, mean
from pipelines.report.records import ARMS, Ablation, Inputs, Measured, ModelResults
from pipelines.report.table import NOTES, Column, Mark, Row, Spread, Table, left, verdict

Models = Sequence[ModelResults]

MODEL, TASK, ARM, PARAMETERS = left("model"), left("task"), left("arm"), Column("parameters")


def all_tables(inputs: Inputs) -> list[Table]:
    """Every table that the inputs allow, in the order in which the page first shows their notes."""
    models = [model for model in inputs.models if model.tasks]
    tables = [tasks(model) for model in models]
    tables += [table_1(models), table_4([model for model in inputs.models if model.squad])]
    tables += [table for ablation in inputs.ablations for table in of_ablation(ablation)]
    tables.append(claims.table(inputs.ablations))
    return [table for table in tables if table.rows]


def tasks(model: ModelResults) -> Table:
    """Each task: both arms, chance and the best without a network; the columns that a phone shows
    come first.
    """
    pretrainings = max(map(len, model.recorded.values()), default=0)
    record = Column(f"a record, {pretrainings} pre-trainings", 1)

    def row(of: Measured) -> Row:
        whole = GLUE[of.name].train_rows if not model.sample and of.subset else None
        score, how = of.simple or (None, None)
        exact = of.others.get("exact", {}) if of in model.squad else {}
        return {
            TASK: of.title,
            left("metric", under="task"): of.metric_title
            + ", chance: never answering" * (of in model.squad)
            or None,
            Column("train rows", under="task", suffix=" train"): of.train_rows,
            Column("official train rows", under="task", suffix=" in the full set"): whole,
            Column("dev rows", under="task", suffix=" dev"): of.dev_rows,
            Column("from scratch", 1): Spread(of.scores["scratch"]),
            Column("pre-trained", 1): Spread(of.scores["pretrained"]),
            **{
                Column(f"{title}, exact match", 1, under=title, suffix=" exact"): mean(
                    exact.get(arm, ())
                )
                for arm, title in ARMS.items()
            },
            Column("chance", 1): of.ground.get("chance"),
            Column("without a network", 1): score,
            left("what reached it", under="without a network"): how,
            **verdict(of.difference, "difference", left("pre-trained is")),
            **({record: Spread(model.recorded.get(of.name, ()))} if pretrainings else {}),
        }

    mean_of = [model.average] if model.average else []
    return Table(
        name=f"{model.name}-tasks",
        title=f"{model.name}: tasks, both arms, points on dev ({model.data})",
        rows=[row(of) for of in (*mean_of, *model.tasks, *model.squad)],
        notes=(
            NOTES["spread"],
            *([NOTES["record"]] if pretrainings else []),
            NOTES["ground"],
            NOTES["rule"],
        ),
        strong={0} if mean_of else (),
    )


def table_1(models: Models) -> Table:
    """Score against pre-training FLOPs; ablations, whose means are over other tasks, have tables of
    their own.
    """
    flops, ours = Column("pre-training FLOPs"), Column("mean of the tasks", 1, group=_ours(models))
    rows: list[Row] = [
        {
            MODEL: name,
            PARAMETERS: size,
            flops: cost,
            Column("GLUE dev", 1, group="paper"): score,
            ours: "",
        }
        for name, cost, size, score in paper.TABLE_1
    ]
    for model in models:
        scores = Spread(model.average.scores["pretrained"] if model.average else ())
        name = f"{model.name} (ours, {len(model.tasks)} tasks)"
        rows.append({MODEL: name, PARAMETERS: model.parameters, flops: model.flops, ours: scores})
    return _published(
        "1", "score and pre-training FLOPs", models, rows, range(len(paper.TABLE_1), len(rows))
    )


def table_4(models: Models) -> Table:
    """Question answering: the paper's columns left, ours right."""
    versions = sorted({row.name.removeprefix("squad ") for model in models for row in model.squad})
    paper_groups = [f"paper, SQuAD {version} dev" for version in ("1.1", "2.0")]
    theirs = [
        Column(metric, 1, group=group) for group in paper_groups for metric in ("exact", "F1")
    ]
    rows: list[Row] = [
        {MODEL: name, **dict(zip(theirs, of, strict=True))} for name, *of in paper.TABLE_4
    ]
    for model in models:
        scores = {
            (row.name, metric): Spread(of["pretrained"])
            for row in model.squad
            for metric, of in row.others.items()
        }
        ours = {
            Column(title, 1, group=f"{_ours(models)}, {version} form"): scores.get(
                (f"squad {version}", metric)
            )
            for version in versions
            for metric, title in (("exact", "exact"), ("f1", "F1"))
        }
        rows.append({MODEL: f"{model.name} (ours)", **ours})
    return _published(
        "4", "question answering, single models", models, rows, range(len(paper.TABLE_4), len(rows))
    )


def _published(
    number: str, what: str, models: Models, rows: list[Row], strong: Sequence[int]
) -> Table:
    """A table of the paper with ours beside its own."""
    title = f"Paper, Table {number}: {what} (ours: {_data(models) or 'missing'})"
    return Table(f"paper-{number}", title, rows, caution(models), strong)


def _data(models: Models) -> str:
    return ", ".join(dict.fromkeys(model.data for model in models))


def _ours(models: Models) -> str:
    return f"ours, {_data(models)}" if models else "ours"


def caution(ours: Sequence[ModelResults | Ablation]) -> tuple[str, ...]:
    """What a reader must know before comparing ours with the paper's."""
    labels = {one.data for one in ours}
    notes = {
        NOTES["not_comparable"]: "sample world" in labels,
        NOTES["other_scale"]: bool(labels - {"sample world"}),
    }
    return tuple(note for note, holds in notes.items() if holds)


def of_ablation(ablation: Ablation) -> Iterator[Table]:
    """Every table of one ablation."""
    yield arms(ablation)
    if any(arm.tasks for arm in ablation.arms):
        yield arm_tasks(ablation)


def arms(ablation: Ablation) -> Table:
    """Each arm against the reference; the paper's score, where it has one, in a separate column."""
    beside, reference = ablation.paper, ablation.reference
    ours = f"ours, {ablation.model}, {ablation.data}"
    against = f"against {reference.label if reference else 'the first'}"
    rows = []
    for arm in ablation.arms:
        reading = left("reading", group=ours)
        found = (
            difference(arm.scores, reference.scores) if reference and arm is not reference else None
        )
        row: Row = {ARM: arm.label}
        if beside:
            row[Column("GLUE dev", 1, group=beside.source)] = beside.arms.get(arm.name, ("", None))[
                1
            ]
        row[Column("mean of the tasks", 1, group=ours)] = Spread(arm.scores)
        row |= verdict(found, against, reading, ours)
        if arm.failed:
            row[reading] = Mark(arm.status, "bad")
        elif arm is reference:
            row[reading] = Mark("the reference")
        rows.append(
            {
                **row,
                Column("FLOPs", group=ours): arm.flops,
                Column("steps", under="FLOPs", suffix=" steps"): arm.steps,
            }
        )
    notes = (*(caution([ablation]) if beside else ()), NOTES["spread_of_arms"], NOTES["rule"])
    return Table(
        f"ablation-{ablation.name}", f"{ablation.title} (ours: {ablation.origin})", rows, notes
    )


def arm_tasks(ablation: Ablation) -> Table:
    """Each arm's score on each task."""
    columns = {task: Column(title, 1) for task, title in ablation.tasks.items()}
    rows: list[Row] = [
        {
            ARM: arm.label,
            **{column: Spread(arm.tasks.get(task, ())) for task, column in columns.items()},
        }
        for arm in ablation.arms
    ]
    title = f"{ablation.title}: each task ({ablation.origin})"
    return Table(f"ablation-{ablation.name}-tasks", title, rows, (NOTES["spread_of_arms"],))
