"""The memory of words: the library's ids for any text, setting and script, in bounded memory."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.data import word_cache
from electra.data.tokenizer import SPECIALS, Tokenizer, from_pieces
from tests.electra.data.test_tokenizer import ids_of

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABCé日本。、.,'\"-–’()ёя"
PIECES = [
    *SPECIALS,
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    "the",
    "fox",
    "##es",
    "Fox",
    "日本",
    "##",
]


def tokenizer_of(lowercase: bool, strip_accents: bool | None) -> Tokenizer:
    return from_pieces(PIECES, lowercase=lowercase, strip_accents=strip_accents)


TOKENIZERS = [
    tokenizer_of(lowercase, strip) for lowercase in (True, False) for strip in (None, True, False)
]


SCRIPTS = [
    "The Ångström café in Zürich sold 12,000 naïve coöperations (1999–2004).",
    "Привет, мир! Ёлки стоят у реки, которая не замерзает.",
    "日本語の文章には空白がありません。東京は「首都」です、ね？",
    "نص عربي قصير، يمتد إلى سطر واحد؛ هل تفهم؟",
    "हिन्दी में लिखा हुआ एक वाक्य। और दूसरा॥",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ 한국어 문장은 띄어쓰기가 있습니다.",
    "Ελληνικά με τόνους, ΚΕΦΑΛΑΙΑ και τελικό ς; Việt Nam có dấu.",
]
TEXT = st.text(
    st.one_of(
        st.sampled_from(
            f"{LETTERS}   [MASK]\u3001\uff0c\u0301\u3099\u200b\u00ad\u2026\u0964\u061f\ufeff\x00\x7f"
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(TEXT)
def test_ids_are_the_librarys_under_every_setting(line: str) -> None:
    for tokenizer in TOKENIZERS:
        assert ids_of(tokenizer, [line, line]) == tokenizer.encode_lines([line, line])


def test_ids_are_the_librarys_on_text_of_many_scripts() -> None:
    letters = sorted({letter for line in SCRIPTS for letter in line.lower() if letter != " "})
    pieces = [
        *SPECIALS,
        *letters,
        *(f"##{letter}" for letter in letters),
        "the",
        "##en",
        "при",
        "日本",
        "##ات",
    ]
    for strip_accents in (True, False):
        tokenizer = from_pieces(pieces, lowercase=True, strip_accents=strip_accents)
        assert ids_of(tokenizer, SCRIPTS * 2) == tokenizer.encode_lines(SCRIPTS * 2)


def test_every_kind_of_character_within_and_between_words() -> None:
    """Every 61st character of all, and each of the first blocks, in a word, alone, and beside a
    mark.
    """
    some = [*range(0x3100), *range(0x3100, 0xD800, 61), *range(0xE000, sys.maxunicode, 61)]
    lines = [f"a{chr(i)}b {chr(i)} {chr(i)}\u0316\u0301{chr(i)}é" for i in some]
    for tokenizer in TOKENIZERS[1:4:2]:
        assert ids_of(tokenizer, lines) == tokenizer.encode_lines(lines)


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of(True, None)
    lines = [
        "the fox, foxes (and) a–b café 日本。 " + "x" * 101,
        "fox" * 33 + " 日本、の犬 " * 9,
        "the Fox",
    ]
    monkeypatch.setattr(word_cache, "MEMORY_WORDS", 3)
    for _ in range(3):
        assert ids_of(tokenizer, lines) == tokenizer.encode_lines(lines)
        assert len(tokenizer._words) <= 3


def test_long_chunks_are_not_kept() -> None:
    tokenizer = tokenizer_of(True, None)
    tokenizer.encode_bytes(["日" * 5000, "a" * 5000, "fox"])
    assert list(tokenizer._words) == ["fox"]
