"""What a model would take: from its settings alone, before anything is there."""

import dataclasses
from pathlib import Path

import pytest

from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.cli import main
from pipelines.commands import budget
from pipelines.config.params import load
from tests.conftest import ROOT, SMOKE, copy_text

SPECIAL = SpecialIds(pad=0, cls=1, sep=2, mask=3)


def test_parameters_are_those_of_the_networks() -> None:
    config = load(ROOT / "params.yaml").models["tiny"].electra()
    for sharing in ("embeddings", "none", "tokens"):
        config = dataclasses.replace(config, objective=dataclasses.replace(config.objective, sharing=sharing))
        model = Pretraining(config, 800, SPECIAL)
        assert budget.parameters(config, 800) == sum(parameter.numel() for parameter in model.parameters())


def test_a_model_without_rows_or_experiments_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_text(tmp_path)
    Path("params.yaml").write_text(SMOKE)
    assert main(["estimate", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "20 steps read 0 M tokens" in said and "H100 or H200 a minute" in said and "disk: 0.0 GB" in said
    text = Path("text/a.txt").stat().st_size
    assert budget.text_bytes(load(), "smoke") == text
    assert budget.text_bytes(load(), "absent") == 0


def test_slices_take_less_memory_and_more_layers_more() -> None:
    config = load(ROOT / "params.yaml").models["base"].electra()
    whole = budget.memory(config, 10**8, 30_522)
    halves = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, accumulate=2))
    assert 0.4 * whole < budget.memory(halves, 10**8, 30_522) < 0.6 * whole
    deeper = dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, layers=24))
    assert budget.memory(deeper, 10**8, 30_522) > 1.8 * whole


def test_a_run_of_phases_reads_all_of_them_and_needs_room_for_the_largest_slice() -> None:
    params = load(ROOT / "params.yaml")
    model = params.models["mini_plus"]
    assert "30,500 steps read 62 M tokens" in budget.budget(
        "mini_plus", params
    )  # 27,000 x 64 x 32 and 3,500 x 16 x 128
    phases = tuple(
        dataclasses.replace(phase, batch=batch) for phase, batch in zip(model.pretrain.phases, (64, 32), strict=True)
    )
    wider = dataclasses.replace(model, pretrain=dataclasses.replace(model.pretrain, phases=phases))
    assert budget.memory(wider.electra(), 0, 8192) > budget.memory(model.electra(), 0, 8192) + 1e6
