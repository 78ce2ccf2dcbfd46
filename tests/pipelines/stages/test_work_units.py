"""Units that survive a kill and a copy: only what is missing or damaged is made again."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pipelines.stages import work_units


def make(job: int, folder: Path) -> dict[str, Any]:
    (folder / "file").write_text(f"unit {job}")
    return {"made": 1, "job": job}


def finish(work: Path, code: str = "c") -> list[dict[str, Any]]:
    made, jobs = work_units.MadeOf("f", code), list(range(5))
    return work_units.finish_units(work, made, make, jobs, "x", "made")


def test_damaged_units_are_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = finish(tmp_path)
    times = {index: (tmp_path / f"unit-{index:05d}").stat().st_mtime_ns for index in range(5)}
    (tmp_path / "unit-00001/file").write_text("unit 9")
    (tmp_path / "unit-00003/MANIFEST.json").unlink()
    (tmp_path / ".unit-00002.tmp-999999999").mkdir()
    assert finish(tmp_path) == expected
    changed = {
        index
        for index in range(5)
        if (tmp_path / f"unit-{index:05d}").stat().st_mtime_ns != times[index]
    }
    assert changed == {1, 3} and sorted(path.name for path in tmp_path.iterdir()) == [
        f"unit-0000{i}" for i in range(5)
    ]
    warnings = capsys.readouterr().err
    assert warnings.count("it is made again") == 2 and "unit-00001/file: has sha256" in warnings


def test_units_made_before_the_code_changed_are_used_and_recorded(tmp_path, capsys):
    finish(tmp_path)
    for index in (1, 4):
        shutil.rmtree(tmp_path / f"unit-{index:05d}")
    counts = finish(tmp_path, "d")
    assert [each["code"] for each in counts] == ["c", "d", "c", "c", "d"]
    assert work_units.mixed_code(counts) == {"code": ["c", "d"]}
    assert (
        "x: 3 of 5 units were made before the code changed, and are used; `--restart`"
        in capsys.readouterr().err
    )
