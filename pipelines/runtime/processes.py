"""Several processes of one stage, on this machine or on several: torch elastic (torchrun) starts and watches them.

Each process is the stage's own command with a rank in its environment. When one fails the others are ended too, and one
sentence is printed: the user's mistake that a process met, or that a process died and the same command resumes from the
last checkpoint. The number of processes changes no result beyond rounding, so it is not a parameter but an option of
the command line or one of torchrun's own variables, which pass through DVC.
"""

import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, SourceUnreachable, Stopped, UserError, shown
from electra.files import dump_json, write_atomic
from electra.workers import rank

# The least of each is the default.
COUNTS = {"nproc_per_node": range(1, 257), "nnodes": range(1, 10_001), "max_restarts": range(10_001)}
ENDPOINT = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})", re.ASCII)  # HOST:PORT
PATIENCE = 600  # seconds that processes have to finish their step and save after a stop was requested


def torchrun_variables(options: Mapping[str, Any]) -> dict[str, str]:
    """PET_NPROC_PER_NODE and so on, from options or else from the environment; without those that have their default.

    Raises BadConfig for an option that is no such number, and for several machines without a place to meet.
    """
    found = {}
    for key, counts in COUNTS.items():
        text = str(options.get(key) or os.environ.get(_variable(key)) or counts.start)
        if not text.isdecimal() or len(text) > 9 or int(text) not in counts:
            span = f"from {counts.start} to {counts.stop - 1:,}"
            raise BadConfig(f"--{key.replace('_', '-')}: is {shown(text)}, should be {span}")
        if int(text) > counts.start:
            found[_variable(key)] = text
    endpoint, expected = _variable("rdzv_endpoint"), "HOST:PORT of the first machine, the same on all of them"
    if value := options.get("rdzv_endpoint") or os.environ.get(endpoint):
        parts = ENDPOINT.fullmatch(value)
        if parts is None or not 0 < int(parts[1]) < 1 << 16:
            raise BadConfig("--rdzv-endpoint", f"is {shown(value)}", expected)
        found[endpoint] = value
    elif _variable("nnodes") in found:
        raise BadConfig("--rdzv-endpoint", "is missing", expected)
    return found


def _variable(option: str) -> str:
    return f"PET_{option.upper()}"


def several(variables: Mapping[str, str]) -> bool:
    """Whether these variables ask for more than one process."""
    return not {_variable("nproc_per_node"), _variable("nnodes")}.isdisjoint(variables)


def is_process() -> bool:
    """Whether torchrun has started this process as one of several, and its variables are not just left over."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_main() -> bool:
    """Whether this process is the only one, or the first of several: it alone reads, writes and prints."""
    return rank()[0] == 0


def report(error: UserError) -> None:
    """Print an error to stderr or, in one of several processes, leave it for the launcher to print."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file is None or not is_process():
        print(f"error: {error}", file=sys.stderr)
    else:  # the form that torch elastic reads
        message = {"message": str(error), "extraInfo": {"timestamp": str(int(time.time())), "code": error.exit_code}}
        write_atomic(Path(file), dump_json({"message": message}))


def earlier_mistake() -> int:
    """In a restarted process: the exit code of a user's mistake that ended an earlier attempt, reported again; else 0.

    Torch elastic restarts after every failure, and only a death is worth it.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not file or not is_process():
        return 0
    for earlier in sorted(Path(file).parents[2].glob("attempt_*/*/error.json")):  # its own is attempt_N/RANK/error.json
        text = earlier.read_bytes()
        code = int(json.loads(text)["message"]["extraInfo"].get("code", 0))
        if code not in {0, Stopped.exit_code}:
            write_atomic(Path(file), text)
            return code
    return 0


def launch(command: Sequence[str], variables: Mapping[str, str], name: str) -> int:
    """Run `python -m pipelines COMMAND` in every process that torchrun's variables ask for; returns the exit code."""
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(PATIENCE))
    # A new store for each start: with one store for all, restarted processes read where the dead ones had listened.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for quiet in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(quiet).setLevel(logging.CRITICAL)  # one sentence below says the same
    count = {key: int(variables.get(_variable(key), counts.start)) for key, counts in COUNTS.items()}
    machines, endpoint = count["nnodes"], variables.get(_variable("rdzv_endpoint"), "localhost:0")
    with tempfile.TemporaryDirectory(prefix="electra-processes-") as folder:
        config = LaunchConfig(
            min_nodes=machines,
            max_nodes=machines,
            nproc_per_node=count["nproc_per_node"],
            run_id=name if machines > 1 else uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=endpoint,
            max_restarts=count["max_restarts"],
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "pipelines", *command)
        except SignalException as error:
            report(Stopped(name, f"stopped by {error.sigval.name}", "", "run the same command to go on"))
            return Stopped.exit_code
        except RendezvousError as error:
            do = "give the first machine's name and a free port of it, and start all machines within 15 minutes"
            report(unmet := SourceUnreachable(endpoint, f"the machines did not meet ({error})", "", do))
            return unmet.exit_code
        except ChildFailedError as error:
            return explain(error.failures, name)
    return 0


def explain(failures: Mapping[int, Any], name: str) -> int:
    """Print why the run ended and return its exit code: a death, a mistake, else that a process was stopped.

    Torch elastic ends the other processes with SIGTERM.
    """
    order = {Stopped.exit_code: 2, -signal.SIGTERM: 3}
    rank, chosen = min(failures.items(), key=lambda item: order.get(item[1].exitcode, int(item[1].exitcode > 0)))
    if chosen.exitcode < 0:
        ended = f"process {rank} was ended by {chosen.signal_name()}"
        report(Stopped(name, ended, "", "run the same command to go on from the last checkpoint"))
        return Stopped.exit_code
    if chosen.error_file_data:
        message = chosen.message  # as `report` wrote it, or torch elastic's own text
        print(f"error: {message['message'] if isinstance(message, dict) else message}", file=sys.stderr)
    return int(chosen.exitcode)
