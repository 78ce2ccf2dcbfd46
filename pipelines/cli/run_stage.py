"""Run a stage under a tracker, in one process or several, and note how long it took.

A stage reads params.yaml and the outputs of earlier stages, and writes its own. It needs neither
DVC nor Prefect nor MLflow.
"""

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from electra import stopping
from electra.storage.manifest import read_cache, write_checksummed
from pipelines import tracking
from pipelines.cli import manage_runs, processes
from pipelines.config.params import load
from pipelines.stages import STAGES, TIMINGS, data_label, is_main
from pipelines.stages.summarize import record_results
from pipelines.tracking.lineage import printed


def run(
    stage: str,
    name: str,
    *,
    launch: dict[str, Any] | None = None,
    origin: str | None = None,
    restart: bool = False,
) -> int:
    """Run a stage on an entry of its section and return the exit code.

    `launch` holds torchrun's options, `origin` is the run to continue from.
    """
    params = load()
    work = STAGES[stage]
    if work.section:
        params.require(work.section, name)
    key = f"{stage}-{name}" if name else stage
    if origin is not None:
        manage_runs.ask_to_continue(origin, name)
    if restart:
        manage_runs.restart(stage, name, params)
    if launch and not processes.is_process() and processes.needs_several(launch):
        debug = ["--debug"] if "--debug" in sys.argv else []
        return processes.launch([*debug, stage, name], launch, key)
    data = {"data": data_label(f"{stage}@{name}", params)}
    main = is_main()
    started = time.monotonic()
    record = tracking.open_run(
        stage,
        name,
        tracking=params.tracking if main else "none",
        run_folder=Path("runs") / key,
        params=work.settings(name, params),
        tags=data,
        upstream=work.inputs(params, name),
    )
    with stopping.interruptible(), record as tracker:
        work.run(name, params, tracker)
        if main and work.has_cards:
            from pipelines.stages import cards  # here, since importing torch takes seconds

            cards.write(stage, name, params)
        if main:
            note_duration(key, started, tracker.clock)
            record_results(stage, name, tracker)
    return 0


def note_duration(key: str, started: float, clock: dict[int, float]) -> None:
    """Add a stage to runs/timings.json, which no stage depends on: nothing that is hashed holds a
    time of day.

    `started` and the values of `clock` (by step of a pre-training) are times of time.monotonic().
    """
    seconds = time.monotonic() - started
    timings = read_cache(TIMINGS)
    python = platform.python_version()
    timings[key] = {
        "seconds": round(seconds, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores, Python {python}",
        "finished": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": printed("git", "rev-parse", "--short=12", "HEAD"),
    }
    if clock:
        timings[key]["clock"] = {str(step): round(at - started, 1) for step, at in clock.items()}
    write_checksummed(TIMINGS, timings)
