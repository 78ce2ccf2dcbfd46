"""What a generator samples and proposes, written into a text that reads as its tokens say."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.errors import BadConfig, BadInput
from electra.generation import write

TEXT = "The chef cooked the meal, and the Dog ate Bread near the zoo."


def test_the_text_and_its_tokens_say_the_same(models: Path) -> None:
    generator = electra.load(models / "generator")
    plain = [
        generator.tokenizer.raw.id_to_token(number)
        for number in generator.tokenizer.encode_lines([TEXT])[0]
    ]
    changed = 0
    for seed in range(40):
        found = electra.corrupt(TEXT, generator, seed=seed, mask_rate=0.3)
        assert found.original == TEXT and len(found.tokens) == len(found.offsets) == len(plain)
        assert (
            [old != new for old, new in zip(plain, found.tokens, strict=True)] == found.replaced
        ).all()
        assert (found.text == TEXT) == (not found.replaced.any())
        changed += int(found.replaced.sum())
        for token, old, (start, end), new in zip(
            found.tokens, plain, found.offsets, found.replaced, strict=True
        ):
            assert new or token == old
            assert TEXT[start:end].lower() == old.removeprefix("##")
    rate = changed / 40 / len(plain)
    # 30 % are chosen, and few samples of an untrained network are right by chance
    assert 0.2 < rate <= 0.35


def test_a_seed_is_a_text_and_a_folder_will_do(models: Path) -> None:
    one, again, other = (
        electra.corrupt(TEXT, models / "generator", seed=seed).text for seed in (3, 3, 4)
    )
    assert one == again != other


@pytest.mark.parametrize(
    ("text", "tokens", "places", "changed", "written"),
    [
        (
            "The chef ate.",
            "the cat ate .",
            [(0, 3), (4, 8), (9, 12), (12, 13)],
            [1],
            "The cat ate.",
        ),
        (
            "The chefs ate",
            "the cat ##s ate",
            [(0, 3), (4, 8), (8, 9), (10, 13)],
            [1],
            "The cats ate",
        ),
        (
            "The chefs ate",
            "the chef dog ate",
            [(0, 3), (4, 8), (8, 9), (10, 13)],
            [2],
            "The chef dog ate",
        ),
        ("The chef ate", "the ##s ate", [(0, 3), (4, 8), (9, 12)], [1], "Thes ate"),
        ("the  chef", "a cat", [(0, 3), (5, 9)], [0, 1], "a  cat"),
        ("so.The cat", "so and the cat", [(0, 2), (2, 3), (3, 6), (7, 10)], [1], "so and The cat"),
        ("in Rome.", "in . cat", [(0, 2), (3, 7), (7, 8)], [1, 2], "in . cat"),
        ("at 3.5", "at 3 . 7", [(0, 2), (3, 4), (4, 5), (5, 6)], [3], "at 3.7"),
        ("ate.!", "ate . cat", [(0, 3), (3, 4), (4, 5)], [2], "ate. cat"),
        ("ate.", "ate ?", [(0, 3), (3, 4)], [1], "ate?"),
        (
            "The \ud55c cat",
            "the h ##a ##n dog",
            [(0, 3), (4, 5), (4, 5), (4, 5), (6, 9)],
            [4],
            "The \ud55c dog",
        ),
    ],
)
def test_pieces_are_written_as_words(
    text: str, tokens: str, places: list, changed: list, written: str
) -> None:
    replaced = np.isin(np.arange(len(places)), changed)
    found, now = write(text, tokens.split(), np.array(places), replaced, False)
    assert found == written
    for token, (start, end), old, new in zip(tokens.split(), now, places, replaced, strict=True):
        there = found[start:end]
        assert there == token.removeprefix("##") if new else text[slice(*old)].endswith(there)


def test_long_empty_and_impossible_ones(models: Path) -> None:
    long = "cat " * 60
    with pytest.warns(
        UserWarning, match="generator: only the first 48 tokens of a text are corrupted"
    ) as told:
        found = electra.corrupt(long, models / "generator")
    assert (
        told[0].filename == __file__
        and len(found.tokens) == 46
        and found.text.endswith("cat " * 14)
    )
    assert electra.corrupt("", models / "generator").text == ""
    with pytest.raises(BadConfig, match=r"corrupt\.mask_rate: is 2"):
        electra.corrupt("a", models / "generator", mask_rate=2)


def test_proposals_are_what_transformers_says(models: Path) -> None:
    network = transformers.ElectraForMaskedLM.from_pretrained(models / "generator").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(models / "generator")
    ids, vocabulary = tokenizer(TEXT, return_tensors="pt")["input_ids"], tokenizer.get_vocab()
    ids[0, [3, 9]] = tokenizer.mask_token_id  # after [CLS]
    with torch.no_grad():
        share = network(ids).logits[0, [3, 9]].softmax(-1).numpy()
    found = electra.propose(TEXT, models / "generator", hide=[8, 2], count=4)
    assert [each.token for each in found] == [2, 8]
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
        assert (
            text
            == f"The{'' if piece.startswith('##') else ' '}{piece.removeprefix('##')} cooked the [MASK]."
        )


def test_a_typed_mask_is_one_hidden_token_everywhere(models: Path) -> None:
    text, count = (
        TEXT.replace("cooked", "[MASK]"),
        len(electra.corrupt(TEXT, models / "generator").tokens),
    )
    for seed in range(10):
        found = electra.corrupt(text, models / "generator", seed=seed, mask_rate=0.9)
        assert len(found.tokens) == count and found.tokens[2] == "[MASK]" and not found.replaced[2]
        assert found.text[slice(*found.places[2])] == "[MASK]"
    (judged,) = electra.load(models / "discriminator").replaced([text])
    assert (
        len(judged.tokens) == count
        and text[slice(*judged.offsets[2])] == judged.tokens[2] == "[MASK]"
    )
    network = transformers.ElectraModel.from_pretrained(models / "encoder").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(models / "encoder")
    with torch.no_grad():
        expected = (
            network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        )
    np.testing.assert_allclose(
        electra.load(models / "encoder").embed([text])[0], expected, atol=1e-5
    )


def test_what_cannot_be_proposed_is_refused(models: Path) -> None:
    generator = electra.load(models / "generator")
    with pytest.raises(BadInput, match=r"the text hides nothing; write .MASK."):
        electra.propose(TEXT, generator)
    for number in (99, -1, True):
        with pytest.raises(BadInput, match=r"hide has .*; tokens are numbered from 0 to 18"):
            electra.propose(TEXT, generator, hide=[number])
    with pytest.raises(BadInput, match=r"propose\(\) needs a generator"):
        electra.propose(TEXT, models / "discriminator", hide=[0])
    with pytest.warns(UserWarning, match="only the first 48 tokens") as told:
        assert (
            electra.propose("[MASK] " + "cat " * 60, generator, count=1)[0]
            .texts[0]
            .endswith("cat " * 60)
        )
    assert told[0].filename == __file__
