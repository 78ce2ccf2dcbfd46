"""A bounded memory of the token ids of words: what makes tokenizing several times faster, with the library's own ids.

By BERT's rules white space, punctuation and ideographs part words, and a word's pieces depend on the word alone. So a
chunk between two spaces always has the same ids, and text is mostly chunks met before. A new chunk is made of
1. printable ASCII: cut into words and pieces here, by WordPiece's longest-first rule;
2. ideographs and signs that stand alone, and the runs between them: so scripts without spaces are remembered, too;
3. anything else: the `tokenizers` library decides, since its tables of characters are the definition.
"""

import json
import re
from typing import Any

import numpy as np

CONTINUATION = "##"
MEMORY_WORDS = 250_000  # chunks in each of two generations: some 100 MB together
LONGEST_CHUNK = 32  # characters; a longer chunk will hardly come again

# The words of printable ASCII by BERT's rules: runs of letters and digits, and single other signs.
_PLAIN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
# Ideographs and the most common signs beyond ASCII that stand alone wherever they are (tested against the library).
_ALONE = (
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\u30fb\uff01-\uff03\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\u2010-\u2027\u00ab\u00bb\u0964\u0965\u060c\u061b\u061f"
)
_PARTS = re.compile(f"[{_ALONE}]|[^{_ALONE}]+")


class WordMemory(dict[str, bytes]):
    """`memory[chunk]` is the ids of a chunk without spaces, as the bytes of an array of `dtype`.

    Two generations bound it: a full one becomes the older, and what is met again there comes back. So common words
    stay, and a corpus of any size and script takes the same memory.
    """

    def __init__(self, raw: Any, vocabulary: dict[str, int], dtype: np.dtype[Any]) -> None:
        self._raw, self._dtype = raw, dtype
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
                words = _PLAIN.findall(chunk)
                return self._longest_first(chunk) if words == [chunk] else b"".join(map(self.__getitem__, words))
            if len(parts := _PARTS.findall(chunk)) > 1:
                return b"".join(map(self.__getitem__, parts))
        encoding = self._raw.encode(chunk, add_special_tokens=False)
        return np.array(encoding.ids, dtype=self._dtype).tobytes()

    def _longest_first(self, word: str) -> bytes:
        """WordPiece itself, for a run of ASCII letters and digits or one other ASCII sign: the longest piece first."""
        text = word.lower() if self._lowercase else word
        if len(text) > self._longest_word:
            return self._unknown
        pieces = self._pieces
        start, prefix, found = 0, "", b""
        while start < len(text):
            end = len(text)
            while (piece := pieces.get(prefix + text[start:end])) is None:
                end -= 1
                if end == start:
                    return self._unknown
            found += piece
            start, prefix = end, CONTINUATION
        return found
