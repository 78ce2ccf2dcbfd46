"""The command line: `electra <command> [name]`, or `python -m pipelines` where nothing is installed.

Each command is a function below its group and arguments; its docstring is its help. Heavy imports happen when it runs.
A user's mistake is one sentence on stderr and an exit code; a bug keeps its traceback.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electra import stopping
from electra.errors import BadInput, for_message
from electra.files import room
from pipelines.commands import COMMANDS, NAMES, Argument, Command, command, entry, parser, refusal
from pipelines.runtime import processes

if TYPE_CHECKING:
    from pipelines.config.params import Params

BUG = 70  # exit code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (of the process's own arguments by default) and return its exit code."""
    if arguments is None:
        arguments = sys.argv[1:]
        stopping.leave_at_once()
    options = parser().parse_args(arguments or ["--help"])
    chosen = COMMANDS[options.command]
    if chosen.section is None:
        stopping.stay_as_usual()
    try:
        if chosen.section is None and sys.stdout is None:
            raise BadInput("standard output", "is closed", "", "leave it open or send it to a file")
        code = chosen.run(options) or 0
        if sys.stdout is not None:
            with room(Path("standard output")):
                sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except (stopping.Interrupted, Exception) as error:
        refused = refusal(options.command, error)
        if options.debug or not refused:
            traceback.print_exc()
        if not refused:
            print("error: this is a bug; the lines above say where", file=sys.stderr)
            return BUG
        processes.report(refused)
        return refused.exit_code


def _params() -> "Params":
    from pipelines.config.params import load

    return load()


ANY = "models ablations published finetunings"

# ---------------------------------------------------------------------------------------------------------- set up


@command(
    "set up",
    Argument("name", help="name of the new entries"),
    Argument("--text", nargs="+", default=[], metavar="FILES", help="text to pre-train on: paths, folders, globs"),
    Argument("--task", nargs="+", default=[], metavar="FILE", help="labelled rows: train, dev and perhaps test"),
    Argument("--a", default="", metavar="COLUMN", help="column of the text"),
    Argument("--b", default="", metavar="COLUMN", help="column of the second text of a pair"),
    Argument("--label", default="", metavar="COLUMN", help="column of the label"),
    Argument("--encoder", default="", help="to pre-train: a name under encoders (default: mini, on a GPU small)"),
    Argument("--minutes", type=float, default=0.0, help="of pre-training here (default: 20, on a GPU no limit)"),
    Argument("--model", default="tiny", help="to fine-tune without --text: under models or published (default: tiny)"),
)
def new(options: argparse.Namespace) -> None:
    """Add your own text or labelled task to params.yaml."""
    from pipelines.commands.new import new

    print(new(options), end="")


@command("set up", entry(ANY, nargs="?", default=""))
def params(options: argparse.Namespace) -> None:
    """Check params.yaml and print every setting, defaults filled in."""
    from electra.config import plain

    params = _params()
    shown = params.shown(options.name) if options.name else plain(params)
    print(json.dumps(shown, indent=2, ensure_ascii=False))


_STAGE = Argument("--stage", action="append", default=[], help="check only what this stage and those before it read")


@command("set up", entry(ANY), _STAGE)
def check(options: argparse.Namespace) -> None:
    """Check in a second that every file of a model or ablation can be read."""
    from pipelines.commands.check import check

    for line in check(options.name, _params(), options.stage):
        print(for_message(line), file=sys.stderr if line.startswith("hint: ") else sys.stdout)


@command("set up", entry(ANY))
def estimate(options: argparse.Namespace) -> None:
    """Estimate time, memory and disk of a model or ablation from its settings."""
    from pipelines.commands.estimate import estimate

    print(estimate(options.name, _params()), end="")


@command(
    "set up",
    Argument("--device", choices=["cpu", "cuda"], help="default: the GPU if there is one, else the CPU"),
    Argument("--output", default="runs/gpu-check.json", help="default: runs/gpu-check.json"),
    Argument("--seconds", type=int, default=600, help="start no further check after so long (default: 600)"),
)
def gpu_check(options: argparse.Namespace) -> int:
    """Check that the GPU computes correctly, and how fast; takes ten minutes."""
    from pipelines.commands.gpu_check import command

    return command.run(options)


@command("set up", Argument("shell", choices=["bash", "zsh"]))
def completion(options: argparse.Namespace) -> None:
    """Print a completion script for the shell: source <(electra completion bash)."""
    import shtab

    print(shtab.complete(parser("electra"), options.shell, preamble=NAMES))


# ----------------------------------------------------------------------------------------------------------- train


def _stage(name: str, section: str, help: str, *more: Argument) -> None:
    def run(options: argparse.Namespace) -> int:
        from pipelines.commands.stage import run

        return run(section, options)

    arguments = (*([entry(section)] if section else []), *more)
    COMMANDS[name] = Command("train", help, run, arguments, section=section)


_CONTINUE = "start from the newest checkpoint of this model's other run, or of the run RUN, with these settings"
_RESTART = Argument("--restart", action="store_true", help="archive what this run has saved, and start over")
_stage("corpus", "corpora", "collect, clean and deduplicate the documents of a corpus", _RESTART)
_stage("tasks", "tasks", "read GLUE, SQuAD or your own tasks from a source")
_stage("tokens", "tokens", "train or load a tokenizer and pack a corpus into rows of tokens", _RESTART)
_stage(
    *("pretrain", "models", "pre-train a model"),
    Argument("--nproc-per-node", metavar="N", help="processes on this machine, one for each GPU"),
    Argument("--nnodes", metavar="K", help="number of machines; run the same command on each"),
    Argument("--rdzv-endpoint", metavar="HOST:PORT", help="address and free port of the first machine"),
    Argument("--max-restarts", metavar="N", help="restarts of all processes after one has died"),
    Argument("--continue", dest="origin", nargs="?", const="", metavar="RUN", help=_CONTINUE),
    _RESTART,
)
_stage("published", "published", "load a model that was pre-trained elsewhere")
_stage("glue", "finetunings", "fine-tune a model on the GLUE tasks or your own")
_stage("squad", "finetunings", "fine-tune a model on SQuAD")
_stage("contamination", "finetunings", "count the dev and test texts that stand in a model's corpus")
_ONLY = Argument("--only", default="", metavar="ARM", help="one arm with one seed, such as electra-seed1")
_stage("ablation", "ablations", "pre-train and fine-tune every arm of an ablation", _ONLY)


@command("train", entry("finetunings"))
def finetune(options: argparse.Namespace) -> int:
    """Fine-tune a model on all its tasks: GLUE and SQuAD, or your own."""
    (params := _params()).require("finetunings", options.name)
    for stage in ("glue", *["squad"] * bool(params.squad_versions(options.name))):
        options.command = stage
        if code := COMMANDS[stage].run(options):
            return code
    return 0


_stage("report", "", "draw the report on what `run` in params.yaml selects")


@command(
    "train",
    Argument("flow", choices=["pretrain", "finetune", "ablations", "workflow"]),
    entry("models"),
    Argument("--settings", metavar="FILE", offers="file", help="YAML laid over params.yaml, in a separate checkout"),
)
def flow(options: argparse.Namespace) -> int:
    """Run a Prefect flow in this process."""
    from pipelines import flows
    from pipelines.config.params import load
    from pipelines.config.settings_file import read

    over = Path(options.settings) if options.settings else None
    load(over=over).require("models", options.name)
    return flows.start(options.flow, options.name, read(over) if over else {})


# ------------------------------------------------------------------------------------------------------------- use


@command(
    "use",
    Argument("model", offers="file", help="folder of a fine-tuned model, of this project or of transformers"),
    Argument("files", nargs="*", default=["-"], offers="file", help="TSV, JSONL or text files; - is standard input"),
    Argument("--output", offers="file", help="a JSONL file instead of standard output"),
)
def predict(options: argparse.Namespace) -> None:
    """Predict with a fine-tuned model, for rows of files or of standard input."""
    from pipelines.commands.predict import predict

    predict(Path(options.model), options.files, options.output)


@command(
    "use",
    entry("tasks"),
    Argument("task", help="one of its tasks: cola, squad2, ..."),
    Argument("predictions", offers="file", help="JSONL, the leaderboard's TSV or SQuAD's JSON"),
    Argument("--split", default="dev", help="the split that was predicted (default: dev)"),
)
def score(options: argparse.Namespace) -> None:
    """Score a file of predictions on a task."""
    from pipelines.commands.predict import score

    print(json.dumps(score(Path("build/tasks") / options.name, options.task, Path(options.predictions), options.split)))


@command(
    "use",
    Argument("model", offers="file", help="folder of a discriminator, a generator or a masked language model"),
    Argument("files", nargs="*", offers="file", help="minimal pairs as JSON lines; default: BLiMP from the hub"),
)
def pairs(options: argparse.Namespace) -> None:
    """Count how often a pre-trained network prefers the good sentence."""
    from pipelines.commands.pairs import pairs

    print(pairs(Path(options.model), options.files), end="")


@command(
    "use",
    Argument("model", nargs="?", offers="_electra_names models published", help="a model, or a folder of models"),
    Argument("--port", type=int, default=8008, help="default: 8008; 0 takes any free port"),
    Argument("--host", default="127.0.0.1", help="default: 127.0.0.1, for this machine alone"),
    Argument("--remote", action="store_true", help="allow a --host that other machines can reach"),
)
def play(options: argparse.Namespace) -> None:
    """Try a model in the browser: replaced tokens, proposals, answers."""
    from pipelines.commands.play import run

    run(options.model, options.host, options.port, remote=options.remote)


_SIDE = {"help": "a model, a folder with its results, or REVISION:MODEL", "offers": f"_electra_names {ANY}"}


@command("use", Argument("first", **_SIDE), Argument("second", **_SIDE))
def compare(options: argparse.Namespace) -> None:
    """Compare two models, or two runs of one."""
    from pipelines.commands.compare import compare

    print(compare(options.first, options.second), end="")


# -------------------------------------------------------------------------------------------------------- maintain


@command(
    "maintain",
    Argument("action", nargs="?", choices=["list", "remove"], default="list"),
    Argument("runs", nargs="*", metavar="RUN", offers="ls runs 2>/dev/null", help="names in runs/ to remove"),
    Argument("--yes", action="store_true", help="remove without asking"),
)
def runs(options: argparse.Namespace) -> None:
    """List the runs in runs/, or remove some."""
    from pipelines.commands import runs

    if options.action == "remove":
        runs.delete(options.runs, sure=options.yes)
    else:
        print(runs.table(), end="")


@command("maintain", Argument("--yes", action="store_true", help="remove without asking"))
def clean(options: argparse.Namespace) -> None:
    """Remove the archived runs: finished by earlier code, or begun anew."""
    from pipelines.commands import runs

    runs.clean(sure=options.yes)


@command("maintain", entry("models"))
def replay(options: argparse.Namespace) -> None:
    """Replay the pre-training step that ended in NaN or infinity."""
    from pipelines.commands.replay import replay

    print(json.dumps(replay(options.name, _params()), indent=2))


@command("maintain")
def sync(options: argparse.Namespace) -> None:
    """Send MLflow the records that it has missed."""
    from pipelines.tracking import uploader

    uploader.send_all()
    print("MLflow has everything")


@command("maintain", entry(ANY))
def summary(options: argparse.Namespace) -> None:
    """Write the headline numbers of a model or ablation for `dvc metrics`."""
    from pipelines.stages.summary import summarise

    summarise(options.name, _params())


@command("maintain", Argument("section", choices=["corpora", "tokens", "tasks"]), entry("corpora tokens tasks"))
def inputs(options: argparse.Namespace) -> None:
    """Record the hashes of your own files that an entry of params.yaml names, for DVC."""
    from pipelines.stages.inputs import record

    (params := _params()).require(options.section, options.name)
    record(options.section, options.name, params)
