"""What a generator proposes for hidden words of a text, and how likely it finds each.

    electra.propose("The meal of Mopol is [MASK].", "build/models/tiny/generator")
    electra.propose("The meal of Mopol is corn.", "build/models/tiny/generator", hide=[6])      the same, by its token

Shapes: T tokens, M hidden ones, K pieces proposed for each, V vocabulary.
"""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from electra.corrupting import as_generator, write
from electra.data.tokenizer import MASK, Tokenizer
from electra.errors import BadInput, shown
from electra.inference import Model, checked


@dataclass(frozen=True, eq=False)
class Proposed:
    """What may stand in one hidden place of a text, the likeliest first."""

    token: int  # which of the text's tokens is hidden
    pieces: list[str]  # K word pieces; one that goes on a word begins with ##
    probability: NDArray[np.float32]  # (K,): of each piece
    texts: list[str]  # K: the text with each written in
    original: float | None  # the probability of the token that `hide` hid; None where the text itself has a [MASK]


def propose(
    text: str, generator: Model | str | os.PathLike[str], *, hide: Iterable[int] = (), count: int = 10
) -> list[Proposed]:
    """The likeliest pieces for every `[MASK]` in a text and every token that `hide` numbers (paper, section 2, p_G).

    All are hidden at once, as in training. Raises BadInput for a text that hides nothing, or a number beyond its
    tokens.
    """
    model = as_generator(generator, "propose()")
    ((text,),) = checked([text])
    ids, tokens, offsets_T2 = _encode(text, model.tokenizer)
    room = model.length - 2
    if len(ids) > room:
        warnings.warn(f"{model.folder}: only the first {model.length} tokens of a text are read", stacklevel=2)
    read, mask_id = ids[:room], model.tokenizer.mask_id
    numbers = set(hide)
    if wrong := [number for number in numbers if isinstance(number, bool) or number not in range(len(read))]:
        raise BadInput("hide", f"has {shown(wrong[0])}", f"numbers of tokens, 0 to {len(read) - 1}")
    hidden = sorted(numbers | {number for number, each in enumerate(read) if each == mask_id})
    if not hidden:
        raise BadInput("text", "hides nothing", f"a {MASK} where a word is to be proposed, or `hide`")
    masked = [mask_id if number in numbers else each for number, each in enumerate(read)]
    share_MV = _shares(model, masked, hidden)
    proposed = []
    for number, share_V in zip(hidden, share_MV, strict=True):
        best = share_V.topk(min(count, len(share_V)))
        pieces = [model.tokenizer.spell([each])[0] for each in best.indices.tolist()]
        changed_T = np.arange(len(tokens)) == number
        texts = [
            write(
                text,
                [*tokens[:number], piece, *tokens[number + 1 :]],
                offsets_T2,
                changed_T,
                model.tokenizer.byte_level,
            )[0]
            for piece in pieces
        ]
        original = None if ids[number] == mask_id else float(share_V[ids[number]])
        proposed.append(Proposed(number, pieces, best.values.numpy(), texts, original))
    return proposed


def _shares(model: Model, ids: list[int], hidden: list[int]) -> torch.Tensor:
    """The probability of every piece at the hidden tokens, (M, V)."""
    tokenizer = model.tokenizer
    ids_BT = torch.tensor([[tokenizer.cls_id, *ids, tokenizer.sep_id]], device=model.device)
    positions_BM = torch.tensor([hidden], device=model.device) + 1
    with torch.inference_mode():
        logits_MV, _ = model.network(ids_BT, torch.zeros_like(ids_BT), None, positions_BM)
        shares: torch.Tensor = logits_MV[:, : tokenizer.vocab_size].float().softmax(-1).cpu()
    return shares


def _encode(text: str, tokenizer: Tokenizer) -> tuple[list[int], list[str], NDArray[np.int64]]:
    """Ids, pieces and places (T, 2) of a text in which `[MASK]`, ordinary text elsewhere, hides a token."""
    ids: list[int] = []
    tokens: list[str] = []
    offsets: list[tuple[int, int]] = []
    start = 0
    parts = text.split(MASK)
    for number, part in enumerate(parts):
        if number:
            ids.append(tokenizer.mask_id)
            tokens.append(MASK)
            offsets.append((start - len(MASK), start))
        # A space before what is hidden belongs to it: byte-level pieces begin with theirs.
        read = part.rstrip() if number + 1 < len(parts) else part
        encoding = tokenizer.raw.encode(read, add_special_tokens=False)
        ids += encoding.ids
        tokens += tokenizer.spell(encoding.ids, begins=not number)
        offsets += [(start + left, start + right) for left, right in encoding.offsets]
        start += len(part) + len(MASK)
    return ids, tokens, np.array(offsets, dtype=np.int64).reshape(-1, 2)
