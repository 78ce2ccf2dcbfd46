"""Spell the pieces of byte-level BPE, as the authors of ModernBERT publish it.

A piece is a run of bytes, each written as one letter, and the space before a word belongs to the
word's first piece.
"""

import codecs
from collections.abc import Iterable

from electra.data.word_cache import CONTINUATION

SPACE = "Ġ"  # how a space is written
# bytes that are written as themselves
_PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTED]
BYTES = {chr(byte): byte for byte in _PRINTED} | {
    chr(0x100 + index): byte for index, byte in enumerate(_OTHERS)
}


def spell_as_wordpiece(pieces: Iterable[str], special: Iterable[str]) -> list[str]:
    """Return consecutive pieces as WordPiece would write them: "Ġword" is word, and a piece that
    continues a word begins with ##.

    Special pieces stay the same. A letter of several pieces is written at the last of them, and a
    broken letter as \\ufffd.
    """
    result = list[str]()
    reader = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if piece in special:
            result.append(piece)
            continue
        text = piece.removeprefix(SPACE)
        if BYTES.keys() >= set(text):  # an added token has letters that stand for no byte
            text = reader.decode(bytes(BYTES[letter] for letter in text))
        result.append(text if piece.startswith(SPACE) else CONTINUATION + text)
    if result:
        result[-1] += reader.decode(b"", final=True)
    return result
