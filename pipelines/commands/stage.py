"""A stage as a command: run it under a tracker, in one process or several, and note how long it took.

A stage reads params.yaml and the outputs of earlier stages, and writes its own; it needs neither DVC nor Prefect nor
MLflow.
"""

import argparse
import os
import platform
import time
from pathlib import Path

from electra import stopping
from electra.storage.manifest import read_notes, write_sealed
from pipelines import tracking
from pipelines.commands import runs
from pipelines.config.params import load
from pipelines.runtime import processes
from pipelines.sources import preview
from pipelines.stages import STAGES, data_label

TIMINGS = Path("runs/timings.json")


def run(section: str, options: argparse.Namespace) -> int:
    """Run the stage `options.command`, whose names are in `section` of params.yaml; returns the exit code."""
    if code := processes.earlier_mistake():
        return code
    params = load()
    stage, name = options.command, options.name
    if section:
        params.require(section, name)
    key = f"{stage}-{name}" if name else stage
    if stage == "pretrain" and options.origin is not None:
        runs.ask_to_continue(options.origin, name)
    if vars(options).get("restart"):
        runs.restart(stage, name, params)
    if stage == "pretrain" and not processes.is_process():
        variables = processes.torchrun_variables(vars(options))
        if processes.several(variables):
            return processes.launch([stage, name, *(["--debug"] if options.debug else [])], variables, key)
    work = STAGES[stage]
    data = {"data": data_label(f"{stage}@{name}", params)}
    start = tracking.Start(stage, name, work.settings(name, params), data, work.inputs(params, name))
    main = processes.is_main()
    started = time.monotonic()
    record = tracking.open_run(start, tracking=params.tracking if main else "none", run_folder=Path("runs") / key)
    with stopping.interruptible(), record as tracker:
        if stage == "corpus":
            preview.print_hints(params.corpora[name], f"corpora.{name}")
        work.run(name, params, tracker)
    if main and work.has_cards:
        from pipelines.commands import cards  # here, since importing torch takes seconds

        cards.write(stage, name, params)
    if main:
        note_duration(key, started, tracker.clock)
    return 0


def note_duration(key: str, started: float, clock: dict[int, float]) -> None:
    """Add a stage to runs/timings.json, which no stage depends on: no time of day enters anything that is hashed.

    `started` and those of `clock`, by step of a pre-training, are of time.monotonic(), in seconds.
    """
    seconds = time.monotonic() - started
    timings = read_notes(TIMINGS)
    machine = f"{platform.machine()}, {os.cpu_count()} CPU cores, Python {platform.python_version()}"
    timings[key] = {"seconds": round(seconds, 1), "machine": machine, "finished": time.strftime("%Y-%m-%d %H:%M:%S")}
    if clock:
        timings[key]["clock"] = {str(step): round(at - started, 1) for step, at in clock.items()}
    write_sealed(TIMINGS, timings)
