"""The command line: `electra <command> [name]`, or `python -m pipelines` where nothing is
installed.

Each command is a function in set_up.py, train.py, use.py or maintain.py, and its docstring is its
help. Heavy imports happen when it runs. A user's mistake is one sentence on stderr and an exit
code. A bug keeps its traceback.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import electra
from electra import stopping
from electra.errors import BadConfig, BadInput, Refused, Stopped, UserError
from electra.files import write_errors
from electra.stopping import Interrupted
from pipelines.cli import maintain, processes, set_up, train, use
from pipelines.stages import STAGES

BUG = 70  # exit code
EXAMPLES = """\
\b
Examples:
  electra new mine --text 'data/*.txt'   write settings for your own text
  electra pretrain tiny                  run one stage; `dvc repro` runs all
  electra play tiny                      try a model in the browser"""

app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})
for group in (set_up, train, use, maintain):
    app.add_typer(group.app)


def print_version(is_wanted: bool) -> None:
    """Print the version and end."""
    if is_wanted:
        print(f"electra {electra.__version__}")
        raise typer.Exit


@app.callback(
    epilog=EXAMPLES,
    help="Pre-train and fine-tune ELECTRA: one command for each stage and question.",
)
def prepare(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="show the traceback of a user's mistake too")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Refuse to run in a folder that was deleted, where torch ends the process. Undo the handling
    of signals for commands that run no stage, and refuse to run them without standard output.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise BadInput(
            f"the working folder cannot be found ({error.strerror}); `cd` to the project's folder"
        ) from None
    if context.invoked_subcommand in STAGES:
        return
    stopping.restore_signals()
    if sys.stdout is None:
        raise BadInput("standard output is closed; leave it open or send it to a file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (of the process's own arguments by default) and return its exit code."""
    if arguments is None:
        arguments = sys.argv[1:]
        stopping.exit_on_signals()
        open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # programs read UTF-8; a terminal may lack a character
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    command = next((word for word in arguments if not word.startswith("-")), "electra")
    try:
        code = app(list(arguments) or ["--help"], standalone_mode=False) or 0
        if sys.stdout is not None:
            with write_errors(Path("standard output")):
                sys.stdout.flush()
        return int(code)
    except KeyboardInterrupt:
        return 130
    # completion, or how Typer ends when the reader of the output has gone
    except SystemExit as error:
        return 141 if error.code == 1 else int(error.code or 0)
    except BrokenPipeError:  # the reader of the output has gone, as `head` does
        return 141
    except (Interrupted, Exception) as error:
        if isinstance(error, typer.Abort) and not error.__cause__:  # the user answered no
            return 130
        flush_output()
        refusal = explain(command, error)
        with contextlib.suppress(OSError):  # of standard error
            if "--debug" in arguments or not refusal:
                traceback.print_exc()
            if refusal:
                processes.report(refusal)
            else:
                print("error: this is a bug; the lines above say where", file=sys.stderr)
        return refusal.exit_code if refusal else BUG
    finally:
        flush_output()


def open_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed. Otherwise the next file
    that is opened gets its number, and libraries print into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def flush_output() -> None:
    """Write the rest of the output. If that fails, discard it: Python would try again at its end,
    and replace the exit code.
    """
    for number, stream in enumerate((sys.stdout, sys.stderr), 1):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def explain(command: str, error: BaseException) -> UserError | None:
    """Return the error for the user that ended a command, or None for a bug."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, typer.TyperException):
        return BadConfig(" ".join(error.format_message().replace("Value error, ", "").split()))
    if isinstance(error, Interrupted):
        return Stopped(f"{command}: {error}")
    if isinstance(error, OSError | MemoryError):
        where = getattr(error, "filename", None) or command
        reason = getattr(error, "strerror", None) or str(error) or "out of memory"
        return Refused(
            f"{where}: the system says: {reason}; fix that and run the same command again"
        )
    return None
