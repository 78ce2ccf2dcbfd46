"""A model's or ablation's result files to the few numbers that `dvc metrics show` and `diff` set side by side.

Only what params.yaml `run` selects has a summary, so that the table has no empty rows. Beside it go the checksums of
the complete result files: the report depends on these, since DVC cannot put a list of names into a stage's `deps`.
"""

from pathlib import Path
from typing import Any

from electra.files import as_written, read_json, sha256_file, write_atomic, write_json
from electra.storage.manifest import MANIFEST
from pipelines.config.params import Params

PRETRAINING = ("mlm_accuracy", "replaced_rate", "disc_auc", "disc_precision", "disc_recall", "flops")


def summarise(name: str, params: Params) -> None:
    """Write results/summary/NAME.json and build/selected/NAME."""
    if name in params.ablations:
        files = [Path("results/ablations") / f"{name}.json"]
        with as_written(files[0]):
            values = of_ablation(read_json(files[0]))
    else:
        params.require("models", name)
        files = [Path("results") / name / f"{stage}.json" for stage in ("pretrain", "glue", "squad")]
        with as_written(f"results/{name}/*.json"):
            values = of_model(*map(read_json, files))
        files.append(Path("results") / name / "pretrain.csv")
        files += [Path("build/models") / name / "examples.json"]
        files += [Path("build") / stage / name / MANIFEST for stage in ("glue", "squad")]  # covers every prediction
    write_json(Path("results/summary") / f"{name}.json", values)
    hashes = (f"{sha256_file(file) if file.is_file() else 'absent'}  {file}\n" for file in files)
    write_atomic(Path("build/selected") / name, "".join(hashes))


def of_model(pretrain: dict[str, Any], glue: dict[str, Any], squad: dict[str, Any]) -> dict[str, Any]:
    """Pre-training as it ended; mean scores over seeds of both arms, in points."""
    values: dict[str, Any] = {key: pretrain[key] for key in PRETRAINING if pretrain.get(key) is not None}
    for arm in ("pretrained", "scratch"):
        scores = {task: facts[arm]["mean"] for task, facts in glue["tasks"].items() if arm in facts}
        for version, facts in squad.get("versions", {}).items():
            if arm in facts:
                scores[f"squad{version}_f1"] = facts[arm]["f1"]["mean"]
        if arm in glue["average"]:
            scores["average"] = glue["average"][arm]["mean"]
        values[arm] = scores
    return values


def of_ablation(ablation: dict[str, Any]) -> dict[str, Any]:
    """The mean over tasks of each arm that was trained."""
    return {arm: facts["average"]["mean"] for arm, facts in ablation["arms"].items() if facts.get("average")}


def headline(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """The few numbers of one stage's results that a page begins with."""
    nothing: dict[str, Any] = {"tasks": {}, "average": {}}
    if stage == "ablation":
        return of_ablation(values)
    pretrain = values if stage == "pretrain" else {}
    return of_model(pretrain, values if stage == "glue" else nothing, values if stage == "squad" else {})
