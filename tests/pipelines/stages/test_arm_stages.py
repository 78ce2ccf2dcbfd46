"""Arms as stages of their own: names, what DVC is told, how an ablation finds them (test_workspace.py runs some)."""

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from electra.errors import BadConfig
from pipelines.config.params import load
from pipelines.stages import arm_stages
from tests.conftest import ROOT


def test_an_arm_and_seed_has_a_name_and_settings() -> None:
    params = load(ROOT / "params.yaml")
    known = arm_stages.titles("generator_size", params)
    ablation = params.ablations["generator_size"]
    assert len(known) == len(set(known)) == len(ablation.settings) * ablation.seeds
    assert arm_stages.settings("generator_size", known[-1], params)["seed"] == ablation.seeds
    with pytest.raises(BadConfig, match="generator_size: has no 'other-seed1'"):
        arm_stages.settings("generator_size", "other-seed1", params)


def test_dvc_is_told_of_an_arm_what_its_ablation_depends_on(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    shutil.copy(ROOT / "pipelines" / "dvc.yaml", tmp_path / "pipelines")
    name = arm_stages.write_stages(tmp_path, "table5", ["a-seed1", "b-seed1"])
    assert name == "pipelines/arms/table5/dvc.yaml"
    arm = YAML(typ="safe").load((tmp_path / name).read_text())["stages"]["arm"]
    whole = YAML(typ="safe").load((ROOT / "pipelines" / "dvc.yaml").read_text())["stages"]["ablation"]["do"]
    assert arm["foreach"] == ["a-seed1", "b-seed1"] and len(arm["do"]["deps"]) == len(whole["deps"])
    assert "ablations.table5" in arm["do"]["params"]
    assert "build/tokens/${ablations.table5.base.tokens}" in arm["do"]["deps"]
    assert (tmp_path / name).parent / arm["do"]["wdir"] == tmp_path / "pipelines/arms/table5/../../.."
    assert arm["do"]["outs"] == ["build/arms/table5/${item}"]
    assert arm["do"]["cmd"] == "python -m pipelines ablation table5 --only ${item}"


def test_an_ablation_finds_what_others_have_made_and_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arm, run in (("a-seed1", "1a2b3c4d"), ("b-seed1", "5e6f7a8b")):
        made = Path("build/arms/x-or-another") / arm / run
        (made / "point-1").mkdir(parents=True)
        (made / "arm.json").write_text(arm)
        (made / "point-1/model.safetensors").write_text("weights")
    own = Path("runs/arm/5e6f7a8b")
    own.mkdir(parents=True)
    (own / "arm.json").write_text("its own")
    for _ in range(2):
        arm_stages.adopt()
    assert Path("runs/arm/1a2b3c4d/point-1/model.safetensors").read_text() == "weights"
    assert (own / "arm.json").read_text() == "its own" and len(list(own.iterdir())) == 1
