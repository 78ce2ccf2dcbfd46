"""Masking, sampling and labels against the rules, counted and computed by hand."""

import pytest
import torch

from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import (
    Masked,
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
    return mask(ids, lengths, SPECIAL, config, noise, VOCAB)


def test_slots_and_chosen_per_row_are_the_published_numbers():
    assert [slots(0.15, 128), slots(0.15, 512), slots(0.25, 512)] == [19, 79, 130]
    lengths = torch.tensor([3, 10, 30, 70, 127, 128])
    assert chosen_per_row(lengths, 0.15, 128).tolist() == [1, 2, 4, 10, 19, 19]


def test_masking_never_touches_specials_or_padding_and_chooses_k():
    ids, lengths = rows()
    result = masked(ObjectiveConfig(), ids, lengths)
    assert (result.ids_BT[:, 0] == SPECIAL.cls).all()  # where unused slots point
    assert torch.equal(result.weights_BN.sum(1).long(), chosen_per_row(lengths, 0.15, 32))
    targets = ids.gather(1, result.positions_BN)
    assert torch.equal(result.targets_M, targets.flatten())
    for positions, weights, length in zip(
        result.positions_BN, result.weights_BN, lengths, strict=True
    ):
        chosen = positions[weights > 0].tolist()
        assert len(set(chosen)) == len(chosen)
        assert min(chosen) > 0 and max(chosen) < length - 1


def test_a_row_without_candidates_stays_as_it_is():
    ids = torch.tensor([[2, 3, 0, 0, 0, 0], [2, 7, 3, 0, 0, 0]])
    result = masked(ObjectiveConfig(mask_token_rate=1.0), ids, torch.tensor([2, 3]))
    assert result.weights_BN.tolist() == [[0.0], [1.0]]
    assert result.ids_BT.tolist() == [[2, 3, 0, 0, 0, 0], [2, 4, 3, 0, 0, 0]]


@pytest.mark.parametrize(
    "changes, mask_share, random_share",
    [
        ({}, 0.85, 0.0),
        ({"name": "mlm"}, 0.8, 0.1),
        ({"name": "mlm", "mask_token_rate": 0.85, "random_token_rate": 0.0}, 0.85, 0.0),
    ],
)
def test_shares_of_mask_kept_and_random(changes, mask_share, random_share):
    ids, lengths = rows(3000)
    result = masked(ObjectiveConfig(**changes), ids, lengths)
    chosen = result.weights_BN.flatten() > 0
    targets = result.targets_M[chosen]
    written = result.ids_BT.gather(1, result.positions_BN).flatten()[chosen]
    random = (written != SPECIAL.mask) & (written != targets)
    spread = 4 * (0.25 / len(written)) ** 0.5
    assert abs((written == SPECIAL.mask).float().mean() - mask_share) < spread
    assert abs(random.float().mean() - random_share * (1 - 2 / VOCAB)) < spread


@pytest.mark.parametrize(
    "changes, scale, never",
    [({}, 1.0, []), ({"temperature": 2.0}, 0.5, []), ({"disallow_correct": True}, 1.0, [3])],
)
def test_sampling_follows_the_softmax(changes, scale, never):
    torch.manual_seed(0)
    count = 50_000
    logits = torch.randn(12) * 2
    targets = torch.full((count,), 3)
    drawn = sample(logits.expand(count, -1), torch.rand(count), ObjectiveConfig(**changes), targets)
    logits[never] = -torch.inf
    expected = (logits * scale).softmax(-1)
    share = torch.bincount(drawn, minlength=12) / count
    assert (share - expected).abs().max() < 5 * (0.25 / count) ** 0.5


def test_logits_that_are_not_finite_draw_some_id_of_the_vocabulary():
    uniform = torch.tensor([0.1, 0.5, 0.999])
    targets = torch.zeros(3, dtype=torch.long)
    for width in (12, 256, 700):
        logits = torch.zeros(3, width)
        logits[0] = torch.nan
        logits[1, 4] = torch.inf
        logits[2, 5] = torch.nan
        drawn = sample(logits, uniform, ObjectiveConfig(), targets)
        assert ((drawn >= 0) & (drawn < width)).all()


def test_replaced_only_where_the_sample_differs():
    ids = torch.tensor([[2, 10, 11, 12, 3]])
    one = Masked(
        ids, torch.tensor([[1, 3, 0]]), torch.tensor([[1.0, 1, 0]]), torch.tensor([10, 12, 2])
    )
    corrupted, replaced, counts = replace(ids, one, torch.tensor([10, 40, 33]))
    assert corrupted.tolist() == [[2, 10, 11, 40, 3]]
    assert replaced.tolist() == [[False, False, False, True, False]]
    assert counts["replaced"] == counts["sample_correct"] == 1


def test_draw_inverts_the_cumulative_distribution():
    generator = torch.Generator().manual_seed(1)
    for size in (3, 256, 257, 700):
        p = torch.rand(1, size, generator=generator).softmax(-1)
        uniform = torch.rand(4000, generator=generator)
        cumulative = p[0].double().cumsum(0)
        expected = torch.searchsorted(cumulative, uniform.double(), right=True).clamp(max=size - 1)
        # the rest lies on a rounded border
        assert (draw(p.expand(4000, -1), uniform) == expected).float().mean() > 0.995


def test_draw_never_takes_what_has_no_probability():
    p = torch.zeros(3, 600)
    p[:, [0, 255, 300]] = torch.tensor([0.25, 0.25, 0.5])
    uniform = torch.tensor([1 - 2**-24, 0.0, 0.5 - 2**-25])
    assert draw(p, uniform).tolist() == [300, 0, 255]


def test_draw_at_the_lower_edge_of_a_block_takes_nothing_without_probability():
    """The point within a block is the difference of two rounded sums, which may be an ulp below 0."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(1, 768, generator=generator).square()
    p[:, [0, 256, 512]] = 0  # the first id of every block
    p /= p.sum()
    sums = p.view(3, 256).sum(1).cumsum(0)
    edges = sums[:2, None] / sums[-1]
    uniform = (edges + torch.arange(-300, 300) * 2**-25).flatten()
    drawn = draw(p.expand(len(uniform), -1), uniform)
    assert (p[0, drawn] > 0).all()
