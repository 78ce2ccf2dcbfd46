"""The progress of a long task, as a person sees it."""

import io
import re
import sys

import pytest

from pipelines.stages.progress_bar import ProgressBar, print_left_out


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def use_terminal(monkeypatch, kind):
    """Put a terminal in the place of standard error (here, since pytest does after fixtures)."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", kind)
    return stream


def test_a_log_gets_a_line_every_few_seconds_and_a_last_one(clock, capsys):
    with ProgressBar("tiny", 100, "steps") as bar:
        for step in range(1, 101):
            clock[0] += 0.125
            bar.update(step, loss=2.5 / step)
    with ProgressBar("nothing was done", 10, "steps"):
        pass
    text = capsys.readouterr().err
    lines = text.splitlines()
    assert len(lines) == 3 and "\r" not in text
    assert lines[0] == "tiny   40%  40/100 steps  8/s  0:00:08 left  loss 0.0625"
    assert lines[2].startswith("tiny  100%  100/100 steps  8/s")


def test_a_terminal_gets_one_line_that_is_drawn_again_below_what_is_printed(clock, monkeypatch):
    terminal = use_terminal(monkeypatch, "xterm")
    with ProgressBar("tiny", 100, "steps") as bar:
        for step in range(1, 101):
            clock[0] += 0.1001
            bar.update(step)
            if step == 99:
                print("saved step 99", file=sys.stderr)
    assert sys.stderr is terminal and terminal.getvalue().count("\r\x1b[2K") >= 100
    *_, above, last, end = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).split("\n")
    assert above.endswith("\rsaved step 99") and end == ""
    assert last.split("\r")[-1].startswith("tiny ━")
    assert "100%  100/100 steps  9.99/s" in last


def test_a_terminal_that_cannot_go_back_gets_lines(monkeypatch):
    terminal = use_terminal(monkeypatch, "dumb")
    with ProgressBar("tiny", 2, "steps") as bar:
        bar.update(2)
    assert terminal.getvalue() == "tiny  100%  2/2 steps\n"


def test_a_resumed_task_measures_its_rate_from_where_it_began():
    bar = ProgressBar("tiny", 1000, "steps")
    bar.update(900)
    bar.update(950)
    assert bar.words(10.0) == " 95%  950/1,000 steps  5/s  0:00:10 left"


def test_an_unknown_total_shows_the_count():
    bar = ProgressBar("rows", 0, "rows")
    bar.update(0)
    bar.update(20_000, task="rte", seen=3_000_000)
    assert bar.words(2.0) == "20,000 rows  10.0k/s  task rte  seen 3.0M"


@pytest.mark.parametrize(
    "lost, line",
    [
        (0, ""),
        (5, "corpora.x: 5 of 100 rows (5.00%) cannot be read; see q.jsonl\n"),
        (6, "warning: corpora.x: 6 of 100 rows (6.00%) cannot be read; see q.jsonl\n"),
    ],
)
def test_skipped_rows_are_one_line_and_a_warning_above_five_percent(lost, line, capsys):
    print_left_out("corpora.x", lost, 100, "rows", "cannot be read", "see q.jsonl")
    assert capsys.readouterr().err == line
