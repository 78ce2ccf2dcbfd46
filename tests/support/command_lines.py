"""Parse command lines without running anything."""

import typer

from pipelines.cli import app


def parse(words):
    """The arguments and options of a command; a TyperException for words that it refuses."""
    command = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    return command.make_context(words[0], list(words[1:])).params
