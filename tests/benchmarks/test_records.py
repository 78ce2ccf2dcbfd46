"""Every record names its commit, machine, date and command, and is used."""

import re
import subprocess

import pytest

from electra.files import read_json
from tests.support.project import ROOT, git

FOLDERS = (ROOT / "benchmarks/results", ROOT / "benchmarks/notes/records")
PATHS = [*FOLDERS[0].rglob("*.json"), *FOLDERS[1].glob("*.json")]
SHALLOW = git(ROOT, "rev-parse", "--is-shallow-repository") == "true"


def origins(values):
    """Return every part of a record that names a commit, the whole one first."""
    found = []
    if isinstance(values, dict):
        found = [values] if isinstance(values.get("commit"), str) else []
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            found += origins(value)
    return found


def test_records_name_command_machine_and_date():
    for path in PATHS:
        record = read_json(path)
        origin = record.get("record", record)  # an ablation's is one level down
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", origin["recorded"]), path
        assert origin["machine"] and origin["command"], path
        assert not re.search(r"\.\./|/(?:work|root|home)/", str(origin["command"])), path


@pytest.mark.skipif(SHALLOW, reason="a shallow clone has no earlier commits")
def test_records_name_commits_of_the_history():
    commits = {}
    for path in PATHS:
        found = origins(read_json(path))
        assert found, f"{path}: no commit"
        commits |= {str(origin["commit"]).split()[0]: str(path) for origin in found}
    names = "\n".join(f"{commit}^{{commit}}" for commit in commits)
    command = ["git", "cat-file", "--batch-check"]
    answer = subprocess.run(command, cwd=ROOT, input=names, capture_output=True, text=True).stdout
    missing = [commits[line.split("^")[0]] for line in answer.splitlines() if "missing" in line]
    assert not missing


def test_every_record_is_used():
    pages = [*(ROOT / "benchmarks").rglob("*.md"), *(ROOT / "docs").glob("*.md")]
    pages += [ROOT / "README.md", *(ROOT / "benchmarks").glob("*.py")]
    text = "".join(page.read_text() for page in pages)
    names = {path.stem for path in PATHS} | {path.stem for path in FOLDERS[0].glob("*.svg")}
    names -= {path.stem for path in (FOLDERS[0] / "ablations").iterdir()}  # the report reads these
    short = {name: name.removeprefix("real-text-") for name in names}  # as benchmarks/pages.py does
    unused = [name for name in names if name not in text and f'"{short[name]}"' not in text]
    assert not unused
