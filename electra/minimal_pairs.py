"""Which of two sentences a pre-trained network finds better, without labels (BLiMP: Warstadt et al., TACL 2020).

discriminator   Σ log (1 - p_t), p_t the probability that token t was replaced: how little it suspects
generator       Σ log p(x_t | all others), each token masked in turn: pseudo-log-likelihood (Salazar et al., ACL 2020)

Shapes: B rows, T tokens of a row, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from electra.inference import Model, checked, encode
from electra.pretraining.networks import Generator

ROWS, AT_ONCE = 256, 512  # rows of masked tokens in a batch; pairs that are read at once


class Pair(NamedTuple):
    """Two sentences of one paradigm, of which the first is acceptable."""

    paradigm: str
    good: str
    bad: str


def accuracies(model: Model, pairs: Iterable[Pair]) -> dict[str, float]:
    """The share of pairs, in percent, whose good sentence scores higher, by paradigm; ties count half, 50 is chance.

    Raises BadInput for a model that is neither a discriminator nor a generator.
    """
    found: dict[str, list[float]] = defaultdict(list)
    unread = iter(pairs)
    while some := list(islice(unread, AT_ONCE)):
        good_N, bad_N = (scores(model, [getattr(pair, side) for pair in some]) for side in ("good", "bad"))
        for pair, better, equal in zip(some, good_N > bad_N, good_N == bad_N, strict=True):
            found[pair.paradigm].append(100.0 * better + 50.0 * equal)
    return {paradigm: float(np.mean(each)) for paradigm, each in found.items()}


def scores(model: Model, texts: Sequence[str]) -> NDArray[np.float64]:
    """How acceptable each text is to the network: higher is better, (N,)."""
    if isinstance(model.network, Generator):
        return _likelihoods(model, texts)
    return np.array([np.log1p(-judged.probability.astype(np.float64)).sum() for judged in model.replaced(texts)])


@torch.inference_mode()
def _likelihoods(model: Model, texts: Sequence[str]) -> NDArray[np.float64]:
    """One row for each token of each text, in which it is masked; its logarithms are summed by text."""
    ids, room = model.tokenizer, model.length - 2
    read = [encode(text, ids)[0][:room] for some in checked(texts) for text in some]
    places = [(text, place) for text, tokens in enumerate(read) for place in range(len(tokens))]
    total_N = np.zeros(len(texts))
    for start in range(0, len(places), ROWS):
        some = places[start : start + ROWS]
        lengths_B = torch.tensor([len(read[text]) + 2 for text, _ in some], device=model.device)
        rows_BT = torch.full((len(some), int(lengths_B.max())), ids.pad_id, device=model.device)
        for row, (text, _) in enumerate(some):
            rows_BT[row, : len(read[text]) + 2] = torch.tensor([ids.cls_id, *read[text], ids.sep_id])
        position_B1 = torch.tensor([[place + 1] for _, place in some], device=model.device)
        original_B1 = rows_BT.gather(1, position_B1)
        logits_BV, _ = model.network(
            rows_BT.scatter(1, position_B1, ids.mask_id), torch.zeros_like(rows_BT), lengths_B, position_B1
        )
        share_BV = logits_BV[:, : ids.vocab_size].double().log_softmax(-1)
        np.add.at(total_N, [text for text, _ in some], share_BV.gather(1, original_B1)[:, 0].cpu().numpy())
    return total_N
