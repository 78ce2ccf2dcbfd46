"""WARC and WET files of crawls (Common Crawl, ClueWeb09 and 12): records, pages, their text.

1. record    header lines, then as many bytes as they say, held to what follows and to the digest.
             Versions 0.18 to 1.1, line ends of either kind
2. page      an answer with status 200 that is HTML or plain text, a resource, or the text of a WET
             file
3. text      decoded as UTF-8, as declared, or as its bytes suggest; of HTML the main content
             without its boilerplate

After a damaged record reading continues with the next one, in a compressed file with the next
stream. A record's place is its number in the file.
"""

import base64
import codecs
import functools
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from electra.errors import BadConfig, BadInput
from pipelines.sources import streams
from pipelines.sources.streams import (
    COMPRESSIONS,
    CONTROLS,
    EXCERPT,
    FETCH_ADVICE,
    LONGEST_LINE,
    LOOK,
    FileRange,
    Item,
    Skipped,
)
from pipelines.text.cleaning import Document, Rejected

LONGEST_HEADER = 1 << 16  # bytes
# of nested elements: the time to find the main content grows with the square of the depth
DEEPEST = 1500
EAST_ASIAN = ("big5", "euc_jp", "euc_kr", "gb18030", "gbk", "shift_jis")
# encodings that pages mean by these names
WIDER = {"shift_jis": "cp932", "euc_kr": "cp949", "gbk": "gb18030"}
HTML = ("text/html", "application/xhtml+xml")
OTHER_RECORDS = ("warcinfo", "request", "metadata", "revisit", "continuation")
DIGESTS = ("md5", "sha1", "sha256")
UNENDED = "it ends in the middle of a record"
MOST_UNENDED = 20  # records of a file
MOST_STREAMS = 100  # of gzip in a page: each copies all that follow
_LENGTH = re.compile(r"[0-9]{1,18}")
_VERSION = re.compile(rb"WARC/\d+\.\d+\s*")
_BEGINNING = re.compile(rb"\n(?=WARC/\d)")
_WITHIN = re.compile(rb"\n\r?\nWARC/\d\.\d\r?\nWARC-Type:")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]{0,9}(?:;[^\n]{0,200})?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_NESTED = re.compile(r"<(/?)(?:div|article)\b", re.IGNORECASE)
Headers = dict[str, str]


@dataclass(frozen=True)
class Record:
    """A record's headers, by names in lower case, and its bytes: LONGEST_LINE and one at most."""

    headers: Headers
    body: bytes


def read_warc(piece: FileRange) -> Iterator[Item]:
    """Yield the pages of a file. Raises BadInput when it ends within a record, or is damaged up to
    its end.
    """
    try:
        import resiliparse.extract.html2text
        import resiliparse.parse.encoding  # noqa: F401
    except ImportError:
        raise BadConfig(f"{piece.path}: needs resiliparse; pip install -e '.[crawl]'") from None
    path = piece.path
    with streams.unchanged(piece):
        if not (start := streams.first_bytes(path)).startswith(b"WARC/"):
            streams.refuse_strangers(start, path)
        for number, record in enumerate(read_records(path), 1):
            where = f"{path}:{number}"
            if isinstance(record, Record):
                yield _page(record, where, f"{path.name}:{number}")
            else:
                yield Rejected(where, *record)


def read_records(path: Path) -> Iterator[Record | tuple[str, str]]:
    """Yield the records of a file, and (fault, excerpt) for anything else."""
    begin = 0
    unended = 0
    while True:
        with streams.open_content(path, begin) as stream:
            records = _Records(stream, path)
            try:
                yield from records
                return
            except EOFError as error:
                reason = str(error)
        begin = _find_record(path, records.begin + 1)
        unended += reason == UNENDED  # for each of them all that follows was read
        if not begin or unended > MOST_UNENDED:
            raise BadInput(f"{path}: is damaged or cut short ({reason}); {FETCH_ADVICE}")
        yield "damaged", reason


def _find_record(path: Path, place: int) -> int:
    """Return where the first record from a stored byte on begins, or 0."""
    if path.suffix in COMPRESSIONS:
        return next(streams.find_streams(path, place, b"WARC/"), 0)
    with path.open("rb") as file:
        return next(streams.find_ends(file, place, _BEGINNING), 0)


class _Records:
    """Iterates over the records of a stream. Raises EOFError for a damaged one.

    `begin` is where in the file the record that was read last begins, or its compressed stream.
    """

    def __init__(self, stream: io.BufferedReader, path: Path) -> None:
        self._stream = stream
        self._path = path
        self.begin = 0

    def __iter__(self) -> Iterator[Record | tuple[str, str]]:
        strange = False  # until the next record: one damage, one row
        line, _ = self._next_line()
        while line:
            if not _VERSION.fullmatch(line):
                if not strange:
                    yield "no WARC record", line[:EXCERPT].decode("utf-8", "backslashreplace")
                strange = True
                line, _ = self._next_line()
                continue
            strange = False
            headers = self._headers()
            length = headers.get("content-length", "")
            if not _LENGTH.fullmatch(length):
                address = headers.get("warc-target-uri", "")[:EXCERPT]
                yield "a record without Content-Length", address
                line, _ = self._next_line()
                continue
            record = Record(headers, self._body(int(length)))
            fault = _find_fault(record)
            begin = self.begin
            try:
                line, blanks = self._next_line()
            except EOFError:
                if self._place() != begin and not fault:  # the damage is the next one's
                    self.begin = self._place()
                    yield record
                raise
            if line and not blanks:
                fault = "another Content-Length than its own"
            if not fault:
                yield record
            elif not self._place() and self._one_stream:
                # a stream cannot go back to the records that this one may have swallowed
                yield fault, headers.get("warc-target-uri", "")[:EXCERPT]
                strange = True
            else:
                self.begin = begin
                raise EOFError(fault)

    @functools.cached_property
    def _one_stream(self) -> bool:
        """Whether the file is compressed as a whole."""
        return self._path.suffix in COMPRESSIONS and not _find_record(self._path, 1)

    def _place(self) -> int:
        """Return where the compressed stream begins that was read last."""
        place: int = getattr(self._stream.raw, "stream_start", 0)
        return place

    def _next_line(self) -> tuple[bytes, int]:
        """Return the next line that is not blank, b"" at the end, and how many blank ones it
        follows.
        """
        blanks = 0
        while (line := self._stream.readline(LONGEST_HEADER)) and not line.strip():
            blanks += 1
        if line.startswith(b"WARC/"):
            compressed = hasattr(self._stream.raw, "stream_start")
            self.begin = self._place() if compressed else self._stream.tell() - len(line)
        return line.strip(), blanks

    def _headers(self) -> Headers:
        lines = list[bytes]()
        size = 0
        while (line := self._stream.readline(LONGEST_HEADER)).strip():
            size += len(line)
            if size <= LONGEST_HEADER:
                lines.append(line)
        return _parse(lines)

    def _body(self, length: int) -> bytes:
        body = self._stream.read(min(length, LONGEST_LINE + 1))
        length -= len(body)
        while length and (block := self._stream.read(min(length, streams.BLOCK))):
            length -= len(block)
        if length:
            raise EOFError(UNENDED)
        return body


def _find_fault(record: Record) -> str:
    """Return the fault of a record whose digest differs from its header, or that holds another
    record, else "".
    """
    algorithm, _, digest = record.headers.get("warc-block-digest", "").partition(":")
    if algorithm.lower() not in DIGESTS or len(record.body) > LONGEST_LINE:
        return "another record within it" if _WITHIN.search(record.body) else ""
    digest_here = hashlib.new(algorithm.lower(), record.body, usedforsecurity=False).digest()
    if (
        digest.lower() != digest_here.hex()
        and digest.upper() != base64.b32encode(digest_here).decode()
    ):
        return "another WARC-Block-Digest than its own"
    return ""


def _parse(lines: list[bytes]) -> Headers:
    """Return header lines of WARC or HTTP. The first of a name counts."""
    headers: Headers = {}
    for line in lines:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return headers


def _page(record: Record, where: str, name: str) -> Item:
    """Return the text of a record, or why there is none."""
    from resiliparse.extract.html2text import extract_plain_text

    headers = record.headers
    body = record.body
    kind = headers.get("warc-type", "").lower()
    address = headers.get("warc-target-uri", "").strip("<>")
    if kind not in {"response", "resource", "conversion"}:
        return Skipped(f"{kind if kind in OTHER_RECORDS else 'other'}_records")
    if address.partition("?")[0].endswith("/robots.txt"):
        return Skipped("robots_txt")
    media = headers.get("content-type", "")
    http: Headers = {}
    if kind == "response" and body.startswith(b"HTTP/"):
        head = _BLANK_LINE.search(body)
        status, *lines = body[: head.start() if head else len(body)].splitlines()
        if status.split()[1:2] != [b"200"]:
            return Skipped("other_status")
        http = _parse(lines)
        media = http.get("content-type", "")
        body = body[head.end() :] if head else b""
    type_ = media.partition(";")[0].strip().lower() or (
        "text/html" if body.lstrip()[:1] == b"<" else ""
    )
    if type_ not in {*HTML, "text/plain"}:
        return Skipped("other_media_types")
    too_long = Rejected(where, f"longer than {LONGEST_LINE >> 20} MiB", address[:EXCERPT])
    if len(record.body) > LONGEST_LINE:
        return too_long
    try:
        body = _transferred(body, http, truncated="warc-truncated" in headers)
    except (ValueError, zlib.error):
        return Rejected(where, "damaged content", address[:EXCERPT])
    except NotImplementedError:
        return Skipped("other_content_encodings")
    if len(body) > LONGEST_LINE:
        return too_long
    if _is_binary(body):
        return Skipped("binary_content")
    charset = match[1] if (match := _CHARSET.search(media)) else ""
    text = decode(body, charset, is_html=type_ in HTML).removeprefix("\ufeff")
    if text.count("\ufffd") * 100 > len(text):
        return Rejected(where, "in no known encoding", address[:EXCERPT])
    if type_ in HTML:
        if _depth(text) > DEEPEST:
            return Rejected(where, f"elements nested more than {DEEPEST:,} deep", address[:EXCERPT])
        text = extract_plain_text(text, main_content=True, list_bullets=False, alt_texts=False)
    identity = (
        headers.get("warc-trec-id")
        or headers.get("warc-record-id", "").strip("<>")
        or address
        or name
    )
    return Document(
        identity, "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))
    )


def _transferred(body: bytes, http: Headers, *, truncated: bool) -> bytes:
    """Return the content of an HTTP response as it was sent. Crawlers that unpack it may leave the
    headers as they were.

    Raises ValueError for one that ends early, unless it is marked as `truncated`.
    """
    if "chunked" in http.get("transfer-encoding", "").lower() and _CHUNK.match(body):
        body = _joined(body, truncated=truncated)
    coding = http.get("content-encoding", "").lower().removeprefix("x-")
    unpacked = body.lstrip()[:1] in {b"", b"<"} or (
        coding == "gzip" and not body.startswith(b"\x1f\x8b")
    )
    if unpacked or coding in {"", "identity"}:
        return body
    if coding not in {"gzip", "deflate"}:
        raise NotImplementedError(coding)
    zlib_header = coding == "gzip" or (
        body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    )
    content = b""
    for _ in range(MOST_STREAMS):
        decoder = zlib.decompressobj(47 if zlib_header else -15)
        content += decoder.decompress(body, LONGEST_LINE + 1 - len(content))
        if len(content) > LONGEST_LINE:
            return content
        if not (decoder.eof or truncated):
            raise ValueError("the compressed content ends early")
        body = decoder.unused_data
        if not body.strip(b"\0\r\n"):
            return content
    raise ValueError("the compressed content has too many streams")


def _joined(body: bytes, *, truncated: bool) -> bytes:
    """Return the chunks of a body. Raise ValueError for a size that is none, or for a cut one."""
    chunks = list[bytes]()
    place = 0
    while place < len(body):
        size = _CHUNK.match(body, place)
        if not size:
            raise ValueError(f"no size of a chunk at byte {place}")
        length = int(size[1], 16)
        if not length:
            return b"".join(chunks)
        chunks.append(body[size.end() : size.end() + length])
        place = size.end() + length + 2
    if not truncated:
        raise ValueError("the last chunk is missing")
    return b"".join(chunks)


def _is_binary(body: bytes) -> bool:
    """Return whether bytes aren't text, whatever is declared: a PDF, or control characters that
    aren't UTF-16.
    """
    start = body[:LOOK]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    controls = len(start) - len(start.translate(None, CONTROLS)) - start.count(0)
    # every second byte: UTF-16
    even = max(start[::2].count(0), start[1::2].count(0)) * 4 > len(start)
    return (
        start.startswith(b"%PDF-")
        or controls * 20 > len(start)
        or (start.count(0) * 20 > len(start) and not even)
    )


def decode(body: bytes, declared: str, *, is_html: bool) -> str:
    """Return bytes as text: as UTF-8 if they are valid, else in the encoding that the server or the
    page declares if it fits, else in a guessed one. Windows-1252 fits nearly all bytes, and servers
    declare it without knowing, so signs of East Asian text take precedence.
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    # of UTF-16 and ISO-2022-JP, which would otherwise be ASCII
    if b"\0" not in body and b"\x1b$" not in body:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    looks = detect_encoding(body) or "cp1252"
    for label in (declared, (detect_encoding(body, from_html_meta=True) or "") if is_html else ""):
        encoding = map_encoding_to_html5(label, False) if label else None
        if encoding in {None, "utf-8"} or (encoding == "cp1252" and looks in EAST_ASIAN):
            continue
        try:
            return body.decode(WIDER.get(encoding, encoding))
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode(WIDER.get(looks, looks), "replace")


def _depth(page: str) -> int:
    deepest = depth = 0
    for tag in _NESTED.finditer(page):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest
