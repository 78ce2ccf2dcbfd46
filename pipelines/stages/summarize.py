"""The numbers of a model or ablation, copied out of the folders in build/ to results/, which git
keeps.

    results/tiny/<stage>.json     results.json of the name's stages, and of all that they need
    results/curves/tiny.csv       the curve of pre-training, which `dvc plots show` draws
    results/summary/tiny.json     the few numbers that `dvc metrics show` and `diff` compare

`dvc repro` copies the entries that `run` in params.yaml selects; `electra report NAME` copies any
fine-tuning, as far as its stages have run.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.config import leaves
from electra.files import read_json, well_formed, write_atomic, write_json
from electra.finetuning.tasks import SQUAD
from electra.storage.manifest import CARD, verify_manifest
from pipelines import rebuild_advice
from pipelines.config.params import Params
from pipelines.finetuning_runs.summary import ARMS
from pipelines.report.load_results import BEFORE
from pipelines.stages import CURVE, RESULTS, STAGES, ancestors
from pipelines.tracking import NOTE

WITH_SCORES = ("pretrain", "glue", "squad", "ablation")

PRETRAINING = "mlm_accuracy", "replaced_rate", "disc_auc", "disc_precision", "disc_recall", "flops"
Values = dict[str, Any]


def summarize(name: str, params: Params) -> None:
    """Write the files of a name in results/."""
    results = Path("results")
    before = ""
    if name in params.ablations:
        keys = [f"ablation@{name}"]
    else:
        params.require("finetunings", name)
        keys = [f"glue@{name}"]
        if STAGES["squad"].results(name).is_file():
            keys.append(f"squad@{name}")
        before = find_before(name, params)
    copied: dict[str, Values] = {}
    for key in dict.fromkeys((*keys, *ancestors(keys[0], params))):
        stage, _, entry = key.partition("@")
        if stage == "published":
            continue
        copied[stage] = _copy(stage, entry, results / name / f"{stage}.json")
        if stage == "pretrain":
            curve = STAGES[stage].results(entry).with_name(CURVE).read_bytes()
            write_atomic(results / "curves" / f"{name}.csv", curve)
    with well_formed(f"{results / name}/*.json"):
        values = headline(copied)
    if before and STAGES["glue"].results(before).is_file():
        _copy("glue", before, results / name / BEFORE)
    write_json(results / "summary" / f"{name}.json", values)


def _copy(stage: str, name: str, target: Path) -> Values:
    """Copy the numbers of a stage's verified folder, and return them."""
    source = STAGES[stage].results(name)
    files = [RESULTS, CURVE] if stage == "pretrain" else [RESULTS]
    verify_manifest(source.parent, only=files, do=rebuild_advice(stage, name), name=name)
    values: Values = read_json(source)
    write_json(target, values)
    return values


def find_before(name: str, params: Params) -> str:
    """Return the fine-tuning of the published weights that a model's pre-training starts from, with
    otherwise equal settings; "" if there is none.
    """
    config = params.finetunings[name]
    model = params.models.get(config.model)
    if model is None or not model.pretrain.init_from:
        return ""
    folder = Path(model.pretrain.init_from) / "discriminator"
    for other, settings in params.finetunings.items():
        published = params.published.get(settings.model)
        alike = (settings.tasks, settings.recipe) == (config.tasks, config.recipe)
        if published and alike and Path(published.folder) == folder:
            return other
    return ""


def headline(stages: dict[str, Values]) -> Values:
    """Return the few numbers of these stages' results that a page begins with. For an ablation, the
    mean over tasks of each trained arm. For a model, the final numbers of pre-training, and mean
    scores over seeds of both arms, in points.
    """
    if "ablation" in stages:
        arms = stages["ablation"]["arms"]
        return {arm: of["average"]["mean"] for arm, of in arms.items() if of.get("average")}
    pretrain = stages.get("pretrain", {})
    values = {key: pretrain[key] for key in PRETRAINING if pretrain.get(key) is not None}
    glue = stages.get("glue", {"tasks": {}, "average": {}})
    facts = dict(glue["tasks"])
    for version, of_version in stages.get("squad", {}).get("versions", {}).items():
        facts[f"squad{version}_f1"] = of_version
    facts["average"] = glue["average"]
    for arm in ARMS:
        values[arm] = {key: score[arm]["mean"] for key, score in facts.items() if arm in score}
    return values


def task_numbers(facts: dict[str, Any]) -> dict[str, float]:
    """Return a task's numbers by names that sort: `matthews/pretrained`, `matthews/pretrained_sd`,
    and its baselines next to them, `matthews/chance`.
    """
    numbers = {
        f"{facts['metric']}/{name}": score for name, score in facts.get("baselines", {}).items()
    }
    for arm in ARMS:
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
    for arm in ARMS:
        if arm in values.get("average", {}):
            numbers |= spread(f"average/{arm}", values["average"][arm]["scores"])
    return numbers


def record_results(stage: str, name: str, tracker: Any) -> None:
    """Record the outputs of a stage with scores: its numbers, a few of them as the run's note, its
    results file, and the cards of its models.
    """
    if stage not in WITH_SCORES:
        return
    from pipelines.stages.cards import with_run  # imports torch, as stages with scores have

    path = STAGES[stage].results(name)
    values = read_json(path)
    tracker.summary(stage_numbers(stage, values))
    numbers = dict(leaves(headline({stage: values}), "/"))
    # an arm without scores is an empty section
    first = sorted(filter(numbers.get, numbers), key=lambda key: "average" not in key)
    note = "; ".join(f"{key} {numbers[key]:.4g}" for key in first[:4])
    tracker.tags({NOTE: f"{values.get('label', '')}: {note}"})
    tracker.artifact(path)
    for card in sorted(path.parent.glob(f"**/{CARD}")):
        folder = f"cards/{card.parent.relative_to(path.parent)}"
        copy = Path("runs") / f"{stage}-{name}" / folder / CARD
        write_atomic(copy, with_run(card))
        tracker.artifact(copy, folder)
