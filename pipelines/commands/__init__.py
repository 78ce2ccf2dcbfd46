"""The commands beside the stages, one file each, and the table that `pipelines/cli.py` fills with all of them.

@command("use", Argument("model", help="a folder"))
def play(options):
    \"""Try a model in the browser.\"""      its name and its line in --help
"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import electra
from electra.config import nearest
from electra.errors import Refused, SourceUnreachable, Stopped, UserError
from electra.stopping import Interrupted

DESCRIPTION = "Pre-train and fine-tune ELECTRA; one command for each stage and question."
EXAMPLES = """\
examples:
  electra new mine --text 'data/*.txt'   settings for your own text
  electra pretrain tiny                  one stage; `dvc repro` runs all that are not up to date
  electra play tiny                      try a model in the browser"""
HIDDEN = ("completion", "inputs", "published", "replay", "summary", "sync")  # from the first page of help
GUESSED = {"train": "pretrain", "fine-tune": "finetune", "init": "new", "doctor": "gpu-check", "eval": "score"}
GROUPS = ("set up", "train", "use", "maintain")
# A shell function that lists the names in sections of ./params.yaml: Python would take longer to start.
NAMES = """\
_electra_names() {
  [ -r params.yaml ] && awk -v wanted=" $* " '
    /^[^ #]/ { section = $1; sub(/:.*/, "", section) }
    /^  [^ #-]/ && index(wanted, " " section " ") { name = $1; sub(/:.*/, "", name); print name }' params.yaml
}"""


class Argument:
    """An argument of a command, as argparse takes it.

    `offers` is what a shell completes it to: the words that a shell command prints, or `file`.
    """

    def __init__(self, *names: str, offers: str = "", **settings: Any) -> None:
        self.names, self.offers, self.settings = names, offers, settings


def entry(sections: str, **settings: Any) -> Argument:
    """The argument `name`: an entry of one of these sections of params.yaml."""
    *first, last = sections.split()
    where = f"{', '.join(first)} or {last}" if first else last
    return Argument("name", help=f"a name under {where}", offers=f"_electra_names {sections}", **settings)


Run = Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True)
class Command:
    """A command; `section` of params.yaml holds the names of a stage, "" of one without names, None of no stage."""

    group: str
    help: str
    run: Run
    arguments: tuple[Argument, ...]
    section: str | None = None


COMMANDS: dict[str, Command] = {}


def command(group: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Add the decorated function as a command, under its name and with the first line of its docstring as help."""

    def add(run: Run) -> Run:
        help = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
        COMMANDS[run.__name__.replace("_", "-")] = Command(group, help, run, arguments)
        return run

    return add


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a misspelt command with the one that was meant."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and a sentence."""
        if found := re.match(r"argument command: invalid choice: '([^']*)'", message):
            wish = found[1]
            close = f"did you mean {GUESSED[wish]}?" if wish in GUESSED else nearest(wish, COMMANDS)
            message = f"there is no command {wish!r}; {close or f'`{self.prog} --help` lists them'}"
        super().error(message)


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The argument parser of all commands; `prog` is the program's name in usage lines."""
    prog = prog or ("electra" if Path(sys.argv[0]).name == "electra" else "python -m pipelines")
    plain = argparse.RawDescriptionHelpFormatter
    result = Parser(prog=prog, description=DESCRIPTION, epilog=EXAMPLES, formatter_class=plain)
    result.add_argument("--version", action="version", version=f"electra {electra.__version__}")
    commands = result.add_subparsers(dest="command", metavar="command", title="commands", parser_class=Parser)
    for name, each in COMMANDS.items():
        first, rest = each.help[0], each.help[1:]
        sub = commands.add_parser(name, help=first.lower() + rest, description=f"{first.upper()}{rest}.")
        sub.set_defaults(name="")
        for argument in each.arguments:
            action = sub.add_argument(*argument.names, **argument.settings)
            if argument.offers:
                vars(action)["complete"] = _completion(argument.offers)  # for shtab
        sub.add_argument("--debug", action="store_true", help="show the traceback of a user's mistake too")
    lines = {action.dest: action for action in commands._get_subactions()}
    for group in GROUPS:  # argparse itself lists all commands below one title
        names = (name for name, each in COMMANDS.items() if each.group == group and name not in HIDDEN)
        result.add_argument_group(group)._group_actions.extend(lines[name] for name in names)
    assert result._subparsers is not None
    result._subparsers._group_actions.clear()
    return result


def _completion(offers: str) -> Any:
    if offers == "file":
        return offers
    function = f"_electra_{re.sub(r'[^a-z]+', '_', offers)}"
    bash = f'{function}() {{ compgen -W "$({offers})" -- "$1"; }}'
    return {"bash": function, "zsh": f"{{compadd -- \\$({offers})}}", "preamble": {"bash": bash}}


def refusal(command: str, error: BaseException) -> UserError | None:
    """What ended a command as a sentence for the user; None for a bug.

    A package is lacking in a Python that is not ours: `.venv/bin/dvc repro` finds it if no environment is active.
    """
    if isinstance(error, UserError):
        return error
    if isinstance(error, Interrupted):
        return Stopped(command, str(error))
    if isinstance(error, OSError | MemoryError):
        where = getattr(error, "filename", None) or command
        found = getattr(error, "strerror", None) or str(error) or "out of memory"
        return Refused(where, f"the system says: {found}", do="fix that and run the same command again")
    package = (getattr(error, "name", "") or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package in {"", "electra", "pipelines"}:
        return None
    do = "`source .venv/bin/activate`, which `make setup` makes, and run the same command again"
    return SourceUnreachable(sys.executable, f"has no package {package}", "the project's environment", do)
