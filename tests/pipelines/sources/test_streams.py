"""Encodings: declared ones are decoded, hidden ones refused, everything else is UTF-8."""

import io

import fsspec
import pytest

from electra.errors import BadInput
from pipelines import preflight
from pipelines.sources import hub
from pipelines.sources.streams import COMPRESSIONS, read_stream
from tests.support.bad_input import COMPRESS, read

TEXT = "Ünï one\r\ntwo 漢字 𝄞\n\nthree " + "word " * 3000
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "utf-32-be")
ROWS = '{"text": "Ünï 漢字 𝄞"}\n' * 50


@pytest.mark.parametrize("name, text", [("a.txt", TEXT), ("a.jsonl", ROWS), ("b", ROWS)])
@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_byte_order_mark_is_believed(tmp_path, name, text, encoding, compression):
    mark = "" if encoding in {"utf-16", "utf-32"} else "\ufeff"
    path = tmp_path / (name + compression)
    compress = COMPRESS[compression]
    expected = read(path, compress(text.encode()))
    assert expected and read(path, compress((mark + text).encode(encoding))) == expected


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "text", ["ab", "Das ist ein Text.\n", "Это русский текст.\n" * 40, "中文 text 中文\n" * 90]
)
def test_without_a_mark_it_is_refused(tmp_path, encoding, text):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(f"{encoding}-le" if encoding[-2:] != "be" else encoding))
    with pytest.raises(BadInput, match=r"a\.txt: holds NUL bytes as UTF-16 .*; convert"):
        read(path)
    path.write_bytes(b"some words\nc\0d and more\n" * 100)
    assert len(read(path)) == 1, "stray ones are text"


def test_half_a_character_costs_its_line_and_half_a_unit_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("one\ntwo \ud800\nthree".encode("utf-16", "surrogatepass"))
    bad, good = read(path)
    assert (bad.where, bad.reason) == (f"{path}:2", "invalid UTF-8") and good.text == "one\nthree"
    path.write_bytes("one two".encode("utf-16") + b"x")
    with pytest.raises(BadInput, match="is not UTF-16-LE, as its byte order mark says"):
        read(path)


def test_a_pipe_is_read_the_same_way():
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        lines = list(read_stream(io.BytesIO(TEXT.encode(encoding)), "standard input"))
        assert [line.decode() for _, line in lines] == TEXT.replace("\r\n", "\n").split("\n")


GERMAN = "Früh übt sich, wer ein Meister werden will."


@pytest.mark.parametrize("text, encoding, guess", [
    (GERMAN, "latin-1", "latin-1 Früh"), ("It’s “plain” English – or is it?", "cp1252", "cp1252 It’s"),
    (GERMAN, "utf-8", " "), (GERMAN * 9 + "\udcff w\udce4re.", "utf-8", " "), (GERMAN, "utf-16", " "),
    ("Это русский текст, and some English.", "cp1251", " "), ("これは日本語 in Japan.", "shift_jis", " "),
    ("Zażółć gęślą jaźń, i jeszcze parę długich słów po polsku.", "cp1250", " "),
])  # fmt: skip
def test_a_western_encoding_is_named_where_it_is_plain(tmp_path, text, encoding, guess):
    path = tmp_path / "a.txt"
    errors = "surrogateescape" if encoding == "utf-8" else "strict"
    path.write_text(text, encoding, errors)
    assert " ".join(preflight.guess_encoding(path)) == guess


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_hubs_library_reads_compressed_files_whole_or_not(tmp_path, monkeypatch, compression):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with hub.reach_hub("made/up", "corpora.x"):
        pass  # from here on the library reads as we do
    path = tmp_path / f"a.jsonl{compression}"

    def read_file(data):
        path.write_bytes(data)
        with fsspec.open(path, compression="infer") as file:
            return file.read()

    stored = COMPRESS[compression](ROWS.encode())
    assert read_file(stored * 2) == ROWS.encode() * 2
    for damaged in (stored[:-5], stored + b"x" + stored):
        with pytest.raises(EOFError):
            read_file(damaged)
