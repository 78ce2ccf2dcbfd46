"""Jobs side by side: worker processes of one thread, the longest job first.

Which worker does a job, and how many there are, bears on no result. Workers are forked from a server process that has
loaded torch once and started no thread (a fork of the caller would copy whatever locks its threads hold).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from electra.devices import use_own_gpu
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import finished, run
from electra.finetuning.runs.solve import Record
from electra.workers import run_units

Records = dict[Path, Record]  # by the folder that a job leaves, which no two jobs share


def run_all(
    jobs: Sequence[Job], workers: int, on_done: Callable[[Job, Record], None] = lambda job, record: None
) -> list[Record]:
    """Run all jobs, at most `workers` at once; their records in the order of `jobs`. Jobs already done are only read.

    `on_done` hears of each in the order in which they end. A job's UserError is raised here and ends the others; what
    they had finished stays. Jobs that start from another's model wait until all others are done.
    """
    records: Records = {}

    def note(job: Job, record: Record) -> None:
        records[job.folder] = record
        on_done(job, record)

    for wave in ([job for job in jobs if job.start is None], [job for job in jobs if job.start is not None]):
        waiting: list[Job] = []
        for job in sorted(wave, key=lambda job: (-job.cost, job.name)):
            if (record := finished(job)) is not None:
                note(job, record)
            else:
                waiting.append(job)
        limit = "recipes.paper.workers in params.yaml"
        done = run_units(alone, waiting, workers, preload=("electra.finetuning.runs.preload",), limit=limit)
        for index, record in done:
            note(waiting[index], record)
    return [records[job.folder] for job in jobs]


def alone(job: Job) -> Record:
    """Run a job on one thread, so that its bytes do not depend on the machine's number of cores, and on one GPU."""
    use_own_gpu()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return run(job)
    finally:
        torch.set_num_threads(threads)
