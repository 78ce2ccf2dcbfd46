"""Arms as stages of their own: their names (test_workspace.py runs some)."""

import pytest

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
