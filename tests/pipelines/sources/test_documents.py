"""Large files in ranges: the same documents as in one piece, whatever ends a document; and one look
at every file.
"""

import gzip
import json
import os
from dataclasses import replace

import pytest

from electra.errors import BadInput
from pipelines.sources import CorpusConfig, HubCorpus, LocalCorpus, documents, hub
from pipelines.text.cleaning import Document
from tests.support.bad_input import parquet, read, texts

TEXTS = [f"Text {i} ünï\nof {i * 7919 % 13} words.\n\tTab {'x' * (i % 50)}" for i in range(300)]
JSONL = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\r\n" for text in TEXTS)
WIKI = "".join(f'<doc id="{i}">\n{text}\n</doc>\n\n' for i, text in enumerate(TEXTS))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(documents, "RANGE_BYTES", 1500)
    monkeypatch.setattr(documents, "BLOCK", 100)
    monkeypatch.setattr(documents, "GROUP_BYTES", 0)


def units_of(tmp_path, path, **settings):
    source = LocalCorpus(kind="local", files=(str(path),), **settings)
    return documents.plan(CorpusConfig(sources=(source,)), "corpora.x", tmp_path)[1]


def items_of(units):
    return [item for unit in units for item in unit.read()]


def test_parts_of_a_hub_are_units_of_the_commit_that_its_revision_names(tmp_path, monkeypatch):
    parts = [hub.HubFile(number, 2, f"{number}.parquet") for number in range(2)]
    monkeypatch.setattr(hub, "resolve", lambda *_: "0123")
    monkeypatch.setattr(hub, "parts", lambda *_: parts)
    source = HubCorpus(kind="hub", dataset="made/up", revision="main")
    config, units = documents.plan(CorpusConfig(sources=(source,)), "corpora.x", tmp_path)
    resolved = replace(source, revision="0123")
    assert config.sources == (resolved,)
    assert units == [documents.WorkUnit(0, resolved, part=part) for part in parts]
    assert units[0].state() != units[1].state()


@pytest.mark.parametrize("name, content, settings", [
    ("a.jsonl", "\ufeff" + JSONL, {}),
    ("a.txt", "\n".join(TEXTS), {"documents": "lines"}),
    ("a.txt", "\n \r\n\n".join(TEXTS), {"documents": "blank_lines"}),
    ("a.txt", "\n".join(f" = Text {i} = \n\n{text}\n = = More = = \nend" for i, text in enumerate(TEXTS)), {"documents": "headings"}),
    ("wiki_00", WIKI, {}),
])  # fmt: skip
def test_ranges_hold_the_same_documents(tmp_path, name, content, settings):
    path = tmp_path / name
    path.write_text(content, newline="")
    units_of(tmp_path, path)  # whose notes are of other settings
    units = units_of(tmp_path, path, **settings)
    assert len(units) > 8 and sum(unit.pieces[0].size for unit in units) == path.stat().st_size
    items = items_of(units)
    expected = read(path, **settings)
    if name == "a.txt":  # whose documents are named by their range
        assert texts(items) == texts(expected)
    else:
        assert items == expected
    assert len(set(texts(expected))) > 290 and len(expected) >= 300


def test_a_text_file_of_one_document_loses_no_line_and_lines_keep_their_numbers(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(TEXTS))
    items = items_of(units_of(tmp_path, path))
    assert len({item.id for item in items}) == len(items) > 8
    assert "\n".join(texts(items)) == "\n".join(TEXTS)
    path = tmp_path / "a.jsonl"
    path.write_text(JSONL + "[]\n")
    assert items_of(units_of(tmp_path, path))[-1].where == f"{path}:301"


def test_parquet_is_cut_between_row_groups(tmp_path):
    path = tmp_path / "a.PARQUET"
    path.write_bytes(parquet([{"text": text} for text in TEXTS], row_group_size=30))
    units = units_of(tmp_path, path)
    assert len({unit.pieces[0].size for unit in units}) == 1 and len(units) > 8
    documents = [Document(f"a.PARQUET:{number}", text) for number, text in enumerate(TEXTS, 1)]
    assert items_of(units) == documents
    path.write_bytes(b"PAR1")
    assert len(units_of(tmp_path, path)) == 1, "its reader refuses it"


@pytest.mark.parametrize("name, content", [
    ("a.jsonl", json.dumps({"text": "x" * 9000}).encode()),
    ("a.jsonl", JSONL.encode("utf-16")),
    ("a.jsonl.gz", gzip.compress(JSONL.encode())),
])  # fmt: skip
def test_what_has_no_place_to_begin_is_not_cut(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    (unit,) = units_of(tmp_path, tmp_path / name)
    assert len(list(unit.read())) in {1, 300}


def test_units_are_named_by_content_and_not_by_place_or_time(tmp_path):
    states = []
    for folder, seconds, text in (("one", 1, JSONL), ("two", 2, JSONL), ("three", 3, JSONL[:-2])):
        path = tmp_path / folder / "a.jsonl"
        path.parent.mkdir()
        path.write_text(text)
        os.utime(path, (seconds, seconds))
        states.append([unit.state() for unit in units_of(path.parent, path)])
    assert states[0] == states[1] != states[2]


def test_damaged_notes_are_not_believed(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(JSONL)
    first = units_of(tmp_path, path)
    (notes,) = tmp_path.glob("survey-*")
    expected = notes.read_text()
    for damaged in (expected.replace("0", "1", 1), ""):
        notes.write_text(damaged)
        assert units_of(tmp_path, path) == first
        assert "the work that they saved is done again" in capsys.readouterr().err
        assert notes.read_text() == expected


def test_a_file_that_changes_after_the_plan_is_noticed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(JSONL)
    unit, *_ = units_of(tmp_path, path)
    path.write_text(JSONL + " ")
    with pytest.raises(BadInput, match="changed while it was read"):
        list(unit.read())


def test_small_files_share_a_unit(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "GROUP_BYTES", 900)
    for i in range(30):
        row = {"id": str(i), "text": "x" * 100}
        (tmp_path / f"{i:02d}.jsonl").write_text(json.dumps(row) + "\n")
    units = units_of(tmp_path, tmp_path / "*.jsonl")
    assert 3 < len(units) < 6
    assert [item.id for item in items_of(units)] == [str(i) for i in range(30)]
