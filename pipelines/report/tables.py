"""The report's tables: a model's tasks, the paper's tables with ours next to them, and ablations.

The page and each title name the data of the numbers.
"""

import itertools
from collections.abc import Sequence

from electra.errors import pluralize
from electra.finetuning.tasks import GLUE
from pipelines.report import claims, paper
from pipelines.report.comparison import compare_scores
from pipelines.report.records import METRICS, Ablation, Inputs, Measured, ModelResults
from pipelines.report.table import (
    NOTES,
    Column,
    Mark,
    Row,
    Spread,
    Table,
    integer,
    left,
    verdict,
)

MODEL = left("model")
TASK = left("task")
ARM = left("arm")
MEASURED_ON = left("measured on")
AFTER = left("after is")
BEFORE = Column("before", 1)
AFTERWARDS = Column("after", 1)
HELD_OUT = {"disc_auc": "AUC of replaced tokens", "mlm_accuracy": "accuracy on masked tokens"}
READING = left("pre-trained is")


def all_tables(inputs: Inputs) -> list[Table]:
    """Return every table that the inputs allow, in the order in which the page first shows their
    notes.
    """
    models = [model for model in inputs.models if model.tasks]
    tables = [tabulate_tasks(model) for model in models]
    tables += [tabulate_before(model) for model in models]
    comparable = [model for model in models if model.kind != "custom" and model.config is not None]
    if comparable or not inputs.models:
        tables.append(table_1(comparable))
        tables.append(table_4([model for model in inputs.models if model.squad]))
    for ablation in inputs.ablations:
        tables += [tabulate_arms(ablation), tabulate_arm_tasks(ablation)]
    tables.append(claims.table(inputs.ablations))
    return [table for table in tables if table.rows]


def tabulate_tasks(model: ModelResults) -> Table:
    """Return each task: both arms, chance and the best without a network. The columns that a phone
    shows come first.
    """
    record = [NOTES["record"]] if model.recorded else []
    return Table(
        name=f"{model.name}-tasks",
        title=f"{model.name}: tasks, both arms, points on dev ({model.data})",
        rows=[_task_row(model, row) for row in model.rows],
        notes=[NOTES["spread"], *record, NOTES["baselines"], NOTES["rule"]],
        strong={0} if model.average else (),
    )


def _task_row(model: ModelResults, row: Measured) -> Row:
    rows = []
    if row.train_rows is not None:
        rows.append(f"{integer(row.train_rows)} train")
    if row.subset and model.kind != "sample":
        rows.append(f"{integer(GLUE[row.name].train_rows)} in the full set")
    if row.dev_rows is not None:
        rows.append(f"{integer(row.dev_rows)} dev")
    score, how = row.best_baseline or (None, None)
    chance = " (chance: never answering)" if row in model.squad else ""
    result: Row = {
        TASK: row.title,
        left("metric", under="task"): f"{METRICS.get(row.metric, row.metric)}{chance}" or None,
        left("rows", under="task"): ", ".join(rows) or None,
        READING: None,  # among the first columns, which a phone shows
        Column("from scratch", 1): Spread(row.scratch.scores),
        Column("pre-trained", 1): Spread(row.pretrained.scores),
        **verdict(row.difference, READING),
        Column("chance", 1): row.chance,
        Column("without a network", 1): score,
        left("what reached it", under="without a network"): how,
    }
    if model.recorded:
        pretrainings = max(map(len, model.recorded.values()))
        column = Column(f"a record, {pretrainings} pre-trainings", 1)
        result[column] = Spread(model.recorded.get(row.name, ()))
    return result


def tabulate_before(model: ModelResults) -> Table:
    """Return the scores of published weights, and those after the pre-training that continued from
    them: of each task, and on held-out text.
    """
    rows: list[Row] = []
    for row in model.tasks:
        if before := model.before.get(row.name):
            after = row.pretrained.scores
            cells = verdict(row.compare(after, before), AFTER)
            rows.append(
                {MEASURED_ON: row.title, **cells, BEFORE: Spread(before), AFTERWARDS: Spread(after)}
            )
    for name, title in HELD_OUT.items():
        series = model.series(name, 100) if model.continued else None
        if series and series[0][0] == 0:
            first, *_, last = series[1]
            cells = verdict(None, AFTER)
            scores = {BEFORE: Spread((first,)), AFTERWARDS: Spread((last,))}
            rows.append({MEASURED_ON: f"held-out text: {title}", **cells, **scores})
    return Table(
        name=f"{model.name}-before",
        title=f"{model.name}: before and after this pre-training, points",
        rows=rows,
        notes=[NOTES["rule"]],
    )


def table_1(models: Sequence[ModelResults]) -> Table:
    """Return score against pre-training FLOPs. Ablations, whose means are over other tasks, have
    tables of their own.
    """
    parameters = Column("parameters")
    flops = Column("pre-training FLOPs")
    published = Column("paper: GLUE dev", 1)
    ours = Column("ours: mean of the tasks", 1)
    rows: list[Row] = [
        {MODEL: name, parameters: size, flops: cost, published: score, ours: ""}
        for name, cost, size, score in paper.TABLE_1
    ]
    for model in models:
        scores = Spread(model.average.scores["pretrained"] if model.average else ())
        name = f"{model.name} (ours, {pluralize(len(model.tasks), 'task')})"
        rows.append(
            {
                MODEL: name,
                parameters: model.parameters,
                flops: model.pretrain.get("flops"),
                ours: scores,
            }
        )
    return _published("1", "score and pre-training FLOPs", models, rows, len(paper.TABLE_1))


def table_4(models: Sequence[ModelResults]) -> Table:
    """Return question answering: the paper's columns left, ours right."""
    published = [
        Column(f"paper: {metric}, SQuAD {version}", 1)
        for version, metric in itertools.product(("1.1", "2.0"), ("exact", "F1"))
    ]
    rows: list[Row] = [
        {MODEL: name, **dict(zip(published, scores, strict=True))}
        for name, *scores in paper.TABLE_4
    ]
    for model in models:
        row: Row = {MODEL: f"{model.name} (ours)"}
        for task in model.squad:
            for metric, title in (("exact", "exact"), ("f1", "F1")):
                column = Column(f"ours: {title}, {task.title}", 1)
                row[column] = Spread(task.pretrained.all.get(metric, ()))
        rows.append(row)
    return _published("4", "question answering, single models", models, rows, len(paper.TABLE_4))


def _published(
    number: str, what: str, models: Sequence[ModelResults], rows: list[Row], first_own: int
) -> Table:
    """Return a table of the paper with ours next to its own."""
    data = ", ".join(dict.fromkeys(model.data for model in models))
    title = f"Paper, Table {number}: {what} (ours: {data or 'missing'})"
    return Table(f"paper-{number}", title, rows, caution(models), range(first_own, len(rows)))


def caution(ours: Sequence[ModelResults | Ablation]) -> list[str]:
    """Return a caution for readers who compare ours with the paper's."""
    labels = {measured.data for measured in ours}
    notes = [NOTES["not_comparable"]] if "sample world" in labels else []
    return notes + ([NOTES["other_scale"]] if labels - {"sample world"} else [])


def tabulate_arms(ablation: Ablation) -> Table:
    """Return each arm against the reference. The paper's score, where it has one, has a column of
    its own.
    """
    published = ablation.paper
    reference = ablation.reference
    reading = left(f"against {reference.label}")
    rows: list[Row] = []
    for arm in ablation.arms:
        difference = None
        if arm is not reference:
            difference = compare_scores(arm.scores, reference.scores)
        row: Row = {ARM: arm.label, **verdict(difference, reading)}
        if not arm.ok:
            row[reading] = Mark(arm.status, "bad")
        elif arm is reference:
            row[reading] = Mark("the reference")
        row[Column("mean of the tasks", 1)] = Spread(arm.scores)
        if published:
            _, score = published.arms.get(arm.name, ("", None))
            row[Column(f"{published.source}: GLUE dev", 1)] = score
        row[Column("FLOPs")] = arm.flops
        row[Column("steps", under="FLOPs")] = f"{integer(arm.steps)} steps" if arm.steps else None
        rows.append(row)
    notes = [*(caution([ablation]) if published else ()), NOTES["spread_of_arms"], NOTES["rule"]]
    title = f"{ablation.title} (ours: {ablation.config.base.model}, {ablation.origin})"
    return Table(f"ablation-{ablation.name}", title, rows, notes)


def tabulate_arm_tasks(ablation: Ablation) -> Table:
    """Return each arm's score on each task."""
    rows: list[Row] = []
    for arm in ablation.arms if ablation.tasks else ():
        row: Row = {ARM: arm.label}
        for task, title in ablation.tasks.items():
            row[Column(title, 1)] = Spread(arm.tasks.get(task, ()))
        rows.append(row)
    title = f"{ablation.title}: each task ({ablation.origin})"
    return Table(f"ablation-{ablation.name}-tasks", title, rows, [NOTES["spread_of_arms"]])
