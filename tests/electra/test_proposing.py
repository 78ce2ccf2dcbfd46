"""Proposals are transformers' probabilities at the hidden places, written into a text that reads as they say."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.errors import BadInput

TEXT = "The chef cooked the meal, and the Dog ate Bread."


def expected(folder: Path, text: str, places: list[int]) -> np.ndarray:
    """transformers' probabilities where `places` count tokens without [CLS]."""
    network = transformers.ElectraForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    ids[0, [place + 1 for place in places]] = tokenizer.mask_token_id
    with torch.no_grad():
        return network(ids).logits[0, [place + 1 for place in places]].softmax(-1).numpy()


def test_they_are_what_transformers_says(models: Path) -> None:
    share = expected(models / "generator", TEXT, [2, 8])
    found = electra.propose(TEXT, models / "generator", hide=[8, 2], count=4)
    assert [each.token for each in found] == [2, 8]
    vocabulary = transformers.AutoTokenizer.from_pretrained(models / "generator").get_vocab()
    for each, share_V in zip(found, share, strict=True):
        best = np.argsort(-share_V)[:4]
        assert [vocabulary[piece] for piece in each.pieces] == best.tolist()
        np.testing.assert_allclose(each.probability, share_V[best], atol=1e-6)
    assert found[0].original == pytest.approx(share[0][vocabulary["cooked"]], abs=1e-6)


def test_a_typed_mask_hides_the_token_that_hide_numbers(models: Path) -> None:
    generator = electra.load(models / "generator")
    (by_number,) = electra.propose(TEXT, generator, hide=[2])
    (typed,) = electra.propose(TEXT.replace("cooked", "[MASK]"), generator)
    assert typed.pieces == by_number.pieces and typed.texts == by_number.texts
    np.testing.assert_array_equal(typed.probability, by_number.probability)
    assert typed.original is None
    both = electra.propose("The [MASK] cooked the [MASK].", generator, count=2)
    assert [each.token for each in both] == [1, 4]
    for piece, text in zip(both[0].pieces, both[0].texts, strict=True):
        assert text == f"The{'' if piece.startswith('##') else ' '}{piece.removeprefix('##')} cooked the [MASK]."


def test_what_is_refused(models: Path) -> None:
    generator = electra.load(models / "generator")
    with pytest.raises(BadInput, match=r"text: hides nothing; expected a .MASK."):
        electra.propose(TEXT, generator)
    for number in (99, -1, True):
        with pytest.raises(BadInput, match=r"hide: has .*; expected numbers of tokens, 0 to 13"):
            electra.propose(TEXT, generator, hide=[number])
    with pytest.raises(BadInput, match=r"a generator, which propose\(\) needs"):
        electra.propose(TEXT, models / "discriminator", hide=[0])
    with pytest.warns(UserWarning, match="only the first 48 tokens") as told:
        assert electra.propose("[MASK] " + "cat " * 60, generator, count=1)[0].texts[0].endswith("cat " * 60)
    assert told[0].filename == __file__
