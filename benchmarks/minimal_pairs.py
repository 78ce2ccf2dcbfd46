"""A held-out sentence and itself with one change: does a pre-trained network see which is which? No labels are needed.

A word is swapped with the next, dropped or inflected. A discriminator should find more replaced tokens in the changed
sentence (`seen`), a masked language model should find the original likelier (`likelier`); 50 % is chance for both.
"""

import random
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.data.tokenizer import Tokenizer
from electra.pretraining.model import Pretraining

Pairs = list[tuple[str, str]]
LENGTH, PAIRS, BATCH = 32, 1000, 256


def minimal_pairs(sentences: list[str], known: set[str]) -> dict[str, Pairs]:
    """A sentence and itself with one change, at most PAIRS of each kind; inflected words are pieces of their own."""
    draw = random.Random(1)
    found: dict[str, Pairs] = {"swapped": [], "dropped": [], "inflected": []}
    for sentence in sentences:
        words = sentence.lower().split()
        place = draw.randrange(1, len(words) - 2)
        swapped = [*words[:place], words[place + 1], words[place], *words[place + 2 :]]
        if swapped != words:
            found["swapped"].append((" ".join(words), " ".join(swapped)))
        found["dropped"].append((" ".join(words), " ".join(words[:place] + words[place + 1 :])))
        for number, word in enumerate(words):
            other = next((each for each in _inflections(word) if {word, each} <= known), None)
            if other:
                found["inflected"].append((" ".join(words), " ".join([*words[:number], other, *words[number + 1 :]])))
                break
    return {kind: pairs[:PAIRS] for kind, pairs in found.items()}


def _inflections(word: str) -> Iterator[str]:
    for ending in ("s", "ed", "ing"):
        yield word + ending
        if word.endswith(ending):
            yield word.removesuffix(ending)


@torch.no_grad()
def seen(model: Pretraining, pairs: Pairs, tokenizer: Tokenizer) -> float:
    """Share of pairs of which the changed sentence has the higher mean logit of "replaced"; ties count half."""
    scores = []
    for side in zip(*pairs, strict=True):
        rows_BT, length_B = _rows(side, tokenizer)
        logits_BT = model.discriminator(rows_BT, torch.zeros_like(rows_BT), length_B)
        inside_BT = _inside(length_B)
        scores.append((logits_BT * inside_BT).sum(1) / inside_BT.sum(1))
    return _higher(scores[1], scores[0])


@torch.no_grad()
def likelier(model: Pretraining, pairs: Pairs, tokenizer: Tokenizer) -> float:
    """Share of pairs of which the original has the higher mean log-probability of a piece when that one is masked."""
    encoder, head = model.networks()["masked_lm"]
    scores = []
    for side in zip(*pairs, strict=True):
        rows_BT, length_B = _rows(side, tokenizer)
        row_M, place_M = _inside(length_B).nonzero(as_tuple=True)
        parts = []
        for row, place in zip(row_M.split(BATCH), place_M.split(BATCH), strict=True):
            masked_MT, each = rows_BT[row], torch.arange(len(row))
            masked_MT[each, place] = tokenizer.mask_id
            hidden_MTH = encoder(masked_MT, torch.zeros_like(masked_MT), length_B[row])
            logits_MV = head(hidden_MTH[each, place], encoder.embeddings.tables()[0])
            parts.append(-F.cross_entropy(logits_MV, rows_BT[row, place], reduction="none"))
        sum_B = torch.zeros(len(rows_BT)).index_add_(0, row_M, torch.cat(parts))
        scores.append(sum_B / (length_B - 2))
    return _higher(scores[0], scores[1])


def _rows(sentences: tuple[str, ...], tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Rows (B, LENGTH) and how many of their tokens are no padding (B,)."""
    ids = [[tokenizer.cls_id, *line[: LENGTH - 2], tokenizer.sep_id] for line in tokenizer.encode_lines(sentences)]
    rows = [each + [tokenizer.pad_id] * (LENGTH - len(each)) for each in ids]
    return torch.tensor(rows), torch.tensor([len(each) for each in ids])


def _inside(length_B: Tensor) -> Tensor:
    """Which tokens stand between [CLS] and [SEP], (B, LENGTH)."""
    place_T = torch.arange(LENGTH)
    return (place_T >= 1) & (place_T < length_B[:, None] - 1)


def _higher(first_B: Tensor, second_B: Tensor) -> float:
    return float((first_B > second_B).float().mean() + (first_B == second_B).float().mean() / 2)
