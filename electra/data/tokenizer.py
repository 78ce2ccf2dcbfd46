"""Lines to token ids: BERT's word rules and WordPiece, with a vocabulary trained here or a
published one; and published byte-level BPE (`byte_level.py`).

Differs from a plain use of the `tokenizers` library in three ways:
1. Special tokens written in a text ("[MASK]") are ordinary text, as in the original ELECTRA: no
  corpus can forge one.
2. A word has the same pieces wherever it stands, so `encode_bytes` looks every space-separated
  chunk up in a bounded cache (`word_cache.py`) and asks the library only for what is new: the same
  ids, faster.
3. Training is deterministic. The library numbers continuation letters ("##a") in the order of a
  randomly seeded hash map; here they are numbered beforehand, in alphabetical order.
"""

import functools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tokenizers
from pydantic import Field
from pydantic.dataclasses import dataclass
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.config import Settings
from electra.data.byte_level import is_byte_level, placed_without_spaces, spelled
from electra.data.word_cache import CONTINUATION, WordMemory
from electra.errors import BadInput, shown
from electra.files import read_object, readable, sha256_bytes, write_atomic, write_json

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LIKE = "use a tokenizer of BERT, ELECTRA or ModernBERT"
# characters that a published tokenizer may read as one word: its time grows by their square
LONGEST_WORD = 200
# characters; longer words are [UNK] (transformers' value, the original ELECTRA has 200)
MAX_WORD = 100


@dataclass(frozen=True, kw_only=True)
class TrainTokenizer(Settings):
    """Train WordPiece on the corpus."""

    kind: Literal["train"]
    vocab_size: Annotated[int, Field(gt=len(SPECIALS), le=10**7)]
    lowercase: bool = True
    strip_accents: bool | None = None  # null: as lowercase
    # characters with a piece of their own
    alphabet: Annotated[int, Field(ge=1, le=0x110000)] = 1000
    # text to learn from, taken evenly from all shards
    megabytes: Annotated[int, Field(ge=1, le=10**6)] = 256


@dataclass(frozen=True, kw_only=True)
class VocabTokenizer(Settings):
    """Use a vocab.txt, one piece a line, or a tokenizer.json, which has its own rules for letters."""

    kind: Literal["vocab"]
    file: str
    lowercase: bool = True
    strip_accents: bool | None = None


@dataclass(frozen=True, kw_only=True)
class HubTokenizer(Settings):
    """Use the vocab.txt or tokenizer.json of a model on the hub."""

    kind: Literal["hub"]
    repo: str
    revision: str
    file: str = "vocab.txt"
    lowercase: bool = True
    strip_accents: bool | None = None


AnyTokenizer = Annotated[
    TrainTokenizer | VocabTokenizer | HubTokenizer, Field(discriminator="kind")
]


class Tokenizer:
    """A `tokenizers.Tokenizer` (`.raw`) whose special tokens are checked and whose words are
    remembered.
    """

    def __init__(self, raw: Any, where: object = "tokenizer") -> None:
        vocabulary: dict[str, int] = raw.get_vocab(with_added_tokens=True)
        for token in SPECIALS:
            if token not in vocabulary:
                raise BadInput(f"{where}: has no {token}; a vocabulary needs {', '.join(SPECIALS)}")
        # first: the library counts to the highest one
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise BadInput(
                f"{where}: has ids with gaps instead of 0 to {len(vocabulary) - 1}, each once"
            )
        unknown = getattr(raw.model, "unk_token", None)
        if unknown is not None and unknown not in raw.get_vocab(with_added_tokens=False):
            raise BadInput(f"{where}: has no piece {shown(unknown)}, its unk_token; {LIKE}")
        self.byte_level = is_byte_level(raw)
        as_bert = isinstance(raw.normalizer, normalizers.BertNormalizer)
        as_bert = as_bert and isinstance(raw.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        if not (self.byte_level or as_bert):
            parts = (raw.model, raw.normalizer, raw.pre_tokenizer)
            model, normalizer, splitter = (
                type(part).__name__ if part else "none" for part in parts
            )
            kind = f"{model} with normalizer {normalizer} and pre-tokenizer {splitter}"
            raise BadInput(f"{where}: is {kind}, which is not supported; {LIKE}")
        longest = getattr(raw.model, "max_input_chars_per_word", 0)
        if longest > LONGEST_WORD:
            raise BadInput(
                f"{where}: reads words of {longest:,} characters, more than {LONGEST_WORD}; {LIKE}"
            )
        prefix = getattr(raw.model, "continuing_subword_prefix", None) or ""
        if prefix != ("" if self.byte_level else CONTINUATION):
            raise BadInput(
                f"{where}: has the prefix {prefix!r} within words instead of {CONTINUATION!r}; {LIKE}"
            )
        dropout = getattr(raw.model, "dropout", None)  # of merges
        if dropout:
            fault = f"has dropout {dropout}, so it reads the same text in another way each time"
            raise BadInput(f"{where}: {fault}; set it to null")
        raw.no_padding()
        raw.no_truncation()
        self.rules = raw  # what is saved
        self.raw = placed_without_spaces(raw) if self.byte_level else raw
        self.raw.encode_special_tokens = True
        self.vocab_size = len(vocabulary)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            vocabulary[token] for token in SPECIALS
        )
        self.dtype = id_dtype(self.vocab_size)
        self._words = WordMemory(self.raw, self.dtype, before=" " if self.byte_level else "")

    def pieces(self) -> list[str]:
        """The vocabulary in the order of its ids."""
        vocabulary: dict[str, int] = self.raw.get_vocab(with_added_tokens=True)
        return sorted(vocabulary, key=vocabulary.__getitem__)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Token ids of each line, without special tokens."""
        return [
            encoding.ids
            for encoding in self.raw.encode_batch_fast(list(lines), add_special_tokens=False)
        ]

    def encode_bytes(self, lines: Sequence[str]) -> list[bytes]:
        """The ids of `encode_lines` as the bytes of an array of `dtype`, from the word memory.

        Byte-level, those of the line behind a space: lines of a corpus follow one another. It has
        single spaces alone.
        """
        of = self._words.__getitem__
        return [b"".join(map(of, line.split(" "))) for line in lines]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Token ids of each word of a sentence that has been split."""
        return self.encode_lines([f" {word}" for word in words] if self.byte_level else words)

    def spell(self, ids: Iterable[int], *, begins: bool = False) -> list[str]:
        """Consecutive pieces as people read them: ## where one goes on in a word, whatever the
        vocabulary's own sign.

        `begins`: the first of them begins a text, so it goes on in no word, though no space is
        before it.
        """
        pieces = [self.raw.id_to_token(number) for number in ids]
        if not self.byte_level:
            return pieces
        found = spelled(pieces, SPECIALS)
        return [found[0].removeprefix(CONTINUATION), *found[1:]] if begins and found else found

    def unknown_characters(self, lines: Sequence[str], encoded: Sequence[bytes]) -> int:
        """How many characters of lines, of which `encode_bytes` made `encoded`, stand in words that
        became [UNK].
        """
        unknown, of, total = self.unk_id, self._words.__getitem__, 0
        sign = np.array([unknown], dtype=self.dtype).tobytes()
        for line, ids in zip(lines, encoded, strict=True):
            if sign in ids:  # not at an even place perhaps, so each chunk is asked
                for chunk in line.split(" "):
                    if sign in of(chunk):
                        encoding = self.raw.encode(chunk, add_special_tokens=False)
                        pairs = zip(encoding.ids, encoding.offsets, strict=True)
                        total += sum(
                            end - start for number, (start, end) in pairs if number == unknown
                        )
        return total

    @functools.cached_property
    def identity(self) -> str:
        """The sha256 of the tokenizer's JSON: rows carry it, and nothing reads rows made by
        another.
        """
        text: str = self.rules.to_str()
        return sha256_bytes(text.encode())


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest unsigned type (little-endian) that holds every id."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


def train_wordpiece(
    lines: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    alphabet: int = 1000,
    counts: Counter[str] | None = None,
) -> Tokenizer:
    """Train WordPiece on `lines`; the same lines give the same vocabulary, ids included.

    They are read twice, once for their letters and once for their words, and never held: only
    counts are in memory. Words of more than MAX_WORD characters, which are [UNK] anyway and would
    take time by the square of their length, teach nothing; how many there were is added to `counts`
    as `long_words`. Raises BadInput when there is no text or when the letters alone exceed
    `vocab_size`. The vocabulary may come out smaller than asked for when the text has not enough
    different words.
    """
    assert iter(lines) is not lines, "an iterator can be read only once"
    kept, continuations = letters_of(
        lines,
        vocab_size,
        lowercase=lowercase,
        strip_accents=strip_accents,
        alphabet=alphabet,
        counts=counts,
    )
    normalizer = _normalizer(lowercase, strip_accents)
    raw = tokenizers.Tokenizer(models.WordPiece(unk_token=UNK))
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIALS, *continuations],
        initial_alphabet=kept,
        limit_alphabet=len(kept),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    raw.train_from_iterator(
        (_short_words(normalizer.normalize_str(line))[0] for line in lines), trainer
    )
    vocabulary: dict[str, int] = raw.get_vocab()
    return from_pieces(
        sorted(vocabulary, key=vocabulary.__getitem__),
        lowercase=lowercase,
        strip_accents=strip_accents,
    )


def letters_of(
    lines: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool,
    strip_accents: bool | None,
    alphabet: int,
    counts: Counter[str] | None = None,
) -> tuple[list[str], list[str]]:
    """The letters that a vocabulary begins with, and their continuations. Raises as
    `train_wordpiece` does.
    """
    normalizer = _normalizer(lowercase, strip_accents)
    letters: Counter[str] = Counter()
    long_words = 0
    for line in lines:
        text, left_out = _short_words(normalizer.normalize_str(line))
        letters.update(text)
        long_words += left_out
    if counts is not None:
        counts["long_words"] += long_words
    kept = sorted(sorted(c for c in letters if not c.isspace()), key=lambda c: -letters[c])[
        :alphabet
    ]
    if not kept:
        raise BadInput("corpus: holds no text to learn a vocabulary from")
    continuations = [CONTINUATION + letter for letter in sorted(kept) if not _stands_alone(letter)]
    floor = len(SPECIALS) + len(continuations) + len(kept)
    if vocab_size < floor:
        need = f"special tokens and the {len(kept):,} letters of the text alone need {floor:,}"
        raise BadInput(
            f"tokenizer.vocab_size: is {vocab_size:,}, but {need}; raise it or lower alphabet"
        )
    return kept, continuations


_LONG = re.compile(rf"(?<!\S)\S{{{MAX_WORD + 1},}}")
_SPLITTER = pre_tokenizers.BertPreTokenizer()


def _short_words(line: str) -> tuple[str, int]:
    """A normalised line without its words of more than MAX_WORD characters, and how many those are."""
    left_out = 0

    def keep(chunk: re.Match[str]) -> str:
        nonlocal left_out
        words = [word for word, _ in _SPLITTER.pre_tokenize_str(chunk[0])]
        kept = [word for word in words if len(word) <= MAX_WORD]
        left_out += len(words) - len(kept)
        return chunk[0] if len(kept) == len(words) else " ".join(kept)

    return (_LONG.sub(keep, line), left_out) if len(line) > MAX_WORD else (line, 0)


def from_pieces(
    pieces: Sequence[str],
    *,
    lowercase: bool,
    strip_accents: bool | None,
    where: object = "vocabulary",
) -> Tokenizer:
    """Make a WordPiece tokenizer of its pieces in the order of their ids."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    for token in SPECIALS:
        if token not in ids:
            raise BadInput(f"{where}: has no {token}; a vocabulary needs {', '.join(SPECIALS)}")
    raw = tokenizers.Tokenizer(
        models.WordPiece(
            ids,
            unk_token=UNK,
            max_input_chars_per_word=MAX_WORD,
            continuing_subword_prefix=CONTINUATION,
        )
    )
    raw.normalizer = _normalizer(lowercase, strip_accents)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.BertProcessing((SEP, ids[SEP]), (CLS, ids[CLS]))
    raw.decoder = decoders.WordPiece(prefix=CONTINUATION)
    raw.add_special_tokens(list(SPECIALS))
    return Tokenizer(raw, where)


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and, of WordPiece, vocab.txt (transformers reads
    all three).
    """
    named = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
            SPECIALS,
            strict=True,
        )
    )
    write_atomic(folder / "tokenizer.json", tokenizer.rules.to_str(pretty=True) + "\n")
    if tokenizer.byte_level:
        inputs = {"model_input_names": ["input_ids", "attention_mask"]}
        write_json(
            folder / "tokenizer_config.json",
            {"tokenizer_class": "PreTrainedTokenizerFast", **inputs, **named},
        )
        return
    write_atomic(folder / "vocab.txt", "".join(piece + "\n" for piece in tokenizer.pieces()))
    settings = json.loads(tokenizer.rules.to_str())["normalizer"]
    config = {
        "tokenizer_class": "ElectraTokenizer",
        "do_lower_case": settings["lowercase"],
        "strip_accents": settings["strip_accents"],
        "tokenize_chinese_chars": settings["handle_chinese_chars"],
        "model_max_length": 512,
    }
    write_json(folder / "tokenizer_config.json", {**config, **named})


def load(path: Path, *, lowercase: bool = True, strip_accents: bool | None = None) -> Tokenizer:
    """Load a tokenizer.json, a vocab.txt, or the one of the two in a folder, the first where it has
    both.

    A tokenizer.json has its own rules for letters. Those of a vocab.txt are the arguments, or in a
    folder its tokenizer_config.json.
    """
    if path.is_dir() and not (path / "tokenizer.json").is_file() and (path / "vocab.txt").is_file():
        config = path / "tokenizer_config.json"
        settings = read_object(config) if config.is_file() else {}
        lowercase = settings.get("do_lower_case", True)
        strip_accents = settings.get("strip_accents")
        if not (isinstance(lowercase, bool) and isinstance(strip_accents, bool | None)):
            cases = f"do_lower_case {shown(lowercase)} and strip_accents {shown(strip_accents)}"
            raise BadInput(f"{config}: has {cases}, which must be true or false; {LIKE}")
        return _from_vocab(path / "vocab.txt", lowercase, strip_accents)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BadInput(
            f"{file}: there is no such file; a tokenizer is a tokenizer.json or a vocab.txt"
        )
    if file.suffix != ".json":
        return _from_vocab(file, lowercase, strip_accents)
    with readable(file):
        data = file.read_bytes()
    try:
        return Tokenizer(tokenizers.Tokenizer.from_buffer(data), file)
    except BadInput:
        raise
    except Exception as error:  # the library raises bare Exception
        raise BadInput(f"{file}: is not a tokenizer.json ({error})") from None


def _from_vocab(path: Path, lowercase: bool, strip_accents: bool | None) -> Tokenizer:
    """Read one piece a line; the line's number is its id."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start:,})") from None
    pieces = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if pieces[-1] == "":
        pieces.pop()
    lines: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if lines.setdefault(piece, number) != number:
            raise BadInput(f"{path}:{number}: repeats {piece!r} of line {lines[piece]}")
    return from_pieces(pieces, lowercase=lowercase, strip_accents=strip_accents, where=path)


def _normalizer(lowercase: bool, strip_accents: bool | None) -> Any:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )


def _stands_alone(letter: str) -> bool:
    """Whether BERT's rules make a word of this character wherever it stands (punctuation and
    ideographs).
    """
    point = ord(letter)
    ascii_symbol = (
        33 <= point <= 47 or 58 <= point <= 64 or 91 <= point <= 96 or 123 <= point <= 126
    )
    ideograph = (
        0x3400 <= point <= 0x4DBF
        or 0x4E00 <= point <= 0x9FFF
        or 0xF900 <= point <= 0xFAFF
        or point >= 0x20000
    )
    return ascii_symbol or ideograph or unicodedata.category(letter).startswith("P")
