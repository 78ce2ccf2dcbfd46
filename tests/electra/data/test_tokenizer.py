"""WordPiece: ids equal transformers' on any text, training is deterministic, spans cover what was
written, and folders that cannot be followed are refused.
"""

import json
import random
import re
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from tokenizers.processors import TemplateProcessing

from electra.data import word_cache
from electra.data.tokenizer import (
    FILES,
    SPECIALS,
    from_pieces,
    load,
    read_files,
    save,
    train_wordpiece,
)
from electra.errors import BadInput
from electra.files import read_json, write_json
from tests.support.byte_level import write_byte_level
from tests.support.project import ROOT, run

TEXT = "the quick brown fox jumps over a lazy dog while naïve Ångström café owners in Zürich sell 日本 words"
# words end in marks, in all but the last; a line a script
SCRIPTS = [
    "The Ångström café in René, déjà (1999–2004).",
    "Người Việt ở Huế",
    "Привет, мой чай! Ёлки",
    "Ελληνικά με τόνους, ΚΕΦΑΛΑΊΑ και ς;",
    "שָׁלוֹם עוֹלָםָ",
    "نصٌّ عربيٌّ؛ هل تفهمُ؟ می\u200c",
    "हिन्दी में केले। दूसरा॥",
    "বাংলা ভাষা কী",
    "தமிழ் மொழி",
    "తెలుగు భాషా",
    "ગુજરાતી છે",
    "ภาษาไทยไม่มีช่องว่าง ที่ นี่",
    "ພາສາລາວ ບໍ່ ມີ",
    "ភាសាខ្មែរ គឺ",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿 👨‍👩‍👧",  # England, a family
    "မြန်မာ ဘာသာ ကို",
    "བོད་སྐད་ ལ་མོ",
    "한국어 문장은 띄어쓰기",
    "がぎぐ ばびぶ です、ね？",
    "日本語の文章。東京は「首都」",
    "Հայերեն ամիս, ქართული ენა",
]


def made_up_lines(seed, count=300):
    rng = random.Random(seed)
    return [
        " ".join(rng.choices(TEXT.split(), k=rng.randrange(0, 14)))
        + rng.choice([".", "!", "", "…"])
        for _ in range(count)
    ]


def require_one_encoding(tokenizer, lines):
    """All ways of reading give the same ids."""
    expected = tokenizer.encode_lines(lines)
    for _ in range(2):  # then from the cache
        encoded = tokenizer.encode_bytes(lines)
        assert [np.frombuffer(line, tokenizer.dtype).tolist() for line in encoded] == expected
    assert [tokenizer.encode(line)[0] for line in lines] == expected


@pytest.fixture(scope="module")
def trained():
    return train_wordpiece(made_up_lines(1), 120)


@pytest.fixture(scope="module")
def reference(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save(trained, folder)
    return transformers.BertTokenizerFast.from_pretrained(str(folder), split_special_tokens=True)


ALPHABET = st.one_of(
    st.sampled_from(
        "the quick BROWN fox .,!?-'\"()[]##0123 \t\u00a0\u3000日本é\u0301ßİσΣς\u200b\x00\ufffd\x85\x1c\x0b"
    ),
    st.characters(exclude_categories=["Cs"]),
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=40), max_size=4))
def test_ids_equal_those_of_transformers_on_any_text(trained, reference, lines):
    for line in lines:
        expected = reference(line, add_special_tokens=False)["input_ids"]
        assert trained.encode_lines([line]) == [expected]
    require_one_encoding(trained, lines)


@pytest.mark.parametrize("strip_accents", [True, False])
def test_spans_cover_the_marks_of_many_scripts(strip_accents):
    tokenizer = train_wordpiece(SCRIPTS, 2000, strip_accents=strip_accents)
    for form in ("NFC", "NFD"):
        for text in (unicodedata.normalize(form, line) for line in SCRIPTS):
            ids, spans_T2 = tokenizer.encode(text)
            assert tokenizer.unk_id not in ids
            starts, ends = spans_T2.T.tolist()
            for word in re.finditer("[^ ]+", text):
                assert word.start() in starts and word.end() in ends, word
            covered = set().union(*(range(*span) for span in spans_T2.tolist()))
            assert all(text[place] == " " for place in {*range(len(text))} - covered)
    assert tokenizer.encode("")[1].shape == (0, 2)
    mark = from_pieces([*SPECIALS, "e", "##\u0301"], lowercase=False, strip_accents=False)
    assert mark.encode("e\u0301")[1].tolist() == [[0, 1], [1, 2]], "a mark of its own piece"


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_the_normal_form_of_the_training_text_is_in_the_files(tmp_path, form):
    text = unicodedata.normalize(form, "möchte schön café Việt ﬁx हैं")
    decomposed = unicodedata.normalize("NFD", text)
    original = train_wordpiece([text] * 9, 200, lowercase=False, strip_accents=False, form=form)
    expected = original.encode_lines([text])
    save(original, tmp_path)
    loaded = load(tmp_path)
    assert loaded.identity == original.identity
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for other in (text, decomposed):
        require_one_encoding(loaded, [other])
        assert loaded.encode_lines([other]) == expected
        assert peer([other], add_special_tokens=False)["input_ids"] == expected
    # a vocabulary from elsewhere, and a tokenizer.json without a form, get the form of the text
    save(load(tmp_path / "vocab.txt", lowercase=False), tmp_path / "plain")
    for file in ("tokenizer.json", "vocab.txt"):
        read = load(tmp_path / "plain" / file, lowercase=False, form=form)
        assert read.encode_lines([decomposed]) == expected
    # the form matters to one that strips accents, too
    joined, parted = train_wordpiece([text], 200, form=form).encode_lines(["ﬁx", "fix"])
    assert (joined == parted) == (form == "NFKC")


def test_special_tokens_in_a_text_are_text(trained):
    special = {trained.pad_id, trained.cls_id, trained.sep_id, trained.mask_id}
    lines = [f"fox {token} fox" for token in SPECIALS]
    assert not special & {number for ids in trained.encode_lines(lines) for number in ids}
    require_one_encoding(trained, lines)


def test_added_tokens_are_read_as_transformers_reads_them(trained, tmp_path):
    save(trained, tmp_path)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    peer.add_tokens(["😀", "covid-19", "New York"])
    peer.add_tokens(["[E1]", "[/E1]"], special_tokens=True)
    peer("the fox", truncation=True, max_length=9, padding="max_length")  # the file has these, too
    peer.save_pretrained(tmp_path)
    rules = read_json(tmp_path / "tokenizer.json")
    assert rules["truncation"] and rules["padding"]
    tokenizer = load(tmp_path)
    lines = ["[E1] New York [/E1] 😀 the covid-19", "the fox😀 New  York xcovid-19", "fox"]
    assert tokenizer.encode_lines(lines) == peer(lines, add_special_tokens=False)["input_ids"]
    require_one_encoding(tokenizer, lines)


def test_training_is_the_same_in_every_process():
    lines = made_up_lines(5, 2000)
    code = (
        "from electra.data.tokenizer import train_wordpiece\n"
        f"print(train_wordpiece({lines!r}, 200).identity)"
    )
    assert run(ROOT, "-c", code).stdout == f"{train_wordpiece(lines, 200).identity}\n"


def test_case_and_accents_are_settings():
    for lowercase, strip_accents, piece in (
        (True, None, "cafe"), (True, False, "café"), (False, None, "Café"), (False, True, "Cafe"),
    ):  # fmt: skip
        rules = {"lowercase": lowercase, "strip_accents": strip_accents}
        tokenizer = train_wordpiece(["Café"] * 9, 60, **rules)
        assert tokenizer.spell(tokenizer.encode("Café")[0]) == [piece]


def test_a_full_cache_changes_nothing(monkeypatch):
    monkeypatch.setattr(word_cache, "CACHED_CHUNKS", 3)
    tokenizer = train_wordpiece(SCRIPTS, 2000)
    for _ in range(3):
        require_one_encoding(tokenizer, [*SCRIPTS, "the Fox " + "x" * 101, "fox" * 33])
    cache = word_cache.WordCache(tokenizer.raw, tokenizer.dtype)
    for chunk in ("日" * 5000, "a", "b", "c", "d"):
        cache[chunk]
    assert list(cache) == ["d"]


def test_a_saved_tokenizer_is_the_same(trained, tmp_path):
    save(trained, tmp_path)
    for path in (tmp_path, tmp_path / "tokenizer.json", tmp_path / "vocab.txt"):
        assert load(path).identity == trained.identity
    text = (tmp_path / "vocab.txt").read_text()
    (tmp_path / "windows.txt").write_text("\ufeff" + text.replace("\n", "\r\n"))
    assert load(tmp_path / "windows.txt").identity == trained.identity
    (tmp_path / "windows.txt").unlink()
    options = tmp_path / "tokenizer_config.json"
    write_json(options, read_json(options) | {"model_max_length": 512})
    files = read_files(tmp_path, 128)
    assert json.loads(files["tokenizer_config.json"])["model_max_length"] == 128
    assert files.keys() == {path.name for path in tmp_path.iterdir()}
    assert all(files[name] == (tmp_path / name).read_text() for name in FILES[:2])


@pytest.mark.parametrize("content, sentence", [
    (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nfox\n", r"has no \[MASK\]"),
    (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\ndog\nfox\n", "vocab.txt:8: repeats 'fox' of line 6"),
    (b"[PAD]\n\xff\n", "not UTF-8"),
    ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n▁the\nfox\n".encode(), "the pieces of SentencePiece"),
])  # fmt: skip
def test_a_bad_vocabulary_is_refused(tmp_path, content, sentence):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        load(tmp_path / "vocab.txt")


def test_missing_and_broken_files_are_refused(tmp_path):
    sentence = "there is no such file; a tokenizer is a tokenizer.json or a vocab.txt"
    for path in (tmp_path, tmp_path / "no.json", tmp_path / "vocab.txt", Path("/dev/null")):
        with pytest.raises(BadInput, match=sentence):  # /dev/zero would never end
            load(path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="is not a tokenizer"):
        load(tmp_path)


BERT = json.loads(normalizers.BertNormalizer().__getstate__())


@pytest.mark.parametrize("changes, sentence", [
    ({"normalizer": None}, "normalizer is None, which is not supported; use a tokenizer"),
    ({"normalizer": {"type": "Sequence", "normalizers": []}}, "normalizer is"),
    ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, BERT]}}, "normalizer is"),
    ({"pre_tokenizer": None}, "pre_tokenizer.type is None"),
    ({"max_input_chars_per_word": 1 << 40}, "max_input_chars_per_word is 1099511627776"),
    ({"unk_token": "<unk>"}, "unk_token is '<unk>'"),
    ({"vocab": dict(zip(SPECIALS, [0, 1, 2, 3, 2**31], strict=True))}, "ids with gaps instead of 0 to 4"),
    ({"post_processor": None}, r"its post_processor puts no \[CLS\] before a text"),
    ({"post_processor": json.loads(TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 2)]).__getstate__())},
     r"and no \[SEP\] behind it"),
])  # fmt: skip
def test_other_rules_of_a_published_json_are_refused(tmp_path, changes, sentence):
    rules = json.loads(from_pieces([*SPECIALS, "a"]).rules.to_str())
    for key, value in changes.items():
        (rules if key in rules else rules["model"])[key] = value
    write_json(tmp_path / "tokenizer.json", rules)
    with pytest.raises(BadInput, match=sentence):
        load(tmp_path / "tokenizer.json")


def test_a_saved_tokenizer_has_its_longest_word_in_transformers(tmp_path):
    rules = json.loads(from_pieces([*SPECIALS, "a", "##b"]).rules.to_str())
    rules["model"]["max_input_chars_per_word"] = 3
    write_json(tmp_path / "tokenizer.json", rules)
    options = {"tokenizer_class": "PreTrainedTokenizerFast"}  # which follows the rules of the file
    write_json(tmp_path / "tokenizer_config.json", options)
    ours = load(tmp_path)
    (tmp_path / "saved").mkdir()
    save(ours, tmp_path / "saved")
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    expected = [[ours.unk_id], [5, 6, 6]]
    assert peer(["abbb", "abb"], add_special_tokens=False)["input_ids"] == expected
    assert ours.encode_lines(["abbb", "abb"]) == expected


def test_the_options_of_a_published_folder_are_followed(tmp_path):
    pieces = [*SPECIALS, "a", "##b", "A", "日本", "日", "本", "##本", "é", "e"]
    original = from_pieces(pieces)
    for options in (
        {"do_lower_case": False},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
        {"model_max_length": 9, "never_split": None},
    ):
        peer = transformers.BertTokenizer({p: i for i, p in enumerate(pieces)}, **options)
        expected = peer("日本 Ab é", add_special_tokens=False)["input_ids"]
        save(original, tmp_path)
        config = {"tokenizer_class": "BertTokenizer", **options}
        write_json(tmp_path / "tokenizer_config.json", config)
        for file in ("tokenizer.json", "vocab.txt"):
            assert load(tmp_path).encode_lines(["日本 Ab é"]) == [expected], options
            (tmp_path / file).unlink()  # then the other one is read


@pytest.mark.parametrize("option, sentence", [
    ({"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"},
     "tokenizer_config.json: tokenizer_class is 'BertJapaneseTokenizer', which is not supported"),
    ({"never_split": ["[E1]"]}, "never_split is"),
    ({"strip_accents": 1}, "strip_accents is 1"),
])  # fmt: skip
def test_options_that_cannot_be_followed_are_refused(tmp_path, option, sentence):
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIALS))
    write_json(tmp_path / "tokenizer_config.json", option)
    with pytest.raises(BadInput, match=sentence):
        load(tmp_path)


def test_a_class_with_rules_of_its_own_is_refused_next_to_a_tokenizer_json(tmp_path):
    save(from_pieces([*SPECIALS, "a"]), tmp_path / "wordpiece")
    write_byte_level(tmp_path / "byte-level")
    for folder, name in (("wordpiece", "RobertaTokenizer"), ("byte-level", "BertTokenizer")):
        write_json(tmp_path / folder / "tokenizer_config.json", {"tokenizer_class": name})
        with pytest.raises(BadInput, match=f"tokenizer_class is '{name}', which is not supported"):
            load(tmp_path / folder)


@pytest.mark.parametrize("lines, size, sentence", [
    (["", "  "], 100, "holds no text to learn a vocabulary from"),
    (["ก" * 101, "ข" * 300], 100, "all of its 2 words are longer than 100 characters"),
    (["abcdefghijklmnopqrstuvwxyz"], 40, "the 26 letters of the text alone need 57"),
])  # fmt: skip
def test_text_that_teaches_no_vocabulary_is_refused(lines, size, sentence):
    with pytest.raises(BadInput, match=sentence):
        train_wordpiece(lines, size)
    assert train_wordpiece(["abcdefghijklmnopqrstuvwxyz"], 57).vocab_size == 57


def test_long_words_teach_nothing_and_are_counted():
    """The time of training goes by the square of the longest word: one of a megabyte would take
    days.
    """
    lines = made_up_lines(1)
    counts = Counter()
    long = f"{'q' * 101} fox,{'zq' * 500_000},{'q' * 101},fox,{'z' * 100}"
    trained = train_wordpiece([*lines, long], 120, counts=counts)
    assert counts == {"long_words": 3}
    assert trained.pieces() == train_wordpiece([*lines, f" fox, , ,fox,{'z' * 100}"], 120).pieces()
    longest = train_wordpiece(["x" * 100], 120, counts=counts)
    assert longest.pieces()[-1].startswith("x") and counts == {"long_words": 3}


def test_unknown_characters_are_counted_not_only_words(trained):
    lines = ["fox \u4fff fox", "fox" * 1000 + " fox", "the fox", "", "\u4fff\u4ffe fox"]
    assert trained.unknown_characters(lines, trained.encode_bytes(lines)) == 1 + 3000 + 2


def test_rare_letters_do_not_fill_the_vocabulary():
    lines = ["fox dog"] * 50 + [chr(0x4E00 + i) for i in range(500)]
    pieces = train_wordpiece(lines, 60, alphabet=6).pieces()
    assert {piece for piece in pieces if len(piece) == 1} == {*"foxdg", "\u4e00"}
