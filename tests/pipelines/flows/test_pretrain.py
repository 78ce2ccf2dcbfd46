"""Pre-training as a flow: the page that it leaves, and machines that meet."""

from typing import Any

import pytest

from electra.errors import BadConfig
from tests.pipelines.flows.conftest import Dvc, artifacts


@pytest.mark.slow
def test_pretrain_checks_runs_and_leaves_a_page(dvc: Dvc) -> None:
    from pipelines.flows.pretrain import pretrain

    assert pretrain("smoke", nproc_per_node=2) == "ran"
    assert dvc.calls == [("pretrain@smoke", False)]
    assert dvc.processes == [{"PET_NPROC_PER_NODE": "2"}]
    pages = artifacts()
    assert "results/smoke/pretrain.json" in pages["pretrain-smoke"]
    assert "tasks.cola.mean" in pages["pretrain-smoke-numbers"]
    lines = pages["pretrain-smoke"].splitlines()
    assert lines[0].startswith("# pretrain@smoke: ") and lines[4] == "| mlm_accuracy | 0.625 |", (
        "the headline comes first"
    )


@pytest.mark.slow
def test_several_machines_meet_and_one_of_them_asks_dvc(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows import steps
    from pipelines.flows.pretrain import pretrain

    joined: list[tuple[str, str, Any]] = []
    monkeypatch.setattr(steps, "join", lambda *words, **_: joined.append((*words[:2], words[2].variables)))
    where = {"nproc_per_node": 8, "nnodes": 2, "rdzv_endpoint": "node1:29400", "max_restarts": 3}
    assert pretrain("smoke", **where) == "ran"
    assert pretrain("smoke", **where, joins=True) == "joined"
    variables = {
        "PET_NPROC_PER_NODE": "8",
        "PET_NNODES": "2",
        "PET_RDZV_ENDPOINT": "node1:29400",
        "PET_MAX_RESTARTS": "3",
    }
    assert dvc.processes == [variables] and joined == [("pretrain", "smoke", variables)]
    assert dvc.calls == [("pretrain@smoke", False)]
    with pytest.raises(BadConfig, match="rdzv-endpoint"):
        pretrain("smoke", nnodes=2)
