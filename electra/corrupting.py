"""A text as a discriminator is given it in training: some tokens chosen, masked, and replaced by a generator's samples.

    electra.corrupt("the chef cooked the meal", "build/models/tiny/generator")     the chef ate the meal

Shapes: B = 1 row, T tokens, M chosen positions, V vocabulary.
"""

import os
import re
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from electra.config import build
from electra.data.word_cache import CONTINUATION
from electra.inference import Model, checked, load
from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import Noise, SpecialIds, mask, replace, sample
from electra.pretraining.generator import Generator
from electra.seeds import torch_generator

_ENDS = re.compile(r"[^\W_]$|(?<!\d)[.,;:!?]$")  # where no word follows without a space; one may in 3.5


@dataclass(frozen=True, eq=False)
class Corrupted:
    """A text with some tokens replaced by a generator's samples."""

    text: str  # as it reads now; what was not replaced stays letter by letter
    original: str
    tokens: list[str]  # T word pieces, the sampled ones among them
    offsets: NDArray[np.int64]  # (T, 2): where the token that was there before stands in `original`
    places: NDArray[np.int64]  # (T, 2): where the token stands in `text`
    replaced: NDArray[np.bool_]  # (T,): whether the token is another than before


def corrupt(
    text: str,
    generator: Model | str | os.PathLike[str],
    *,
    mask_rate: float = 0.15,
    temperature: float = 1.0,
    seed: int = 0,
) -> Corrupted:
    """The text with some of its tokens replaced, as a discriminator is trained on it (paper, section 2).

    A share `mask_rate` of the tokens is chosen and masked, and the generator's samples take their places; some are the
    original tokens again. The same seed gives the same text. One that is longer than the
    generator's `length` keeps its end.
    """
    model = as_generator(generator, "corrupt()")
    config = build(ObjectiveConfig, {"mask_rate": mask_rate, "temperature": temperature}, "corrupt")
    ((text,),) = checked([text])
    tokenizer = model.tokenizer
    encoding = tokenizer.raw.encode(text, add_special_tokens=False)
    if len(encoding.ids) > model.length - 2:
        warnings.warn(f"{model.folder}: only the first {model.length} tokens of a text are corrupted", stacklevel=2)
    ids = [tokenizer.cls_id, *encoding.ids[: model.length - 2], tokenizer.sep_id]
    ids_BT = torch.tensor([ids], device=model.device)
    lengths_B = torch.tensor([len(ids)], device=model.device)
    noise = Noise.draw(torch_generator("cpu", seed, "library/corrupt"), 1, len(ids), config)
    noise = Noise(**{name: values.to(model.device) for name, values in vars(noise).items()})
    special = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    masked = mask(ids_BT, lengths_B, special, config, noise, model.encoder.vocab_size)
    with torch.inference_mode():
        logits_MV, _ = model.network(masked.ids_BT, torch.zeros_like(ids_BT), None, masked.positions_BN)
        logits_MV = logits_MV[:, : tokenizer.vocab_size]  # published tables may have rows that no piece stands for
        sampled_M = sample(logits_MV, noise.sample_BN.view(-1), config, masked.targets_M)
    corrupted_BT, replaced_BT, _ = replace(ids_BT, masked, sampled_M)
    tokens = tokenizer.spell(corrupted_BT[0, 1:-1].tolist(), begins=True)
    replaced_T = replaced_BT[0, 1:-1].cpu().numpy()
    offsets_T2 = np.array(encoding.offsets[: len(tokens)], dtype=np.int64).reshape(-1, 2)
    written, places_T2 = write(text, tokens, offsets_T2, replaced_T, tokenizer.byte_level)
    return Corrupted(written, text, tokens, offsets_T2, places_T2, replaced_T)


def as_generator(given: Model | str | os.PathLike[str], method: str) -> Model:
    """A loaded generator; raises BadInput for a model of another kind."""
    model = given if isinstance(given, Model) else load(given)
    if not isinstance(model.network, Generator):
        raise model.lacks(method, "a generator")
    return model


def write(
    text: str,
    tokens: list[str],
    offsets_T2: NDArray[np.int64],
    replaced_T: NDArray[np.bool_],
    spaced: bool,
) -> tuple[str, NDArray[np.int64]]:
    """The text with replaced tokens written in, and where each token stands in it, (T, 2).

    Around them a space goes where a piece now goes on a word, and comes where two words would run into each other; or,
    `spaced`, before every piece that goes on no word, as byte-level pieces have it.
    """
    written, last, near = "", 0, False
    places: list[tuple[int, int]] = []
    for token, (start, end), changed in zip(tokens, offsets_T2.tolist(), replaced_T.tolist(), strict=True):
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
