"""The recipes that pages open with, from files to a loaded model: their commands and Python, at a
tiny size.
"""

import json
import random
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from electra.config import merge
from tests.conftest import ROOT, copy_project, run
from tests.electra.made_up_models import write_base
from tests.test_docs import blocks

SMALL = {"layers": 1, "hidden": 16, "heads": 2, "ffn": 32, "embedding": 16}
FAST = {"batch": 8, "steps": 6, "warmup": 1, "threads": 1, "precision": "fp32", "eval_batches": 1}
WORDS = {"good": ["fine", "bright", "warm", "kind"], "bad": ["grey", "cold", "damp", "rude"]}


def first(page: str, language: str) -> str:
    """The first block of a language on a page."""
    match = re.search(
        rf"^```{language}\n(.*?)^```",
        (ROOT / "docs" / page).read_text(encoding="utf-8"),
        re.M | re.S,
    )
    assert match
    return match[1]


def sentence(draw: random.Random, label: str) -> str:
    return f"the day was {draw.choice(WORDS[label])} and the host {draw.choice(WORDS[label])}."


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def settings(folder: Path) -> Any:
    return YAML(typ="safe").load((folder / "params.yaml").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """The keys of settings, without their values."""
    return {key: shape(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def follow(folder: Path, page: str, smaller: dict[str, Any]) -> None:
    """The page's first commands in a copy of the project, settings made smaller after `new` wrote
    them; its Python.
    """
    copy_project(folder)
    shutil.copy(ROOT / "params.yaml", folder)
    draw = random.Random(1)
    (folder / "data").mkdir()
    texts = [
        " ".join(sentence(draw, draw.choice(list(WORDS))) for _ in range(20)) for _ in range(300)
    ]
    for name in ("train", "dev", "new"):
        rows = [{"text": sentence(draw, label), "mood": label} for label in [*WORDS] * 10]
        write(folder / f"data/{name}.jsonl", rows)
    if page == "own-text.md":
        shutil.rmtree(folder / "data")
        (folder / "data/text").mkdir(parents=True)
        write(folder / "data/text/a.jsonl", [{"text": text} for text in texts])
    for command in first(page, "sh").splitlines():
        tool, *words = shlex.split(command, comments=True)
        run(folder, "-m", {"electra": "pipelines", "dvc": "dvc"}[tool], *words)
        if words[0] == "new":
            made, (told, *_) = settings(folder), blocks(ROOT / "docs" / page)
            assert {key: shape(made[key]["mine"]) for key in told} == {
                key: shape(told[key]["mine"]) for key in told
            }
            (folder / "params.yaml").write_text(
                json.dumps(merge(merge(made, smaller), {"tracking": "none"}))
            )
    run(folder, "-c", first(page, "python"))


@pytest.mark.slow
def test_own_text_to_a_model_that_transformers_loads(tmp_path: Path) -> None:
    follow(
        tmp_path / "project",
        "own-text.md",
        {"encoders": {"small": SMALL}, "models": {"mine": {"pretrain": FAST}}},
    )
    assert (tmp_path / "project/build/models/mine/discriminator/model.safetensors").is_file()


@pytest.mark.slow
def test_own_task_to_predictions_and_a_model_that_answers(tmp_path: Path) -> None:
    folder, words = (
        tmp_path / "project",
        ["the", "day", "was", "and", "host", ".", *WORDS["good"], *WORDS["bad"]],
    )
    write_base(tmp_path, words, 512, "encoder")
    smaller = {
        "published": {"own": {"folder": "../encoder"}},
        "finetunings": {"mine": {"model": "own"}},
    }
    follow(folder, "own-task.md", smaller)
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 20 and {answer["prediction"] for answer in answers} <= {"good", "bad"}
