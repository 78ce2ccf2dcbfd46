"""Rows from a cold disk: milliseconds and bytes read for a batch, with and without advice to the system.

    python benchmarks/rows.py                # two minutes; writes 2 GB and deletes it

Arms: `plain`, no advice; `random`, rows are read here and there; `prefetched`, and the next batch's are asked for while
a step computes (a pause of --step milliseconds stands for it). Arms take turns, round by round; the file's pages are
dropped from memory before each turn (posix_fadvise), and so is what the arm before has left. Milliseconds are what a
batch takes beside the pause; bytes are what the process had the disk read (/proc/self/io).
"""

import mmap
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.harness import arguments, in_turns, provenance, spread, write_record
from electra.data.order import row_indices
from electra.data.shards import PIECE_ROWS, prefetch, read_at_random


def written(path: Path, rows: int, length: int) -> None:
    """A table of random ids on the disk."""
    numbers = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(rows // PIECE_ROWS):
            file.write(numbers.integers(0, 30_522, (PIECE_ROWS, length), np.uint16).data)
        os.fsync(file.fileno())


def dropped(path: Path) -> None:
    """Let the system forget the file's pages."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes() -> int:
    """What this process has had disks read."""
    return int(Path("/proc/self/io").read_text().partition("\nread_bytes:")[2].split()[0])


def turn(path: Path, arm: str, options: Any) -> dict[str, float]:
    """Some batches from a cold file: the median's milliseconds, the first one's, and bytes read for each."""
    dropped(path)
    table = np.memmap(path, np.uint16, "r", shape=(path.stat().st_size // 2 // options.length, options.length))
    if arm != "plain":
        read_at_random(table)
    took, before = [], read_bytes()
    for number in range(options.batches):
        begun = time.perf_counter()
        table[row_indices(1, number, options.batch, len(table))].sum()
        if arm == "prefetched":
            prefetch(table, row_indices(1, number + 1, options.batch, len(table)))
        took.append(1e3 * (time.perf_counter() - begun))
        time.sleep(options.step / 1e3)
    found = {"milliseconds": float(np.median(took)), "first milliseconds": took[0]}
    return found | {"bytes": (read_bytes() - before) / options.batches}


def main() -> None:
    parse = arguments(__doc__, "rows.json")
    parse.add_argument("--folder", type=Path, help="on the disk to measure (default: the system's for temporary files)")
    parse.add_argument("--gigabytes", type=float, default=2.0)
    parse.add_argument("--length", type=int, default=128)
    parse.add_argument("--batch", type=int, default=128)
    parse.add_argument("--batches", type=int, default=20)
    parse.add_argument("--step", type=float, default=10.0, help="milliseconds that a step computes")
    parse.add_argument("--rounds", type=int, default=5)
    options = parse.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows"
        written(path, int(options.gigabytes * 1e9 / 2 / options.length), options.length)
        arms = {arm: (lambda arm=arm: turn(path, arm, options)) for arm in ("plain", "random", "prefetched")}
        found = in_turns(arms, options.rounds)
    arms_of = {arm: {key: spread([turn[key] for turn in turns]) for key in turns[0]} for arm, turns in found.items()}
    shape = {key: getattr(options, key) for key in ("gigabytes", "length", "batch", "batches", "step", "rounds")}
    own = {"bytes of a batch": 2 * options.batch * options.length, "page": mmap.PAGESIZE}
    write_record(options.output, {"settings": shape | own, "arms": arms_of}, provenance("numpy"))


if __name__ == "__main__":
    main()
