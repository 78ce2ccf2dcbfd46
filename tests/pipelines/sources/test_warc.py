"""WARC and WET of crawls: which records are pages, their decoding, and the cost of damage."""

import base64
import gzip
import hashlib
import zlib

import pytest

from electra.errors import BadInput
from pipelines.sources import warc
from pipelines.sources.streams import Skipped
from pipelines.text.cleaning import Document
from tests.support.bad_input import read, rejections, texts
from tests.support.delivered import answer, html, record

JAPANESE = "これは日本語のページです。東京の天気は晴れです。" * 5
GERMAN = "Früh übt sich, wer ein Meister werden will. Größe und Übermut gehören dazu."


def page(number):
    body = answer(html(f"Page {number} has a text").encode())
    return record(body, WARC_Record_ID=f"<urn:uuid:{number}>")


def text(number):
    return f"On it\nPage {number} has a text in two lines.\nSecond."


def packed(name, records):
    """A file's bytes: plain, a stream a record, or one stream."""
    if name == "a.warc.gz":
        return b"".join(map(gzip.compress, records))
    return (bytes if name == "a.warc" else gzip.compress)(b"".join(records))


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "one.warc.gz"])
def test_pages_are_documents_and_the_other_records_are_counted(tmp_path, name):
    robots = {"WARC_Target_URI": "http://x.org/robots.txt"}
    others = {
        "warcinfo_records": record(b"software: x\r\n", "warcinfo"),
        "request_records": record(b"GET / HTTP/1.1\r\n\r\n", "request"),
        "metadata_records": record(b"fetchTimeMs: 5\r\n", "metadata"),
        "revisit_records": record(b"", "revisit"),
        "other_records": record(b"", "new"),
        "other_status": record(answer(b"gone", status="404 Not Found")),
        "other_media_types": record(b"HTTP/1.1 200 OK\r\nContent-Type: image/png"),
        "robots_txt": record(answer(b"User-agent: *", "text/plain"), **robots),
        "binary_content": record(answer(b"%PDF-1.4 \1\2\3")),
        "other_content_encodings": record(answer(b"\x1b\x0f\1", more="Content-Encoding: br\r\n")),
    }
    assert read(tmp_path / name, packed(name, [page(1), *others.values(), page(2)])) == [
        Document("urn:uuid:1", text(1)),
        *map(Skipped, others),
        Document("urn:uuid:2", text(2)),
    ]


def test_clueweb09_and_wet_files_are_read(tmp_path):
    old = {"version": "0.18", "end": "\n", "WARC_TREC_ID": "clueweb09-en0000-00-00000"}
    body = answer(html("Page 1 has a text").encode()).replace(b"\r\n", b"\n")
    document = Document("clueweb09-en0000-00-00000", text(1))
    assert read(tmp_path / "a.warc", record(body, **old)) == [document]
    wet = {"Content_Type": "text/plain", "WARC_Target_URI": "http://x.org/"}
    data = gzip.compress(record(GERMAN.encode() + b"\n\nB", "conversion", **wet))
    assert read(tmp_path / "a.warc.wet.gz", data) == [Document("http://x.org/", f"{GERMAN}\nB")]


@pytest.mark.parametrize(
    "content, encoding, media, meta",
    [
        (GERMAN, "latin-1", "text/html; charset=ISO-8859-1", ""),
        (GERMAN, "latin-1", "text/html; charset=utf-8", ""),  # a wrong one
        (GERMAN, "latin-1", "text/html; charset=euc-jp", ""),
        (GERMAN, "utf-8", "text/html; charset=iso-8859-1", ""),  # the usual wrong one
        (GERMAN, "utf-16", "text/html", ""),
        (JAPANESE, "shift_jis", "text/html", ""),
        (JAPANESE, "shift_jis", "text/html; charset=ISO-8859-1", '<meta charset="x-sjis">'),
        (JAPANESE, "euc_jp", "text/html; charset=windows-1252", ""),
        (JAPANESE + "①", "cp932", "text/html", '<meta charset="shift_jis">'),
        (JAPANESE, "iso2022_jp", "text/html; charset=iso-2022-jp", ""),
        ("Tak więc źródło", "iso-8859-2", "text/html", '<meta charset="iso-8859-2">'),
    ],
)
def test_pages_are_decoded_as_declared_or_as_they_look(tmp_path, content, encoding, media, meta):
    items = read(tmp_path / "a.warc", record(answer(html(content, meta).encode(encoding), media)))
    assert texts(items) == [f"On it\n{content} in two lines.\nSecond."]


def test_a_page_is_read_as_it_was_sent(tmp_path):
    path = tmp_path / "a.warc"
    headers = "Content-Encoding: {}\r\nTransfer-Encoding: chunked\r\n"
    in_gzip = headers.format("gzip")
    body = html("Page 1 has a text").encode()
    small = gzip.compress(body)
    deflated = zlib.compress(body)
    chunks = b"%x\r\n%s\r\n%x;x\r\n%s\r\n0\r\n\r\n" % (9, small[:9], len(small) - 9, small[9:])
    halves = gzip.compress(body[:30]) + gzip.compress(body[30:]) + bytes(3)
    for sent, coding in (
        (chunks, "gzip"),
        (small, "gzip"),
        (body, "gzip"),
        (halves, "gzip"),
        (deflated, "deflate"),
        (deflated[2:-4], "deflate"),  # without zlib's header
    ):
        items = read(path, record(answer(sent, more=headers.format(coding))))
        assert texts(items) == [text(1)]
    endless = gzip.compress(b"") * 101
    for bad in (chunks[:-5], chunks[:60], small[:-12], small + b"not gzip", endless):
        items = read(path, record(answer(bad, more=in_gzip)))
        assert rejections(items) == [(f"{path}:1", "damaged content")]
    cut = record(answer(chunks[:-5], more=in_gzip), WARC_Truncated="length")
    assert texts(read(path, cut)) == [text(1)]


BOMB = gzip.compress(bytes(10**6), mtime=0)  # its bytes are in the names of tests


@pytest.mark.parametrize("body, more, reason", [
    (b"x" * 20_000, "", "longer than 0 MiB"),
    (BOMB, "Content-Encoding: gzip\r\n", "longer than 0 MiB"),
    (b"<div>" * 1600 + b"text", "", "elements nested more than 1,500 deep"),
    (BOMB[:10] + b"\xff" * 9, "Content-Encoding: gzip\r\n", "damaged content"),
    (b"3\r\nabc\r\n-9\r\nabc\r\n", "Transfer-Encoding: chunked\r\n", "damaged content"),
])  # fmt: skip
def test_what_is_too_much_is_quarantined(tmp_path, monkeypatch, body, more, reason):
    monkeypatch.setattr(warc, "LONGEST_LINE", 10_000)
    items = read(tmp_path / "a.warc", record(answer(body, more=more)))
    assert rejections(items) == [(f"{tmp_path}/a.warc:1", reason)]


LENGTH = b"Content-Length: "
THIRD = gzip.compress(page(3))


@pytest.mark.parametrize("damaged, reason", [
    (THIRD[:40] + bytes(20) + THIRD[60:], "damaged"),
    (gzip.compress(page(3).replace(LENGTH, LENGTH + b"9999")), "damaged"),
    (gzip.compress(page(3).replace(LENGTH, LENGTH + b"9" * 5000)), "a record without Content-Length"),
    (gzip.compress(b"what is\r\n\r\nno record\r\n"), "no WARC record"),
], ids=["bits", "length", "digits", "lines"])  # fmt: skip
def test_a_damaged_record_costs_only_itself(tmp_path, damaged, reason):
    records = [gzip.compress(page(number)) for number in range(1, 6)]
    items = read(tmp_path / "a.warc.gz", b"".join([*records[:2], damaged, *records[3:]]))
    assert texts(items) == list(map(text, (1, 2, 4, 5)))
    assert rejections(items)[0] == (f"{tmp_path}/a.warc.gz:3", reason)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "one.warc.gz"])
def test_a_file_that_is_cut_short_is_refused(tmp_path, name):
    content = packed(name, [page(1), page(2)])[:-30]
    sentence = r"is damaged or cut short \(it ends in the middle of a .*get the file again"
    with pytest.raises(BadInput, match=sentence):
        read(tmp_path / name, content)


@pytest.mark.parametrize("change", [-5, 10, 60, 4 + len(page(4)), 2 * len(page(3)), 10**12])
@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_wrong_length_swallows_no_other_record(tmp_path, name, change):
    length = len(page(3).partition(b"\r\n\r\n")[2]) - 4
    wrong = page(3).replace(LENGTH + b"%d" % length, LENGTH + b"%d" % (length + change))
    items = read(tmp_path / name, packed(name, [page(1), page(2), wrong, page(4), page(5)]))
    assert texts(items) == list(map(text, (1, 2, 4, 5)))
    assert rejections(items) == [(f"{tmp_path}/{name}:3", "damaged")]


@pytest.mark.parametrize("name", [b"P", b"Page 3, which is longer"])
def test_a_wrong_length_in_a_file_of_one_stream_costs_one_row(tmp_path, name):
    wrong = page(3).replace(b"Page 3", name)
    content = packed("one.warc.gz", [page(1), page(2), wrong, page(4), page(5)])
    items = read(tmp_path / "one.warc.gz", content)
    assert len(rejections(items)) == 1
    first, second, *_, last = texts(items)
    assert [first, second, last] == list(map(text, (1, 2, 5)))


@pytest.mark.parametrize("algorithm", ["sha1", "md5", "sha256"])
def test_a_digest_is_held_to(tmp_path, algorithm):
    path = tmp_path / "a.warc"
    body = answer(html("Page 1 has a text").encode())
    digest = hashlib.new(algorithm, body).digest()
    for name in (digest.hex(), base64.b32encode(digest).decode()):
        headers = {"WARC_Block_Digest": f"{algorithm}:{name}"}
        assert texts(read(path, record(body, **headers))) == [text(1)]
        items = read(path, record(body.replace(b"Page", b"Cage"), **headers) + page(2))
        assert texts(items) == [text(2)] and rejections(items) == [(f"{path}:1", "damaged")]
