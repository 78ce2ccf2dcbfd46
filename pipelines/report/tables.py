"""The report's tables: a model's tasks, the paper's tables with ours in columns of their own, ablations, and the data.

Sample-world numbers are labelled in the title of every table that holds one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from electra.finetuning.tasks import GLUE
from pipelines.report import claims, paper
from pipelines.report.comparison import WORDS, Difference, difference, mean
from pipelines.report.records import ARMS, METRICS, TITLES, Ablation, Inputs, ModelResults, RecordedRun
from pipelines.report.table import NOTES, Cell, Column, Mark, Spread, Table, left, signed

Rows = list[tuple[Cell, ...]]
Columns = tuple[Column, ...]
Models = Sequence[ModelResults]

BOTH = tuple(Column(title, 1) for title in ARMS.values())

SPLITS = ("train", "dev", "dev_mismatched", "test", "test_mismatched")


def all_tables(inputs: Inputs) -> list[Table]:
    """Every table that the inputs allow, in the order in which the page first shows their notes."""
    models = [model for model in inputs.models if model.tasks]
    tables = [make(model) for model in models for make in (tasks, metrics)]
    tables += [table_1(models), table_2(models), table_4([model for model in inputs.models if model.squad])]
    tables += [table for ablation in inputs.ablations for table in of_ablation(ablation)]
    tables += [claims.table(inputs.ablations), *map(recorded, inputs.records), texts(inputs), token_rows(inputs)]
    tables += [task_rows(name, values) for name, values in inputs.tasks.items()]
    return [table for table in tables if table.rows]


def verdict(found: Difference | None) -> tuple[Cell, Cell, Cell]:
    """A difference as three cells: points, pooled standard deviations, and the verdict as a word with its tone."""
    if found is None:
        return None, None, None
    tone = {"higher": "good", "lower": "bad"}.get(found.verdict, "neutral")
    sds = None if found.sds is None else signed(found.sds)
    return signed(found.points), sds, Mark(WORDS[found.verdict], tone)  # type: ignore[arg-type]


def tasks(model: ModelResults) -> Table:
    """Each task, both arms, and what the score is compared with: chance, simple models, training rows."""
    rows: Rows = []
    for row in (*model.tasks, *([model.average] if model.average else []), *model.squad):
        official = GLUE[row.name].train_rows if not model.sample and row.subset else None
        metric = f"{row.metric_title}, chance: never answering" if row.name.startswith("squad") else row.metric_title
        names = ("chance", "majority", "bag_of_words", "word_overlap", "replaced_tokens")
        simple = (row.ground.get(name) for name in names)
        on_train = (mean(row.on_train.get(arm, ())) for arm in ARMS)
        arms = (Spread(row.scores[arm]) for arm in ARMS)
        record = [Spread(model.recorded.get((row.name, row.metric), ()))] if model.recorded else []
        counts = (row.train_rows, official, row.dev_rows)
        rows.append((row.title, metric or None, *counts, *simple, *on_train, *arms, *verdict(row.difference), *record))
    pretrainings = max(map(len, model.recorded.values()), default=0)
    return Table(
        name=f"{model.name}-tasks",
        title=f"{model.name}: tasks, both arms, points on dev ({model.data})",
        columns=(
            *left("task"),
            *left("metric", under="task"),
            Column("train rows", under="task", suffix=" train"),
            Column("official train rows", under="task", suffix=" in the full set"),
            Column("dev rows", under="task", suffix=" dev"),
            Column("chance", 1),
            Column("majority", 1, under="chance", suffix=" majority"),
            Column("bag of words", 1),
            Column("word overlap", 1, under="bag of words", suffix=" overlap"),
            Column("frozen", 1, under="pre-trained", suffix=" frozen"),
            Column("pre-trained, on train", 1, under="pre-trained", suffix=" on train"),
            Column("from scratch, on train", 1, under="from scratch", suffix=" on train"),
            *BOTH,
            Column("difference"),
            Column("in sd", under="difference", suffix=" sd"),
            *left("pre-trained is"),
            *([Column(f"a record, {pretrainings} pre-trainings", 1)] if pretrainings else []),
        ),
        rows=rows,
        notes=(NOTES["spread"], *([NOTES["record"]] if pretrainings else []), NOTES["ground"], NOTES["rule"]),
        strong=frozenset({len(model.tasks)}) if model.average else frozenset(),
    )


def metrics(model: ModelResults) -> Table:
    """Every metric of every task, for those who want another than the one that counts."""
    title = f"{model.name}: every metric, points on dev ({model.data})"
    rows: Rows = [
        (task.title, METRICS.get(name, _words(name)), *(Spread(arms.get(arm, ())) for arm in ARMS))
        for task in model.tasks
        for name, arms in task.others.items()
    ]
    return Table(f"{model.name}-metrics", title, (*left("task", "metric"), *BOTH), rows)


def table_1(models: Models) -> Table:
    """Score against pre-training FLOPs; ablations, whose means are over other tasks, have tables of their own."""
    rows: Rows = [(name, size, cost, score, "") for name, cost, size, score in paper.TABLE_1]
    for model in models:
        scores = model.average.scores["pretrained"] if model.average else ()
        name = f"{model.name} (ours, {len(model.tasks)} tasks)"
        rows.append((name, model.parameters, model.flops, "", Spread(scores)))
    scored = (Column("GLUE dev", 1, group="paper"), Column("mean of the tasks", 1, group=_ours(models)))
    columns = (*left("model"), Column("parameters"), Column("pre-training FLOPs"), *scored)
    return _published("1", "score and pre-training FLOPs", models, columns, rows, range(len(paper.TABLE_1), len(rows)))


def table_2(models: Models) -> Table:
    """Each task: the paper's large models left, ours right."""
    rows: Rows = []
    scores = [{row.name: row.scores["pretrained"] for row in model.tasks} for model in models]
    for place, task in enumerate(paper.TABLE_2_TASKS, start=2):
        ours = (Spread(of.get(task, ())) for of in scores)
        rows.append((GLUE[task].title, *(row[place] for row in paper.TABLE_2), *ours))
    means = []
    for of in scores:  # a seed has a mean if all eight tasks have the seed
        eight = zip(*(of.get(task, ()) for task in paper.TABLE_2_TASKS), strict=False)
        means.append(Spread(tuple(mean(seed) or 0.0 for seed in eight)))
    rows.append(("mean of the eight", *(row[-1] for row in paper.TABLE_2), *means))
    rows.append(("pre-training FLOPs", *(row[1] for row in paper.TABLE_2), *(model.flops for model in models)))
    columns = (
        *left("task"),
        *(Column(row[0], 1, group="paper, GLUE dev") for row in paper.TABLE_2),
        *(Column(model.name, 1, group=_ours(models)) for model in models),
    )
    return _published("2", "each task, without WNLI", models, columns, rows, [len(rows) - 2])


def table_4(models: Models) -> Table:
    """Question answering: the paper's columns left, ours right."""
    versions = sorted({version for model in models for version in model.versions})
    ours = [(f"squad {version}", metric) for version in versions for metric in ("exact", "f1")]
    rows: Rows = [(*row, *("" for _ in ours)) for row in paper.TABLE_4]
    for model in models:
        scores = {(row.name, row.metric): Spread(row.scores["pretrained"]) for row in model.squad}
        rows.append((f"{model.name} (ours)", "", "", "", "", *map(scores.get, ours)))
    groups = [f"paper, SQuAD {version} dev" for version in ("1.1", "2.0")]
    groups += [f"{_ours(models)}, {version} form" for version in versions]
    columns = (*left("model"), *(Column(metric, 1, group=group) for group in groups for metric in ("exact", "F1")))
    strong = range(len(paper.TABLE_4), len(rows))
    return _published("4", "question answering, single models", models, columns, rows, strong)


def _published(number: str, what: str, models: Models, columns: Columns, rows: Rows, strong: Sequence[int]) -> Table:
    """A table of the paper with ours beside its own."""
    title = f"Paper, Table {number}: {what} (ours: {_data(models) or 'missing'})"
    return Table(f"paper-{number}", title, columns, rows, caution(models), frozenset(strong))


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
    """Each arm against the reference; the paper's score, where it has one, stands in a column of its own."""
    beside, reference = ablation.paper, ablation.reference
    against = f"against {reference.label}" if reference else "against the first"
    ours = f"ours, {ablation.model}, {ablation.data}"
    rows: Rows = []
    for arm in ablation.arms:
        found = difference(arm.scores, reference.scores) if reference and arm is not reference else None
        gain, sds, reading = verdict(found)
        if arm.failed:
            reading = Mark(arm.status, "bad")
        elif arm is reference:
            reading = Mark("the reference")
        published = [beside.arms.get(arm.name, ("", None))[1]] if beside else []
        rows.append((arm.label, *published, Spread(arm.scores), gain, sds, reading, arm.flops, arm.steps))
    return Table(
        name=f"ablation-{ablation.name}",
        title=f"{ablation.title} (ours: {ablation.origin})",
        columns=(
            *left("arm"),
            *([Column("GLUE dev", 1, group=beside.source)] if beside else []),
            Column("mean of the tasks", 1, group=ours),
            Column(against, group=ours),
            Column("in sd", under=against, suffix=" sd"),
            *left("reading", group=ours),
            Column("FLOPs", group=ours),
            Column("steps", under="FLOPs", suffix=" steps"),
        ),
        rows=rows,
        notes=(*(caution([ablation]) if beside else ()), NOTES["spread_of_arms"], NOTES["rule"]),
    )


def points(ablation: Ablation) -> Table:
    """The paper's Table 1 for one's own runs: the score at fractions of each, a row an arm."""
    fractions = sorted({point.fraction for arm in ablation.arms for point in arm.points})
    rows: Rows = []
    for arm in ablation.arms:
        scores = {point.fraction: Spread(point.scores) for point in arm.points}
        size = f"{arm.parameters / 1e6:.2f}M" if arm.parameters else None
        rows.append((arm.label, size, arm.flops, *map(scores.get, fractions)))
    group = f"ours, {ablation.data}: mean of the tasks when so much of the run is done"
    scored = (Column(f"{100 * fraction:g} %", 1, group=group) for fraction in fractions)
    columns = (*left("arm"), Column("parameters"), Column("FLOPs of the run"), *scored)
    title = f"{ablation.title}: points of each run ({ablation.origin})"
    return Table(f"ablation-{ablation.name}-points", title, columns, rows, (NOTES["spread_of_arms"], NOTES["points"]))


def arm_tasks(ablation: Ablation) -> Table:
    """Each arm's score on each task."""
    title, tasks = f"{ablation.title}: each task ({ablation.origin})", ablation.tasks
    rows: Rows = [(arm.label, *(Spread(arm.tasks.get(task, ())) for task in tasks)) for arm in ablation.arms]
    columns = (*left("arm"), *(Column(task, 1) for task in tasks.values()))
    return Table(f"ablation-{ablation.name}-tasks", title, columns, rows, (NOTES["spread_of_arms"],))


def recorded(run: RecordedRun) -> Table:
    """The scores of a recorded run."""
    title = f"{run.name}: recorded run, points on dev ({run.data})"
    columns = (*left("task"), *left("metric", under="task"), Column("train rows"), *BOTH)
    rows: Rows = [
        (row.title, row.metric, row.train_rows, *(Spread(row.scores[arm]) for arm in ARMS)) for row in run.tasks
    ]
    return Table(f"record-{run.name}", title, columns, rows)


def texts(inputs: Inputs) -> Table:
    """Each corpus: documents read, dropped as a duplicate or by a filter, and unreadable ones."""
    rows: Rows = []
    for name, values in inputs.corpora.items():
        size = values["bytes"] / 1e6 if "bytes" in values else None
        dropped = _reasons({**values.get("dropped", {}), **values.get("dropped_lines", {})})
        unreadable, why = str(values.get("quarantined", 0)), _reasons(values.get("reasons"))
        unreadable += f" ({why})" if why != "0" else ""
        if values:
            rows.append((_words(name), values.get("documents"), values.get("lines"), size, dropped, unreadable))
    title = f"Text for pre-training ({', '.join(map(_words, inputs.corpora))})"
    columns = (*left("corpus"), Column("documents"), Column("lines"), Column("MB", 1), *left("dropped", "quarantined"))
    return Table("data-text", title, columns, rows)


def token_rows(inputs: Inputs) -> Table:
    """Each set of rows: vocabulary, length, rows and tokens in training and held out, share of padding."""
    titles = ("vocabulary", "length", "training rows", "training tokens", "held-out rows", "padding", "unknown words")
    rows: Rows = []
    for name, values in inputs.tokens.items():
        for length, splits in sorted(_sections(values.get("rows")).items()):
            train, valid = (_sections(_sections(splits).get(split)) for split in ("train", "valid"))
            padding = None if train.get("padding") is None else f"{100 * train['padding']:.1f} %"
            unknown = None if "unknown_rate" not in values else f"{100 * values['unknown_rate']:.2f} %"
            counts = (train.get("rows"), train.get("tokens"), valid.get("rows"))
            rows.append((_words(name), values.get("vocab_size"), str(length), *counts, padding, unknown))
    title = f"Rows for pre-training ({', '.join(map(_words, inputs.tokens))})"
    return Table("data-rows", title, (*left("rows"), *map(Column, titles)), rows)


def task_rows(name: str, values: dict[str, Any]) -> Table:
    """The rows of every task and split, and how many could not be read."""
    counts = {task: _sections(splits) for task, splits in _sections(values.get("tasks")).items()}
    present = [split for split in SPLITS if any(split in splits for splits in counts.values())]
    order = list(TITLES)
    rows: Rows = []
    for task in sorted(counts, key=lambda task: (order.index(task) if task in TITLES else 99, task)):
        splits = counts[task]
        read = (splits[split].get("rows") if split in splits else None for split in present)
        rows.append((TITLES.get(task, task), *read, sum(split.get("quarantined", 0) for split in splits.values())))
    columns = (*left("task"), *(Column(split.replace("_", ", ")) for split in present), Column("quarantined"))
    return Table(f"data-tasks-{name}", f"Task rows ({_words(name)})", columns, rows)


def _reasons(counts: Any) -> str:
    """`110 duplicate documents, 3 short`; 0 if nothing was left out."""
    named = {_words(str(reason)): count for reason, count in _sections(counts).items() if count}
    return ", ".join(f"{count} {reason}" for reason, count in sorted(named.items())) or "0"


def _sections(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(name: str) -> str:
    return name.replace("_", " ")
