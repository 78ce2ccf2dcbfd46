"""Byte-level BPE, as the authors of ModernBERT publish it: read from a tokenizer.json, never trained here.

A piece is a run of bytes, each written as one letter, and the space before a word belongs to the word's first piece.
"""

import json
from typing import Any

import tokenizers
from tokenizers import processors

from electra.data.words import CONTINUATION

SPACE = "Ġ"  # how a space is written


def is_byte_level(raw: Any) -> bool:
    """Whether a tokenizer is BPE over bytes whose words are parted by GPT-2's expression."""
    rules = json.loads(raw.to_str())
    model, splitter, normalizer = (rules[part] or {} for part in ("model", "pre_tokenizer", "normalizer"))
    return (
        model.get("type") == "BPE"
        and (splitter.get("type"), splitter.get("use_regex")) == ("ByteLevel", True)
        and normalizer.get("type", "NFC") == "NFC"
    )


def placed_without_spaces(raw: Any) -> Any:
    """The same tokenizer, but the place of a word's first piece in a text begins behind the space."""
    copy = tokenizers.Tokenizer.from_str(raw.to_str())
    copy.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    return copy


def spelled(raw: Any, piece: str) -> str:
    """A piece as WordPiece would write it: "Ġword" is word, and what goes on in a word begins with ##."""
    text: str = raw.decoder.decode([piece.removeprefix(SPACE)])
    return text if piece.startswith(SPACE) else CONTINUATION + text
