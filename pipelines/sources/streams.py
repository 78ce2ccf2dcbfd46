"""Bytes of files, plain or compressed, line by line in bounded memory; damage and change under the reader are errors.

A file that expands to many times its size (a decompression bomb) and one that is an archive of other files are refused:
nothing is ever unpacked to disk.
"""

import contextlib
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
PIECE = 1 << 20
AGAIN = "get the file again"


def plain_suffix(path: Path) -> str:
    """The suffix below the compression's: .jsonl for wiki.jsonl.xz."""
    return (Path(path.stem) if path.suffix in COMPRESSIONS else path).suffix.lower()


@dataclass(frozen=True)
class Piece:
    """A file, or the range of its bytes from `start` to `end` (None: all) whose first line has number `line`.

    For a parquet file both are row groups, and `line` is a row. `sha256` is that of the whole file, `stamp` its size and
    modification time when the piece was planned (None: now), `size` the stored bytes of the piece.
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
    if before != after:
        raise BadInput(path, "changed while it was read", "a file that stands still", "run the same command again")


def read_lines(piece: Piece) -> Iterator[tuple[int, bytes | None]]:
    """Yield (line number from 1, bytes without the line's end), or None for a line longer than LONGEST_LINE.

    Raises SourceUnreachable when the file is not there, BadInput when it cannot be decompressed to its end, expands
    without measure, is an archive, or changes while it is read.
    """
    path = piece.path
    with standing_still(piece):
        try:
            if not piece.start:
                _refuse_archives(path)
            with _open(path) as stream:
                yield from _lines(stream, LONGEST_LINE, piece)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise BadInput(path, f"is damaged or cut short ({error})", f"a whole {path.suffix} file", AGAIN) from None


def _refuse_archives(path: Path) -> None:
    """A container of other files, or compression that the name hides, would be read as lines of noise."""
    start = first_bytes(path, 512)
    for magic, name in ARCHIVES.items():
        if start.startswith(magic):
            raise BadInput(path, f"is a {name} file", "text", "unpack it, or give it the suffix of its format")
    if start[257:262] == b"ustar":
        raise BadInput(path, "is a tar archive", "text", "unpack it first; nothing is ever unpacked here")
    if path.suffix not in COMPRESSIONS:
        for magic, suffix in PACKED.items():
            if start.startswith(magic):
                raise BadInput(path, "is compressed, but its name does not say so", "plain text", f"give it {suffix}")


def first_bytes(path: Path, count: int = 64) -> bytes:
    """The first bytes of the (decompressed) content, "" if there are none or they cannot be read."""
    try:
        with _open(path) as stream:
            return stream.read(count)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return b""


def _lines(stream: IO[bytes], longest: int, piece: Piece) -> Iterator[tuple[int, bytes | None]]:
    if piece.start:
        stream.seek(piece.start)
    left = sys.maxsize if piece.end is None else piece.end - piece.start
    if piece.path.suffix in COMPRESSIONS:
        left = max(SMALL, EXPANSION * piece.path.stat().st_size)
    number = piece.line - 1
    while left > 0 and (line := stream.readline(longest + 1)):
        number += 1
        left -= len(line)
        if len(line) > longest and not line.endswith(b"\n"):
            while left > 0 and (rest := stream.readline(PIECE)):
                left -= len(rest)
                if rest.endswith(b"\n"):
                    break
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")
    if piece.path.suffix in COMPRESSIONS and left <= 0 and stream.read(1):
        size = piece.path.stat().st_size
        raise BadInput(
            piece.path,
            f"expands to more than {max(SMALL, EXPANSION * size):,} bytes from {size:,}",
            "text, which shrinks to a tenth or so",
            "leave this file out",
        )


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdFile(path), PIECE)
    return path.open("rb", PIECE)


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

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
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
