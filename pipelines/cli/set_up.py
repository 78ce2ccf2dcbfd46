"""Commands before a run: settings for your own files, and the cost of a run."""

import functools
import json
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from electra.errors import for_message
from pipelines.cli.arguments import ANY, entry, load_params

app = typer.Typer()
command = functools.partial(app.command, rich_help_panel="Set up")


class TakesSeveralFiles(TyperCommand):
    """A command with options that take every word up to the next option, as a shell expands `--text
    data/*`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its words."""
        words: list[str] = []
        option: list[str] = []
        for word in args:
            if word in {"--text", "--task"}:
                option = [word]
            elif word.startswith("-"):
                option = []
                words.append(word)
            else:
                words += [*option, word]
        return super().parse_args(ctx, words)


@command(cls=TakesSeveralFiles)
def new(
    name: Annotated[str, typer.Argument(help="name of the new entries", show_default=False)],
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES...", help="text to pre-train on: paths, folders, globs"),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES...", help="labelled rows: train, dev and perhaps test"),
    ] = None,
    a: Annotated[str, typer.Option(metavar="COLUMN", help="column of the text")] = "",
    b: Annotated[
        str, typer.Option(metavar="COLUMN", help="column of the second text of a pair")
    ] = "",
    label: Annotated[str, typer.Option(metavar="COLUMN", help="column of the label")] = "",
    encoder: Annotated[
        str, typer.Option(help="a name under encoders to pre-train (default: mini, on a GPU small)")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="continue from published weights: a folder with discriminator and generator in it",
        ),
    ] = "",
    encoding: Annotated[
        str, typer.Option(help="of text files that are not UTF-8, such as cp1251")
    ] = "",
    minutes: Annotated[
        float,
        typer.Option(min=0, max=1e6, help="of pre-training here (0: 20, on a GPU no limit)"),
    ] = 0,
    model: Annotated[
        str, typer.Option(help="to fine-tune without --text: a name under models or published")
    ] = "",
    remove: Annotated[
        bool, typer.Option("--remove", help="remove the entries of this name instead")
    ] = False,
) -> None:
    """Add your own text or labelled task to params.yaml."""
    from pipelines.cli.new import add_entries, remove_entries

    if remove:
        remove_entries(name)
        return
    report = add_entries(
        name,
        text or [],
        task or [],
        {"a": a, "b": b, "label": label},
        encoder=encoder,
        minutes=minutes,
        model=model,
        start=start,
        encoding=encoding,
    )
    print(report, end="")


@command()
def params(name: Annotated[str, entry(*ANY)] = "") -> None:
    """Check params.yaml and print every setting, defaults filled in."""
    from electra.config import to_jsonable

    params = load_params()
    settings = params.all_settings(name) if name else to_jsonable(params)
    print(json.dumps(settings, indent=2, ensure_ascii=False))


@command()
def check(
    name: Annotated[str, entry(*ANY)],
    stage: Annotated[
        list[str] | None,
        typer.Option(help="check only what this stage and those before it read; may be repeated"),
    ] = None,
) -> None:
    """Check in a second that every file of a model or ablation can be read."""
    from pipelines.preflight import check

    for line in check(name, load_params(), stage or ()):
        print(for_message(line), file=sys.stderr if line.startswith("hint: ") else sys.stdout)


@command()
def estimate(name: Annotated[str, entry(*ANY)]) -> None:
    """Estimate time, memory and disk of a model or ablation from its settings."""
    from pipelines.cli.estimate import estimate

    print(estimate(name, load_params()), end="")
