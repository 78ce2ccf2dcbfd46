"""WordPiece: ids equal transformers' on any text, training is deterministic, damage and misfits are
sentences.
"""

import json
import lzma
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.data import tokenizer as wordpiece
from electra.data.tokenizer import SPECIALS, Tokenizer
from electra.errors import BadInput

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
PUBLISHED = DATA / "vocab" / "bert-base-uncased-vocab.txt"
needs_data = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the folder shared/data is not beside this checkout"
)

TEXT = "the quick brown fox jumps over a lazy dog while naïve Ångström café owners in Zürich sell 日本 words"
WORDS = TEXT.split()


def made_up_lines(seed: int, count: int = 300) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(rng.choices(WORDS, k=rng.randrange(0, 14))) + rng.choice([".", "!", "", "…"])
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return wordpiece.train_wordpiece(made_up_lines(1), 120)


@pytest.fixture(scope="module")
def reference(trained: Tokenizer, tmp_path_factory: pytest.TempPathFactory):
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("tokenizer")
    wordpiece.save(trained, folder)
    return BertTokenizerFast.from_pretrained(str(folder), split_special_tokens=True)


def ids_of(tokenizer: Tokenizer, lines: list[str]) -> list[list[int]]:
    return [np.frombuffer(line, tokenizer.dtype).tolist() for line in tokenizer.encode_bytes(lines)]


ALPHABET = st.one_of(
    st.sampled_from(
        "the quick BROWN fox .,!?-'\"()[]##0123 \t\u00a0\u3000日本é\u0301ßİσΣς\u200b\x00\ufffd\x85\x1c\x0b"
    ),
    st.characters(exclude_categories=["Cs"]),
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=40), max_size=4))
def test_ids_equal_those_of_transformers_on_any_text(
    trained: Tokenizer, reference, lines: list[str]
) -> None:
    expected = [reference(line, add_special_tokens=False)["input_ids"] for line in lines]
    assert ids_of(trained, lines) == expected
    assert trained.encode_lines(lines) == expected


@needs_data
def test_ids_equal_those_of_transformers_on_real_text(tmp_path: Path) -> None:
    from transformers import BertTokenizerFast

    tokenizer = wordpiece.load(PUBLISHED)
    assert tokenizer.vocab_size == 30_522
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (
        0, 100, 101, 102, 103,
    )  # fmt: skip
    wordpiece.save(tokenizer, tmp_path)
    reference = BertTokenizerFast.from_pretrained(str(tmp_path), model_max_length=10**9)
    lines: list[str] = []
    for file, count in (("wiki-0", 60), ("books-0", 2)):
        with lzma.open(DATA / "corpus" / f"{file}.jsonl.xz", "rt", encoding="utf-8") as stream:
            for _, line in zip(range(count), stream, strict=False):
                lines += json.loads(line)["text"].split("\n")
    expected = reference(lines, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    assert sum(map(len, expected)) > 200_000
    assert ids_of(tokenizer, lines) == expected


def test_special_tokens_in_a_text_are_text(trained: Tokenizer) -> None:
    for token in SPECIALS:
        ids = trained.encode_lines([f"fox {token} fox"])[0]
        assert not {trained.pad_id, trained.cls_id, trained.sep_id, trained.mask_id} & set(ids)
        assert ids_of(trained, [f"fox {token} fox"]) == [ids]


def test_training_is_the_same_in_every_process() -> None:
    code = (
        "import sys; sys.path[:0] = ['.', 'tests/electra/data']\n"
        "from test_tokenizer import made_up_lines\nfrom electra.data.tokenizer import train_wordpiece\n"
        "print(train_wordpiece(made_up_lines(5, 2000), 200).identity)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert other == wordpiece.train_wordpiece(made_up_lines(5, 2000), 200).identity + "\n"


@pytest.mark.parametrize(("lowercase", "strip_accents", "pieces"), [
    (True, None, ["cafe"]), (True, False, ["café"]), (False, None, ["Café"]), (False, True, ["Cafe"]),
])  # fmt: skip
def test_case_and_accents_are_settings(
    lowercase: bool, strip_accents: bool | None, pieces: list[str]
) -> None:
    tokenizer = wordpiece.train_wordpiece(
        ["Café"] * 9, 60, lowercase=lowercase, strip_accents=strip_accents
    )
    assert [tokenizer.pieces()[i] for i in tokenizer.encode_lines(["Café"])[0]] == pieces
    assert ids_of(tokenizer, ["Café"]) == tokenizer.encode_lines(["Café"])


def test_saved_and_loaded_is_the_same_tokenizer(trained: Tokenizer, tmp_path: Path) -> None:
    wordpiece.save(trained, tmp_path)
    read = [wordpiece.load(tmp_path), wordpiece.load(tmp_path / "tokenizer.json")]
    assert {each.identity for each in [*read, wordpiece.load(tmp_path / "vocab.txt")]} == {
        trained.identity
    }


@pytest.mark.parametrize(("content", "sentence"), [
    (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nfox\n", r"has no \[MASK\]"),
    (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\ndog\nfox\n", "vocab.txt:8: repeats 'fox' of line 6"),
    (b"[PAD]\n\xff\n", "not UTF-8"),
    (b"", r"has no \[PAD\]"),
])  # fmt: skip
def test_a_bad_vocabulary_is_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        wordpiece.load(tmp_path / "vocab.txt")


def test_missing_and_broken_files_are_sentences(tmp_path: Path) -> None:
    for name in (tmp_path / "vocab.txt", Path("/dev/null")):  # /dev/zero would never end
        with pytest.raises(BadInput, match="there is no such file"):
            wordpiece.load(name)
    with pytest.raises(BadInput, match="there is no such file"):
        wordpiece.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="is not a tokenizer"):
        wordpiece.load(tmp_path)
    plain = wordpiece.from_pieces([*SPECIALS, "a"], lowercase=True, strip_accents=None)
    rules = json.loads(plain.raw.to_str())
    split = {
        "type": "Split",
        "pattern": {"Regex": "(n+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    for part, value in (("normalizer", None), ("pre_tokenizer", None), ("pre_tokenizer", split)):
        (tmp_path / "tokenizer.json").write_text(json.dumps(rules | {part: value}))
        with pytest.raises(
            BadInput,
            match=r"is WordPiece with normalizer .* which is not supported; use a tokenizer",
        ):
            wordpiece.load(tmp_path)
    rules["model"]["max_input_chars_per_word"] = 1 << 40
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(BadInput, match="reads words of 1,099,511,627,776 characters"):
        wordpiece.load(tmp_path)


def test_training_on_nothing_or_with_too_few_pieces_is_a_sentence() -> None:
    with pytest.raises(BadInput, match="no text"):
        wordpiece.train_wordpiece(["", "  "], 100)
    with pytest.raises(BadInput, match=r"the 26 letters of the text alone need 57"):
        wordpiece.train_wordpiece(["abcdefghijklmnopqrstuvwxyz"], 40)


def test_words_that_become_unknown_teach_nothing_and_are_counted() -> None:
    """The time of training goes by the square of the longest word: one of a megabyte would take
    days.
    """
    lines, counts = list(made_up_lines(1)), Counter[str]()
    long = "q" * 101 + " fox," + "zq" * 500_000 + ",fox " + "z" * 101
    trained = wordpiece.train_wordpiece([*lines, long], 120, counts=counts)
    assert counts == {"long_words": 3}
    assert trained.pieces() == wordpiece.train_wordpiece([*lines, " fox, ,fox "], 120).pieces()
    kept = "x" * 100
    assert (
        wordpiece.train_wordpiece([kept], 120, counts=counts).pieces()[-1].startswith("x")
        and counts["long_words"] == 3
    )


def test_unknown_characters_are_counted_not_only_words(trained: wordpiece.Tokenizer) -> None:
    lines = ["fox \u4fff fox", "fox" * 1000 + " fox", "the fox", "", "\u4fff\u4ffe fox"]
    assert trained.unknown_characters(lines, trained.encode_bytes(lines)) == 1 + 3000 + 2
    assert trained.unknown_characters(["the fox"], trained.encode_bytes(["the fox"])) == 0


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_folder_with_a_vocab_alone_is_read_by_its_settings(
    tmp_path: Path, lowercase: bool
) -> None:
    made = wordpiece.from_pieces(
        [*SPECIALS, "the", "The", "cat"], lowercase=lowercase, strip_accents=None
    )
    wordpiece.save(made, tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert wordpiece.load(tmp_path).encode_lines(["The cat"]) == made.encode_lines(["The cat"])
    (tmp_path / "tokenizer_config.json").unlink()
    assert wordpiece.load(tmp_path).encode_lines(["The cat"]) == [[5, 7]]


def test_rules_of_a_published_json_are_kept_or_refused(tmp_path):
    made = wordpiece.from_pieces(
        [*SPECIALS, "a", "##b", "日本", "日", "本", "##本"], lowercase=True, strip_accents=None
    )
    rules = json.loads(made.raw.to_str())
    rules["normalizer"]["handle_chinese_chars"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    ours = wordpiece.load(tmp_path / "tokenizer.json")
    wordpiece.save(ours, tmp_path / "saved")
    peer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert (
        [peer("日本 ab", add_special_tokens=False)["input_ids"]]
        == ours.encode_lines(["日本 ab"])
        == [[7, 5, 6]]
    )
    rules["model"]["continuing_subword_prefix"] = "@@"
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(BadInput, match="has the prefix '@@' within words instead of '##'"):
        wordpiece.load(tmp_path / "tokenizer.json")
    with pytest.raises(
        BadInput,
        match=r"no\.json: there is no such file; a tokenizer is a tokenizer\.json or a vocab\.txt",
    ):
        wordpiece.load(tmp_path / "no.json")


def test_rare_letters_do_not_fill_the_vocabulary() -> None:
    lines = ["fox dog"] * 50 + [chr(0x4E00 + i) for i in range(500)]
    tokenizer = wordpiece.train_wordpiece(lines, 60, alphabet=20)
    assert tokenizer.vocab_size <= 60
    assert tokenizer.encode_lines(["\u4fff"])[0] == [tokenizer.unk_id]
