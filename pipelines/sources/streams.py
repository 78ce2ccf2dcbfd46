"""Bytes of files, plain or compressed, line by line in bounded memory; damage and change under the reader are errors."""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from electra.errors import BadInput, SourceUnreachable

COMPRESSIONS = (".gz", ".xz", ".zst")
LONGEST_LINE = 64 << 20  # bytes; a longer line is no text, it is quarantined unread
PIECE = 1 << 20
AGAIN = "get the file again"


def plain_suffix(path: Path) -> str:
    """The suffix below the compression's: .jsonl for wiki.jsonl.xz."""
    return (Path(path.stem) if path.suffix in COMPRESSIONS else path).suffix.lower()


def read_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield (line number from 1, bytes without the line's end), or None for a line longer than LONGEST_LINE.

    Raises SourceUnreachable when the file is not there, BadInput when it cannot be decompressed to its end or changes
    while it is read.
    """
    try:
        before = path.stat()
        with _open(path) as stream:
            yield from _lines(stream, LONGEST_LINE)
        after = path.stat()
    except FileNotFoundError:
        raise SourceUnreachable(path, "there is no such file") from None
    except IsADirectoryError:
        raise BadInput(path, "is a folder", "a file") from None
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(path, f"is damaged or cut short ({error})", f"a whole {path.suffix} file", AGAIN) from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise BadInput(path, "changed while it was read", "a file that stands still", "run the same command again")


def first_bytes(path: Path, count: int = 64) -> bytes:
    """The first bytes of the (decompressed) content, "" if there are none or they cannot be read."""
    try:
        with _open(path) as stream:
            return stream.read(count)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return b""


def _lines(stream: IO[bytes], longest: int) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            while (rest := stream.readline(PIECE)) and not rest.endswith(b"\n"):
                pass
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


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
