"""The words of the command line: its commands, what each takes, and their help. Nothing heavy is imported."""

import argparse
import sys
from pathlib import Path
from typing import Any

import electra

DESCRIPTION = "Everything that the workflow does, one command a stage or question."
# stage -> the section of params.yaml that its names come from
STAGES = {
    "corpus": "corpora",
    "tasks": "tasks",
    "tokens": "tokens",
    "pretrain": "models",
    "published": "published",
    "glue": "finetunings",
    "squad": "finetunings",
    "ablation": "ablations",
    "report": "",
}
HELP = {
    "corpus": "gather the documents of a corpus",
    "tasks": "gather GLUE and SQuAD rows from a task source",
    "tokens": "train or load a tokenizer and pack a corpus into rows",
    "pretrain": "pre-train a model",
    "published": "take in a model that was pre-trained elsewhere",
    "glue": "fine-tune a model on the GLUE tasks, or on tasks of your own",
    "squad": "fine-tune a model on SQuAD",
    "ablation": "pre-train and fine-tune the arms of an ablation",
    "report": "draw the report of what params.yaml: run selects",
    "summary": "note the headline numbers of a model or ablation for `dvc metrics`",
    "new": "add text or a task of your own to params.yaml",
    "params": "check params.yaml and print what a run would use",
    "estimate": "tell what a model would take on a GPU, and what its experiments would take here",
    "compare": "set two models, or two runs of one, side by side",
    "predict": "let a fine-tuned model answer rows of files or of standard input",
    "play": "show a model in the browser: what it suspects, proposes and answers",
    "score": "score a file of predictions of one of a source's tasks",
    "check": "tell in a second what any stage of a model (or ablation) would refuse later",
    "inputs": "note the hashes of all own files that params.yaml names, for DVC",
    "runs": "list what lies in runs/, or remove some of it",
    "replay": "replay the step at which a model's pre-training was stopped by NaN or infinity",
    "gpu-check": "check that this machine's GPU computes what it should, and how fast: three minutes",
    "flow": "run a Prefect flow here: pretrain, finetune, ablations or workflow",
    "serve": "offer the flows of tiny as deployments from this process",
    "sync": "send MLflow what it could not be told while it was out of reach",
    "completion": "print the code that lets a shell complete these commands: source <(electra completion bash)",
}
PRINTING = {
    "completion",
    "new",
    "params",
    "estimate",
    "compare",
    "predict",
    "score",
    "check",
    "replay",
    "gpu-check",
}  # whose answer is what they print


def arg(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """One argument, as argparse takes it."""
    return names, options


_ON = "go on with the run of other settings that is there, or with one that was set aside, under these"
_ONLY = "do one arm with one seed, so that others can be done elsewhere: electra-seed1"
ARGUMENTS = {
    "params": [arg("name", nargs="?", default="", help="a model or ablation; all of params.yaml without it")],
    "new": [
        arg("name", help="what its entries are to be called"),
        arg("--text", nargs="+", default=[], metavar="FILES", help="text to pre-train on: paths, folders, globs"),
        arg("--task", nargs="+", default=[], metavar="FILE", help="labelled rows: train, dev and perhaps test"),
        arg("--a", default="", metavar="COLUMN", help="column of the text"),
        arg("--b", default="", metavar="COLUMN", help="column of the second text of a pair"),
        arg("--label", default="", metavar="COLUMN", help="column of the label"),
        arg("--encoder", default="small", help="to pre-train: a name under encoders (default: small)"),
        arg("--model", default="tiny", help="to fine-tune without --text: under models or published (default: tiny)"),
    ],
    "completion": [arg("shell", choices=["bash", "zsh"])],
    "flow": [
        arg("flow", choices=["pretrain", "finetune", "ablations", "workflow"]),
        arg("name", help="a model in params.yaml"),
    ],
    "predict": [
        arg("model", help="folder of a fine-tuned model, of this project or of transformers"),
        arg("files", nargs="*", default=["-"], help="TSV, JSONL or text files; - is standard input"),
        arg("--output", help="a JSONL file instead of standard output"),
    ],
    "play": [
        arg("model", nargs="?", help="a model in params.yaml, or a folder of models"),
        arg("--port", type=int, default=8008, help="default: 8008; 0 takes any that is free"),
        arg("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone"),
        arg("--remote", action="store_true", help="let --host be an address that others can reach"),
    ],
    "score": [
        arg("name", help="a name under tasks in params.yaml"),
        arg("task", help="one of its tasks: cola, squad2, ..."),
        arg("predictions", help="JSONL, the leaderboard's TSV or SQuAD's JSON"),
        arg("--split", default="dev", help="the rows that were predicted (default: dev)"),
    ],
    "compare": [
        arg(side, help="a model, a folder with its results, or REVISION:MODEL") for side in ("first", "second")
    ],
    "runs": [
        arg("action", nargs="?", choices=["list", "remove"], default="list"),
        arg("runs", nargs="*", metavar="RUN", help="names in runs/ to remove"),
        arg("--yes", action="store_true", help="remove without a question"),
    ],
    "gpu-check": [
        arg("--device", choices=["cpu", "cuda"], help="default: the GPU, or without one the CPU"),
        arg("--output", default="runs/gpu-check.json", help="default: runs/gpu-check.json"),
        arg("--seconds", type=float, default=180, help="start nothing more after so long (default: 180)"),
    ],
    "ablation": [
        arg("name", help="a name under ablations in params.yaml"),
        arg("--only", default="", metavar="ARM", help=_ONLY),
    ],
    "pretrain": [
        arg("name", help="a name under models in params.yaml"),
        arg("--nproc-per-node", metavar="N", help="processes on this machine, one for each GPU"),
        arg("--nnodes", metavar="K", help="machines, each given the same command"),
        arg("--rdzv-endpoint", metavar="HOST:PORT", help="where they meet: on the first machine"),
        arg("--max-restarts", metavar="N", help="times that all processes begin again when one dies"),
        arg("--continue", dest="origin", nargs="?", const="", metavar="RUN", help=_ON),
    ],
} | {command: [] for command in ("report", "serve", "inputs", "sync")}


def parser() -> argparse.ArgumentParser:
    """The command line; building it imports nothing heavy."""
    installed = Path(sys.argv[0]).name == "electra"
    result = argparse.ArgumentParser(prog="electra" if installed else "python -m pipelines", description=DESCRIPTION)
    result.add_argument("--version", action="version", version=f"electra {electra.__version__}")
    commands = result.add_subparsers(dest="command", required=True, metavar="command")
    for command, text in HELP.items():
        sub = commands.add_parser(command, help=text, description=text)
        section = STAGES.get(command) or "models or ablations"
        for names, options in ARGUMENTS.get(command, [arg("name", help=f"a name under {section} in params.yaml")]):
            sub.add_argument(*names, **options)
        if not ARGUMENTS.get(command, ["name"]):
            sub.set_defaults(name="")
        sub.add_argument("--debug", action="store_true", help="show the traceback of a user's mistake, too")
    return result
