"""Commands run in this process."""

import shlex

import pytest

from pipelines.cli import main


@pytest.fixture
def run_command(capsys):
    """Return a function that runs a command line, which has to succeed, and returns its output."""

    def run_command(line):
        assert main(shlex.split(line)) == 0
        return capsys.readouterr().out

    return run_command


@pytest.fixture
def refuse(capsys):
    """Return a function that runs a command line, which has to end with a code and a sentence, and
    returns the sentence.
    """

    def refuse(code, line):
        assert main(shlex.split(line)) == code
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1
        return error

    return refuse
