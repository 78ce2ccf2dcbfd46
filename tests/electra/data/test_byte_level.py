"""Byte-level BPE as ModernBERT's authors publish it: transformers' ids, places, words, folders."""

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders
from transformers.convert_slow_tokenizer import bytes_to_unicode

from electra.data.byte_level import BYTES
from electra.data.tokenizer import NAMES, load, save
from electra.errors import BadInput
from electra.generation import write
from electra.inference import encode
from tests.support.byte_level import TEXTS, write_byte_level


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    write_byte_level(folder)
    return transformers.AutoTokenizer.from_pretrained(folder), load(folder)


def test_letters_stand_for_the_bytes_of_gpt2():
    assert {letter: byte for byte, letter in bytes_to_unicode().items()} == BYTES


def test_ids_and_folders_are_those_of_transformers(pair, tmp_path):
    peer, ours = pair
    texts = [text for text in TEXTS if "[MASK]" not in text]
    assert ours.encode_lines(texts) == peer(texts, add_special_tokens=False)["input_ids"]
    assert ours.encode_lines(["[MASK]"]) != [[ours.mask_id]]  # no text forges one
    ids = [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id]
    assert ids == [getattr(peer, f"{name}_id") for name in NAMES]
    save(ours, tmp_path)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again(texts, texts)["input_ids"] == peer(texts, texts)["input_ids"]
    assert load(tmp_path).identity == ours.identity


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(
        st.one_of(
            st.sampled_from("the ship's 100 [MASK]\u0301é日|_,."), st.characters(codec="utf-8")
        )
    )
)
def test_a_corpus_line_has_the_librarys_ids_behind_a_space(pair, text):
    _, ours = pair
    line = " ".join(text.split())
    if line:
        ids = np.frombuffer(ours.encode_bytes([line])[0], ours.dtype)
        assert ids.tolist() == ours.encode_lines([f" {line}"])[0]


def test_the_place_of_a_word_leaves_out_the_space_before_it(pair):
    text = "The ship didn't sail; it's in the harbour, near 日本語."
    _, spans_T2 = pair[1].encode(text)
    for word in ("ship", "in", "harbour", "日本語"):
        begin = text.index(word)
        assert begin in spans_T2[:, 0] and begin + len(word) in spans_T2[:, 1]


def test_a_token_of_two_words_is_found_in_a_corpus_line(tmp_path):
    write_byte_level(tmp_path, added=["New York"])
    ours = load(tmp_path)
    ids = np.frombuffer(ours.encode_bytes(["in New York"])[0], ours.dtype)
    assert ids.tolist() == ours.encode_lines([" in New York"])[0]
    assert ours.spell(ids)[-1].endswith("York")


def test_words_of_a_sentence_are_those_of_transformers(pair):
    peer, ours = pair
    words = ["The", "ship", "'s", "harbour", "日本語"]
    behind_spaces = [f" {word}" for word in words]
    expected = peer(behind_spaces, add_special_tokens=False)["input_ids"]
    assert ours.encode_words(words) == expected


@pytest.mark.parametrize("text", ["The ship didn't sail", "日本語 é café 🚢", "a 🚢b"])
def test_pieces_are_spelled_as_wordpiece_spells_them(pair, text):
    _, ours = pair
    pieces = ours.spell(ours.encode(text)[0], begins=True)
    assert decoders.WordPiece(prefix="##", cleanup=False).decode(pieces) == text
    assert ours.spell([ours.mask_id, ours.cls_id]) == ["[MASK]", "[CLS]"]
    (ship,) = ours.encode_lines(["🚢"])
    assert len(ship) > 1 and ours.spell(ship[:1]) == ["##\ufffd"], "a part of a letter"


def test_the_space_before_a_hidden_token_belongs_to_it(pair):
    peer, ours = pair
    text = "The ship [MASK] sail "
    assert encode(text, ours)[0] == peer(text, add_special_tokens=False)["input_ids"]


def test_a_replacement_is_written_with_its_space_and_the_rest_stays(pair):
    for text in (TEXTS[1], "it's in"):
        ids, spans_T2 = pair[1].encode(text)
        tokens = pair[1].spell(ids, begins=True)
        assert write(text, tokens, spans_T2, spans_T2[:, 0] < 0, True)[0] == text
    changed = spans_T2[:, 0] < 5
    tokens[:2] = "(("
    assert write(text, tokens, spans_T2, changed, True)[0] == "( ( in"


@pytest.mark.parametrize("changes, sentence", [
    ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer.type is 'Whitespace', which is not"),
    ({"normalizer": {"type": "NFKC"}}, "normalizer.type is 'NFKC'"),
    ({"model": {"dropout": 0.5}}, r"model.dropout is 0\.5, which is not supported"),
    ({"model": {"unk_token": "<unk>"}}, "has no piece '<unk>', its unk_token"),
    ({"added_tokens": [], "post_processor": None}, r"has no \[PAD\]; a vocabulary needs"),
])  # fmt: skip
def test_other_rules_are_refused(tmp_path, changes, sentence):
    write_byte_level(tmp_path, **changes)
    with pytest.raises(BadInput, match=sentence):
        load(tmp_path)
