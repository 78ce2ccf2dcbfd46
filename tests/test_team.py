"""The services of compose.yaml, started as plain processes that work together.

No container is started here: images are played by Debian's Postgres and moto's S3; other commands are the file's own.
"""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT, environment, git_project
from tests.test_compose import LOGINS, compose

PLACES = {"postgres:5432": 0, "s3:9000": 0, "prefect:4200": 0, "mlflow:5000": 0}  # ports are chosen in a test


class Team:
    """The services of compose.yaml as processes, on free ports, in the order that they wait for each other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        # Not below pytest's folder, which each of its sessions closes to other users anew.
        self.volume = Path(tempfile.mkdtemp(prefix="electra-postgres-"))
        self.ports = {}
        for place in PLACES:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports[place] = free.getsockname()[1]
        self.project = git_project(folder / "origin")
        shutil.copytree(ROOT / "deploy", self.project / "deploy")
        for file in (self.project / "deploy/automations").iterdir():  # a heartbeat comes every 30 seconds
            file.write_text(file.read_text().replace("within: 120", "within: 45").replace("within: 30", "within: 10"))
        params = self.project / "params.yaml"
        params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
        commit = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com"]
        subprocess.run([*commit, "add", "-A"], cwd=self.project, check=True)
        subprocess.run([*commit, "commit", "-qm", "Team"], cwd=self.project, check=True)
        self.file = compose({**LOGINS, "ELECTRA_REPOSITORY": str(self.project)})
        self.values = self.variables("worker")

    def here(self, value: Any) -> str:
        """A text of the file with this machine's ports and folders."""
        text = str(value)
        for place, port in self.ports.items():
            host, inside = place.split(":")
            text = re.sub(rf"(?<![\w.-])(?:{host}|127\.0\.0\.1|localhost):{inside}\b", f"127.0.0.1:{port}", text)
            text = str(port) if text == inside else text
        return "127.0.0.1" if text == "0.0.0.0" else text

    def variables(self, name: str) -> dict[str, str]:
        told = {key: self.here(value) for key, value in self.file["services"][name].get("environment", {}).items()}
        patient = {
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
            "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
        }  # a busy machine
        return environment(self.project, PREFECT_LOGGING_TO_API_BATCH_INTERVAL="0.3", **patient, **told)

    def start(self, name: str, command: list[str] | None = None, **more: str) -> None:
        """A service: one that `restart`s goes on until the end, one that does not has to end well."""
        service = self.file["services"][name]
        values = self.variables(name) | more
        for config in service.get("configs", []):
            file = self.folder / config["source"]
            file.write_text(self.here(self.file["configs"][config["source"]]["content"]))
            values = {key: value.replace(config["target"], str(file)) for key, value in values.items()}
        words = command or [self.here(word) for word in service["command"]]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words, cwd=self.project, env=values, stdout=log, stderr=log, start_new_session=True
            )
        if service["restart"] == "no":
            assert process.wait(timeout=300) == 0, (self.folder / f"{name}.log").read_text()
            return
        self.processes[name] = process
        check = service.get("healthcheck", {}).get("test", [])
        if check and check[1] in {"pg_isready", "python"}:
            self.wait([self.here(word) for word in check[1:]], name, values, process)

    def wait(self, words: list[str], name: str, values: dict[str, str], process: subprocess.Popen[bytes]) -> None:
        """The service's own health check, until it is well."""
        words[:1] = [shutil.which("pg_isready") or f"{binaries()}/pg_isready"] if name == "postgres" else words[:1]
        words += ["--port", str(self.ports["postgres:5432"])] if name == "postgres" else []
        deadline = time.monotonic() + 300
        while subprocess.run(words, env=values, capture_output=True, check=False).returncode:
            assert process.poll() is None and time.monotonic() < deadline, (self.folder / f"{name}.log").read_text()[
                -3000:
            ]
            time.sleep(0.5)

    def postgres(self) -> None:
        """What the image of Postgres does with its variables: a superuser, its database, the script."""
        told = self.file["services"]["postgres"]["environment"]
        shutil.rmtree(self.volume, ignore_errors=True)
        self.volume.mkdir(mode=0o711)
        data, login, port = self.volume / "data", self.volume / "login", str(self.ports["postgres:5432"])
        login.write_text(told["POSTGRES_PASSWORD"])
        data.mkdir()
        own = []
        if os.geteuid() == 0:  # Postgres refuses to be root
            for path in (data, login):
                shutil.chown(path, "postgres", "postgres")
            own = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        make = [
            "initdb",
            "--username",
            told["POSTGRES_USER"],
            "--pwfile",
            login,
            "--auth",
            "scram-sha-256",
        ]
        subprocess.run(
            [*own, f"{binaries()}/{make[0]}", *map(str, make[1:]), "-D", data], check=True, capture_output=True
        )
        run = [f"{binaries()}/postgres", "-D", str(data), "-p", port, "-h", "127.0.0.1", "-k", ""]
        for database, script in (("postgres", f"CREATE DATABASE {told['POSTGRES_DB']}"), ("", "")):
            if not database:
                script = self.file["configs"]["databases"]["content"]
            single = [*own, f"{binaries()}/postgres", "--single", "-D", str(data), "postgres"]
            subprocess.run(single, input=script.rstrip(";") + "\n", text=True, check=True, capture_output=True)
        self.start("postgres", [*own, *run])

    def stop(self, *names: str) -> None:
        """End some services, or all."""
        for name in names or list(reversed(self.processes)):
            process = self.processes.pop(name)
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def tool(self, *words: str, said: str = "") -> str:
        """A program of Postgres as the docs have it run in the container; what it prints."""
        port = ["--host", "127.0.0.1", "--port", str(self.ports["postgres:5432"])]
        values = os.environ | {"PGPASSWORD": LOGINS["POSTGRES_PASSWORD"]}
        command = [f"{binaries()}/{words[0]}", *words[1:], *port]
        return subprocess.run(command, input=said, env=values, capture_output=True, text=True, check=True).stdout


def binaries() -> str:
    """Where Debian puts Postgres."""
    found = shutil.which("initdb") or next(iter(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")))), "")
    return str(Path(found).resolve().parent) if found else "."  # where psql lies, too


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    if binaries() == ".":
        pytest.skip("no Postgres here: apt install postgresql")
    made = Team(tmp_path_factory.mktemp("team"))
    try:
        made.postgres()
        store = f"127.0.0.1:{made.ports['s3:9000']}".split(":")
        made.start("s3", ["moto_server", "-H", store[0], "-p", store[1]])
        made.wait(
            [sys.executable, "-c", f"import socket; socket.create_connection({tuple(store)!r})"],
            "s3",
            made.values,
            made.processes["s3"],
        )
        for name in ("buckets", "mlflow", "prefect", "deploy"):
            made.start(name)
        (made.folder / "worker").mkdir()
        made.start("worker", ELECTRA_HOME=str(made.folder / "worker"))
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.volume)


def ask(url: str, login: str, body: Any = None) -> Any:
    import base64

    headers = {
        "Content-Type": "application/json",
        "Authorization": "Basic " + base64.b64encode(login.encode()).decode(),
    }
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_services_do_a_run_together(team: Team) -> None:
    """From nothing to a run whose model lies in the store, whose record in Postgres and whose figures in the bucket."""
    url, login = team.values["PREFECT_API_URL"], LOGINS["PREFECT_LOGIN"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(f"{url}/flow_runs/filter", "team:guess", {})
    command = [sys.executable, "-m", "prefect", "deployment", "run", "pretrain/electra-smoke", "--tag", "user:anna"]
    done = subprocess.run(command, cwd=team.project, env=team.values, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    deadline = time.monotonic() + 500
    while True:
        (run,) = ask(f"{url}/flow_runs/filter", login, {})
        if run["state"]["type"] not in {"SCHEDULED", "PENDING", "RUNNING"}:
            break
        assert time.monotonic() < deadline, (team.folder / "worker.log").read_text()[-4000:]
        time.sleep(1)
    assert run["state"]["type"] == "COMPLETED", (team.folder / "worker.log").read_text()[-4000:]

    clone = team.folder / "worker"
    sync = [sys.executable, "-m", "pipelines", "sync"]  # what a busy machine had no time for
    done = subprocess.run(
        sync, cwd=clone, env=team.values | {"PYTHONPATH": str(clone)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    import boto3

    store = {key: value for key, value in team.values.items() if key.startswith("AWS_")}
    client = boto3.client(
        "s3",
        "us-east-1",
        endpoint_url=store["AWS_ENDPOINT_URL"],
        aws_access_key_id=store["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=store["AWS_SECRET_ACCESS_KEY"],
    )
    keys = {
        bucket: [each["Key"] for each in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
        for bucket in ("mlflow", "store")
    }
    assert any(key.startswith("files/md5/") for key in keys["store"]) and any("runs/" in key for key in keys["store"])
    assert any(key.endswith("registered/smoke-discriminator/served.py") for key in keys["mlflow"]), keys["mlflow"]

    told = ask(
        f"{team.values['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/runs/search",
        f"admin:{LOGINS['MLFLOW_PASSWORD']}",
        {"experiment_ids": ["1"]},
    )
    tags = {run["info"]["run_name"]: {tag["key"]: tag["value"] for tag in run["data"]["tags"]} for run in told["runs"]}
    assert tags["pretrain@smoke"]["mlflow.user"] == "anna" and "dvc.out.build/models/smoke" in tags["pretrain@smoke"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(f"{team.values['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/experiments/get?experiment_id=1", "admin:guess")


@pytest.mark.slow
def test_a_run_whose_worker_and_flow_are_killed_goes_on_and_a_channel_is_told(team: Team) -> None:
    told: list[str] = []

    class Channel(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

    channel = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Channel)
    threading.Thread(target=channel.serve_forever, daemon=True).start()
    for _ in range(2):  # given again, it replaces the address
        notify = [sys.executable, "deploy/notify.py", f"http://127.0.0.1:{channel.server_port}/"]
        done = subprocess.run(notify, cwd=team.project, env=team.values, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def checkpoints() -> set[Path]:
        return {*(team.folder / "worker/runs/flows").glob("smoke-*/runs/pretrain/*/step-*")}

    earlier = checkpoints()  # the checkout of a run that MLflow had no time for stays
    url, login = team.values["PREFECT_API_URL"], LOGINS["PREFECT_LOGIN"]
    found = ask(f"{url}/deployments/name/pretrain/electra-smoke", login)
    settings = {"models.smoke.pretrain.steps": 1500}
    asked = {"state": {"type": "SCHEDULED"}, "parameters": {**found["parameters"], "settings": settings}}
    run = ask(f"{url}/deployments/{found['id']}/create_flow_run", login, asked)["id"]
    log = team.folder / "worker.log"

    def until(seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 900  # of a run that hangs: beside other work 400 did not do
        while not seen():
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(1)

    until(lambda: bool(checkpoints() - earlier))
    clone = str(team.folder / "worker")
    for process in psutil.process_iter():  # the worker, the flow, the stage: all at once, as when a machine dies
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ELECTRA_HOME") == clone:
                process.kill()
    until(lambda: ask(f"{url}/flow_runs/{run}", login)["state"]["type"] == "SCHEDULED")
    team.start("worker", ELECTRA_HOME=clone)
    until(lambda: ask(f"{url}/flow_runs/{run}", login)["state"]["type"] in {"COMPLETED", "FAILED"})
    state = ask(f"{url}/flow_runs/{run}", login)
    assert state["state"]["type"] == "COMPLETED" and state["run_count"] == 2, log.read_text()[-4000:]
    assert any("Crashed" in text for text in told), told
    channel.shutdown()


@pytest.mark.slow
def test_a_backup_brings_back_what_both_servers_show(team: Team) -> None:
    """The operator's page by the letter, but for the containers: dump, a new Postgres, restore, upgrade, start."""
    prefect, mlflow = team.values["PREFECT_API_URL"], f"{team.values['MLFLOW_TRACKING_URI']}/api/2.0/mlflow"
    admin = f"admin:{LOGINS['MLFLOW_PASSWORD']}"
    deployment = ask(f"{prefect}/deployments/name/pretrain/electra-base", LOGINS["PREFECT_LOGIN"])
    later = {"state": {"type": "SCHEDULED", "state_details": {"scheduled_time": "2100-01-01T00:00:00Z"}}}
    ask(f"{prefect}/deployments/{deployment['id']}/create_flow_run", LOGINS["PREFECT_LOGIN"], later)
    run = ask(f"{mlflow}/runs/create", admin, {"experiment_id": "0", "run_name": "by hand"})["run"]["info"]["run_id"]
    ask(f"{mlflow}/runs/log-metric", admin, {"run_id": run, "key": "loss", "value": 0.5, "timestamp": 1})

    def shown() -> list[Any]:
        runs = ask(f"{prefect}/flow_runs/filter", LOGINS["PREFECT_LOGIN"], {"sort": "ID_DESC"})
        told = ask(f"{mlflow}/runs/search", admin, {"experiment_ids": ["0", "1"]})["runs"]
        return [
            [(each["id"], each["name"], each["state"]["type"], each["parameters"]) for each in runs],
            sorted((each["info"]["run_id"], each["info"]["run_name"], json.dumps(each["data"])) for each in told),
            ask(f"{mlflow}/registered-models/search?max_results=100", admin),
            ask(f"{prefect}/automations/count", LOGINS["PREFECT_LOGIN"], {}),
        ]

    before = shown()
    words = {"dump": "pg_dumpall --username electra", "restore": "psql --username electra --dbname postgres"}
    page = (ROOT / "docs" / "team.md").read_text(encoding="utf-8")
    assert all(f"postgres {command}" in page for command in words.values())
    dump = team.tool(*words["dump"].split())
    team.stop(*(name for name in ("worker", "prefect", "mlflow", "postgres") if name in team.processes))
    team.postgres()  # an empty volume
    team.tool(*words["restore"].split(), said=dump)
    store = team.variables("prefect")["PREFECT_API_DATABASE_CONNECTION_URL"]
    for words_, more in (
        (["prefect", "server", "database", "upgrade", "--yes"], {"PREFECT_API_DATABASE_CONNECTION_URL": store}),
        (["mlflow", "db", "upgrade", store.replace("+asyncpg", "+psycopg2").replace("/prefect", "/mlflow")], {}),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *words_], env=team.values | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    for name in ("mlflow", "prefect"):
        team.start(name)
    assert shown() == before
