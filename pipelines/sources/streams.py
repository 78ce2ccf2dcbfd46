"""Bytes of files, plain or compressed, line by line in bounded memory; damage and change under the reader are errors.

A file that expands to many times its size (a decompression bomb) and one that is an archive of other files are refused:
nothing is ever unpacked to disk. Lines are UTF-8: UTF-16 and UTF-32 are decoded where a byte order mark tells them, and
refused where only their NULs do.
"""

import codecs
import contextlib
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from electra.errors import BadInput, SourceUnreachable

COMPRESSIONS = (".gz", ".xz", ".zst")
LONGEST_LINE = 16 << 20  # bytes; a longer line is no text, it is quarantined unread
EXPANSION = 250  # times a compressed file's size: text reaches some 10, and what is above is a bomb
SMALL = 64 << 20  # bytes that any file may expand to
ARCHIVES = {b"BZh91AY&SY": "bzip2", b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar"}
PACKED = {
    b"\x1f\x8b": ".gz",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"BZh": "a known suffix (bzip2 is none)",
}
MARKS = {  # the longer first: UTF-32's begins as UTF-16's does
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
LOOK = 4096  # bytes that tell what a file is
PIECE = 1 << 20
AGAIN = "get the file again"


def plain_suffix(path: Path) -> str:
    """The suffix below the compression's: .jsonl for wiki.jsonl.xz."""
    return (Path(path.stem) if path.suffix in COMPRESSIONS else path).suffix.lower()


@dataclass(frozen=True)
class Piece:
    """A file, or the range of its bytes from `start` to `end` (None: all) whose first line has number `line`.

    For a parquet file both are row groups, and `line` is a row. `sha256` is that of the whole file, `stamp` its size
    and modification time when the piece was planned (None: now), `size` the stored bytes of the piece.
    """

    path: Path
    start: int = 0
    end: int | None = None
    line: int = 1
    sha256: str = ""
    stamp: tuple[int, int] | None = None
    size: int = 0


def stamp(path: Path) -> tuple[int, int]:
    """What a change of a file changes."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@contextlib.contextmanager
def standing_still(piece: Piece) -> Iterator[None]:
    """Raise SourceUnreachable when the file is not there, BadInput when it is a folder or changes within the block."""
    path = piece.path
    try:
        before = piece.stamp or stamp(path)
        yield
        after = stamp(path)
    except FileNotFoundError:
        raise SourceUnreachable(path, "there is no such file") from None
    except IsADirectoryError:
        raise BadInput(path, "is a folder", "a file") from None
    except OSError as error:
        if error.errno is None:  # a library's own: damage
            raise
        raise SourceUnreachable(path, f"cannot be read ({error.strerror})") from None
    if before != after:
        raise BadInput(path, "changed while it was read", "a file that stands still", "run the same command again")


def read_lines(piece: Piece) -> Iterator[tuple[int, bytes | None]]:
    """Yield (line number from 1, bytes without the line's end), or None for a line longer than LONGEST_LINE.

    Raises SourceUnreachable when the file is not there, BadInput when it cannot be decompressed to its end, expands
    without measure, is an archive, is of an encoding that nothing declares, or changes while it is read.
    """
    path = piece.path
    with standing_still(piece):
        try:
            if not piece.start:
                refuse_strangers(first_bytes(path, LOOK), path)
            with _open(path) as stream:
                yield from _lines(stream, piece)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise BadInput(path, f"is damaged or cut short ({error})", f"a whole {path.suffix} file", AGAIN) from None


def read_stream(stream: IO[bytes], name: str) -> Iterator[tuple[int, bytes | None]]:
    """The same of what can be read only once: standard input, a pipe."""
    first = stream.readline(LOOK)
    refuse_strangers(first, Path(name))
    yield from _lines(io.BufferedReader(_Joined(first, stream), PIECE), Piece(Path(name)))


def refuse_strangers(start: bytes, path: Path) -> None:
    """What is no text as it stands (other files, compression, UTF-16) would be read as lines of noise."""
    for magic, name in ARCHIVES.items():
        if start.startswith(magic):
            raise BadInput(path, f"is a {name} file", "text", "unpack it, or give it the suffix of its format")
    if start[257:262] == b"ustar":
        raise BadInput(path, "is a tar archive", "text", "unpack it first; nothing is ever unpacked here")
    if path.suffix not in COMPRESSIONS:
        for magic, suffix in PACKED.items():
            if start.startswith(magic):
                raise BadInput(path, "is compressed, but its name does not say so", "plain text", f"give it {suffix}")
    if encoding := unmarked(start):
        do = "convert it to UTF-8, or put a byte order mark in front"
        raise BadInput(path, f"holds NUL bytes as {encoding} without a byte order mark does", "UTF-8 text", do)


def mark_of(start: bytes) -> str:
    """The encoding that a byte order mark declares, "" if it is UTF-8's or there is none."""
    return next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "")


def unmarked(start: bytes) -> str:
    """UTF-16 or UTF-32 that no mark declares, by where its NULs stand; "" for anything else.

    UTF-32 has a NUL at the same end of each four bytes, and mostly a second one beside it. In UTF-16 of any script some
    characters (spaces, line ends) have one at the same end of their two bytes, and none has one at the other; where
    they are few, the rest must be no plain text either.
    """
    start = start[: len(start) // 4 * 4 or len(start)]
    if mark_of(start) or not start.strip(b"\0"):
        return ""
    for encoding, (end, beside) in {"UTF-32-LE": (3, 2), "UTF-32-BE": (0, 1)}.items():
        top, next_to_it = start[end::4], start[beside::4]
        if next_to_it and not top.strip(b"\0") and next_to_it.count(0) * 2 >= len(next_to_it):
            return encoding
    even, odd = start[::2].count(0), start[1::2].count(0)
    for encoding, (here, there) in {"UTF-16-LE": (odd, even), "UTF-16-BE": (even, odd)}.items():
        few = here * 12 < len(start)
        if there == 0 and here >= 2 and not (few and (here * 100 < len(start) or _is_plain(start))):
            return encoding
    return ""


def _is_plain(start: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return not re.search("[\x01-\x08\x0e-\x1f]", text)


def first_bytes(path: Path, count: int = 64) -> bytes:
    """The first bytes of the (decompressed) content, "" if there are none or they cannot be read."""
    try:
        with _open(path) as stream:
            return stream.read(count)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return b""


def _lines(stream: IO[bytes], piece: Piece) -> Iterator[tuple[int, bytes | None]]:
    if piece.start:
        stream.seek(piece.start)
    left = sys.maxsize if piece.end is None else piece.end - piece.start
    if compressed := piece.path.suffix in COMPRESSIONS:
        left = max(SMALL, EXPANSION * piece.path.stat().st_size)
    number = piece.line - 1
    while left > 0 and (line := stream.readline(LONGEST_LINE + 1)):
        if number == 0 and (encoding := mark_of(line)):
            stream = io.BufferedReader(_Recoded(_Joined(line, stream), encoding, piece.path), PIECE)
            line = stream.readline(LONGEST_LINE + 1)
        number += 1
        left -= len(line)
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            while left > 0 and (rest := stream.readline(PIECE)):
                left -= len(rest)
                if rest.endswith(b"\n"):
                    break
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")
    if compressed and left <= 0 and stream.read(1):
        size = piece.path.stat().st_size
        found = f"expands to more than {max(SMALL, EXPANSION * size):,} bytes from {size:,}"
        raise BadInput(piece.path, found, "text, which shrinks to a tenth or so", "leave this file out")


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdFile(path), PIECE)
    return path.open("rb", PIECE)


class _Joined(io.RawIOBase):
    """A stream with bytes that were read of it put back in front."""

    def __init__(self, front: bytes, stream: IO[bytes]) -> None:
        self._front, self._stream = front, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        some = self._front[: len(buffer)] or self._more(len(buffer))
        self._front = self._front[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)

    def _more(self, count: int) -> bytes:
        read1 = getattr(self._stream, "read1", self._stream.read)  # what is there, without waiting for all of it
        return bytes(read1(count))


class _Recoded(io.RawIOBase):
    """UTF-16 or UTF-32 as UTF-8. A lone surrogate stays one, so that its line alone is refused as no UTF-8."""

    def __init__(self, stream: io.RawIOBase, encoding: str, path: Path) -> None:
        self._stream, self._path, self._encoding = stream, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._ready, self._ended = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            raw = self._stream.read(PIECE) or b""
            self._ended = not raw
            try:
                text = self._decoder.decode(raw, final=self._ended)
            except UnicodeDecodeError as error:
                found = f"is not {self._encoding.upper()}, as its byte order mark says ({error.reason})"
                raise BadInput(self._path, found, "text of one encoding", AGAIN) from None
            self._ready = text.encode("utf-8", "surrogatepass")
        some, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


class _ZstdFile(io.RawIOBase):
    """The content of a .zst file; unlike the library's own reader it notices a file cut short."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self._library, self._file = zstandard, path.open("rb")
        self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 30).decompressobj()
        self._ready, self._begun = b"", False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            # small pieces: a piece may decompress to many times its size
            compressed = (self._frame.unused_data if self._frame.eof else b"") or self._file.read(1 << 14)
            if not compressed:
                if self._begun and not self._frame.eof:
                    raise EOFError("Compressed file ended before the end of the stream was reached")
                return 0
            if self._frame.eof:
                self._frame = self._library.ZstdDecompressor(max_window_size=1 << 30).decompressobj()
            self._begun = True
            try:
                self._ready = self._frame.decompress(compressed)
            except self._library.ZstdError as error:
                raise EOFError(str(error)) from None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
