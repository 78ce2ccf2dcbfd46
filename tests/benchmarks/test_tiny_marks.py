"""The marks of the default run: what counts as met, and that pages say what the record says."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.tiny_marks import SQUAD, marks, spread
from electra.finetuning.tasks import GLUE

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "benchmarks/results/tiny-marks.json").read_text())
TITLES = {"SQuAD 2.0 layout, F1": SQUAD} | {task.title: name for name, task in GLUE.items()}


def arms(pretrained: list[float], scratch: list[float]) -> dict[str, dict[str, object]]:
    return {"pretrained": spread(pretrained), "scratch": spread(scratch)}


def test_a_mark_is_met_by_points_and_by_pretrainings_that_agree() -> None:
    tasks = {task: arms([80.0, 82.0, 84.0], [50.0, 50.0, 50.0]) for task in (*GLUE, SQUAD)}
    tasks["rte"] = arms([50.0, 70.0, 90.0], [50.0, 49.0, 48.0])  # 21 points over scratch, of 20 of spread
    tasks["wnli"] = arms([69.0, 70.0, 71.0], [50.5, 50.5, 50.5])  # 19.5 points, and hardly any spread
    found = {mark["mark"]: mark["met"] for mark in marks(tasks, arms([84.0] * 3, [46.5] * 3), never=61.5)}
    assert found["mean of nine"] and not found["mean of nine over scratch"]
    assert found["rte over scratch"] and not found["rte over scratch in standard deviations"]
    assert not found["wnli over scratch"] and found["wnli over scratch in standard deviations"]
    assert found["SQuAD 2.0 F1 over scratch"] and found["SQuAD 2.0 F1 over never answering"]
    assert len(found) == 4 + 2 * len(GLUE)


def test_the_record_is_judged_by_these_marks() -> None:
    again = marks(RECORD["tasks"], RECORD["mean_of_nine"], RECORD["never_answering_f1"])
    assert again == RECORD["marks"] and RECORD["missed"] == [mark["mark"] for mark in again if not mark["met"]]


@pytest.mark.parametrize("page", ["README.md", "docs/sample-world.md"])
def test_pages_say_what_the_record_says(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("−", "-")
    told = re.findall(r"^\| (.+?) \| ([-\d.]+) ± ([\d.]+) \| \*\*([-\d.]+) ± ([\d.]+)\*\* \| ([-\d.]+)", text, re.M)
    assert len(told) == len(GLUE) + 2
    for title, *numbers in told:
        name = TITLES.get(title.partition(" (")[0])
        of = RECORD["tasks"][name] if name else RECORD["mean_of_nine"]
        expected = [of[arm][key] for arm in ("scratch", "pretrained") for key in ("mean", "std")]
        if name:
            expected.append(of["baselines"]["chance"] if name in GLUE else RECORD["never_answering_f1"])
        assert numbers[: len(expected)] == [f"{value:.1f}" for value in expected], title
