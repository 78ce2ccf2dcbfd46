"""The one place that starts DVC, `dvc --wait-for-lock repro TARGET`, or a stage, and passes its
output on.

The child stays in this process group, so that a signal to the group (from a worker or a terminal)
reaches it. It has its own deadline, since a task's time-out is a signal and does not reach threads.
However `run` is left, nothing that it started survives: every descendant carries a mark in its
environment and is recognised by it, even when its parent is dead. If this process is killed itself,
a watcher that waits for the end of a pipe does the same.
"""

import contextlib
import os
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen

import psutil

from electra.errors import UserError

DVC = [sys.executable, "-m", "dvc"]
MARK = "ELECTRA_REPRO"
# seconds between asking a process to stop, for which it may have gigabytes to save, and ending it
PATIENCE = 300.0
# What DVC says where a byte of its own state has changed: a lock of JSON, databases of hashes and
# links.
DAMAGED = re.compile(
    r"ERROR: .*(codec can't decode|RWLock-file|malformed|unsupported file format|not a database)"
)
REMADE = "; DVC's state seems damaged: delete .dvc/tmp/rwlock and the folders in .dvc-site/repo, which it remakes"
# What DVC tells a person at a terminal to do next. A flow stores and saves its results itself.
ADVICE = re.compile(
    r"To track the changes with git|\s+git add |To enable auto staging|\s+dvc config core\.autostage"
    r"|Use `dvc push` to send|(Generat|Updat)ing lock file|ERROR: failed to reproduce"
)


@dataclass(frozen=True)
class Place:
    """Where commands run: a checkout's folder, and what is added to their environment."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    pull: bool = False  # whether stages that ran elsewhere are fetched from the DVC remote

    def also(self, variables: Mapping[str, str]) -> "Place":
        """Return the same place with more variables."""
        return replace(self, variables={**self.variables, **variables})


class StageFailed(UserError):
    """A stage failed; `exit_code` is the stage's own where DVC reported it."""

    def __init__(self, sentence: str, exit_code: int, *, timed_out: bool = False) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.timed_out = timed_out

    @property
    def for_the_user(self) -> bool:
        """Whether only the user can correct it (settings, input, a source, a time limit): retrying
        does not help.
        """
        return self.timed_out or self.exit_code in {64, 65, 69, 77}


@dataclass
class Outcome:
    """What DVC did: the stages that ran, and what went wrong."""

    ran: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    exit_code: int = 0

    def read(self, line: str) -> bool:
        """Learn from one line of DVC's output; return whether it is for the log."""
        if match := re.match(r"Running stage '(?:.*:)?(.+)':", line):
            self.ran.append(match[1])
        if match := re.search(r"exited with (-?\d+)", line):
            self.exit_code = int(match[1])
        if line.startswith(("error: ", "ERROR: ")):
            self.errors.append(line[7:] + (REMADE if DAMAGED.match(line) else ""))
            return False
        return not ADVICE.match(line)


def repro(
    target: str, place: Place, log: Callable[[str], None] = print, seconds: float | None = None
) -> Outcome:
    """Bring a target up to date, with all that it depends on. Raises StageFailed.

    `log` gets the output line by line. After `seconds` the stage is stopped as a cancellation would
    stop it.
    """
    options = ["--pull", "--allow-missing"] if place.pull else []
    return run([*DVC, "--wait-for-lock", "repro", *options, target], target, place, log, seconds)


def would_run(target: str, place: Place) -> list[str]:
    """Return the stages that `repro` would have to run, unless another machine has run them."""
    options = ["--allow-missing"] if place.pull else []
    return run([*DVC, "repro", "--dry", *options, target], target, place, lambda _: None).ran


def run(
    command: Sequence[str],
    name: str,
    place: Place,
    log: Callable[[str], None] = print,
    seconds: float | None = None,
) -> Outcome:
    """Run a command that may start stages. Raises StageFailed, with the stage's own sentence and
    exit code.
    """
    outcome = Outcome()
    late = threading.Event()
    with child(command, place) as (process, mark):

        def stop() -> None:
            late.set()
            end(family(process.pid, mark))

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
        limit = f"stopped after {(seconds or 0) / 3600:g} hours, its time limit"
        raise StageFailed(
            f"{name}: {limit}; it has saved, and the same run resumes it", 75, timed_out=True
        )
    if code:
        raise StageFailed(f"{name}: {first}", outcome.exit_code or code)
    return outcome


def text(line: bytes) -> str:
    """Return a line as a terminal would show it: what a carriage return overwrites is gone, colours
    too.
    """
    shown = line.decode("utf-8", "replace").rstrip().rsplit("\r", 1)[-1]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@contextlib.contextmanager
def child(command: Sequence[str], place: Place) -> Iterator[tuple[Popen[bytes], str]]:
    """Start a child in this group, with its family's mark; the whole family is gone when the block
    is left.
    """
    mark = uuid.uuid4().hex
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    values = {**os.environ, **place.variables, "PATH": path, "PYTHONUNBUFFERED": "1", MARK: mark}
    with watcher(mark):
        process = Popen(
            command, cwd=place.folder, env=values, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        try:
            yield process, mark
        finally:
            end(family(process.pid, mark))
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def watcher(mark: str) -> Iterator[None]:
    """Start a process in its own group that asks all who carry the mark to stop if this one dies
    within the block.
    """
    values = {key: value for key, value in os.environ.items() if key != MARK}
    values["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[2]), values.get("PYTHONPATH", "")])
    )
    command = [sys.executable, "-m", "pipelines.versioning.dvc_runner", mark]
    process = Popen(
        command, env=values, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.kill()  # before the pipe's end could wake it
        process.communicate()


def family(pid: int | None, mark: str) -> list[psutil.Process]:
    """Return a process, if one is given, with its descendants, and every process that carries the
    mark.
    """
    members: set[psutil.Process] = set()
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(pid)
            members.update([leader, *leader.children(recursive=True)])
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                members.add(process)
    return sorted(members, key=lambda process: process.pid)


def end(processes: list[psutil.Process], patience: float | None = None) -> None:
    """Ask processes to stop, wait, and end those that did not."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=PATIENCE if patience is None else patience)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)


if __name__ == "__main__":
    sys.stdin.buffer.read()  # ends when the process that holds the other end does
    end(family(None, sys.argv[1]))
