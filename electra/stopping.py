"""Polite stops: a signal asks, the loop finishes its step, saves and leaves."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """`with StopRequest() as stop: ... if stop: save and raise Stopped`. SIGTERM and SIGINT set it; a second one changes nothing.

    Outside the main thread, where Python cannot take signals, it simply never becomes true.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.signal = number

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._previous = {
                number: signal.signal(number, self._receive) for number in (signal.SIGTERM, signal.SIGINT)
            }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
