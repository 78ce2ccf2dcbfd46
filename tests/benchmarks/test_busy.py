"""The benchmark beside busy processes: every way and load is measured, and nothing it has started is left."""

import sys

import psutil
import pytest

from benchmarks import busy
from electra.files import read_json


@pytest.mark.slow
def test_every_way_is_measured_on_every_load(tmp_path, monkeypatch):
    out = tmp_path / "busy.json"
    words = ["--seconds", "0.1", "--turns", "1", "--others", "0", "1", "--ways", "1:", "halves:GOMP_SPINCOUNT=1000"]
    monkeypatch.setattr(sys, "argv", ["benchmarks/busy.py", *words, "--out", str(out)])
    before = psutil.Process().children(recursive=True)  # what other tests have left: a server of forks, say
    busy.main()
    ways = read_json(out)["ways"]
    assert set(ways) == {f"{way}, beside {load}" for load in (0, 1) for way in ("1:", "halves:GOMP_SPINCOUNT=1000")}
    assert all(facts["steps per second"]["lowest"] > 0 for facts in ways.values())
    left = [process for process in psutil.Process().children(recursive=True) if process not in before]
    assert all(process.status() == "zombie" for process in left)


def test_ratios_are_taken_within_a_turn():
    def turns(*rates):
        return [{"steps": rate, "wall": 1.0, "cpu": 1.0} for rate in rates]

    found = busy.table({("a", 0): turns(4, 8), ("a", 4): turns(1, 2), ("b", 0): turns(8, 4), ("b", 4): turns(2, 1)})
    assert found["b, beside 0"]["rate / rate of a"] == {"median": 1.25, "lowest": 0.5, "highest": 2.0}
    assert found["a, beside 4"]["times as long as when quiet"] == {"median": 4.0, "lowest": 4.0, "highest": 4.0}
