"""Find the keys that occur for the first time, in memory that does not grow with their number.

Keys (64-bit hashes of documents or paragraphs) are dealt by their leading bits into buckets on
disk, each small enough to be sorted in memory; the repetitions in a bucket are kept on disk, too,
as sorted positions. Among a billion different texts the chance that any two share a hash, so that
one is dropped wrongly, is below three in a hundred.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.files import remove

BUCKET = 1 << 22  # records sorted at once: some 200 MB
RECORD = np.dtype([("key", "<u8"), ("position", "<u8")])


class FirstOccurrences:
    """`keep(start, count)` says which of the keys at positions start … start + count - 1 occur
    there first.

    `arrays` are the keys in order, `total` is their number, `scratch` a folder for the buckets.
    """

    def __init__(self, arrays: Iterable[NDArray[np.uint64]], total: int, scratch: Path) -> None:
        remove(scratch)
        scratch.mkdir(parents=True)
        buckets = max(1, -(-total // (BUCKET // 2)))
        files = [scratch / f"bucket-{number:05d}" for number in range(buckets)]
        start = 0
        for keys in arrays:
            records = np.empty(len(keys), RECORD)
            records["key"] = keys
            records["position"] = np.arange(start, start + len(keys))
            start += len(keys)
            bucket = (keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(buckets + 1, dtype=np.uint64))
            for file, first, last in zip(files, ends[:-1], ends[1:], strict=True):
                if first < last:
                    with file.open("ab") as target:
                        target.write(records[order[first:last]].tobytes())
        assert start == total, (start, total)
        self._repeated = [_repeated(file) for file in files if file.exists()]

    def keep(self, start: int, count: int) -> NDArray[np.bool_]:
        """Return which of `count` keys from position `start` on occur for the first time."""
        kept = np.ones(count, dtype=np.bool_)
        for positions in self._repeated:
            first, last = np.searchsorted(
                positions, np.array([start, start + count], dtype=np.uint64)
            )
            kept[(positions[first:last] - np.uint64(start)).astype(np.int64)] = False
        return kept


def _repeated(file: Path) -> NDArray[Any]:
    """Return the positions of a bucket's records, sorted, but for the first of each key. They
    replace the bucket on disk.
    """
    records = np.fromfile(file, RECORD)
    order = np.argsort(records["key"], kind="stable")
    keys = records["key"][order]
    positions = np.sort(records["position"][order][1:][keys[1:] == keys[:-1]])
    if not len(positions):  # an empty file cannot be mapped
        return positions
    file.write_bytes(positions.data)
    return np.memmap(file, dtype="<u8", mode="r")
