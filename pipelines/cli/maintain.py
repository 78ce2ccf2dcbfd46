"""Commands that keep the working folder in order, and those that DVC calls."""

import functools
from typing import Annotated, Literal

import typer

from pipelines.cli.arguments import ANY, entry, load_params

app = typer.Typer()
command = functools.partial(app.command, rich_help_panel="Maintain")


@command()
def runs(
    action: Annotated[Literal["list", "remove"], typer.Argument()] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="names in runs/ to remove")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="remove the runs that `--restart` has archived")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="remove without asking")] = False,
) -> None:
    """List the runs in runs/, or remove some."""
    from pipelines.cli import manage_runs

    if action == "remove":
        manage_runs.delete(names or [], archived=archived, sure=yes)
    else:
        print(manage_runs.table(), end="")


@command()
def sync() -> None:
    """Send MLflow the records that it has missed."""
    from pipelines.tracking import uploader

    uploader.send_all()
    print("MLflow has all records of stages that have ended")


@command(hidden=True)
def summarize(name: Annotated[str, entry(*ANY)]) -> None:
    """Copy the numbers of a model or ablation to results/, for git and `dvc metrics`."""
    from pipelines.stages.summarize import summarize

    summarize(name, load_params())


@command(hidden=True)
def code() -> None:
    """Record the digests of the code of each stage, for DVC."""
    from pipelines.stages.inputs import record_code

    record_code(load_params())


@command(hidden=True)
def inputs(
    section: Annotated[Literal["corpora", "tasks"], typer.Argument()],
    name: Annotated[str, entry("corpora", "tasks")],
) -> None:
    """Record the hashes of your own files that an entry of params.yaml names, for DVC."""
    from pipelines.stages.inputs import record_files

    params = load_params()
    params.require(section, name)
    record_files(section, name, params)
