"""Apply a generator to a text: `corrupt` it as in training, or `propose` tokens for hidden places.

    generator = electra.load("build/models/tiny/generator")
    electra.corrupt("the chef cooked the meal", generator).text        the chef ate the meal
    electra.propose("The meal of Mopol is [MASK].", generator)
    electra.propose("The meal of Mopol is corn.", generator, hide=[5])    the same, by its token

Shapes: B = 1 row, T tokens, M chosen or hidden positions, K pieces proposed for each, V vocabulary.
"""

import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electra.config import build
from electra.data.tokenizer import MASK
from electra.data.word_cache import CONTINUATION
from electra.errors import BadInput, short_repr
from electra.inference import Model, check_texts, encode, load, require_finite
from electra.optim.precision import autocast
from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import Noise, SpecialIds, mask, replace, sample
from electra.pretraining.networks import Generator
from electra.seeds import torch_generator

# where no word follows without a space; one may in 3.5
_ENDS = re.compile(r"[^\W_]$|(?<!\d)[.,;:!?]$")


@dataclass(frozen=True, eq=False)
class Corrupted:
    """A text with some tokens replaced by a generator's samples."""

    text: str  # with the samples written in; all other letters stay the same
    original: str
    tokens: list[str]  # T word pieces, the sampled ones among them
    offsets: NDArray[np.int64]  # (T, 2): where the original token is in `original`
    places: NDArray[np.int64]  # (T, 2): where the token is in `text`
    replaced: NDArray[np.bool_]  # (T,): whether the token differs from the original


@dataclass(frozen=True, eq=False)
class Proposed:
    """Candidates for one hidden place of a text, the likeliest first."""

    token: int  # which of the text's tokens is hidden
    pieces: list[str]  # K word pieces; one that continues a word begins with ##
    probability: NDArray[np.float32]  # (K,): of each piece
    texts: list[str]  # K: the text with each written in
    # the probability of the token that `hide` hid; None where the text itself has a [MASK]
    original: float | None


def corrupt(
    text: str,
    generator: Model | str | os.PathLike[str],
    *,
    mask_rate: float = 0.15,
    temperature: float = 1.0,
    seed: int = 0,
) -> Corrupted:
    """Return the text with some of its tokens replaced, as a discriminator is trained on it (paper,
    section 2).

    A share `mask_rate` of the tokens is chosen and masked, and the generator's samples take their
    places. Some are the original tokens again. A `[MASK]` in the text stays. The same seed gives
    the same text. Tokens beyond the generator's `length` stay as they are, with a warning. Raises
    BadInput for a model that is not a generator, BadConfig for a rate that is not a share.
    """
    model = _generator(generator, "corrupt()")
    config = build(ObjectiveConfig, {"mask_rate": mask_rate, "temperature": temperature}, "corrupt")
    check_texts([text])
    tokenizer = model.tokenizer
    ids, offsets_T2 = encode(text, tokenizer)
    ids_BT = _row(model, _shortened(model, ids, "corrupted"))
    length = ids_BT.shape[1]
    drawn = Noise.draw(torch_generator("cpu", seed, "library/corrupt"), 1, length, config)
    noise = Noise(*(values.to(model.device) for values in drawn))
    special = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    lengths_B = torch.tensor([length], device=model.device)
    masked = mask(ids_BT, lengths_B, special, config, noise, model.encoder.vocab_size)
    logits_MV = _logits(model, masked.ids_BT, masked.positions_BN)
    sampled_M = sample(logits_MV, noise.sample_BN.view(-1), config, masked.targets_M)
    corrupted_BT, replaced_BT, _ = replace(ids_BT, masked, sampled_M)
    tokens = tokenizer.spell(corrupted_BT[0, 1:-1].tolist(), begins=True)
    replaced_T = replaced_BT[0, 1:-1].cpu().numpy()
    offsets_T2 = offsets_T2[: len(tokens)]
    written, places_T2 = write(text, tokens, offsets_T2, replaced_T, tokenizer.byte_level)
    return Corrupted(written, text, tokens, offsets_T2, places_T2, replaced_T)


def propose(
    text: str,
    generator: Model | str | os.PathLike[str],
    *,
    hide: Iterable[int] = (),
    count: int = 10,
) -> list[Proposed]:
    """Return the likeliest pieces for every `[MASK]` in a text and every token in `hide` (paper,
    section 2, p_G).

    All are hidden at once, as in training. Raises BadInput for a text that hides nothing, a number
    beyond its tokens, or a model that is not a generator.
    """
    model = _generator(generator, "propose()")
    tokenizer = model.tokenizer
    check_texts([text])
    ids, offsets_T2 = encode(text, tokenizer)
    tokens = tokenizer.spell(ids, begins=True)
    read = _shortened(model, ids, "read")
    chosen = set(hide)
    for number in chosen:
        if isinstance(number, bool) or number not in range(len(read)):
            raise BadInput(
                f"hide has {short_repr(number)}; tokens are numbered from 0 to {len(read) - 1}"
            )
    masked = [tokenizer.mask_id if number in chosen else piece for number, piece in enumerate(read)]
    positions = [number for number, piece in enumerate(masked) if piece == tokenizer.mask_id]
    if not positions:
        raise BadInput(
            f"the text hides nothing; write {MASK} where a word is to be proposed, or give `hide`"
        )
    positions_BM = torch.tensor([positions], device=model.device) + 1
    logits_MV = _logits(model, _row(model, masked), positions_BM)
    proposed = []
    for number, share_V in zip(positions, logits_MV.softmax(-1).cpu(), strict=True):
        best = share_V.topk(min(count, len(share_V)))
        pieces = [tokenizer.spell([piece])[0] for piece in best.indices.tolist()]
        changed_T = np.arange(len(tokens)) == number
        texts = []
        for piece in pieces:
            changed = [*tokens[:number], piece, *tokens[number + 1 :]]
            texts.append(write(text, changed, offsets_T2, changed_T, tokenizer.byte_level)[0])
        original = None if ids[number] == tokenizer.mask_id else float(share_V[ids[number]])
        proposed.append(Proposed(number, pieces, best.values.numpy(), texts, original))
    return proposed


def write(
    text: str,
    tokens: list[str],
    offsets_T2: NDArray[np.int64],
    replaced_T: NDArray[np.bool_],
    spaced: bool,
) -> tuple[str, NDArray[np.int64]]:
    """Return the text with replaced tokens written in, and where each token is in it, (T, 2).

    The space before a replaced token goes if it now continues a word. One is added where two words
    would run into each other and, if `spaced`, before every replaced piece that continues no word,
    as byte-level pieces have it.
    """
    written = ""
    last = 0  # where the text has been read to
    after_change = False
    places: list[tuple[int, int]] = []
    for token, offsets, changed in zip(tokens, offsets_T2.tolist(), replaced_T, strict=True):
        start = max(offsets[0], last)  # pieces of one letter may share its place
        end = max(offsets[1], last)
        gap = text[last:start]
        joined = token.startswith(CONTINUATION)
        piece = token.removeprefix(CONTINUATION) if changed else text[start:end]
        runs_in = (changed or after_change) and _ENDS.search(written) and piece[:1].isalnum()
        if changed and joined:
            gap = gap.rstrip()
        elif not (joined or gap) and (runs_in or (changed and spaced and written)):
            gap = " "
        written += gap + piece
        last = end
        after_change = changed
        places.append((len(written) - len(piece), len(written)))
    return written + text[last:], np.array(places, dtype=np.int64).reshape(-1, 2)


def _generator(given: Model | str | os.PathLike[str], method: str) -> Model:
    model = given if isinstance(given, Model) else load(given)
    if not isinstance(model.network, Generator):
        raise model.missing_head(method, "a generator")
    return model


def _shortened(model: Model, ids: list[int], done: str) -> list[int]:
    if len(ids) > model.length - 2:
        warnings.warn(
            f"{model.folder}: only the first {model.length} tokens of a text are {done}",
            stacklevel=3,
        )
    return ids[: model.length - 2]


def _row(model: Model, ids: list[int]) -> Tensor:
    """Return one row of ids (B, T) with its [CLS] and [SEP], on the model's device."""
    return torch.tensor(
        [[model.tokenizer.cls_id, *ids, model.tokenizer.sep_id]], device=model.device
    )


def _logits(model: Model, ids_BT: Tensor, positions_BM: Tensor) -> Tensor:
    """Return the generator's logits (M, V) in fp32, without those of table rows that no piece
    stands for.
    """
    with torch.inference_mode(), autocast(model.precision, model.device):
        all_MV, _ = model.network(ids_BT, torch.zeros_like(ids_BT), None, positions_BM)
    logits_MV: Tensor = all_MV[:, : model.tokenizer.vocab_size].float()
    require_finite(
        logits_MV.cpu().numpy(), f"{model.folder}: token", (positions_BM[0] - 1).tolist()
    )
    return logits_MV
