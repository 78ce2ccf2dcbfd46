"""The corpus stage: everything accounted for, the same bytes however it was run, nothing
half-written.
"""

import gzip
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from electra.errors import BadConfig, BadInput, OutOfRoom, SourceUnreachable
from electra.files import read_json, read_jsonl, write_jsonl
from electra.storage.manifest import verify_manifest
from electra.workers import VARIABLE
from pipelines.sources.documents import WorkUnit
from pipelines.stages import corpus
from pipelines.text import duplicates
from pipelines.tracking import Tracker
from tests.support.corpus_stage import config, documents, run, write
from tests.support.delivered import write_delivered
from tests.support.project import files_of, largest_file


@pytest.fixture(autouse=True)
def every_file_a_unit(monkeypatch):
    monkeypatch.setattr("pipelines.sources.documents.GROUP_BYTES", 0)


def test_documents_in_order_and_numbers_that_add_up(tmp_path):
    write(tmp_path / "text")
    (tmp_path / "text/0.jsonl").open("a").write('{"text": "  "}\n{"text": "no id"}\n[]')
    (tmp_path / "text/5.txt").write_text('<doc id="5">\nA line.')
    metrics = run(tmp_path, config(tmp_path))
    found = documents(tmp_path / "out")
    ids = [row["id"] for row in found]
    assert ids[:42] == [*(f"0-{i}" for i in range(40)), "0.jsonl:42", "1-0"]
    assert found[0] == {"id": "0-0", "text": "Text 0 of 0.\nA line é."}
    expected = {
        "rows": 204,
        "documents": len(found),
        "dropped": {"duplicate_documents": 0, "empty_documents": 1},
        "lines": 401,
        "lines_read": 401,
        "dropped_lines": {},
        "bytes": sum(len(row["text"].encode()) for row in found),
        "quarantined": 2,
        "quarantined_lines": 3,
        "reasons": {"not a JSON object": 1, "a <doc> without </doc>": 1},
    }
    assert metrics | expected == metrics and len(found) == 201
    where = f"{tmp_path}/text/0.jsonl:43"
    entry = {"where": where, "reason": "not a JSON object", "excerpt": "[]", "lines": 1}
    assert read_jsonl(tmp_path / "out/quarantine.jsonl")[:1] == [entry]
    verify_manifest(tmp_path / "out")
    assert not list(tmp_path.rglob("unit-*"))


def test_the_work_grows_with_the_number_of_tiny_files_and_not_with_its_square(
    tmp_path, monkeypatch
):
    monkeypatch.undo()  # small files share a unit
    calls = []
    for count in (1, 250, 500):  # the first loads modules
        folder = tmp_path / str(count)
        folder.mkdir()
        write(folder / "text", files=count, rows=1)
        numbers = itertools.count()
        sys.setprofile(lambda *_, numbers=numbers: next(numbers))
        try:
            run(folder, config(folder))
        finally:
            sys.setprofile(None)
        calls.append(next(numbers))
    assert calls[2] < 2.2 * calls[1], calls


def test_the_same_documents_however_a_corpus_is_divided(tmp_path, monkeypatch):
    write(tmp_path / "text", rows=80)
    text = {"kind": "local", "files": [f"{tmp_path}/text/*"]}
    sources = [text, *write_delivered(tmp_path / "delivered")]
    settings = config(tmp_path, sources=sources, cleaning={"duplicate_documents": "drop"})
    whole = run(tmp_path, settings, "whole")
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "2")
        assert run(tmp_path, settings, "workers") == whole
    assert files_of(tmp_path / "workers") == files_of(tmp_path / "whole")
    for name in ("stages.corpus.PART_BYTES", "sources.documents.RANGE_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pipelines.{name}", 1000)
            parts = run(tmp_path, settings, name)
        assert documents(tmp_path / name) == documents(tmp_path / "whole")
        assert whole["shards"] == 10 and parts["shards"] > 20 and {**parts, "shards": 10} == whole


def test_what_is_left_out_is_counted_and_said(tmp_path, monkeypatch, capsys):
    cleaning = {"near_duplicates": "drop"}
    sources = write_delivered(tmp_path / "delivered")
    params = SimpleNamespace(corpora={"x": config(tmp_path, sources=sources, cleaning=cleaning)})
    monkeypatch.chdir(tmp_path)
    corpus.run("x", params, Tracker(None))
    found = read_json(Path("build/corpus/x/results.json"))
    left_out = {"other_media_types": 2, "request_records": 2, "type_multi": 8}
    dropped = {f"left_out_{reason}": count for reason, count in left_out.items()}
    assert found["dropped"] == dropped | {"duplicate_documents": 0, "near_duplicates": 52}
    assert found["rows"] == 140 and found["changed"]["templates"] == 100
    assert found["dropped_shares"] == {"near_duplicates": round(52 / (140 - 12), 6)}
    assert [source["documents"] for source in found["sources"]] == [18, 10, 48]
    printed = capsys.readouterr().err
    assert "corpora.x: of 140 rows dropped 2 left_out" in printed
    assert "8 left_out_type_multi (5.71%), 52 near_duplicates (37.14%); see build" in printed


def test_repeated_paragraphs_are_dropped_wherever_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "PART_BYTES", 300)
    monkeypatch.setattr(duplicates, "BUCKET", 6)
    boiler = "This paragraph stands on every page."
    texts = []
    for i in range(30):
        shared = f"And {i % 10} ends are shared by three."
        texts.append([f"Page {i} has its own words.", boiler, "Short.", shared])
    texts += [[boiler], [boiler, "Short."], list(texts[3])]
    for i in range(3):
        rows = [{"text": "\n".join(text)} for text in texts[i * 11 : i * 11 + 11]]
        write_jsonl(tmp_path / f"text/{i}.jsonl", rows)
    cleaning = {
        "duplicate_paragraphs": "drop",
        "duplicate_documents": "drop",
        "shortest_paragraph": len(shared),
    }
    metrics = run(tmp_path, config(tmp_path, cleaning=cleaning))
    seen = set()
    expected = []
    for text in texts[:-1]:
        left = [line for line in text if len(line) < len(shared) or line not in seen]
        seen.update(text)
        if left:
            expected.append("\n".join(left))
    assert [row["text"] for row in documents(tmp_path / "out")] == expected
    assert metrics["bytes"] == sum(len(text.encode()) for text in expected)
    assert metrics["dropped"] == {"duplicate_documents": 1, "repeated_documents": 1}
    lines = {"duplicate_paragraphs": 29 + 20 + 2, "lines_of_documents": 4}
    assert metrics["dropped_lines"] == lines
    assert metrics["lines_read"] == 127 and metrics["lines"] == 127 - 55


def test_document_of_exactly_the_minimum_stays_without_its_repeated_paragraph(tmp_path):
    line = "This paragraph stands on every page."
    texts = [{"text": f"{line}\nShort."}, {"text": f"Short.\n{line}"}]
    write_jsonl(tmp_path / "text/0.jsonl", texts)
    cleaning = {"duplicate_paragraphs": "drop", "shortest_paragraph": 10, "minimum_document": 6}
    assert run(tmp_path, config(tmp_path, cleaning=cleaning))["documents"] == 2


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    write(tmp_path / "text")
    expected = run(tmp_path, config(tmp_path), "whole")
    calls = []
    read = WorkUnit.read

    def stopping(unit):
        calls.append(unit.pieces[0].path.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return read(unit)

    monkeypatch.setattr(WorkUnit, "read", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, config(tmp_path))
    assert not (tmp_path / "out").exists()
    finished = set(tmp_path.rglob("unit-*"))
    last = tmp_path / "text/4.jsonl"
    text = last.read_text()
    last.write_text('{"text": "changed"}')
    assert run(tmp_path, config(tmp_path))["documents"] == 161, "another run"
    assert set(tmp_path.rglob("unit-*")) == finished, "nothing is deleted because something changed"
    last.write_text(text)
    calls.clear()
    assert run(tmp_path, config(tmp_path)) == expected
    assert calls == ["3.jsonl", "4.jsonl"]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("content, settings, sentence", [
    (b"", {}, r"corpora\.x: holds no document \(0 rows read, 0 quarantined, 0 dropped\)"),
    (b'{"text": " "}\n{"text": "\\n"}', {}, r"2 rows read, 0 quarantined, 2 dropped, most as empty_documents\)"),
    (b'{"text": "a"}\n' + b"\xff\n" * 6, {}, r"0\.jsonl:2: invalid UTF-8 \(the first of 6 bad rows of 7\); expected at most 5"),
    (b'{"text": "a"}\n{', {"quarantine": {"min_tolerated": 0}}, r"0\.jsonl:2: not JSON \(the first of 1 bad rows of 2\)"),
])  # fmt: skip
def test_useless_input_is_a_sentence_and_leaves_nothing(tmp_path, content, settings, sentence):
    (tmp_path / "text").mkdir()
    (tmp_path / "text/0.jsonl").write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        run(tmp_path, config(tmp_path, **settings))
    assert not (tmp_path / "out").exists()


def test_hopeless_input_ends_with_its_unit(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "HOPELESS", 499)
    monkeypatch.setattr("pipelines.sources.documents.GROUP_BYTES", 1000)
    (tmp_path / "text").mkdir()
    for number in range(3):
        (tmp_path / f"text/{number}.jsonl").write_bytes(b"[]\n" * 500)
    with pytest.raises(BadInput, match="the first of 500 bad rows of 500"):
        run(tmp_path, config(tmp_path))


def test_all_damaged_files_are_named_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.sources.documents.GROUP_BYTES", 1000)
    write(tmp_path / "text")
    for number in (1, 2, 4):
        path = tmp_path / f"text/{number}.jsonl"
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
        path.unlink()
    sentence = r"corpora\.x: 3 files cannot be read: .*1\.jsonl\.gz: is damaged.*2\.jsonl\.gz: .*4\.jsonl\.gz: "
    with pytest.raises(BadInput, match=sentence):
        run(tmp_path, config(tmp_path))
    kept = {path.name for path in tmp_path.rglob("unit-*")}
    assert kept == {"unit-00000", "unit-00002"}, "0.jsonl and 3.jsonl"
    files = [f"{tmp_path}/text/*", f"!{tmp_path}/text/*.gz"]
    settings = config(tmp_path, sources=[{"kind": "local", "files": files}])
    assert run(tmp_path, settings)["documents"] == 80
    assert not (tmp_path / "out/quarantine.jsonl").read_bytes()


def test_source_or_room_that_is_not_there_is_a_sentence_at_once(tmp_path, monkeypatch):
    sentence = r"corpora\.x\.sources\[0\]: no file matches .* its folder is not there"
    with pytest.raises(SourceUnreachable, match=sentence):
        run(tmp_path, config(tmp_path))
    write(tmp_path / "text", files=1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(OutOfRoom, match=r"has 1 GB free; corpora\.x needs 2 GB"):
        run(tmp_path, config(tmp_path, expected={"tokens": 1e9, "gigabytes": 2}))
    assert run(tmp_path, config(tmp_path, expected={"tokens": 1e9, "gigabytes": 0.5}))["documents"]
    with pytest.raises(BadConfig, match=r"corpora\.x\.sources"):
        config(tmp_path, sources=[])


def test_no_space_left_is_a_sentence_and_the_next_run_goes_on(tmp_path):
    write(tmp_path / "text", rows=400)
    settings = config(tmp_path, cleaning={"duplicate_paragraphs": "drop"})
    whole = run(tmp_path, settings, "whole")
    for most in (500, 3000, 12_000):
        sentence = r"cannot be written \(File too large, [\d,]+ bytes free\)"
        with largest_file(most), pytest.raises(OutOfRoom, match=sentence):
            run(tmp_path, settings)
        assert not (tmp_path / "out").exists() and not list(tmp_path.rglob(".*tmp-*"))
    assert run(tmp_path, settings) == whole
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
