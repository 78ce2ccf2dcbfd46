"""Rows on disk: flat little-endian arrays with a manifest of dtype, shape, hashes and tokenizer.

rows-<L>/train-00000.ids      [N, L]  token ids, padded with pad_id; uint16, or uint32 for
                                      vocabularies above 65,536
rows-<L>/train-00000.bounds   [N, 2]  start of segment B (= total where there is none) and total of
                                      real tokens; uint16
rows-<L>/valid-00000.*                the same for the held-out documents
rows-<L>/MANIFEST.json                size and sha256 of each file, and the fields that `seal` adds
"""

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput, CorruptFile
from electra.files import read_errors, write_errors
from electra.storage.manifest import verify_manifest, write_manifest

SPLITS = ("train", "valid")
BOUNDS = np.dtype("<u2")
LONGEST = 65_535  # tokens a row may have: bounds are uint16
PIECE_ROWS = 16_384
REBUILD_ADVICE = "run the tokens stage again"


def shard_paths(folder: Path, split: str) -> tuple[Path, Path]:
    """Return the .ids and .bounds files of a split."""
    return folder / f"{split}-00000.ids", folder / f"{split}-00000.bounds"


class RowWriter:
    """Appends rows to the two files of a split; `rows` and `tokens` count those written."""

    def __init__(self, folder: Path, split: str, length: int, tokenizer: Tokenizer) -> None:
        self.length = length
        self.tokenizer = tokenizer
        self.rows = self.tokens = 0
        self._paths = shard_paths(folder, split)

    def __enter__(self) -> Self:
        self._ids, self._bounds = (path.open("wb") for path in self._paths)
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()
        self._bounds.close()

    def write(self, ids_NL: NDArray[Any], bounds_N2: NDArray[Any]) -> None:
        """Append rows; shapes [N, L] and [N, 2]."""
        assert ids_NL.shape == (len(bounds_N2), self.length) and bounds_N2.shape[1:] == (2,)
        if not len(ids_NL):
            return
        assert int(ids_NL.max()) < self.tokenizer.vocab_size, "an id beyond the vocabulary"
        with write_errors(self._paths[0]):
            self._ids.write(np.ascontiguousarray(ids_NL, dtype=self.tokenizer.dtype).data)
            self._bounds.write(np.ascontiguousarray(bounds_N2, dtype=BOUNDS).data)
        self.rows += len(ids_NL)
        self.tokens += int(bounds_N2[:, 1].sum(dtype=np.int64))

    def append_files(
        self, ids: Path, bounds: Path, chosen_N: NDArray[np.bool_] | None = None
    ) -> None:
        """Append the rows of the two files of another writer, or only the chosen ones, a few MB at
        a time.
        """
        ids_NL = Table(ids, self.tokenizer.dtype, self.length)
        bounds_N2 = Table(bounds, BOUNDS, 2)
        for start in range(0, len(ids_NL), PIECE_ROWS):
            piece = slice(start, start + PIECE_ROWS)
            kept = slice(None) if chosen_N is None else chosen_N[piece]
            self.write(ids_NL[piece][kept], bounds_N2[piece][kept])


def seal(
    folder: Path, length: int, tokenizer: Tokenizer, splits: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """Write the manifest of finished rows; `splits` gives rows and tokens of each. Returns the
    manifest.
    """
    return write_manifest(
        folder,
        kind="rows",
        length=length,
        dtype=tokenizer.dtype.str,
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        tokenizer=tokenizer.identity,
        splits=splits,
    )


class Table:
    """A file of rows, [N, L], which are read when they are indexed.

    A memory map would end the process with a bus error once the file is cut or the disk fails.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], length: int) -> None:
        self.path = path
        self.dtype = dtype
        self._row_bytes = length * dtype.itemsize
        self.shape = (path.stat().st_size // self._row_bytes, length)
        self._file = path.open("rb", buffering=0)
        # else the system reads the 128 KB around every row: some 4,000 times a batch's own bytes
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        """Return a read-only copy of consecutive rows, or of the rows with these numbers.

        Raises CorruptFile if the file has been cut, and Unreadable if the disk fails.
        """
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            spans = [(first, last - first)]
        else:
            spans = [(number, 1) for number in rows.tolist()]
        with read_errors(self.path, REBUILD_ADVICE):
            parts = [
                os.pread(self._file.fileno(), count * self._row_bytes, first * self._row_bytes)
                for first, count in spans
            ]
        data = b"".join(parts)
        if len(data) != self._row_bytes * sum(count for _, count in spans):
            raise CorruptFile(f"{self.path}: has been cut while it was read; {REBUILD_ADVICE}")
        return np.frombuffer(data, self.dtype).reshape(-1, self.shape[1])

    def prefetch(self, rows: NDArray[np.int64]) -> None:
        """Let the system read these rows from the disk while this process works."""
        for number in rows.tolist():
            start = number * self._row_bytes
            os.posix_fadvise(self._file.fileno(), start, self._row_bytes, os.POSIX_FADV_WILLNEED)


class Rows:
    """The rows of one split, verified.

    `ids` [N, L] and `bounds` [N, 2] are in files. `length` is L, `tokens` counts the real ones in
    all rows, and `digest` is the sha256 of the ids.
    """

    def __init__(self, ids: Table, bounds: Table, manifest: dict[str, Any], split: str) -> None:
        self.ids = ids
        self.bounds = bounds
        self.length: int = manifest["length"]
        self.tokens: int = manifest["splits"][split]["tokens"]
        self.digest: str = manifest["files"][f"{split}-00000.ids"]["sha256"]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def open(cls, folder: Path, split: str, *, tokenizer: str | None = None) -> Self:
        """Open a split's rows after checking every byte; `tokenizer` is the identity of the
        tokenizer that must have made them.

        Raises CorruptFile for damage and BadInput for rows of another tokenizer or an empty split.
        """
        ids, bounds = shard_paths(folder, split)
        names = [ids.name, bounds.name]
        manifest = verify_manifest(folder, only=names, do=REBUILD_ADVICE, kind="rows")
        if tokenizer is not None and manifest["tokenizer"] != tokenizer:
            other = f"{manifest['tokenizer'][:12]}… instead of {tokenizer[:12]}…"
            raise BadInput(f"{folder}: was made with tokenizer {other}; {REBUILD_ADVICE}")
        if manifest["splits"][split]["rows"] == 0:
            raise BadInput(f"{folder}: has no {split} rows; use a larger corpus")
        ids_NL = Table(ids, np.dtype(manifest["dtype"]), manifest["length"])
        return cls(ids_NL, Table(bounds, BOUNDS, 2), manifest, split)
