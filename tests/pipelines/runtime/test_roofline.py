"""The roofline: beside an independent count of operations and bytes, and memory that slices save."""

import dataclasses
from typing import Any

import pytest

from electra.pretraining.corruption import SpecialIds
from electra.pretraining.flops import training_flops, training_steps
from electra.pretraining.model import Pretraining
from electra.pretraining.phases import phases_of
from pipelines.config.params import Params, load
from pipelines.runtime import roofline
from pipelines.runtime.roofline import CARDS, PRODUCT, Card
from tests.conftest import ROOT

VOCAB = 30_522


@pytest.fixture(scope="module")
def shipped() -> Params:
    return load(ROOT / "params.yaml")


def changed(config: Any, section: str, **changes: Any) -> Any:
    return dataclasses.replace(config, **{section: dataclasses.replace(getattr(config, section), **changes)})


def tokens_per_second(config: Any, card: Card) -> float:
    steps = training_steps(config, VOCAB)
    (phase,) = phases_of(config.pretrain, steps)
    return steps * phase.batch * phase.length / roofline.training_bound(config, VOCAB, card)


@pytest.mark.parametrize(
    ("name", "card", "expected"),
    [
        ("small", "h100", 2.2e6),
        ("base", "h100", 0.56e6),
        ("base", "a100", 0.23e6),
        ("small", "rtx_4090", 0.62e6),
        ("base", "rtx_4090", 0.13e6),
    ],
)
def test_bounds_are_near_those_of_another_count(shipped: Params, name: str, card: str, expected: float) -> None:
    """These were counted by hand, kernel by kernel."""
    assert tokens_per_second(shipped.models[name].electra(), CARDS[card]) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        *({"name": name} for name in ("electra_15", "replace_mlm", "all_tokens_mlm", "mlm")),
        {"training": "two_stage"},
    ],
)
@pytest.mark.parametrize("model", ["small", "modern-small"])
def test_where_memory_is_free_the_bound_is_that_of_the_operations(shipped, model, changes):
    config = changed(shipped.models[model].electra(), "objective", sharing="none")
    config = changed(changed(config, "generator", width=1.0), "objective", **changes)
    seconds = roofline.training_bound(config, VOCAB, Card("ideal", 1e15, 1e30, 0))
    products = training_flops(config, VOCAB, "matmul") / (PRODUCT * 1e15)
    assert products < seconds < 1.25 * products  # attention runs at a lower rate


def test_parameters_are_those_of_the_networks(shipped: Params) -> None:
    config, special = shipped.models["tiny"].electra(), SpecialIds(pad=0, cls=1, sep=2, mask=3)
    for sharing in ("embeddings", "none", "tokens"):
        config = changed(config, "objective", sharing=sharing)
        model = Pretraining(config, 800, special)
        assert roofline.parameters(config, 800) == sum(parameter.numel() for parameter in model.parameters())


def test_slices_take_less_memory_and_more_layers_and_longer_phases_more(shipped: Params) -> None:
    config = shipped.models["base"].electra()
    whole = roofline.memory(config, 10**8, VOCAB)
    assert 0.4 * whole < roofline.memory(changed(config, "pretrain", accumulate=2), 10**8, VOCAB) < 0.6 * whole
    assert roofline.memory(changed(config, "encoder", layers=24), 10**8, VOCAB) > 1.8 * whole
    model = shipped.models["mini"].electra()
    short, long = model.pretrain.phases
    phases = (dataclasses.replace(short, batch=64), dataclasses.replace(long, batch=32))
    wider = changed(model, "pretrain", phases=phases)
    assert roofline.memory(wider, 0, 8192) > roofline.memory(model, 0, 8192) + 1e6


@pytest.mark.parametrize(
    ("model", "gigabytes", "slices"),
    [("small", 8, 1), ("base", 8, 16), ("base", 16, 8), ("base", 24, 4), ("base", 80, 1), ("large", 6, 0)],
)
def test_small_cards_hold_small_and_base_in_slices(shipped: Params, model: str, gigabytes: int, slices: int) -> None:
    config = shipped.models[model].electra()
    assert roofline.slices_that_fit(config, VOCAB, gigabytes * 1e9) == slices
    if slices > 1:
        assert roofline.slices_that_fit(config, VOCAB, gigabytes * 1e9, above=slices) == 2 * slices
        assert roofline.slices_that_fit(config, VOCAB, gigabytes * 1e9, processes=2 * slices) == 1
