"""`python -m pipelines gpu-check`: on a CPU as a user gives it, and its rows and exit code when something is wrong."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import pretrain_step
from electra.config import plain
from electra.files import write_json
from pipelines.cli import main
from pipelines.commands.gpu_check import command
from pipelines.commands.gpu_check.sample import SHARINGS
from pipelines.config.params import load
from pipelines.runtime import roofline
from tests.conftest import ROOT


@pytest.mark.slow
def test_the_whole_check_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "check.json"
    assert main(["gpu-check", "--device", "cpu", "--output", str(out)]) == 0
    found = json.loads(out.read_text())
    verdicts = {record["name"]: record["verdict"] for record in found["checks"]}
    ways = [f"losses: cpu {way}" for way in ("fp32 eager", "fp32 compiled", "bf16 eager")]
    networks = [f"networks: {kind}, {of}, cpu bf16 eager" for kind in ("bert", "modern") for of in SHARINGS]
    right = [*ways, *networks, "finetune: bert, cpu", "finetune: modern, cpu", "resume: cpu"]
    assert verdicts == dict.fromkeys(right, "ok") | {"speed: tiny, 4 × 32": "measured"}
    (speed,) = found["checks"][-1]["arms"].values()
    assert speed["tokens per second"] > 0 and 0 < speed["utilisation"] < 1
    printed = capsys.readouterr().out
    assert "the same bytes" in printed and "tokens/s" in printed


def parts(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> list[list[str]]:
    """Put in place of processes: what went wrong, by a word of their command; else they leave one row that is right."""
    started: list[list[str]] = []

    def call(words: list[str], environment: dict[str, str], seconds: float) -> str:
        started.append(words)
        if wrong := next((text for word, text in answers.items() if word in " ".join(words)), ""):
            return wrong
        arm = {"tokens per second": 5.0, "peak bytes": 1, "first step seconds": 1.0, "utilisation": 0.2}
        model = {"arms": {"ours-fp32": arm}, "settings": {"pretrain": {"length": 32}}, "rows": 4, "loss at step 0": {}}
        row = {"name": "losses", "found": "", "expected": "", "verdict": "ok"}
        if "--out" in words:
            write_json(Path(words[words.index("--out") + 1]), {"models": {"tiny": model}})
        else:
            write_json(Path(words[-1]), [row])
        return ""

    monkeypatch.setattr(command, "call", call)
    return started


def check(tmp_path: Path) -> tuple[int, list[dict[str, Any]]]:
    code = main(["gpu-check", "--device", "cpu", "--output", str(tmp_path / "check.json")])
    return code, json.loads((tmp_path / "check.json").read_text())["checks"]


def test_what_fails_does_not_hide_the_rest_and_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(monkeypatch, {"losses": "CUDA error: an illegal memory access"})
    code, rows = check(tmp_path)
    assert code == 1 and [row["verdict"] for row in rows] == ["FAILED", "ok", "ok", "ok", "measured"]
    assert rows[0]["found"] == "CUDA error: an illegal memory access"


def test_without_transformers_ours_is_measured_and_the_table_says_so(tmp_path, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else there(name))
    started = parts(monkeypatch, {})
    rows = command.speed("cuda", tmp_path / "out.json", {}, 60, None)
    assert rows[-1]["verdict"] == "skipped" and "pip install transformers" in rows[-1]["found"]
    assert not any("peer" in word for words in started for word in words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seconds", "59"], "--seconds: is 59; expected a number from 60 to 3,600"),
        (["--output", "."], "--output: is the folder ."),
        (["--output", "file/check.json"], "file: is in the way"),
    ],
)
def test_what_cannot_be_is_said_before_the_first_check(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    started = parts(monkeypatch, {})
    assert main(["gpu-check", "--device", "cpu", *words]) in {64, 74} and not started
    assert sentence in capsys.readouterr().err and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_gpu_s_speed_is_put_beside_the_bound_and_its_memory_beside_the_budget() -> None:
    card = roofline.CARDS["h100"]
    rates = {"flops": roofline.PRODUCT * card.flops, "bandwidth": roofline.PASS * card.bandwidth, "memory": card.memory}
    config = load(ROOT / "params.yaml").models["base"].electra()
    arm = {"tokens per second": 4e5, "peak bytes": 16 * 2**30, "first step seconds": 1.0, "utilisation": 0.3}
    found = {"arms": {"ours-bf16": arm}, "settings": plain(config), "rows": 64, "loss at step 0": {}}
    speed, memory = command.rate("base", found, rates, "ours-bf16")
    assert 0.6 < speed["reached"] < 0.8 and "reached)" in speed["expected"] and memory["verdict"] == "ok"
    arm["peak bytes"] = 24 * 2**30
    assert command.rate("base", found, rates, "ours-bf16")[1]["verdict"] == "FAILED"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"loss at step 0": {"ours": 60.0}, "errors": {}}, "skipped"),  # the time was over before any arm
        ({"loss at step 0": {"error": pretrain_step.LATE}, "errors": {}}, "skipped"),  # or before that
        ({"loss at step 0": {"ours": 60.0}, "errors": {"ours-bf16": pretrain_step.LATE}}, "skipped"),
        ({"loss at step 0": {"error": "out of memory"}, "errors": {}}, "FAILED"),
        ({"loss at step 0": {"ours": 60.0}, "errors": {"ours-bf16": "out of memory"}}, "FAILED"),
    ],
)
def test_speed_that_was_not_measured_says_why(found: dict[str, Any], verdict: str) -> None:
    (row,) = command.rate("small", found, None, "ours-bf16")
    assert row["verdict"] == verdict and ("out of memory" in row["found"] or "give more --seconds" in row["found"])


def test_a_gpu_that_is_asked_for_and_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert main(["gpu-check", "--device", "cuda"]) == 69
    assert "sees no GPU" in capsys.readouterr().err


def test_a_process_that_fails_tells_its_last_line_and_shows_all(capfd: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('one\\nthe reason')"]
    assert command.call(words, dict(os.environ), 60) == "the reason"
    assert capfd.readouterr().err == "one\nthe reason\n"
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert command.call(slow, dict(os.environ), 0.5).startswith("did not")
