"""Conclusions from the results, as sentences: methods, results, shortfalls.

No sentence calls a difference a win before it is significant (`comparison.py` has the rule).
"""

import itertools
from collections.abc import Iterator

from electra.errors import pluralize
from electra.finetuning.tasks import GLUE
from pipelines.report.comparison import mean
from pipelines.report.records import (
    ARMS,
    Ablation,
    Inputs,
    Measured,
    ModelResults,
    chance_score,
)
from pipelines.report.table import TEXTS

CEILING = 99.0
CHANCE = 2.0
# lower recall of replaced tokens, or a lower score on one kind of question, is a shortfall
RECALL = 0.9
ANSWERED = 90.0


def headline(model: ModelResults) -> str:
    """Return the result, in a sentence with at most three numbers."""
    row = model.main
    if row is None or not any(row.scores.values()):
        return "No fine-tuning results yet."
    title = row.title if model.data in row.title else f"{row.title} ({model.data})"
    means = {arm: f"{row.mean(arm):.1f}" for arm in ARMS if row.scores[arm]}
    if len(means) < len(ARMS):
        ((arm, score),) = means.items()
        return f"{title[:1].upper()}{title[1:]}: {score} {ARMS[arm]}; the other arm is missing."
    simple = row.best_baseline
    beyond = f"; the best without a network reaches {simple[0]:.1f}" if simple else ""
    if row is model.average:
        title = f"The {title}"
    return f"{title} goes from {means['scratch']} to {means['pretrained']} points{beyond}."


def meaning(model: ModelResults) -> str:
    """Return the meaning of the headline, and the gain over the published weights that pre-training
    started from, a sentence each.
    """
    row = model.main
    difference = row.difference if row else None
    if row is None or difference is None:
        return ""
    on_text = model.config is not None and not model.continued
    what = "Pre-training on this text" if on_text else "Pre-training"
    simple = row.best_baseline
    added = [_added(model, task) for task in model.tasks]
    needless = simple is not None and (row.mean("pretrained") or 0.0) <= simple[0]
    if simple and needless:
        added.insert(0, f"No network is needed: {simple[1]} is at least as good ({simple[0]:.1f}).")
    if not difference.counts:
        sentence = f"We cannot tell yet whether {what[:1].lower()}{what[1:]} helps."
    elif difference.verdict == "lower":
        sentence = f"{what} makes the network worse than fresh weights."
    elif simple and not needless:
        sentence = f"{what} pays: fresh weights and methods without a network stay below it."
    else:
        sentence = f"{what} helps."
    return " ".join(filter(None, (sentence, *added)))


def _added(model: ModelResults, row: Measured) -> str:
    """Return the gain of the pre-training over the published weights on a task."""
    before = model.before.get(row.name, ())
    difference = row.compare(row.scores["pretrained"], before)
    if difference is None:
        return ""
    published = f"the {mean(before):.1f} of the published weights on {row.title}"
    if not difference.counts:
        return f"We cannot tell yet whether this text adds to {published}."
    change = f"{abs(difference.points):.1f} points"
    if difference.verdict == "higher":
        return f"This text adds {change} to {published}."
    return f"This text takes {change} from {published}."


def moved(model: ModelResults) -> str:
    """Return how many tasks moved, and by how much."""
    differences = [row.difference for row in model.tasks if row.difference]
    parts = []
    for verdict, verb in (("higher", "lifts"), ("lower", "lowers")):
        points = sorted(abs(gap.points) for gap in differences if gap.verdict == verdict)
        if points:
            ends = " to ".join(dict.fromkeys(f"{point:.1f}" for point in (points[0], points[-1])))
            parts.append(
                f"{verb} {len(points)} of {pluralize(len(differences), 'task')} by {ends} points"
            )
    unknown = sum(not gap.counts for gap in differences)
    if unknown and parts:
        parts.append(f"{unknown} undecided")
    return f"Pre-training {'; '.join(parts)}" if parts else ""


def strengths(model: ModelResults) -> Iterator[str]:
    """Yield the strengths: tasks that moved, those above every baseline without a network, and the
    discriminator's detection rate.
    """
    if sentence := moved(model):
        yield f"{model.name}: {sentence}."
    above = [
        row.title
        for row in model.tasks
        if row.best_baseline
        and (row.mean("pretrained") or 0) > max(row.best_baseline[0], (row.chance or 0))
    ]
    if above:
        baselines = "chance, the majority, a bag of words and word overlap"
        yield f"{model.name}: above {baselines} on {', '.join(above)}."
    if auc := model.series("disc_auc"):
        ranks = "ranks a replaced token of held-out text above an original one"
        yield f"{model.name}: the discriminator {ranks} {100 * auc[1][-1]:.0f} times in 100."


def shortfalls(model: ModelResults) -> Iterator[str]:
    """Yield the reservations that a reader should have about this model's numbers."""
    recall = model.pretrain.get("disc_recall", 1.0)
    if recall < RECALL:
        precision = model.pretrain["disc_precision"]
        missed = f"misses {100 * (1 - recall):.0f} % of the replaced tokens of held-out text"
        wrong = f"{100 * (1 - precision):.0f} % of the tokens that it flags are original"
        yield f"{model.name}: the discriminator {missed}, {wrong}."
    for row in model.squad:
        some, none = (
            mean(row.pretrained.all.get(f"{has}_exact", ())) for has in ("HasAns", "NoAns")
        )
        if some is not None and none is not None and min(some, none) < ANSWERED:
            shares = (
                f"{100 - some:.0f} % of the questions that have an answer and {100 - none:.0f} %"
            )
            yield f"{model.name}: {row.title} is answered wrong on {shares} of the others."
    titles: dict[str, list[str]] = {}
    for row in (*model.tasks, *model.squad):
        kinds = [arm for arm in ARMS if _at_chance(row, arm)]
        if difference := row.difference:
            kinds.append(difference.verdict)
        if all((row.mean(arm) or 0) >= CEILING for arm in ARMS):
            kinds.append("ceiling")
        for kind in kinds:
            titles.setdefault(kind, []).append(row.title)
    for kind, sentence in TEXTS["shortfalls"].items():
        if kind in titles:
            yield f"{model.name}: {sentence} {', '.join(titles[kind])}."
    if weakness := model.pretrain.get("weakness"):
        yield f"{model.name}: {weakness}."


def _at_chance(row: Measured, arm: str) -> bool:
    """Return whether it is within two points of guessing: of one class in so many, or of no
    correlation.
    """
    middle = row.mean(arm)
    return middle is not None and row.name in GLUE and middle < chance_score(row.name) + CHANCE


def describe_budget(ablation: Ablation) -> str | None:
    """Return a sentence if the arms did not spend the same FLOPs."""
    if ablation.budget != "equal_flops":
        budget = ablation.budget.replace("_", " ").replace("own", "budgets of their own")
        return f"{ablation.title}: the arms have {budget}, not equal FLOPs."
    spent = [arm.flops for arm in ablation.arms if arm.flops]
    if not spent or max(spent) <= 1.02 * min(spent):
        return None
    ratio = max(spent) / min(spent)
    spread = f"largest / smallest = {ratio:.2f}"
    return f"{ablation.title}: the arms did not spend the same FLOPs ({spread})."


def all_shortfalls(inputs: Inputs) -> list[str]:
    """Return every sentence for “what fell short”."""
    result = list(itertools.chain(*map(shortfalls, inputs.models)))
    budgets = [describe_budget(ablation) for ablation in inputs.ablations]
    return result + [sentence for sentence in budgets if sentence]
