"""Ablations share what they read from, and then run alone."""

import pytest

from electra.errors import BadConfig
from tests.pipelines.flows.conftest import Dvc


@pytest.mark.slow
def test_ablations_share_their_ancestors_and_then_run_alone(dvc: Dvc) -> None:
    from pipelines.flows import steps
    from pipelines.flows.ablations import ablations

    assert ablations("smoke") == {"a": "ran", "b": "ran"}
    assert dvc.calls[:2] == [("tokens@smoke", False), ("tasks@smoke", False)]
    assert sorted(dvc.calls[2:]) == [("ablation@a", True), ("ablation@b", True)]
    with pytest.raises(BadConfig, match="none of the model"):
        steps.ablations_of("base", {"ablations": {"a": {"model": "smoke"}}})
