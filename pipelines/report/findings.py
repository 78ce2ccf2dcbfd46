"""Conclusions from the results, as sentences: what holds, and what fell short.

No sentence calls a difference a win before it is significant; `comparison.py` has the rule.
"""

from collections.abc import Iterator

from electra.finetuning.tasks import GLUE
from pipelines.report.comparison import mean
from pipelines.report.records import (
    ARMS,
    Ablation,
    Inputs,
    Measured,
    ModelResults,
    chance_of,
    number,
)
from pipelines.report.table import TEXTS, Spread

CEILING, CHANCE = 99.0, 2.0
FOUND, ANSWERED = 0.9, 90.0  # below them, what is missed is a shortfall


def headline(model: ModelResults) -> str:
    """How many tasks moved, by how much, and the mean."""
    if model.average is None or not any(model.average.scores.values()):
        return "No fine-tuning results yet."
    spreads = {arm: Spread(scores).text() for arm, scores in model.average.scores.items() if scores}
    title = model.average.title
    title += "" if model.data in title else f" ({model.data})"
    if len(spreads) < len(ARMS):
        ((arm, spread),) = spreads.items()
        return f"{title[:1].upper()}{title[1:]}: {spread} {ARMS[arm]}; the other arm is missing."
    simple, chance = model.average.simple, model.average.ground.get("chance")
    beside = [f"chance {chance:.1f}"] if chance is not None else []
    beside += [f"the best without a network {simple[0]:.1f}"] if simple else []
    beside += (
        [f"pre-trained from the published initial values {model.control:.1f}"]
        if model.control
        else []
    )
    text = f"{_moved(model)}. The {title} goes from {spreads['scratch']} from scratch to {spreads['pretrained']}"
    text += f" ({', '.join(beside)})" if beside else ""
    for row in model.squad:
        if all(row.scores.values()):
            never = (
                f" (never answering: {row.ground['chance']:.1f})" if "chance" in row.ground else ""
            )
            text += f", {row.title} F1 from {row.mean('scratch'):.1f} to {row.mean('pretrained'):.1f}{never}"
    return f"{text}."


def _moved(model: ModelResults) -> str:
    """Pre-training lifts 7 of 9 tasks by 7.1 to 40.1 points; of 2 we cannot tell yet."""
    found, several = [row.difference for row in model.tasks], len(model.tasks) > 1
    parts = []
    for verdict, verb in (("higher", "lifts"), ("lower", "lowers")):
        if points := sorted(abs(each.points) for each in found if each and each.verdict == verdict):
            tasks = f"{len(points)} of {len(found)} tasks" if several else "its one task"
            ends = dict.fromkeys(f"{points[end]:.1f}" for end in (0, -1))
            parts.append(f"{verb} {tasks} by {' to '.join(ends)} points")
    if not parts:
        return f"We cannot tell yet whether pre-training lifts {'any task' if several else 'its one task'}"
    unknown = sum(not each.counts for each in found if each)
    return (
        f"Pre-training {' and '.join(parts)}{f'; of {unknown} we cannot tell yet' * bool(unknown)}"
    )


def learnt(model: ModelResults) -> Iterator[str]:
    """What holds: tasks above every baseline without a network, and what the discriminator has
    learnt.
    """
    above = []
    for row in model.tasks:
        if row.simple and (row.mean("pretrained") or 0) > max(
            row.simple[0], row.ground.get("chance", 0)
        ):
            above.append(row.title)
    if above:
        yield f"{model.name}: above chance, the majority, a bag of words and word overlap on {', '.join(above)}."
    if auc := model.series("disc_auc"):
        times = f"{100 * auc[1][-1]:.0f} times in 100"
        yield f"{model.name}: the discriminator ranks a replaced token above an original one {times}, on held-out text."


def shortfalls(model: ModelResults) -> Iterator[str]:
    """What a reader should hold against this model's numbers."""
    if (recall := number(model.pretrain, "disc_recall")) is not None and recall < FOUND:
        precision = number(model.pretrain, "disc_precision") or 0.0
        missed = f"misses {100 * (1 - recall):.0f} % of the replaced tokens of held-out text"
        yield f"{model.name}: the discriminator {missed}, {100 * (1 - precision):.0f} % of its suspicions are wrong."
    for row in model.squad:
        some, none = (
            mean(row.others.get(f"{has}_exact", {}).get("pretrained", ()))
            for has in ("HasAns", "NoAns")
        )
        if some is not None and none is not None and min(some, none) < ANSWERED:
            wrong = f"{100 - some:.0f} % of the questions that have an answer and {100 - none:.0f} % of the others"
            yield f"{model.name}: {row.title} is answered wrong on {wrong}."
    rows = (*model.tasks, *model.squad)
    verdicts = [(row.title, str(found.verdict)) for row in rows if (found := row.difference)]
    titles = {
        verdict: [title for title, each in verdicts if each == verdict] for _, verdict in verdicts
    }
    titles |= {arm: [row.title for row in model.tasks if _at_chance(row, arm)] for arm in ARMS}
    titles["ceiling"] = [
        row.title for row in rows if all((row.mean(arm) or 0) >= CEILING for arm in ARMS)
    ]
    for kind, sentence in TEXTS["shortfalls"].items():
        if names := titles.get(kind):
            yield f"{model.name}: {sentence} {', '.join(names)}."
    if weakness := model.pretrain.get("weakness"):
        yield f"{model.name}: {weakness}."


def _at_chance(row: Measured, arm: str) -> bool:
    """Within two points of guessing: of one class in so many, or of no correlation."""
    middle = row.mean(arm)
    return middle is not None and row.name in GLUE and middle < chance_of(row.name) + CHANCE


def unequal(ablation: Ablation) -> str | None:
    """A sentence if the arms did not spend the same FLOPs."""
    if ablation.budget != "equal_flops":
        budget = ablation.budget.replace("_", " ").replace("own", "their own")
        return f"{ablation.title}: the arms have {budget}, not equal FLOPs."
    spent = [arm.flops for arm in ablation.arms if arm.flops and not arm.failed]
    if not spent or max(spent) <= 1.02 * min(spent):
        return None
    ratio = max(spent) / min(spent)
    return f"{ablation.title}: the arms did not spend the same FLOPs (largest / smallest = {ratio:.2f})."


def all_shortfalls(inputs: Inputs) -> list[str]:
    """Every sentence that belongs under “what fell short”."""
    result = [sentence for model in inputs.models for sentence in shortfalls(model)]
    return result + [sentence for ablation in inputs.ablations if (sentence := unequal(ablation))]


def headline_numbers(inputs: Inputs) -> dict[str, float]:
    """The numbers that go to the tracker: means of both arms and their difference, by model and
    metric.
    """
    numbers: dict[str, float] = {}
    for model in inputs.models:
        for row in (*([model.average] if model.average else []), *model.squad):
            key = f"{model.name}/{row.name.replace(' ', '_')}" + (
                f"_{row.metric}" if row.metric else ""
            )
            numbers |= {
                f"{key}/{arm}": sum(scores) / len(scores)
                for arm, scores in row.scores.items()
                if scores
            }
            if found := row.difference:
                numbers[f"{key}/difference"] = found.points
    return numbers
