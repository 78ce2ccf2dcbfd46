"""The filters of a corpus: planted texts are dropped, the rest is kept, however it is read."""

import itertools
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from electra.config import build
from electra.errors import BadConfig, BadInput
from electra.files import read_json, read_jsonl, write_jsonl
from electra.workers import VARIABLE
from pipelines.sources import CorpusConfig, CustomTasks, SampleTasks, documents
from pipelines.stages import corpus
from pipelines.stages.corpus import SIZE, gather
from pipelines.text import duplicates
from pipelines.text.cleaning import CleaningConfig
from tests.support.corpus_stage import documents as read_documents
from tests.support.project import files_of
from tests.support.small_project import run_apart

SYLLABLES = (
    ("ba", "do", "ki", "mu", "re"),
    ("la", "no", "sti", "ve"),
    ("fa", "gi", "so", "tu", ""),
    ("n", "r", ""),
)
WORDS = ["".join(each) for each in itertools.product(*SYLLABLES)]
NOISE = ["eo", "ha", "jv", "pcm"]  # what such words are taken for


def prose(chance, count=120):
    return [
        chance.choice(WORDS) if chance.random() < 0.9 else chance.choice(["the", "of", "and"])
        for _ in range(count)
    ]


def run(tmp_path, texts, name="out", tasks=None, files=4, **cleaning):
    """(metrics, the ids that stay) of texts by id, dealt over some files in their order."""
    rows = [{"id": id, "text": text} for id, text in texts.items()]
    for number, part in enumerate(np.array_split(rows, files)):
        write_jsonl(tmp_path / f"text-{files}/{number}.jsonl", part)
    sources = [{"kind": "local", "files": [f"{tmp_path}/text-{files}/*"]}]
    config = build(CorpusConfig, {"sources": sources, "cleaning": cleaning}, "corpora.x")
    metrics = run_apart(tmp_path, name, "build/corpus/x", lambda: gather(config, "x", tasks))
    assert metrics["rows"] == len(texts) == metrics["documents"] + sum(metrics["dropped"].values())
    return metrics, [row["id"] for row in read_documents(tmp_path / name)]


@pytest.fixture
def near_copies():
    """Texts, some with a word or two changed and in another place, one with half of its words
    changed.
    """
    chance = random.Random(5)
    texts = {f"own-{i}": " ".join(prose(chance)) for i in range(30)}
    for i in range(12):
        words = texts[f"own-{i}"].split()
        for _ in range(1 + i % 2):
            words[chance.choice([0, 1, 118, 119])] = "changed"
        texts[f"copy-{i}"] = " ".join(words).capitalize() + "!"
    words = texts["own-20"].split()
    texts["half"] = " ".join(words[:60] + prose(chance, 60))
    shuffled = list(texts)
    chance.shuffle(shuffled)
    return {id: texts[id] for id in shuffled}


def test_near_duplicates_go_and_the_first_stays(tmp_path, near_copies, monkeypatch):
    firsts = {}
    for id in near_copies:
        firsts.setdefault(id.replace("copy", "own"), id)
    expected = list(firsts.values())
    metrics, kept = run(tmp_path, near_copies, near_duplicates="drop")
    assert kept == expected
    assert metrics["dropped"] == {"duplicate_documents": 0, "near_duplicates": 12}
    assert metrics["dropped_shares"] == {"near_duplicates": round(12 / 43, 6)}
    assert metrics["dropped_lines"] == {"lines_of_documents": 12} and metrics["lines"] == 31
    samples = read_jsonl(tmp_path / "out/dropped.jsonl")
    assert [row["id"] for row in samples] == [id for id in near_copies if id not in expected]
    assert {row["reason"] for row in samples} == {"near_duplicates"}
    monkeypatch.setattr(duplicates, "BUCKET", 40)
    monkeypatch.setattr(documents, "GROUP_BYTES", 0)
    for workers in ("1", "2"):  # many units, and buckets of few keys
        monkeypatch.setenv(VARIABLE, workers)
        again, same = run(tmp_path, near_copies, workers, files=9, near_duplicates="drop")
        assert same == expected and again["dropped"] == metrics["dropped"]
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")


def test_an_exact_copy_counts_as_one_and_its_paragraphs_take_nobodys_place(tmp_path):
    chance = random.Random(1)
    first = " ".join(prose(chance))
    shared = "This paragraph is in a near copy that goes, and later once more."
    texts = {
        "a": first,
        "exact": first,
        "near": f"{first}\n{shared}",
        "later": f"{' '.join(prose(chance))}\n{shared}",
    }
    both = {"duplicate_documents": "drop", "near_duplicates": "drop"}
    metrics, kept = run(tmp_path, texts, duplicate_paragraphs="drop", **both)
    assert kept == ["a", "later"]
    assert metrics["dropped"] == {"duplicate_documents": 1, "near_duplicates": 1}
    assert metrics["dropped_lines"] == {"lines_of_documents": 3} and metrics["lines"] == 3


LANGUAGES = {
    "en-1": "The ferry leaves the harbour at seven, and those who miss it have to wait until the evening.",
    "en-2": "Nobody in the village remembers who built the bridge, but everybody crosses it on market days.",
    "de": "Die Fähre verlässt den Hafen um sieben Uhr, und wer sie verpasst, muss bis zum Abend warten.",
    "fr": "Le bateau quitte le port à sept heures, et ceux qui le manquent doivent attendre jusqu'au soir.",
    "ru": "Паром отходит из гавани в семь часов, и опоздавшие должны ждать до вечера.",
    "ja": "渡し船は七時に港を出るので、乗り遅れた人は夕方まで待たなければならない。",
    "numbers": "1905 – 1911, 12.5 %",
}


def test_documents_in_another_language_go(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "UNIT_SAMPLES", 3)
    metrics, kept = run(tmp_path, LANGUAGES, language="en")
    assert kept == ["en-1", "en-2", "numbers"] and metrics["dropped"]["other_language"] == 4
    assert metrics["dropped_shares"] == {"other_language": round(4 / 7, 6)}
    samples = read_jsonl(tmp_path / "out/dropped.jsonl")
    assert [row["id"] for row in samples] == ["de", "fr", "ru"]
    assert run(tmp_path, LANGUAGES, "several", language=["de", "fr"])[1] == ["de", "fr", "numbers"]
    with pytest.raises(
        BadConfig, match=r"corpora\.x\.cleaning\.language: has 'english', .* know; see ISO 639"
    ):
        run(tmp_path, LANGUAGES, "wrong", language="english")
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(BadConfig, match=r"needs py3langid; pip install -e '\.\[crawl\]'"):
        run(tmp_path, LANGUAGES, "absent", language="en")


def spam(chance):
    """A page against each of Gopher's rules, by its name, and prose."""
    words = prose(chance)

    def lines(count, begin="", end=""):
        return "\n".join(begin + " ".join(prose(chance, 20)) + end for _ in range(count))

    long = prose(chance, 300)
    half = [*long[:90], *long[54:90], *long[90:]]  # 36 words again
    return {
        "prose": " ".join(words),
        "words": " ".join(prose(chance, 49)),
        "mean_word_length": " ".join(["to be a"] * 30 + words[:5]),
        "hash_signs": " ".join(f"#{word}" if i % 5 == 0 else word for i, word in enumerate(words)),
        "ellipses": " ".join(f"{word}..." if i % 5 == 0 else word for i, word in enumerate(words)),
        "bullet_lines": lines(12, begin="• "),
        "ellipsis_lines": lines(3) + "\n" + lines(2, end="…"),
        "alphabetic_words": " ".join(word if i % 3 else "1,234" for i, word in enumerate(words)),
        "stop_words": " ".join(word for word in words if word in WORDS),
        "repeated_lines": lines(4) + "\nRead more about it." * 4,
        "repeated_line_characters": lines(3) + f"\n{' '.join(words[:40])}" * 2,
        "top_2_gram": " ".join(f"the {word} quite undoubtedly" for word in words[:40]),
        "repeated_5_grams": " ".join([*words, *words[20:60], *long[:60]]),
        "repeated_10_grams": " ".join(half),
    }


def test_what_is_hardly_prose_goes_by_the_rule_it_breaks(tmp_path):
    texts = spam(random.Random(3))
    _, kept = run(tmp_path, texts, quality="gopher")
    found = {row["id"]: row["reason"] for row in read_jsonl(tmp_path / "out/dropped.jsonl")}
    assert kept == ["prose"]
    assert found == {id: f"quality_{id}" for id in texts if id != "prose"}
    unspaced = "".join(map(chr, random.Random(3).sample(range(0x4E00, 0x9FA5), 100)))
    others = {"prose": texts["prose"], "other": texts["stop_words"], "unspaced": unspaced}
    languages = [*NOISE, "zh"]
    kept = run(tmp_path, others, "others", files=1, quality="gopher", language=languages)[1]
    assert kept == list(others), "English words are asked of English alone"


def mood(folder, *splits):
    """A task with the texts of train, dev and test."""
    files = {name: str(folder / f"{name}.jsonl") for name in ("train", "dev", "test")}
    for file, texts in zip(files.values(), splits, strict=True):
        write_jsonl(Path(file), [{"sentence": " ".join(each), "label": "b"} for each in texts])
    return build(
        CustomTasks,
        {"kind": "custom", "tasks": {"mood": files | {"labels": ["a", "b"]}}},
        "tasks.mine",
    )


def test_documents_with_benchmark_texts_go(tmp_path):
    chance = random.Random(7)
    dev, test, train, pair = (prose(chance, SIZE + more) for more in (0, 9, 9, 3))
    tasks = mood(tmp_path, [train], [dev, pair[:5]], [test])
    drop = {"tasks": tasks, "decontaminate": {"tasks": "mine"}}

    def around(words):
        return f"{' '.join(prose(chance, 40))} {' '.join(words)} {' '.join(prose(chance, 40))}"

    texts = {
        "dev": around(dev).upper(),
        "dev less one": around(dev[1:]),
        "a line between": around([*dev[:6], "\n—", *dev[6:]]),
        "another word": around([*dev[:6], "another", *dev[6:]]),
        "test": around(test[4:17]),
        "train": around(train),
        "short": around(pair[:5]),
    }
    metrics, kept = run(tmp_path, texts, **drop)
    assert kept == ["dev less one", "another word", "train", "short"]
    assert metrics["dropped"]["contaminated"] == 3
    count = {"tasks": tasks, "decontaminate": {"tasks": "mine", "action": "count"}}
    counted, kept = run(tmp_path, texts, "counted", **count)
    assert kept == list(texts) and counted["contaminated"] == 3
    mood(tmp_path, [train], [["short"]], [["short"]])
    with pytest.raises(BadInput, match=r"tasks\.mine: has no dev or test text of 13 words"):
        run(tmp_path, texts, "nothing", **drop)
    mood(tmp_path, [train], [dev], [test])
    write_jsonl(tmp_path / "dev.jsonl", [{"sentence": " ".join(dev), "label": "c"}] * 9)
    with pytest.raises(
        BadInput, match=r"dev\.jsonl:1: unknown label 'c'.*bad rows of 9 in mood dev"
    ):
        run(tmp_path, texts, "unread", **drop)


def test_every_text_of_a_row_is_searched_for(tmp_path, monkeypatch):
    fields = ("a", "b", "question", "context", "words")
    texts = {field: f"{field} " * SIZE for field in fields}
    row = {**texts, "words": texts["words"].split()}
    monkeypatch.setattr(corpus, "open_splits", lambda *_: [("x", "dev", [row])])
    settings = build(CleaningConfig, {"decontaminate": {"tasks": "mine"}}, "cleaning")
    forbidden = corpus.forbidden_ngrams(SampleTasks(kind="sample"), settings, tmp_path)
    assert forbidden is not None
    file, _ = forbidden
    assert len(np.load(file)) == len(fields)


def test_other_benchmark_texts_make_another_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jsonl(Path("text.jsonl"), [{"text": "A text."}])
    sources = [{"kind": "local", "files": ["text.jsonl"]}]
    cleaning = {"decontaminate": {"tasks": "mine"}}
    config = build(CorpusConfig, {"sources": sources, "cleaning": cleaning}, "corpora.x")
    folders = set()
    for text in (WORDS[:SIZE], WORDS[1 : SIZE + 1]):
        tasks = {"mine": mood(tmp_path, [text], [text], [text])}
        params = SimpleNamespace(corpora={"x": config}, tasks=tasks)
        folders.add(corpus.run_folder("x", params))
    assert len(folders) == 2


def test_without_filters_there_is_no_trace_of_them(tmp_path, near_copies):
    metrics, _ = run(tmp_path, near_copies)
    assert "dropped_shares" not in metrics
    assert "dropped.jsonl" not in read_json(tmp_path / "out/MANIFEST.json")["files"]
