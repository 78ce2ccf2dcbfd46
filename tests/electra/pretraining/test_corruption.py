"""Masking, sampling and labels against the rules, counted and computed by hand."""

import pytest
import torch

from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import (
    Noise,
    SpecialIds,
    chosen_per_row,
    draw,
    mask,
    replace,
    sample,
    slots,
)
from electra.seeds import torch_generator

SPECIAL = SpecialIds(pad=0, cls=2, sep=3, mask=4)
VOCAB = 50


def rows(count=400, length=32):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCAB, (count, length), generator=generator)
    lengths = torch.randint(3, length + 1, (count,), generator=generator)
    position = torch.arange(length)
    ids[:, 0] = SPECIAL.cls
    ids[position == lengths[:, None] - 1] = SPECIAL.sep
    ids[position >= lengths[:, None]] = SPECIAL.pad
    return ids, lengths


def masked(config, ids, lengths, step=0):
    noise = Noise.draw(torch_generator("cpu", 1, "noise", step), len(ids), len(ids[0]), config)
    assert len({float(part[0, 0]) for part in noise}) == 4, "each decision has numbers of its own"
    return mask(ids, lengths, SPECIAL, config, noise, VOCAB)


def test_slots_and_chosen_per_row_are_the_published_numbers():
    assert [slots(0.15, 128), slots(0.15, 512), slots(0.25, 512)] == [19, 79, 130]
    lengths = torch.tensor([3, 10, 30, 70, 127, 128])
    assert chosen_per_row(lengths, 0.15, 128).tolist() == [1, 2, 4, 10, 19, 19]


def test_masking_never_touches_specials_or_padding_and_chooses_k():
    ids, lengths = rows()
    ids[lengths > 20, 5] = SPECIAL.mask
    result = masked(ObjectiveConfig(), ids, lengths)
    positions = result.positions_BN
    counts = torch.zeros_like(ids).scatter_add(1, positions, result.weights_BN.long())
    assert counts.max() == 1 and not counts[ids < 5].any()
    assert torch.equal(counts.sum(1), chosen_per_row(lengths, 0.15, 32))
    assert torch.equal(result.targets_M, ids.gather(1, positions).flatten())
    assert (result.ids_BT[:, 0] == SPECIAL.cls).all()  # where unused slots point


def test_a_row_without_candidates_stays_as_it_is():
    ids = torch.tensor([[SPECIAL.cls, SPECIAL.sep, 0, 0, 0, 0]])
    result = masked(ObjectiveConfig(mask_token_rate=1.0), ids, torch.tensor([2]))
    assert result.weights_BN.tolist() == [[0.0]]
    assert torch.equal(result.ids_BT, ids)


@pytest.mark.parametrize(
    "changes, mask_share, random_share",
    [
        ({}, 0.85, 0.0),
        ({"name": "mlm"}, 0.8, 0.1),
        ({"name": "mlm", "random_token_rate": 0.0}, 0.8, 0.0),
        ({"mask_token_rate": 0.5, "random_token_rate": 0.5}, 0.5, 0.5),
    ],
)
def test_shares_of_mask_kept_and_random(changes, mask_share, random_share):
    ids, lengths = rows(3000)
    result = masked(ObjectiveConfig(**changes), ids, lengths)
    chosen = result.weights_BN.flatten() > 0
    targets = result.targets_M[chosen]
    written = result.ids_BT.gather(1, result.positions_BN).flatten()[chosen]
    is_mask = written == SPECIAL.mask
    is_random = ~is_mask & (written != targets)
    spread = 4 * (0.25 / len(written)) ** 0.5
    assert is_mask.float().mean() == pytest.approx(mask_share, abs=spread)
    assert not random_share or len(written[is_random].unique()) > 0.8 * VOCAB
    assert is_random.float().mean() == pytest.approx(random_share * (1 - 2 / VOCAB), abs=spread)


@pytest.mark.parametrize("size", [4, 256, 257, 700])
@pytest.mark.parametrize(
    "changes, scale, never",
    [({}, 1.0, []), ({"temperature": 2.0}, 0.5, []), ({"disallow_correct": True}, 1.0, [3])],
)
def test_sampling_inverts_the_cumulative_softmax(size, changes, scale, never):
    torch.manual_seed(0)
    logits = torch.randn(size) * 2
    uniform = torch.rand(4000)
    targets = torch.full((4000,), 3)
    drawn = sample(logits.expand(4000, -1), uniform, ObjectiveConfig(**changes), targets)
    logits[never] = -torch.inf
    cumulative = (logits.double() * scale).softmax(-1).cumsum(0)
    expected = torch.searchsorted(cumulative, uniform.double(), right=True)
    # the rest lies on a rounded border
    assert (drawn == expected).float().mean() > 0.995


@pytest.mark.parametrize("width", [12, 256, 700])
def test_logits_that_are_not_finite_draw_some_id_of_the_vocabulary(width):
    logits = torch.zeros(2, width)
    logits[:, 4] = torch.tensor([torch.nan, torch.inf])
    for number in (0.1, 0.5, 0.999):
        drawn = sample(logits, torch.full((2,), number), ObjectiveConfig(), torch.zeros(2).long())
        assert ((drawn >= 0) & (drawn < width)).all()


def test_replaced_only_where_the_sample_differs():
    ids = torch.tensor([[2, 10, 11, 12, 3]])
    chosen = masked(ObjectiveConfig(mask_rate=0.8), ids, torch.tensor([5]))
    sampled = chosen.targets_M.clone()
    sampled[[1, 3]] = 40  # the last slot is unused
    expected = ids.clone()
    expected[0, chosen.positions_BN[0, 1]] = 40
    corrupted, replaced, counts = replace(ids, chosen, sampled)
    assert torch.equal(corrupted, expected) and torch.equal(replaced, expected != ids)
    assert counts == {"replaced": 1, "sample_correct": 2}


def test_draw_never_takes_what_has_no_probability():
    p = torch.zeros(3, 600)
    p[:, [0, 255, 300]] = torch.tensor([0.25, 0.25, 0.5])
    uniform = torch.tensor([1 - 2**-24, 0.0, 0.5 - 2**-25])
    assert draw(p, uniform).tolist() == [300, 0, 255]


def test_draw_at_the_edges_of_a_block_takes_nothing_without_probability():
    """The point within a block is the difference of two rounded sums, which may be an ulp below 0
    or beyond the block's last id.
    """
    generator = torch.Generator().manual_seed(2)  # with which both happen
    p = torch.rand(1, 768, generator=generator).square()
    p[:, [0, 256, 512]] = 0  # the first id of every block
    p /= p.sum()
    sums = p.view(3, 256).sum(1).cumsum(0)
    edges = sums[:2, None] / sums[-1]
    uniform = (edges + torch.arange(-300, 300) * 2**-25).flatten()
    drawn = draw(p.expand(len(uniform), -1), uniform)
    assert (p[0, drawn] > 0).all()
