"""The one command line: `electra <command> [name]`, or `python -m pipelines` where nothing is installed.

A stage reads params.yaml and the outputs of the stages before it, and writes its own; it needs neither DVC nor
Prefect nor MLflow to run. A user's mistake is one sentence on stderr and an exit code, a bug keeps its traceback.
"""

from electra import stopping

if __name__ == "__main__":
    stopping.leave_at_once()  # before what follows is imported

import argparse
import contextlib
import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from electra.errors import BadInput, Refused, SourceUnreachable, Stopped, UserError
from electra.files import room
from pipelines.arguments import COMMANDS, STAGES, parser
from pipelines.runtime import processes

TIMINGS = Path("runs/timings.json")
BUG = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    if options.command not in STAGES:
        stopping.stay_as_usual()
    try:
        if sys.stdout is None and COMMANDS[options.command].prints and not vars(options).get("output"):
            do = "leave it open or send it to a file"
            raise BadInput("standard output", "is closed", "somewhere to write to", do)
        code = RUNS.get(options.command, run_stage)(options)
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
    except (OSError, MemoryError) as error:
        if options.debug:
            traceback.print_exc()
        where = getattr(error, "filename", None) or options.command
        found = getattr(error, "strerror", None) or str(error) or "out of memory"
        refused = Refused(where, f"the system says: {found}", do="mend that and run the same command again")
        processes.report(refused)
        return refused.exit_code
    except Exception:
        traceback.print_exc()
        print("error: this is a bug; the lines above say where", file=sys.stderr)
        return BUG


def run_stage(options: argparse.Namespace) -> int:
    """Run a stage under a tracker and note how long it took."""
    if code := processes.earlier_mistake():
        return code
    from pipelines import tracking
    from pipelines.commands import runs
    from pipelines.config.params import load
    from pipelines.runtime import restore_outputs
    from pipelines.sources import preview

    params, stage, name = load(), options.command, options.name
    if section := STAGES[stage]:
        params.require(section, name)
    key = f"{stage}-{name}" if name else stage
    if stage == "pretrain" and options.origin is not None:
        runs.ask_to_continue(options.origin, name)
    if vars(options).get("restart"):
        runs.restart(stage, name, params)
    facts = params.facts(stage, section, name)
    only = options.only if stage == "ablation" else ""
    if stage == "ablation":
        from pipelines.stages import arm_stages

        arm_stages.adopt()
        if only:
            key, facts = f"arm-{name}-{only}", arm_stages.settings(name, only, params)
    if stage == "pretrain" and not processes.is_process():
        variables = processes.torchrun_variables(vars(options))
        if processes.several(variables):
            return processes.launch([stage, name, *(["--debug"] if options.debug else [])], variables, key)
    if processes.is_main():
        restore_outputs.put_back(stage, name)
    told = params.tracking if processes.is_main() else "none"
    started = time.monotonic()
    module = importlib.import_module(f"pipelines.stages.{stage}")
    source = {"mlflow.source.name": f"python -m pipelines ablation {name} --only {only}"} if only else {}
    start = tracking.Start(
        "arm" if only else stage,
        f"{name}-{only}" if only else name,
        facts,
        tags={"data": params.data(stage, name)} | source,
        upstream=params.upstream(stage, name),
    )
    record = tracking.open_run(start, tracking=told, run_folder=Path("runs") / key)
    with stopping.interruptible(), record as tracker:
        if stage == "corpus":
            preview.print_hints(params.corpora[name], f"corpora.{name}")
        arm_stages.run(name, only, params, tracker) if only else module.run(name, params, tracker)
    if processes.is_main():
        note_duration(key, time.monotonic() - started)
    return 0


def note_duration(key: str, seconds: float) -> None:
    """Add a stage to runs/timings.json, which no stage depends on: clocks stay out of everything that is hashed."""
    from electra.storage.manifest import read_notes, write_sealed

    timings = read_notes(TIMINGS)
    machine = f"{platform.machine()}, {os.cpu_count()} CPU cores, Python {platform.python_version()}"
    timings[key] = {"seconds": round(seconds, 1), "machine": machine, "finished": time.strftime("%Y-%m-%d %H:%M:%S")}
    write_sealed(TIMINGS, timings)


def add_entries(options: argparse.Namespace) -> int:
    """Add what a user's own files need to params.yaml."""
    from pipelines.commands.new import new

    columns = {key: getattr(options, key) for key in ("a", "b", "label")}
    print(new(options.name, options.text, options.task, columns, options.encoder, options.model), end="")
    return 0


def show_params(options: argparse.Namespace) -> int:
    """Print params.yaml as a run would use it, defaults filled in."""
    from electra.config import plain
    from pipelines.config.params import load

    params = load()
    if not options.name:
        shown = plain(params)
    elif options.name in params.ablations:
        shown = {arm: plain(params.arm(options.name, arm)) for arm in params.ablations[options.name].settings}
    else:
        if options.name not in params.published and options.name not in params.finetunings:
            params.require("models", options.name)
        shown = params.told(options.name)
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    return 0


def estimate_cost(options: argparse.Namespace) -> int:
    """Print what a model would take, and its ablations."""
    from pipelines.commands.estimate import chosen, estimate
    from pipelines.config.params import load

    params = load()
    if options.name not in params.ablations:
        from pipelines.commands.budget import budget
        from pipelines.commands.tuning_budget import budgets

        if options.name not in {*params.published, *params.finetunings}:
            params.require("models", options.name)
        made = [budget(options.name, params)] if options.name in params.models else []
        print("\n".join([*made, *budgets(options.name, params)]), end="")
        if all(ablation.model != options.name for ablation in params.ablations.values()):
            return 0
        print()
    print(estimate(chosen(options.name, params), params), end="")
    return 0


def check_sources(options: argparse.Namespace) -> int:
    """Tell what any stage of a model or ablation would refuse later."""
    from pipelines.commands.check import check
    from pipelines.config.params import load

    for line in check(options.name, load()):
        print(line, file=sys.stderr if line.startswith("hint: ") else sys.stdout)
    return 0


def note_summary(options: argparse.Namespace) -> int:
    """Write the headline numbers of a model or ablation."""
    from pipelines.config.params import load
    from pipelines.stages.summary import summarise

    summarise(options.name, load())
    return 0


def replay_step(options: argparse.Namespace) -> int:
    """Replay the step that was refused, and print what it was."""
    from pipelines.commands.replay import show
    from pipelines.config.params import load

    params = load()
    params.require("models", options.name)
    print(show(options.name, params))
    return 0


def manage_runs(options: argparse.Namespace) -> int:
    """List the runs, or delete some."""
    from pipelines.commands import runs

    if options.action == "remove":
        runs.delete(options.runs, sure=options.yes)
    else:
        print(runs.table(), end="")
    return 0


def clean_runs(options: argparse.Namespace) -> int:
    """Remove the archived runs."""
    from pipelines.commands import runs

    runs.clean(sure=options.yes)
    return 0


def check_gpu(options: argparse.Namespace) -> int:
    """Check the device and print a table."""
    from pipelines.commands.gpu_check import command

    return command.run(options)


def run_flow(options: argparse.Namespace) -> int:
    """Run a flow in this process."""
    from pipelines import flows
    from pipelines.config.params import load
    from pipelines.config.settings_file import read

    over = Path(options.settings) if options.settings else None
    load(over=over).require("models", options.name)
    return flows.start(options.flow, options.name, read(over) if over else {})


def serve_flows(options: argparse.Namespace) -> int:
    """Wait for runs of the flows of tiny."""
    from pipelines import flows

    return flows.serve()


def sync_tracking(options: argparse.Namespace) -> int:
    """Tell MLflow what stages could not."""
    from pipelines.tracking import FOLDER, recorder

    places = [Path("runs") / FOLDER, *sorted(Path("runs/flows").glob(f"*/runs/{FOLDER}"))]  # of flows' checkouts, too
    if left := [spool for place in places for spool in recorder.sync(place)]:
        do = "start it, or set MLFLOW_TRACKING_URI for new runs; nothing is lost"
        raise SourceUnreachable(left[0], f"MLflow's store does not answer ({len(left)} runs wait)", "", do)
    print("MLflow has been told everything")
    return 0


def compare_runs(options: argparse.Namespace) -> int:
    """Print the scores of two models or runs and what may be said of their differences."""
    from pipelines.commands.compare import compare

    print(compare(options.first, options.second), end="")
    return 0


def predict(options: argparse.Namespace) -> int:
    """Answer rows."""
    from pipelines.commands.predict import predict

    predict(Path(options.model), options.files, options.output)
    return 0


def play(options: argparse.Namespace) -> int:
    """Serve the page; Ctrl-C is how it ends."""
    from pipelines.commands.play import run

    with contextlib.suppress(KeyboardInterrupt):
        run(options.model, options.host, options.port, remote=options.remote)
    return 0


def score_file(options: argparse.Namespace) -> int:
    """Print every metric of a file of predictions."""
    from pipelines.commands.predict import score

    print(json.dumps(score(Path("build/tasks") / options.name, options.task, Path(options.predictions), options.split)))
    return 0


def record_inputs(options: argparse.Namespace) -> int:
    """Record the hashes of an entry's own files."""
    from pipelines.config.params import load
    from pipelines.stages.inputs import record

    params = load()
    params.require(options.section, options.name)
    record(options.section, options.name, params)
    return 0


def complete_words(options: argparse.Namespace) -> int:
    """Print a shell's completion."""
    from pipelines.completion import script

    print(script(options.shell), end="")
    return 0


RUNS = {  # what a command does, where it is no stage
    "completion": complete_words,
    "new": add_entries,
    "inputs": record_inputs,
    "play": play,
    "predict": predict,
    "score": score_file,
    "params": show_params,
    "summary": note_summary,
    "compare": compare_runs,
    "estimate": estimate_cost,
    "check": check_sources,
    "replay": replay_step,
    "runs": manage_runs,
    "clean": clean_runs,
    "flow": run_flow,
    "gpu-check": check_gpu,
    "serve": serve_flows,
    "sync": sync_tracking,
}

if __name__ == "__main__":
    code = main()
    if processes.is_process():  # gloo's threads may wait for an interpreter that waits for them, or abort its end
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
