"""Nothing executes, listens abroad or leaks: what tests/test_architecture.py cannot read off the
syntax tree.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from electra.errors import BadInput, CorruptFile
from electra.files import safe_join
from electra.storage.manifest import verify_manifest, write_checksummed
from tests.support.project import ROOT, edit, environment, files_of, git, read_text, run

BINARY = {".png", ".gz", ".xz", ".zst", ".parquet", ".woff2"}


def test_names_in_data_stay_in_their_folder(tmp_path):
    """tests/electra/storage/test_manifest.py does the same with links to folders."""
    for name in ("../up", "/etc/passwd", "a/../../up"):
        with pytest.raises(BadInput, match="outside"):
            safe_join(tmp_path, name)
        write_checksummed(tmp_path / "MANIFEST.json", {"files": {f"{name}/weights": {}}})
        with pytest.raises(BadInput, match="outside"):
            verify_manifest(tmp_path)
    assert safe_join(tmp_path, "a/b") == (tmp_path / "a" / "b").resolve()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(CorruptFile, match="link/a/b: leads over a link"):
        safe_join(tmp_path, "link/a/b")


def test_telemetry_is_off_wherever_a_tool_is_started():
    """Of the environment itself: tests/pipelines/test_environment.py."""
    assert "python pipelines/environment.py" in read_text("Dockerfile")
    assert "-master.telemetry=false" in read_text("compose.yaml"), "SeaweedFS"
    assert "analytics = false" in read_text(".dvc/config")
    assert "analytics_enabled = false" in read_text("prefect.toml")


def test_servers_listen_on_loopback():
    makefile = read_text("Makefile")
    for line in re.findall(r"^\t.*(?:server start|mlflow ui).*$", makefile, re.M):
        assert "--host 127.0.0.1" in line
    assert "0.0.0.0" not in makefile + read_text("prefect.toml")


def test_no_secret_and_no_machine_in_the_tree():
    patterns = (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"\b(?:hf_[A-Za-z0-9]{30,}|ghp_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9]{32,})\b",
        r"(?<![\w.])/(?:home|Users)/(?!electra\b)\w+",
    )
    for name in git(ROOT, "ls-files", "-z").split("\0"):
        path = ROOT / name
        if not path.is_file() or path.suffix in BINARY:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern in patterns:
            assert not re.search(pattern, text) or path == Path(__file__), f"{name}: {pattern}"


def test_the_image_is_small_and_without_rights():
    dockerfile = read_text("Dockerfile")
    users = re.findall(r"^USER (\S+)$", dockerfile, re.M)
    assert users and users[-1] not in {"root", "0"}
    assert "requirements.lock" in dockerfile
    ignored = read_text(".dockerignore")
    assert "*" in ignored.splitlines(), "what is not named stays outside"
    assert not re.search("^!(.git|build|runs|mlruns|.venv)", ignored, re.M)


@pytest.mark.slow
def test_a_secret_in_the_environment_is_written_nowhere(project):
    canary = "canary-7f3a91c2"
    values = {"HF_TOKEN": canary, "MLFLOW_TRACKING_URI": f"sqlite:///{project}/m.db"}
    edit(project / "params.yaml", "tracking: none", "tracking: mlflow")
    done = run(project, "-m", "pipelines", "corpus", "smoke", **values)
    assert (project / "m.db").is_file()
    assert not [name for name, data in files_of(project).items() if canary.encode() in data]
    assert canary not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to take the network away")
def test_a_stage_needs_no_network(project):
    command = ["unshare", "-n", sys.executable, *"-m pipelines corpus smoke".split()]
    done = subprocess.run(
        command, cwd=project, env=environment(project), capture_output=True, text=True
    )
    if "unshare failed" in done.stderr:
        pytest.skip("the kernel does not let us")
    assert done.returncode == 0, done.stderr
