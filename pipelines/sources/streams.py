"""Bytes of files, plain or compressed, line by line in bounded memory; damage and change under the
reader are errors.

All streams of a compressed file are read, and whatever follows the last one must be padding. A file
that expands to many times its size (a decompression bomb), an archive of other files, and anything
that isn't text are refused. Nothing is ever unpacked to disk. UTF-16 and UTF-32 become UTF-8 where
a byte order mark announces them, and are refused where only their NULs do.
"""

import bz2
import codecs
import contextlib
import functools
import io
import lzma
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from electra.errors import BadInput, SourceUnreachable
from pipelines.text.cleaning import Document, Rejected

DECODERS: dict[str, Callable[[], Any]] = {
    ".bz2": bz2.BZ2Decompressor,
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ".zst": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 30).decompressobj(),
}
COMPRESSIONS = tuple(DECODERS)
PADDED = (".gz", ".xz")  # formats that allow NULs between and behind streams
DAMAGE = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError)
LONGEST_LINE = 16 << 20  # bytes; a longer line or record isn't text and is quarantined unread
EXPANSION = 250  # times a compressed file's size: text reaches some 10, so more is a bomb
SMALL = 64 << 20  # bytes that any file may expand to
BINARY = "is a binary file; convert it or give it the suffix of its format"
STRANGERS = {  # first bytes of files that aren't text
    b"PK\x03\x04": "is a zip file; unpack it or give it the suffix of its format",
    b"7z\xbc\xaf\x27\x1c": "is a 7z file; unpack it or give it the suffix of its format",
    b"Rar!\x1a\x07": "is a rar file; unpack it or give it the suffix of its format",
    b"%PDF-": BINARY,
    b"PAR1": "is a parquet file; give it the suffix .parquet",
}
CONTROLS = bytes({*range(32), 127} - {*b"\t\n\f\r\x1b"})
MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2"}
MARKS = {  # the longer first: UTF-32's begins as UTF-16's does
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
LOOK = 4096  # first bytes, from which the kind of file is guessed
EXCERPT = 120  # characters of a bad line that go into the quarantine
BLOCK = 1 << 20
LONGEST_MATCH = 64  # bytes: the longest match across the seam of two blocks
COMPRESSED_BLOCK = 1 << 12  # bytes: a zstd block may expand to 30,000 times its size in one call
FETCH_ADVICE = "get the file again"
ATTRIBUTE = re.compile(r'\b(\w++)="([^"]*)"')  # of a tag


def plain_suffix(path: Path) -> str:
    """Return the suffix below the compression's: .jsonl for wiki.jsonl.xz."""
    return (Path(path.stem) if path.suffix in COMPRESSIONS else path).suffix.lower()


@dataclass(frozen=True)
class FileRange:
    """A file, or the range of its stored bytes from `start` to `end` (None: all) whose first line
    has number `line`.

    A range of a compressed file is some of its streams. For a parquet file both are row groups, and
    `line` is a row. `sha256` is that of the whole file, `stamp` its size and modification time when
    the piece was planned (None: now), `size` the stored bytes of the piece. No more than some
    `most` bytes of its lines are read (None: all).
    """

    path: Path
    start: int = 0
    end: int | None = None
    line: int = 1
    sha256: str = ""
    stamp: tuple[int, int] | None = None
    size: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A valid record without text for a corpus, such as a redirect or an image. It is counted under
    its reason.
    """

    reason: str


Item = Document | Rejected | Skipped  # the items of a source


def stamp(path: Path) -> tuple[int, int]:
    """Return the size and modification time of a file, which show whether it has changed."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@contextlib.contextmanager
def unchanged(piece: FileRange) -> Iterator[None]:
    """Raise SourceUnreachable when the file is missing, BadInput when it is a folder or a device
    (which may never end) or changes within the block.
    """
    path = piece.path
    try:
        if path.exists() and not path.is_file():
            fault = "is a folder" if path.is_dir() else "isn't a regular file"
            raise BadInput(f"{path}: {fault}; name a file")
        before = piece.stamp or stamp(path)
        yield
        after = stamp(path)
    except FileNotFoundError:
        raise SourceUnreachable(f"{path}: there is no such file") from None
    except OSError as error:
        if error.errno is None:  # a library's own: damage
            raise
        raise SourceUnreachable(f"{path}: cannot be read ({error.strerror})") from None
    if before != after:
        raise BadInput(f"{path}: changed while it was read; run the same command again")


def is_pipe(path: Path) -> bool:
    """Return whether something can be read only once."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def read_whole(path: Path) -> bytes:
    """Return the content of a file, compressed or not."""
    with damage_errors(path), unchanged(FileRange(path)), open_content(path) as stream:
        return stream.read()


@contextlib.contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn the damage that a decoder finds into BadInput."""
    try:
        yield
    except EOFError as error:
        raise BadInput(f"{path}: is damaged or cut short ({error}); {FETCH_ADVICE}") from None


def read_lines(piece: FileRange) -> Iterator[tuple[int, bytes | None]]:
    """Yield (line number from 1, bytes without the line's end), or None for a line longer than
    LONGEST_LINE.

    Raises SourceUnreachable when the file is missing, BadInput when it cannot be decompressed to
    its end, expands too far, is an archive, is in an encoding that nothing declares, or changes
    while it is read.
    """
    path = piece.path
    with unchanged(piece):
        start = b"" if piece.start else first_bytes(path)
        refuse_strangers(start, path)
        with damage_errors(path), open_content(path, piece.start, piece.end) as stream:
            yield from _lines(stream, piece, byte_order_mark(start))


def read_stream(stream: Any, name: str) -> Iterator[tuple[int, bytes | None]]:
    """Yield the numbered lines of input that can be read only once: standard input, a pipe, or any
    other binary stream.
    """
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)
    start = buffered.peek(LOOK)[:LOOK]
    refuse_strangers(start, Path(name))
    yield from _lines(buffered, FileRange(Path(name)), byte_order_mark(start))


def refuse_strangers(start: bytes, path: Path) -> None:
    """Raise BadInput for other files, compression and UTF-16, which would be read as lines of
    noise.
    """
    fault = _look_up(STRANGERS, start)
    suffix = _look_up(MAGIC, start)
    controls = len(start) - len(start.translate(None, CONTROLS))
    if suffix and path.suffix not in COMPRESSIONS:
        fault = (
            f"is compressed, but its name does not say so; unpack it or give it the suffix {suffix}"
        )
    elif start[257:262] == b"ustar":
        fault = "is a tar archive; unpack it first, nothing is ever unpacked here"
    elif not fault and not byte_order_mark(start):
        many_nuls = start.count(0) * 20 > len(start)
        if many_nuls and _is_wide(start):
            fault = (
                "holds NUL bytes as UTF-16 and UTF-32 without a byte order mark do; "
                "convert it to UTF-8, or put a byte order mark in front"
            )
        elif many_nuls or (controls * 20 > len(start) and not is_utf8(start)):
            fault = BINARY
    if fault:
        raise BadInput(f"{path}: {fault}")


def _look_up(signs: dict[bytes, str], start: bytes) -> str:
    return next((meaning for sign, meaning in signs.items() if start.startswith(sign)), "")


def _is_wide(start: bytes) -> bool:
    """Return whether NULs are where UTF-16 has them, in every second place alone, or UTF-32."""
    fewer, more = sorted((start[::2].count(0), start[1::2].count(0)))
    return fewer * 10 < more or (fewer + more) * 2 >= len(start)


def byte_order_mark(start: bytes) -> str:
    """Return the encoding that a byte order mark declares, "" if it is UTF-8's or there is none."""
    return _look_up(MARKS, start)


def is_utf8(start: bytes) -> bool:
    """Return whether this is UTF-8, perhaps cut within its last character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def first_bytes(path: Path, count: int = LOOK) -> bytes:
    """Return the first bytes of the (decompressed) content, b"" if there are none or they cannot be
    read.
    """
    try:
        with open_content(path) as stream:
            return stream.read(count)
    except (OSError, EOFError):
        return b""


def find_ends(file: IO[bytes], place: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Yield where matches of at most LONGEST_MATCH bytes end, those from byte `place` on. One on a
    seam may come twice.
    """
    file.seek(place)
    seam = b""
    while block := file.read(BLOCK):
        seam += block
        yield from (place + match.end() for match in pattern.finditer(seam))
        place += max(0, len(seam) - LONGEST_MATCH)
        seam = seam[-LONGEST_MATCH:]


def find_streams(path: Path, place: int, content: bytes) -> Iterator[int]:
    """Yield where streams of a compressed file begin, from byte `place` on, whose first bytes but
    blanks are `content`.
    """
    magic = next(magic for magic, suffix in MAGIC.items() if suffix == path.suffix)
    with path.open("rb") as file:
        for begin in find_ends(file, place, re.compile(b"(?=" + re.escape(magic) + b")")):
            with contextlib.suppress(OSError, EOFError), open_content(path, begin) as stream:
                if stream.read(LONGEST_MATCH).lstrip().startswith(content):
                    yield begin


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a file that belong together. The first has number `line`; `wrong` is their fault, or
    "".
    """

    line: int
    text: str
    lines: int  # none blank
    wrong: str

    def rejected(self, place: object, reason: str = "") -> Rejected:
        """Return the block as one row of the quarantine."""
        return Rejected(str(place), reason or self.wrong, self.text[:EXCERPT], self.lines)


def read_blocks(piece: FileRange, tag: str, encoding: str = "utf-8") -> Iterator[Block]:
    """Yield blocks of lines, each from a line that begins with <tag to the next </tag>. Lines
    between two blocks, a block that is not closed, and one that is not in the encoding or too long
    (with its beginning) are a block with a fault: one damage is one row.
    """
    opening = tuple(f"<{tag}{end}".encode() for end in " \t>")
    closing = f"</{tag}>".encode()
    kept: list[bytes] = []
    size = lines_dropped = first = 0
    inside = False

    def ended(wrong: str) -> Iterator[Block]:
        nonlocal size, lines_dropped, inside
        stored = b"\n".join(kept)
        try:
            text = stored.decode(encoding)
        except UnicodeDecodeError:
            text = stored.decode("utf-8", "backslashreplace")
            wrong = wrong or f"invalid {encoding.upper()}"
        wrong = wrong or (lines_dropped and f"longer than {LONGEST_LINE >> 20} MiB") or ""
        if lines := lines_dropped + sum(not line.isspace() for line in text.split("\n") if line):
            yield Block(first, text, lines, wrong)
        kept.clear()
        size = lines_dropped = 0
        inside = False

    for number, line in read_lines(piece):
        sign = (line or b"").strip()
        if opens := sign.startswith(opening):
            yield from ended(f"a <{tag}> without </{tag}>" if inside else f"text outside <{tag}>")
            inside = True
        if opens or not (kept or lines_dropped):
            first = number
        size += LONGEST_LINE + 1 if line is None else len(line) + 1
        if line is None or size > LONGEST_LINE:
            lines_dropped += line is None or bool(sign)
        elif kept or sign:
            kept.append(line)
        if inside and sign == closing:
            yield from ended("")
    yield from ended(f"a <{tag}> without </{tag}>" if inside else f"text outside <{tag}>")


def _lines(
    stream: io.BufferedReader, piece: FileRange, encoding: str
) -> Iterator[tuple[int, bytes | None]]:
    lines = _Recoded(stream, encoding, piece.path) if encoding else stream
    left = sys.maxsize if piece.most is None else piece.most
    if piece.end is not None and piece.path.suffix not in COMPRESSIONS:
        left = min(left, piece.end - piece.start)
    number = piece.line - 1
    while left > 0 and (line := lines.readline(LONGEST_LINE + 1)):
        number += 1
        left -= len(line)
        if len(line.removesuffix(b"\n")) > LONGEST_LINE:
            while left > 0 and not line.endswith(b"\n") and (line := lines.readline(BLOCK)):
                left -= len(line)
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def open_content(path: Path, start: int = 0, end: int | None = None) -> io.BufferedReader:
    """Return the content of a file from its stored byte `start`. That of a compressed one ends with
    its stored byte `end`.
    """
    if path.suffix in COMPRESSIONS:
        return io.BufferedReader(_Decompressed(path, start, end), BLOCK)
    file = path.open("rb", 0)
    file.seek(start)
    return io.BufferedReader(file, BLOCK)


def decompress_with_fsspec() -> None:
    """Let fsspec, and so `datasets`, read compressed files as `open_content` does. Its own readers
    take a .zst that is cut off for an empty one.
    """
    from fsspec.compression import register_compression

    def open_file(suffix: str, file: Any, **_: Any) -> io.BufferedReader:
        path = Path(f"{str(file.path).removesuffix(suffix)}{suffix}")
        return io.BufferedReader(_Decompressed(path, file=file), BLOCK)

    for suffix, name in zip(COMPRESSIONS, ("bz2", "gzip", "xz", "zstd"), strict=True):
        opener = functools.partial(open_file, suffix)
        register_compression(name, opener, suffix[1:], force=True)


class _Recoded:
    """Lines of UTF-16 or UTF-32 as UTF-8. A lone surrogate is kept, so that only its line is
    rejected as invalid UTF-8.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str, path: Path) -> None:
        self._text = io.TextIOWrapper(stream, encoding, "surrogatepass", newline="\n")
        self._path = path

    def readline(self, size: int) -> bytes:
        try:
            return self._text.readline(size).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise BadInput(
                f"{self._path}: is not {self._text.encoding.upper()}, as its byte order mark says "
                f"({error.reason}); {FETCH_ADVICE}"
            ) from None


class _Decompressed(io.RawIOBase):
    """The content of a compressed file: all its streams, one after the other; EOFError for anything
    else in it. The libraries' own readers stop in silence at a later stream that is damaged. Raises
    BadInput when it expands too far. `stream_start` is where the stream that was read last begins.
    """

    def __init__(
        self, path: Path, start: int = 0, end: int | None = None, file: IO[bytes] | None = None
    ) -> None:
        self._path = path
        self._file = file or path.open("rb")
        self._end = self._file.seek(0, io.SEEK_END) if end is None else end
        self.stream_start = self._file.seek(start)
        self._size = self._end - start
        self._most = self._left = max(SMALL, EXPANSION * self._size)
        self._stream = DECODERS[path.suffix]()
        self._ready = b""
        # the other decoders expand less, or have none
        self._limit = (BLOCK,) if path.suffix in (".bz2", ".xz") else ()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            compressed = b""
            if self._stream.eof:
                if not (compressed := self._next_stream()):
                    return 0
                self._stream = DECODERS[self._path.suffix]()
            elif getattr(self._stream, "needs_input", True) and not (compressed := self._stored()):
                raise EOFError("it ends in the middle of a stream")
            try:
                self._ready = self._stream.decompress(compressed, *self._limit)
            except DAMAGE as error:
                raise EOFError(str(error)) from None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self._left -= count
        if self._left < 0:
            raise BadInput(
                f"{self._path}: expands to more than {self._most:,} bytes from {self._size:,}, "
                "as no text does; leave this file out"
            )
        return count

    def _stored(self) -> bytes:
        return self._file.read(min(COMPRESSED_BLOCK, self._end - self._file.tell()))

    def _next_stream(self) -> bytes:
        """Return the first bytes of the stream that follows, b"" at the end of the file."""
        compressed: bytes = self._stream.unused_data or self._stored()
        while (
            compressed
            and self._path.suffix in PADDED
            and not (compressed := compressed.lstrip(b"\0"))
        ):
            compressed = self._stored()
        self.stream_start = self._file.tell() - len(compressed)
        return compressed
