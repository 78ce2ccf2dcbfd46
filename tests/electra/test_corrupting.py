"""Corrupted texts: the generator's samples where training would put them, and a text that reads as its tokens say."""

from pathlib import Path

import numpy as np
import pytest

import electra
from electra.corrupting import write
from electra.errors import BadConfig

TEXT = "The chef cooked the meal, and the Dog ate Bread near the zoo."


def test_the_text_and_its_tokens_say_the_same(models: Path) -> None:
    generator = electra.load(models / "generator")
    plain = [generator.tokenizer.raw.id_to_token(number) for number in generator.tokenizer.encode_lines([TEXT])[0]]
    changed = 0
    for seed in range(40):
        found = electra.corrupt(TEXT, generator, seed=seed, mask_rate=0.3)
        assert found.original == TEXT and len(found.tokens) == len(found.offsets) == len(plain)
        assert ([old != new for old, new in zip(plain, found.tokens, strict=True)] == found.replaced).all()
        assert (found.text == TEXT) == (not found.replaced.any())
        changed += int(found.replaced.sum())
        for token, old, (start, end), new in zip(found.tokens, plain, found.offsets, found.replaced, strict=True):
            assert new or token == old
            assert TEXT[start:end].lower() == old.removeprefix("##")
    rate = changed / 40 / len(plain)
    assert 0.2 < rate <= 0.35  # 30 % are chosen, and few samples of an untrained network are right by chance


def test_a_seed_is_a_text_and_a_folder_will_do(models: Path) -> None:
    one, again, other = (electra.corrupt(TEXT, models / "generator", seed=seed).text for seed in (3, 3, 4))
    assert one == again != other


@pytest.mark.parametrize(
    ("text", "tokens", "places", "changed", "written"),
    [
        ("The chef ate.", "the cat ate .", [(0, 3), (4, 8), (9, 12), (12, 13)], [1], "The cat ate."),
        ("The chefs ate", "the cat ##s ate", [(0, 3), (4, 8), (8, 9), (10, 13)], [1], "The cats ate"),
        ("The chefs ate", "the chef dog ate", [(0, 3), (4, 8), (8, 9), (10, 13)], [2], "The chef dog ate"),
        ("The chef ate", "the ##s ate", [(0, 3), (4, 8), (9, 12)], [1], "Thes ate"),
        ("the  chef", "a cat", [(0, 3), (5, 9)], [0, 1], "a  cat"),
        ("so.The cat", "so and the cat", [(0, 2), (2, 3), (3, 6), (7, 10)], [1], "so and The cat"),
        ("in Rome.", "in . cat", [(0, 2), (3, 7), (7, 8)], [1, 2], "in . cat"),
        ("at 3.5", "at 3 . 7", [(0, 2), (3, 4), (4, 5), (5, 6)], [3], "at 3.7"),
        ("ate.!", "ate . cat", [(0, 3), (3, 4), (4, 5)], [2], "ate. cat"),
        ("ate.", "ate ?", [(0, 3), (3, 4)], [1], "ate?"),
        ("The \ud55c cat", "the h ##a ##n dog", [(0, 3), (4, 5), (4, 5), (4, 5), (6, 9)], [4], "The \ud55c dog"),
    ],
)
def test_pieces_are_written_as_words(text: str, tokens: str, places: list, changed: list, written: str) -> None:
    replaced = np.isin(np.arange(len(places)), changed)
    found, now = write(text, tokens.split(), np.array(places), replaced, False)
    assert found == written
    for token, (start, end), old, new in zip(tokens.split(), now, places, replaced, strict=True):
        there = found[start:end]
        assert there == token.removeprefix("##") if new else text[slice(*old)].endswith(there)


def test_long_empty_and_impossible_ones(models: Path) -> None:
    long = "cat " * 60
    with pytest.warns(UserWarning, match="generator: only the first 48 tokens of a text are corrupted") as told:
        found = electra.corrupt(long, models / "generator")
    assert told[0].filename == __file__ and len(found.tokens) == 46 and found.text.endswith("cat " * 14)
    assert electra.corrupt("", models / "generator").text == ""
    with pytest.raises(BadConfig, match=r"corrupt\.mask_rate: is 2"):
        electra.corrupt("a", models / "generator", mask_rate=2)
