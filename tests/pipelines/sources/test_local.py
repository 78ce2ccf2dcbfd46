"""Local files of every format and compression, good ones and bad ones."""

import gzip
import io
import json
import os
import re
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow.parquet import write_table

from electra.config import build
from electra.errors import BadConfig, BadInput, SourceUnreachable
from pipelines.sources import CorpusConfig, LocalCorpus, local, streams
from pipelines.sources.local import read_documents
from pipelines.sources.paths import find_files, make_patterns
from pipelines.sources.streams import COMPRESSIONS, FileRange
from pipelines.text.cleaning import Document, Rejected
from tests.pipelines.sources.bad_input import (
    BAD_LINES,
    COMPRESS,
    damaged,
    parquet,
    read,
    rejections,
    texts,
    write_files,
)

ROWS = [{"id": f"d{i}", "title": "t", "text": f"Text {i} — ünï\nsecond line"} for i in range(50)]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def corpus(**settings):
    return LocalCorpus(kind="local", files=("x",), **settings)


@pytest.mark.parametrize("compression", COMPRESS)
def test_every_stream_of_a_file_is_read(tmp_path, compression):
    stream = COMPRESS[compression](JSONL.replace(b"\n", b"\r\n") + b"\n")
    padding = bytes(8) if compression in {".gz", ".xz"} else b""
    content = COMPRESS[compression](b"\xef\xbb\xbf") + (stream + padding) * 3
    documents = [Document(row["id"], row["text"]) for row in ROWS] * 3
    assert read(tmp_path / f"a.jsonl{compression}", content) == documents


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "behind", "next cut", "next flipped", "nothing", "plain"]
)
def test_damage_anywhere_in_a_compressed_file_is_one_sentence(tmp_path, compression, damage):
    stream = COMPRESS[compression](JSONL * 20)
    middle = len(stream) - 12 if compression == ".zst" else len(stream) // 2
    content = {
        "cut": stream[:-9],
        "flipped": damaged(stream, ("flip", middle, 4)),
        "behind": stream + b"what is no stream",
        "next cut": stream + stream[:3],
        "next flipped": stream + damaged(stream, ("flip", 1, 4)),
        "nothing": b"",
        "plain": JSONL,
    }[damage]
    fault = rf"a\.jsonl\{compression}: is damaged or cut short \(.+; get the file again"
    with pytest.raises(BadInput, match=fault):
        read(tmp_path / f"a.jsonl{compression}", content)


def test_parquet(tmp_path):
    rows = [*ROWS, {"id": "x", "title": "t", "text": None}]
    path = tmp_path / "a.parquet"
    *good, bad = read(path, parquet(rows))
    assert good == [Document(row["id"], row["text"]) for row in ROWS]
    assert bad == Rejected(f"{path}:51", "field 'text' is not text", "None")
    with pytest.raises(
        BadInput, match="has no column 'body'; set `text` to one of id, title, text"
    ):
        read(path, text="body")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="cannot be read"):
        read(path)


def test_a_parquet_page_with_another_checksum_is_damaged(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"Text {number}" for number in range(200)]})
    write_table(table, path, write_page_checksum=True, compression="none")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Text 7", b"Text 8", 1))
    with pytest.raises(BadInput, match=r"a\.parquet: cannot be read \(could not verify page"):
        list(read_documents(FileRange(path), corpus()))


def test_a_parquet_string_that_is_not_utf8_costs_its_row_alone(tmp_path):
    values = [b"one good text", b"a b\xf3d one", b"another good text"]
    _, offsets, content = pyarrow.array(values, pyarrow.binary()).buffers()
    broken = pyarrow.StringArray.from_buffers(3, offsets, content)  # as damage leaves it
    path = tmp_path / "a.parquet"
    items = read(path, parquet(pyarrow.table({"text": broken})))
    assert texts(items) == ["one good text", "another good text"]
    assert rejections(items) == [(f"{path}:2", "invalid UTF-8")]


TEXT = b"one\n two\n\n\nthree\n  \nfour"
ARTICLES = b" = One = \n\n Text. \n = = Part = = \n More.\n = Two = \nText."


@pytest.mark.parametrize("documents, content, texts", [
    ("file", TEXT, [TEXT.decode()]),
    ("blank_lines", TEXT, ["one\n two", "three", "four"]),
    ("lines", TEXT, ["one", " two", "three", "four"]),
    ("headings", ARTICLES, ["One\n\n Text. \nPart\n More.", "Two\nText."]),
])  # fmt: skip
def test_documents_of_a_text_file(tmp_path, documents, content, texts):
    names = ["a.txt"] if documents == "file" else [f"a.txt#{n}" for n in range(len(texts))]
    expected = list(map(Document, names, texts))
    assert read(tmp_path / "a.txt", content, documents=documents) == expected


def test_a_very_long_text_file_is_cut_at_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "LONGEST_DOCUMENT", 1000)
    path = tmp_path / "a.txt"
    lines = [f"line {i} of a long book" for i in range(500)]
    path.write_text("\n".join(lines))
    pieces = read(path)
    assert len(pieces) > 5 and all(len(piece.text) < 1100 for piece in pieces)
    assert [line for piece in pieces for line in piece.text.split("\n")] == lines


def test_wikiextractor_output(tmp_path):
    path = tmp_path / "wiki_00"
    path.write_text(
        '<doc id="12" url="http://x?curid=12" title="A &amp; B">\nA & B\n\nFish &amp; chips.\n</doc>\n\n'
        '<doc id="13" url="u" title="C">\nC\n\nText.\n</doc>\nstray\n<doc id="14" title="D">\ncut'
    )
    assert read(path) == [
        Document("12", "A & B\n\nFish & chips."),
        Document("13", "C\n\nText."),
        Rejected(f"{path}:12", "text outside <doc>", "stray"),
        Rejected(f"{path}:13", "a <doc> without </doc>", '<doc id="14" title="D">\ncut', lines=2),
    ]


def test_one_document_of_wikiextractor_is_bounded_and_goes_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "wiki_00"
    parts = [b"Good.", b"Bad: \xff.\nGood.", b"A line of text.\n" * 70_000, b"Good, </doc> too."]
    content = [b'<doc id="%d">\n%s\n</doc>\n' % (id, text) for id, text in enumerate(parts)]
    first, *bad, last = read(path, b"".join(content))
    assert [first, last] == [Document("0", "Good."), Document("3", "Good, </doc> too.")]
    assert rejections(bad) == [(f"{path}:4", "invalid UTF-8"), (f"{path}:8", "longer than 1 MiB")]
    assert [item.lines for item in bad] == [4, 70_002]


def test_hard_wrapped_books_are_joined(tmp_path):
    content = b"a line that is filled to the very end\nand goes on here."
    (document,) = read(tmp_path / "a.txt", content, hard_wrapped=True)
    assert document.text == "a line that is filled to the very end and goes on here."


@pytest.mark.parametrize("line, reason", BAD_LINES, ids=[reason for _, reason in BAD_LINES])
def test_a_bad_line_is_rejected_with_its_place_and_the_rest_is_read(
    tmp_path, line, reason, monkeypatch
):
    if "longer" in reason:
        monkeypatch.setattr(streams, "LONGEST_LINE", 1000)
    path = tmp_path / "a.jsonl"
    content = b'{"text": "good"}\n' + line + b'\n{"id": 7, "text": "good too"}\n'
    first, bad, last = read(path, content)
    assert (first, last) == (Document("a.jsonl:1", "good"), Document("7", "good too"))
    assert rejections([bad]) == [(f"{path}:2", reason)]
    bad.excerpt.encode()


def test_a_line_that_is_too_long_ends_a_piece_where_it_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1000)
    path = tmp_path / "a.jsonl"
    long = b'{"text": "%s"}\n' % (b"x" * 3000)
    path.write_bytes(long + JSONL)
    (bad,) = read_documents(FileRange(path, end=len(long)), corpus())
    assert rejections([bad]) == [(f"{path}:1", "a line longer than 0 MiB")]


def test_a_file_that_changes_under_the_reader_is_noticed(tmp_path):
    for name, content in {"a.jsonl": JSONL, "a.parquet": parquet(ROWS)}.items():
        path = tmp_path / name
        path.write_bytes(content)
        reader = read_documents(FileRange(path), corpus())
        next(reader)
        path.write_bytes(content * 2)
        with pytest.raises(BadInput, match="changed while it was read"):
            list(reader)


def find_names(folder, *patterns):
    """Return the files that patterns name, all of them relative to a folder."""
    placed = [re.sub("^!?", rf"\g<0>{folder}/", pattern) for pattern in patterns]
    return [str(path.relative_to(folder)) for path in find_files(tuple(placed), "corpora.x")]


def test_globs_folders_and_paths_name_files_once_and_in_order(tmp_path):
    write_files(tmp_path, "b/2.txt", "b/1.txt", "b/c/3.txt", "a.txt", "b/.hidden")
    names = find_names(tmp_path, "a.txt", "b", "**/*.txt")
    assert names == ["a.txt", "b/1.txt", "b/2.txt", "b/c/3.txt"]


def test_what_an_exclamation_mark_names_is_left_out(tmp_path, monkeypatch):
    files = ("a.txt", "b.txt", "b[1].txt", "in/c.txt", "in/d.jsonl", "in/side/e.jsonl")
    write_files(tmp_path, *files, "other/f.jsonl")
    assert find_names(tmp_path, "!b.txt", "*.txt") == ["a.txt", "b[1].txt"]
    assert find_names(tmp_path, "**", "!in/*", "!b*", "in/c.txt", "!other") == ["a.txt"]
    names = find_names(tmp_path, "**", "!in/side", "!b*", "!other")
    assert names == ["a.txt", "in/c.txt", "in/d.jsonl"]
    with pytest.raises(BadInput, match="leaves no file; change `files`"):
        find_names(tmp_path, "*.txt", "!*.txt")
    with pytest.raises(BadInput, match="no file matches"):
        find_names(tmp_path, "*.txt", "!c.txt")
    with pytest.raises(ValueError, match="at least one path or glob"):
        LocalCorpus(kind="local", files=("!a.txt",))
    patterns = make_patterns([tmp_path / "in/d.jsonl", tmp_path / "in/side/e.jsonl"])
    assert patterns == [f"{tmp_path}/in/**/*.jsonl"]
    monkeypatch.chdir(tmp_path)
    for some in (
        [tmp_path / "a.txt", tmp_path / "b[1].txt"],
        [Path("a.txt"), tmp_path / "in/c.txt"],
    ):
        assert find_files(tuple(make_patterns(some)), "corpora.x") == some
    apart = ["in/d.jsonl", "other/f.jsonl"]
    assert make_patterns(list(map(Path, apart))) == apart


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
def test_another_encoding_is_a_setting_and_a_byte_order_mark_counts_for_more(tmp_path, name):
    text = "naïve “façade”"
    content = json.dumps({"text": text}, ensure_ascii=False) if name == "a.jsonl" else text

    def read_as(data, **settings):
        pack = COMPRESS[".gz"] if name.endswith(".gz") else bytes
        return read(tmp_path / name, pack(data), **settings)

    assert texts(read_as(content.encode("cp1252") + b"\n")) == []
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        assert texts(read_as(content.encode(encoding), encoding="cp1252")) == [text]
    (bad,) = read_as(b"\x81", encoding="cp1252")
    assert bad.reason == "invalid CP1252"


@pytest.mark.parametrize(
    "encoding", ["latin1x", "hex", "utf-16", "cp037", "unicode_escape", "idna", "", "a\0b"]
)
def test_what_is_no_encoding_of_text_is_refused(encoding):
    with pytest.raises(ValueError, match=r"encoding: is .*, should be a text encoding of Python"):
        corpus(encoding=encoding)
    assert corpus(encoding="shift_jis").encoding == "shift_jis"


def test_links_to_folders_are_followed_once(tmp_path):
    write_files(tmp_path, "one/a.txt", "one/[deep]/b.txt", "elsewhere/c.txt")
    (tmp_path / "one/again").symlink_to("..")
    (tmp_path / "one/[deep]/loop").symlink_to(tmp_path / "one")
    (tmp_path / "one/a link").symlink_to(tmp_path / "elsewhere")

    inside = ["one/[deep]/b.txt", "one/a link/c.txt", "one/a.txt"]
    assert find_names(tmp_path, "one/**/*.txt") == inside
    everywhere = ["elsewhere/c.txt", "one/[deep]/b.txt", "one/a.txt"]
    assert find_names(tmp_path, "**/*.txt") == everywhere
    assert find_names(tmp_path, "**/one/**/b*") == ["one/[deep]/b.txt"]
    for pattern in ("one/**", "one/**/*", "one/**/**/*.*"):
        names = find_names(tmp_path, pattern)
        assert sorted(name[-5:] for name in names) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("pattern", ["", "/*", "/**/*.txt", "/*/*.txt"])
@pytest.mark.parametrize("how, fault", [
    ("dangling", "link to nothing"), ("loop", "link to nothing"), ("pipe", "a regular file"),
    ("closed", "closed cannot be read"),
])  # fmt: skip
def test_what_matches_and_cannot_be_read_is_refused(tmp_path, pattern, how, fault, monkeypatch):
    write_files(tmp_path, "in/b/a.txt", "in/a.txt", "in/closed/a")
    file = tmp_path / ("in/b/b.txt" if pattern == "/*/*.txt" else "in/b.txt")
    scan = os.scandir

    def scandir(path):
        if how == "closed" and str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    if how == "pipe":
        os.mkfifo(file)
    elif how != "closed":
        file.symlink_to("nowhere" if how == "dangling" else "b.txt")
    with pytest.raises((BadInput, SourceUnreachable), match=fault):
        find_files((f"{tmp_path}/in{pattern}",), "corpora.x")


def test_no_file_is_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"corpora\.x: no file matches '.*\*\.txt'"):
        find_files((f"{tmp_path}/*.txt",), "corpora.x")
    with pytest.raises(SourceUnreachable, match="its folder is not there"):
        find_files((f"{tmp_path}/nowhere/*.txt",), "corpora.x")
    with pytest.raises(SourceUnreachable, match="no such file"):
        read(tmp_path / "a.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        read(tmp_path / "folder.jsonl")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("text")
    with pytest.raises(BadInput, match=r"the name of '.*caf\\udce9.txt' is not UTF-8.*rename it"):
        find_files((str(tmp_path),), "corpora.x")
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / ".dvc/tmp")
    with pytest.raises(SourceUnreachable, match="copy only what git and DVC track"):
        find_files(("*.txt",), "corpora.x")


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_decompression_bomb_is_refused(tmp_path, compression, monkeypatch):
    monkeypatch.setattr(streams, "SMALL", 10_000)
    path = tmp_path / f"a.jsonl{compression}"
    path.write_bytes(COMPRESS[compression](b'{"text": "again"}\n' * 30_000))
    with pytest.raises(
        BadInput, match=r"a\.jsonl\.\w+: expands to more than [\d,]+ bytes from [\d,]+, as no text"
    ):
        read(path)
    monkeypatch.setattr(streams, "SMALL", 10**7)
    assert len(read(path)) == 30_000


def test_an_archive_is_refused(tmp_path):
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../evil.txt"))
    for name, content, fault in (
        ("a.tar", tarred.getvalue(), "a tar archive"),
        ("a.tar.gz", gzip.compress(tarred.getvalue()), "a tar archive"),
        ("a.zip", b"PK\x03\x04", "a zip file"),
        ("a.pdf", b"%PDF-1.4", "a binary file"),
        ("a.db", b"SQLite format 3" + bytes(20) + b"a text of it" * 9, "a binary file"),
        ("a.parq", parquet(ROWS), "a parquet file"),
        ("a.parquet.gz", gzip.compress(parquet(ROWS)), "compressed as a whole"),
        *((f"a{kind}.txt", COMPRESS[kind](b"text"), "compressed, but") for kind in COMPRESSIONS),
    ):
        with pytest.raises(BadInput, match=rf"{name}: is {fault}"):
            read(tmp_path / name, content)


@pytest.mark.parametrize("kind, package", [
    ("warc", "resiliparse.extract.html2text"), ("wikipedia", "mwparserfromhell"),
])  # fmt: skip
def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        BadConfig, match=rf"needs {package.split('.')[0]}.*pip install -e '\.\[crawl\]'"
    ):
        read(tmp_path / "a", b"", kind=kind)


@pytest.mark.parametrize("key, value", [
    ("format", "jsonl"), ("documents", "lines"), ("text", "t"), ("id", "i"), ("encoding", "cp1252"),
    ("hard_wrapped", True),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["warc", "gigaword", "wikipedia"])
def test_files_as_delivered_have_no_key_that_does_nothing(kind, key, value):
    source = {"kind": kind, "files": ["x"]}
    (built,) = build(CorpusConfig, {"sources": [source]}, "corpora.x").sources
    assert built.format == kind and replace(built) == built
    sentence = rf"corpora\.x\.sources\[0\]\.{key}: is .*, should not be set with kind: {kind}"
    with pytest.raises(BadConfig, match=sentence):
        build(CorpusConfig, {"sources": [source | {key: value}]}, "corpora.x")
