"""The report's tables: ours, and the paper's with ours in columns of their own, never in the paper's.

Sample-world numbers are labelled in the title of every table that holds one.
"""

from collections.abc import Sequence

from electra.finetuning.tasks import GLUE
from pipelines.report import paper
from pipelines.report.ablation_records import Ablation, number
from pipelines.report.comparison import WORDS, Difference, difference, mean
from pipelines.report.inputs import ARM_TITLES, ARMS, METRIC_TITLES, Inputs, Measured, ModelResults, is_subset
from pipelines.report.table import Cell, Column, Mark, Spread, Table, signed

NOT_COMPARABLE = (
    "The paper's scores are on the real data sets, ours on the sample world: compare orders and gaps down a column, "
    "never across."
)
OTHER_SCALE = (
    "Ours are on the data named above: they compare with the paper's only as far as rows, model size and FLOPs do."
)
SPREAD = (
    "± is the standard deviation over fine-tuning seeds of one pre-training; it leaves out how much one pre-training "
    "differs from the next."
)
RECORD = (
    "The last column is no part of this run: the pre-trained arm of a recorded one with several pre-trainings, ± their "
    "standard deviation (benchmarks/results)."
)
GROUND = (
    "Chance guesses without looking (for SQuAD: answers nothing), majority gives the commonest training label, bag of "
    "words and word overlap are linear models of which words occur and of how many two texts share, from the same "
    "rows. Frozen: the AUC, in points, with which the replaced-token head as pre-training left it tells rows that do "
    "not fit from those that do."
)
RULE = (
    "A difference counts when it is at least three pooled standard deviations and its 95 % interval leaves out zero; "
    "all else is inside the noise."
)


def all_tables(inputs: Inputs) -> list[Table]:
    """Every table that the inputs allow, in the order of the page."""
    tables = []
    for model in inputs.models:
        if model.tasks:
            tables.append(tasks(model))
        if any(task.others for task in model.tasks):
            tables.append(metrics(model))
    ours = [model for model in inputs.models if model.tasks]
    tables += [
        table_1(ours),
        table_2(ours),
        table_4([model for model in inputs.models if model.squad]),
    ]
    return tables


def mark(found: Difference | None) -> Mark | None:
    """A verdict as a word with its tone."""
    if found is None:
        return None
    tones = {"higher": "good", "lower": "bad"}
    return Mark(WORDS[found.verdict], tones.get(found.verdict, "neutral"))  # type: ignore[arg-type]


def _comparison(row: Measured) -> tuple[Cell, ...]:
    found = difference(row.scores["pretrained"], row.scores["scratch"])
    return (
        Spread(row.scores["pretrained"]),
        Spread(row.scores["scratch"]),
        None if found is None else signed(found.points),
        None if found is None or found.sds is None else signed(found.sds),
        mark(found),
    )


_ARMS = (
    Column("pre-trained", 1),
    Column("from scratch", 1),
    Column("difference"),
    Column("in sd", under="difference", suffix=" sd"),
    Column("pre-trained is", align="left"),
)


def tasks(model: ModelResults) -> Table:
    """Each task, both arms, and the ground that they stand on."""
    rows = [*model.tasks, *([model.average] if model.average else [])]
    cells: list[tuple[Cell, ...]] = []
    for row in [*rows, *(row for metrics in model.squad.values() for row in metrics)]:
        official = GLUE[row.name].train_rows if not model.sample and is_subset(row) else None
        seen = row.train_rows, official, row.dev_rows
        metric = (
            f"{row.metric_title}, chance: never answering" if row.name.startswith("squad") else row.metric_title or None
        )
        recorded = (Spread(model.recorded.get((row.name, row.metric), ())),) if model.recorded else ()
        cells.append((row.title, metric, *seen, *_ground(row), *_comparison(row), *recorded))
    pretrainings = max(map(len, model.recorded.values()), default=0)
    return Table(
        name=f"{model.name}-tasks",
        title=f"{model.name}: tasks, both arms, points on dev ({model.data})",
        columns=(
            Column("task", align="left"),
            Column("metric", under="task", align="left"),
            Column("train rows", under="task", suffix=" train"),
            Column("official train rows", under="task", suffix=" in the full set"),
            Column("dev rows", under="task", suffix=" dev"),
            *_GROUND,
            *_ARMS,
            *((Column(f"a record, {pretrainings} pre-trainings", 1),) if pretrainings else ()),
        ),
        rows=tuple(cells),
        notes=(SPREAD, *((RECORD,) if pretrainings else ()), GROUND, RULE),
        strong=frozenset({len(rows) - 1}) if model.average else frozenset(),
    )


_GROUND = (
    Column("chance", 1),
    Column("majority", 1, under="chance", suffix=" majority"),
    Column("bag of words", 1),
    Column("word overlap", 1, under="bag of words", suffix=" overlap"),
    Column("frozen", 1, under="pre-trained", suffix=" frozen"),
    Column("pre-trained, on train", 1, under="pre-trained", suffix=" on train"),
    Column("from scratch, on train", 1, under="from scratch", suffix=" on train"),
)


def _ground(row: Measured) -> tuple[Cell, ...]:
    names = ("chance", "majority", "bag_of_words", "word_overlap", "replaced_tokens")
    return (*(row.ground.get(name) for name in names), *(mean(row.on_train.get(arm, ())) for arm in ARMS))


def metrics(model: ModelResults) -> Table:
    """Every metric of every task, for those who want another than the one that counts."""
    rows: list[tuple[Cell, ...]] = [
        (task.title, METRIC_TITLES.get(name, name.replace("_", " ")), *(Spread(arms.get(arm, ())) for arm in ARMS))
        for task in model.tasks
        for name, arms in task.others.items()
    ]
    return Table(
        name=f"{model.name}-metrics",
        title=f"{model.name}: every metric, points on dev ({model.data})",
        columns=(
            Column("task", align="left"),
            Column("metric", align="left"),
            *(Column(ARM_TITLES[arm], 1) for arm in ARMS),
        ),
        rows=tuple(rows),
    )


def table_1(models: Sequence[ModelResults]) -> Table:
    """Score against pre-training FLOPs; ablations, whose means are over other tasks, have tables of their own."""
    rows: list[tuple[Cell, ...]] = [(name, size, cost, score, "") for name, cost, size, score in paper.TABLE_1]
    for model in models:
        scores = model.average.scores["pretrained"] if model.average else ()
        name = f"{model.name} (ours, {len(model.tasks)} tasks)"
        rows.append((name, parameters(model), model.flops, "", Spread(scores)))
    return Table(
        name="paper-1",
        title=_title("Paper, Table 1: score and pre-training FLOPs", models),
        columns=(
            Column("model", align="left"),
            Column("parameters"),
            Column("pre-training FLOPs"),
            Column("GLUE dev", 1, group="paper"),
            Column("mean of the tasks", 1, group=_ours(models)),
        ),
        rows=tuple(rows),
        notes=caution(models),
        strong=frozenset(range(len(paper.TABLE_1), len(rows))),
    )


def table_2(models: Sequence[ModelResults]) -> Table:
    """Each task: the paper's large models left, ours right."""
    rows: list[tuple[Cell, ...]] = []
    for place, task in enumerate(paper.TABLE_2_TASKS):
        ours = [row.scores["pretrained"] for m in models for row in [_task(m, task)] if row]
        rows.append((GLUE[task].title, *(scores[place] for _, _, scores, _ in paper.TABLE_2), *map(Spread, ours)))
    rows.append(("mean of the eight", *(row[3] for row in paper.TABLE_2), *(Spread(_mean_of_eight(m)) for m in models)))
    rows.append(("pre-training FLOPs", *(row[1] for row in paper.TABLE_2), *(model.flops for model in models)))
    return Table(
        name="paper-2",
        title=_title("Paper, Table 2: each task, without WNLI", models),
        columns=(
            Column("task", align="left"),
            *(Column(name, 1, group="paper, GLUE dev") for name, _, _, _ in paper.TABLE_2),
            *(Column(model.name, 1, group=_ours(models)) for model in models),
        ),
        rows=tuple(rows),
        notes=caution(models),
        strong=frozenset({len(rows) - 2}),
    )


def _task(model: ModelResults, name: str) -> Measured:
    empty = Measured(name, name, "", {"pretrained": (), "scratch": ()})
    return next((task for task in model.tasks if task.name == name), empty)


def _mean_of_eight(model: ModelResults) -> tuple[float, ...]:
    """The paper's average, per seed; empty unless every one of the eight has the seed."""
    eight = [_task(model, task).scores["pretrained"] for task in paper.TABLE_2_TASKS]
    return tuple(mean([scores[seed] for scores in eight]) or 0.0 for seed in range(min(map(len, eight))))


def table_4(models: Sequence[ModelResults]) -> Table:
    """Question answering: the paper's columns left, ours right."""
    versions = sorted({version for model in models for version in model.squad})
    rows: list[tuple[Cell, ...]] = [
        (row.model, row.exact_1, row.f1_1, row.exact_2, row.f1_2, *("" for _ in versions for _ in "12"))
        for row in paper.TABLE_4
    ]
    for model in models:
        ours: list[Cell] = []
        for version in versions:
            ours += [Spread(row.scores["pretrained"]) for row in model.squad.get(version, ())] or [None, None]
        rows.append((f"{model.name} (ours)", "", "", "", "", *ours))
    return Table(
        name="paper-4",
        title=_title("Paper, Table 4: question answering, single models", models),
        columns=(
            Column("model", align="left"),
            *(
                Column(metric, 1, group=f"paper, SQuAD {version} dev")
                for version in ("1.1", "2.0")
                for metric in ("exact", "F1")
            ),
            *(
                Column(metric, 1, group=f"{_ours(models)}, {version} form")
                for version in versions
                for metric in ("exact", "F1")
            ),
        ),
        rows=tuple(rows),
        notes=caution(models),
        strong=frozenset(range(len(paper.TABLE_4), len(rows))),
    )


def parameters(model: ModelResults) -> str | None:
    """The size of the network that is kept, in the paper's way of writing."""
    value = number(model.pretrain.get("parameters", {}), "discriminator")
    return None if value is None else f"{value / 1e6:.1f}M" if value < 1e7 else f"{value / 1e6:.0f}M"


def _data(models: Sequence[ModelResults]) -> str:
    return ", ".join(dict.fromkeys(model.data for model in models))


def _ours(models: Sequence[ModelResults]) -> str:
    return f"ours, {_data(models)}" if models else "ours"


def caution(of: Sequence[ModelResults | Ablation]) -> tuple[str, ...]:
    """What a reader must know before comparing ours with the paper's."""
    labels = {one.data for one in of}
    return tuple(
        note
        for note, holds in ((NOT_COMPARABLE, "sample world" in labels), (OTHER_SCALE, labels - {"sample world"}))
        if holds
    )


def _title(title: str, models: Sequence[ModelResults]) -> str:
    return f"{title} (ours: {_data(models)})" if models else f"{title} (ours: missing)"
