"""A real Prefect server, a real worker and real deployments, on loopback, with a small copy of the
project.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from pipelines.config.settings_file import read
from tests.support.project import (
    ROOT,
    commit,
    edit,
    environment,
    free_port,
    git,
    git_project,
    read_text,
    run,
    until,
)

LOGIN = ("electra", "secret")
CRASHED = "deploy/automations/crashed-runs-go-on.yaml"


def test_a_run_that_died_while_the_server_was_away_is_noticed():
    """Prefect forgets what it waits for a minute after that is due, if it was not there then."""
    settings = tomllib.loads(read_text("prefect.toml"))
    assert settings["server"]["events"]["expired_bucket_buffer"] > 24 * 3600


ENDS = {f"prefect.flow-run.{state}" for state in "Completed Failed Cancelled Cancelling".split()}


@pytest.mark.parametrize("name", ["silent-runs-are-crashed", "crashed-runs-go-on"])
def test_what_ends_a_run_ends_the_wait_for_its_heartbeat(name):
    trigger = read(ROOT / f"deploy/automations/{name}.yaml")["trigger"]
    assert set(trigger["expect"]) >= ENDS and trigger["posture"] == "Proactive", (
        "nobody's wish to end it is undone"
    )
    # a server that was restarted lets a younger event wait for a quarter hour
    assert trigger["within"] > 300 or name != "silent-runs-are-crashed"


@contextlib.contextmanager
def running_prefect(folder, log, values, words):
    """Run a command of Prefect, and kill it with all its processes at the end."""
    command = [sys.executable, "-m", "prefect", *words.split()]
    with (
        log.open("ab") as out,
        subprocess.Popen(
            command, cwd=folder, env=values, stdout=out, stderr=out, process_group=0
        ) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@dataclass
class Server:
    """A server with a worker, and the means to ask both."""

    folder: Path
    url: str
    environment: dict[str, str]
    worker: subprocess.Popen[bytes]
    log: Path

    def prefect(self, command, *words):
        """Return the output of a Prefect command in the project's folder, without Prefect's
        variables.
        """
        return run(self.folder, "-m", "prefect", *command.split(), *words).stdout

    def deploy(self, *words):
        return run(self.folder, "-m", "pipelines.flows.deployments", *words).stdout

    def ask(self, path, body=None, method=None):
        method = method or ("GET" if body is None else "POST")
        for _ in range(20):
            answer = httpx.request(method, self.url + path, json=body, auth=LOGIN, timeout=20)
            if answer.status_code != 503:  # its database is busy: as Prefect's client does
                break
            time.sleep(1)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def start(self, deployment, steps=0, **parameters):
        """Do the same as `prefect deployment run`, without its seconds of import. Return the id of
        the flow run.
        """
        if steps:
            parameters["settings"] = {"models.smoke.pretrain.steps": steps}
        known = self.ask(f"/deployments/name/{deployment}")
        body = {"state": {"type": "SCHEDULED"}, "parameters": known["parameters"] | parameters}
        return self.ask(f"/deployments/{known['id']}/create_flow_run", body)["id"]

    def until(self, seen, seconds=400):
        return until(seen, seconds, lambda: self.log.read_text()[-4000:])

    def wait(self, run, *states):
        """The run once it is in one of these states; without states, once it has ended."""
        ends = states or ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

        def ended():
            answer = self.ask(f"/flow_runs/{run}")
            return answer if answer["state"]["type"] in ends else None

        return self.until(ended)

    def lines(self, run):
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        return [record["message"] for record in self.ask("/logs/filter", body)]

    def stages(self):
        """Processes that run a stage, DVC or a recorder of this copy."""
        stages = []
        for process in psutil.process_iter(["cmdline", "cwd", "ppid"]):
            words = " ".join(process.info["cmdline"] or [])
            is_here = (process.info["cwd"] or "").startswith(str(self.folder))
            if is_here and ("dvc" in words or "-m pipelines" in words):
                stages.append(process)
        return stages

    def trains(self):
        """Processes that pre-train. A child that is being started bears its parent's command line
        for an instant.
        """
        trains = [stage for stage in self.stages() if "pretrain" in stage.info["cmdline"]]
        parents = {stage.pid for stage in trains}
        return [stage for stage in trains if stage.info["ppid"] not in parents]

    def worker_of(self, pool, folder):
        """One more worker, with the code of a checkout of its own, killed with all its processes at
        the end.
        """
        values = self.environment | {"PYTHONPATH": str(folder)}
        values["PREFECT_API_AUTH_STRING"] = "electra:secret"
        return running_prefect(folder, self.log, values, f"worker start --pool {pool}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """`make server`, `make deploy`, `make worker` in a folder of its own, whose prefect.toml names
    a free port.
    """
    folder = git_project(tmp_path_factory.mktemp("prefect") / "project")
    shutil.copytree(ROOT / "deploy" / "automations", folder / "deploy" / "automations")
    port = free_port()
    edit(folder / "prefect.toml", ":4200", f":{port}")
    commit(folder, "A port")
    values = environment(folder, ELECTRA_POLL="1", PREFECT_LOGGING_TO_API_BATCH_INTERVAL="0.3")
    values["PREFECT_WORKER_QUERY_SECONDS"] = "1"
    values["PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_LOOP_SECONDS"] = "2"
    log = folder / "worker.log"
    login = [f"PREFECT_{name}API_AUTH_STRING=electra:secret" for name in ("", "SERVER_")]
    run(folder, "-m", "prefect", "config", "set", *login)

    start = f"server start --host 127.0.0.1 --port {port}"
    work = "worker start --pool electra --limit 1 --type process"
    with contextlib.ExitStack() as processes:
        process = processes.enter_context(running_prefect(folder, log, values, start))
        server = Server(folder, f"http://127.0.0.1:{port}/api", values, process, log)

        def answers():
            with contextlib.suppress(httpx.HTTPError):
                return server.ask("/health")

        server.until(answers)
        report = server.deploy()
        assert report.startswith(f"Prefect's server: {server.url}\n")
        assert "pretrain/electra-smoke" in report
        assert "team/electra-smoke" in server.deploy("--team")
        server.worker = processes.enter_context(running_prefect(folder, log, values, work))
        yield server


@pytest.mark.slow
def test_nobody_without_the_login_has_the_worker_run_anything(server):
    """A page in a browser on this machine can send such a request, and the server allows every
    origin.
    """
    known = server.ask("/deployments/name/pretrain/electra-smoke")
    url = f"{server.url}/deployments/{known['id']}/create_flow_run"
    headers = {"Origin": "http://elsewhere.example"}
    assert httpx.post(url, json={}, headers=headers).status_code == 401


@pytest.mark.slow
def test_a_deployment_runs_with_live_lines_and_a_result_page(server):
    settings = 'settings={"models.smoke.pretrain.steps":30}'
    server.prefect("deployment run pretrain/electra-smoke -p", settings)
    run = server.ask("/flow_runs/filter", {"limit": 1})[0]["id"]
    done = server.wait(run)
    lines = server.lines(run)
    assert done["state"]["type"] == "COMPLETED", "\n".join(lines)
    assert any("python -m pipelines pretrain smoke" in line for line in lines)
    artifacts = server.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    pages = {artifact["key"]: artifact["data"] for artifact in artifacts}
    assert "pretrain-smoke-numbers" in pages and pages["pretrain-smoke-progress"] == 100.0
    assert "build/models/smoke/results.json" in pages["pretrain-smoke"]
    assert done["name"].startswith("pretrain smoke ") and done["name"].endswith(" steps=30")
    assert any("30/30 steps" in line for line in lines)
    assert not (server.folder / "build").exists(), "the checkout is nobody's workplace"
    assert not server.stages()


@pytest.mark.slow
def test_a_deployment_goes_with_its_model_and_automations_are_renewed(server):
    automations = {entry["name"]: entry for entry in server.ask("/automations/filter", {})}
    automation = automations["crashed-runs-go-on"]
    silent = automations["silent-runs-are-crashed"]
    assert automation["trigger"]["within"] == 30
    edit(server.folder / CRASHED, "within: 30", "within: 20")
    params = server.folder / "params.yaml"
    own_model = "{length: 16, batch: 8, steps: 9, warmup: 0, learning_rate: 1.0e-3}"
    more = f"models:\n  more: {{tokens: smoke, encoder: smoke, pretrain: {own_model}}}\n"
    edit(params, "models:\n", more)
    assert "pretrain/electra-more" in server.deploy()
    shared = server.ask("/deployments/name/workflow/electra-more")
    also = {"tags": [*shared["tags"], "clone:other"]}
    server.ask(f"/deployments/{shared['id']}", also, "PATCH")
    edit(params, more, "models:\n")
    printed = server.deploy()
    assert "pretrain/electra-more is deleted" in printed and "team/" not in printed
    assert "workflow/electra-more stays: another clone has this model" in printed
    assert "clone:other" in server.ask("/deployments/name/workflow/electra-more")["tags"]
    assert server.ask(f"/automations/{automation['id']}")["trigger"]["within"] == 20
    unchanged = server.ask(f"/automations/{silent['id']}")
    assert unchanged["trigger"]["id"] == silent["trigger"]["id"], "it forgets the runs it watches"
    git(server.folder, "checkout", "--quiet", "deploy")


@pytest.mark.slow
def test_a_crashed_run_is_given_away_once(server):
    """Prefect's worker ends when it is given a run that it is already starting."""
    edit(server.folder / CRASHED, "within: 30", "within: 10")
    server.deploy()
    known = server.ask("/deployments/name/pretrain/electra-smoke")
    path = f"/deployments/{known['id']}/create_flow_run"
    runs = {}
    for name, given in (("taken", "PENDING CRASHED PENDING"), ("left", "PENDING CRASHED")):
        body = {"state": {"type": "CANCELLING"}, "work_queue_name": "nobody"}
        runs[name] = server.ask(path, body)["id"]
        give_away(server, runs[name], *given.split())

    def state_of(name):
        return server.ask(f"/flow_runs/{runs[name]}")["state"]["name"]

    server.until(lambda: state_of("left") == "AwaitingRetry", 60)
    time.sleep(5)
    assert state_of("taken") == "Pending"
    git(server.folder, "checkout", "--quiet", "deploy")


def commit_without_finetunings(server, folder, branch):
    """Commit settings to a branch by which a team has nothing to do after pre-training."""
    git(server.folder, "worktree", "add", "--quiet", "-b", branch, str(folder))
    edit(folder / "params.yaml", "models: [smoke]", "models: []")
    text = (folder / "params.yaml").read_text()
    tuned = re.sub(r"finetunings:\n(  .*\n)+", "finetunings: {}\n", text)
    (folder / "params.yaml").write_text(tuned)
    commit(folder, "Lean")


@pytest.mark.slow
def test_a_team_does_a_model_in_flow_runs_of_their_own(server, tmp_path):
    commit_without_finetunings(server, tmp_path / "lean", "lean")
    with server.worker_of("electra-lead", server.folder):
        run = server.start("team/electra-smoke", commit="lean")
        done = server.wait(run)
    assert done["state"]["type"] == "COMPLETED", "\n".join(server.lines(run))
    parts = server.ask("/flow_runs/filter", {"flow_runs": {"name": {"like_": "part smoke"}}})
    # the last does the whole; the model is made for processors
    names = {part["parameters"]["part"] for part in parts}
    assert names == {"tokens@smoke", "pretrain@smoke", ""}
    assert {part["work_queue_name"] for part in parts} == {"cpu"}
    assert {part["state"]["type"] for part in parts} == {"COMPLETED"}
    assert all(part["parent_task_run_id"] for part in parts), "the run's page leads to its parts"
    saved = git(server.folder, "for-each-ref", "--format=%(refname)")
    assert "/smoke-" in saved and "tokens" not in saved


@pytest.mark.slow
def test_a_run_that_was_taken_for_dead_goes_on_and_cancelling_it_leaves_no_process(server):
    run = server.start("pretrain/electra-smoke", steps=200_000)
    (stage,) = server.until(server.trains)
    # As after a night of a laptop: the server has not heard of the run for minutes, but it lives.
    give_away(server, run, "CRASHED")
    server.wait(run, "RUNNING")
    assert stage.is_running() and server.worker.poll() is None
    server.prefect("flow-run cancel", run)
    server.wait(run, "CANCELLED")
    server.until(lambda: not server.stages(), 40)


@pytest.mark.slow
@pytest.mark.parametrize("lead", ["alive", "dead"])
def test_a_team_that_is_cancelled_takes_its_parts_with_it(server, lead):
    """Its worker cancels them; where that is dead, each part notices by itself. Those that wait do
    not begin.
    """
    with server.worker_of("electra-lead", server.folder) as worker:
        run = server.start("team/electra-smoke", steps=300_000)
        server.until(server.trains)
        if lead == "dead":
            os.killpg(worker.pid, signal.SIGKILL)
            state = {"type": "CANCELLED", "message": "by hand"}
            server.ask(f"/flow_runs/{run}/set_state", {"state": state, "force": True})
        else:
            server.prefect("flow-run cancel", run)
        server.wait(run, "CANCELLED")
        of_run = {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}}

        def states():
            parts = server.ask("/flow_runs/filter", of_run)
            return {part["parameters"]["part"]: part["state"]["type"] for part in parts}

        server.until(lambda: {*states().values()} <= {"COMPLETED", "CANCELLED"}, 60)
        assert states()["pretrain@smoke"] == "CANCELLED"
        server.until(lambda: not server.stages(), 40)


def give_away(server, run, *states):
    """As deploy/automations do."""
    for state in states:
        name = {"name": "AwaitingRetry"} if state == "SCHEDULED" else {}
        server.ask(f"/flow_runs/{run}/set_state", {"state": {"type": state, **name}, "force": True})


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_part_a_retry_on_another(server, tmp_path):
    """The whole goes on: it waits for the part while that is crashed, and until another worker has
    taken it.
    """
    commit_without_finetunings(server, tmp_path / "short", "short")
    other = tmp_path / "other"
    git(server.folder, "clone", "--quiet", str(server.folder), str(other))
    with server.worker_of("electra-lead", server.folder):
        run = server.start("team/electra-smoke", commit="short", steps=600)
        (stage,) = server.until(server.trains)
        still = [
            process for process in stage.parents() if "-m prefect" in " ".join(process.cmdline())
        ]
        assert len(still) == 2, "the flow and its worker"
        for process in still:  # as when a machine dies
            process.suspend()
        running = {"name": {"like_": "pretrain@smoke"}, "state": {"type": {"any_": ["RUNNING"]}}}
        (part,) = server.ask("/flow_runs/filter", {"flow_runs": running})
        try:
            give_away(server, part["id"], "CRASHED")
            time.sleep(3)
            give_away(server, part["id"], "SCHEDULED")
            with server.worker_of("electra --limit 1", other):
                done = server.wait(run)
        finally:
            for process in still:
                process.resume()
    assert done["state"]["type"] == "COMPLETED", "\n".join(server.lines(run))


@pytest.mark.slow
def test_a_run_that_is_deleted_stops_after_saving(server):
    run = server.start("pretrain/electra-smoke", steps=250_000)
    server.until(server.trains)
    saved = server.until(
        lambda: list(server.folder.glob("runs/flows/smoke-*/runs/pretrain/*/step-*"))
    )
    server.prefect("flow-run delete", run)
    server.until(lambda: not server.trains(), 60)
    assert list(saved[0].parent.glob("step-*")), "what it saved stays"
    assert server.worker.poll() is None
