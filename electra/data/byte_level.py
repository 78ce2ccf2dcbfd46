"""Byte-level BPE, as the authors of ModernBERT publish it: read from a tokenizer.json, never
trained here.

A piece is a run of bytes, each written as one letter, and the space before a word belongs to the
word's first piece.
"""

import codecs
import json
from collections.abc import Iterable
from typing import Any

import tokenizers
from tokenizers import processors

from electra.data.word_cache import CONTINUATION

SPACE = "Ġ"  # how a space is written
# bytes whose letter is their own
_WRITTEN = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _WRITTEN]
BYTES = {chr(byte): byte for byte in _WRITTEN} | {
    chr(0x100 + i): byte for i, byte in enumerate(_OTHERS)
}


def is_byte_level(raw: Any) -> bool:
    """Whether a tokenizer is BPE over bytes whose words are parted by GPT-2's expression, spaces as
    they are.
    """
    rules = json.loads(raw.to_str())
    model, splitter, normalizer = (
        rules[part] or {} for part in ("model", "pre_tokenizer", "normalizer")
    )
    return (
        model.get("type") == "BPE"
        and [splitter.get(key) for key in ("type", "use_regex", "add_prefix_space")]
        == ["ByteLevel", True, False]
        and normalizer.get("type", "NFC") == "NFC"
    )


def placed_without_spaces(raw: Any) -> Any:
    """The same tokenizer, but the place of a word's first piece in a text begins behind the space."""
    copy = tokenizers.Tokenizer.from_str(raw.to_str())
    copy.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    return copy


def spelled(pieces: Iterable[str], kept: Iterable[str]) -> list[str]:
    """Consecutive pieces as WordPiece would write them: "Ġword" is word, and what goes on in a word
    begins with ##.

    Those in `kept` stay. A letter of several pieces stands at its last one; a broken letter is
    written \ufffd.
    """
    found, reader = list[str](), codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if piece in kept:
            found.append(piece)
            continue
        begins = piece.startswith(SPACE)
        letters = piece.removeprefix(SPACE)
        text = (
            reader.decode(bytes(map(BYTES.__getitem__, letters)))
            if BYTES.keys() >= {*letters}
            else letters
        )
        found.append(text if begins else CONTINUATION + text)
    if found:
        found[-1] += reader.decode(b"", final=True)
    return found
