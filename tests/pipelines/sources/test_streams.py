"""Encodings: what declares itself is decoded, what hides is refused, everything else is UTF-8."""

import io
from pathlib import Path

import pytest

from electra.errors import BadInput
from pipelines import preflight
from pipelines.sources.custom_tasks import table as read_table
from pipelines.sources.local import decoded_lines
from pipelines.sources.streams import FileRange, read_stream
from tests.pipelines.sources.bad_input import COMPRESS, read

TEXT = "Ünï one\r\ntwo 漢字 𝄞\n\nthree " + "word " * 3000
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "utf-32-be")
FORMS = {
    "a.txt": TEXT,
    "a.csv": TEXT,
    "a": TEXT,
    "a.jsonl": '{"text": "Ünï 漢字 𝄞"}\n' * 50,
    "b": '{"text": "Ünï 漢字 𝄞"}\n' * 50,
}


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_byte_order_mark_is_believed(tmp_path: Path, encoding: str, compression: str) -> None:
    mark = "" if encoding in {"utf-16", "utf-32"} else "\ufeff"
    for name, text in FORMS.items():
        path = tmp_path / (name + compression)
        path.write_bytes(COMPRESS[compression](text.encode()))
        expected = read(path)
        assert len(expected) == text.count("{") or len(expected) == 1
        path.write_bytes(COMPRESS[compression]((mark + text).encode(encoding)))
        assert read(path) == expected
    table = tmp_path / f"t.tsv{compression}"
    table.write_bytes(COMPRESS[compression]((mark + "n\ttext\n1\tÜnï\n").encode(encoding)))
    assert [
        record for _, record in read_table(decoded_lines(FileRange(table)), table, ["text"])
    ] == [{"n": "1", "text": "Ünï"}]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "text", ["ab", "Das ist ein Text.\n", "Это русский текст.\n" * 40, "中文 text 中文\n" * 90]
)
def test_without_a_mark_it_is_refused(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(f"{encoding}-le" if encoding[-2:] != "be" else encoding))
    with pytest.raises(BadInput, match=r"a\.txt: holds NUL bytes as UTF-16 .*; convert"):
        read(path)
    path.write_bytes(b"some words\nc\0d and more\n" * 100)
    assert len(read(path)) == 1, "stray ones are text"


def test_half_a_character_costs_its_line_and_half_a_unit_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\ntwo \ud800\nthree".encode("utf-16", "surrogatepass"))
    bad, good = read(path)
    assert (bad.where, bad.reason) == (f"{path}:2", "invalid UTF-8") and good.text == "one\nthree"
    path.write_bytes("one two".encode("utf-16") + b"x")
    with pytest.raises(BadInput, match="is not UTF-16-LE, as its byte order mark says"):
        read(path)


def test_a_pipe_is_read_the_same_way() -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        lines = list(read_stream(io.BytesIO(TEXT.encode(encoding)), "standard input"))
        assert [line.decode() for _, line in lines] == TEXT.replace("\r\n", "\n").split("\n")
    with pytest.raises(BadInput, match="standard input: holds NUL bytes as UTF-16"):
        list(read_stream(io.BytesIO("text\n".encode("utf-16-le")), "standard input"))
    with pytest.raises(BadInput, match="is compressed"):
        list(read_stream(io.BytesIO(COMPRESS[".gz"](b"text")), "standard input"))


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        ("Früh übt sich, wer ein Meister werden will.".encode("latin-1"), ("latin-1", "Früh")),
        ("It’s “plain” English – or is it?".encode("cp1252"), ("cp1252", "It’s")),
        ("Früh übt sich.".encode(), ("", "")),
        ("Früh übt sich, wer ein Meister ".encode() * 9 + b"\xff w\xe4re.", ("", "")),
        ("Früh übt sich, wer ein Meister werden will.".encode("utf-16"), ("", "")),
        ("Это русский текст, and some English.".encode("cp1251"), ("", "")),
        ("これは日本語 in Japan.".encode("shift_jis"), ("", "")),
        ("Zażółć gęślą jaźń, i jeszcze parę długich słów po polsku.".encode("cp1250"), ("", "")),
    ],
)
def test_a_western_encoding_is_named_where_it_is_plain(
    tmp_path: Path, data: bytes, guess: tuple[str, str]
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert preflight.guess_encoding(tmp_path / "a.txt") == guess
