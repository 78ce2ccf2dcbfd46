"""Independent units of work in several processes; results do not depend on how many there are.

The number of processes depends on the machine and not on the experiment, so params.yaml does not
have it: all cores that this process may use, or the environment variable ELECTRA_WORKERS.
"""

import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from electra.errors import BadConfig, Stopped, short_repr
from electra.stopping import StopRequest, block_terminal_signals, ignore_all

Unit = TypeVar("Unit")
Result = TypeVar("Result")
VARIABLE = "ELECTRA_WORKERS"
_NUMBER = "[0-9]{1,5}"
_LAUNCH = {"WORLD_SIZE": _NUMBER, "RANK": _NUMBER, "MASTER_ADDR": ".+", "MASTER_PORT": _NUMBER}


def worker_count() -> int:
    """Return how many processes to use."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        if hasattr(os, "sched_getaffinity"):  # not on macOS
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise BadConfig(
            f"{VARIABLE}: is {short_repr(text)} instead of a number of processes above 0"
        )
    return int(text)


def rank() -> tuple[int, int]:
    """Return which of the processes that torchrun has started this is, and how many there are; (0,
    1) without torchrun.

    A RANK left over in the environment is not a launch: torchrun also sets WORLD_SIZE.
    """
    size = os.environ.get("WORLD_SIZE", "")
    if size in {"", "1"}:
        return 0, 1
    bad = [
        name for name, form in _LAUNCH.items() if not re.fullmatch(form, os.environ.get(name, ""))
    ]
    if bad:
        raise BadConfig(
            f"environment: has WORLD_SIZE, which needs valid values of {', '.join(bad)}; start "
            "with torchrun, which sets them, or unset WORLD_SIZE to train in one process"
        )
    return int(os.environ["RANK"]), int(size)


def run_units(
    function: Callable[[Unit], Result],
    units: Sequence[Unit],
    workers: int,
    *,
    preload: Sequence[str] = (),
    limit: str = VARIABLE,
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the unit, its result) in the order of completion.

    One worker or one unit works in this process. The first error of a unit is raised here and ends
    the others, and so does leaving the loop. A fresh process must be able to import `function` and
    the units. With `preload`, modules that take long, workers are forked from one that has imported
    them. `limit` names the setting of the number of workers, for a message.
    """
    if workers <= 1 or len(units) <= 1:
        for index, unit in enumerate(units):
            yield index, function(unit)
        return
    context = multiprocessing.get_context("forkserver" if preload else "spawn")
    if preload:
        context.set_forkserver_preload(list(preload))
    pool = ProcessPoolExecutor(
        min(workers, len(units)), mp_context=context, initializer=_prepare_worker
    )
    try:
        # starting it later would unblock the signals
        multiprocessing.resource_tracker.ensure_running()
        try:
            # a request to stop waits until all have started: a half-started worker would fail with
            # a traceback
            with StopRequest(), block_terminal_signals():
                futures = {pool.submit(function, unit): index for index, unit in enumerate(units)}
        except (EOFError, ConnectionError) as error:
            # the process that forks them was killed, or a worker during its start
            raise BrokenProcessPool from error
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        fault = "was killed from outside, perhaps because memory ran out"
        raise Stopped(f"worker: {fault}; run again with a lower {limit}") from None
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _prepare_worker() -> None:
    """Prepare a new worker: it leaves requests to stop to its parent, ends with it, and uses one
    thread.
    """
    ignore_all()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's own means
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def _die_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
