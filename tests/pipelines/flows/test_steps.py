"""The runs below a flow's run in MLflow, and flows without MLflow."""

import contextlib
import logging
from pathlib import Path
from types import SimpleNamespace

import prefect
import pytest

from electra.errors import UserError
from electra.files import write_json
from pipelines import tracking
from pipelines.flows import artifacts, server, steps
from pipelines.stages import STAGES
from pipelines.tracking import recorder
from pipelines.versioning import dvc_runner, workspace
from pipelines.versioning.dvc_runner import StageFailed
from tests.conftest import ROOT, files_of
from tests.pipelines.flows.conftest import ABLATION

CHECKOUT = dvc_runner.Checkout(Path())


@pytest.mark.slow
def test_stages_hang_below_the_flows_run(dvc, monkeypatch):
    from pipelines.flows.training import finetune

    Path("params.yaml").write_text(ABLATION.replace("tracking: none", "tracking: mlflow"))
    opened = []

    def open_parent(name, params, key, facts):
        opened.append(facts)
        return f"parent of {name}"

    monkeypatch.setattr(recorder, "open_parent", open_parent)
    monkeypatch.setattr(tracking, "end_workflow", lambda *_: None)
    with prefect.tags("user:anna", "trial"):
        finetune("smoke")
    assert opened[0]["mlflow.user"] == "anna" and opened[0]["mlflow.source.type"] == "JOB"
    assert dvc.parents == ["parent of finetune smoke"] * 6


@pytest.mark.parametrize(
    ("parent", "error", "ending"),
    [
        (None, None, ("a run", "FINISHED", None)),
        (None, StageFailed("x: no", 65), ("a run", "FAILED", None)),
        (None, StageFailed("x: stopped", 75), ("a run", "KILLED", None)),
        ("the whole", None, ("the whole", "", ["glue@tiny"])),
    ],
)
def test_a_flow_ends_its_run_and_a_part_tags_its_stages_alone(monkeypatch, parent, error, ending):
    ended = []
    monkeypatch.setattr(recorder, "open_parent", lambda *_, **__: "a run")
    monkeypatch.setattr(
        tracking, "end_workflow", lambda run, status, _, stages: ended.append((run, status, stages))
    )
    request = workspace.Request("tiny", "", {})
    running = steps.Run(request, CHECKOUT, {"tracking": "mlflow"}, parent=parent, ran=["glue@tiny"])
    fails = pytest.raises(StageFailed) if error else contextlib.nullcontext()
    with fails, steps.parent_run("finetune", running):
        if error:
            raise error
    assert ended == [ending]


def test_mlflow_does_not_decide_how_a_flow_ends(tmp_path, monkeypatch, capsys):
    def end(*_):
        raise ValueError("dvc.lock is half written")

    monkeypatch.setattr(recorder, "open_parent", lambda *_, **__: "a run")
    monkeypatch.setattr(tracking, "end_workflow", end)
    request = workspace.Request("tiny", "", {})
    running = steps.Run(request, dvc_runner.Checkout(tmp_path), {"tracking": "mlflow"})
    with steps.parent_run("pretrain", running):
        assert running.parent == "a run"
    assert "half written" in capsys.readouterr().err
    running.parent = None
    monkeypatch.setattr(recorder, "open_parent", end)
    with steps.parent_run("pretrain", running):
        assert running.parent is None


def test_links_lead_to_the_address_that_the_user_has_set(monkeypatch):
    running = steps.Run(workspace.Request("tiny", "", {}), CHECKOUT, {}, parent="1f")
    for uri, page, expected in (
        ("sqlite:///mlflow.db", "", "http://127.0.0.1:5000/#/runs/1f"),
        ("http://me:s3cret@mlflow:5000/", "", "http://***@mlflow:5000/#/runs/1f"),
        (
            "http://mlflow:5000",
            "https://team.example/mlflow",
            "https://team.example/mlflow/#/runs/1f",
        ),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        monkeypatch.setenv(steps.MLFLOW_PAGE, page)
        assert running.origin == [f"- [its run in MLflow]({expected})"]


def test_an_experiment_has_the_numbers_of_its_stages(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "show_numbers", lambda *_: None)
    request = workspace.Request("smoke", "1f", {})
    running = steps.Run(request, dvc_runner.Checkout(tmp_path), {})
    for stage in ("glue", "tokens"):
        write_json(tmp_path / STAGES[stage].results("smoke"), {"average": 1})
        steps.record_numbers(f"{stage}@smoke", "ran", running)
    steps.record_numbers("squad@smoke", "ran", running)  # which left none
    assert files_of(tmp_path / "results").keys() == {"smoke/glue.json"}


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


def fail(code):
    """Return what fails with a code and takes anything."""

    def run(*_, **__):
        raise StageFailed("a: no", code)

    return run


@pytest.mark.parametrize(
    ("code", "words"), [(65, "a: no"), (69, "a: no; pre-training on this machine would take 3 h")]
)
def test_a_source_that_is_not_there_is_told_with_the_time_that_a_run_would_take(
    monkeypatch, code, words
):
    def ask(checkout, command, *words):
        return ["on this machine: 3 h, more or less"] if command == "estimate" else fail(code)()

    monkeypatch.setattr(workspace, "ask", ask)
    with pytest.raises(StageFailed) as failed:
        steps.check.fn("tiny", CHECKOUT, ["report"])
    assert (str(failed.value), failed.value.exit_code) == (words, code)


def test_a_model_for_gpus_is_refused_without_one_unless_it_is_there(monkeypatch):
    monkeypatch.setattr(steps, "time_here", lambda *_: "")
    models = {"tiny": {"pretrain": {}}, "small": {"pretrain": {"precision": "fp32"}}}
    running = steps.Run(workspace.Request("tiny", "", {}), CHECKOUT, {"models": models})
    for gpus, would_run, model, is_refused in (
        ([], lambda *_: ["pretrain@tiny"], "tiny", True),
        ([], fail(65), "tiny", True),
        ([], lambda *_: [], "tiny", False),
        ([], fail(65), "small", False),
        ([], fail(65), "published", False),
        (["H100"], fail(65), "tiny", False),
    ):
        monkeypatch.setattr("pipelines.tracking.lineage.gpus", lambda gpus=gpus: gpus)
        monkeypatch.setattr(steps, "would_run", would_run)
        refused = pytest.raises(StageFailed, match="tiny: this machine has no GPU")
        with refused if is_refused else contextlib.nullcontext():
            steps.require_gpu(model, running)


def test_an_ablation_that_fails_stops_no_other_but_the_flow(monkeypatch):
    stages = ["pretrain@x", "ablation@a", "ablation@b", "report"]
    for failing, count in (("ablation@a", 3), ("pretrain@x", 1), ("", 4)):
        ran: list[str] = []

        def run_stage(stage, running, failing=failing, ran=ran):
            ran.append(stage)
            return "ran" if stage != failing else fail(65)()

        monkeypatch.setattr(steps, "run_stage", run_stage)
        with pytest.raises(StageFailed) if failing else contextlib.nullcontext():
            steps.run_stages(stages, None)
        assert ran == stages[:count]


@pytest.mark.parametrize("pull", [False, True])
def test_a_stage_runs_below_the_flows_run_and_is_stored_where_others_need_it(pull, monkeypatch):
    checkout = dvc_runner.Checkout(Path("clone"), pull=pull)
    running = steps.Run(workspace.Request("tiny", "", {}), checkout, {}, parent="run-7")
    below = checkout.with_variables({tracking.PARENT: "run-7"})
    calls = []

    def repro(*values):
        calls.append(values)
        return dvc_runner.Outcome(ran=["tokens@x"])

    monkeypatch.setattr(steps, "get_run_logger", lambda: logging.getLogger("a run"))
    monkeypatch.setattr(steps, "repro", repro)
    monkeypatch.setattr(steps, "store", lambda *values: calls.append(values))
    assert steps.run_stage.fn("tokens@x", running) == "ran" and running.ran == ["tokens@x"]
    (target, place, _, seconds), *stored = calls
    assert (target, place, seconds) == ("pipelines/dvc.yaml:tokens@x", below, running.seconds)
    assert stored == ([(target, below)] if pull else [])
    calls.clear()
    assert steps.run_stage.fn("report", running) == "cached"
    assert calls[0][0] == "dvc.yaml:report"


def test_what_the_store_does_not_take_is_kept(monkeypatch):
    monkeypatch.setattr(steps, "get_run_logger", lambda: logging.getLogger("a run"))
    monkeypatch.setattr("pipelines.versioning.dvc_store.push", fail(69))
    with pytest.raises(StageFailed, match="a: no; everything is in this machine's cache"):
        steps.store.fn("tokens@x", CHECKOUT)


def test_a_login_in_the_servers_address_is_no_tag(monkeypatch):
    monkeypatch.setattr(
        steps, "flow_run", SimpleNamespace(tags=[], ui_url="http://me:s3cret@host:4200/runs/1")
    )
    assert (
        steps.tags(workspace.Request("smoke", "", {}))["prefect.url"]
        == "http://***@host:4200/runs/1"
    )


def test_a_run_has_positive_limits_and_may_die_five_times(monkeypatch):
    log = logging.getLogger("a run")
    here = dvc_runner.Checkout(ROOT)
    monkeypatch.setattr(steps, "get_run_logger", lambda: log)
    monkeypatch.setattr(workspace, "opened", lambda *_: contextlib.nullcontext(here))
    monkeypatch.setattr(workspace, "params", lambda _: {"tracking": "none"})
    monkeypatch.setattr(server, "stopped_when_unwanted", contextlib.nullcontext)
    monkeypatch.setattr(server, "end_if_unreachable", lambda: None)
    request = workspace.Request("tiny", "", {})
    flow_run = SimpleNamespace(run_count=5, tags=[], ui_url="")
    monkeypatch.setattr(steps, "flow_run", flow_run)
    for hours, seconds in ((None, None), (1.5, 5400)):
        with steps.opened_run("pretrain", request, hours, 1) as running:
            assert running.seconds == seconds
    flow_run.run_count = 6
    for hours, processes, words in (
        (-1, 1, "hours: is -1"),
        (0, 1, "hours: is 0"),
        (None, 0, "nproc_per_node: is 0"),
        (None, 1, "has died 5 times"),
    ):
        refused = pytest.raises(UserError, match=words)
        with refused, steps.opened_run("pretrain", request, hours, processes):
            pass
