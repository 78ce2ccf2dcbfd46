"""Read and train tokenizers: BERT's word rules with WordPiece, and published byte-level BPE.

It differs from plain use of the `tokenizers` library in four ways:
1. The five special tokens are ordinary text when a text has them ("[MASK]"), as in the original
   ELECTRA, so no corpus can forge one. Other added tokens are found in text, as transformers does.
2. A word has the same pieces wherever it stands. `encode_bytes` looks every space-separated chunk
   up in a bounded cache (`word_cache.py`) and asks the library only for new chunks.
3. Training is deterministic. The library numbers continuation letters ("##a") in the order of a
   randomly seeded hash map. Here they are numbered beforehand, in alphabetical order.
4. The normal form of the training text is part of the tokenizer: one that keeps accents has it in
   tokenizer.json, in front of BERT's own rules. One that strips them reads every form the same way.
"""

import functools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.config import Settings
from electra.data.byte_level import spell_as_wordpiece
from electra.data.word_cache import CONTINUATION, WordCache
from electra.errors import BadInput, short_repr
from electra.files import (
    dump_json,
    read_errors,
    read_object,
    sha256_bytes,
    unique_keys,
    write_atomic,
    write_json,
)

UNK = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
SPECIALS = ("[PAD]", UNK, CLS, SEP, MASK)
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")  # in transformers
CONFIG = "tokenizer_config.json"
FILES = ("tokenizer.json", "vocab.txt", CONFIG)
TOKENIZER_ADVICE = "use a tokenizer of BERT, ELECTRA or ModernBERT"
# characters that a published tokenizer may read as one word: its time grows by their square
LONGEST_WORD = 200
# characters; longer words are [UNK] (transformers' value, the original ELECTRA has 200)
MAX_WORD = 100
JOINERS = "\u200c\u200d"  # they stand within words of many scripts, and BERT's rules drop them
Form = Literal["none", "NFC", "NFKC"]

# For each key of a published tokenizer the values that `Tokenizer` works with.
_WORDPIECE_RULES: dict[str, list[Any]] = {
    "model.type": ["WordPiece"],
    "model.unk_token": [UNK],
    "model.continuing_subword_prefix": [CONTINUATION],
    "model.max_input_chars_per_word": list(range(LONGEST_WORD + 1)),
    "pre_tokenizer.type": ["BertPreTokenizer"],
}
_BYTE_LEVEL_RULES: dict[str, list[Any]] = {
    "model.dropout": [None, 0.0],  # of merges: the same text would be read differently each time
    "model.continuing_subword_prefix": [None, ""],
    "pre_tokenizer.type": ["ByteLevel"],
    "pre_tokenizer.use_regex": [True],
    "pre_tokenizer.add_prefix_space": [False],
    "normalizer.type": [None, "NFC"],
}
# The same for the tokenizer_config.json next to a vocab.txt: classes and options that split words.
_CONFIG_RULES: dict[str, list[Any]] = {
    "tokenizer_class": [
        None,
        "BertTokenizer",
        "BertTokenizerFast",
        "ElectraTokenizer",
        "ElectraTokenizerFast",
    ],
    "do_basic_tokenize": [None, True],
    "never_split": [None, []],
    "word_tokenizer_type": [None, "basic"],
    "subword_tokenizer_type": [None, "wordpiece"],
}
# Keys of a tokenizer_config.json and of a BertNormalizer that mean the same.
_LETTER_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# Classes of transformers that follow tokenizer.json alone.
_WITHOUT_OPTIONS = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Allowed values in a tokenizer_config.json next to any file.
_FOLDER_RULES: dict[str, list[Any]] = {
    **{key: [None, True, False] for key in _LETTER_OPTIONS},
    **{name: [None, token] for name, token in zip(NAMES, SPECIALS, strict=True)},
    "truncation_side": [None, "right"],
}


@dataclass(frozen=True, kw_only=True)
class LetterRules(Settings):
    """Rules for letters, of a tokenizer that has none yet."""

    lowercase: bool = True
    strip_accents: bool | None = None  # null: as lowercase


@dataclass(frozen=True, kw_only=True)
class TrainTokenizer(LetterRules):
    """Train WordPiece on the corpus."""

    kind: Literal["train"]
    vocab_size: Annotated[int, Field(gt=len(SPECIALS), le=10**7)]
    # characters with a piece of their own
    alphabet: Annotated[int, Field(ge=1, le=0x110000)] = 1000
    # text to learn from, taken evenly from all shards
    megabytes: Annotated[int, Field(ge=1, le=10**6)] = 256


@dataclass(frozen=True, kw_only=True)
class VocabTokenizer(LetterRules):
    """Use a vocab.txt, one piece per line, or a tokenizer.json with its own rules for letters."""

    kind: Literal["vocab"]
    file: str


@dataclass(frozen=True, kw_only=True)
class HubTokenizer(LetterRules):
    """Use the vocab.txt or tokenizer.json of a model on the hub."""

    kind: Literal["hub"]
    repo: str
    revision: str
    file: str = "vocab.txt"


AnyTokenizer = Annotated[
    TrainTokenizer | VocabTokenizer | HubTokenizer, Field(discriminator="kind")
]


class Tokenizer:
    """A checked tokenizer of the library: `rules` is saved, `raw` reads text."""

    def __init__(self, rules: tokenizers.Tokenizer, where: object = "tokenizer") -> None:
        vocabulary: dict[str, int] = rules.get_vocab(with_added_tokens=True)
        _require_specials(vocabulary, where)
        # first: the library counts to the highest one
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise BadInput(
                f"{where}: has ids with gaps instead of 0 to {len(vocabulary) - 1}, each once"
            )
        rules.no_padding()
        rules.no_truncation()
        values: dict[str, Any] = json.loads(rules.to_str())
        self.byte_level = values["model"]["type"] == "BPE"
        _require_rules(values, _BYTE_LEVEL_RULES if self.byte_level else _WORDPIECE_RULES, where)
        if not (self.byte_level or _letter_rules(values)):
            rules_said = short_repr(values["normalizer"])
            raise BadInput(
                f"{where}: normalizer is {rules_said}, which is not supported; {TOKENIZER_ADVICE}"
            )
        unknown = values["model"]["unk_token"]
        if unknown is not None and unknown not in values["model"]["vocab"]:
            raise BadInput(
                f"{where}: has no piece {short_repr(unknown)}, its unk_token; {TOKENIZER_ADVICE}"
            )
        self.rules = rules
        self.raw = _make_reader(rules, values)
        self.vocab_size = len(vocabulary)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            vocabulary[token] for token in SPECIALS
        )
        # of ids in files: the smallest that holds them all
        self.dtype = np.dtype("<u2" if self.vocab_size <= 1 << 16 else "<u4")
        self._words = WordCache(self.raw, self.dtype, before=" " if self.byte_level else "")
        # such a token may begin in one chunk and end in another
        self._crosses_spaces = any(
            " " in token["content"].strip() or token["lstrip"] or token["rstrip"]
            for token in values["added_tokens"]
            if token["content"] not in SPECIALS
        )

    def pieces(self) -> list[str]:
        """Return the vocabulary in the order of its ids."""
        vocabulary: dict[str, int] = self.raw.get_vocab(with_added_tokens=True)
        return sorted(vocabulary, key=vocabulary.__getitem__)

    def encode(self, text: str) -> tuple[list[int], NDArray[np.int64]]:
        """Return the token ids of a text, without special tokens, and the span of each, (T, 2).

        A span includes the marks behind its last letter, which the rules for letters may have
        removed: the second half of a decomposed "é", a vowel sign.
        """
        encoding = self.raw.encode(text, add_special_tokens=False)
        spans: list[tuple[int, int]] = []
        following = len(text)
        for start, end in reversed(encoding.offsets):
            while end < following and _belongs_to_letter(text[end]):
                end += 1
            spans.append((start, end))
            following = start
        return encoding.ids, np.array(spans[::-1], dtype=np.int64).reshape(-1, 2)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each line, without special tokens."""
        return [
            encoding.ids
            for encoding in self.raw.encode_batch_fast(list(lines), add_special_tokens=False)
        ]

    def encode_bytes(self, lines: Sequence[str]) -> list[bytes]:
        """Return the ids of `encode_lines` as the bytes of arrays of `dtype`, from the word cache.

        A byte-level tokenizer reads each line as if behind a space, since lines of a corpus follow
        one another. A corpus has single spaces only.
        """
        if self._crosses_spaces:
            behind = [f" {line}" for line in lines] if self.byte_level else lines
            return [np.array(ids, self.dtype).tobytes() for ids in self.encode_lines(behind)]
        ids_of = self._words.__getitem__
        return [b"".join(map(ids_of, line.split(" "))) for line in lines]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each word of a sentence that has been split."""
        return self.encode_lines([f" {word}" for word in words] if self.byte_level else words)

    def spell(self, ids: Iterable[int], *, begins: bool = False) -> list[str]:
        """Return consecutive pieces as people read them, with ## where one continues a word.

        `begins`: the first piece begins a text, so it continues no word, although byte-level no
        space is before it.
        """
        pieces = [self.raw.id_to_token(number) for number in ids]
        if not self.byte_level:
            return pieces
        pieces = spell_as_wordpiece(pieces, SPECIALS)
        if begins and pieces:
            pieces[0] = pieces[0].removeprefix(CONTINUATION)
        return pieces

    def unknown_characters(self, lines: Sequence[str], encoded: Sequence[bytes]) -> int:
        """Return how many characters of the lines are in words that became [UNK]. `encoded` is from
        `encode_bytes`.
        """
        total = 0
        unknown = np.array([self.unk_id], dtype=self.dtype).tobytes()
        for line, ids in zip(lines, encoded, strict=True):
            if unknown not in ids:  # may be halves of two ids, so each chunk is checked
                continue
            for chunk in line.split(" "):
                if unknown in self._words[chunk]:
                    encoding = self.raw.encode(chunk, add_special_tokens=False)
                    for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                        total += end - start if number == self.unk_id else 0
        return total

    @functools.cached_property
    def identity(self) -> str:
        """The sha256 of the tokenizer's JSON, by which rows name the tokenizer that made them."""
        text: str = self.rules.to_str()
        return sha256_bytes(text.encode())


def _require_specials(vocabulary: Mapping[str, int], where: object) -> None:
    for token in SPECIALS:
        if token not in vocabulary:
            raise BadInput(f"{where}: has no {token}; a vocabulary needs {', '.join(SPECIALS)}")


def _belongs_to_letter(character: str) -> bool:
    """Return whether it is a mark, a joiner, or a later part of a decomposed Hangul letter or of a
    flag.
    """
    mark = unicodedata.category(character).startswith("M")
    part = "\u1160" <= character <= "\u11ff" or "\U000e0020" <= character <= "\U000e007f"
    return mark or part or character in JOINERS


def _make_reader(rules: tokenizers.Tokenizer, values: dict[str, Any]) -> Any:
    """Return the tokenizer that reads text: only the five special tokens are text themselves, and
    byte-level a word's span begins behind its space.

    Most files need no second tokenizer: parsing 30,522 pieces again takes a tenth of a second.
    """
    added = [token | {"special": token["content"] in SPECIALS} for token in values["added_tokens"]]
    byte_level = values["model"]["type"] == "BPE"
    reader = rules
    if byte_level or added != values["added_tokens"]:
        reader = tokenizers.Tokenizer.from_str(json.dumps(values | {"added_tokens": added}))
    if byte_level:
        reader.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    reader.encode_special_tokens = True
    return reader


# ── training ──


def train_wordpiece(
    lines: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    alphabet: int = 1000,
    form: Form = "NFC",
    counts: Counter[str] | None = None,
) -> Tokenizer:
    """Train WordPiece on `lines`; the same lines give the same vocabulary, ids included.

    They are read twice, once for their letters and once for their words, and never held: only
    counts are in memory. Words of more than MAX_WORD characters, which are [UNK] anyway and would
    take time by the square of their length, teach nothing. Their number is added to `counts` as
    `long_words`. `form` is the normal form of the lines. Raises BadInput if there is no text or if
    the letters alone exceed `vocab_size`. The vocabulary may come out smaller than asked for when
    the text has not enough different words.
    """
    assert iter(lines) is not lines, "an iterator can be read only once"
    normalizer = _normalizer(lowercase, strip_accents, form)
    kept, continuations, long_words = choose_letters(
        lines, vocab_size, lowercase=lowercase, strip_accents=strip_accents, alphabet=alphabet
    )
    if counts is not None:
        counts["long_words"] += long_words
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
        (_drop_long_words(normalizer.normalize_str(line))[0] for line in lines), trainer
    )
    vocabulary: dict[str, int] = raw.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    return from_pieces(pieces, lowercase=lowercase, strip_accents=strip_accents, form=form)


def choose_letters(
    lines: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool,
    strip_accents: bool | None,
    alphabet: int,
) -> tuple[list[str], list[str], int]:
    """Return the letters that a vocabulary begins with, their continuations, and the number of
    words that are too long. Raises BadInput as `train_wordpiece` does.
    """
    normalizer = _normalizer(lowercase, strip_accents)
    letters: Counter[str] = Counter()
    long_words = 0
    for line in lines:
        text, dropped = _drop_long_words(normalizer.normalize_str(line))
        letters.update(text)
        long_words += dropped
    known = [letter for letter in sorted(letters) if not letter.isspace()]
    kept = sorted(known, key=lambda letter: -letters[letter])[:alphabet]
    if not kept:
        reason = "holds no text to learn a vocabulary from"
        if long_words:
            reason = (
                f"all of its {long_words:,} words are longer than {MAX_WORD} characters; separate "
                "words by spaces (Thai, Khmer, Lao and Burmese need a word segmenter)"
            )
        raise BadInput(f"corpus: {reason}")
    continuations = [CONTINUATION + letter for letter in sorted(kept) if not _stands_alone(letter)]
    floor = len(SPECIALS) + len(continuations) + len(kept)
    if vocab_size < floor:
        need = f"special tokens and the {len(kept):,} letters of the text alone need {floor:,}"
        raise BadInput(
            f"tokenizer.vocab_size: is {vocab_size:,}, but {need}; raise it or lower alphabet"
        )
    return kept, continuations, long_words


_LONG = re.compile(rf"(?<!\S)\S{{{MAX_WORD + 1},}}")
_SPLITTER = pre_tokenizers.BertPreTokenizer()
# puts spaces around ideographs and changes nothing else
_SPACER = normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=False)


def _drop_long_words(line: str) -> tuple[str, int]:
    """Return a normalised line without its words of more than MAX_WORD characters, and the number
    of those.
    """
    dropped = 0

    def keep_short(chunk: re.Match[str]) -> str:
        nonlocal dropped
        words = [word for word, _ in _SPLITTER.pre_tokenize_str(chunk[0])]
        kept = [word for word in words if len(word) <= MAX_WORD]
        dropped += len(words) - len(kept)
        return chunk[0] if len(kept) == len(words) else " ".join(kept)

    return _LONG.sub(keep_short, line), dropped


def from_pieces(
    pieces: Sequence[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
    form: Form = "none",
    where: object = "vocabulary",
) -> Tokenizer:
    """Make a WordPiece tokenizer of its pieces in the order of their ids.

    `form` is the normal form of the text that the pieces were learnt from.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    _require_specials(ids, where)
    raw = tokenizers.Tokenizer(
        models.WordPiece(
            ids,
            unk_token=UNK,
            max_input_chars_per_word=MAX_WORD,
            continuing_subword_prefix=CONTINUATION,
        )
    )
    raw.normalizer = _normalizer(lowercase, strip_accents, form, handle_chinese_chars)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.BertProcessing((SEP, ids[SEP]), (CLS, ids[CLS]))
    raw.decoder = decoders.WordPiece(prefix=CONTINUATION)
    raw.add_special_tokens(list(SPECIALS))
    return Tokenizer(raw, where)


def _normalizer(
    lowercase: bool,
    strip_accents: bool | None,
    form: Form = "none",
    handle_chinese_chars: bool = True,
) -> Any:
    """Return BERT's rules for letters, with the normal form of a text in front where it matters."""
    letters = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=handle_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    if not _form_matters(form, lowercase, strip_accents):
        return letters
    return normalizers.Sequence([getattr(normalizers, form)(), letters])


def _form_matters(form: Form, lowercase: bool, strip_accents: bool | None) -> bool:
    """Return whether reading a text in this normal form changes anything: stripping accents
    decomposes letters, so NFC would change nothing there.
    """
    strips = lowercase if strip_accents is None else strip_accents
    return form != "none" and not (form == "NFC" and strips)


def _stands_alone(letter: str) -> bool:
    """Return whether BERT's rules make a word of this character wherever it stands (punctuation and
    ideographs).
    """
    return len(_SPLITTER.pre_tokenize_str(_SPACER.normalize_str(f"a{letter}a"))) > 1


# ── files ──


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and, of WordPiece, vocab.txt (transformers reads
    all three).
    """
    rules = json.loads(tokenizer.rules.to_str())
    config: dict[str, Any] = dict(zip(NAMES, SPECIALS, strict=True))
    write_atomic(folder / "tokenizer.json", tokenizer.rules.to_str(pretty=True) + "\n")
    if tokenizer.byte_level:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config["model_input_names"] = ["input_ids", "attention_mask"]
    else:
        write_atomic(folder / "vocab.txt", "".join(piece + "\n" for piece in tokenizer.pieces()))
        config["tokenizer_class"] = "ElectraTokenizer"
        longest = rules["model"]["max_input_chars_per_word"]
        if rules["normalizer"]["type"] == "Sequence" or longest != MAX_WORD:
            # the only class of transformers that follows these rules of tokenizer.json
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        letters = _letter_rules(rules)
        config |= {theirs: letters[ours] for theirs, ours in _LETTER_OPTIONS.items()}
    write_json(folder / "tokenizer_config.json", config)


def read_files(folder: Path, positions: int) -> dict[str, str]:
    """Return the texts of a tokenizer's files by name, for the folder of a model that has been
    trained on rows of `positions` tokens: transformers cuts longer ones as well.
    """
    texts = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in FILES
        if (folder / name).is_file()
    }
    config = _read_config(folder) | {"model_max_length": positions}
    return texts | {CONFIG: dump_json(config)}


def _read_config(folder: Path) -> dict[str, Any]:
    return read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}


def added_tokens(folder: Path) -> set[str]:
    """Return the tokens that a folder's other files say were added to the vocabulary."""
    file = folder / "added_tokens.json"
    added = set(read_object(file)) if file.is_file() else set()
    decoder = _read_config(folder).get("added_tokens_decoder")
    tokens = decoder.values() if isinstance(decoder, dict) else ()
    return added | {str(token.get("content")) for token in tokens if isinstance(token, dict)}


def load(
    path: Path,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    form: Form = "none",
) -> Tokenizer:
    """Load a tokenizer.json, a vocab.txt, or a folder with one of the two, the first where it has
    both.

    A tokenizer.json has its own rules for letters, and a vocab.txt those of the arguments. In a
    folder both yield to the options of tokenizer_config.json, as in its class of transformers, and
    classes and options that cannot be followed are refused. `form`: the normal form of the text
    that is to be read.
    """
    config: dict[str, Any] = {}
    file = path
    if path.is_dir():
        config = _read_config(path)
        described = [name for name in NAMES if isinstance(config.get(name), dict)]
        specials = {name: config[name].get("content") for name in described}
        _require_rules(config | specials, _FOLDER_RULES, path / CONFIG)
        file = next((path / name for name in FILES[:2] if (path / name).is_file()), path / FILES[0])
    options = {
        ours: config[theirs]
        for theirs, ours in _LETTER_OPTIONS.items()
        if config.get(theirs) is not None
    }
    if not file.is_file():
        raise BadInput(
            f"{file}: there is no such file; a tokenizer is a tokenizer.json or a vocab.txt"
        )
    if file.suffix == ".json":
        alone = not path.is_dir() or config.get("tokenizer_class") in _WITHOUT_OPTIONS
        tokenizer = _read_json(file, None if alone else options, form)
        # transformers reads a tokenizer.json by the rules of any other class that it knows
        classes = [None] if tokenizer.byte_level else _CONFIG_RULES["tokenizer_class"]
        known = {"tokenizer_class": [*classes, *_WITHOUT_OPTIONS]}
        _require_rules(config, known, path / CONFIG)
        return tokenizer
    _require_rules(config, _CONFIG_RULES, path / CONFIG)
    letters = {"lowercase": lowercase, "strip_accents": strip_accents} | options
    return from_pieces(_read_vocab(file), **letters, form=form, where=file)


def _read_json(file: Path, options: Mapping[str, Any] | None, form: Form) -> Tokenizer:
    """Read a tokenizer.json, under a normal form if it has none.

    `options` are the rules for letters of a class of transformers, which has a longest word of its
    own. None: the file is read alone.
    """
    with read_errors(file):
        data = file.read_bytes()
    try:
        values = json.loads(data, object_pairs_hook=unique_keys)
        letters = _letter_rules(values)
        if letters and options is not None:
            letters |= options
            values["model"]["max_input_chars_per_word"] = MAX_WORD
        alone = letters and values["normalizer"] is letters
        if alone and _form_matters(form, letters["lowercase"], letters["strip_accents"]):
            values["normalizer"] = {"type": "Sequence", "normalizers": [{"type": form}, letters]}
        raw = tokenizers.Tokenizer.from_str(json.dumps(values))
    except Exception as error:  # the library raises bare Exception
        raise BadInput(f"{file}: is not a tokenizer.json ({error})") from None
    tokenizer = Tokenizer(raw, file)
    ids = raw.encode("a").ids
    if not ids or (ids[0], ids[-1]) != (tokenizer.cls_id, tokenizer.sep_id):
        fault = "its post_processor puts no [CLS] before a text and no [SEP] behind it"
        raise BadInput(f"{file}: {fault}; {TOKENIZER_ADVICE}")
    return tokenizer


def _read_vocab(path: Path) -> list[str]:
    """Read one piece per line; the line's number is its id."""
    with read_errors(path):
        data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start:,})") from None
    pieces = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")
    lines: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if lines.setdefault(piece, number) != number:
            raise BadInput(f"{path}:{number}: repeats {piece!r} of line {lines[piece]}")
    continues = any(piece.startswith(CONTINUATION) for piece in pieces)
    if not continues and any(len(piece) > 1 and piece.startswith("▁") for piece in pieces):
        raise BadInput(
            f"{path}: holds the pieces of SentencePiece (▁ begins a word); {TOKENIZER_ADVICE}"
        )
    return pieces


def _letter_rules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return BERT's rules for letters in a tokenizer's JSON, alone or behind normal forms; {} if
    there is another normalizer.
    """
    normalizer = values["normalizer"] or {}
    *forms, letters = normalizer.get("normalizers") or [normalizer]
    known = all(form["type"] in {"NFC", "NFD", "NFKC", "NFKD"} for form in forms)
    return letters if known and letters.get("type") == "BertNormalizer" else {}


def _require_rules(
    values: Mapping[str, Any], rules: Mapping[str, list[Any]], where: object
) -> None:
    """Raise BadInput for the first dotted key with a value that is not among those of the rules."""
    for key, valid in rules.items():
        value: Any = values
        for part in key.split("."):
            value = (value or {}).get(part)
        if not any(value == choice and type(value) is type(choice) for choice in valid):
            raise BadInput(
                f"{where}: {key} is {short_repr(value)}, which is not supported; {TOKENIZER_ADVICE}"
            )
