"""Commands run in this process."""

import pytest

from pipelines.cli import main


@pytest.fixture
def run_command(capsys):
    """Return a function that runs a command, which has to succeed, and returns its output."""

    def run_command(*words):
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return run_command


@pytest.fixture
def refuse(capsys):
    """A function that runs a command, which has to end with a code, and returns its sentence."""

    def refuse(code, *words):
        assert main([*map(str, words)]) == code
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1
        return error

    return refuse
