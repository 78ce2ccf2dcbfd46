"""Show progress, rate and time left of a long task: rich's bar on a terminal, otherwise a line now
and then.
"""

import contextlib
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from electra.progress import Bar

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_SECONDS = 5.0  # between two plain lines: logs are read by people
DRAW_SECONDS = 0.1  # between two drawings of the bar


class ProgressBar(Bar):
    """`with ProgressBar("tiny", total=1200, unit="steps") as progress: progress.update(done,
    loss=…)`.

    `total` 0 means unknown. `update` costs a clock reading, so it may be called at every step; a
    resumed task simply starts with a higher `done`, and rate and time left are measured from there.
    """

    def __init__(self, title: str, total: int, unit: str) -> None:
        super().__init__(title, total, unit)
        self.stream = sys.stderr  # rich puts another in its place while it draws
        self.bar = rich_bar(self.stream)
        self.done = 0
        self._numbers: dict[str, float | str] = {}
        self._first: int | None = None
        self._started = self._shown = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._first is not None:
            self._show(end=True)

    def update(self, done: int, **numbers: float | str) -> None:
        """Report that `done` units are complete. `numbers` (loss, rows, …) are shown next to
        them.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = done
            self._started = now
        self.done = done
        self._numbers |= numbers
        if now - self._shown >= (DRAW_SECONDS if self.bar is not None else PLAIN_SECONDS):
            self._shown = now
            self._show()

    def _show(self, end: bool = False) -> None:
        words = self.words(time.monotonic() - self._started)
        # a full disk or a closed terminal must not hide why the task ends
        with contextlib.suppress(OSError):
            if self.bar is None:
                self.stream.write(f"{self.title}  {words}\n")
                self.stream.flush()
            else:
                if not self.bar.tasks:
                    self.bar.add_task(self.title, total=self.total or None, words="")
                    self.bar.start()
                self.bar.update(
                    self.bar.task_ids[0], completed=self.done, words=words, refresh=True
                )
                if end:
                    self.bar.stop()

    def words(self, seconds: float) -> str:
        """Return the text next to the title, `seconds` after the first update.

        Rich's own rate covers only the last 30 seconds, and a run of fine-tuning may take minutes.
        """
        rate = (self.done - (self._first or 0)) / seconds if seconds > 0 else 0.0
        parts = [f"{self.done:,} {self.unit}"]
        if self.total > 0:
            share = min(1.0, self.done / self.total)
            parts = [f"{share:4.0%}", f"{self.done:,}/{self.total:,} {self.unit}"]
        if rate > 0:
            parts.append(f"{_short(rate)}/s")
            if self.done < self.total:
                parts.append(f"{timedelta(seconds=round((self.total - self.done) / rate))} left")
        parts += [f"{name} {_short(value)}" for name, value in self._numbers.items()]
        return "  ".join(parts)


def rich_bar(stream: TextIO) -> "Progress | None":
    """Return a bar where the stream is a terminal. It has no thread, so processes may be forked
    while it is shown.
    """
    if not stream.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=stream)
    if console.is_dumb_terminal:
        return None
    title = TextColumn("{task.description}", markup=False)
    words = TextColumn("{task.fields[words]}", markup=False)
    return Progress(title, BarColumn(24), words, console=console, auto_refresh=False)


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    for least, size, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / size:.1f}{suffix}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


MUCH = 0.05  # a larger share that is lost is worth a warning


def print_left_out(where: str, lost: int, total: int, unit: str, why: str, advice: str) -> None:
    """Print a line about rows or text that a stage skipped: their share, and `advice` (where they
    are listed, and the setting that changes it).
    """
    if lost:
        sign = "warning: " if lost > MUCH * total else ""
        print(
            f"{sign}{where}: {lost:,} of {total:,} {unit} ({lost / total:.2%}) {why}; {advice}",
            file=sys.stderr,
        )
