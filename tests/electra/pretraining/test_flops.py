"""FLOPs against the figures that the authors' script prints and the matmul table of the literature
study.
"""

import dataclasses

import pytest

from electra.config import build, to_jsonable
from electra.errors import BadConfig
from electra.nn.config import BertConfig, ModernBertConfig
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import (
    binary_head_flops,
    encoder_flops,
    row_flops,
    step_flops,
    token_head_flops,
    training_flops,
    training_steps,
)
from pipelines.config.params import load

VOCAB = 30522


def config(size, steps=None, warmup=0, **objective):
    """A published preset of params.yaml, with some changes."""
    values = to_jsonable(load().models[size].electra())
    values["pretrain"] |= {"warmup": warmup} | ({"steps": steps} if steps else {})
    values["objective"] |= objective
    return build(ElectraConfig, values, size)


@pytest.mark.parametrize(
    "size, changes, expected",
    [
        ("small", {}, 1.29e18),
        ("base", {}, 6.43e19),
        ("large", {}, 7.12e20),
        ("small", {"steps": 1_450_000, "name": "mlm"}, 1.42e18),  # BERT-Small
    ],
)
def test_the_authors_convention_gives_the_authors_totals(size, changes, expected):
    assert training_flops(config(size, **changes), VOCAB) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("size, megaflops", [("small", 70.2), ("base", 668), ("large", 2169)])
def test_the_matmul_convention_counts_training_a_token(size, megaflops):
    settings = config(size).pretrain
    tokens = settings.batch * settings.length
    step = step_flops(config(size), VOCAB, "matmul")
    assert step / tokens / 1e6 == pytest.approx(megaflops, rel=0.02)


BERT = BertConfig(layers=2, hidden=4, heads=2, ffn=5, embedding=2)
MODERN = ModernBertConfig(kind="modern", layers=2, hidden=4, heads=1, ffn=5, embedding=2)


@pytest.mark.parametrize(
    "encoder, convention, expected",
    [
        (BERT, "matmul", (1584, 132, 120)),
        (BERT, "authors", (3036, 363, 228)),
        (MODERN, "matmul", (1824, 264, 120)),
        (MODERN, "authors", (3174, 579, 276)),
        (dataclasses.replace(MODERN, embedding=4), "matmul", (1776, 264, 120)),
    ],
)
def test_operations_of_a_row_equal_a_count_by_hand(encoder, convention, expected):
    counted = (
        encoder_flops(encoder, 3, 7, convention),
        token_head_flops(encoder, 3, 7, convention),
        binary_head_flops(encoder, 3, convention),
    )
    assert counted == expected


def test_a_budget_that_ends_before_the_warm_up_is_refused():
    each = step_flops(config("small"), VOCAB)
    assert training_steps(config("small", steps={"flops": 99.6 * each}, warmup=100), VOCAB) == 100
    with pytest.raises(BadConfig, match="pays for 99 steps, fewer than the 100 of"):
        training_steps(config("small", steps={"flops": 99 * each}, warmup=100), VOCAB)


def test_two_stages_cost_half_the_steps_of_each_and_have_a_warm_up_each():
    values = to_jsonable(config("small", steps=200, warmup=100))
    values["objective"] |= {"training": "two_stage", "sharing": "none"}
    values["generator"]["width"] = 1.0
    staged = build(ElectraConfig, values, "here")
    generator, discriminator = row_flops(staged, staged.pretrain.length, VOCAB, "authors")
    # twice the forward pass of the network that learns, and once that of a frozen generator
    halves = 2 * generator + generator + 2 * discriminator
    assert step_flops(staged, VOCAB) == staged.pretrain.batch * halves / 2
    values["pretrain"]["warmup"] = 101
    with pytest.raises(BadConfig, match=r"warmup: is 101, should be at most half of steps \(100\)"):
        build(ElectraConfig, values, "here")
    values["pretrain"]["steps"] = {"flops": 200 * step_flops(staged, VOCAB)}
    late = build(ElectraConfig, values, "here")
    with pytest.raises(BadConfig, match="for 200 steps, 100 in each stage, fewer than the 101"):
        training_steps(late, VOCAB)
