"""Units of work on a Dask cluster: ELECTRA_DASK=tcp://scheduler:8786 takes the place of this
machine's processes.

Dask does the scheduling, the retries of a lost worker's units, and the transport. Here each worker
is checked before a unit begins, so that the bytes are the same: a worker runs the code of this
checkout, sees its folder, and has one thread.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from electra.errors import BadConfig, SourceUnreachable, Stopped, pluralize
from pipelines.versioning.code import code_digest

Unit = TypeVar("Unit")
Result = TypeVar("Result")
VARIABLE = "ELECTRA_DASK"
CODE = ("electra", "pipelines")  # hashed once per process, so edits during a run do not count
SECONDS = 10.0  # for the scheduler's first answer


def run_units(
    function: Callable[[Unit], Result], units: Sequence[Unit], address: str, mark: Path
) -> Iterator[tuple[int, Result]]:
    """Do the same as `electra.workers.run_units` with the workers of the scheduler at `address`.
    `mark`: a file they share.

    A unit whose worker is lost is given to another. Raises SourceUnreachable where no scheduler
    answers, BadConfig for workers that cannot make these units.
    """
    try:
        from distributed import CancelledError, Client, KilledWorker, as_completed
    except ImportError:
        raise BadConfig(
            f"{VARIABLE}: is set, and dask.distributed is not installed; "
            "pip install 'electra-workflow[dask]', or unset it"
        ) from None
    try:
        client = Client(address, timeout=SECONDS)
    except (OSError, ValueError) as error:
        raise SourceUnreachable(
            f"{VARIABLE}: no scheduler answers at {address} ({error}); "
            f"start it, or unset {VARIABLE}"
        ) from None
    with client:
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        print(
            f"{pluralize(len(units), 'unit')} for {address}, "
            f"which has {pluralize(workers, 'worker')}",
            file=sys.stderr,
            flush=True,
        )
        here = (str(Path.cwd()), str(mark), mark.read_text("utf-8"), code_digest(CODE))
        futures = {
            client.submit(run_unit, here, function, unit, pure=False): index
            for index, unit in enumerate(units)
        }
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except KilledWorker as error:
            raise Stopped(
                f"{VARIABLE}: a unit's workers died, again and again ({error}); see their logs"
            ) from None
        except CancelledError:
            raise SourceUnreachable(
                f"{VARIABLE}: the scheduler at {address} is gone; "
                "what is done is kept: start it and run the same command again"
            ) from None
        finally:
            client.cancel(list(futures), force=True)


def run_unit(
    here: tuple[str, str, str, str], function: Callable[[Unit], Result], unit: Unit
) -> Result:
    """Make one unit in a worker, in the folder of the process that asks for it."""
    from distributed import get_worker

    folder, mark, content, code = here
    worker: Any = get_worker()
    if worker.state.nthreads != 1:
        raise BadConfig(
            f"worker {worker.address}: has {worker.state.nthreads} threads; "
            "start it with --nthreads 1"
        )
    if code_digest(CODE) != code:
        raise BadConfig(
            f"worker {worker.address}: runs other code; start it again in this checkout"
        )
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        os.chdir(folder)
        read = Path(mark).read_text("utf-8")
    except OSError:
        read = None
    if read != content:
        raise BadConfig(
            f"worker {worker.address}: does not see {folder} as it is; all machines need to see it"
        )
    return function(unit)
