"""What a person sees of a long task."""

import io
import re
import sys

import pytest

from pipelines.stages import progress_bar
from pipelines.stages.progress_bar import ProgressBar, print_left_out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def test_a_log_gets_a_line_every_few_seconds_and_a_last_one(clock: list[float]) -> None:
    stream = io.StringIO()
    with ProgressBar("tiny", 100, "steps", stream) as bar:
        for step in range(1, 101):
            clock[0] += 0.125
            bar.update(step, loss=2.5 / step)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "\r" not in stream.getvalue()
    assert lines[0] == "tiny   40%  40/100 steps  8/s  0:00:08 left  loss 0.0625"
    assert lines[2].startswith("tiny  100%  100/100 steps  8/s")


def test_a_terminal_gets_one_line_that_is_drawn_again(clock: list[float]) -> None:
    stream = Terminal()
    with ProgressBar("tiny", 100, "steps", stream) as bar:
        for step in range(1, 101):
            clock[0] += 0.1001
            bar.update(step)
    text = stream.getvalue()
    assert text.count("\r\x1b[2K") >= 100 and text.count("\n") == 1 and "━" in text
    assert "100%  100/100 steps  9.99/s" in text.rpartition("\r")[2]


def test_what_is_printed_meanwhile_stands_above_the_bar(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressBar("tiny", 2, "steps") as bar:
        clock[0] += 1
        bar.update(1)
        print("saved step 1", file=sys.stderr)
        clock[0] += 1
        bar.update(2)
    assert sys.stderr is stream
    *_, above, last, end = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).split("\n")
    assert (
        above.endswith("\rsaved step 1") and last.split("\r")[-1].startswith("tiny ━") and end == ""
    )


def test_a_terminal_that_cannot_go_back_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setenv("TERM", "dumb")
    with ProgressBar("tiny", 2, "steps", stream) as bar:
        bar.update(2)
    assert stream.getvalue() == "tiny  100%  2/2 steps\n"


def test_a_resumed_task_measures_its_rate_from_where_it_began(clock: list[float]) -> None:
    bar = ProgressBar("tiny", 1000, "steps", io.StringIO())
    bar.update(900)
    clock[0] += 10
    bar.update(950)
    assert bar.words(10.0) == " 95%  950/1,000 steps  5/s  0:00:10 left"


def test_an_unknown_total_shows_the_count(clock: list[float]) -> None:
    bar = ProgressBar("rows", 0, "rows", io.StringIO())
    bar.update(0)
    bar.update(25_000, task="rte", seen=3_000_000)
    assert bar.words(2.0) == "25,000 rows  12.5k/s  task rte  seen 3.0M"


def test_nothing_is_written_when_nothing_was_done() -> None:
    stream = io.StringIO()
    with ProgressBar("tiny", 10, "steps", stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("lost", "line"),
    [
        (0, ""),
        (5, "corpora.x: 5 of 100 rows (5.00%) cannot be read; see q.jsonl\n"),
        (6, "warning: corpora.x: 6 of 100 rows (6.00%) cannot be read; see q.jsonl\n"),
    ],
)
def test_skipped_rows_are_one_line_and_a_warning_above_five_percent(
    lost: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_left_out("corpora.x", lost, 100, "rows", "cannot be read", "see q.jsonl")
    assert capsys.readouterr().err == line
