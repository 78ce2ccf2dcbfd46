"""compose.yaml: held to the schema of compose files; nothing starts without a login or is seen from outside."""

import os
import re
import signal
import subprocess
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from tests.conftest import ROOT, git, run, until

COMPOSE = ROOT / "compose.yaml"
LOGINS = {
    **{"POSTGRES_PASSWORD": "postgres1234", "S3_USER": "store1234", "S3_PASSWORD": "bucket12345678"},
    **{"PREFECT_LOGIN": "team:prefect1234", "MLFLOW_PASSWORD": "mlflow12345678", "MLFLOW_SECRET": "signs1234"},
}


def interpolated(text: str, values: dict[str, str]) -> str:
    """As compose does: ${NAME}, ${NAME:-default}, and ${NAME:?what is said where it is missing}."""

    def put(match: re.Match[str]) -> str:
        name, mark, rest = match.groups()
        assert name in values or mark in {"-", ":-"}, f"{name}: {rest}"
        return values.get(name) or rest

    return re.sub(r"\$\{(\w+)(?:(:?[-?])([^}]*))?\}", put, text)


def compose(values: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(interpolated(COMPOSE.read_text(encoding="utf-8"), values))
    return found


def test_the_file_is_one_that_compose_reads() -> None:
    run(ROOT, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE))


def test_nothing_starts_without_a_login_of_ones_own() -> None:
    example = (ROOT / "deploy" / "team.env.example").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^(?:# )?([A-Z_0-9]+)=(.*)$", example, re.M))
    text = COMPOSE.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{(\w+)", text))
    assert used - {"TEAM_USER"} == set(asked) - {"COMPOSE_PROFILES"}, "make's own, and compose's own"
    for name in LOGINS:
        assert asked[name] == "", "a default would be everybody's"
        with pytest.raises(AssertionError, match=r"deploy/team\.env"):
            compose({key: value for key, value in LOGINS.items() if key != name})
    assert "/deploy/team.env\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    done = subprocess.run(["make", "team", "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (
        "docker compose --env-file deploy/team.env up" in done.stdout and "deploy/team.env is not there" in done.stdout
    )


def test_services_wait_for_each_other_and_are_seen_by_this_machine_alone() -> None:
    found = compose(LOGINS)
    services = found["services"]
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        for other, needs in service.get("depends_on", {}).items():
            if needs["condition"] == "service_healthy":
                assert "healthcheck" in services[other], other
            else:
                assert services[other]["restart"] == "no", f"{other} ends"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source == "." or source in found["volumes"]
    settings = tomllib.loads((ROOT / "prefect.toml").read_text(encoding="utf-8"))["server"]["events"]
    kept = services["prefect"]["environment"]["PREFECT_SERVER_EVENTS_EXPIRED_BUCKET_BUFFER"]
    assert TypeAdapter(timedelta).validate_python(kept).total_seconds() == settings["expired_bucket_buffer"]
    assert services["mlflow"]["environment"]["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false", "as SECURITY.md says"
    folders = {volume.split(":")[1] for volume in services["worker"]["volumes"]}
    assert folders == {"/srv/origin", "/srv/electra/.dvc/cache", "/srv/electra/build", "/srv/electra/runs"}
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "\nSTOPSIGNAL SIGINT\n" in image, "a stage of `dvc repro` would be killed before it saves"
    for folder in folders - {"/srv/origin"}:
        assert f" {folder}" in image, "or the volume would be root's"
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for service in services.values():
        for word in service.get("command", []):
            if word.startswith("deploy/"):
                assert (ROOT / word).is_file() and f"!{word}\n" in kept
                for read in re.findall(r"\bdeploy/\w+/", (ROOT / word).read_text(encoding="utf-8")):
                    assert f"!{read}\n" in kept, f"{word} reads it in the image"


def test_prefect_copies_its_pages_to_where_the_images_user_may_write() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    server = image.partition("AS server\n")[2].partition("\nFROM")[0]
    assert "ENV PREFECT_SERVER_UI_STATIC_DIRECTORY=/home/electra/" in server, "or its address answers with 404"


def test_a_container_stays_until_a_stopped_stage_has_saved(tmp_path: Path) -> None:
    """With a worker that ends at once and leaves a stage, which is in a session of its own, at its last step."""
    (tmp_path / "origin").mkdir()
    (tmp_path / "home").mkdir()
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--message", "a")):
        git(tmp_path / "origin", *words)
    worker = tmp_path / "prefect"
    worker.write_text("#!/bin/sh\nsetsid sh -c 'touch stage; sleep 1; touch saved' & exec sleep 60\n")
    worker.chmod(0o755)
    own = {"ELECTRA_HOME": str(tmp_path / "home"), "ELECTRA_REPOSITORY": str(tmp_path / "origin")}
    values = {**os.environ, **own, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with subprocess.Popen(["bash", ROOT / "deploy/worker"], env=values, start_new_session=True) as container:
        until((tmp_path / "home/stage").exists)
        os.killpg(container.pid, signal.SIGTERM)
    assert (tmp_path / "home/saved").exists()
