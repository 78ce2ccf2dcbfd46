"""The deployments that `make deploy` registers from this project's params.yaml."""

import contextlib
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound

from pipelines.config.params import load
from pipelines.config.settings_file import read
from pipelines.flows import deployments
from pipelines.flows.team import PART
from tests.conftest import ROOT, run


@pytest.fixture(autouse=True)
def clone(monkeypatch):
    """A clone's id is written where tests may write."""
    monkeypatch.setattr(deployments, "clone_tag", lambda: "clone:1")


def test_every_model_has_its_flows_on_the_queue_that_it_is_made_for():
    params = load(ROOT / "params.yaml")
    planned = {
        str(deployment.full_name): deployment
        for deployment in deployments.deployments(params, with_team=True)
    }
    for model in params.models:
        for flow in ("pretrain", "finetune", "workflow"):
            deployment = planned[f"{flow}/electra-{model}"]
            assert deployment.work_pool_name == "electra" and deployment.concurrency_limit == 4
            assert deployment.parameters == {"model": model}
            assert deployment.work_queue_name == ("cpu" if model in {"tiny", "mini"} else "gpu")
            assert deployment.tags == [f"flow:{flow}", f"model:{model}", "clone:1"]
            assert deployment.entrypoint == f"pipelines.flows.training.{flow}"
        team = planned[f"team/electra-{model}"]
        assert team.work_pool_name == "electra-lead", (
            "what only waits takes no worker from its parts"
        )
        assert team.entrypoint == "pipelines.flows.team.team"
    ablations = {name for name in planned if name.startswith("ablations/")}
    models = {ablation.base.model for ablation in params.ablations.values()}
    assert ablations == {f"ablations/electra-{model}" for model in models}
    assert planned[PART].work_pool_name == "electra" and planned[PART].enforce_parameter_schema
    assert len(planned) == 4 * len(params.models) + len(ablations) + 1


def test_a_single_machine_gets_only_what_its_worker_can_run():
    planned = [*deployments.deployments(load(ROOT / "params.yaml"), with_team=False)]
    assert {deployment.work_pool_name for deployment in planned} == {"electra"}
    assert PART not in {deployment.full_name for deployment in planned}


@pytest.mark.parametrize(
    "known, kept",
    [
        ({}, ""),
        ({"paused": True, "parameters": {"model": "tiny", "hours": 3}}, " (kept: paused, hours=3)"),
        (
            {
                "schedules": [
                    SimpleNamespace(slug=None, id=7),
                    SimpleNamespace(slug="nightly", id=8),
                ]
            },
            " (kept: schedule 7, schedule nightly)",
        ),
        ({"tags": ["mine", "clone:2"]}, " (kept: tag mine)"),
    ],
)
def test_what_a_user_has_set_is_kept_and_named(known, kept):
    planned, *_ = deployments.deployments(load(ROOT / "params.yaml"), with_team=False)
    values = {"paused": False, "parameters": planned.parameters, "tags": [], "schedules": []}
    known = SimpleNamespace(**values | known, id="1")
    updates = []
    client = SimpleNamespace(
        read_deployment_by_name=lambda name: known,
        update_deployment=lambda _, update: updates.append(update),
    )
    assert deployments.register(client, planned) == f"{planned.full_name}{kept}"
    (update,) = updates
    assert update.tags == [*known.tags, *planned.tags]
    assert not {"paused", "schedules", "parameters"} & update.model_fields_set


def test_a_deployment_that_is_new_is_created():
    planned = Mock(flow_name="pretrain")
    planned.name = "electra-tiny"
    client = Mock()
    client.read_deployment_by_name.side_effect = ObjectNotFound(Exception())
    assert deployments.register(client, planned) == "pretrain/electra-tiny"
    planned.apply.assert_called_once_with()


def test_only_the_models_that_no_clone_has_are_deleted(capsys):
    tags = {"kept": ["clone:1"], "gone": ["mine", "clone:1"], "shared": ["clone:1", "clone:2"]}
    known = [SimpleNamespace(id=name, name=name, flow_id=1, tags=tags[name]) for name in tags]
    deleted = []
    updates = {}
    client = SimpleNamespace(
        read_flows=lambda limit: [SimpleNamespace(id=1, name="pretrain")],
        read_deployments=lambda offset, **_: known[offset : offset + 2],
        delete_deployment=deleted.append,
        update_deployment=updates.__setitem__,
    )
    deployments.delete_old(client, {"pretrain/kept"})
    assert deleted == ["gone"]
    assert {name: update.tags for name, update in updates.items()} == {"shared": ["clone:2"]}


def test_the_automations_are_prefects():
    files = list((ROOT / "deploy" / "automations").glob("*.yaml"))
    names = [AutomationCore.model_validate(read(file)).name for file in files]
    assert names == [file.stem for file in files] != []


@pytest.mark.parametrize(
    "with_team, pools", [(False, ["electra"]), (True, ["electra", "electra-lead"])]
)
def test_work_pools_are_made_for_what_is_deployed(with_team, pools, monkeypatch):
    made = []
    client = SimpleNamespace(create_work_pool=lambda pool: made.append(pool.name))
    monkeypatch.setattr(deployments, "get_client", lambda **_: contextlib.nullcontext(client))
    for name in ("automate", "register", "delete_old"):
        monkeypatch.setattr(deployments, name, lambda *_: "")
    deployments.deploy(with_team=with_team)
    assert made == pools


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(deployments, "deploy", Mock(side_effect=LookupError("a bug")))
    with pytest.raises(LookupError):
        deployments.main()


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_a_sentence():
    url = "http://127.0.0.1:9/api"
    values = {"PREFECT_API_URL": url, "PREFECT_CLIENT_MAX_RETRIES": "0"}
    error = run(ROOT, "-m", "pipelines.flows.deployments", code=69, **values).stderr
    assert error.startswith(f"error: {url}: no Prefect server answers; start it")
    assert error.count("\n") == 1
