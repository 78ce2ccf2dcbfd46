"""The whole road of a model."""

import pytest

from electra.errors import SourceUnreachable
from tests.pipelines.flows.conftest import Dvc, artifacts


@pytest.mark.slow
def test_a_source_out_of_reach_ends_the_flow_before_dvc(dvc: Dvc) -> None:
    from pipelines.flows.workflow import workflow

    with pytest.raises((SourceUnreachable, Exception), match=r"nowhere/\*\.jsonl"):
        workflow("base")
    assert dvc.calls == []


@pytest.mark.slow
def test_the_workflow_is_the_whole_road_of_a_model(dvc: Dvc) -> None:
    from pipelines.flows.workflow import workflow

    done = workflow("smoke")
    assert [name for name, _ in dvc.calls] == [
        *("pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b", "report"),
    ]
    assert set(done.values()) == {"ran"}
    pages = artifacts()
    first = {key: pages[key].splitlines()[4] for key in ("glue-smoke", "ablation-a")}
    assert first == {"glue-smoke": "| pretrained.average | 91.25 |", "ablation-a": "| one | 90.5 |"}
