"""The command line as data: each command, what it takes, and their help. Nothing heavy is imported."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electra

DESCRIPTION = "Everything that the workflow does, one command a stage or question."


class Argument:
    """One argument of a command, as argparse takes it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names, self.settings = names, settings


@dataclass(frozen=True)
class Command:
    """`prints`: its answer is what it prints; `section`: where in params.yaml a stage's name stands, "" for nowhere."""

    help: str
    arguments: tuple[Argument, ...] = ()
    prints: bool = False
    section: str | None = None


def stage(help: str, section: str, *more: Argument) -> Command:
    """A stage of the workflow."""
    name = (Argument("name", help=f"a name under {section} in params.yaml"),) if section else ()
    return Command(help, (*name, *more), section=section)


ANY = Argument("name", help="a name under models or ablations in params.yaml")
PROCESSES = (
    Argument("--nproc-per-node", metavar="N", help="processes on this machine, one for each GPU"),
    Argument("--nnodes", metavar="K", help="machines, each given the same command"),
    Argument("--rdzv-endpoint", metavar="HOST:PORT", help="where they meet: on the first machine"),
    Argument("--max-restarts", metavar="N", help="times that all processes begin again when one dies"),
    Argument(
        "--continue",
        dest="origin",
        nargs="?",
        const="",
        metavar="RUN",
        help="start from the newest checkpoint of this model's other run, or of the run RUN, with these settings",
    ),
)
RESTART = Argument("--restart", action="store_true", help="archive what this run has saved, and begin anew")
ONE_ARM = Argument(
    "--only",
    default="",
    metavar="ARM",
    help="do one arm with one seed, so that others can be done elsewhere: electra-seed1",
)
ENTRIES = (
    Argument("name", help="what its entries are to be called"),
    Argument("--text", nargs="+", default=[], metavar="FILES", help="text to pre-train on: paths, folders, globs"),
    Argument("--task", nargs="+", default=[], metavar="FILE", help="labelled rows: train, dev and perhaps test"),
    Argument("--a", default="", metavar="COLUMN", help="column of the text"),
    Argument("--b", default="", metavar="COLUMN", help="column of the second text of a pair"),
    Argument("--label", default="", metavar="COLUMN", help="column of the label"),
    Argument("--encoder", default="small", help="to pre-train: a name under encoders (default: small)"),
    Argument("--model", default="tiny", help="to fine-tune without --text: under models or published (default: tiny)"),
)
COMMANDS = {
    "corpus": stage("gather the documents of a corpus", "corpora", RESTART),
    "tasks": stage("gather GLUE and SQuAD rows from a task source", "tasks"),
    "tokens": stage("train or load a tokenizer and pack a corpus into rows", "tokens", RESTART),
    "pretrain": stage("pre-train a model", "models", *PROCESSES, RESTART),
    "published": stage("take in a model that was pre-trained elsewhere", "published"),
    "glue": stage("fine-tune a model on the GLUE tasks, or on tasks of your own", "finetunings"),
    "squad": stage("fine-tune a model on SQuAD", "finetunings"),
    "ablation": stage("pre-train and fine-tune the arms of an ablation", "ablations", ONE_ARM),
    "report": stage("draw the report of what params.yaml: run selects", ""),
    "summary": Command("note the headline numbers of a model or ablation for `dvc metrics`", (ANY,)),
    "new": Command("add text or a task of your own to params.yaml", ENTRIES, prints=True),
    "params": Command(
        "check params.yaml and print what a run would use",
        (Argument("name", nargs="?", default="", help="a model or ablation; all of params.yaml without it"),),
        prints=True,
    ),
    "estimate": Command(
        "tell what a model would take on a GPU, and what its ablations would take here", (ANY,), prints=True
    ),
    "compare": Command(
        "set two models, or two runs of one, side by side",
        tuple(
            Argument(side, help="a model, a folder with its results, or REVISION:MODEL") for side in ("first", "second")
        ),
        prints=True,
    ),
    "predict": Command(
        "let a fine-tuned model answer rows of files or of standard input",
        (
            Argument("model", help="folder of a fine-tuned model, of this project or of transformers"),
            Argument("files", nargs="*", default=["-"], help="TSV, JSONL or text files; - is standard input"),
            Argument("--output", help="a JSONL file instead of standard output"),
        ),
        prints=True,
    ),
    "play": Command(
        "show a model in the browser: what it suspects, proposes and answers",
        (
            Argument("model", nargs="?", help="a model in params.yaml, or a folder of models"),
            Argument("--port", type=int, default=8008, help="default: 8008; 0 takes any that is free"),
            Argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone"),
            Argument("--remote", action="store_true", help="let --host be an address that others can reach"),
        ),
    ),
    "score": Command(
        "score a file of predictions of one of a source's tasks",
        (
            Argument("name", help="a name under tasks in params.yaml"),
            Argument("task", help="one of its tasks: cola, squad2, ..."),
            Argument("predictions", help="JSONL, the leaderboard's TSV or SQuAD's JSON"),
            Argument("--split", default="dev", help="the rows that were predicted (default: dev)"),
        ),
        prints=True,
    ),
    "check": Command(
        "tell in a second what any stage of a model (or ablation) would refuse later", (ANY,), prints=True
    ),
    "inputs": Command(
        "record the hashes of the files that an entry of params.yaml names as own data, for DVC",
        (
            Argument("section", choices=["corpora", "tokens", "tasks"], help="where the entry stands"),
            Argument("name", help="its name"),
        ),
    ),
    "runs": Command(
        "list what lies in runs/, or remove some of it",
        (
            Argument("action", nargs="?", choices=["list", "remove"], default="list"),
            Argument("runs", nargs="*", metavar="RUN", help="names in runs/ to remove"),
            Argument("--yes", action="store_true", help="remove without a question"),
        ),
    ),
    "clean": Command(
        "remove the runs that were archived: finished by earlier code, or begun anew",
        (Argument("--yes", action="store_true", help="remove without a question"),),
    ),
    "replay": Command(
        "replay the step at which a model's pre-training was stopped by NaN or infinity", (ANY,), prints=True
    ),
    "gpu-check": Command(
        "check that this machine's GPU computes what it should, and how fast: three minutes",
        (
            Argument("--device", choices=["cpu", "cuda"], help="default: the GPU, or without one the CPU"),
            Argument("--output", default="runs/gpu-check.json", help="default: runs/gpu-check.json"),
            Argument("--seconds", type=float, default=180, help="start nothing more after so long (default: 180)"),
        ),
        prints=True,
    ),
    "flow": Command(
        "run a Prefect flow here: pretrain, finetune, ablations or workflow",
        (
            Argument("flow", choices=["pretrain", "finetune", "ablations", "workflow"]),
            Argument("name", help="a model in params.yaml"),
            Argument("--settings", metavar="FILE", help="YAML laid over params.yaml, in a checkout of the run's own"),
        ),
    ),
    "serve": Command("offer the flows of tiny as deployments from this process"),
    "sync": Command("send MLflow what it could not be told while it was out of reach"),
    "completion": Command(
        "print the code that lets a shell complete these commands: source <(electra completion bash)",
        (Argument("shell", choices=["bash", "zsh"]),),
        prints=True,
    ),
}
STAGES = {name: command.section for name, command in COMMANDS.items() if command.section is not None}


def parser() -> argparse.ArgumentParser:
    """The command line; building it imports nothing heavy."""
    installed = Path(sys.argv[0]).name == "electra"
    result = argparse.ArgumentParser(prog="electra" if installed else "python -m pipelines", description=DESCRIPTION)
    result.add_argument("--version", action="version", version=f"electra {electra.__version__}")
    commands = result.add_subparsers(dest="command", required=True, metavar="command")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        sub.set_defaults(name="")
        for argument in command.arguments:
            sub.add_argument(*argument.names, **argument.settings)
        sub.add_argument("--debug", action="store_true", help="show the traceback of a user's mistake, too")
    return result
