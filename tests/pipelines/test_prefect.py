"""A real Prefect server, a real worker and real deployments, on loopback, with a small copy of the project."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from pipelines.flows.team import PART
from pipelines.params import load
from tests.conftest import ROOT, environment, git_project

DEPLOYMENTS = YAML(typ="safe").load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
MODELS = ("tiny", "mini", "small", "base", "large")


def test_deployments_name_flows_and_models_that_exist() -> None:
    params = load(ROOT / "params.yaml")
    named = {f"{deployment['entrypoint'].rpartition('.')[2]}/{deployment['name']}" for deployment in DEPLOYMENTS}
    for model in MODELS:
        assert {f"{flow}/electra-{model}" for flow in ("pretrain", "finetune", "workflow", "team")} <= named
    assert {"ablations/electra-tiny", PART} <= named
    for deployment in DEPLOYMENTS:
        module, _, flow = deployment["entrypoint"].rpartition(".")
        path = ROOT / Path(*module.split(".")).with_suffix(".py")
        assert f"def {flow}(" in path.read_text(encoding="utf-8")
        model = deployment["parameters"]["model"]
        assert deployment["name"] == ("electra" if flow == "part" else f"electra-{model}")
        lead = deployment["work_pool"]["name"] == "electra-lead"
        assert lead == (flow == "team"), "what only waits takes no worker from its parts"
        assert model in params.models
        if flow == "ablations":
            assert [name for name, ablation in params.ablations.items() if ablation.model == model]


@dataclass
class Server:
    """A server with a worker, and the means to ask both."""

    folder: Path
    url: str
    environment: dict[str, str]
    worker: subprocess.Popen[bytes]
    log: Path

    def prefect(self, *words: str) -> str:
        command = [sys.executable, "-m", "prefect", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        for attempt in range(20):
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt == 19:  # 503: its database is busy, ask again, as Prefect's client does
                    raise
            time.sleep(1)

    def start(self, deployment: str, **parameters: Any) -> str:
        """What `prefect deployment run` does, without its seconds of import; returns the id of the flow run."""
        found = self.ask(f"/deployments/name/{deployment}")
        asked = {"state": {"type": "SCHEDULED"}, "parameters": {**found["parameters"], **parameters}}
        return str(self.ask(f"/deployments/{found['id']}/create_flow_run", asked)["id"])

    def wait(self, run: str, *states: str, seconds: float = 400) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            found = self.ask(f"/flow_runs/{run}")
            if found["state"]["type"] in states:
                return dict(found)
            assert time.monotonic() < deadline, f"{found['state']}\n{self.log.read_text()[-4000:]}"
            time.sleep(0.3)

    def lines(self, run: str) -> list[str]:
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        return [record["message"] for record in self.ask("/logs/filter", body)]

    def stages(self) -> list[psutil.Process]:
        """Processes that run a stage, DVC or a recorder of this copy."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if process.cwd().startswith(str(self.folder)) and ("dvc" in words or "-m pipelines" in words):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`make server`, `make deploy`, `make worker`, as their recipes do, with a free port and a folder of its own."""
    folder = git_project(tmp_path_factory.mktemp("prefect") / "project")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    values = environment(folder, PREFECT_API_URL=url, PREFECT_HOME=str(folder / ".prefect"), DO_NOT_TRACK="true")
    for name in ("PREFECT_SERVER_ANALYTICS_ENABLED", "PREFECT_RUNNER_SERVER_ENABLE"):
        values[name] = "false"
    values |= {"PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.3", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    log = folder / "worker.log"

    def begin(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "prefect", *words]
        with log.open("ab") as out:
            return subprocess.Popen(
                command, cwd=folder, env=values, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    processes = [begin("server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-services")]
    try:
        made = Server(folder, url, values, processes[0], log)
        deadline = time.monotonic() + 400
        while True:
            try:
                made.ask("/health")
                break
            except OSError:
                assert time.monotonic() < deadline and processes[0].poll() is None, log.read_text()[-4000:]
                time.sleep(0.3)
        for pool in ("electra", "electra-lead"):
            made.ask("/work_pools/", {"name": pool, "type": "process"})
        (folder / "prefect.yaml").write_text(
            (folder / "prefect.yaml").read_text().replace("model: tiny", "model: smoke")
        )
        made.prefect("--no-prompt", "deploy", "--all")
        made.worker = begin("worker", "start", "--pool", "electra", "--limit", "1")
        processes.append(made.worker)
        yield made
    finally:
        for process in reversed(processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()


@pytest.mark.slow
def test_a_deployment_runs_with_live_lines_and_a_result_page(server: Server) -> None:
    server.prefect("deployment", "run", "pretrain/electra-tiny", "-p", 'settings={"models.smoke.pretrain.steps": 30}')
    run = str(server.ask("/flow_runs/filter", {"limit": 1})[0]["id"])
    done = server.wait(run, "COMPLETED", "FAILED", "CRASHED", "CANCELLED")
    lines = server.lines(run)
    assert done["state"]["type"] == "COMPLETED", "\n".join(lines)
    assert any("python -m pipelines pretrain smoke" in line for line in lines)
    assert any("step" in line for line in lines)
    artifacts = server.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    found = {artifact["key"]: artifact["data"] for artifact in artifacts}
    assert {"pretrain-smoke", "pretrain-smoke-numbers"} <= set(found)
    bars = {artifact["key"]: artifact["data"] for artifact in artifacts if artifact["type"] == "progress"}
    assert bars["pretrain-smoke-progress"] == 100.0
    assert "results/smoke/pretrain.json" in found["pretrain-smoke"]
    assert done["name"].startswith("pretrain smoke ") and done["name"].endswith(" steps=30")
    assert any("30/30 steps" in line for line in lines)
    assert not (server.folder / "build").exists(), "the checkout is nobody's workplace"
    assert not server.stages()


@pytest.mark.slow
def test_a_team_does_a_model_in_flow_runs_of_their_own(server: Server, tmp_path: Path) -> None:
    lean = tmp_path / "lean"
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com", "-C", str(server.folder)]
    subprocess.run([*git, "worktree", "add", "--quiet", "-b", "lean", str(lean)], check=True)
    text = (lean / "params.yaml").read_text().replace("models: [smoke]", "models: []")
    start, end = text.index("finetunings:"), text.index("ablations: {}")
    (lean / "params.yaml").write_text(text[:start] + "finetunings: {}\n" + text[end:])
    subprocess.run([*git[:-1], str(lean), "commit", "--quiet", "-am", "Lean"], check=True)
    values = server.environment | {"ELECTRA_POLL": "1"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "electra-lead"]
    with server.log.open("ab") as log:
        lead = subprocess.Popen(command, cwd=server.folder, env=values, stdout=log, stderr=log, start_new_session=True)
    try:
        run = server.start("team/electra-tiny", commit="lean")
        done = server.wait(run, "COMPLETED", "FAILED", "CRASHED", "CANCELLED")
    finally:
        os.killpg(lead.pid, signal.SIGKILL)
        lead.wait()
    assert done["state"]["type"] == "COMPLETED", "\n".join(server.lines(run))
    found = server.ask("/flow_runs/filter", {"flow_runs": {"name": {"like_": "part smoke"}}})
    queues = {each["name"].split(" ", 3)[3] if each["name"].count(" ") > 2 else "": each for each in found}
    assert {name: each["work_queue_name"] for name, each in queues.items()} == {
        **{"tokens@smoke": "cpu", "pretrain@smoke": "cpu"},  # tiny is for processors
        "": "cpu",  # the whole
    }
    assert {each["state"]["type"] for each in found} == {"COMPLETED"}
    assert all(each["parent_task_run_id"] for each in found), "the page of the run leads to its parts"
    saved = subprocess.run(
        [*git, "for-each-ref", "--format=%(refname)"], capture_output=True, text=True, check=True
    ).stdout
    assert "/smoke-" in saved and "tokens" not in saved


@pytest.mark.slow
def test_a_corpus_out_of_reach_fails_early_with_what_to_set(server: Server) -> None:
    run = server.start("pretrain/electra-base")
    done = server.wait(run, "COMPLETED", "FAILED", "CRASHED", "CANCELLED")
    assert done["state"]["type"] == "FAILED"
    assert "nowhere/*.jsonl" in done["state"]["message"]
    assert not any("Running stage" in line for line in server.lines(run)), "nothing should have been started"


@pytest.mark.slow
def test_cancelling_leaves_no_process(server: Server) -> None:
    run = server.start("pretrain/electra-tiny", settings={"models.smoke.pretrain.steps": 200_000})
    server.wait(run, "RUNNING")
    deadline = time.monotonic() + 400
    while not any("pipelines pretrain" in " ".join(process.cmdline()) for process in server.stages()):
        assert time.monotonic() < deadline, server.log.read_text()[-4000:]
        time.sleep(0.2)
    server.prefect("flow-run", "cancel", run)
    server.wait(run, "CANCELLED")
    deadline = time.monotonic() + 40
    while server.stages() and time.monotonic() < deadline:
        time.sleep(0.3)
    assert not server.stages()
