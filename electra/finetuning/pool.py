"""Jobs side by side: worker processes of one thread each, the longest job first.

Which worker does a job, and how many there are, bears on no result. Workers are forked from a server process that has
loaded torch once and started no thread (a fork of the caller would copy whatever locks its threads hold), and die with
it and with the caller, however these die.
"""

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from electra.errors import Stopped, UserError
from electra.finetuning.jobs import Job, Record, finished, run
from electra.finetuning.lifeline import die_with_parent

Records = dict[Path, Record]  # by the folder that a job leaves, which no two jobs share


def run_all(
    jobs: Sequence[Job], workers: int, on_done: Callable[[Job, Record], None] = lambda job, record: None
) -> list[Record]:
    """Run all jobs, at most `workers` at once; their records in the order of `jobs`. Jobs already done are only read.

    `on_done` hears of each in the order in which they end. A job's UserError is raised here and ends the others; what
    they had finished stays.
    """
    records: Records = {}
    waiting: list[Job] = []
    for job in sorted(jobs, key=lambda job: (-job.cost, job.name)):
        if (record := finished(job)) is None:
            waiting.append(job)
        else:
            records[job.folder] = record
            on_done(job, record)
    if min(workers, len(waiting)) <= 1:
        _run_here(waiting, records, on_done)
    else:
        _run_apart(waiting, min(workers, len(waiting)), records, on_done)
    return [records[job.folder] for job in jobs]


def _run_here(waiting: list[Job], records: Records, on_done: Callable[[Job, Record], None]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in waiting:
            records[job.folder] = run(job)
            on_done(job, records[job.folder])
    finally:
        torch.set_num_threads(threads)


def _run_apart(waiting: list[Job], workers: int, records: Records, on_done: Callable[[Job, Record], None]) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["electra.finetuning.preload"])
    busy: dict[Connection, Job] = {}
    processes = []
    try:
        for job in waiting[:workers]:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            ours.send(job)
            busy[ours] = job
        queue = iter(waiting[workers:])
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                job = busy.pop(connection)
                records[job.folder] = _receive(connection, job)
                if (following := next(queue, None)) is not None:
                    connection.send(following)
                    busy[connection] = following
                on_done(job, records[job.folder])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _receive(connection: Connection, job: Job) -> Record:
    try:
        result: Record | UserError | str = connection.recv()
    except EOFError:
        raise Stopped(
            f"fine-tuning {job.name}",
            "its process was killed",
            "",
            "if memory ran out, lower finetune.workers; run the same command again, finished runs are kept",
        ) from None
    if isinstance(result, UserError):
        raise result
    if isinstance(result, str):
        raise RuntimeError(f"fine-tuning {job.name} failed in its process:\n{result}")
    return result


def _work(connection: Connection) -> None:
    """A worker's life: one job after the other until the parent goes."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends the workers
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            job: Job = connection.recv()
            try:
                result: Record | UserError | str = run(job)
            except UserError as error:
                result = error
            except Exception:
                result = traceback.format_exc()
            connection.send(result)
