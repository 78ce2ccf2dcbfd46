"""The numbers of a model or ablation, copied out of the folders in build/ to results/, which git
keeps.

    results/tiny/<stage>.json     results.json of the name's stages, and of all that they rest on
    results/curves/tiny.csv       the curve of pre-training, which `dvc plots show` draws
    results/summary/tiny.json     the few numbers that `dvc metrics show` and `diff` set side by side

Only what params.yaml `run` selects is copied, so that a table has no empty rows.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.files import as_written, read_json, write_atomic, write_json
from electra.finetuning.tasks import SQUAD
from electra.storage.manifest import CARD, verify_manifest
from pipelines import again
from pipelines.config.params import Params
from pipelines.stages import CURVE, RESULTS, STAGES, ancestors
from pipelines.tracking import NOTE, leaves

WITH_SCORES = ("pretrain", "glue", "squad", "ablation")

PRETRAINING = (
    "mlm_accuracy",
    "replaced_rate",
    "disc_auc",
    "disc_precision",
    "disc_recall",
    "flops",
)


def summarize(name: str, params: Params) -> None:
    """Write the files of a name in results/."""
    results = Path("results")
    target = results / name
    if name in params.ablations:
        keys = [f"ablation@{name}"]
    else:
        params.require("models", name)
        keys = [f"glue@{name}", f"squad@{name}"]
    for key in keys[:]:
        keys += ancestors(key, params)
    for key in dict.fromkeys(keys):
        stage, _, of = key.partition("@")
        source = STAGES[stage].results(of)
        files = [RESULTS, CURVE] if stage == "pretrain" else [RESULTS]
        verify_manifest(source.parent, only=files, do=again(stage, of), name=of)
        write_json(target / f"{stage}.json", read_json(source))
        if stage == "pretrain":
            write_atomic(results / "curves" / f"{name}.csv", source.with_name(CURVE).read_bytes())
    with as_written(f"{target}/*.json"):
        if name in params.ablations:
            values = of_ablation(read_json(target / "ablation.json"))
        else:
            values = of_model(
                *(read_json(target / f"{stage}.json") for stage in ("pretrain", "glue", "squad"))
            )
    write_json(results / "summary" / f"{name}.json", values)


def of_model(
    pretrain: dict[str, Any], glue: dict[str, Any], squad: dict[str, Any]
) -> dict[str, Any]:
    """Return pre-training as it ended, and mean scores over seeds of both arms, in points."""
    values: dict[str, Any] = {
        key: pretrain[key] for key in PRETRAINING if pretrain.get(key) is not None
    }
    for arm in ("pretrained", "scratch"):
        scores = {task: facts[arm]["mean"] for task, facts in glue["tasks"].items() if arm in facts}
        for version, facts in squad.get("versions", {}).items():
            if arm in facts:
                scores[f"squad{version}_f1"] = facts[arm]["mean"]
        if arm in glue["average"]:
            scores["average"] = glue["average"][arm]["mean"]
        values[arm] = scores
    return values


def of_ablation(ablation: dict[str, Any]) -> dict[str, Any]:
    """Return the mean over tasks of each arm that was trained."""
    return {
        arm: facts["average"]["mean"]
        for arm, facts in ablation["arms"].items()
        if facts.get("average")
    }


def task_numbers(facts: dict[str, Any]) -> dict[str, float]:
    """Return a task's numbers by names that sort: `matthews/pretrained`, `matthews/pretrained_sd`,
    and its baselines next to them, `matthews/chance`.
    """
    numbers = {
        f"{facts['metric']}/{name}": score for name, score in facts.get("baselines", {}).items()
    }
    for arm in ("pretrained", "scratch"):
        for metric, scores in facts.get(arm, {}).get("all", {}).items():
            numbers |= spread(f"{metric}/{arm}", scores)
    return numbers


def arm_numbers(facts: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of an ablation's arm: its tasks and their mean, over seeds."""
    numbers = spread("average", facts["average"]["scores"])
    for task, scores in facts["glue"].items():
        numbers |= spread(task, scores)
    return numbers


def spread(name: str, scores: Sequence[float]) -> dict[str, float]:
    """Return the mean over seeds and, of several, the standard deviation."""
    numbers = {name: statistics.fmean(scores)}
    if len(scores) > 1:
        numbers[f"{name}_sd"] = statistics.stdev(scores)
    return numbers


def stage_numbers(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a stage's results for its run in MLflow: `cola/matthews/pretrained`."""
    if stage == "ablation":
        return {
            arm: arm_numbers(facts) for arm, facts in values["arms"].items() if facts.get("average")
        }
    if stage == "pretrain":
        return values
    tasks = values.get("tasks") or values.get("versions", {})
    numbers: dict[str, Any] = {
        SQUAD.get(task, task): task_numbers(facts) for task, facts in tasks.items()
    }
    for arm in ("pretrained", "scratch"):
        if arm in values.get("average", {}):
            numbers |= spread(f"average/{arm}", values["average"][arm]["scores"])
    return numbers


def record_results(stage: str, name: str, tracker: Any) -> None:
    """Record what a stage with scores has left: its numbers, a few of them as the run's note, its
    results file, and the cards of its models.
    """
    path = STAGES[stage].results(name)
    if stage not in WITH_SCORES or not path.is_file():
        return
    values = read_json(path)
    tracker.summary(stage_numbers(stage, values))
    shown = dict(leaves(headline(stage, values), "/"))
    shown = {key: shown[key] for key in sorted(shown, key=lambda key: "average" not in key)[:4]}
    note = "; ".join(f"{key} {value:.4g}" for key, value in shown.items())
    tracker.tags({NOTE: f"{values.get('label', '')}: {note}"})
    tracker.artifact(path)
    for card in sorted(path.parent.glob(f"**/{CARD}")):
        tracker.artifact(card, f"cards/{card.parent.relative_to(path.parent)}")


def headline(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the few numbers of one stage's results that a page begins with."""
    nothing: dict[str, Any] = {"tasks": {}, "average": {}}
    if stage == "ablation":
        return of_ablation(values)
    pretrain = values if stage == "pretrain" else {}
    return of_model(
        pretrain, values if stage == "glue" else nothing, values if stage == "squad" else {}
    )
