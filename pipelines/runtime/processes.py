"""Several processes of one stage, on this machine or on several: torch elastic (torchrun) starts and watches them.

Each process is the stage's own command with a rank in its environment. When one ends badly the others are ended too,
and what is said is one sentence: the user's mistake that a process met, or that a process died and the same command
goes on from the last checkpoint. How many processes there are changes no result beyond rounding, so it is no parameter:
options of the command line, or torchrun's own variables, which pass through DVC.
"""

import json
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, SourceUnreachable, Stopped, UserError
from electra.files import dump_json, write_atomic
from electra.workers import rank

VARIABLES = {
    "nproc_per_node": "PET_NPROC_PER_NODE",
    "nnodes": "PET_NNODES",
    "rdzv_endpoint": "PET_RDZV_ENDPOINT",
    "max_restarts": "PET_MAX_RESTARTS",
}
LEAST = {"nproc_per_node": 1, "nnodes": 1, "max_restarts": 0}
PATIENCE = 600  # seconds that processes have to finish their step and save after a stop was asked for


@dataclass(frozen=True)
class Layout:
    """How many processes on how many machines, where they meet, and how often all are started again after a death."""

    nproc_per_node: int = 1
    nnodes: int = 1
    rdzv_endpoint: str = ""
    max_restarts: int = 0

    @property
    def several(self) -> bool:
        """Whether there is anything to launch."""
        return self.nproc_per_node * self.nnodes > 1

    @staticmethod
    def read(options: Mapping[str, Any]) -> "Layout":
        """From options of the command line, else from torchrun's variables."""
        given = {key: options.get(key) or os.environ.get(variable, "") for key, variable in VARIABLES.items()}
        counts = {}
        for key, least in LEAST.items():
            text = str(given[key] or least)  # a flow gives numbers, a shell text
            if not text.isdecimal() or int(text) < least:
                raise BadConfig(f"--{key.replace('_', '-')}", f"is {text!r}", f"a number of at least {least}")
            counts[key] = int(text)
        if counts["nnodes"] > 1 and not given["rdzv_endpoint"]:
            raise BadConfig("--rdzv-endpoint", "is missing", "HOST:PORT of the first machine, the same on all of them")
        return Layout(**counts, rdzv_endpoint=given["rdzv_endpoint"])

    def variables(self) -> dict[str, str]:
        """As torchrun's variables, which pass through DVC; those at their default are left out."""
        values = {key: (getattr(self, key), field.default) for key, field in self.__dataclass_fields__.items()}
        return {VARIABLES[key]: str(value) for key, (value, default) in values.items() if value != default}


def is_process() -> bool:
    """Whether torchrun has started this process as one of several, and did not just leave its environment."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_main() -> bool:
    """Whether this process reads, writes and speaks: the first of several, or the only one."""
    return rank()[0] == 0


def report(error: UserError) -> None:
    """Say a mistake: on stderr, or, in one of several processes, to the one that launched it."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file is None or not is_process():
        print(f"error: {error}", file=sys.stderr)
    else:  # the form that torch elastic reads
        message = {"message": str(error), "extraInfo": {"timestamp": str(int(time.time())), "code": error.exit_code}}
        write_atomic(Path(file), dump_json({"message": message}))


def told_before() -> int:
    """In a process that was started again: the exit code of a mistake that one of this machine told before it, and tell
    it again; else 0. Torch elastic restarts after every bad end, and only a death is worth it."""
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


def launch(command: Sequence[str], layout: Layout, name: str) -> int:
    """Run `python -m pipelines COMMAND` in every process of the layout; returns the exit code."""
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(PATIENCE))
    # A store of its own for each start: from one store for all, processes that were restarted read
    # where the dead had listened.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for quiet in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(quiet).setLevel(logging.CRITICAL)  # what they would tell is told below, in one sentence
    with tempfile.TemporaryDirectory(prefix="electra-processes-") as folder:
        config = LaunchConfig(
            min_nodes=layout.nnodes,
            max_nodes=layout.nnodes,
            nproc_per_node=layout.nproc_per_node,
            run_id=name if layout.nnodes > 1 else uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=layout.rdzv_endpoint or "localhost:0",
            max_restarts=layout.max_restarts,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "pipelines", *command)
        except SignalException as error:
            what = f"stopped by {error.sigval.name}"
            report(Stopped(name, what, "", "everything is saved; run the same command to go on"))
            return Stopped.exit_code
        except RendezvousError as error:
            where = layout.rdzv_endpoint or "localhost"
            do = "give the first machine's name and a free port of it, and start all machines within 15 minutes"
            report(unmet := SourceUnreachable(where, f"the machines did not meet ({error})", "", do))
            return unmet.exit_code
        except ChildFailedError as error:
            return explain(error.failures, name)
    return 0


def explain(failures: Mapping[int, Any], name: str) -> int:
    """Say why the run ended and return its exit code: a death, a mistake, else that a process was stopped.

    SIGTERM is what torch elastic ends the others with.
    """
    order = {Stopped.exit_code: 2, -signal.SIGTERM: 3}
    rank, chosen = min(failures.items(), key=lambda item: order.get(item[1].exitcode, int(item[1].exitcode > 0)))
    if chosen.exitcode < 0:
        what = f"process {rank} was ended by {chosen.signal_name()}"
        report(Stopped(name, what, "", "run the same command to go on from the last checkpoint"))
        return Stopped.exit_code
    if chosen.error_file_data:
        told = chosen.message  # as `report` wrote it, or torch elastic's own text
        print(f"error: {told['message'] if isinstance(told, dict) else told}", file=sys.stderr)
    return int(chosen.exitcode)
