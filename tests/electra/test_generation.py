"""Samples and proposals of a generator, written into a text that matches its tokens."""

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.errors import BadConfig, BadInput
from electra.generation import write

TEXT = "The chef cooked the meal, and the Dog ate Bread near the zoo."


@pytest.fixture
def generator(load):
    return load("generator")


def test_the_text_and_its_tokens_say_the_same(generator):
    plain = generator.tokenizer.spell(generator.tokenizer.encode(TEXT)[0])
    changed = 0
    texts = set()
    for seed in [*range(40), *range(40)]:
        result = electra.corrupt(TEXT, generator, seed=seed, mask_rate=0.3)
        texts.add(result.text)
        assert result.original == TEXT
        differs = [old != new for old, new in zip(plain, result.tokens, strict=True)]
        assert differs == result.replaced.tolist()
        assert (result.text == TEXT) == (not any(differs))
        changed += sum(differs)
        for old, (start, end) in zip(plain, result.offsets, strict=True):
            assert TEXT[start:end].lower() == old.removeprefix("##")
    # 30 % are chosen, and few samples of an untrained network are right by chance
    assert 0.2 < changed / 80 / len(plain) <= 0.35
    assert 30 < len(texts) <= 40, "the same seed gives the same text"


def test_samples_at_a_low_temperature_are_the_likeliest_pieces(generator):
    result = electra.corrupt(TEXT, generator, seed=2, mask_rate=0.06, temperature=1e-4)
    (place,) = result.replaced.nonzero()[0].tolist()
    (proposed,) = electra.propose(TEXT, generator, hide=[place])
    assert result.tokens[place] == proposed.pieces[0]


WRITTEN = [  # the text's pieces, their replacements, and the text that is written
    ("The chef ate.", "The chef ate .", "- cat - -", "The cat ate."),
    ("The chefs ate", "The chef s ate", "- cat ##- -", "The cats ate"),
    ("The chefs ate", "The chef s ate", "- - dog -", "The chef dog ate"),
    ("The chef ate", "The chef ate", "- ##s -", "Thes ate"),
    ("the  chef", "the chef", "a cat", "a  cat"),
    ("so.The cat", "so . The cat", "- and - -", "so and The cat"),
    ("in Rome.", "in Rome .", "- . cat", "in . cat"),
    ("at 3.5", "at 3 . 5", "- - - 7", "at 3.7"),
    ("ate.!", "ate . !", "- - cat", "ate. cat"),
    ("ate.", "ate .", "- ?", "ate?"),
    ("The \ud55c cat", "The \ud55c \ud55c \ud55c cat", "- - ##- ##- dog", "The \ud55c dog"),
]


@pytest.mark.parametrize("text, pieces, changes, written", WRITTEN)
def test_pieces_are_written_as_words(text, pieces, changes, written):
    offsets = []
    tokens = []
    expected = []
    start = 0
    for piece, change in zip(pieces.split(), changes.split(), strict=True):
        start = text.index(piece, start)
        offsets.append((start, start + len(piece)))
        tokens.append(change.replace("-", piece.lower()))
        expected.append(change.replace("-", piece).removeprefix("##"))
    replaced = np.array(["-" not in change for change in changes.split()])
    result, places = write(text, tokens, np.array(offsets), replaced, False)
    assert result == written
    for piece, (start, end) in zip(expected, places, strict=True):
        assert piece.endswith(result[start:end])


def test_a_long_text_is_cut_with_a_warning_and_an_empty_one_stays(generator):
    sentence = "generator: only the first 48 tokens of a text are corrupted"
    with pytest.warns(UserWarning, match=sentence) as caught:
        result = electra.corrupt("cat " * 47, generator)
    assert caught[0].filename == __file__
    assert len(result.tokens) == 46 and result.text.endswith(" cat ")
    assert electra.corrupt("", generator).text == ""
    with pytest.raises(BadConfig, match=r"corrupt\.mask_rate: is 2"):
        electra.corrupt("a", generator, mask_rate=2)


def test_proposals_are_what_transformers_says(models, tmp_path):
    network = transformers.ElectraForMaskedLM.from_pretrained(models / "generator").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(models / "generator")
    vocabulary = tokenizer.get_vocab()
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    ids[0, [3, 9]] = tokenizer.mask_token_id  # after [CLS]
    with torch.no_grad():
        share = network(ids).logits[0, [3, 9]].softmax(-1).numpy()
    proposed = electra.propose(TEXT, models / "generator", hide=[8, 2], count=4)
    assert [place.token for place in proposed] == [2, 8]
    for place, share_V in zip(proposed, share, strict=True):
        best = np.argsort(-share_V)[:4]
        assert [vocabulary[piece] for piece in place.pieces] == best.tolist()
        np.testing.assert_allclose(place.probability, share_V[best], atol=1e-6)
    assert proposed[0].original == pytest.approx(share[0][vocabulary["cooked"]], abs=1e-6)
    # table rows that no piece stands for take no share
    network.resize_token_embeddings(len(vocabulary) + 6)
    with torch.no_grad():
        network.generator_lm_head.bias[len(vocabulary) :] = 100
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    padded, _ = electra.propose(TEXT, tmp_path, hide=[8, 2], count=10**6)
    assert len(padded.pieces) == len(vocabulary) and padded.pieces[:4] == proposed[0].pieces
    assert padded.probability.sum() == pytest.approx(1, abs=1e-5)


def test_a_typed_mask_hides_the_token_that_hide_numbers(generator):
    (by_number,) = electra.propose(TEXT, generator, hide=[2])
    (typed,) = electra.propose(TEXT.replace("cooked", "[MASK]"), generator)
    assert typed.texts == by_number.texts and typed.original is None
    np.testing.assert_array_equal(typed.probability, by_number.probability)
    (twice,) = electra.propose(TEXT.replace("cooked", "[MASK]"), generator, hide=[2])
    assert twice.original is None
    both = electra.propose("The [MASK] cooked the [MASK].", generator, count=2)
    assert [place.token for place in both] == [1, 4]
    for piece, text in zip(both[0].pieces, both[0].texts, strict=True):
        word = f" {piece}".replace(" ##", "")
        assert text == f"The{word} cooked the [MASK]."


def test_a_typed_mask_is_one_hidden_token_everywhere(load, generator):
    text = TEXT.replace("cooked", "[MASK]")
    result = electra.corrupt(text, generator, mask_rate=0.99)
    assert not result.replaced[2] and result.replaced.sum() > 10
    assert result.text[slice(*result.places[2])] == result.tokens[2] == "[MASK]"
    (judged,) = load("discriminator").replaced([text])
    assert len(judged.tokens) == len(result.tokens)
    assert text[slice(*judged.offsets[2])] == judged.tokens[2] == "[MASK]"


def test_what_cannot_be_proposed_is_refused(models, generator):
    with pytest.raises(BadInput, match=r"the text hides nothing; write .MASK."):
        electra.propose(TEXT, generator)
    for number in (19, -1, True):
        with pytest.raises(BadInput, match=r"hide has .*; tokens are numbered from 0 to 18"):
            electra.propose(TEXT, generator, hide=[number])
    with pytest.raises(BadInput, match=r"propose\(\) needs a generator"):
        electra.propose(TEXT, models / "discriminator", hide=[0])
    with pytest.warns(UserWarning, match="only the first 48 tokens") as caught:
        (proposed,) = electra.propose("[MASK] " + "cat " * 60, generator, count=1)
    assert caught[0].filename == __file__ and proposed.texts[0].endswith("cat " * 60)
