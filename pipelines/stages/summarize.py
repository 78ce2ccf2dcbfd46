"""The numbers of a model or ablation, copied out of the folders in build/ to results/, which git
keeps.

    results/tiny/<stage>.json     results.json of the name's stages, and of all that they rest on
    results/curves/tiny.csv       the curve of pre-training, which `dvc plots show` draws
    results/summary/tiny.json     the few numbers that `dvc metrics show` and `diff` compare

Only what params.yaml `run` selects is copied, so that a table has no empty rows.
"""

from pathlib import Path
from typing import Any

from electra.files import as_written, read_json, write_atomic, write_json
from electra.storage.manifest import verify_manifest
from pipelines import again
from pipelines.config.params import Params
from pipelines.stages import CURVE, RESULTS, STAGES, ancestors

PRETRAINING = "mlm_accuracy", "replaced_rate", "disc_auc", "disc_precision", "disc_recall", "flops"
Values = dict[str, Any]


def summarize(name: str, params: Params) -> None:
    """Write the files of a name in results/."""
    results = Path("results")
    if name in params.ablations:
        keys = [f"ablation@{name}"]
    else:
        params.require("models", name)
        keys = [f"glue@{name}", f"squad@{name}"]
    copied: dict[str, Values] = {}
    for key in dict.fromkeys((*keys, *ancestors(keys[0], params))):
        stage, _, entry = key.partition("@")
        source = STAGES[stage].results(entry)
        files = [RESULTS, CURVE] if stage == "pretrain" else [RESULTS]
        verify_manifest(source.parent, only=files, do=again(stage, entry), name=entry)
        copied[stage] = read_json(source)
        write_json(results / name / f"{stage}.json", copied[stage])
        if stage == "pretrain":
            curve = source.with_name(CURVE).read_bytes()
            write_atomic(results / "curves" / f"{name}.csv", curve)
    with as_written(f"{results / name}/*.json"):
        if name in params.ablations:
            values = summarize_ablation(copied["ablation"])
        else:
            values = summarize_model(copied["pretrain"], copied["glue"], copied["squad"])
    write_json(results / "summary" / f"{name}.json", values)


def summarize_model(pretrain: Values, glue: Values, squad: Values) -> Values:
    """Return pre-training as it ended, and mean scores over seeds of both arms, in points."""
    values = {key: pretrain[key] for key in PRETRAINING if pretrain.get(key) is not None}
    for arm in ("pretrained", "scratch"):
        facts = dict(glue["tasks"])
        for version, of_version in squad.get("versions", {}).items():
            facts[f"squad{version}_f1"] = of_version
        facts["average"] = glue["average"]
        values[arm] = {key: score[arm]["mean"] for key, score in facts.items() if arm in score}
    return values


def summarize_ablation(ablation: Values) -> Values:
    """Return the mean over tasks of each arm that was trained."""
    return {
        arm: facts["average"]["mean"]
        for arm, facts in ablation["arms"].items()
        if facts.get("average")
    }


def headline(stage: str, values: Values) -> Values:
    """Return the few numbers of one stage's results that a page begins with."""
    if stage == "ablation":
        return summarize_ablation(values)
    parts: Values = {"pretrain": {}, "glue": {"tasks": {}, "average": {}}, "squad": {}}
    parts[stage] = values
    return summarize_model(parts["pretrain"], parts["glue"], parts["squad"])
