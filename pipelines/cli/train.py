"""Commands that train: one for each stage of the pipeline, and Prefect's flows."""

import functools
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from pipelines.cli.arguments import entry, load_params
from pipelines.stages import STAGES, Stage

app = typer.Typer()
command = functools.partial(app.command, rich_help_panel="Train")
Restart = Annotated[
    bool, typer.Option("--restart", help="archive what this run has saved, and start over")
]


class TakesRunOrNothing(TyperCommand):
    """A command with `--continue`, which may be followed by a run or stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give an option that stands alone an empty value."""
        following = [*args, "--"][1:]
        words = [
            f"{word}=" if word == "--continue" and after.startswith("-") else word
            for word, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, words)


def add_stage(stage: Stage) -> None:
    """Add the command of a stage. Pre-training has options of its own."""
    cls = TakesRunOrNothing if stage.name == "pretrain" else None
    help = f"{stage.help[0].upper()}{stage.help[1:]}."
    add = command(stage.name, help=help, cls=cls, hidden=stage.name == "published")
    if stage.name == "pretrain":
        add(pretrain)
    elif stage.restarts:

        @add
        def run_or_restart(
            name: Annotated[str, entry(stage.section)], restart: Restart = False
        ) -> int:
            return run_stage(stage.name, name, restart=restart)
    elif stage.section:

        @add
        def run_entry(name: Annotated[str, entry(stage.section)]) -> int:
            return run_stage(stage.name, name)
    else:

        @add
        def run(name: Annotated[str, entry("finetunings")] = "") -> int:
            return run_stage(stage.name, name)


def run_stage(stage: str, name: str, **options: Any) -> int:
    """Run a stage. Its imports take seconds."""
    from pipelines.cli import run_stage

    return run_stage.run(stage, name, **options)


def pretrain(
    name: Annotated[str, entry("models")],
    nproc_per_node: Annotated[
        int,
        typer.Option(
            min=1, max=256, envvar="PET_NPROC_PER_NODE", help="processes here, one for each GPU"
        ),
    ] = 1,
    nnodes: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            envvar="PET_NNODES",
            help="number of machines; run the same command on each",
        ),
    ] = 1,
    rdzv_endpoint: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            envvar="PET_RDZV_ENDPOINT",
            help="address and free port of the first machine",
        ),
    ] = "",
    max_restarts: Annotated[
        int,
        typer.Option(
            min=0,
            max=10_000,
            envvar="PET_MAX_RESTARTS",
            help="restarts of all processes after one has died",
        ),
    ] = 0,
    origin: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="[RUN]",
            help="start with these settings from the newest checkpoint of this model's other run, "
            "or of RUN",
        ),
    ] = None,
    restart: Restart = False,
) -> int:
    """Pre-train a model."""
    launch = {
        "nproc_per_node": nproc_per_node,
        "nnodes": nnodes,
        "max_restarts": max_restarts,
        "rdzv_endpoint": rdzv_endpoint,
    }
    return run_stage("pretrain", name, launch=launch, origin=origin, restart=restart)


for stage in STAGES.values():
    add_stage(stage)


@command()
def finetune(name: Annotated[str, entry("finetunings")]) -> int:
    """Fine-tune a model on all its tasks: GLUE and SQuAD, or your own."""
    params = load_params()
    params.require("finetunings", name)
    stages = ("glue", "squad") if params.squad_versions(name) else ("glue",)
    for stage in stages:
        if code := run_stage(stage, name):
            return code
    return 0


@command()
def flow(
    flow: Annotated[Literal["pretrain", "finetune", "ablations", "workflow"], typer.Argument()],
    name: Annotated[str, entry("models")],
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML laid over params.yaml, in a separate checkout"),
    ] = None,
) -> int:
    """Run a Prefect flow in this process."""
    from pipelines import flows
    from pipelines.config.params import load
    from pipelines.config.settings_file import read

    load(over=settings).require("models", name)
    return flows.start(flow, name, read(settings) if settings else {})
