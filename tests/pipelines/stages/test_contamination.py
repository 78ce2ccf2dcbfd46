"""Overlap of dev and test texts with a corpus, against a search in plain Python."""

import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electra.config import build
from electra.errors import BadConfig, CorruptFile
from electra.files import read_json, remove, write_jsonl
from electra.storage.manifest import write_manifest
from electra.workers import VARIABLE
from pipelines.config.params import load
from pipelines.sources import CorpusConfig
from pipelines.stages import contamination, corpus
from pipelines.stages.contamination import SIZES, measure
from tests.conftest import SMOKE

WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "en", "i", "or", "um")]


def grams(text: str, size: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


Tasks = dict[str, dict[str, list[dict[str, Any]]]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Tasks]:
    """A corpus of four shards and their copies, and tasks: some of their texts hold 3 to 20 words of it in a row."""
    chance = random.Random(11)

    def prose(count: int) -> list[str]:
        return chance.choices(WORDS, k=count)

    documents = 2 * [" ".join(prose(chance.randrange(2, 90))) for _ in range(40)]
    long = [text.split() for text in documents if text.count(" ") > 40]

    def text(planted: bool = True) -> str:
        read, start = chance.choice(long), chance.randrange(20)
        piece = read[start : start + chance.randrange(3, 21)] if planted else []
        return " ".join([*prose(chance.randrange(12)), *piece, *prose(chance.randrange(12))]).capitalize() + "."

    contexts = [text() for _ in range(6)]
    tasks: Tasks = {
        "mood": {split: [{"a": text()} for _ in range(40)] for split in ("train", "dev", "test")},
        "mnli": {split: [{"a": text(), "b": text(False)} for _ in range(20)] for split in ("dev", "dev_mismatched")},
        "squad2": {"dev": [{"question": text(False), "context": contexts[i % 6]} for i in range(30)]},
        "names": {"train": [], "test": [{"words": text().split()} for _ in range(20)]},
    }
    for number in range(8):
        rows = [
            {"id": f"{number}-{i}", "text": each} for i, each in enumerate(documents[number * 10 : number * 10 + 10])
        ]
        write_jsonl(tmp_path / f"text/{number}.jsonl", rows)
    monkeypatch.setattr(corpus.documents, "GROUP_BYTES", 0)
    config = build(CorpusConfig, {"sources": [{"kind": "local", "files": [f"{tmp_path}/text/*"]}]}, "corpora.read")
    corpus.gather(config, "corpora.read", tmp_path / "read", tmp_path / "runs")
    for task, splits in tasks.items():
        for split, each in splits.items():
            write_jsonl(tmp_path / f"rows/{task}/{split}.jsonl", each)
    write_manifest(
        tmp_path / "rows", kind="tasks", name="rows", tasks={task: dict.fromkeys(of, 0) for task, of in tasks.items()}
    )
    return documents, tasks


def test_texts_with_words_of_the_corpus_are_counted(tmp_path: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, tasks = made
    found = measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs")
    read = {size: set().union(*(grams(text, size) for text in documents)) for size in SIZES}
    counted = 0
    for task, splits in tasks.items():
        expected: dict[str, dict[str, dict[str, int]]] = {}
        for split, rows in splits.items():
            for (part, _), text in {(part, str(row[part])): row[part] for row in rows for part in row}.items():
                if split != "train":
                    name = "test" if split == "test" else "dev"
                    of = expected.setdefault(part, {}).setdefault(name, {"texts": 0, "13": 0, "8": 0})
                    of["texts"] += 1
                    for size in SIZES:
                        hit = not read[size].isdisjoint(grams(text if isinstance(text, str) else " ".join(text), size))
                        of[str(size)] += hit
                        counted += hit
        shown = {part: {key: of[key] for key in of.keys() & {"dev", "test"}} for part, of in found[task].items()}
        assert shown == expected
    assert counted > 50 and found["squad2"]["question"]["dev"] == {"texts": 30, "13": 0, "8": 0}
    assert found["squad2"]["context"]["dev"]["texts"] == 6, "a context counts once"
    mood = found["mood"]["a"]
    assert mood["shares"]["dev-8"] == mood["dev"]["8"] / 40 > mood["shares"]["dev-13"] > 0
    assert len(mood["examples"]) == 2
    for example in mood["examples"]:
        shard, _, line = example["document"].partition(":")
        assert shard < "documents-00004", "the first that has it"
        text = (tmp_path / "read" / shard).read_text().splitlines()[int(line) - 1]
        assert grams(text.partition('"text": ')[2], 13) & grams(example["text"], 13)
    monkeypatch.setenv(VARIABLE, "2")
    assert measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs-2") == found
    assert not list(tmp_path.rglob("unit-*"))


def test_a_stopped_count_goes_on_and_damage_is_a_sentence(
    tmp_path: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(contamination, "_count", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs")
    units = sorted((tmp_path / "runs/contamination").rglob("unit-*"))
    assert len(units) == 8
    remove(units[3])
    assert measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs") == whole
    (tmp_path / "read/documents-00002.jsonl").open("a").write("\n")
    with pytest.raises(CorruptFile, match=r"documents-00002\.jsonl"):
        measure(tmp_path / "read", tmp_path / "rows", tmp_path / "runs")


def test_the_stage_names_the_corpus_of_the_model(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    tracker: Any = SimpleNamespace(summary=told.update)
    counted = {"cola": {"a": {"shares": {"dev-13": 0.5}, "examples": [], "dev": {"texts": 2, "13": 1, "8": 1}}}}
    monkeypatch.setattr(contamination, "measure", lambda *folders: told.update(folders=folders) or counted)
    contamination.run("smoke", load(), tracker)
    assert told == {"folders": (Path("build/corpus/smoke"), Path("build/tasks/smoke")), "cola": {"a": {"dev-13": 0.5}}}
    noted = read_json(Path("results/smoke/contamination.json"))
    assert noted == {"corpus": "smoke", "source": "smoke", "words": [13, 8], "tasks": counted}
    elsewhere = SMOKE.replace("published: {}", "published: {bert: {folder: x}}").replace("{model: base", "{model: bert")
    Path("params.yaml").write_text(elsewhere)
    with pytest.raises(BadConfig, match=r"finetunings\.base\.model: starts from bert, .* elsewhere"):
        contamination.run("base", load(), tracker)
