"""The deployments that `make deploy` registers from this project's params.yaml."""

import contextlib
import uuid
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from pipelines.config.params import load
from pipelines.config.settings_file import read
from pipelines.flows import deployments
from pipelines.flows.team import PART
from tests.support.project import ROOT

PARAMS = load(ROOT / "params.yaml")
FILES = sorted((ROOT / "deploy" / "automations").glob("*.yaml"))


@pytest.fixture(autouse=True)
def clone(tmp_path, monkeypatch):
    """A clone has its id where tests may write."""
    for name in ("params.yaml", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/clone-id").write_text("1\n")
    monkeypatch.setattr(deployments, "ROOT", tmp_path)


def plan(*, with_team=False):
    """Return the planned deployments by name."""
    planned = deployments.deployments(PARAMS, with_team=with_team)
    return {str(deployment.full_name): deployment for deployment in planned}


def test_every_model_has_its_flows_on_the_queue_that_it_is_made_for():
    planned = plan(with_team=True)
    for model in PARAMS.models:
        for flow in ("pretrain", "finetune", "workflow"):
            deployment = planned[f"{flow}/electra-{model}"]
            assert deployment.work_pool_name == "electra" and deployment.concurrency_limit == 4
            assert deployment.parameters == {"model": model}
            assert not deployment.enforce_parameter_schema, "a commit may have other models"
            assert deployment.work_queue_name == ("cpu" if model in {"tiny", "mini"} else "gpu")
            assert deployment.tags == [f"flow:{flow}", f"model:{model}", "clone:1"]
            assert deployment.entrypoint == f"pipelines.flows.training.{flow}"
        team = planned[f"team/electra-{model}"]
        assert team.work_pool_name == "electra-lead", (
            "what only waits takes no worker from its parts"
        )
        assert team.entrypoint == "pipelines.flows.team.team"
    ablations = {name for name in planned if name.startswith("ablations/")}
    models = {ablation.base.model for ablation in PARAMS.ablations.values()}
    assert ablations == {f"ablations/electra-{model}" for model in models}
    assert planned[PART].work_pool_name == "electra" and planned[PART].enforce_parameter_schema
    assert len(planned) == 4 * len(PARAMS.models) + len(ablations) + 1
    of_one_machine = {name for name in planned if not name.startswith(("team/", "part/"))}
    assert plan().keys() == of_one_machine, "only what its worker can run"


@pytest.mark.parametrize(
    "known, kept",
    [
        ({}, ""),
        (
            {
                "paused": True,
                "parameters": {"model": "tiny", "hours": 3},
                "schedules": [
                    SimpleNamespace(slug=None, id=7),
                    SimpleNamespace(slug="nightly", id=8),
                ],
                "tags": ["mine", "clone:2"],
            },
            " (kept: paused, schedule 7, schedule nightly, hours=3, tag mine)",
        ),
    ],
)
def test_what_a_user_has_set_is_kept_and_named(known, kept):
    planned = plan()["pretrain/electra-tiny"]
    values = {"paused": False, "parameters": planned.parameters, "tags": [], "schedules": []}
    known = SimpleNamespace(**values | known, id="1")
    client = Mock()
    client.read_deployment_by_name.return_value = known
    assert deployments.register(client, planned) == f"{planned.full_name}{kept}"
    update = client.update_deployment.call_args.args[1]
    assert update.tags == [*known.tags, *planned.tags]
    assert "nproc_per_node" in update.parameter_openapi_schema["properties"]
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
    client = Mock()
    client.read_flows.return_value = [SimpleNamespace(id=1, name="pretrain")]
    client.read_deployments = lambda offset, **_: known[offset : offset + 2]
    deployments.delete_old(client, {"pretrain/kept"})
    client.delete_deployment.assert_called_once_with("gone")
    ((name, update),) = (call.args for call in client.update_deployment.call_args_list)
    assert (name, update.tags) == ("shared", ["clone:2"])
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["pretrain/gone", "is"],
        ["pretrain/shared", "stays:"],
    ]


def test_an_automation_is_renewed_if_it_differs_and_stays_off_if_it_is():
    planned = AutomationCore.model_validate(read(FILES[0]))
    renewed = planned.model_copy(update={"description": "new"})
    client = Mock()
    client.read_automations_by_name.return_value = []
    deployments.automate(client, planned)
    client.create_automation.assert_called_once_with(planned)
    known = Automation(id=uuid.uuid4(), **planned.model_dump() | {"enabled": False})
    client.read_automations_by_name.return_value = [known]
    deployments.automate(client, planned)
    client.update_automation.assert_not_called()
    deployments.automate(client, renewed)
    off = renewed.model_copy(update={"enabled": False})
    client.update_automation.assert_called_once_with(known.id, off)


@pytest.mark.parametrize(
    "with_team, pools", [(False, ["electra"]), (True, ["electra", "electra-lead"])]
)
def test_pools_automations_and_deployments_are_made(with_team, pools, monkeypatch, capsys):
    client = Mock()
    client.create_work_pool.side_effect = ObjectAlreadyExists(Exception())
    monkeypatch.setattr(deployments, "get_client", lambda **_: contextlib.nullcontext(client))
    monkeypatch.setattr(deployments, "register", lambda _, planned: planned.full_name)
    for name in ("automate", "delete_old"):
        monkeypatch.setattr(deployments, name, getattr(client, name))
    monkeypatch.setattr("sys.argv", ["deployments", *["--team"] * with_team])
    assert deployments.main() == 0
    assert [call.args[0].name for call in client.create_work_pool.call_args_list] == pools
    automations = [call.args[1].name for call in client.automate.call_args_list]
    assert automations == [file.stem for file in FILES] != []
    server, *registered = capsys.readouterr().out.splitlines()
    assert server.startswith("Prefect's server: ") and registered == [*plan(with_team=with_team)]
    client.delete_old.assert_called_once_with(client, plan(with_team=True).keys())


def test_a_clone_has_an_id_of_its_own(tmp_path):
    (tmp_path / "runs/clone-id").unlink()
    tag = deployments.clone_tag()
    assert tag == deployments.clone_tag() and len(tag) == len("clone:12345678")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(deployments, "deploy", Mock(side_effect=LookupError("a bug")))
    with pytest.raises(LookupError):
        deployments.main()


def test_a_server_that_does_not_answer_is_a_sentence(capsys):
    url = "http://127.0.0.1:9/api"
    with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        assert deployments.main() == 69
    error = capsys.readouterr().err
    assert error.startswith(f"error: {url}: no Prefect server answers; start it")
    assert error.count("\n") == 1
