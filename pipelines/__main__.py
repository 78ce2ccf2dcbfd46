"""The one command line: `python -m pipelines <command> [name]`.

A stage reads params.yaml and the outputs of the stages before it, and writes its own; it needs neither DVC nor
Prefect nor MLflow to run. A user's mistake is one sentence on stderr and an exit code, a bug keeps its traceback.
"""

from electra import stopping

if __name__ == "__main__":
    stopping.leave_at_once()  # before what follows is imported

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from electra.errors import BadInput, SourceUnreachable, Stopped, UserError
from electra.files import room
from pipelines import processes

# stage -> the section of params.yaml that its names come from
STAGES = {
    "corpus": "corpora",
    "tasks": "tasks",
    "tokens": "tokens",
    "pretrain": "models",
    "published": "published",
    "glue": "models",
    "squad": "models",
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
    "params": "check params.yaml and print what a run would use",
    "estimate": "tell what an experiment, or all of a model, would take on this machine",
    "compare": "set two models, or two runs of one, side by side",
    "predict": "let a fine-tuned model answer rows of files or of standard input",
    "score": "score a file of predictions of one of a source's tasks",
    "check": "ask whether the data sources of a model (or ablation) can be reached",
    "inputs": "note the hashes of all own files that params.yaml names, for DVC",
    "runs": "list what lies in runs/, or remove some of it",
    "replay": "replay the step at which a model's pre-training was stopped by NaN or infinity",
    "flow": "run a Prefect flow here: pretrain, finetune, ablations or workflow",
    "serve": "offer the flows of tiny as deployments from this process",
    "sync": "send MLflow what it could not be told while it was out of reach",
}
PRINTING = {"params", "estimate", "compare", "predict", "score", "check", "replay"}  # whose answer is what they print
TIMINGS = Path("runs/timings.json")
BUG = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    if options.command not in STAGES and __name__ == "__main__":
        stopping.stay_as_usual()
    try:
        if sys.stdout is None and options.command in PRINTING and not vars(options).get("output"):
            raise BadInput(
                "standard output", "is closed", "somewhere to write to", "leave it open or send it to a file"
            )
        code = COMMANDS.get(options.command, run_stage)(options)
        if sys.stdout is not None:  # None: it was closed before the start
            with room(Path("standard output")):
                sys.stdout.flush()
        return code
    except stopping.Interrupted as error:
        processes.report(stopped := Stopped(options.command, str(error)))
        return stopped.exit_code
    except UserError as error:
        if options.debug:
            traceback.print_exc()
        processes.report(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception:
        traceback.print_exc()
        print("error: this is a bug; the lines above say where", file=sys.stderr)
        return BUG


def parser() -> argparse.ArgumentParser:
    """The command line; building it imports nothing heavy."""
    result = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__.split("\n", 1)[0])
    commands = result.add_subparsers(dest="command", required=True, metavar="command")
    for command, text in HELP.items():
        sub = commands.add_parser(command, help=text, description=text)
        if command == "params":
            sub.add_argument("name", nargs="?", default="", help="a model or ablation; all of params.yaml without it")
        elif command == "flow":
            sub.add_argument("flow", choices=["pretrain", "finetune", "ablations", "workflow"])
            sub.add_argument("name", help="a model in params.yaml")
        elif command == "predict":
            sub.add_argument("model", help="folder of a fine-tuned model, of this project or of transformers")
            sub.add_argument("files", nargs="*", default=["-"], help="TSV, JSONL or text files; - is standard input")
            sub.add_argument("--output", help="a JSONL file instead of standard output")
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
        elif command in {"report", "serve", "inputs", "sync"}:
            sub.set_defaults(name="")
        else:
            sub.add_argument("name", help=f"a name under {STAGES.get(command) or 'models or ablations'} in params.yaml")
        if command == "pretrain":
            sub.add_argument("--nproc-per-node", metavar="N", help="processes on this machine, one for each GPU")
            sub.add_argument("--nnodes", metavar="K", help="machines, each given the same command")
            sub.add_argument("--rdzv-endpoint", metavar="HOST:PORT", help="where they meet: on the first machine")
            text = "go on with the run of other settings that is there, or with one that was set aside, under these"
            sub.add_argument("--continue", dest="origin", nargs="?", const="", metavar="RUN", help=text)
        sub.add_argument("--debug", action="store_true", help="show the traceback of a user's mistake, too")
    return result


def run_stage(options: argparse.Namespace) -> int:
    """Run a stage under a tracker and note how long it took."""
    from pipelines import tracking
    from pipelines.params import load

    params = load()
    stage, name = options.command, options.name
    if section := params.section(stage, STAGES[stage], name):
        params.require(section, name)
    key = f"{stage}-{name}" if name else stage
    if stage == "pretrain" and options.origin is not None:
        from pipelines import runs

        runs.wish_to_continue(options.origin or key, key)
    facts = params.facts(stage, section, name)
    if stage == "pretrain" and not processes.is_process():
        layout = processes.Layout.read(vars(options))
        if layout.several:
            return processes.launch([stage, name, *(["--debug"] if options.debug else [])], layout, key)
    told = params.tracking if processes.is_main() else "none"
    started = time.monotonic()
    module = importlib.import_module(f"pipelines.stages.{stage}")
    record = tracking.open_run(stage, name, facts, {}, tracking=told, run_folder=Path("runs") / key)
    with stopping.interruptible(), record as tracker:
        module.run(name, params, tracker)
    if processes.is_main():
        note_duration(key, time.monotonic() - started)
    return 0


def note_duration(key: str, seconds: float) -> None:
    """Add a stage to runs/timings.json, which no stage depends on: clocks stay out of everything that is hashed."""
    from electra.files import write_json

    try:
        timings = json.loads(TIMINGS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        timings = {}
    machine = f"{platform.machine()}, {os.cpu_count()} CPU cores, Python {platform.python_version()}"
    timings[key] = {"seconds": round(seconds, 1), "machine": machine, "finished": time.strftime("%Y-%m-%d %H:%M:%S")}
    write_json(TIMINGS, timings)


def show_params(options: argparse.Namespace) -> int:
    """Print params.yaml as a run would use it, defaults filled in."""
    from electra.config import plain
    from pipelines.params import load

    params = load()
    if not options.name:
        shown = plain(params)
    elif options.name in params.ablations:
        shown = {arm: plain(params.arm(options.name, arm)) for arm in params.ablations[options.name].settings}
    else:
        shown = plain(params.encoder(options.name))
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    return 0


def estimate_cost(options: argparse.Namespace) -> int:
    """Print what experiments would take."""
    from pipelines.estimate import chosen, estimate
    from pipelines.params import load

    params = load()
    print(estimate(chosen(options.name, params), params), end="")
    return 0


def check_sources(options: argparse.Namespace) -> int:
    """Ask every source that a model or ablation reads from whether it is there, without reading it."""
    from pipelines import sources
    from pipelines.needed import check_tasks
    from pipelines.params import PublishedConfig, load
    from pipelines.sources.local import require_folder

    params = load()
    name = options.name
    if name in params.ablations:
        name = params.ablations[name].model
    model = params.encoder(name)
    if isinstance(model, PublishedConfig):
        require_folder(Path(model.folder), f"published.{name}.folder")
    check_tasks(params, name)
    if isinstance(model, PublishedConfig):
        print(f"{name}: its folder and its tasks can be reached")
        return 0
    corpus = params.corpora[params.tokens[model.tokens].corpus]
    for source in corpus.sources:
        sources.check(source)
    print(f"{options.name}: every data source can be reached")
    if expected := corpus.expected:
        hours = f", some {expected.core_hours:g} core hours" if expected.core_hours else ""
        print(
            f"expected: {expected.tokens / 1e9:g} B tokens, {expected.gigabytes:g} GB of clean text{hours} (docs/scale.md)"
        )
    return 0


def note_summary(options: argparse.Namespace) -> int:
    """Write the headline numbers of a model or ablation."""
    from pipelines.params import load
    from pipelines.summary import summarise

    summarise(options.name, load())
    return 0


def replay_step(options: argparse.Namespace) -> int:
    """Replay the step that was refused, and print what it was."""
    from pipelines.params import load
    from pipelines.replay import show

    params = load()
    params.require("models", options.name)
    print(show(options.name, params))
    return 0


def manage_runs(options: argparse.Namespace) -> int:
    """List the runs, or delete some."""
    from pipelines import runs

    if options.action == "remove":
        runs.delete(options.runs, sure=options.yes)
    else:
        print(runs.table(), end="")
    return 0


def run_flow(options: argparse.Namespace) -> int:
    """Run a flow in this process."""
    from pipelines import flows
    from pipelines.params import load

    load().require("models", options.name)
    return flows.start(options.flow, options.name)


def serve_flows(options: argparse.Namespace) -> int:
    """Wait for runs of the flows of tiny."""
    from pipelines import flows

    return flows.serve()


def sync_tracking(options: argparse.Namespace) -> int:
    """Tell MLflow what stages could not."""
    from pipelines.tracking import FOLDER, recorder

    if left := recorder.sync(Path("runs") / FOLDER):
        do = "start it, or set MLFLOW_TRACKING_URI for new runs; nothing is lost"
        raise SourceUnreachable(left[0], f"MLflow's store does not answer ({len(left)} runs wait)", "", do)
    print("MLflow has been told everything")
    return 0


def compare_runs(options: argparse.Namespace) -> int:
    """Print the scores of two models or runs and what may be said of their differences."""
    from pipelines.report.compare import compare

    print(compare(options.first, options.second), end="")
    return 0


def predict(options: argparse.Namespace) -> int:
    """Answer rows."""
    from pipelines.predict import predict

    predict(Path(options.model), options.files, options.output)
    return 0


def score_file(options: argparse.Namespace) -> int:
    """Print every metric of a file of predictions."""
    from pipelines.predict import score

    print(json.dumps(score(Path("build/tasks") / options.name, options.task, Path(options.predictions), options.split)))
    return 0


def note_inputs(options: argparse.Namespace) -> int:
    """Hash what is new."""
    from pipelines.inputs import survey
    from pipelines.params import load

    survey(load())
    return 0


COMMANDS = {
    "inputs": note_inputs,
    "predict": predict,
    "score": score_file,
    "params": show_params,
    "summary": note_summary,
    "compare": compare_runs,
    "estimate": estimate_cost,
    "check": check_sources,
    "replay": replay_step,
    "runs": manage_runs,
    "flow": run_flow,
    "serve": serve_flows,
    "sync": sync_tracking,
}

if __name__ == "__main__":
    sys.exit(main())
