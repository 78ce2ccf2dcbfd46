"""The report's tables: a model's tasks, the paper's tables with ours in separate columns, ablations, and the data.

Sample-world numbers are labelled in the title of every table that holds one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from electra.finetuning.tasks import GLUE
from pipelines.report import claims, paper
from pipelines.report.comparison import difference, mean
from pipelines.report.records import (
    ARMS,
    METRICS,
    TITLES,
    Ablation,
    Inputs,
    Measured,
    ModelResults,
    in_order,
)
from pipelines.report.table import NOTES, Column, Mark, Row, Spread, Table, left, verdict

Models = Sequence[ModelResults]

MODEL, TASK, ARM, PARAMETERS = left("model"), left("task"), left("arm"), Column("parameters")
SPLITS = ("train", "dev", "dev_mismatched", "test", "test_mismatched")
SIMPLE = (  # what a score is compared with, by its name in the records
    ("chance", Column("chance", 1)),
    ("majority", Column("majority", 1, under="chance", suffix=" majority")),
    ("bag_of_words", Column("bag of words", 1)),
    ("word_overlap", Column("word overlap", 1, under="bag of words", suffix=" overlap")),
    ("replaced_tokens", Column("frozen", 1, under="pre-trained", suffix=" frozen")),
)


def all_tables(inputs: Inputs) -> list[Table]:
    """Every table that the inputs allow, in the order in which the page first shows their notes."""
    models = [model for model in inputs.models if model.tasks]
    tables = [make(model) for model in models for make in (tasks, metrics)]
    tables += [table_1(models), table_2(models), table_4([model for model in inputs.models if model.squad])]
    tables += [table for ablation in inputs.ablations for table in of_ablation(ablation)]
    tables.append(claims.table(inputs.ablations))
    tables += [texts(inputs.data["corpus"]), token_rows(inputs.data["tokens"])]
    tables += [task_rows(name, values) for name, values in inputs.data["tasks"].items()]
    return [table for table in tables if table.rows]


def _arms(scores: dict[str, tuple[float, ...]]) -> Row:
    return {Column(title, 1): Spread(scores.get(arm, ())) for arm, title in ARMS.items()}


def tasks(model: ModelResults) -> Table:
    """Each task, both arms, and what the score is compared with: chance, simple models, training rows."""
    pretrainings = max(map(len, model.recorded.values()), default=0)
    record = Column(f"a record, {pretrainings} pre-trainings", 1)

    def row(of: Measured) -> Row:
        metric = f"{of.metric_title}, chance: never answering" if of.name.startswith("squad") else of.metric_title
        whole = GLUE[of.name].train_rows if not model.sample and of.subset else None
        recorded = Spread(model.recorded.get((of.name, of.metric), ()))
        return {
            TASK: of.title,
            left("metric", under="task"): metric or None,
            Column("train rows", under="task", suffix=" train"): of.train_rows,
            Column("official train rows", under="task", suffix=" in the full set"): whole,
            Column("dev rows", under="task", suffix=" dev"): of.dev_rows,
            **{column: of.ground.get(name) for name, column in SIMPLE},
            **{
                Column(f"{title}, on train", 1, under=title, suffix=" on train"): mean(of.on_train.get(arm, ()))
                for arm, title in ARMS.items()
            },
            **_arms(of.scores),
            **verdict(of.difference, "difference", left("pre-trained is")),
            **({record: recorded} if pretrainings else {}),
        }

    return Table(
        name=f"{model.name}-tasks",
        title=f"{model.name}: tasks, both arms, points on dev ({model.data})",
        rows=[row(of) for of in model.measured],
        notes=(NOTES["spread"], *([NOTES["record"]] if pretrainings else []), NOTES["ground"], NOTES["rule"]),
        strong={len(model.tasks)} if model.average else (),
    )


def metrics(model: ModelResults) -> Table:
    """Every metric of every task, for those who want another than the one that counts."""
    rows = [
        {TASK: task.title, left("metric"): METRICS.get(name, _words(name)), **_arms(scores)}
        for task in model.tasks
        for name, scores in task.others.items()
    ]
    return Table(f"{model.name}-metrics", f"{model.name}: every metric, points on dev ({model.data})", rows)


def table_1(models: Models) -> Table:
    """Score against pre-training FLOPs; ablations, whose means are over other tasks, have tables of their own."""
    flops, ours = Column("pre-training FLOPs"), Column("mean of the tasks", 1, group=_ours(models))
    rows: list[Row] = [
        {MODEL: name, PARAMETERS: size, flops: cost, Column("GLUE dev", 1, group="paper"): score, ours: ""}
        for name, cost, size, score in paper.TABLE_1
    ]
    for model in models:
        scores = Spread(model.average.scores["pretrained"] if model.average else ())
        name = f"{model.name} (ours, {len(model.tasks)} tasks)"
        rows.append({MODEL: name, PARAMETERS: model.parameters, flops: model.flops, ours: scores})
    return _published("1", "score and pre-training FLOPs", models, rows, range(len(paper.TABLE_1), len(rows)))


def table_2(models: Models) -> Table:
    """Each task: the paper's large models left, ours right."""
    theirs = [Column(row[0], 1, group="paper, GLUE dev") for row in paper.TABLE_2]
    ours = [Column(model.name, 1, group=_ours(models)) for model in models]
    scores = [{row.name: row.scores["pretrained"] for row in model.tasks} for model in models]
    columns = list(zip(*paper.TABLE_2, strict=True))[1:]
    titles = ("pre-training FLOPs", *(GLUE[task].title for task in paper.TABLE_2_TASKS), "mean of the eight")
    first, *rows = [
        {TASK: title, **dict(zip(theirs, of, strict=True))} for title, of in zip(titles, columns, strict=True)
    ]
    for column, model, of in zip(ours, models, scores, strict=True):
        eight = [of.get(task, ()) for task in paper.TABLE_2_TASKS]
        means = tuple(mean(seed) or 0.0 for seed in zip(*eight, strict=False))  # of seeds that all eight tasks have
        first[column] = model.flops
        for row, cell in zip(rows, (*eight, means), strict=True):
            row[column] = Spread(cell)
    return _published("2", "each task, without WNLI", models, [*rows, first], [len(rows) - 1])


def table_4(models: Models) -> Table:
    """Question answering: the paper's columns left, ours right."""
    versions = sorted({version for model in models for version in model.versions})
    paper_groups = [f"paper, SQuAD {version} dev" for version in ("1.1", "2.0")]
    theirs = [Column(metric, 1, group=group) for group in paper_groups for metric in ("exact", "F1")]
    rows: list[Row] = [{MODEL: name, **dict(zip(theirs, of, strict=True))} for name, *of in paper.TABLE_4]
    for model in models:
        scores = {(row.name, row.metric): Spread(row.scores["pretrained"]) for row in model.squad}
        ours = {
            Column(title, 1, group=f"{_ours(models)}, {version} form"): scores.get((f"squad {version}", metric))
            for version in versions
            for metric, title in (("exact", "exact"), ("f1", "F1"))
        }
        rows.append({MODEL: f"{model.name} (ours)", **ours})
    strong = range(len(paper.TABLE_4), len(rows))
    return _published("4", "question answering, single models", models, rows, strong)


def _published(number: str, what: str, models: Models, rows: list[Row], strong: Sequence[int]) -> Table:
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
    notes = {NOTES["not_comparable"]: "sample world" in labels, NOTES["other_scale"]: bool(labels - {"sample world"})}
    return tuple(note for note, holds in notes.items() if holds)


def of_ablation(ablation: Ablation) -> Iterator[Table]:
    """Every table of one ablation."""
    yield arms(ablation)
    if any(arm.points for arm in ablation.arms):
        yield points(ablation)
    if any(arm.tasks for arm in ablation.arms):
        yield arm_tasks(ablation)


def arms(ablation: Ablation) -> Table:
    """Each arm against the reference; the paper's score, where it has one, in a separate column."""
    beside, reference = ablation.paper, ablation.reference
    ours, against = (
        f"ours, {ablation.model}, {ablation.data}",
        f"against {reference.label if reference else 'the first'}",
    )
    rows = []
    for arm in ablation.arms:
        reading = left("reading", group=ours)
        found = difference(arm.scores, reference.scores) if reference and arm is not reference else None
        row: Row = {ARM: arm.label}
        if beside:
            row[Column("GLUE dev", 1, group=beside.source)] = beside.arms.get(arm.name, ("", None))[1]
        row[Column("mean of the tasks", 1, group=ours)] = Spread(arm.scores)
        row |= verdict(found, against, reading, ours)
        if arm.failed:
            row[reading] = Mark(arm.status, "bad")
        elif arm is reference:
            row[reading] = Mark("the reference")
        rows.append(
            {**row, Column("FLOPs", group=ours): arm.flops, Column("steps", under="FLOPs", suffix=" steps"): arm.steps}
        )
    notes = (*(caution([ablation]) if beside else ()), NOTES["spread_of_arms"], NOTES["rule"])
    return Table(f"ablation-{ablation.name}", f"{ablation.title} (ours: {ablation.origin})", rows, notes)


def points(ablation: Ablation) -> Table:
    """The paper's Table 1 for the user's own runs: the score at fractions of each, a row an arm."""
    group = f"ours, {ablation.data}: mean of the tasks when so much of the run is done"
    fractions = sorted({point.fraction for arm in ablation.arms for point in arm.points})
    rows: list[Row] = []
    for arm in ablation.arms:
        scores = {point.fraction: Spread(point.scores) for point in arm.points}
        size = f"{arm.parameters / 1e6:.2f}M" if arm.parameters else None
        cells = {Column(f"{100 * fraction:g} %", 1, group=group): scores.get(fraction) for fraction in fractions}
        rows.append({ARM: arm.label, PARAMETERS: size, Column("FLOPs of the run"): arm.flops, **cells})
    title = f"{ablation.title}: points of each run ({ablation.origin})"
    return Table(f"ablation-{ablation.name}-points", title, rows, (NOTES["spread_of_arms"], NOTES["points"]))


def arm_tasks(ablation: Ablation) -> Table:
    """Each arm's score on each task."""
    columns = {task: Column(title, 1) for task, title in ablation.tasks.items()}
    rows: list[Row] = [
        {ARM: arm.label, **{column: Spread(arm.tasks.get(task, ())) for task, column in columns.items()}}
        for arm in ablation.arms
    ]
    title = f"{ablation.title}: each task ({ablation.origin})"
    return Table(f"ablation-{ablation.name}-tasks", title, rows, (NOTES["spread_of_arms"],))


def texts(corpora: dict[str, dict[str, Any]]) -> Table:
    """Each corpus: documents read, dropped as a duplicate or by a filter, and unreadable ones."""
    columns = (
        left("corpus"),
        Column("documents"),
        Column("lines"),
        Column("MB", 1),
        *map(left, ("dropped", "quarantined")),
    )
    rows: list[Row] = []
    for name, values in corpora.items():
        size = values["bytes"] / 1e6 if "bytes" in values else None
        dropped = _reasons({**values.get("dropped", {}), **values.get("dropped_lines", {})})
        why = _reasons(values.get("reasons"))
        bad = f"{values.get('quarantined', 0)}{f' ({why})' if why != '0' else ''}"
        cells = (_words(name), values.get("documents"), values.get("lines"), size, dropped, bad)
        if values:
            rows.append(dict(zip(columns, cells, strict=True)))
    return Table("data-text", f"Text for pre-training ({', '.join(map(_words, corpora))})", rows)


def token_rows(tokens: dict[str, dict[str, Any]]) -> Table:
    """Each set of rows: vocabulary, length, rows and tokens in training and held out, share of padding."""
    titles = ("vocabulary", "length", "training rows", "training tokens", "held-out rows", "padding", "unknown words")
    columns = (left("rows"), *map(Column, titles))
    rows: list[Row] = []
    for name, values in tokens.items():
        for length, splits in sorted(_sections(values.get("rows")).items()):
            train, valid = (_sections(_sections(splits).get(split)) for split in ("train", "valid"))
            padding = None if train.get("padding") is None else f"{100 * train['padding']:.1f} %"
            unknown = None if "unknown_rate" not in values else f"{100 * values['unknown_rate']:.2f} %"
            counts = (train.get("rows"), train.get("tokens"), valid.get("rows"))
            cells = (_words(name), values.get("vocab_size"), str(length), *counts, padding, unknown)
            rows.append(dict(zip(columns, cells, strict=True)))
    return Table("data-rows", f"Rows for pre-training ({', '.join(map(_words, tokens))})", rows)


def task_rows(name: str, values: dict[str, Any]) -> Table:
    """The rows of every task and split, and how many could not be read."""
    counts = {task: _sections(splits) for task, splits in _sections(values.get("tasks")).items()}
    present = [split for split in SPLITS if any(split in splits for splits in counts.values())]
    rows: list[Row] = []
    for task in in_order(counts):
        splits = counts[task]
        read = {Column(split.replace("_", ", ")): splits.get(split, {}).get("rows") for split in present}
        bad = sum(split.get("quarantined", 0) for split in splits.values())
        rows.append({TASK: TITLES.get(task, task), **read, Column("quarantined"): bad})
    return Table(f"data-tasks-{name}", f"Task rows ({_words(name)})", rows)


def _reasons(counts: Any) -> str:
    """`110 duplicate documents, 3 short`; 0 if nothing was left out."""
    named = {_words(str(reason)): count for reason, count in _sections(counts).items() if count}
    return ", ".join(f"{count} {reason}" for reason, count in sorted(named.items())) or "0"


def _sections(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(name: str) -> str:
    return name.replace("_", " ")
