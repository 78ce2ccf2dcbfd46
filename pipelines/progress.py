"""How far a long task is, how fast, and how long it will take: a bar on a terminal, else a plain line now and then."""

import contextlib
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from electra.progress import Bar

BAR_WIDTH = 24
PLAIN_SECONDS = 5.0  # between two plain lines: logs are read by people
DRAW_SECONDS = 0.1  # between two drawings of the bar


class ProgressBar(Bar):
    """`with Progress("tiny", total=1200, unit="steps") as progress: progress.update(done, loss=…)`.

    `total` 0 means unknown. `update` costs a clock reading, so it may be called at every step; a resumed task simply
    starts with a higher `done`, and rate and time left are measured from there.
    """

    def __init__(self, title: str, total: int, unit: str, stream: TextIO | None = None) -> None:
        super().__init__(title, total, unit)
        self.stream = stream if stream is not None else sys.stderr
        self.terminal = self.stream.isatty()
        self.done = 0
        self._numbers: dict[str, float | str] = {}
        self._first: int | None = None
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        self._started = self._shown = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._first is not None:
            self._show("\n" if self.terminal else "")

    def update(self, done: int, **numbers: float | str) -> None:
        """Tell that `done` units are complete; `numbers` (loss, rows, …) are shown beside them."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._started = done, now
        self.done, self._numbers = done, {**self._numbers, **numbers}
        if now - self._shown >= (DRAW_SECONDS if self.terminal else PLAIN_SECONDS):
            self._shown = now
            self._show()

    def _show(self, end: str = "") -> None:
        line = self.line(time.monotonic() - self._started)
        with contextlib.suppress(OSError):  # a log on a full disk must not hide why the task ends
            self.stream.write((f"\r\x1b[2K{line}" if self.terminal else line + "\n") + end)
            self.stream.flush()

    def line(self, seconds: float) -> str:
        """The line to show when `seconds` have passed since the first update."""
        parts = [self.title]
        if self.total > 0:
            share = min(1.0, self.done / self.total)
            if self.terminal:
                filled = round(share * BAR_WIDTH)
                parts.append("━" * filled + "╌" * (BAR_WIDTH - filled))
            parts.append(f"{share:4.0%}  {self.done:,}/{self.total:,} {self.unit}")
        else:
            parts.append(f"{self.done:,} {self.unit}")
        rate = (self.done - (self._first or 0)) / seconds if seconds > 0 else 0.0
        if rate > 0:
            parts.append(f"{_short(rate)}/s")
            if self.done < self.total:
                parts.append(f"{_clock((self.total - self.done) / rate)} left")
        parts += [f"{name} {_short(value)}" for name, value in self._numbers.items()]
        return "  ".join(parts)


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == 'k' else size):.1f}{suffix}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


MUCH = 0.05  # a larger share that is lost is worth a warning


def tell_loss(where: str, lost: int, total: int, unit: str, why: str, more: str) -> None:
    """One line about what a stage left out: its share, and `more` (where it is noted, what changes it)."""
    if lost:
        sign = "warning: " if lost > MUCH * total else ""
        said = f"{lost:,} of {total:,} {unit} ({lost / total:.2%}) {why}"
        print(f"{sign}{where}: {said}; {more}", file=sys.stderr)
