"""Losses of every way to compute a step: those that agree pass; stale recordings and repeated dropout do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from electra.pretraining import gradients
from pipelines.commands.gpu_check import losses, sample
from pipelines.commands.gpu_check.losses import CPU, Mode
from pipelines.commands.gpu_check.sample import Size, size
from tests.electra.pretraining.test_step import Rerun


def tiny(device: torch.device) -> Size:
    whole = size(CPU)
    return replace(whole, config=replace(whole.config, pretrain=replace(whole.config.pretrain, batch=4)))


class Stale(Rerun):
    """Records the work and never does it again."""

    def __call__(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        return lambda: None, work()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], dict[str, str]]:
    """The verdicts by name, with a recorder in place of CUDA graphs."""

    def check(recorder: Any) -> dict[str, str]:
        plain = Mode(CPU, "fp32")
        monkeypatch.setattr(losses, "modes", lambda device: [plain, replace(plain, record=recorder)])
        monkeypatch.setattr(losses, "size", tiny)
        return {record["name"]: record["verdict"] for record in losses.check(CPU)}

    return check


def test_a_recorded_step_is_held_to_the_plain_one_and_dropout_to_its_seed(found: Any) -> None:
    names = ["losses: cpu fp32 eager", "losses: cpu fp32 recorded", "dropout: cpu fp32 recorded"]
    assert found(Rerun) == dict.fromkeys(names, "ok")


@pytest.mark.parametrize("ties", [False, True])
def test_every_network_is_checked_recorded_and_one_with_other_weights_than_its_own_fails(monkeypatch, ties):
    whole = sample.networks(CPU)
    few = {name: whole[name] for name in ("bert, all", "modern, embeddings", "modern, tokens")}
    monkeypatch.setattr(losses, "networks", lambda device: few)
    monkeypatch.setattr(losses, "default", lambda device: Mode(CPU, "bf16", record=Rerun))
    if ties:
        call = gradients.functional_call
        monkeypatch.setattr(gradients, "functional_call", lambda *rest, tie_weights: call(*rest))
    verdicts = {
        record["name"].split(": ")[1].rsplit(",", 1)[0]: record["verdict"] for record in losses.check_networks(CPU)
    }
    shares = "FAILED" if ties else "ok"
    assert verdicts == {"bert, all": shares, "modern, embeddings": shares, "modern, tokens": "ok"}


def test_a_recording_that_does_nothing_fails_both(found: Any) -> None:
    verdicts = found(Stale)
    assert verdicts["losses: cpu fp32 recorded"] == verdicts["dropout: cpu fp32 recorded"] == "FAILED"


def test_a_step_that_falls_back_unrecorded_is_no_success(found: Any) -> None:
    def refusing() -> Any:
        def record(work: Any) -> Any:
            raise RuntimeError("operation not permitted when stream is capturing")

        return record

    with pytest.raises(RuntimeError, match="was not recorded"):
        found(refusing)
