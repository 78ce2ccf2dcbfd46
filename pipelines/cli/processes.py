"""Several processes of one stage, on this machine or on several: torch elastic (torchrun) starts
and watches them.

Each process is the stage's own command with a rank in its environment. When one fails the others
are ended too, and one sentence is printed: the user's mistake that a process met, or that a process
died and the same command resumes from the last checkpoint. The number of processes changes no
result beyond rounding, so it is not a parameter but an option of the command line or one of
torchrun's own variables, which pass through DVC.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from electra.config import require
from electra.errors import BadConfig, SourceUnreachable, Stopped, UserError
from electra.stopping import heeded_signals

MEETING = 900  # seconds within which all machines have to be started
ANSWER = 20  # seconds for the first machine's answer
MEET = (
    "give the first machine's name and a free port of it, and start all machines within 15 minutes"
)
# seconds that processes have to finish their step and save after a stop was requested
PATIENCE = 600


def needs_several(options: Mapping[str, Any]) -> bool:
    """Return whether torchrun's options ask for more than one process.

    Raises BadConfig for several machines without a place to meet.
    """
    sentence = "is missing; with several machines it is HOST:PORT of the first, the same on all"
    require(options["rdzv_endpoint"] or options["nnodes"] == 1, f"--rdzv-endpoint: {sentence}")
    return bool(options["nproc_per_node"] > 1 or options["nnodes"] > 1)


def is_process() -> bool:
    """Return whether torchrun has started this process as one of several, and its variables are
    not just left over.
    """
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def report(error: UserError) -> None:
    """Print an error to stderr or, in one of several processes, leave it to the launcher."""
    if not is_process():
        print(f"error: {error}", file=sys.stderr)
        return
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    get_error_handler().record_exception(error)


def launch(command: Sequence[str], options: Mapping[str, Any], name: str) -> int:
    """Run `python -m pipelines COMMAND` in every process that torchrun's options ask for.
    Returns the exit code.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(PATIENCE))
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ",".join(
        number.name for number in heeded_signals()
    )
    # A new store for each start: with one store for all, restarted processes read where the dead
    # ones had listened.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for quiet in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(quiet).setLevel(logging.CRITICAL)  # one sentence below says the same
    machines = options["nnodes"]
    endpoint = options["rdzv_endpoint"] or "localhost:0"
    try:
        place = parse_rendezvous_endpoint(endpoint, default_port=29_400)
    except ValueError as error:
        raise BadConfig(f"--rdzv-endpoint: {error}") from None
    hosts = machines == 1 or find_rendezvous(*place)
    with tempfile.TemporaryDirectory(prefix="electra-processes-") as folder:
        config = LaunchConfig(
            min_nodes=machines,
            max_nodes=machines,
            nproc_per_node=options["nproc_per_node"],
            run_id=name if machines > 1 else uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=endpoint,
            rdzv_configs={"is_host": hosts},
            max_restarts=options["max_restarts"],
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "pipelines", *command)
        except SignalException as error:
            sentence = f"stopped by {error.sigval.name}; run the same command to continue"
            raise Stopped(f"{name}: {sentence}") from None
        except RendezvousError as error:
            sentence = f"the machines did not meet ({error}); {MEET}"
            raise SourceUnreachable(f"{endpoint}: {sentence}") from None
        except ChildFailedError as error:
            return explain(error.failures, name)
    return 0


def find_rendezvous(host: str, port: int) -> bool:
    """Wait until machines can meet, and return whether it is this machine that listens
    there.

    The library waits in C++, where no signal is handled, and for ever where something else answers.
    Here a stop works. Raises SourceUnreachable for a port that something else holds, and where
    nobody listens in time.
    """
    deadline = time.monotonic() + MEETING
    while time.monotonic() < deadline:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with contextlib.suppress(OSError), socket.create_server(address, family=family):
                # this is the first machine, and the port is free; else another machine's, or taken
                return True
            socket.create_connection((host, port), timeout=5).close()
        except OSError:  # the first machine is not up yet
            time.sleep(1)
            continue
        if _is_store(host, port):
            return False
        sentence = "something else than this program answers there; give another port"
        raise SourceUnreachable(f"{host}:{port}: {sentence}")
    raise SourceUnreachable(f"{host}:{port}: nobody listens there; {MEET}")


def _is_store(host: str, port: int) -> bool:
    """Return whether torch's store answers at a port. It is asked in a thread that may hang."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    answered = threading.Event()

    def ask() -> None:
        while not answered.is_set():
            with contextlib.suppress(RuntimeError):
                TCPStore(host, port, is_master=False, timeout=timedelta(seconds=ANSWER))
                answered.set()
            time.sleep(1)

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(ANSWER)


def explain(failures: Mapping[int, Any], name: str) -> int:
    """Print the mistake that ended the run and return its exit code. Raise Stopped for a death.

    Torch elastic ends the other processes with SIGTERM.
    """
    order = {Stopped.exit_code: 2, -signal.SIGTERM: 3}
    rank, chosen = min(
        failures.items(), key=lambda item: order.get(item[1].exitcode, int(item[1].exitcode > 0))
    )
    if chosen.exitcode < 0:
        ended = f"process {rank} was ended by {chosen.signal_name()}"
        raise Stopped(f"{name}: {ended}; run the same command to continue from the last checkpoint")
    if isinstance(chosen.message, dict):  # of `report`; a bug has shown its traceback
        print(f"error: {chosen.message['message'].partition(': ')[2]}", file=sys.stderr)
    return int(chosen.exitcode)
