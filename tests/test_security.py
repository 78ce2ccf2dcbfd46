"""Nothing executes, listens abroad or leaks: what tests/test_architecture.py cannot read off the
syntax tree.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from electra.errors import BadInput, UserError
from electra.files import safe_join
from electra.storage.manifest import verify_manifest, write_manifest, write_sealed
from pipelines import environment as environment_of_tools
from tests.conftest import ROOT, environment, git, run

BINARY = {".png", ".gz", ".xz", ".zst", ".parquet", ".woff2"}


def test_names_in_data_stay_in_their_folder(tmp_path):
    for name in ("../up", "/etc/passwd", "a/../../up"):
        with pytest.raises(BadInput, match="outside"):
            safe_join(tmp_path, name)
    assert safe_join(tmp_path, "a/b") == (tmp_path / "a" / "b").resolve()


def test_a_manifest_cannot_point_outside_or_through_a_linked_folder(tmp_path):
    folder = tmp_path / "step-1"
    (folder / "model").mkdir(parents=True)
    (folder / "model/weights").write_bytes(b"x")
    write_manifest(folder)
    (facts,) = verify_manifest(folder)["files"].values()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/weights").write_bytes(b"x")
    shutil.rmtree(folder / "model")
    (folder / "model").symlink_to(tmp_path / "secret")
    for name, sentence in (("../secret/weights", "outside"), ("model/weights", "is a link")):
        write_sealed(folder / "MANIFEST.json", {"files": {name: facts}})
        with pytest.raises(UserError, match=sentence):
            verify_manifest(folder)


def test_telemetry_is_off_wherever_a_tool_is_started():
    """Of the environment itself: tests/pipelines/test_environment.py."""
    assert "python pipelines/environment.py" in (ROOT / "Dockerfile").read_text()
    compose = (ROOT / "compose.yaml").read_text()
    for name in ("DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_SERVER_ANALYTICS_ENABLED"):
        assert f'{name}: "{environment_of_tools.DEFAULTS[name]}"' in compose, (
            "of the official images"
        )
    assert "analytics = false" in (ROOT / ".dvc" / "config").read_text()
    assert (
        tomllib.loads((ROOT / "prefect.toml").read_text())["server"]["analytics_enabled"] is False
    )


def test_what_the_user_has_set_wins():
    code = "import os, pipelines; print(os.environ['PREFECT_HOME'])"
    assert run(ROOT, "-c", code, PREFECT_HOME="/elsewhere").stdout == "/elsewhere\n"


def test_servers_listen_on_loopback():
    makefile = (ROOT / "Makefile").read_text()
    for line in re.findall(r"^\t.*(?:server start|mlflow ui).*$", makefile, re.M):
        assert "--host 127.0.0.1" in line
    assert "0.0.0.0" not in "".join(
        (ROOT / name).read_text() for name in ("Makefile", "prefect.toml")
    )


def test_no_secret_and_no_machine_in_the_tree():
    private_key = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
    token = re.compile(
        r"\b(?:hf_[A-Za-z0-9]{30,}|ghp_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9]{32,})\b"
    )
    home = re.compile(r"(?<![\w.])/(?:home|Users)/(?!electra\b)\w+")
    for name in git(ROOT, "ls-files", "-z").split("\0"):
        path = ROOT / name
        if not path.is_file() or path.suffix in BINARY:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern in (private_key, token, home):
            assert not pattern.search(text) or path == Path(__file__), f"{name}: {pattern.pattern}"


def test_the_image_is_pinned_small_and_without_rights():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE=[\w./-]+:[\w.-]+$", dockerfile, re.M)
    assert ":latest" not in dockerfile
    users = re.findall(r"^USER (\S+)$", dockerfile, re.M)
    assert users and users[-1] not in {"root", "0"}
    assert "requirements.lock" in dockerfile
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored, "what is not named stays outside"
    assert not [
        line
        for line in ignored
        if line.startswith(("!.git", "!build", "!runs", "!mlruns", "!.venv"))
    ]


@pytest.mark.slow
def test_a_secret_in_the_environment_is_written_nowhere(project):
    canary = "canary-7f3a91c2"
    values = {
        "HF_TOKEN": canary,
        "MY_SECRET": canary,
        "MLFLOW_TRACKING_URI": f"sqlite:///{project}/m.db",
    }
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("tracking: none", "tracking: mlflow"))
    done = run(project, "-m", "pipelines", "corpus", "smoke", **values)
    assert (project / "m.db").is_file()
    written = [path for path in project.rglob("*") if path.is_file()]
    assert not [path for path in written if canary.encode() in path.read_bytes()]
    assert canary not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to take the network away")
def test_a_stage_needs_no_network(project):
    command = ["unshare", "-n", sys.executable, "-m", "pipelines", "corpus", "smoke"]
    done = subprocess.run(
        command, cwd=project, env=environment(project), capture_output=True, text=True, check=False
    )
    if "unshare failed" in done.stderr:
        pytest.skip("the kernel does not let us")
    assert done.returncode == 0, done.stderr
