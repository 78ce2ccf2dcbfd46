"""Units that survive a kill and a copy: only missing or damaged ones are made again."""

import shutil

from pipelines.stages import work_units


def make(job, folder):
    (folder / "file").write_text(f"unit {job}")
    return {"made": 1, "job": job}


def finish(work, code="c"):
    key = work_units.UnitKey("f", code)
    return work_units.finish_units(work, key, make, range(5), "x", "made")


def test_damaged_units_are_made_again(tmp_path, capsys):
    expected = finish(tmp_path)
    folders = [tmp_path / f"unit-0000{number}" for number in range(5)]
    times = [folder.stat().st_mtime_ns for folder in folders]
    (folders[1] / "file").write_text("unit 9")
    (folders[3] / "MANIFEST.json").unlink()
    folders[0].rename(tmp_path / "x")
    folders[4].rename(folders[0])  # the two have changed places
    (tmp_path / "x").rename(folders[4])
    (tmp_path / ".unit-00002.tmp-999999999").mkdir()
    assert finish(tmp_path) == expected
    is_new = [
        folder.stat().st_mtime_ns != time for folder, time in zip(folders, times, strict=True)
    ]
    assert is_new == [True, True, False, True, True]
    assert sorted(tmp_path.iterdir()) == folders
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
