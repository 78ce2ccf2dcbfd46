"""Rows on disk: flat little-endian arrays, memory-mapped, with a manifest of dtype, shape, hashes
and tokenizer.

rows-<L>/train-00000.ids      [N, L]  token ids, padded with pad_id; uint16, or uint32 for
                                      vocabularies above 65,536
rows-<L>/train-00000.bounds   [N, 2]  start of segment B (= total where there is none) and total of
                                      real tokens; uint16
rows-<L>/valid-00000.*                the same for the held-out documents
rows-<L>/MANIFEST.json                size and sha256 of each file, and the fields that `seal` adds
"""

import mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import write_errors
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
        self, ids: Path, bounds: Path, rows: int, chosen: NDArray[np.int64] | None = None
    ) -> None:
        """Append `rows` rows from the two files of another writer, or only the chosen ones, a few
        MB at a time.
        """
        if not rows:  # an empty file cannot be mapped
            return
        ids_NL = np.memmap(ids, dtype=self.tokenizer.dtype, mode="r", shape=(rows, self.length))
        bounds_N2 = np.memmap(bounds, dtype=BOUNDS, mode="r", shape=(rows, 2))
        numbers = np.arange(rows) if chosen is None else chosen
        for start in range(0, len(numbers), PIECE_ROWS):
            piece = numbers[start : start + PIECE_ROWS]
            self.write(ids_NL[piece], bounds_N2[piece])


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


class Rows:
    """The rows of one split, verified and memory-mapped.

    `ids` [N, L] and `bounds` [N, 2] are read-only. `length` is L, `tokens` counts the real ones in
    all rows, and `digest` is the sha256 of the ids.
    """

    def __init__(
        self, ids_NL: NDArray[Any], bounds_N2: NDArray[Any], manifest: dict[str, Any], split: str
    ) -> None:
        self.ids = ids_NL
        self.bounds = bounds_N2
        self.length: int = manifest["length"]
        self.tokens: int = manifest["splits"][split]["tokens"]
        self.digest: str = manifest["files"][f"{split}-00000.ids"]["sha256"]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def open(cls, folder: Path, split: str, *, tokenizer: str | None = None) -> Self:
        """Map a split's rows after checking every byte; `tokenizer` is the identity of the
        tokenizer that must have made them.

        Raises CorruptFile for damage and BadInput for rows of another tokenizer or an empty split.
        """
        ids, bounds = shard_paths(folder, split)
        names = [ids.name, bounds.name]
        manifest = verify_manifest(folder, only=names, do=REBUILD_ADVICE, kind="rows")
        if tokenizer is not None and manifest["tokenizer"] != tokenizer:
            other = f"{manifest['tokenizer'][:12]}… instead of {tokenizer[:12]}…"
            raise BadInput(f"{folder}: was made with tokenizer {other}; {REBUILD_ADVICE}")
        rows = manifest["splits"][split]["rows"]
        if rows == 0:
            raise BadInput(f"{folder}: has no {split} rows; use a larger corpus")
        shape = (rows, manifest["length"])
        return cls(
            np.memmap(ids, dtype=np.dtype(manifest["dtype"]), mode="r", shape=shape),
            np.memmap(bounds, dtype=BOUNDS, mode="r", shape=(rows, 2)),
            manifest,
            split,
        )


def read_at_random(table: NDArray[Any]) -> None:
    """Tell the system that rows of a memory-mapped table will be read in random order.

    Otherwise the system reads the 128 KB around every row: some 4,000 times a batch's own bytes.
    Nothing is done for a table that is in memory.
    """
    base: object = table.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_RANDOM)


def prefetch(table: NDArray[Any], indices: NDArray[np.int64]) -> None:
    """Let the system read these rows of a memory-mapped table from the disk while this process
    works.
    """
    base: object = table.base
    if not isinstance(base, mmap.mmap):
        return
    page = mmap.PAGESIZE
    starts = indices * table.strides[0]
    spans = np.unique(
        np.stack([starts // page * page, (starts + table.strides[0] - 1) // page * page], 1), axis=0
    )
    for first, last in spans.tolist():
        base.madvise(mmap.MADV_WILLNEED, first, last + page - first)  # or to its end
