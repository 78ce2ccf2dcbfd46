"""A team in containers, from `make team` to a restored backup. Needs a Docker engine and its
compose plugin.

TORCH and COMPILER in the environment go into the image, as in .env. The ports are a team's: none
may run here.
"""

import json
import re
import shutil
import subprocess

import httpx
import pytest

from tests.support.project import ROOT, commit, edit, git, git_project, read_text, until

COPIED = "Dockerfile .dockerignore compose.yaml Makefile README.md LICENSE pyproject.toml".split()
COPIED.append("requirements.lock")
ENDS = {"COMPLETED", "FAILED", "CANCELLED"}


def engine_answers():
    """Return whether there is a Docker engine with compose."""
    command = "docker info && docker compose version"
    return not subprocess.run(command, shell=True, capture_output=True).returncode


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not engine_answers(), reason="needs a Docker engine"),
]


class Team:
    """The containers of a clone that has the smoke model."""

    def __init__(self, folder):
        self.clone = git_project(folder / "electra")
        shutil.copytree(ROOT / "deploy", self.clone / "deploy")
        for name in COPIED:
            shutil.copy(ROOT / name, self.clone)
        (self.clone / "benchmarks/results").mkdir(parents=True)
        with (self.clone / ".gitignore").open("a") as file:
            file.write("/.env\n")
        params = self.clone / "params.yaml"
        text = params.read_text().replace("run: {models: [smoke]", "run: {models: []")
        params.write_text(re.sub(r"finetunings:\n(  .*\n)+", "finetunings: {}\n", text))
        self.set_params("tracking: none", "tracking: mlflow")

    def set_params(self, old, new):
        """Commit a change of params.yaml."""
        edit(self.clone / "params.yaml", old, new)
        commit(self.clone, f"Say {new}")

    def run(self, command, *words, stdin=""):
        """Return a command's output in the clone; it has to succeed."""
        command = [*command.split(), *words]
        done = subprocess.run(command, cwd=self.clone, input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout.strip()

    def inside(self, service, command, *words, stdin=""):
        """Return a command's output in the container of a service."""
        return self.run(f"docker compose exec -T {service} {command}", *words, stdin=stdin)

    def containers(self):
        """Return the ids of all containers."""
        return sorted(self.run("docker compose ps --all --quiet").split())

    def ask(self, path, body=None):
        """Return an answer of Prefect's (`/flow_runs/...`) or MLflow's API (`mlflow/...`)."""
        url = "http://127.0.0.1:5000/api/2.0/"
        login = ("admin", self.values["MLFLOW_PASSWORD"])
        if path.startswith("/"):
            url = "http://127.0.0.1:4200/api"
            login = ("electra", self.values["PREFECT_PASSWORD"])
        method = "GET" if body is None else "POST"
        answer = httpx.request(method, url + path, json=body, auth=login, timeout=60)
        return answer.raise_for_status().json()

    @property
    def values(self):
        """Return the values that `make team` wrote."""
        return dict(line.split("=", 1) for line in (self.clone / ".env").read_text().splitlines())

    def start(self, deployment, **settings):
        """Start a run of the smoke model, and return its id."""
        flat = {f"models.smoke.pretrain.{name}": value for name, value in settings.items()}
        command = f"prefect deployment run {deployment} --tag user:anna --param"
        printed = self.inside("lead", command, f"settings={json.dumps(flat)}")
        return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", printed)[0]

    def wait(self, run):
        """Return a flow run once it has completed."""
        done = until(lambda: self.ended(run), 1800)
        log = self.run("docker compose logs --tail 60 worker lead")
        assert done["state"]["type"] == "COMPLETED", log
        return done

    def ended(self, run):
        """Return a flow run that has ended, or None; a server that starts does not answer yet."""
        try:
            state = self.ask(f"/flow_runs/{run}")
        except httpx.HTTPError:
            return None
        return state if state["state"]["type"] in ENDS else None

    def trains(self):
        """Return the container in which a pre-training runs, or an empty text."""
        for container in self.run("docker compose ps --quiet worker").split():
            if "-m pipelines pretrain" in self.run(f"docker top {container} -eo pid,args"):
                return container
        return ""

    def saved(self):
        """Return the checkpoints of runs that go on."""
        return set(self.inside("lead", "find runs -path runs/flows/*/pretrain/*/step-*").split())


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    team = Team(tmp_path_factory.mktemp("team"))
    try:
        team.run("make team")
        yield team
    finally:
        team.run("docker compose down --volumes --timeout 30")


def test_make_team_and_plain_compose_give_the_same_containers(team):
    before = team.containers()
    team.run("docker compose up --detach --wait")
    assert team.containers() == before
    team.run("make team")
    assert team.containers() == before


def test_logins_are_on_no_command_line_and_out_of_reach_of_a_run(team):
    running = team.run("docker compose ps --quiet").split()
    lists = [team.run(f"docker top {container} -eo pid,args") for container in running]
    for name, value in team.values.items():
        assert name.startswith("TEAM_") or value not in "".join(lists), name
    for name in ("POSTGRES_PASSWORD", "MLFLOW_SECRET"):
        assert team.values[name] not in team.inside("worker", "env")
    touch = "touch /srv/origin/hooks/post-receive 2>&1 || true"
    assert "Read-only" in team.inside("worker", "sh -c", touch)


def test_a_run_takes_the_newest_commit_and_a_second_clone_its_results(team, tmp_path):
    team.set_params("steps: 20", "steps: 22")
    git(team.clone, "push", "--quiet", team.values["TEAM_ORIGIN"], "HEAD")
    done = team.wait(team.start("pretrain/electra-smoke"))
    newest = git(team.clone, "rev-parse", "HEAD")
    assert newest[:8] in done["name"], "the worker was started with the commit before"
    git(tmp_path, "clone", "--quiet", team.values["TEAM_ORIGIN"], "second")
    assert f"smoke-{newest[:12]}" in git(tmp_path / "second", "ls-remote", "origin", "refs/exps/*")
    runs = team.ask("mlflow/runs/search", {"experiment_ids": ["0", "1"]})["runs"]
    tags = [{tag["key"]: tag["value"] for tag in run["data"]["tags"]} for run in runs]
    assert {"anna"} == {run_tags["mlflow.user"] for run_tags in tags}
    here = "http://127.0.0.1:4200/"
    assert all(run_tags["prefect.url"].startswith(here) for run_tags in tags)


def test_a_worker_that_cannot_write_ends(team):
    command = "docker compose run --rm --no-deps --user 4321:4321 worker".split()
    done = subprocess.run(command, cwd=team.clone, capture_output=True, text=True)
    assert done.returncode == 1 and "Permission denied" in done.stderr


def test_a_worker_killed_after_a_restart_of_the_server_costs_a_try_of_one_part(team):
    """Prefect holds events back that follow one of before its start: the part must not wait for
    that.
    """
    team.run("docker compose up --detach --wait --scale worker=2 --no-recreate worker")
    run = team.start("team/electra-smoke", steps=12_000, save_every=200)
    until(team.saved, 900)
    team.run("docker compose restart prefect")
    team.run("docker kill", until(team.trains))
    team.wait(run)
    parts = team.ask("/flow_runs/filter", {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}})
    tries = {part["parameters"]["part"]: part["run_count"] for part in parts}
    assert tries.pop("pretrain@smoke") == 2 and {*tries.values()} == {1}, tries
    assert {part["state"]["type"] for part in parts} == {"COMPLETED"}


def test_a_run_goes_on_from_its_checkpoint_after_the_team_was_stopped(team):
    run = team.start("pretrain/electra-smoke", steps=6_000, save_every=100)
    until(team.saved, 900)
    team.run("make team-down")
    team.run("make team")
    assert team.saved() or team.ask(f"/flow_runs/{run}")["state"]["type"] == "COMPLETED"
    team.wait(run)


def test_a_backup_brings_back_what_both_servers_show(team):
    """The commands of docs/team.md by the letter."""

    def show():
        runs = team.ask("/flow_runs/filter", {"sort": "ID_DESC"})
        return [
            [(run["id"], run["name"], run["state"]["type"]) for run in runs],
            team.ask("mlflow/runs/search", {"experiment_ids": ["0", "1"]}),
        ]

    dump_command = "pg_dumpall --username electra"
    restore = "psql --username electra --dbname postgres"
    page = read_text("docs/team.md")
    assert dump_command in page and restore in page
    before = show()
    dump = team.inside("postgres", dump_command)
    team.run("make team-down")
    team.run("docker volume rm electra_postgres")
    team.run("docker compose up --detach --wait postgres")
    team.inside("postgres", restore, stdin=dump)
    team.run("make team")
    assert show() == before
