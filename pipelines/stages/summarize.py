"""The numbers of a model or ablation, copied out of the folders in build/ to results/, which git
keeps.

    results/tiny/<stage>.json     results.json of the name's stages, and of all that they rest on
    results/curves/tiny.csv       the curve of pre-training, which `dvc plots show` draws
    results/summary/tiny.json     the few numbers that `dvc metrics show` and `diff` set side by side

Only what params.yaml `run` selects is copied, so that a table has no empty rows.
"""

from pathlib import Path
from typing import Any

from electra.files import as_written, read_json, write_atomic, write_json
from electra.storage.manifest import verify_manifest
from pipelines import again
from pipelines.config.params import Params
from pipelines.stages import CURVE, RESULTS, STAGES, ancestors

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
    """Pre-training as it ended; mean scores over seeds of both arms, in points."""
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
    """The mean over tasks of each arm that was trained."""
    return {
        arm: facts["average"]["mean"]
        for arm, facts in ablation["arms"].items()
        if facts.get("average")
    }


def headline(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """The few numbers of one stage's results that a page begins with."""
    nothing: dict[str, Any] = {"tasks": {}, "average": {}}
    if stage == "ablation":
        return of_ablation(values)
    pretrain = values if stage == "pretrain" else {}
    return of_model(
        pretrain, values if stage == "glue" else nothing, values if stage == "squad" else {}
    )
