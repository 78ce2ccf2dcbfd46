"""Units of work that survive a kill: each leaves a finished folder, and a second run does only what is missing."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from electra.files import atomic_folder, read_json, remove, write_json
from electra.progress import Progress
from electra.workers import run_units, worker_count

Job = TypeVar("Job")
Counts = dict[str, Any]
COUNTS = "counts.json"


def finish_units(
    work: Path,
    fingerprint: str,
    function: Callable[[Job, Path], Counts],
    jobs: Sequence[Job],
    *,
    title: str,
    sizes: Sequence[int],
    shown: str,
) -> list[Counts]:
    """Call `function(job, folder)` for every job whose folder `work`/unit-NNNNN is not finished; return all counts.

    `function` writes its files into an empty folder and returns JSON values. Folders made under another `fingerprint`
    are removed first. `sizes` are bytes for the progress bar (1 each where unknown), `shown` the count shown beside it.
    The caller holds the work folder's lock.
    """
    begin(work, fingerprint)
    folders = [work / f"unit-{index:05d}" for index in range(len(jobs))]
    counts: list[Counts] = [read_json(folder / COUNTS) if folder.exists() else {} for folder in folders]
    missing = [index for index, found in enumerate(counts) if not found]
    tasks = [(function, jobs[index], folders[index]) for index in missing]
    done = sum(sizes) - sum(sizes[index] for index in missing)
    with Progress(title, sum(sizes), "bytes" if sum(sizes) > len(sizes) else "shards") as progress:
        progress.update(done)
        for position, result in run_units(_finish, tasks, worker_count()):
            counts[missing[position]] = result
            done += sizes[missing[position]]
            progress.update(done, **{shown: sum(count.get(shown, 0) for count in counts)})
    return counts


def begin(work: Path, fingerprint: str) -> None:
    """Keep the work folder's units if they were made under the same fingerprint, else start afresh."""
    note = work / "fingerprint.json"
    if not note.exists() or read_json(note) != fingerprint:
        for folder in sorted(work.glob("unit-*")):
            remove(folder)
        write_json(note, fingerprint)


def _finish(task: tuple[Callable[[Any, Path], Counts], Any, Path]) -> Counts:
    function, job, folder = task
    with atomic_folder(folder) as temporary:
        counts = function(job, temporary)
        write_json(temporary / COUNTS, counts)
    return counts
