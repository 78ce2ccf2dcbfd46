"""Shared parts of benchmarks: turns, ratios, records; and the count of tokens."""

import importlib
import os
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from benchmarks.harness import in_process, in_turns, provenance, ratios, spread, write_record
from benchmarks.tokens import count_tokens
from electra.files import read_json
from tests.support.project import ROOT


def test_arms_take_turns_and_ratios_are_of_one_round(capsys):
    order = []
    arms = {arm: lambda arm=arm: (order.append(arm), float(len(order)))[1] for arm in ("a", "b")}
    found = in_turns(arms, 2)
    assert order == ["a", "b", "a", "b"] and found == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert "round 2, b: 4.0" in capsys.readouterr().out
    assert ratios(found["b"], found["a"]) == {"median": 1.667, "lowest": 1.333, "highest": 2.0}
    assert spread([1234567.0], 3) == {
        "median": 1230000.0,
        "lowest": 1230000.0,
        "highest": 1230000.0,
    }


def test_a_record_says_where_it_comes_from(tmp_path):
    write_record(tmp_path / "x.json", {"ratio": 2}, provenance("torch"))
    found = read_json(tmp_path / "x.json")
    assert found["ratio"] == 2
    assert len(found["commit"].split()[0]) == 40
    assert found["versions"]["torch"]
    assert {"command", "machine", "recorded"} <= found.keys()


def test_a_process_returns_fails_dies_or_is_ended():
    assert in_process(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        in_process(divmod, 7, 0)
    with pytest.raises(BrokenProcessPool):
        in_process(os._exit, 1)
    with pytest.raises(TimeoutError):
        in_process(time.sleep, 60, timeout=0.1)


def test_count_tokens_leaves_out_comments_docstrings_and_blanks():
    text = '"""Two\nlines."""\n\n# A comment.\nx = (1,\n     2)  # both\n'
    text += '\n\ndef f():\n    """One."""\n    return """a\nb"""\n'
    # x = (1, 2) has 7 tokens, def f(): has 5, return and its text 2
    assert count_tokens(text) == (14, 4)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem
)
def test_every_benchmark_can_be_imported(path):
    importlib.import_module(f"benchmarks.{path.stem}")
