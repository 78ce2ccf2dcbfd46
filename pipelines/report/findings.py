"""What may be said of the results, as sentences: what stands, what fell short, which of the paper's orders came out.

No sentence here calls a difference inside the noise a win; `comparison.py` has the rule.
"""

from collections.abc import Sequence

from electra.finetuning.runs.summary import sd
from electra.finetuning.tasks import GLUE
from pipelines.report.ablation_records import Ablation
from pipelines.report.claims import size
from pipelines.report.comparison import difference, mean
from pipelines.report.inputs import (
    ARM_TITLES,
    ARMS,
    Inputs,
    Measured,
    ModelResults,
    held_out,
)
from pipelines.report.table import signed

MEAN_WANTED, SQUAD_WANTED, TASK_WANTED = 38.0, 25.0, 20.0  # points over scratch
SDS_WANTED = 3.0
CEILING, CHANCE = 99.0, 2.0
COLLAPSE_AUC = 0.55
SIMPLE = ("chance", "majority", "bag_of_words", "word_overlap")  # what needs no network


def spread(scores: Sequence[float]) -> str:
    """71.2 ± 0.6, or 71.2 from one seed, or – from none."""
    middle, width = mean(scores), sd(scores)
    if middle is None:
        return "no score"
    return f"{middle:.1f}" if width is None else f"{middle:.1f} ± {width:.1f}"


def headline(model: ModelResults, *, named: bool = False) -> str:
    """How many tasks moved, by how much, and the mean; `named` puts the model's name in front."""
    sentence = _headline(model)
    return f"{model.name}: {sentence[0].lower()}{sentence[1:]}" if named else sentence


def _headline(model: ModelResults) -> str:
    if model.average is None or not any(model.average.scores.values()):
        return "No fine-tuning results yet."
    scores = model.average.scores
    title = _labelled(model.average.title, model)
    if not all(scores.values()):
        arm = "pretrained" if scores["pretrained"] else "scratch"
        return f"{title[:1].upper()}{title[1:]}: {spread(scores[arm])} {ARM_TITLES[arm]}; the other arm is missing."
    found = [difference(task.scores["pretrained"], task.scores["scratch"]) for task in model.tasks]
    said = []
    for verdict, verb in (("higher", "lifts"), ("lower", "lowers")):
        points = sorted(abs(each.points) for each in found if each and each.verdict == verdict)
        if points or verdict == "higher":
            by = (
                f" by {' to '.join(dict.fromkeys(f'{end:.1f}' for end in (points[0], points[-1])))} points"
                if points
                else ""
            )
            tasks = f"{len(points) or 'none'} of {len(found)} tasks" if len(found) > 1 else "its one task"
            does = "does not lift" if len(found) == 1 and not points else verb
            said.append(f"{does} {tasks} beyond the noise{by}")
    claimed = f"Pre-training {' and '.join(said)}"
    if all(each and each.verdict == "one seed" for each in found):
        claimed = "One fine-tuning an arm, so the spread is unknown and no difference is claimed"
    text = (
        f"{claimed}. The {title} goes from {spread(scores['scratch'])} from scratch to {spread(scores['pretrained'])}"
    )
    for row in (
        row for rows in model.squad.values() for row in rows if row.metric == "f1" and all(row.scores.values())
    ):
        never = f" (never answering: {row.ground['chance']:.1f})" if "chance" in row.ground else ""
        text += (
            f", {row.title} F1 from {mean(row.scores['scratch']):.1f} to {mean(row.scores['pretrained']):.1f}{never}"
        )
    return f"{text}."


def _labelled(title: str, model: ModelResults) -> str:
    return title if model.data in title else f"{title} ({model.data})"


def goals(model: ModelResults) -> list[tuple[bool, str]]:
    """The marks that the sample world is designed to: (met, sentence)."""
    if not model.sample:
        return []
    squad = [row for row in model.squad.get("2.0", ()) if row.metric == "f1"]
    wanted = [(model.average, MEAN_WANTED), *((row, SQUAD_WANTED) for row in squad)]
    result = []
    for row, points in (*wanted, *((task, TASK_WANTED) for task in model.tasks)):
        if row is None or (found := difference(row.scores["pretrained"], row.scores["scratch"])) is None:
            continue
        met = found.points >= points and (found.sds or 0) >= SDS_WANTED and found.counts
        name = "mean of the tasks" if row is model.average else _name(row)
        mark = f"{points:g} points, {SDS_WANTED:g} standard deviations and a 95 % interval above zero"
        met_or_not = f"{'reaches' if met else 'misses'} the mark ({mark})"
        interval = "" if found.low is None or found.high is None else f", {signed(found.low)} to {signed(found.high)}"
        told = f"pre-trained minus from scratch is {size(found)}{interval}; that {met_or_not}."
        result.append((met, f"{model.name}, {name}: {told}"))
    return result


def learnt(model: ModelResults) -> list[str]:
    """What stands: marks reached, and what the discriminator has learnt."""
    found = goals(model)
    met = sum(reached for reached, _ in found)
    result = [f"{model.name}: {met} of {len(found)} marks set for the sample world are reached."] if found else []
    simple = [(row, [row.ground[name] for name in SIMPLE if name in row.ground]) for row in model.tasks]
    above = [row.title for row, of in simple if of and (mean(row.scores["pretrained"]) or 0) > max(of)]
    if above:
        result.append(
            f"{model.name}: above chance, the majority, a bag of words and word overlap on {', '.join(above)}."
        )
    auc, recall = held_out(model.curve, "disc_auc"), held_out(model.curve, "disc_recall")
    if auc and recall:
        result.append(
            f"{model.name}: the discriminator ranks a replaced token above an original one {100 * auc[1][-1]:.0f} "
            f"times in 100, and finds {100 * recall[1][-1]:.0f} % of the replaced ones, on held-out text."
        )
    return result


def shortfalls(model: ModelResults) -> list[str]:
    """What a reader should hold against this model's numbers."""
    result = [sentence for met, sentence in goals(model) if not met]
    everything = [*model.tasks, *(row for metrics in model.squad.values() for row in metrics)]
    by_verdict: dict[str, list[str]] = {}
    for row in everything:
        if found := difference(row.scores["pretrained"], row.scores["scratch"]):
            by_verdict.setdefault(found.verdict, []).append(_name(row))
    at_chance = {arm: [row.title for row in model.tasks if _at_chance(row, arm)] for arm in ARMS}
    for names, sentence in (
        (by_verdict.get("lower"), "pre-training made it worse on"),
        (by_verdict.get("noise"), "no difference that stands out of the noise on"),
        (by_verdict.get("one seed"), "one seed an arm, so no claim, on"),
        (by_verdict.get("no spread"), "every seed of an arm scores the same, so there is no spread to judge by, on"),
        (at_chance["pretrained"], "the pre-trained arm is at chance on"),
        (at_chance["scratch"], "the arm from scratch is at chance on"),
        (
            [_name(row) for row in everything if _full(row)],
            "both arms are at the ceiling, which cannot tell them apart, on",
        ),
    ):
        if names:
            result.append(f"{model.name}: {sentence} {', '.join(names)}.")
    return result + _discriminator(model)


def _at_chance(row: Measured, arm: str) -> bool:
    """Within two points of guessing: of one class in so many, or of no correlation."""
    middle = mean(row.scores[arm])
    if middle is None or row.name not in GLUE:
        return False
    guessing = 100 / len(GLUE[row.name].labels) if row.metric == "accuracy" else 0.0
    return middle < guessing + CHANCE


def _full(row: Measured) -> bool:
    return all((mean(scores) or 0) >= CEILING for scores in row.scores.values())


def _name(row: Measured) -> str:
    return f"{row.title} {row.metric_title}" if row.name.startswith("squad") else row.title


def _discriminator(model: ModelResults) -> list[str]:
    auc, recall = held_out(model.curve, "disc_auc"), held_out(model.curve, "disc_recall")
    result = []
    if auc and auc[1][-1] < COLLAPSE_AUC:
        result.append(f"{model.name}: the discriminator ended at AUC {auc[1][-1]:.2f}, close to guessing.")
    if recall and recall[1][-1] == 0:
        result.append(f"{model.name}: the discriminator ended calling every token original (recall 0).")
    return result


def unequal(ablation: Ablation) -> str | None:
    """A sentence if the arms did not spend the same FLOPs."""
    if ablation.budget != "equal_flops":
        budget = ablation.budget.replace("_", " ").replace("own", "their own")
        return f"{ablation.title}: the arms have {budget}, not equal FLOPs."
    spent = [arm.flops for arm in ablation.arms if arm.flops and not arm.failed]
    if not spent or max(spent) <= 1.02 * min(spent):
        return None
    return (
        f"{ablation.title}: the arms did not spend the same FLOPs (largest / smallest = {max(spent) / min(spent):.2f})."
    )


def all_shortfalls(inputs: Inputs) -> list[str]:
    """Every sentence that belongs under “what fell short”."""
    result = [sentence for model in inputs.models for sentence in shortfalls(model)]
    result += [sentence for ablation in inputs.ablations if (sentence := unequal(ablation))]
    return result


def headline_numbers(inputs: Inputs) -> dict[str, float]:
    """The numbers that go to the tracker."""
    numbers = {}
    for model in inputs.models:
        rows = [*([model.average] if model.average else []), *(r for rows in model.squad.values() for r in rows)]
        for row in rows:
            key = f"{model.name}/{row.name.replace(' ', '_')}" + (f"_{row.metric}" if row.metric else "")
            found = difference(row.scores["pretrained"], row.scores["scratch"])
            for arm, scores in row.scores.items():
                if scores:
                    numbers[f"{key}/{arm}"] = sum(scores) / len(scores)
            if found:
                numbers[f"{key}/difference"] = found.points
    return numbers
