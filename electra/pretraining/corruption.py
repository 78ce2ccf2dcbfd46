"""Rows to masked rows to corrupted rows and their labels: everything random between text and the
two networks.

    original   the chef cooked the meal
    chosen     ^            ^            k = round(mask_rate · tokens) of N fixed slots a row
    masked     [MASK] chef [MASK] the meal      generator's input (85 % [MASK], 15 % unchanged)
    corrupted  the chef ate the meal            discriminator's input: samples at chosen positions
    replaced   0   0    1   0   0               1 only where the sample differs from the original

The number of slots N is fixed, so every shape is static; unused slots carry weight 0. Uniform
numbers are drawn for the whole global batch and sliced by row, so neither accumulation nor the
number of processes changes a mask or a sample.

Shapes: B rows, T positions, N chosen slots a row, M = B · N, V vocabulary, K blocks of it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from electra.nn.encoder import real_tokens
from electra.pretraining.config import ObjectiveConfig


class SpecialIds(NamedTuple):
    """Token ids that the corruption must know. [UNK] is maskable, as in the original."""

    pad: int
    cls: int
    sep: int
    mask: int


def slots(mask_rate: float, length: int) -> int:
    """Return N, the slots of a row: 19 for 15 % of 128 (electra: max_predictions_per_seq)."""
    return max(1, int((mask_rate + 0.005) * length))


def chosen_per_row(lengths_B: Tensor, mask_rate: float, length: int) -> Tensor:
    """Return k of every row: max(1, min(N, round(rate · tokens))), [CLS] and [SEP] counted; half
    rounds to even.
    """
    return (lengths_B * mask_rate).round().long().clamp(1, slots(mask_rate, length))


class Noise(NamedTuple):
    """Uniform numbers in [0, 1) of one batch: which positions, which become [MASK], which token is
    sampled.
    """

    choose_BT: Tensor
    mask_BN: Tensor
    sample_BN: Tensor
    random_BN: Tensor

    @staticmethod
    def draw(
        generator: torch.Generator, rows: int, length: int, config: ObjectiveConfig
    ) -> "Noise":
        """Return the numbers for `rows` rows of `length` positions, on the generator's device."""
        count = slots(config.mask_rate, length)

        def uniform(width: int) -> Tensor:
            return torch.rand(rows, width, generator=generator, device=generator.device)

        return Noise(uniform(length), uniform(count), uniform(count), uniform(count))


class Masked(NamedTuple):
    """A masked batch."""

    ids_BT: Tensor  # generator's input
    positions_BN: Tensor  # chosen positions; 0 in unused slots
    weights_BN: Tensor  # 1.0 for a chosen slot, 0.0 for an unused one
    targets_M: Tensor  # original ids at the chosen positions


def mask(
    ids_BT: Tensor,
    lengths_B: Tensor,
    special: SpecialIds,
    config: ObjectiveConfig,
    noise: Noise,
    vocab_size: int,
) -> Masked:
    """Choose positions and mask them (electra: mask; for `mlm` BERT's 80/10/10).

    The original draws N positions with replacement. Here the k largest of one uniform number a
    candidate are taken, without replacement, as its author recommends.
    """
    length = ids_BT.shape[1]
    candidates_BT = (ids_BT != special.cls) & (ids_BT != special.sep) & (ids_BT != special.mask)
    candidates_BT &= real_tokens(lengths_B, length)
    slot_N = torch.arange(slots(config.mask_rate, length), device=ids_BT.device)
    order_BT = noise.choose_BT.masked_fill(~candidates_BT, -1.0)
    wanted_B = chosen_per_row(lengths_B, config.mask_rate, length)
    chosen_B = torch.minimum(wanted_B, candidates_BT.sum(1))
    valid_BN = slot_N < chosen_B[:, None]
    positions_BN = torch.where(valid_BN, order_BT.topk(len(slot_N), dim=1).indices, 0)
    targets_BN = ids_BT.gather(1, positions_BN)
    masked, random = config.replacement_shares
    written_BN = torch.where(noise.mask_BN < masked, special.mask, targets_BN)
    if random:
        random_BN = (noise.random_BN * vocab_size).long()
        random_slot_BN = (noise.mask_BN >= masked) & (noise.mask_BN < masked + random)
        written_BN = torch.where(random_slot_BN, random_BN, written_BN)
    masked_BT = _write(ids_BT, positions_BN, written_BN, valid_BN)
    return Masked(masked_BT, positions_BN, valid_BN.float(), targets_BN.view(-1))


def _write(ids_BT: Tensor, positions_BN: Tensor, values_BN: Tensor, valid_BN: Tensor) -> Tensor:
    """Return a copy of the ids with values at the valid positions.

    Unused slots point at position 0 ([CLS]), which is never chosen, and write its own id back.
    """
    return ids_BT.scatter(1, positions_BN, torch.where(valid_BN, values_BN, ids_BT[:, :1]))


def sample(
    logits_MV: Tensor, uniform_M: Tensor, config: ObjectiveConfig, targets_M: Tensor
) -> Tensor:
    """Return one token id a row from softmax(logits / temperature), exactly, in fp32, without
    gradient.

    Inverse of the cumulative distribution: the same distribution as the original's Gumbel-max, from
    one uniform number a row instead of V. `disallow_correct` takes the true token out first.
    """
    logits_MV = logits_MV.detach().float()
    if config.temperature != 1:
        logits_MV = logits_MV / config.temperature
    if config.disallow_correct:
        logits_MV = logits_MV.scatter(1, targets_M[:, None], float("-inf"))
    return draw(logits_MV.softmax(-1), uniform_M)


_WIDTH = 256
# times a sum: still under it after rounding, so that no token of probability 0 is ever drawn
_BELOW = 1 - 2**-23


def draw(p_MV: Tensor, uniform_M: Tensor) -> Tensor:
    """Return the id to which each row's uniform number belongs in the cumulative distribution.

    In two levels, the sums of 256 ids and then the ids of one such block: a running sum over the
    whole vocabulary is less exact, and takes ten times as long on a CPU (98 ms against 10 ms for
    304 × 30,522).
    """
    vocab_size = p_MV.shape[1]
    blocks = vocab_size // _WIDTH
    in_blocks = blocks * _WIDTH
    blocks_MK = p_MV[:, :in_blocks].reshape(len(p_MV), blocks, _WIDTH).sum(-1)
    sums_MK = torch.cat([blocks_MK, p_MV[:, in_blocks:].sum(1, True)], 1)
    upto_MK = sums_MK.cumsum(1)
    point_M1 = torch.minimum(uniform_M[:, None] * upto_MK[:, -1:], upto_MK[:, -1:] * _BELOW)
    # NaN compares as the largest: its row still draws a valid id, and the training loop notices the
    # loss that is not finite
    block_M1 = torch.searchsorted(upto_MK, point_M1, right=True).clamp_(max=upto_MK.shape[1] - 1)
    # the difference of two rounded sums may be an ulp below 0, where a first id of probability 0
    # would be drawn
    point_M1 = (point_M1 - (upto_MK - sums_MK).gather(1, block_M1)).clamp_(min=0)
    id_MW = block_M1 * _WIDTH + torch.arange(_WIDTH, device=p_MV.device)
    inside_MW = p_MV.gather(1, id_MW.clamp(max=vocab_size - 1)) * (id_MW < vocab_size)
    upto_MW = inside_MW.cumsum(1)
    point_M1 = torch.minimum(point_M1, upto_MW[:, -1:] * _BELOW)
    drawn_M1 = block_M1 * _WIDTH + torch.searchsorted(upto_MW, point_M1, right=True)
    return drawn_M1.clamp_(max=vocab_size - 1).squeeze(1)


def replace(
    ids_BT: Tensor, masked: Masked, sampled_M: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return corrupted ids (B, T), "replaced" (B, T), and counts of both.

    Replaced is true where a chosen token was sampled differently from the original.
    """
    valid_BN = masked.weights_BN > 0
    corrupted_BT = _write(
        ids_BT, masked.positions_BN, sampled_M.view_as(masked.positions_BN), valid_BN
    )
    replaced_BT = corrupted_BT != ids_BT
    correct = ((sampled_M == masked.targets_M) * masked.weights_BN.view(-1)).sum()
    return corrupted_BT, replaced_BT, {"sample_correct": correct, "replaced": replaced_BT.sum()}
