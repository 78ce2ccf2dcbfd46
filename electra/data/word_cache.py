"""A bounded memory of the token ids of words: what makes tokenizing several times faster, with the library's own ids.

By BERT's rules white space, punctuation and ideographs part words, and a word's pieces depend on the word alone. So a
chunk between two spaces always has the same ids, and text is mostly chunks met before. A new chunk is made of
1. signs and ideographs that stand alone, and the runs between them: so scripts without spaces are remembered, too;
2. runs of characters of which the library has told once what it makes of each: cut here, the longest piece first;
3. anything else: the `tokenizers` library decides, since its tables of characters are the definition.
"""

import json
import re
import unicodedata
from typing import Any

import numpy as np

CONTINUATION = "##"
ASK = "\0"  # in no normalised text: the library removes it
MEMORY_WORDS = 250_000  # chunks in each of two generations: some 100 MB together
LONGEST_CHUNK = 32  # characters; a longer chunk will hardly come again
MONSTROUS = 1 << 16  # characters without a space: no text of any script, but found

# The words of printable ASCII by BERT's rules: runs of letters and digits, and single other signs.
_PLAIN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
# Signs and ideographs that stand alone wherever they are (tested against the library).
_ALONE = (
    r"!-/:-@\[-`{-~"
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\u30fb\uff01-\uff03\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\u2010-\u2027\u00ab\u00bb\u0964\u0965\u060c\u061b\u061f"
)
_PARTS = re.compile(f"[{_ALONE}]|[^{_ALONE}]+")


class Letters(dict[str, str]):
    """What the library makes of a character within a word; ASK where its neighbours may matter, or it parts words."""

    def __init__(self, raw: Any, *, decomposes: bool) -> None:
        self._raw, self._decomposes = raw, decomposes

    def __missing__(self, character: str) -> str:
        normal: str = self._raw.normalizer.normalize_str(f"a{character}a")
        inside = normal[1:-1]
        one_word = normal == f"a{inside}a" and len(self._raw.pre_tokenizer.pre_tokenize_str(normal)) == 1
        moves = self._decomposes and any(map(unicodedata.combining, inside))  # marks are put in order
        self[character] = made = inside if one_word and not moves else ASK
        return made


class WordMemory(dict[str, bytes]):
    """`memory[chunk]` is the ids of a chunk without spaces, as the bytes of an array of `dtype`.

    `before` is what the library is given before a chunk: the space that a byte-level word begins with.

    Two generations bound it: a full one becomes the older, and what is met again there comes back. So common words
    stay, and a corpus of any size and script takes the same memory.
    """

    def __init__(self, raw: Any, vocabulary: dict[str, int], dtype: np.dtype[Any], before: str = "") -> None:
        self._raw, self._dtype, self._before = raw, dtype, before
        self._older: dict[str, bytes] = {}
        self._pieces = {piece: np.array([i], dtype=dtype).tobytes() for piece, i in vocabulary.items()}
        rules = json.loads(raw.to_str())
        normalizer, splitter, model = (rules[part] or {} for part in ("normalizer", "pre_tokenizer", "model"))
        self._known_rules = (
            (normalizer.get("type"), normalizer.get("clean_text")) == ("BertNormalizer", True)
            and normalizer.get("handle_chinese_chars") is True
            and splitter.get("type") == "BertPreTokenizer"
            and (model.get("type"), model.get("continuing_subword_prefix")) == ("WordPiece", CONTINUATION)
        )
        self._lowercase, self._longest_word = normalizer.get("lowercase"), model.get("max_input_chars_per_word", 0)
        strips = normalizer.get("strip_accents")
        self._letters = Letters(raw, decomposes=bool(self._lowercase if strips is None else strips))
        self._unknown = self._pieces.get(str(model.get("unk_token")), b"")

    def __missing__(self, chunk: str) -> bytes:
        ids = self._older.get(chunk)
        if ids is None:
            ids = self._encode(chunk)
        if len(chunk) <= LONGEST_CHUNK:
            if len(self) >= MEMORY_WORDS:
                self._older = dict(self)
                self.clear()
            self[chunk] = ids
        return ids

    def _encode(self, chunk: str) -> bytes:
        """The ids of a chunk that is not remembered."""
        if self._known_rules:
            if chunk.isascii() and chunk.isprintable():
                if len(words := _parts(_PLAIN, chunk)) != 1 or words[0] != chunk:
                    return b"".join(map(self.__getitem__, words))
                return self._longest_first(chunk.lower() if self._lowercase else chunk)
            if len(parts := _parts(_PARTS, chunk)) > 1:
                return b"".join(map(self.__getitem__, parts))
            word = "".join(map(self._letters.__getitem__, chunk))
            if ASK not in word:
                return self._longest_first(word)
        encoding = self._raw.encode(self._before + chunk, add_special_tokens=False)
        return np.array(encoding.ids, dtype=self._dtype).tobytes()

    def _longest_first(self, word: str) -> bytes:
        """WordPiece itself, for one word as the library has normalised it: the longest piece first."""
        if len(word) > self._longest_word:
            return self._unknown
        pieces = self._pieces
        start, prefix, ids = 0, "", b""
        while start < len(word):
            end = len(word)
            while (piece := pieces.get(prefix + word[start:end])) is None:
                end -= 1
                if end == start:
                    return self._unknown
            ids += piece
            start, prefix = end, CONTINUATION
        return ids


def _parts(pattern: re.Pattern[str], chunk: str) -> list[str]:
    """All matches; a monstrous chunk is halved behind a sign first, so that its list of characters fits in memory."""
    if len(chunk) > MONSTROUS and (middle := _PARTS.search(chunk, len(chunk) // 2)) and middle.end() < len(chunk):
        return [chunk[: middle.end()], chunk[middle.end() :]]
    return pattern.findall(chunk)
