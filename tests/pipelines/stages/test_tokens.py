"""The tokens stage: rows of every length from one reading, no leak between splits, the same bytes
however run.
"""

import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from electra.data import shards
from electra.data import tokenizer as wordpiece
from electra.data.shards import Rows, RowWriter, shard_paths
from electra.errors import BadInput
from electra.files import read_json, read_jsonl, sha256_file, write_jsonl
from electra.storage.manifest import verify_manifest, write_manifest
from electra.workers import VARIABLE
from pipelines.stages import tokens
from pipelines.stages.tokens import append_rows, choose_split, source_copies
from pipelines.text.cleaning import CleaningConfig
from pipelines.tracking import Tracker
from tests.support.project import files_of
from tests.support.tokens_stage import WORDS, config, run, write_corpus

SHARDS = (range(20), range(20, 40))
TOKENIZER = wordpiece.train_wordpiece(WORDS, 200)


def params_of(settings):
    corpus = SimpleNamespace(cleaning=CleaningConfig())
    return SimpleNamespace(tokens={"x": settings}, corpora={"x": corpus})


def test_rows_hold_the_corpus_and_nothing_else(tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    metrics = run(tmp_path, corpus, packing={"overflow": "carry"})
    tokenizer = wordpiece.load(tmp_path / "out")
    texts = [row["text"] for file in sorted(corpus.glob("*.jsonl")) for row in read_jsonl(file)]
    given = {split: Counter() for split in ("train", "valid")}
    for text in texts:
        for ids in tokenizer.encode_lines(text.split("\n")):
            given[choose_split(text, 1, 0.1)].update(ids)
    assert metrics["documents"] == 120 and 3 <= metrics["documents_valid"] <= 25
    for length in (32, 64):
        for split, expected in given.items():
            rows = Rows.open(tmp_path / f"out/rows-{length}", split, tokenizer=tokenizer.identity)
            kept = Counter(rows.ids[:][rows.ids[:] > 4].tolist())
            assert kept == {token: n for token, n in expected.items() if token > 4}
            counts = metrics["rows"][str(length)][split]
            assert counts["tokens_discarded"] == 0 and counts["tokens_read"] == expected.total()
            assert counts["rows"] == len(rows) and counts["tokens"] == rows.tokens
    verify_manifest(tmp_path / "out")
    assert not list((tmp_path / "work-out").glob("tokens/*"))
    assert metrics["tokenizer"] == tokenizer.identity


def test_the_tokenizer_has_the_form_of_its_corpus(tmp_path):
    run(tmp_path, write_corpus(tmp_path / "corpus"), form="NFKC")
    ligature, letters = wordpiece.load(tmp_path / "out").encode_lines(["ﬁ", "fi"])
    assert ligature == letters


def test_what_is_lost_is_counted_and_said(tmp_path, monkeypatch, capsys):
    """Paragraphs longer than a row, cut or split into sentences; and letters that the alphabet has
    no room for.
    """
    sentences = [f"{' '.join(WORDS[i : i + 6])}.".capitalize() for i in range(0, 120, 6)]
    paragraph = " ".join([*sentences, "漢字漢字"])
    rows = [{"id": str(i), "text": f"{paragraph}\n{WORDS[i]}"} for i in range(60)]
    letters = sum(len(row["text"].replace(" ", "").replace("\n", "")) for row in rows)
    monkeypatch.chdir(tmp_path)
    corpus = Path("build/corpus/x")
    write_jsonl(corpus / "documents-00000.jsonl", rows)
    shards = [{"file": "documents-00000.jsonl", "source": 0}]
    write_manifest(corpus, kind="corpus", name="x", shards=shards, weights=[None])
    alphabet = len(set("".join(WORDS[:126]))) + 1
    tokenizer = {"kind": "train", "vocab_size": 150, "alphabet": alphabet}
    lost = []
    for lines in ("paragraphs", "sentences"):
        settings = config(tokenizer=tokenizer, max_unk_rate=1.0, packing={"lines": lines})
        tokens.run("x", params_of(settings), Tracker(None))
        metrics = read_json(Path("build/tokens/x/results.json"))
        lost.append(sum(counts["tokens_discarded"] for counts in metrics["rows"]["32"].values()))
        assert (metrics["characters"], metrics["unknown_characters"]) == (letters, 60 * 4)
        folder = Path("build/tokens/x/rows-32")  # of the first length alone
        ids = np.concatenate([Rows.open(folder, split).ids[:] for split in ("train", "valid")])
        pieces = ids[(ids == 1) | (ids > 4)]
        assert metrics["unknown_rate"] == round((pieces == 1).mean(), 6)
        said = capsys.readouterr().err
        padded = "warning: tokens.x: 47.7% of its rows of 64 is padding; `packing: {rule: packed}`"
        assert (padded in said) == (lines == "paragraphs")
        see = "see build/tokens/x/results.json, and tokens.x"
        assert f"did not fit rows of 32; {see}.packing" in said
        assert "tokens.x: 240 of " in said and f"became [UNK]; {see}.tokenizer" in said
    assert lost[1] < lost[0] / 2 and metrics["unknown_rate"] > metrics["long_words"] == 0
    settings = dataclasses.replace(settings, max_unk_rate=metrics["unknown_rate"] * 0.99)
    with pytest.raises(BadInput, match="knows too little of the text"):
        tokens.run("x", params_of(settings), Tracker(None))


def test_a_tokenizer_learns_from_the_beginning_of_every_shard(tmp_path):
    given = {}
    for name in "éü":
        path = tmp_path / name
        write_jsonl(path, [{"text": f"{name}\n{number}"} for number in range(9)])
        given[path] = sha256_file(path)
    # a text has four bytes, and each shard's half of the 24 is three of them
    assert "".join(tokens.SampleLines(given, 24)) == "é0é1é2ü0ü1ü2"


def test_the_same_bytes_from_three_workers_and_from_one_that_was_stopped(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus")
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "3")
        expected = run(tmp_path, corpus, "three")
    made = []
    pack = tokens.pack_shard

    def stopping(config, tokenizer, shard, folder):
        made.append(shard[0])
        if made == [0, 1, 2]:
            raise KeyboardInterrupt
        return pack(config, tokenizer, shard, folder)

    monkeypatch.setattr(tokens, "pack_shard", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, corpus)
    run(tmp_path, corpus, seed=2)
    assert made == [0, 1, 2, 0, 1, 2, 3], "a changed setting starts from the beginning"
    made.clear()
    assert run(tmp_path, corpus) == expected and made == [2, 3]
    files = files_of(tmp_path / "out")
    assert files == files_of(tmp_path / "three") and len(files) == 5 + 2 * 5


def test_a_document_is_held_out_by_its_text_alone(tmp_path):
    texts = [f"document {i}" for i in range(4000)]
    valid = {text for text in texts if choose_split(text, 1, 0.05) == "valid"}
    assert 130 < len(valid) < 270
    assert valid <= {text for text in texts if choose_split(text, 1, 0.1) == "valid"}
    assert valid != {text for text in texts if choose_split(text, 2, 0.05) == "valid"}


def test_weights_share_the_tokens(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", shards=3, documents=60, weights=[1.0, 1.0])
    metrics = run(tmp_path, corpus, lengths=[32], valid_fraction=0.05)
    plain = write_corpus(tmp_path / "plain", shards=3, documents=60, weights=[None, None])
    natural = run(tmp_path, plain, "natural", lengths=[32], valid_fraction=0.05)
    rows, base = (m["rows"]["32"]["train"]["rows"] for m in (metrics, natural))
    # one shard against two: the first is taken about twice
    assert rows == pytest.approx(base * 4 / 3, rel=0.08)
    assert metrics["rows"]["32"]["valid"] == natural["rows"]["32"]["valid"]
    manifest = {"weights": [2.0, 1.0, 1.0, 1.0], "shards": [{"source": i} for i in range(4)]}
    kept = [{"tokens_kept": count} for count in (100, 50, 200, 0)]
    assert source_copies(manifest, kept) == [4.0, 4.0, 1.0, 0.0], "the last was all held out"


def test_fraction_takes_exactly_so_many_rows_of_several_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PIECE_ROWS", 7)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, numbers in zip(folders, SHARDS, strict=True):
        folder.mkdir()
        ids, bounds = shard_paths(folder, "train")
        np.array(numbers, TOKENIZER.dtype).repeat(4).tofile(ids)
        np.full((20, 2), 2, np.uint16).tofile(bounds)
    (tmp_path / "out").mkdir()
    with RowWriter(tmp_path / "out", "train", 4, TOKENIZER) as writer:
        append_rows(writer, folders, "train", 1.5, 1, 0)
    ids = np.fromfile(shard_paths(tmp_path / "out", "train")[0], TOKENIZER.dtype).reshape(-1, 4)
    counts = Counter(ids[:, 0].tolist())
    assert counts.total() == 60 and set(counts.values()) == {1, 2}
    first, second = ({row % 20 for row in shard if counts[row] == 2} for shard in SHARDS)
    assert len(first) + len(second) == 20 and first != second


def test_a_vocabulary_of_another_language_is_a_sentence(tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    wordpiece.save(wordpiece.train_wordpiece(["日本語"], 30), tmp_path / "other")
    tokenizer = {"kind": "vocab", "file": str(tmp_path / "other/vocab.txt")}
    sentence = r"tokens\.x\.tokenizer: knows too little of the text: .*% of its tokens are \[UNK\]"
    with pytest.raises(BadInput, match=sentence):
        run(tmp_path, corpus, tokenizer=tokenizer)
    assert not (tmp_path / "out").exists()


def test_a_corpus_too_small_is_a_sentence(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", shards=1, documents=12)
    sentence = r"tokens\.x: has 12 documents, none for valid; raise valid_fraction"
    with pytest.raises(BadInput, match=sentence):
        run(tmp_path, corpus, valid_fraction=0.001)
    with pytest.raises(BadInput, match=r"has \d+ tokens to train on, too few for one row of 4,096"):
        run(tmp_path, corpus, valid_fraction=0.5, lengths=[4096])
