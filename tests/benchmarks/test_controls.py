"""A control differs from tiny in what its name says, and in nothing else; the page says what the record says."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import controls
from electra.config import plain
from electra.finetuning.tasks import GLUE
from pipelines.config.params import Params, load
from tests.conftest import ROOT

ABSENT = object()
HEAD = {"recipes.tiny.defaults.pooling": "cls", "recipes.tiny.defaults.fresh_layers": 0}
START = {"models.tiny.encoder.init": "published"}


@pytest.fixture(scope="module")
def params() -> Params:
    return load(ROOT / "params.yaml")


def leaves(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from leaves(value, f"{key}.{name}" if key else name)
    else:
        yield key, values


def changed(control: str, params: Params) -> dict[str, Any]:
    """Every setting that a control has otherwise than tiny, by its dotted key."""
    before, after = dict(leaves(plain(params))), dict(leaves(plain(controls.CONTROLS[control](params))))
    assert not set(before) - set(after)
    return {key: value for key, value in after.items() if before.get(key, ABSENT) != value}


@pytest.mark.parametrize(
    ("control", "settings"), [("published_head", HEAD), ("published_start", START), ("both", HEAD | START)]
)
def test_a_control_changes_what_it_says(control: str, settings: dict[str, Any], params: Params) -> None:
    assert changed(control, params) == settings


def test_another_world_has_text_rows_and_tasks_of_its_own(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    for stage in (controls.corpus, controls.tokens, controls.tasks):
        monkeypatch.setattr(stage, "run", lambda name, params, tracker: made.append(name))
    monkeypatch.setattr(controls.inputs, "survey", lambda params: None)
    found = changed("another_world", params)
    assert made == [controls.WORLD] * 3
    assert {key: value for key, value in found.items() if controls.WORLD not in key.split(".")} == {
        "finetunings.tiny.tasks": controls.WORLD
    }
    assert found[f"tasks.{controls.WORLD}.seed"] == 2
    assert [source["seed"] for source in found[f"corpora.{controls.WORLD}.sources"]] == [2]
    assert found[f"tokens.{controls.WORLD}.tokenizer.kind"] == "train"


def test_the_page_says_what_the_record_says() -> None:
    record = json.loads((ROOT / "benchmarks/results/controls.json").read_text())
    text = (ROOT / "docs/sample-world.md").read_text(encoding="utf-8").replace("−", "-")
    section = text[text.index("## Controls") : text.index("## What tiny does otherwise")]
    titles = {task.title: name for name, task in GLUE.items()} | {
        "SQuAD 2.0, F1": "squad2",
        "mean of nine": "mean_of_nine",
    }
    told = re.findall(r"^\| ([^|]*?) \|((?: -?[\d.]+ \(-?[\d.]+\) \|)+)$", section, re.M)
    assert sorted(titles[title] for title, _ in told) == sorted(titles.values())
    columns = [record["tiny"]] + [
        of["tasks"] | {"mean_of_nine": of["mean_of_nine"]} for of in map(record["controls"].get, controls.CONTROLS)
    ]
    for title, cells in told:
        scores = [of[titles[title]] for of in columns]
        expected = [f"{of['pretrained']:.1f} ({of['scratch']:.1f})" for of in scores]
        assert re.findall(r"-?[\d.]+ \(-?[\d.]+\)", cells) == expected, title
