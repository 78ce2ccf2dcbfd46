"""Commands that use trained models."""

import functools
import json
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.arguments import entry

app = typer.Typer()
command = functools.partial(app.command, rich_help_panel="Use")


@command()
def predict(
    model: Annotated[
        Path,
        typer.Argument(help="folder of a fine-tuned model, of this project or of transformers"),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(help="TSV, JSONL or text files; - or none is standard input"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="a JSONL file instead of standard output")
    ] = None,
) -> None:
    """Predict with a fine-tuned model, for rows of files or of standard input."""
    from pipelines.cli.predict import predict

    predict(model, files or ["-"], output)


@command()
def score(
    name: Annotated[str, entry("tasks")],
    task: Annotated[str, typer.Argument(help="one of its tasks: cola, squad2, ...")],
    predictions: Annotated[
        Path, typer.Argument(help="JSONL, the leaderboard's TSV or SQuAD's JSON")
    ],
    split: Annotated[str, typer.Option(help="the split that was predicted")] = "dev",
) -> None:
    """Score a file of predictions on a task."""
    from pipelines.cli.predict import score

    print(json.dumps(score(Path("build/tasks") / name, task, predictions, split)))


@command()
def card(
    folder: Annotated[Path, typer.Argument(help="folder of a model in build/")],
    output: Annotated[Path | None, typer.Option(help="a file instead of standard output")] = None,
) -> None:
    """Write a model's card for a hub, with the commit, date and minutes of its run here."""
    from electra.errors import BadInput
    from electra.files import write_user_file
    from electra.storage.manifest import CARD
    from pipelines.stages.cards import with_run

    if not all((folder / name).is_file() for name in (CARD, "config.json")):
        raise BadInput(
            f"{folder}: holds no model with a card; name the folder of a model in build/"
        )
    text = with_run(folder / CARD)
    if output:
        write_user_file(output, text)
    else:
        print(text, end="")


@command()
def play(
    model: Annotated[str, entry("models", "published", "finetunings")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port")] = 8008,
) -> None:
    """Try a model in the browser: replaced tokens, proposals, answers."""
    from pipelines.cli.play import serve

    serve(model, port)
