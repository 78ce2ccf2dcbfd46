"""Shared parts of benchmarks: turns, ratios, records; and the count of tokens."""

import importlib

import pytest

from benchmarks.harness import in_turns, provenance, ratios, run_process, spread, write_record
from benchmarks.tokens import count_tokens
from electra.files import read_json
from tests.conftest import ROOT


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


def test_a_process_that_fails_says_its_last_line(tmp_path):
    script = tmp_path / "one.py"
    script.write_text(
        "import sys; print('note'); print('[1]') if sys.argv[1] == 'well' else sys.exit('a\\nreason')"
    )
    assert run_process(str(script), ["well"]) == [1]
    with pytest.raises(RuntimeError, match=r"^reason$"):
        run_process(str(script), ["ill"])


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
