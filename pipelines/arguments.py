"""The words of the command line: its commands, what each takes, and their help. Nothing heavy is imported."""

import argparse
import sys
from pathlib import Path

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


def parser() -> argparse.ArgumentParser:
    """The command line; building it imports nothing heavy."""
    installed = Path(sys.argv[0]).name == "electra"
    result = argparse.ArgumentParser(prog="electra" if installed else "python -m pipelines", description=DESCRIPTION)
    result.add_argument("--version", action="version", version=f"electra {electra.__version__}")
    commands = result.add_subparsers(dest="command", required=True, metavar="command")
    for command, text in HELP.items():
        sub = commands.add_parser(command, help=text, description=text)
        if command == "params":
            sub.add_argument("name", nargs="?", default="", help="a model or ablation; all of params.yaml without it")
        elif command == "new":
            sub.add_argument("name", help="what its entries are to be called")
            sub.add_argument(
                "--text", nargs="+", default=[], metavar="FILES", help="text to pre-train on: paths, folders, globs"
            )
            sub.add_argument(
                "--task", nargs="+", default=[], metavar="FILE", help="labelled rows: train, dev and perhaps test"
            )
            for column, text_of in (("a", "the text"), ("b", "the second text of a pair"), ("label", "the label")):
                sub.add_argument(f"--{column}", default="", metavar="COLUMN", help=f"column of {text_of}")
            sub.add_argument("--encoder", default="small", help="to pre-train: a name under encoders (default: small)")
            sub.add_argument(
                "--model", default="tiny", help="to fine-tune without --text: under models or published (default: tiny)"
            )
        elif command == "completion":
            sub.add_argument("shell", choices=["bash", "zsh"])
        elif command == "flow":
            sub.add_argument("flow", choices=["pretrain", "finetune", "ablations", "workflow"])
            sub.add_argument("name", help="a model in params.yaml")
        elif command == "predict":
            sub.add_argument("model", help="folder of a fine-tuned model, of this project or of transformers")
            sub.add_argument("files", nargs="*", default=["-"], help="TSV, JSONL or text files; - is standard input")
            sub.add_argument("--output", help="a JSONL file instead of standard output")
        elif command == "play":
            sub.add_argument("model", nargs="?", help="a model in params.yaml, or a folder of models")
            sub.add_argument("--port", type=int, default=8008, help="default: 8008; 0 takes any that is free")
            sub.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone")
            sub.add_argument("--remote", action="store_true", help="let --host be an address that others can reach")
        elif command == "score":
            sub.add_argument("name", help="a name under tasks in params.yaml")
            sub.add_argument("task", help="one of its tasks: cola, squad2, ...")
            sub.add_argument("predictions", help="JSONL, the leaderboard's TSV or SQuAD's JSON")
            sub.add_argument("--split", default="dev", help="the rows that were predicted (default: dev)")
        elif command == "compare":
            for side in ("first", "second"):
                sub.add_argument(side, help="a model, a folder with its results, or REVISION:MODEL")
        elif command == "runs":
            sub.add_argument("action", nargs="?", choices=["list", "remove"], default="list")
            sub.add_argument("runs", nargs="*", metavar="RUN", help="names in runs/ to remove")
            sub.add_argument("--yes", action="store_true", help="remove without a question")
        elif command == "gpu-check":
            sub.add_argument("--device", choices=["cpu", "cuda"], help="default: the GPU, or without one the CPU")
            sub.add_argument("--output", default="runs/gpu-check.json", help="default: runs/gpu-check.json")
            sub.add_argument(
                "--seconds", type=float, default=180, help="start nothing more after so long (default: 180)"
            )
        elif command in {"report", "serve", "inputs", "sync"}:
            sub.set_defaults(name="")
        else:
            sub.add_argument("name", help=f"a name under {STAGES.get(command) or 'models or ablations'} in params.yaml")
        if command == "ablation":
            text = "do one arm with one seed, so that others can be done elsewhere: electra-seed1"
            sub.add_argument("--only", default="", metavar="ARM", help=text)
        if command == "pretrain":
            sub.add_argument("--nproc-per-node", metavar="N", help="processes on this machine, one for each GPU")
            sub.add_argument("--nnodes", metavar="K", help="machines, each given the same command")
            sub.add_argument("--rdzv-endpoint", metavar="HOST:PORT", help="where they meet: on the first machine")
            sub.add_argument("--max-restarts", metavar="N", help="times that all processes begin again when one dies")
            text = "go on with the run of other settings that is there, or with one that was set aside, under these"
            sub.add_argument("--continue", dest="origin", nargs="?", const="", metavar="RUN", help=text)
        sub.add_argument("--debug", action="store_true", help="show the traceback of a user's mistake, too")
    return result
