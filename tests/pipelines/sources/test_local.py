"""Local files of every format and compression, good ones and bad ones."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow.parquet import write_table

from electra.config import build
from electra.errors import BadConfig, BadInput, SourceUnreachable, UserError
from pipelines.sources import LocalCorpus, local, streams
from pipelines.sources.local import read_documents
from pipelines.sources.paths import find_files, make_patterns
from pipelines.sources.streams import COMPRESSIONS, FileRange
from pipelines.text.cleaning import Document, Rejected
from tests.support.bad_input import (
    BAD_LINES,
    COMPRESS,
    flip,
    parquet,
    read,
    rejections,
    texts,
)

ROWS = [{"id": f"d{i}", "title": "t", "text": f"Text {i} — ünï\nsecond line"} for i in range(50)]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize("compression", COMPRESS)
def test_every_stream_of_a_file_is_read(tmp_path, compression):
    stream = COMPRESS[compression](JSONL.replace(b"\n", b"\r\n") + b"\n")
    padding = bytes(8) if compression in {".gz", ".xz"} else b""
    content = COMPRESS[compression](b"\xef\xbb\xbf") + (stream + padding) * 3
    documents = [Document(row["id"], row["text"]) for row in ROWS] * 3
    assert read(tmp_path / f"a.jsonl{compression}", content) == documents


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage_anywhere_in_a_compressed_file_is_one_sentence(tmp_path, compression):
    stream = COMPRESS[compression](JSONL * 20)
    middle = len(stream) - 12 if compression == ".zst" else len(stream) // 2
    fault = rf"a\.jsonl\{compression}: is damaged or cut short \(.+; get the file again"
    for content in (
        stream[:-9],
        flip(stream, middle),
        stream + b"no stream",
        stream + stream[:3],
        stream + flip(stream, 1),
        b"",
        JSONL,
    ):
        with pytest.raises(BadInput, match=fault):
            read(tmp_path / f"a.jsonl{compression}", content)


def test_parquet(tmp_path):
    rows = [*ROWS, {"id": "x", "title": "t", "text": None}]
    path = tmp_path / "a.parquet"
    *good, bad = read(path, parquet(rows))
    assert good == [Document(row["id"], row["text"]) for row in ROWS]
    assert bad == Rejected(f"{path}:51", "field 'text' is not text", "None")
    sentence = "has no column 'body'; set `text` to one of id, title, text"
    with pytest.raises(BadInput, match=sentence):
        read(path, text="body")


def test_a_parquet_page_with_another_checksum_is_damaged(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"Text {number}" for number in range(200)]})
    write_table(table, path, write_page_checksum=True, compression="none")
    with pytest.raises(BadInput, match=r"a\.parquet: cannot be read \(could not verify page"):
        read(path, path.read_bytes().replace(b"Text 7", b"Text 8", 1))


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


@pytest.mark.parametrize("documents, content, expected", [
    ("file", TEXT, [TEXT.decode()]),
    ("blank_lines", TEXT, ["one\n two", "three", "four"]),
    ("lines", TEXT, ["one", " two", "three", "four"]),
    ("headings", ARTICLES, ["One\n\n Text. \nPart\n More.", "Two\nText."]),
])  # fmt: skip
def test_documents_of_a_text_file(tmp_path, documents, content, expected):
    items = read(tmp_path / "a.txt", content, documents=documents)
    assert texts(items) == expected
    last = "a.txt" if documents == "file" else f"a.txt#{len(expected) - 1}"
    assert items[-1].id == last


def test_a_very_long_text_file_is_cut_at_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "LONGEST_DOCUMENT", 1000)
    book = "\n".join(f"line {i} of a long book" for i in range(500))
    pieces = texts(read(tmp_path / "a.txt", book.encode()))
    assert len(pieces) > 5 and max(map(len, pieces)) < 1100
    assert "\n".join(pieces) == book


def test_wikiextractor_output(tmp_path):
    path = tmp_path / "wiki_00"
    content = (
        b'<doc id="12" url="http://x?curid=12" title="A &amp; B">\nA & B\n\nFish &amp; chips.\n</doc>\n\n'
        b'<doc id="13" url="u" title="C">\nC\n\nText.\n</doc>\nstray\n</doc>\n<doc id="14" title="D">\ncut'
    )
    assert read(path, content) == [
        Document("12", "A & B\n\nFish & chips."),
        Document("13", "C\n\nText."),
        Rejected(f"{path}:12", "text outside <doc>", "stray\n</doc>", lines=2),
        Rejected(f"{path}:14", "a <doc> without </doc>", '<doc id="14" title="D">\ncut', lines=2),
    ]


def test_one_document_of_wikiextractor_is_bounded_and_goes_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "wiki_00"
    documents = [b"Good.", b"Bad: \xff.\nGood.", b"A line.\n" * 140_000, b"Good, </doc> too."]
    items = read(path, b"".join(b"<doc id=7>\n%s\n</doc>\n" % text for text in documents))
    assert texts(items) == ["Good.", "Good, </doc> too."]
    assert rejections(items) == [(f"{path}:4", "invalid UTF-8"), (f"{path}:8", "longer than 1 MiB")]
    assert [item.lines for item in items[1:3]] == [4, 140_002]


def test_hard_wrapped_books_are_joined(tmp_path):
    content = b"a line that is filled to the very end\nand goes on here."
    joined = "a line that is filled to the very end and goes on here."
    assert texts(read(tmp_path / "a.txt", content, hard_wrapped=True)) == [joined]


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
    path.write_bytes(b"x" * 3000 + b"\n" + JSONL)
    (bad,) = read_documents(FileRange(path, end=3001), LocalCorpus(kind="local", files=("x",)))
    assert rejections([bad]) == [(f"{path}:1", "a line longer than 0 MiB")]


def test_a_file_that_changes_under_the_reader_is_noticed(tmp_path):
    for name, content in {"a.jsonl": JSONL, "a.parquet": parquet(ROWS)}.items():
        path = tmp_path / name
        path.write_bytes(content)
        reader = read_documents(FileRange(path), LocalCorpus(kind="local", files=("x",)))
        next(reader)
        path.write_bytes(content * 2)
        with pytest.raises(BadInput, match="changed while it was read"):
            list(reader)


FILES = """
    a.txt b.txt b[1].txt in/.hidden in/c.txt in/d.jsonl in/side/e.jsonl other/f.jsonl
""".split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(*names):
    """Write files of one letter below the working folder."""
    for path in map(Path, names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def find_names(patterns):
    return list(map(str, find_files(tuple(patterns.split()), "corpora.x")))


@pytest.mark.parametrize("patterns, names", [
    ("b.txt in **/*.txt", "b.txt in/c.txt in/d.jsonl in/side/e.jsonl a.txt b[1].txt"),
    ("!b.txt *.txt", "a.txt b[1].txt"),
    ("** !in/* !b* in/c.txt !other", "a.txt"),
    ("** !in/side !b* !other", "a.txt in/c.txt in/d.jsonl"),
])  # fmt: skip
def test_paths_folders_and_globs_name_files_once_and_in_order(folder, patterns, names):
    write_files(*FILES)
    assert find_names(patterns) == names.split()


@pytest.mark.parametrize("patterns, sentence", [
    ("*.xml", r"corpora\.x: no file matches '\*\.xml'"),
    ("nowhere/*.txt", "its folder is not there"),
    ("*.txt !*.txt", "leaves no file; change `files`"),
    ("*.txt !c.txt", "no file matches"),
    ("*\udce9*", r"the name of 'caf\\udce9' is not UTF-8.*rename it"),
])  # fmt: skip
def test_patterns_that_name_no_file_to_read_are_refused(folder, patterns, sentence):
    write_files(*FILES, "caf\udce9")
    with pytest.raises(UserError, match=sentence):
        find_names(patterns)


def test_an_experiment_in_a_copy_says_which_files_it_lacks(tmp_path, monkeypatch):
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / ".dvc/tmp")
    with pytest.raises(SourceUnreachable, match="copy only what git and DVC track"):
        find_names("*.txt")


def test_at_least_one_pattern_names_files():
    with pytest.raises(ValueError, match="at least one path or glob"):
        LocalCorpus(kind="local", files=("!a.txt",))


@pytest.mark.parametrize("names, patterns", [
    ("in/d.jsonl in/side/e.jsonl", "in/**/*.jsonl"),
    ("in/d.jsonl other/f.jsonl", "in/d.jsonl other/f.jsonl"),
    ("a.txt b[1].txt", "a.txt b[[]1].txt"),
])  # fmt: skip
def test_patterns_name_just_the_given_files(folder, names, patterns):
    write_files(*FILES)
    assert make_patterns(list(map(Path, names.split()))) == patterns.split()
    some = [Path("a.txt"), folder / "in/c.txt"]
    assert find_files(tuple(make_patterns(some)), "corpora.x") == some


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
def test_another_encoding_is_a_setting_and_a_byte_order_mark_counts_for_more(tmp_path, name):
    text = "naïve “façade”"
    content = f'{{"text": "{text}"}}' if name == "a.jsonl" else text
    path = tmp_path / name
    compress = COMPRESS.get(path.suffix, bytes)
    assert texts(read(path, compress(content.encode("cp1252") + b"\n"))) == []
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        items = read(path, compress(content.encode(encoding)), encoding="cp1252")
        assert texts(items) == [text]
    items = read(path, compress(b"\x81"), encoding="cp1252")
    assert rejections(items) == [(f"{path}:1", "invalid CP1252")]


@pytest.mark.parametrize(
    "encoding", ["latin1x", "hex", "utf-16", "cp037", "unicode_escape", "idna", "", "a\0b"]
)
def test_what_is_no_encoding_of_text_is_refused(encoding):
    with pytest.raises(ValueError, match=r"encoding: is .*, should be a text encoding of Python"):
        LocalCorpus(kind="local", files=("x",), encoding=encoding)


def test_links_to_folders_are_followed_once(folder):
    write_files("one/a.txt", "one/[deep]/b.txt", "elsewhere/c.txt")
    Path("one/again").symlink_to("..")
    Path("one/[deep]/loop").symlink_to(folder / "one")
    Path("one/a-link").symlink_to(folder / "elsewhere")
    inside = ["one/[deep]/b.txt", "one/a-link/c.txt", "one/a.txt"]
    assert find_names("one/**/*.txt") == inside
    everywhere = ["elsewhere/c.txt", "one/[deep]/b.txt", "one/a.txt"]
    assert find_names("**/*.txt") == everywhere
    assert find_names("**/one/**/b*") == ["one/[deep]/b.txt"]
    for pattern in ("one/**", "one/**/*", "one/**/**/*.*"):
        assert sorted(name[-5:] for name in find_names(pattern)) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**/*.txt", "in/*/*.txt"])
@pytest.mark.parametrize("how, fault", [
    ("dangling", "link to nothing"), ("loop", "link to nothing"), ("pipe", "a regular file"),
    ("closed", "closed cannot be read"),
])  # fmt: skip
def test_what_matches_and_cannot_be_read_is_refused(folder, pattern, how, fault, monkeypatch):
    write_files("in/b/a.txt", "in/closed/a")
    file = Path("in/b/b.txt")
    scan = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    if how == "closed":
        monkeypatch.setattr(os, "scandir", scandir)
    elif how == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("nowhere" if how == "dangling" else "b.txt")
    with pytest.raises((BadInput, SourceUnreachable), match=fault):
        find_names(pattern)


@pytest.mark.parametrize("name, fault", [
    ("a.jsonl", "no such file"), ("a.parquet", "no such file"), ("x" * 300, "File name too long"),
    ("folder.jsonl", "is a folder"),
])  # fmt: skip
def test_no_file_is_a_sentence(tmp_path, name, fault):
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(UserError, match=fault):
        read(tmp_path / name)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_decompression_bomb_is_refused(tmp_path, compression, monkeypatch):
    monkeypatch.setattr(streams, "SMALL", 10_000)
    path = tmp_path / f"a.jsonl{compression}"
    bomb = COMPRESS[compression](b'{"text": "again"}\n' * 30_000)
    fault = r"a\.jsonl\.\w+: expands to more than [\d,]+ bytes from [\d,]+, as no text"
    with pytest.raises(BadInput, match=fault):
        read(path, bomb)
    monkeypatch.setattr(streams, "SMALL", 10**7)
    assert len(read(path)) == 30_000


TAR = bytes(257) + b"ustar"


@pytest.mark.parametrize("name, content, fault", [
    ("a.tar", TAR, "a tar archive"),
    ("a.tar.gz", COMPRESS[".gz"](TAR), "a tar archive"),
    ("a.zip", b"PK\x03\x04", "a zip file"),
    ("a.pdf", b"%PDF-1.4", "a binary file"),
    ("a.db", b"SQLite format 3" + bytes(20) + b"a text of it" * 9, "a binary file"),
    ("a.parq", b"PAR1", "a parquet file"),
    ("a.parquet.gz", COMPRESS[".gz"](b"PAR1"), "compressed as a whole"),
    *((f"a{kind}.txt", COMPRESS[kind](b"text"), "compressed, but") for kind in COMPRESSIONS),
])  # fmt: skip
def test_what_is_no_text_is_refused(tmp_path, name, content, fault):
    with pytest.raises(BadInput, match=rf"{name}: is {fault}"):
        read(tmp_path / name, content)


@pytest.mark.parametrize("kind, package", [
    ("warc", "resiliparse.extract.html2text"), ("wikipedia", "mwparserfromhell"),
])  # fmt: skip
def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    sentence = rf"needs {package.split('.')[0]}.*pip install -e '\.\[crawl\]'"
    with pytest.raises(BadConfig, match=sentence):
        read(tmp_path / "a", b"", kind=kind)


@pytest.mark.parametrize("key, value", [
    ("format", "jsonl"), ("documents", "lines"), ("text", "t"), ("id", "i"), ("encoding", "cp1252"),
    ("hard_wrapped", True),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["warc", "gigaword", "wikipedia"])
def test_files_as_delivered_have_no_key_that_does_nothing(kind, key, value):
    source = {"kind": kind, "files": ["x"]}
    built = build(LocalCorpus, source, "corpora.x")
    assert built.format == kind and replace(built) == built
    sentence = rf"corpora\.x\.{key}: is .*, should not be set with kind: {kind}"
    with pytest.raises(BadConfig, match=sentence):
        build(LocalCorpus, source | {key: value}, "corpora.x")
