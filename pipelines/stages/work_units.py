"""Units of work that survive a kill: each leaves a finished folder, and a second run does only what
is missing.

A unit's folder carries its own manifest: the hash of every file, the fingerprint of the settings
and the input that it was made of, and the version of the code. So it may as well be made on another
machine: by a Dask cluster, where one is named. A run of units is named by that fingerprint
(electra/storage/run_dir.py), and continues under changed code.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from electra.files import LOCK, atomic_folder, remove, sweep
from electra.storage import manifest
from electra.storage.manifest import write_manifest
from electra.workers import run_units, worker_count
from pipelines.stages import dask_cluster
from pipelines.stages.progress_bar import ProgressBar

Job = TypeVar("Job")
Counts = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """What the bar shows of units: their sizes in bytes (1 each where unknown), and one of their
    counts.
    """

    title: str
    sizes: Sequence[int]
    count: str


@dataclass(frozen=True)
class MadeOf:
    """The digest of the settings and the input that units are made of, and the version of the code
    that makes them.
    """

    fingerprint: str
    code: str


def finish_units(
    work: Path,
    made: MadeOf,
    function: Callable[[Job, Path], Counts],
    jobs: Sequence[Job],
    shown: Shown,
) -> list[Counts]:
    """Call `function(job, folder)` for every job whose folder `work`/unit-NNNNN is not
    finished, and return all counts.

    `function` writes its files into an empty folder and returns JSON values. The caller holds
    the work folder's lock. Units are made by this machine's processes, or by the cluster of
    ELECTRA_DASK.
    """
    sweep(work, ".*")
    folders = [work / f"unit-{index:05d}" for index in range(len(jobs))]
    results = [finished(folder, made.fingerprint) for folder in folders]
    todo = [index for index, counts in enumerate(results) if counts is None]
    others = sum(counts["code"] != made.code for counts in results if counts)
    if others:
        fact = f"{others:,} of {len(jobs):,} units were made before the code changed, and are used"
        print(f"{shown.title}: {fact}; `--restart` makes all again", file=sys.stderr, flush=True)
    tasks = [(function, jobs[index], folders[index], made) for index in todo]
    address = os.environ.get(dask_cluster.VARIABLE, "") if todo else ""
    if address:
        finishing = dask_cluster.run_units(_finish, tasks, address, work / LOCK)
    else:
        finishing = run_units(_finish, tasks, worker_count())
    sizes = shown.sizes
    done = sum(size for size, counts in zip(sizes, results, strict=True) if counts is not None)
    with ProgressBar(
        shown.title, sum(sizes), "bytes" if sum(sizes) > len(sizes) else "shards"
    ) as progress:
        progress.update(done)
        total = sum(counts.get(shown.count, 0) for counts in results if counts)
        for position, result in finishing:
            results[todo[position]] = result
            done += sizes[todo[position]]
            total += result.get(shown.count, 0)
            progress.update(done, **{shown.count: total})
    return [counts for counts in results if counts is not None]


def finish_unit(folder: Path, made: MadeOf, make: Callable[[Path], Counts]) -> Counts:
    """Return the counts of a unit and its `code`, after `make(folder)` unless it is finished."""
    counts = finished(folder, made.fingerprint)
    if counts is None:
        with atomic_folder(folder) as temporary:
            counts = make(temporary) | {"code": made.code}
            write_manifest(temporary, kind="unit", fingerprint=made.fingerprint, counts=counts)
    return counts


def mixed_code(counts: Sequence[Counts]) -> dict[str, list[str]]:
    """Return the digests of the code that made some units under `code`, where there are several."""
    versions = sorted({unit["code"] for unit in counts})
    return {"code": versions} if len(versions) > 1 else {}


def finished(folder: Path, fingerprint: str) -> Counts | None:
    """Return the counts of a whole unit of this fingerprint, and remove a damaged one.

    That loses nothing: a unit is a copy of a part of the input in another form, on its way into the
    stage's output, and the same command makes it again.
    """
    whole = manifest.finished(folder, fingerprint)
    if whole is None:
        remove(folder)
        return None
    counts: Counts = whole["counts"]
    return counts


def _finish(task: tuple[Callable[[Any, Path], Counts], Any, Path, MadeOf]) -> Counts:
    function, job, folder, made = task
    return finish_unit(folder, made, functools.partial(function, job))
