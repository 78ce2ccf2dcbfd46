"""Units that survive a kill, a copy and another machine: the same bytes whoever made them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadConfig, ShareDone
from electra.workers import SHARE, VARIABLE, share
from pipelines import units

ROOT = Path(__file__).resolve().parents[3]


def make(job: int, folder: Path) -> dict[str, Any]:
    (folder / "file").write_text(f"unit {job}")
    return {"made": 1, "job": job}


def finish(work: Path, fingerprint: str = "f") -> list[dict[str, Any]]:
    jobs = list(range(5))
    return units.finish_units(work, fingerprint, make, jobs, title="x", sizes=[1] * 5, shown="made")


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")


def test_damaged_foreign_and_surplus_units_are_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = finish(tmp_path)
    times = {index: (tmp_path / f"unit-{index:05d}").stat().st_mtime_ns for index in range(5)}
    (tmp_path / "unit-00001/file").write_text("unit 9")
    (tmp_path / "unit-00003/MANIFEST.json").unlink()
    shutil.copytree(tmp_path / "unit-00000", tmp_path / "unit-00007")
    (tmp_path / ".unit-00002.tmp-999999999").mkdir()
    assert finish(tmp_path) == expected
    changed = {index for index in range(5) if (tmp_path / f"unit-{index:05d}").stat().st_mtime_ns != times[index]}
    assert changed == {1, 3} and sorted(path.name for path in tmp_path.iterdir()) == [f"unit-0000{i}" for i in range(5)]
    warnings = capsys.readouterr().err
    assert warnings.count("it is made again") == 2 and "unit-00001/file: has sha256" in warnings
    finish(tmp_path, "other settings")
    assert all((tmp_path / f"unit-{index:05d}").stat().st_mtime_ns != times[index] for index in range(5))


def test_a_share_is_every_nth_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARE, "2/3")
    with pytest.raises(ShareDone, match=r"holds 2 of 5 units, share 2/3 is done; bring the unit folders"):
        finish(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unit-00001", "unit-00004"]
    for wrong in ("0/2", "3/2", "1", "a/b", "1/2/3"):
        monkeypatch.setenv(SHARE, wrong)
        with pytest.raises(BadConfig, match="such as 1/2"):
            share()


STAGES = Path(__file__).parent / "stages"
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_corpus, test_tokens
from electra.errors import UserError
from pipelines.stages import corpus
corpus.documents.GROUP_BYTES = 0
here, stage = Path({folder!r}), {stage!r}
try:
    test_corpus.run(here, test_corpus.config(here)) if stage == "corpus" else test_tokens.run(here, here / "out", "rows")
except UserError as error:
    print(error)
    raise SystemExit(error.exit_code)
"""


@pytest.mark.slow
def test_two_machines_make_one_corpus_and_its_rows(tmp_path: Path) -> None:
    """Two processes at a time, each in a folder of its own with files of another age; then one brings it together."""
    sys.path.insert(0, str(STAGES))
    import test_corpus

    def start(folder: str, stage: str, part: str = "") -> "subprocess.Popen[str]":
        program = PROGRAM.format(tests=str(STAGES), folder=str(tmp_path / folder), stage=stage)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: "1", SHARE: part}
        return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)

    for folder, age in (("first", 0), ("second", 10**6), ("alone", 10**5)):
        (tmp_path / folder).mkdir()
        test_corpus.write(tmp_path / folder / "text")
        for file in (tmp_path / folder / "text").iterdir():
            os.utime(file, (age, age))
    for stage, work in (("corpus", "work-out"), ("tokens", "work-rows")):
        processes = [start("first", stage, "1/2"), start("second", stage, "2/2"), start("alone", stage)]
        outs = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [75, 75, 0], outs
        for unit in (tmp_path / "second" / work).glob("unit-*"):
            shutil.copytree(unit, tmp_path / "first" / work / unit.name)
        times = {path: path.stat().st_mtime_ns for path in (tmp_path / "first" / work).glob("unit-*/MANIFEST.json")}
        assert len(times) == 5
        (last,) = [start("first", stage)]
        assert last.communicate() and last.returncode == 0
        out = "out" if stage == "corpus" else "rows"
        made, alone = (
            {file.name: file.read_bytes() for file in (tmp_path / folder / out).rglob("*") if file.is_file()}
            for folder in ("first", "alone")
        )
        assert made == alone and len(made) > 3
        shutil.rmtree(tmp_path / "second" / "out", ignore_errors=True)
        shutil.copytree(tmp_path / "first" / "out", tmp_path / "second" / "out")
