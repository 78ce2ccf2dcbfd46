"""Signals before, around and inside of a program's work."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from electra.stopping import (
    SIGNALS,
    Interrupted,
    StopRequest,
    block_terminal_signals,
    interruptible,
)
from tests.support.project import ROOT, run


@pytest.fixture(autouse=True)
def handlers():
    """The test process's own handlers are back after each test."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


@pytest.mark.parametrize("number", ["TERM", "INT", "HUP", "USR1"])
def test_the_first_signal_interrupts_and_the_second_does_not_disturb(number):
    number = signal.Signals[f"SIG{number}"]
    cleaned = False
    with pytest.raises(Interrupted, match=f"stopped by signal {number}"), interruptible():
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            cleaned = True
    assert cleaned


def test_a_signal_that_a_library_turns_into_its_own_error_still_interrupts():
    with pytest.raises(Interrupted), interruptible():
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            raise ValueError("not a valid buffer") from None  # as numpy does in compiled code
    with pytest.raises(ValueError, match="own"), interruptible():
        raise ValueError("own")


def test_a_request_that_nobody_heeded_is_handed_on():
    with pytest.raises(Interrupted), interruptible(), StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop and stop.signal == signal.SIGTERM
    with pytest.raises(ValueError, match="own"), interruptible(), StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("own")  # whoever leaves with an error has been told


def test_signals_of_a_terminal_are_blocked_and_those_of_a_parent_are_not():
    with block_terminal_signals():
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {*SIGNALS} - {signal.SIGTERM}
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_signal_that_the_caller_ignores_stays_ignored():
    """As SIGHUP under nohup."""
    code = "import os, signal; from electra.stopping import exit_on_signals, restore_signals\n"
    code += "signal.signal(signal.SIGHUP, signal.SIG_IGN); exit_on_signals()\n"
    code += "os.kill(os.getpid(), signal.SIGHUP); restore_signals()\n"
    code += "print(signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGUSR1))"
    assert run(ROOT, "-c", code).stdout == "1 0\n"


def test_outside_of_the_main_thread_nothing_changes():
    def work():
        with interruptible(), StopRequest() as stop:
            return bool(stop)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result() is False


@pytest.mark.parametrize(
    "module, number",
    [
        ("pipelines.cli.processes", signal.SIGTERM),
        ("pipelines.stages.corpus", signal.SIGTERM),
        ("numpy", signal.SIGINT),
    ],
)
def test_a_signal_during_the_imports_of_a_stage_is_an_answer(project, module, number):
    code = (
        "import importlib.abc, os, runpy, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['pipelines', 'corpus', 'smoke']\n"
        "runpy.run_module('pipelines', run_name='__main__', alter_sys=True)\n"
    )
    sentence = f"stopped by signal {int(number)}; run the same command to continue\n"
    stderr = run(project, "-c", code, code=75).stderr
    assert stderr in (f"error: {sentence}", f"error: corpus: {sentence}")


def test_other_commands_take_signals_as_usual():
    code = (
        "import runpy, signal, sys\n"
        "sys.argv = ['pipelines', 'params', 'tiny']\n"
        "try:\n    runpy.run_module('pipelines', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGINT).__name__)\n"
    )
    assert run(ROOT, "-c", code).stdout.splitlines()[-1] == "True default_int_handler"


@pytest.mark.parametrize("number", SIGNALS)
def test_what_is_ignored_from_the_start_stays_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with interruptible(), StopRequest() as stop:
            signal.raise_signal(number)
            assert not stop
    finally:
        signal.signal(number, before)


def test_a_signal_after_all_work_is_done_changes_nothing():
    code = (
        "import os, signal\n"
        "from electra import stopping\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"  # as nohup does
        "stopping.exit_on_signals()\n"
        "signal.raise_signal(signal.SIGHUP)\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, own=os.getpid()): kill(own, 15); print('alive', flush=True)\n"
        "last = Last()\n"  # goes with the interpreter
    )
    done = run(ROOT, "-c", code)
    assert (done.stdout, done.stderr) == ("alive\n", "")
