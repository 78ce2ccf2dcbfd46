"""What a generator does with a text: `corrupt` it as in training, or `propose` tokens for hidden
places.

    electra.corrupt("the chef cooked the meal", "build/models/tiny/generator").text           the chef ate the meal
    electra.propose("The meal of Mopol is [MASK].", "build/models/tiny/generator")
    electra.propose("The meal of Mopol is corn.", "build/models/tiny/generator", hide=[6])    the same, by its token

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
from electra.errors import BadInput, shown
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

    text: str  # with the samples written in; what was not replaced stays letter by letter
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
    places; some are the original tokens again. A `[MASK]` in the text stays. The same seed gives
    the same text. Tokens beyond the generator's `length` stay as they are, with a warning. Raises
    BadInput for a model that is no generator, BadConfig for a rate that is no share.
    """
    model = _generator(generator, "corrupt()")
    config = build(ObjectiveConfig, {"mask_rate": mask_rate, "temperature": temperature}, "corrupt")
    ((text,),) = check_texts([text])
    tokenizer = model.tokenizer
    ids, offsets_T2 = encode(text, tokenizer)
    ids_BT = _row(model, _shortened(model, ids, "corrupted"))
    length = ids_BT.shape[1]
    noise = Noise.draw(torch_generator("cpu", seed, "library/corrupt"), 1, length, config)
    noise = Noise(*(values.to(model.device) for values in noise))
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
    beyond its tokens, or a model that is no generator.
    """
    model = _generator(generator, "propose()")
    ((text,),) = check_texts([text])
    ids, offsets_T2 = encode(text, model.tokenizer)
    tokens = model.tokenizer.spell(ids, begins=True)
    read, mask_id = _shortened(model, ids, "read"), model.tokenizer.mask_id
    numbers = set(hide)
    for number in numbers:
        if isinstance(number, bool) or number not in range(len(read)):
            raise BadInput(
                f"hide has {shown(number)}; tokens are numbered from 0 to {len(read) - 1}"
            )
    hidden = sorted(numbers | {number for number, each in enumerate(read) if each == mask_id})
    if not hidden:
        raise BadInput(
            f"the text hides nothing; write {MASK} where a word is to be proposed, or give `hide`"
        )
    ids_BT = _row(
        model, [mask_id if number in numbers else each for number, each in enumerate(read)]
    )
    logits_MV = _logits(model, ids_BT, torch.tensor([hidden], device=model.device) + 1)
    proposed = []
    for number, share_V in zip(hidden, logits_MV.float().softmax(-1).cpu(), strict=True):
        best = share_V.topk(min(count, len(share_V)))
        pieces = [model.tokenizer.spell([each])[0] for each in best.indices.tolist()]
        changed_T = np.arange(len(tokens)) == number
        texts = []
        for piece in pieces:
            with_it = [*tokens[:number], piece, *tokens[number + 1 :]]
            texts.append(write(text, with_it, offsets_T2, changed_T, model.tokenizer.byte_level)[0])
        original = None if ids[number] == mask_id else float(share_V[ids[number]])
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

    The space before a replaced token goes if it now continues a word; one is added where two words
    would run into each other and, if `spaced`, before every replaced piece that continues no word,
    as byte-level pieces have it.
    """
    written, last, near = "", 0, False
    places: list[tuple[int, int]] = []
    for token, (start, end), changed in zip(
        tokens, offsets_T2.tolist(), replaced_T.tolist(), strict=True
    ):
        start, end = max(start, last), max(end, last)  # pieces of one letter may share its place
        gap, joined = text[last:start], token.startswith(CONTINUATION)
        piece = token.removeprefix(CONTINUATION) if changed else text[start:end]
        runs_in = (changed or near) and _ENDS.search(written) and piece[:1].isalnum()
        if changed and joined:
            gap = gap.rstrip()
        elif not (joined or gap) and (runs_in or (changed and spaced and written)):
            gap = " "
        written, last, near = written + gap + piece, end, changed
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
