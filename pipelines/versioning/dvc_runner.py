"""The one place that starts DVC, `dvc --wait-for-lock repro TARGET`, or a stage, and passes its
output on.

The child leads a process group of its own, and so does all that it starts. However `run` ends, the
group is asked to stop and has time to save, even if this process has to end sooner. It has its own
deadline, since Prefect's time-outs do not work in threads. If this process is killed itself, a
shell that waits for the end of a pipe asks the group.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen

import psutil

from electra.errors import UserError

DVC = [sys.executable, "-m", "dvc"]
# asks a group to stop once the pipe has no writer any more
WATCH = ["sh", "-c", 'cat; kill -s TERM -- "-$1"', "watch"]
# seconds between asking a process to stop, for which it may have gigabytes to save, and ending it
PATIENCE = 300.0
# DVC's errors where its own state is damaged: a lock of JSON, databases of hashes and links.
DAMAGED = re.compile(
    r"ERROR: .*(codec can't decode|RWLock-file|malformed|unsupported file format|not a database)"
)
REMADE = "; DVC's state seems damaged: delete .dvc/tmp/rwlock and the folders in .dvc-site/repo"
REMADE += ", which it remakes"
# DVC's hints for a person at a terminal. A flow stores and saves its results itself.
ADVICE = re.compile(
    r"To track the changes with git|\s+git add |To enable auto staging"
    r"|\s+dvc config core\.autostage|Use `dvc push` to send"
    r"|(Generat|Updat)ing lock file"
)


@dataclass(frozen=True)
class Checkout:
    """A folder in which commands run, and the variables that are added to their environment."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    pull: bool = False  # whether stages that ran elsewhere are fetched from the DVC remote

    def with_variables(self, variables: Mapping[str, str]) -> "Checkout":
        """Return the same checkout with more variables."""
        return replace(self, variables={**self.variables, **variables})


class StageFailed(UserError):
    """A stage failed; `exit_code` is the stage's own where DVC reported it."""

    def __init__(
        self, sentence: str, exit_code: int = UserError.exit_code, *, timed_out: bool = False
    ) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.timed_out = timed_out

    @property
    def for_the_user(self) -> bool:
        """Return whether only the user can correct it (settings, input, a source, a time
        limit): retrying does not help.
        """
        return self.timed_out or self.exit_code in {64, 65, 69}


@dataclass
class Outcome:
    """The outcome of DVC: the stages that ran, and the error."""

    ran: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    exit_code: int = 0

    def read(self, line: str) -> bool:
        """Take note of a line of DVC's output, and return whether it is for the log."""
        if match := re.match(r"Running stage '(?:.*:)?(.+)':", line):
            self.ran.append(match[1])
        if match := re.search(r"exited with (-?\d+)", line):
            self.exit_code = int(match[1])
        if line.startswith(("error: ", "ERROR: ")):
            self.errors.append(line[7:] + (REMADE if DAMAGED.match(line) else ""))
            return False
        return not ADVICE.match(line)


def repro(
    target: str,
    checkout: Checkout,
    log: Callable[[str], None] = print,
    seconds: float | None = None,
) -> Outcome:
    """Bring a target up to date, with all that it depends on. Raises StageFailed.

    `log` gets the output line by line. After `seconds` the stage is stopped as a cancellation would
    stop it.
    """
    options = ["--pull", "--allow-missing"] if checkout.pull else []
    return run([*DVC, "--wait-for-lock", "repro", *options, target], target, checkout, log, seconds)


def would_run(target: str, checkout: Checkout) -> list[str]:
    """Return the stages that `repro` would have to run, unless another machine has run them."""
    options = ["--allow-missing"] if checkout.pull else []
    return run([*DVC, "repro", "--dry", *options, target], target, checkout, lambda _: None).ran


def run(
    command: Sequence[str],
    name: str,
    checkout: Checkout,
    log: Callable[[str], None] = print,
    seconds: float | None = None,
) -> Outcome:
    """Run a command that may start stages. Raises StageFailed, with the stage's own sentence and
    exit code.
    """
    outcome = Outcome()
    late = threading.Event()
    with child(command, checkout) as process:

        def stop() -> None:
            late.set()
            end(process.pid)

        timer = threading.Timer(threading.TIMEOUT_MAX if seconds is None else seconds, stop)
        timer.start()
        try:
            for line in filter(None, map(text, process.stdout or ())):
                if outcome.read(line):
                    log(line)
            code = process.wait()
        finally:
            timer.cancel()
    first, *others = outcome.errors or [f"{command[2]} {command[-1]} ended with {code}"]
    for error in others if code else outcome.errors:
        if not error.startswith("failed to reproduce"):
            log(error)
    if late.is_set():
        raise StageFailed(
            f"{name}: stopped after {(seconds or 0) / 3600:g} hours, its time limit; "
            "it has saved, and the same run resumes it",
            75,
            timed_out=True,
        )
    if code:
        raise StageFailed(f"{name}: {first}", outcome.exit_code or code)
    return outcome


def text(line: bytes) -> str:
    """Return a line as a terminal would show it: without colours, and without text that a carriage
    return overwrites.
    """
    shown = line.decode("utf-8", "replace").rstrip().rsplit("\r", 1)[-1]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@contextlib.contextmanager
def child(command: Sequence[str], checkout: Checkout) -> Iterator[Popen[bytes]]:
    """Start a child in a process group of its own, which ends with the block."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    values = {**os.environ, **checkout.variables, "PATH": path, "PYTHONUNBUFFERED": "1"}
    process = Popen(
        command,
        cwd=checkout.folder,
        env=values,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    watcher = Popen(
        [*WATCH, str(process.pid)],
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    with watcher, process:
        try:
            yield process
        finally:
            end(process.pid)
            watcher.kill()


def end(group: int, patience: float = PATIENCE) -> None:
    """Ask the processes of a group to stop, wait, and end those that did not."""
    deadline = time.monotonic() + patience
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        while is_alive(group) and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)


def is_alive(group: int) -> bool:
    """Return whether a process of a group runs. One that has ended and waits for its parent
    does not.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
