"""Kill and resume: what counts as the same end."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pipelines.commands.gpu_check import resume
from pipelines.commands.gpu_check.sample import size

CPU = torch.device("cpu")
LAST = f"step-{size(CPU).config.pretrain.steps}"


def ends(
    monkeypatch: pytest.MonkeyPatch, losses: Sequence[float], weights: Sequence[bytes], exported: bool = True
) -> None:
    """Put in place of processes what a whole run and a killed one would leave."""

    def start(device: torch.device, folder: Path, more: Sequence[str], code: int = 0) -> None:
        at = ["whole", "killed"].index(folder.name)
        step = folder / ("step-20" if code else LAST)
        step.mkdir(parents=True)
        (step / "progress.json").write_text(json.dumps({"history": [{"loss": losses[at]}]}))
        for file in ("model.safetensors", "optimizer.safetensors"):
            (step / file).write_bytes(weights[at])
        (folder / "export.json").write_text(json.dumps(exported))

    monkeypatch.setattr(resume, "start", start)


@pytest.mark.parametrize(
    ("weights", "killed", "exact", "verdict"),
    [
        ((b"a", b"a"), 1.0, True, "ok"),
        ((b"a", b"b"), 1.0, True, "FAILED"),
        ((b"a", b"b"), 1.01, False, "ok"),
        ((b"a", b"b"), 1.5, False, "FAILED"),
    ],
)
def test_bytes_where_they_are_promised_else_a_close_loss(tmp_path, monkeypatch, weights, killed, exact, verdict):
    ends(monkeypatch, (1.0, killed), weights)
    assert resume.compare(CPU, tmp_path, deterministic=False, exact=exact)["verdict"] == verdict


def test_exports_must_be_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, (1.0, 1.0), (b"a", b"a"), exported=False)
    row = resume.compare(CPU, tmp_path, deterministic=False, exact=True)
    assert row["verdict"] == "FAILED" and "exports other weights than it saved" in row["found"]


def test_a_run_that_begins_anew_has_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, (1.0, 1.0), (b"a", b"a"))
    monkeypatch.setattr(resume, "SAVED", 40)
    assert resume.compare(CPU, tmp_path, deterministic=False, exact=True)["verdict"] == "FAILED"


def test_a_run_that_ends_otherwise_than_it_should_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with"):
        resume.start(CPU, tmp_path / "run", ["no_such_option"])
