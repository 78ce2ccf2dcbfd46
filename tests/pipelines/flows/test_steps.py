"""The steps of a flow: its folder, its stages, and its run in MLflow."""

import contextlib
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect.states import Failed

from electra.errors import BadConfig
from pipelines import tracking
from pipelines.config.params import UNREAD
from pipelines.flows import server, steps, training
from pipelines.tracking import lineage, recorder
from pipelines.versioning import dvc_runner, dvc_store, workspace
from pipelines.versioning.dvc_runner import StageFailed
from tests.support.project import edit, files_of

CHECKOUT = dvc_runner.Checkout(Path())
COMMIT = "1f" * 20
GIVEN = {"commit": "HEAD", "settings": None, "hours": None, "nproc_per_node": 1}


@pytest.fixture
def mlflow(alone, monkeypatch):
    """Runs of flows in MLflow: what opened and what ended them."""
    edit(Path("params.yaml"), "tracking: none", "tracking: mlflow")
    calls = []

    def open_parent(title, params, key, facts):
        calls.append((title, params, key, facts))
        return "the run"

    monkeypatch.setattr(recorder, "open_parent", open_parent)
    monkeypatch.setattr(tracking, "end_workflow", lambda *arguments: calls.append(arguments))
    return calls


@pytest.fixture
def clone(tmp_path, alone, monkeypatch):
    """A run of a commit takes place in the present folder, which counts as a clone. Calls of
    whatever reaches other folders.
    """
    calls = []
    monkeypatch.setattr(steps, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(workspace, "resolve", lambda commit: COMMIT)
    monkeypatch.setattr(
        workspace,
        "opened",
        lambda _, __, variables: contextlib.nullcontext(
            dvc_runner.Checkout(tmp_path, variables, pull=True)
        ),
    )
    for module, name in (
        (workspace, "link_untracked_files"),
        (dvc_store, "forget_missing"),
        (workspace, "save_experiment"),
    ):
        monkeypatch.setattr(module, name, lambda *_, name=name: calls.append(name))
    monkeypatch.setattr(dvc_store, "push", lambda target, *_: calls.append(target))
    return calls


def test_stages_hang_below_the_flows_run(alone, mlflow, tmp_path):
    alone.flow_run.tags = ["trial", "user:anna"]
    training.finetune.fn("smoke")
    (title, params, key, facts), ending = mlflow
    assert (title, params) == ("finetune smoke", {"flow": "finetune", "model": "smoke"})
    assert key == "prefect-7" and facts["host"]
    expected = {"mlflow.user": "anna", "mlflow.source.type": "JOB"}
    expected["prefect.url"] = "http://***@host/runs/7"
    variables = alone.checkout.variables
    assert json.loads(variables[lineage.TAGS]) == expected and expected.items() <= facts.items()
    assert variables[tracking.PARENT] == "the run" and UNREAD in variables
    assert ending == ("the run", "FINISHED", tmp_path, None)


def test_a_part_leaves_the_run_open_and_tags_its_own_stages(alone, mlflow, tmp_path):
    training.part.fn("smoke", ["glue@smoke"], "glue@smoke", "the whole", GIVEN)
    assert mlflow == [("the whole", "", tmp_path, ["glue@smoke"])]


@pytest.mark.parametrize(
    ("error", "status"),
    [(StageFailed("x: no", 65), "FAILED"), (StageFailed("x: stopped", 75), "KILLED")],
)
def test_a_flow_that_ends_early_ends_its_run(alone, mlflow, monkeypatch, error, status):
    monkeypatch.setattr(server, "end_if_unreachable", lambda: mlflow.append("at last"))
    alone.failures = {"pretrain@smoke": [error]}
    with pytest.raises(StageFailed):
        training.pretrain.fn("smoke")
    assert mlflow[1][1] == status and mlflow[2:] == ["at last"]


def test_mlflow_does_not_decide_how_a_flow_ends(alone, mlflow, monkeypatch, capsys):
    def fail(*_):
        raise ValueError("dvc.lock is half written")

    for module, name in ((tracking, "end_workflow"), (recorder, "open_parent")):
        monkeypatch.setattr(module, name, fail)
        training.pretrain.fn("smoke")
        assert "half written" in capsys.readouterr().err
    assert tracking.PARENT not in alone.checkout.variables


def test_a_run_of_a_commit_shares_its_outputs_and_saves_its_results(alone, mlflow, clone):
    training.pretrain.fn("smoke", settings={"models.smoke.pretrain.steps": 30})
    stored = [f"pipelines/dvc.yaml:{kind}@smoke" for kind in ("corpus", "tokens", "pretrain")]
    shared = ["link_untracked_files"] * 4
    assert clone == [*shared, "forget_missing", *stored, "save_experiment"]
    results = {"smoke/pretrain.json": Path("build/models/smoke/results.json").read_bytes()}
    assert files_of(Path("results")) == results
    title, params, _, facts = mlflow[0]
    assert title == "pretrain smoke steps=30" and params["models.smoke.pretrain.steps"] == "30"
    assert facts["mlflow.source.git.commit"] == COMMIT and facts["git.dirty"] == "false"
    assert facts["settings"] == '{"models.smoke.pretrain.steps": 30}'
    name = facts["dvc.experiment"]
    page = alone.pages["pretrain-smoke"]["markdown"].splitlines()
    assert page[0] == "# pretrain@smoke: ran" and page[4] == "| mlm_accuracy | 0.625 |"
    assert page[-5:-1] == [
        f"- commit `{COMMIT}`",
        "- `models.smoke.pretrain.steps=30`",
        f"- experiment `{name}`: `dvc exp branch {name} BRANCH` makes a branch of it",
        "- [its run in MLflow](http://127.0.0.1:5000/#/runs/the run)",
    ]
    clone.clear()
    training.part.fn("smoke", ["glue@smoke"], "glue@smoke", None, GIVEN)
    assert "save_experiment" not in clone and mlflow[-1][-1] == ["glue@smoke"]


def test_links_lead_to_the_address_that_the_user_has_set(monkeypatch):
    for uri, page, expected in (
        ("sqlite:///mlflow.db", "", "http://127.0.0.1:5000"),
        ("http://me:s3cret@mlflow:5000/", "", "http://***@mlflow:5000"),
        ("http://mlflow:5000", "https://team.example/mlflow", "https://team.example/mlflow"),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        monkeypatch.setenv(steps.MLFLOW_PAGE, page)
        assert steps.mlflow_page() == expected


def test_what_is_up_to_date_is_cached_and_has_its_numbers_in_the_checkout(alone, monkeypatch):
    monkeypatch.setattr(steps, "repro", lambda *_: dvc_runner.Outcome())
    Path("build/squad/smoke/results.json").unlink()
    assert set(training.finetune.fn("smoke").values()) == {"cached"}
    assert {*alone.pages} == {
        *("pretrain-smoke", "pretrain-smoke-numbers", "glue-smoke", "glue-smoke-numbers")
    }
    assert not Path("results").exists()


def test_an_error_for_the_user_is_logged_once_without_a_traceback(caplog):
    log = logging.getLogger("prefect.flow_runs")
    with caplog.at_level("INFO"):
        for error in (StageFailed("base: no 'GPU' here", 69), ValueError("a bug")):
            log.error("Task run failed with exception", exc_info=error)
            log.error("Encountered exception during execution: %r", error, exc_info=error)
        log.error("Finished in state Failed(\"base: no 'GPU' here\")")
    records = [record for record in caplog.records if record.name == "prefect.flow_runs"]
    messages = [record.getMessage() for record in records]
    assert messages.count("base: no 'GPU' here") == 1 and messages[-1] == "Finished in state Failed"
    assert [record.exc_info is not None for record in records] == [False, True, True, False]


@pytest.mark.parametrize(
    ("error", "is_tried_again"),
    [
        (StageFailed("x: killed", 137), True),
        (StageFailed("x: no", 65), False),
        (BadConfig("x: no"), False),
        (ValueError("a bug"), True),
    ],
)
def test_only_what_the_user_need_not_correct_is_tried_again(error, is_tried_again):
    assert steps.is_worth_a_retry(None, None, Failed(data=error)) is is_tried_again


@pytest.mark.parametrize(
    ("code", "estimates", "words"),
    [
        (65, [], "a: no"),
        (69, [], "a: no; pre-training on this machine would take 3 h"),
        (69, [StageFailed("no estimate")], "a: no"),
    ],
)
def test_a_source_that_is_not_there_is_told_with_the_time_that_a_run_would_take(
    alone, code, estimates, words
):
    alone.failures = {"check": [StageFailed("a: no", code)], "estimate": estimates}
    with pytest.raises(StageFailed) as failed:
        training.pretrain.fn("smoke")
    assert (str(failed.value), failed.value.exit_code) == (words, code)


def test_what_the_store_does_not_take_is_kept(alone, monkeypatch):
    monkeypatch.setattr(dvc_store, "push", lambda *_: alone.fail("push"))
    alone.failures = {"push": [StageFailed("a: no", 69)]}
    with pytest.raises(StageFailed, match="a: no; everything is in this machine's cache") as failed:
        steps.store("tokens@x", CHECKOUT)
    assert failed.value.exit_code == 69


def test_the_title_of_a_run_says_what_it_is_of(monkeypatch):
    monkeypatch.setattr(workspace, "resolve", lambda commit: COMMIT)
    whole = {"commit": "main", "settings": {"a.b": 1}}
    for name, parameters, title in (
        ("pretrain", {"model": "tiny", **whole}, "pretrain tiny 1f1f1f1f b=1"),
        (
            "part",
            {"model": "tiny", "part": "glue@x", "given": whole},
            "part tiny 1f1f1f1f b=1 glue@x",
        ),
        ("pretrain", {"model": "no such"}, "pretrain no such"),
    ):
        flow_run = SimpleNamespace(flow_name=name, parameters=parameters)
        monkeypatch.setattr(steps, "flow_run", flow_run)
        assert steps.run_title() == title
