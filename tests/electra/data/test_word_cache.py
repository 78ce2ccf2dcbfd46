"""The memory of words: the library's ids for any text, setting and script, in bounded memory."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.data import word_cache
from electra.data.tokenizer import SPECIALS, Tokenizer, from_pieces
from tests.electra.data.test_tokenizer import ids_of

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABCé日本。、.,'\"-–’()ёя"
PIECES = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "fox", "##es", "Fox", "日本", "##"]


def tokenizer_of(lowercase: bool, strip_accents: bool | None) -> Tokenizer:
    return from_pieces(PIECES, lowercase=lowercase, strip_accents=strip_accents)


TOKENIZERS = [tokenizer_of(lowercase, strip) for lowercase in (True, False) for strip in (None, True, False)]


TEXT = st.text(
    st.one_of(
        st.sampled_from(f"{LETTERS}   [MASK]\u3001\uff0c\u0301\u3099\u200b\u00ad\u2026\u0964\u061f\ufeff\x00\x7f"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(TEXT)
def test_ids_are_the_librarys_under_every_setting(line: str) -> None:
    for tokenizer in TOKENIZERS:
        assert ids_of(tokenizer, [line, line]) == tokenizer.encode_lines([line, line])


@pytest.mark.parametrize("strip_accents", [True, False])
def test_characters_that_stand_alone_do_so_in_the_library(strip_accents: bool) -> None:
    alone = [c for c in map(chr, range(0x2000, sys.maxunicode)) if word_cache._PARTS.findall(f"a{c}b") == ["a", c, "b"]]
    alone += [c for c in map(chr, range(0x21, 0x2000)) if word_cache._PARTS.findall(f"a{c}b") == ["a", c, "b"]]
    assert len(alone) > 70_000
    tokenizer = tokenizer_of(True, strip_accents)
    splitter, normalizer = tokenizer.raw.pre_tokenizer, tokenizer.raw.normalizer
    text = " ".join(f"a{c}b" for c in alone)
    found = [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    decomposed = [unicodedata.normalize("NFD", c) if strip_accents else c for c in alone]
    assert found == [part for c in decomposed for part in ("a", c, "b")]


def test_every_kind_of_character_within_and_between_words() -> None:
    """Every 61st character of all, and each of the first blocks, in a word, alone, and beside a mark."""
    some = [*range(0x3100), *range(0x3100, 0xD800, 61), *range(0xE000, sys.maxunicode, 61)]
    lines = [f"a{chr(i)}b {chr(i)} {chr(i)}\u0316\u0301{chr(i)}é" for i in some]
    for tokenizer in TOKENIZERS[1:4:2]:
        assert ids_of(tokenizer, lines) == tokenizer.encode_lines(lines)


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of(True, None)
    lines = ["the fox, foxes (and) a–b café 日本。 " + "x" * 101, "fox" * 33 + " 日本、の犬 " * 9, "the Fox"]
    monkeypatch.setattr(word_cache, "MEMORY_WORDS", 3)
    for _ in range(3):
        assert ids_of(tokenizer, lines) == tokenizer.encode_lines(lines)
        assert len(tokenizer._words) <= 3 and len(tokenizer._words._older) <= 3


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("the日本、.,foxé()–"), max_size=80))
def test_monstrous_chunks_are_halved_where_words_part(chunk: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_cache, "MONSTROUS", 4)
        for tokenizer in (tokenizer_of(True, None), tokenizer_of(False, False)):
            assert ids_of(tokenizer, [chunk]) == tokenizer.encode_lines([chunk])


def test_long_chunks_are_not_kept() -> None:
    tokenizer = tokenizer_of(True, None)
    tokenizer.encode_bytes(["日" * 5000, "a" * 5000, "fox"])
    assert sorted(tokenizer._words) == ["fox", "日"]
