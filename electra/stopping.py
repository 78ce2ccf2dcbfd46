"""Requests to stop: whatever a process is doing, it ends with code 75 and nothing half-done.

They are SIGTERM, Ctrl-C (SIGINT), the end of a terminal (SIGHUP), and SIGUSR1, which Slurm sends
before the time of a job is over. One that was ignored when the process began, as SIGHUP is under
`nohup`, stays ignored.

Three ways, from the outside to the inside:

    exit_on_signals()   while a program loads: nothing has started, so the process ends
    interruptible()   around a stage: raises Interrupted where the stage is, so that it cleans up
    StopRequest()     around a loop that saves: it finishes its step, saves and leaves
"""

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from electra.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class Interrupted(BaseException):
    """A request to stop. It is not an Exception, so no handler takes it for a fault."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}; run the same command to continue")


def exit_on_signals() -> None:
    """Let a signal end the process at once, from here on."""
    for number in heeded_signals():
        signal.signal(number, _leave)
    atexit.register(_done)  # the first to register is the last to be called


def restore_signals() -> None:
    """Undo `exit_on_signals`: from here on signals work as in any Python program."""
    for number in SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            )


def _leave(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"error: {Interrupted(number)}\n".encode())
    os._exit(Stopped.exit_code)


def _done() -> None:
    """Ignore signals from here on: during its shutdown the interpreter restores those that end a
    process, and by then all work is done.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.SIG_IGN)


def heeded_signals() -> list[signal.Signals]:
    """Return the signals that ask this process to stop: all but those that it was started to
    ignore.
    """
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def ignore_all() -> None:
    """Ignore requests to stop, in a process whose parent answers them."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def block_terminal_signals() -> Iterator[None]:
    """Block the signals of a terminal, which go to all its processes, in those that start in this
    block: Ctrl-C would be a traceback while Python loads. SIGTERM stays, for their parent.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS} - {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the first signal in this block raise Interrupted, and ignore later ones.

    Interrupted replaces a later error, too: compiled code may have turned it into one of its own.
    """
    interrupted: Interrupted | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = Interrupted(number)
            raise interrupted

    with _handlers(interrupt):
        try:
            yield
        except Exception:
            if interrupted:
                raise interrupted from None
            raise


@contextlib.contextmanager
def _handlers(receive: Any) -> Iterator[None]:
    """Send signals to `receive`. Do nothing outside of the main thread: Python handles none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, receive) for number in heeded_signals()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class StopRequest:
    """`with StopRequest() as stop: ... if stop: save, raise Stopped`. A signal sets it; a second
    one changes nothing.

    A signal that the block did not act on is raised again when it ends well.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._taken = contextlib.ExitStack()

    def __bool__(self) -> bool:
        return self.signal is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.signal = number

    def __enter__(self) -> "StopRequest":
        self._taken.enter_context(_handlers(self._receive))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._taken.close()
        if self.signal is not None and error is None:
            signal.raise_signal(self.signal)
