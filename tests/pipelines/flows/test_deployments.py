"""What `make deploy` registers: deployments of this project's params.yaml."""

import subprocess
import sys

import pytest
from prefect.events.schemas.automations import AutomationCore

from pipelines.config.params import load
from pipelines.config.settings_file import read
from pipelines.flows import deployments
from pipelines.flows.team import PART
from tests.conftest import ROOT, environment


@pytest.fixture(autouse=True)
def clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone's id is written where tests may write."""
    monkeypatch.setattr(deployments, "clone_tag", lambda: "clone:1")


def test_every_model_has_its_flows_on_the_queue_that_it_is_made_for() -> None:
    params = load(ROOT / "params.yaml")
    made = {
        f"{each.flow_name}/{each.name}": each
        for each in deployments.deployments(params, with_team=True)
    }
    for model in params.models:
        for flow in ("pretrain", "finetune", "workflow"):
            each = made[f"{flow}/electra-{model}"]
            assert each.work_pool_name == "electra" and each.parameters == {"model": model}
            assert each.work_queue_name == ("cpu" if model in {"tiny", "mini"} else "gpu")
            flow_tag, model_tag, clone_tag = each.tags
            assert (flow_tag, model_tag) == (f"flow:{flow}", f"model:{model}")
            assert clone_tag.startswith("clone:")
            assert (
                each.entrypoint == f"pipelines.flows.training.{flow}"
                and each.concurrency_limit == 4
            )
        team = made[f"team/electra-{model}"]
        assert team.work_pool_name == "electra-lead", (
            "what only waits takes no worker from its parts"
        )
        assert team.entrypoint == "pipelines.flows.team.team"
    ablations = {name for name in made if name.startswith("ablations/")}
    assert ablations == {
        f"ablations/electra-{each.base.model}" for each in params.ablations.values()
    }
    assert made[PART].work_pool_name == "electra" and made[PART].enforce_parameter_schema
    assert len(made) == 4 * len(params.models) + len(ablations) + 1


def test_a_single_machine_gets_only_what_its_worker_can_run() -> None:
    made = [*deployments.deployments(load(ROOT / "params.yaml"), with_team=False)]
    assert {each.work_pool_name for each in made} == {"electra"}
    assert PART not in {f"{each.flow_name}/{each.name}" for each in made}


def test_the_automations_are_prefects() -> None:
    files = list((ROOT / "deploy" / "automations").glob("*.yaml"))
    assert (
        {AutomationCore.model_validate(read(file)).name for file in files}
        == {file.stem for file in files}
        != set()
    )


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_a_sentence() -> None:
    values = environment(
        ROOT, PREFECT_API_URL="http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES="0"
    )
    command = [sys.executable, "-m", "pipelines.flows.deployments"]
    done = subprocess.run(
        command, env=values, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 69 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(
        "error: http://127.0.0.1:9/api: no Prefect server answers; start it"
    )
