"""Units of work that survive a kill: each leaves a finished folder, and a second run makes only the
missing ones.

A unit's folder carries its own manifest: the hash of every file, the fingerprint of the settings
and the input that it was made from, and the version of the code. So it can also be made on another
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

from electra.files import LOCK, atomic_folder, sweep
from electra.storage import manifest
from electra.storage.manifest import write_manifest
from electra.workers import run_units, worker_count
from pipelines.stages import dask_cluster
from pipelines.stages.progress_bar import ProgressBar

Job = TypeVar("Job")
Counts = dict[str, Any]


@dataclass(frozen=True)
class UnitKey:
    """The digest of the settings and the input that units are made from, and the version of the
    code that makes them.
    """

    fingerprint: str
    code: str


def finish_units(
    work: Path,
    key: UnitKey,
    function: Callable[[Job, Path], Counts],
    jobs: Sequence[Job],
    title: str,
    shown: str,
) -> list[Counts]:
    """Call `function(job, folder)` for every job whose folder `work`/unit-NNNNN is not
    finished, and return all counts.

    `function` writes its files into an empty folder and returns JSON values, of which the bar
    shows `shown`. The caller holds the work folder's lock. Units are made by this machine's
    processes, or by the cluster of ELECTRA_DASK.
    """
    sweep(work, ".*")
    folders = [work / f"unit-{index:05d}" for index in range(len(jobs))]
    finished: dict[Path, Counts] = {}
    for folder in folders:
        counts = read_counts(folder, key.fingerprint)
        if counts is not None:
            finished[folder] = counts
    others = sum(counts["code"] != key.code for counts in finished.values())
    if others:
        print(
            f"{title}: {others:,} of {len(jobs):,} units were made before the code changed, "
            "and are used; `--restart` makes all again",
            file=sys.stderr,
            flush=True,
        )
    tasks = [
        (function, job, folder, key)
        for job, folder in zip(jobs, folders, strict=True)
        if folder not in finished
    ]
    address = os.environ.get(dask_cluster.VARIABLE, "") if tasks else ""
    if address:
        finishing = dask_cluster.run_units(_finish, tasks, address, work / LOCK)
    else:
        finishing = run_units(_finish, tasks, worker_count())
    total = sum(counts.get(shown, 0) for counts in finished.values())
    with ProgressBar(title, len(jobs), "units") as progress:
        progress.update(len(finished))
        for position, counts in finishing:
            finished[tasks[position][2]] = counts
            total += counts.get(shown, 0)
            progress.update(len(finished), **{shown: total})
    return [finished[folder] for folder in folders]


def make_unit(folder: Path, key: UnitKey, make: Callable[[Path], Counts]) -> Counts:
    """Make a unit by `make(folder)`, in place of a damaged one. Return its counts and `code`."""
    with atomic_folder(folder) as temporary:
        counts = make(temporary) | {"code": key.code}
        facts = {"name": folder.name, "fingerprint": key.fingerprint, "counts": counts}
        write_manifest(temporary, kind="unit", **facts)
    return counts


def mixed_code(counts: Sequence[Counts]) -> dict[str, list[str]]:
    """Return the digests of the code that made some units under `code`, where there are several."""
    versions = sorted({unit["code"] for unit in counts})
    return {"code": versions} if len(versions) > 1 else {}


def read_counts(folder: Path, fingerprint: str) -> Counts | None:
    """Return the counts of a complete unit of this fingerprint and name."""
    complete = manifest.read_if_complete(folder, fingerprint)
    if complete is None or complete.get("name") != folder.name:
        return None
    counts: Counts = complete["counts"]
    return counts


def _finish(task: tuple[Callable[[Any, Path], Counts], Any, Path, UnitKey]) -> Counts:
    function, job, folder, key = task
    return make_unit(folder, key, functools.partial(function, job))
