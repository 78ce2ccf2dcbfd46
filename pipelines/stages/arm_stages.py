"""One arm of an ablation with one seed as a stage of its own, so that arms can run on as many machines as there are.

`python -m pipelines ablation table5 --only electra-seed1` does the one and leaves what it made as an out of DVC; the
ablation itself then finds it and does the rest. DVC's stages are written by code, since its templates know no grids:

    pipelines/arms/table5/dvc.yaml               arm@electra-seed1, ... with what the ablation's stage depends on
    build/arms/table5/electra-seed1/<run>/       the contents of runs/arm/<run>
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from electra.config import nearest, plain
from electra.errors import BadConfig, NonFinite
from electra.files import atomic_folder, link_or_copy, write_json
from electra.storage.run_dir import RUNS
from pipelines.config.params import Params
from pipelines.tracking import Tracker

OUTS = Path("build/arms")


def titles(name: str, params: Params) -> list[str]:
    """The arms of an ablation with each seed, as `--only` takes them."""
    seeds = range(1, params.ablations[name].seeds + 1)
    return [f"{arm}-seed{seed}" for seed in seeds for arm in params.ablations[name].settings]


def settings(name: str, only: str, params: Params) -> dict[str, Any]:
    """The settings of one; raises BadConfig where there is none of that name."""
    if only not in (known := titles(name, params)):
        raise BadConfig(f"ablations.{name}", f"has no {only!r}", f"one of {', '.join(known)}", nearest(only, known))
    arm, _, seed = only.rpartition("-seed")
    values: dict[str, Any] = plain(params.arm(name, arm))
    return values | {"seed": int(seed)}


def write_stages(folder: Path, name: str, some: Sequence[str]) -> str:
    """Have DVC know some arms of an ablation in a checkout; returns the file's name there, a target for `dvc repro`."""
    pipeline = YAML(typ="safe").load((folder / "pipelines" / "dvc.yaml").read_text(encoding="utf-8"))
    stage = pipeline["stages"]["ablation"]["do"]
    do: dict[str, Any] = {"wdir": "../../..", "cmd": f"python -m pipelines ablation {name} --only ${{item}}"}
    for key in ("deps", "params"):
        do[key] = [each.replace("${key}", name).replace("${item.", f"${{ablations.{name}.") for each in stage[key]]
    arm = {"foreach": list(some), "do": do | {"outs": [f"{OUTS}/{name}/${{item}}"]}}
    path = Path("pipelines") / "arms" / name / "dvc.yaml"
    write_json(folder / path, {"vars": ["../../../params.yaml"], "stages": {"arm": arm}})  # JSON is YAML
    return path.as_posix()


def run(name: str, only: str, params: Params, tracker: Tracker) -> None:
    """The stage. Raises NonFinite for an arm that fails, which an ablation that does it by itself notes and goes on."""
    from pipelines.stages import ablation
    from pipelines.stages.arms import END, try_one
    from pipelines.stages.pretrain import ModelRows

    config = params.ablations[name]
    rows = ModelRows(params, config.tokens, params.models[config.model].electra())
    (arm,) = (arm for arm in ablation.plan_arms(name, params, rows.tokenizer.vocab_size) if arm.title == only)
    result = try_one((arm, ablation.plan_tasks(name, params), params))
    if isinstance(result, str):
        raise NonFinite(f"ablations.{name}.arms.{arm.name}", f"with seed {arm.seed} failed: {result}")
    for record in result["history"]:
        tracker.metrics(record["step"], {f"valid/{key}": value for key, value in record.items() if key != "step"})
    scores = result["scores"][f"{END:g}"]
    tracker.summary({**scores, "average": statistics.fmean(scores.values())} if scores else {})
    with atomic_folder(OUTS / name / only) as out:
        _link(RUNS / "arm" / result["run"], out / result["run"])


def adopt() -> None:
    """Put the arms that ran as separate stages, for any ablation and on any machine, where ablations look for them."""
    for made in sorted(OUTS.glob("*/*/*/arm.json")):
        home = RUNS / "arm" / made.parent.name
        if not any(home.glob("[!.]*")):
            home.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(home) as folder:
                _link(made.parent, folder)


def _link(old: Path, new: Path) -> None:
    for file in sorted(path for path in old.rglob("*") if path.is_file() and path.name != ".lock"):
        path = new / file.relative_to(old)
        path.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(file, path)
