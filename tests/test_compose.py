"""compose.yaml and the Dockerfile, without an engine: nothing starts without logins or is open to
other machines.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support.project import ROOT, git, read_text, until

COMPOSE = ROOT / "compose.yaml"


def interpolate(values):
    """Return compose.yaml with ${NAME}, ${NAME:-default} and ${NAME:?message} replaced as compose
    replaces them.
    """

    def replace(match):
        name, mark, rest = match.groups()
        assert name in values or mark in {"-", ":-"}, f"{name}: {rest}"
        return values.get(name) or rest

    text = re.sub(r"\$\{(\w+)(?:(:?[-?])([^}]*))?\}", replace, COMPOSE.read_text())
    return YAML(typ="safe").load(text)


def make_team(folder):
    """Run `make team` with a docker that does nothing, and return the values in .env."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/docker").write_text("#!/bin/sh\n")
    (folder / "bin/docker").chmod(0o755)
    values = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    subprocess.run(["make", "-f", ROOT / "Makefile", "team"], cwd=folder, env=values, check=True)
    lines = (folder / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def team(tmp_path):
    """A small repository in which `make team` may be given."""
    folder = tmp_path / "team"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "One")
    return folder


def test_make_team_writes_logins_of_its_own_once_and_for_the_owner_alone(team):
    values = make_team(team)
    assert (team / ".env").stat().st_mode & 0o777 == 0o600
    assert values["TEAM_USER"] == f"{team.stat().st_uid}:{team.stat().st_gid}"
    origin = Path(values["TEAM_ORIGIN"])
    assert git(origin, "rev-parse", "--is-bare-repository") == "true"
    assert git(origin, "rev-parse", "HEAD") == git(team, "rev-parse", "HEAD")
    logins = [value for name, value in values.items() if not name.startswith("TEAM_")]
    assert len({*logins}) == 5 and re.fullmatch("([0-9a-f]{32} ){5}", " ".join(logins) + " ")
    with (team / ".env").open("a") as file:
        file.write("TEAM_ADDRESS=10.0.0.5\n")
    assert make_team(team) == values | {"TEAM_ADDRESS": "10.0.0.5"}
    for name in values:
        with pytest.raises(AssertionError, match=f"{name}: run make team"):
            interpolate({key: value for key, value in values.items() if key != name})
    assert "/.env\n" in read_text(".gitignore")


def test_services_wait_for_each_other_and_are_open_to_this_machine_alone(team):
    values = make_team(team)
    compose = interpolate(values)
    services = compose["services"]
    logins = [value for name, value in values.items() if not name.startswith("TEAM_")]
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        command = str(service.get("command"))
        assert not [login for login in logins if login in command], "anybody can list processes"
        for other, needs in service.get("depends_on", {}).items():
            assert (
                "healthcheck" in services[other]
                or needs["condition"] == "service_completed_successfully"
            )
    assert [name for name, service in services.items() if "build" in service] == ["worker"], (
        "each service that builds an image replaces the containers of the others"
    )
    pages = {services[name]["environment"]["PREFECT_UI_URL"] for name in ("prefect", "lead")}
    assert pages == {"http://127.0.0.1:4200"}, "links in notices, logs and MLflow"


def test_images_of_others_are_named_by_digest():
    services = YAML(typ="safe").load(COMPOSE.read_text())["services"]
    images = {service["image"] for service in services.values()} - {"electra:team"}
    dockerfile = read_text("Dockerfile")
    images |= {*re.findall(r"^ARG BASE=(.*)$", dockerfile, re.M)}
    assert len(images) == 3, "Postgres, SeaweedFS, Python"
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in images)
    assert {*re.findall(r"^FROM (\S+)", dockerfile, re.M)} == {"${BASE}"}


def test_the_image_has_what_the_containers_read():
    stops = "\nSTOPSIGNAL SIGINT\n" in read_text("Dockerfile")
    assert stops, "a stage of `dvc repro` would be killed before it saves"
    kept = read_text(".dockerignore").splitlines()
    assert {"!deploy/worker", "!deploy/automations/"} <= {*kept}


def worker(folder, repository):
    """Start deploy/worker in a folder in /app's place, with a Prefect and a DVC of the test's."""
    (folder / "bin").mkdir()
    stage = "setsid sh -c 'touch stage; sleep 1; touch saved' & exec sleep 60"
    for name, script in (("dvc", ""), ("prefect", stage)):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    values = os.environ | {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "ELECTRA_REPOSITORY": str(repository),
    }
    command = ["bash", ROOT / "deploy/worker"]
    return subprocess.Popen(command, cwd=folder, env=values, process_group=0)


def test_a_container_stays_until_a_stopped_stage_has_saved(team, tmp_path):
    """The worker ends at once, and leaves a stage at its last step in a session of its own."""
    (tmp_path / "app/runs").mkdir(parents=True)
    with worker(tmp_path / "app", team) as container:
        until((tmp_path / "app/stage").exists)
        os.killpg(container.pid, signal.SIGTERM)
    assert (tmp_path / "app/saved").exists()


def test_a_worker_that_cannot_write_takes_no_run(team, tmp_path):
    (tmp_path / "app").mkdir()  # no folder for runs
    with worker(tmp_path / "app", team) as container:
        assert container.wait(timeout=60) != 0
    assert not (tmp_path / "app/stage").exists()
