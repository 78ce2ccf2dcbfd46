"""The recipes that pages open with, from files to a loaded model: their settings, commands and Python, at a tiny size."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from electra.config import merge
from pipelines.params import read
from tests.conftest import ROOT, copy_project, environment
from tests.test_docs import blocks

SMALL = {"layers": 1, "hidden": 16, "heads": 2, "ffn": 32, "embedding": 16}
FAST = {"batch": 8, "steps": 6, "warmup": 1, "threads": 1, "precision": "fp32", "eval_batches": 1}
WORDS = {"good": ["fine", "bright", "warm", "kind"], "bad": ["grey", "cold", "damp", "rude"]}


def first(page: str, language: str) -> str:
    """The first block of a language on a page."""
    match = re.search(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)
    assert match
    return match[1]


def sentence(draw: random.Random, label: str) -> str:
    return f"the day was {draw.choice(WORDS[label])} and the host {draw.choice(WORDS[label])}."


def project(folder: Path, page: str, smaller: dict) -> Path:
    """A copy of the project with the page's settings, less their size."""
    copy_project(folder)
    values = merge(dict(read(ROOT / "params.yaml")), blocks(ROOT / "docs" / page)[0])
    (folder / "params.yaml").write_text(json.dumps(merge(merge(values, smaller), {"tracking": "none"})))
    (folder / "data").mkdir()
    return folder


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def follow(folder: Path, page: str) -> None:
    """The page's first commands, then its first Python."""
    for command in first(page, "sh").splitlines():
        tool, *words = command.split()
        run(folder, "-m", {"electra": "pipelines", "dvc": "dvc"}[tool], *words)
    run(folder, "-c", first(page, "python"))


@pytest.mark.slow
def test_own_text_to_a_model_that_transformers_loads(tmp_path: Path) -> None:
    smaller = {"models": {"mine": {"encoder": SMALL, "pretrain": FAST}}, "tokens": {"mine": {"valid_fraction": 0.1}}}
    folder = project(tmp_path / "project", "own-text.md", smaller)
    draw = random.Random(1)
    texts = [" ".join(sentence(draw, draw.choice(["good", "bad"])) for _ in range(20)) for _ in range(300)]
    write(folder / "data/text.jsonl", [{"text": text} for text in texts])
    follow(folder, "own-text.md")
    assert (folder / "build/models/mine/discriminator/model.safetensors").is_file()


@pytest.mark.slow
def test_own_task_to_predictions_and_a_model_that_transformers_loads(tmp_path: Path) -> None:
    from electra.data import tokenizer as tokenizers
    from electra.nn.config import EncoderConfig
    from electra.nn.fresh import fresh_encoder
    from electra.nn.weights import config_json, encoder_tensors, write_folder

    folder, draw = (
        project(tmp_path / "project", "own-task.md", {"published": {"mine": {"folder": "encoder"}}}),
        random.Random(1),
    )
    for name in ("train", "dev", "new"):
        write(folder / f"data/{name}.jsonl", [{"text": sentence(draw, label), "mood": label} for label in WORDS] * 10)
    words = [*tokenizers.SPECIALS, *["the", "day", "was", "and", "host", "."], *WORDS["good"], *WORDS["bad"]]
    tokenizer = tokenizers.from_pieces(words, lowercase=True, strip_accents=None)
    tokenizers.save(tokenizer, folder / "tokenizer")
    files = {path.name: path.read_text() for path in (folder / "tokenizer").iterdir()}
    config = EncoderConfig(**SMALL, positions=32)
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    values = config_json(config, tokenizer.vocab_size, "ElectraModel")
    write_folder(folder / "encoder", tensors, values, files, "")
    follow(folder, "own-task.md")
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 20 and {answer["prediction"] for answer in answers} <= {"good", "bad"}
