"""Flows: what they run and in what order, what is tried again, and the pages they leave. DVC is played by a list."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadConfig, SourceUnreachable
from pipelines import ROOT, checkouts, repro, tracking
from pipelines.repro import Outcome, StageFailed
from tests.conftest import SMOKE, copy_text

ABLATION = SMOKE.replace("ablations: {}\n", "", 1).replace("ablations: []", "ablations: [a]").removesuffix(
    "ablations: {}\n"
) + (
    "ablations:\n  a: {title: t, model: smoke, tokens: smoke, data: smoke, recipe: smoke, arms: {one: {}}}\n"
    "  b: {title: t, model: smoke, tokens: smoke, data: smoke, recipe: smoke,"
    " arms: {same: {}, two: {generator.width: 1.0}}}\n"
)


class Dvc:
    """Stands where DVC stands: notes targets, answers, and fails as it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.parents: list[str | None] = []
        self.processes: list[dict[str, str]] = []
        self.failures: list[StageFailed] = []

    def repro(self, *targets: str, place: Any, single: bool, pull: bool, log: Any, seconds: float | None) -> Outcome:
        environment = place.variables
        name = targets[0].rpartition(":")[2]
        self.calls.append((name, single))
        self.parents.append(environment.get(tracking.PARENT))
        self.processes.append({key: value for key, value in environment.items() if key.startswith("PET_")})
        log(f"Running stage '{name}':")
        if self.failures:
            raise self.failures.pop(0)
        return Outcome(ran=[name])


@pytest.fixture
def dvc(prefect_server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dvc:
    """Flows in a folder of their own, on one temporary server."""
    from pipelines.flows import steps

    (tmp_path / "params.yaml").write_text(ABLATION)
    copy_text(tmp_path)
    for path in ("smoke/pretrain", "smoke/glue", "smoke/squad", "ablations/a", "ablations/b"):
        (tmp_path / "results" / path).parent.mkdir(parents=True, exist_ok=True)
        numbers = {
            "average": {"pretrained": {"mean": 91.25}},
            "arms": {"one": {"average": {"mean": 90.5}}},
            "label": "smoke",
            "loss": 1.23456,
            "mlm_accuracy": 0.625,
            "tasks": {"cola": {"mean": 0.5, "scores": [0.4, 0.6]}},
        }
        (tmp_path / "results" / f"{path}.json").write_text(json.dumps(numbers))
    monkeypatch.chdir(tmp_path)
    for module in (steps, checkouts):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    played = Dvc()
    monkeypatch.setattr(steps, "repro", played.repro)
    monkeypatch.setattr(steps.run_stage, "retry_delay_seconds", 0)
    return played


def artifacts() -> dict[str, str]:
    """The newest page of each key: other tests' runs leave theirs on the same server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        pages = client.read_artifacts()
    return {str(page.key): str(page.data) for page in sorted(pages, key=lambda page: str(page.created))}


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


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_a_mistake_is_not(dvc: Dvc) -> None:
    from pipelines.flows.pretrain import pretrain

    dvc.failures = [StageFailed("pretrain@smoke", "killed", 137), StageFailed("pretrain@smoke", "stopped", 75)]
    assert pretrain("smoke") == "ran"
    assert len(dvc.calls) == 3
    dvc.calls.clear()
    dvc.failures = [StageFailed("pretrain@smoke", "params.yaml: models.smoke.x: is not a parameter", 64)]
    with pytest.raises(StageFailed, match="is not a parameter"):
        pretrain("smoke")
    assert len(dvc.calls) == 1


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


@pytest.mark.slow
def test_ablations_share_their_ancestors_and_then_run_alone(dvc: Dvc) -> None:
    from pipelines.flows import steps
    from pipelines.flows.ablations import ablations

    assert ablations("smoke") == {"a": "ran", "b": "ran"}
    assert dvc.calls[:2] == [("tokens@smoke", False), ("tasks@smoke", False)]
    assert sorted(dvc.calls[2:]) == [("ablation@a", True), ("ablation@b", True)]
    with pytest.raises(BadConfig, match="none of the model"):
        steps.ablations_of("base", {"ablations": {"a": {"model": "smoke"}}})


@pytest.mark.slow
def test_a_team_shares_the_road_and_a_part_that_fails_stops_no_other(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.schemas.objects import FlowRun
    from prefect.states import Completed, Failed

    from pipelines.flows import team as module
    from pipelines.flows.team import team

    asked: list[tuple[str, str, str]] = []
    keys: set[str] = set()
    bad: set[str] = set()

    def elsewhere(name: str, *, parameters: Any, work_queue_name: str, idempotency_key: str, **_: Any) -> FlowRun:
        assert name == "part/electra" and parameters["model"] == "smoke"
        asked.append((",".join(parameters["stages"]), parameters["part"], work_queue_name))
        keys.add(idempotency_key)
        state = Failed(message="no") if parameters["stages"][0] in bad else Completed()
        return FlowRun(flow_id=uuid.uuid4(), state=state)

    monkeypatch.setattr(module, "run_deployment", elsewhere)
    monkeypatch.setattr(checkouts, "resolve", lambda commit: "")
    whole = ["pretrain@smoke", "glue@smoke", "squad@smoke", "ablation@a", "ablation@b"]
    assert team("smoke") == [*whole, "report"]
    parts = {
        *(("tokens@smoke", "cpu"), ("tasks@smoke", "cpu"), ("pretrain@smoke", "gpu")),
        *(("glue@smoke", "gpu"), ("squad@smoke", "gpu"), ("arm@a/one-seed1", "gpu"), ("arm@b/two-seed1", "gpu")),
        *(("arm@a/one-seed1,ablation@a", "gpu"), ("arm@a/one-seed1,arm@b/two-seed1,ablation@b", "gpu")),
        (",".join([*whole, "report"]), "cpu"),
    }
    assert {(stages, queue) for stages, _, queue in asked} == parts and len(asked) == len(parts) == len(keys)
    order = [stages for stages, _, _ in asked]
    assert order.index("tokens@smoke") < order.index("pretrain@smoke") < order.index("glue@smoke")
    assert [stages for stages, part, _ in asked if not part] == [order[-1]], "the last part's results are the run's"

    asked.clear()
    bad |= {"arm@a/one-seed1", "glue@smoke"}
    with pytest.raises(StageFailed, match="1 of 5 parts failed: glue@smoke"):
        team("smoke")
    assert ("ablation@a", "ablation@a", "gpu") in asked, "the ablation tries an arm that failed, and notes it"
    assert asked[-1] == ("pretrain@smoke,squad@smoke,ablation@a,ablation@b", "", "cpu")
    bad |= {"pretrain@smoke", "tasks@smoke"}
    asked.clear()
    with pytest.raises(StageFailed, match="5 of 5 parts failed"):
        team("smoke")
    assert not {"glue@smoke", "squad@smoke", "arm@a/one-seed1"} & {stages for stages, _, _ in asked}


@pytest.mark.slow
def test_stages_hang_below_the_flows_run(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    import prefect

    from pipelines.flows.finetune import finetune
    from pipelines.tracking import recorder

    params = Path("params.yaml")
    params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
    closed: list[tuple[str, str]] = []
    opened: list[dict[str, str]] = []

    def open_parent(name: str, params: Any, key: str, facts: dict[str, str]) -> str:
        opened.append(facts)
        return f"parent of {name}"

    monkeypatch.setattr(recorder, "open_parent", open_parent)
    monkeypatch.setattr(tracking, "end_workflow", lambda run, status, *_: closed.append((run, status)))
    with prefect.tags("user:anna", "trial"):
        finetune("smoke")
    assert opened[0]["mlflow.user"] == "anna" and opened[0]["mlflow.source.type"] == "JOB"
    assert dvc.parents == ["parent of finetune smoke"] * 3
    assert closed == [("parent of finetune smoke", "FINISHED")]
    dvc.failures = [StageFailed("pretrain@smoke", "no", 65)]
    with pytest.raises(StageFailed):
        finetune("smoke")
    assert closed[1] == ("parent of finetune smoke", "FAILED")
    dvc.failures = [StageFailed("pretrain@smoke", "stopped", 75)] * 3
    with pytest.raises(StageFailed):
        finetune("smoke")
    assert closed[2] == ("parent of finetune smoke", "KILLED")


@pytest.mark.slow
def test_a_dead_tracking_store_does_not_stop_a_flow(dvc: Dvc, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows.pretrain import pretrain
    from pipelines.tracking import recorder

    def dead(*_: Any, **__: Any) -> str:
        raise OSError("no store")

    Path("params.yaml").write_text(ABLATION.replace("tracking: none", "tracking: mlflow"))
    monkeypatch.setattr(recorder, "open_parent", dead)
    assert pretrain("smoke") == "ran"
    assert dvc.parents == [None]


def test_mlflow_takes_a_part_of_the_last_seconds_and_does_not_decide_how_a_flow_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines import flows
    from pipelines.flows import ending, steps
    from pipelines.tracking import recorder

    def told(*_: Any) -> None:
        order.append("MLflow")
        raise ValueError("dvc.lock is half written")

    order: list[str] = []
    monkeypatch.setenv(flows.ALONE, "1")
    monkeypatch.setattr(recorder, "open_parent", lambda *_, **__: "a run")
    monkeypatch.setattr(ending, "limit", lambda: order.append("the limit begins"))
    monkeypatch.setattr(tracking, "end_workflow", told)
    place = repro.Place(tmp_path)
    running = steps.Running(checkouts.Request("tiny", "", ()), place, None, {"tracking": "mlflow"})
    with steps.parent_run("pretrain", running):
        assert running.parent == "a run"
    assert order == ["the limit begins", "MLflow"]
    assert "half written" in capsys.readouterr().err
    assert tracking.WORKFLOW_SECONDS < ending.SECONDS / 2


def test_a_server_that_vanishes_under_an_ablation_leaves_it_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    from pipelines.flows import watch

    def vanished(**_: Any) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(watch, "create_table_artifact", vanished)
    said: list[str] = []
    log = watch.watching("a", said.append, tmp_path)
    progress = tmp_path / "runs" / "ablation-a" / "progress.json"
    progress.parent.mkdir(parents=True)
    progress.write_text(json.dumps([{"arm": "one", "seed": 1, "status": "done", "score": 1.0}]))
    log("a line")
    assert said == ["a line"]


def test_the_server_is_prefect_tomls_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from pipelines import flows

    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    class Answer:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(flows.socket, "create_connection", lambda *_, **__: Answer())
    flows.choose_server()
    assert "PREFECT_API_URL" not in os.environ

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(flows.socket, "create_connection", refuse)
    flows.choose_server()
    assert os.environ["PREFECT_API_URL"] == ""
    monkeypatch.delenv("PREFECT_API_URL")


@pytest.mark.parametrize(
    "content", [None, b"[api", b"[api]\nurl = 7", b"[apj]\n", b"api = 1", b"\xff", b'[api]\nurl = "http://a:b/api"\n']
)
def test_a_damaged_prefect_toml_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    from pipelines import flows

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(flows, "ROOT", tmp_path)
    if content is not None:
        (tmp_path / "prefect.toml").write_bytes(content)
    with pytest.raises(BadConfig, match=r"prefect\.toml: names no server"):
        flows.choose_server()


def test_nothing_of_prefect_is_cached_or_persisted() -> None:
    from prefect.cache_policies import NO_CACHE

    from pipelines.flows import steps

    for task in (steps.check, steps.run_stage, steps.join_stage, steps.keep):
        assert task.cache_policy == NO_CACHE
        assert task.persist_result is False
    assert steps.run_stage.retries == 2
    assert str(uuid.uuid4()) and repro.ROOT == ROOT


def test_what_tells_its_progress_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.flows import watch

    told: list[tuple[Any, ...]] = []

    def create(progress: float, key: str, description: str) -> str:
        told.append((key, progress))
        return key

    monkeypatch.setattr(watch, "create_progress_artifact", create)
    monkeypatch.setattr(watch, "update_progress_artifact", lambda made, progress: told.append((made, progress)))
    said: list[str] = []
    log = watch.bars(said.append)
    log("corpora.smoke  100%  15,718/15,718 bytes  156.9k/s  documents 60\npretrain smoke   10%  2/20 steps")
    log("pretrain smoke   15%  3/20 steps")  # sooner than a bar is renewed
    log("a line with 30% of something\npretrain smoke  100%  20/20 steps  9.219/s  loss 22.46")
    assert len(said) == 3
    assert told == [
        *(("corpora-smoke-progress", 100.0), ("pretrain-smoke-progress", 10.0), ("pretrain-smoke-progress", 100.0)),
    ]


def test_a_watched_experiment_renews_its_table_when_an_arm_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.flows import watch

    shown: list[list[Any]] = []
    monkeypatch.setattr(
        watch, "create_table_artifact", lambda key, table, description: shown.append([key, table, description])
    )
    said: list[str] = []
    log = watch.watching("a_b", said.append, tmp_path)
    log("nothing yet")
    rows = [{"arm": "one", "seed": 1, "status": "waiting or running", "score": None}]
    progress = tmp_path / "runs" / "ablation-a_b" / "progress.json"
    progress.parent.mkdir(parents=True)
    for status, score in (("waiting or running", None), ("done", 41.26), ("done", 41.26)):
        rows[0] |= {"status": status, "score": score}
        progress.write_text(json.dumps(rows))
        log("a line")
    assert said == ["nothing yet", *["a line"] * 3]
    assert [(key, table[0]["score"], words) for key, table, words in shown] == [
        ("ablation-a-b-progress", "", "a_b: 0 of 1 runs have ended"),
        ("ablation-a-b-progress", "41.3", "a_b: 1 of 1 runs have ended"),
    ]
