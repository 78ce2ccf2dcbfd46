"""The services of compose.yaml, started as plain processes that work together.

No container is started here: images are played by Debian's Postgres and moto's S3; other commands are the file's own.
"""

import base64
import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT, commit, environment, free_port, git_project, run, until
from tests.test_compose import LOGINS, compose

PLACES = ("postgres:5432", "s3:9000", "prefect:4200", "mlflow:5000")  # ports are chosen in a test


class Team:
    """The services of compose.yaml as processes, on free ports, in the order that they wait for each other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        # Not below pytest's folder, which each of its sessions closes to other users anew.
        self.volume = Path(tempfile.mkdtemp(prefix="electra-postgres-"))
        self.ports = {place: free_port() for place in PLACES}
        self.project = git_project(folder / "origin")
        shutil.copytree(ROOT / "deploy", self.project / "deploy")
        for file in (self.project / "deploy/automations").iterdir():  # a heartbeat comes every 30 seconds
            file.write_text(file.read_text().replace("within: 120", "within: 35").replace("within: 30", "within: 10"))
        params = self.project / "params.yaml"
        params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
        commit(self.project, "Team")
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
        patient = ("PREFECT_SERVER_DATABASE_TIMEOUT", "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT")  # a busy machine
        return environment(
            self.project, PREFECT_LOGGING_TO_API_BATCH_INTERVAL="0.3", **dict.fromkeys(patient, "60"), **told
        )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4000:]

    def start(self, name: str, command: list[str] | None = None, **more: str) -> None:
        """Start a service; one that does not `restart` has to end well, and is waited for."""
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
            assert process.wait(timeout=300) == 0, self.log(name)
        else:
            self.processes[name] = process

    def ready(self, *names: str) -> None:
        """Wait until the health checks of services are content."""
        for name in names:
            words = [self.here(word) for word in self.file["services"][name]["healthcheck"]["test"][1:]]
            if name == "postgres":
                words[:1] = [f"{binaries()}/pg_isready", "--port", str(self.ports["postgres:5432"])]
            until(functools.partial(self.healthy, name, words), tell=functools.partial(self.log, name))

    def healthy(self, name: str, words: list[str]) -> bool:
        assert self.processes[name].poll() is None, self.log(name)
        return subprocess.run(words, env=self.variables(name), capture_output=True, check=False).returncode == 0

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
        make = [*own, f"{binaries()}/initdb", "--username", told["POSTGRES_USER"], "--pwfile", login]
        subprocess.run([*make, "--auth", "scram-sha-256", "-D", data], check=True, capture_output=True)
        run = [f"{binaries()}/postgres", "-D", str(data), "-p", port, "-h", "127.0.0.1", "-k", ""]
        for database, script in (("postgres", f"CREATE DATABASE {told['POSTGRES_DB']}"), ("", "")):
            if not database:
                script = self.file["configs"]["databases"]["content"]
            single = [*own, f"{binaries()}/postgres", "--single", "-D", str(data), "postgres"]
            subprocess.run(single, input=script.rstrip(";") + "\n", text=True, check=True, capture_output=True)
        self.start("postgres", [*own, *run])
        self.ready("postgres")

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
        port = made.ports["s3:9000"]
        made.start("s3", ["moto_server", "-H", "127.0.0.1", "-p", str(port)])
        made.postgres()
        for name in ("mlflow", "prefect"):
            made.start(name)
        until(lambda: psutil.Process(made.processes["s3"].pid).net_connections(), tell=lambda: made.log("s3"))
        made.start("buckets")
        made.ready("mlflow", "prefect")
        made.start("deploy")
        (made.folder / "worker").mkdir()
        made.start("worker", ELECTRA_HOME=str(made.folder / "worker"))
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.volume)


def ask(url: str, login: str, body: Any = None) -> Any:
    known = base64.b64encode(login.encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {known}"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_services_do_a_run_together(team: Team) -> None:
    """From nothing to a run whose model lies in the store, whose record in Postgres and whose figures in the bucket."""
    url, login = team.values["PREFECT_API_URL"], LOGINS["PREFECT_LOGIN"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(f"{url}/flow_runs/filter", "team:guess", {})
    words = "-m prefect deployment run pretrain/electra-smoke --tag user:anna"
    run(team.project, *words.split(), **team.values)
    ended = until(
        lambda: [each["state"]["type"] for each in ask(f"{url}/flow_runs/filter", login, {}) if each["end_time"]],
        tell=lambda: team.log("worker"),
    )
    assert ended == ["COMPLETED"], team.log("worker")
    clone = team.folder / "worker"
    run(clone, "-m", "pipelines", "sync", **team.values | {"PYTHONPATH": str(clone)})  # what it had no time for

    import boto3

    names = {"AWS_ENDPOINT_URL": "endpoint_url", "AWS_ACCESS_KEY_ID": "aws_access_key_id"}
    names["AWS_SECRET_ACCESS_KEY"] = "aws_secret_access_key"
    client = boto3.client("s3", "us-east-1", **{word: team.values[name] for name, word in names.items()})
    keys = {
        bucket: [each["Key"] for each in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
        for bucket in ("mlflow", "store")
    }
    assert any(key.startswith("files/md5/") for key in keys["store"]) and any("runs/" in key for key in keys["store"])
    assert any(key.endswith("registered/smoke-discriminator/pyfunc_model.py") for key in keys["mlflow"]), keys["mlflow"]

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
        run(team.project, "deploy/notify.py", f"http://127.0.0.1:{channel.server_port}/", **team.values)

    def checkpoints() -> set[Path]:
        return {*(team.folder / "worker/runs/flows").glob("smoke-*/runs/pretrain/*/step-*")}

    earlier = checkpoints()  # the checkout of a run that MLflow had no time for stays
    url, login = team.values["PREFECT_API_URL"], LOGINS["PREFECT_LOGIN"]
    found = ask(f"{url}/deployments/name/pretrain/electra-smoke", login)
    settings = {f"models.smoke.pretrain.{key}": value for key, value in {"steps": 900, "save_every": 20}.items()}
    asked = {"state": {"type": "SCHEDULED"}, "parameters": {**found["parameters"], "settings": settings}}
    number = ask(f"{url}/deployments/{found['id']}/create_flow_run", login, asked)["id"]

    def wait(*states: str) -> Any:
        """The run, once it is in one of these states."""
        found = until(
            lambda: [each for each in [ask(f"{url}/flow_runs/{number}", login)] if each["state"]["type"] in states],
            seconds=900,  # beside other work 400 did not do
            tell=lambda: team.log("worker"),
        )
        return found[0]

    until(lambda: checkpoints() - earlier, tell=lambda: team.log("worker"))
    clone = str(team.folder / "worker")
    for process in psutil.process_iter():  # the worker, the flow, the stage: all at once, as when a machine dies
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ELECTRA_HOME") == clone:
                process.kill()
    wait("SCHEDULED")
    team.start("worker", ELECTRA_HOME=clone)
    done = wait("COMPLETED", "FAILED")
    assert done["state"]["type"] == "COMPLETED" and done["run_count"] == 2, team.log("worker")
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
    made = ask(f"{mlflow}/runs/create", admin, {"experiment_id": "0", "run_name": "by hand"})["run"]["info"]["run_id"]
    ask(f"{mlflow}/runs/log-metric", admin, {"run_id": made, "key": "loss", "value": 0.5, "timestamp": 1})

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
    connection = {"PREFECT_API_DATABASE_CONNECTION_URL": store}
    run(team.project, "-m", "prefect", "server", "database", "upgrade", "--yes", **team.values | connection)
    store = store.replace("+asyncpg", "+psycopg2").replace("/prefect", "/mlflow")
    run(team.project, "-m", "mlflow", "db", "upgrade", store, **team.values)
    for name in ("mlflow", "prefect"):
        team.start(name)
    team.ready("mlflow", "prefect")
    assert shown() == before
