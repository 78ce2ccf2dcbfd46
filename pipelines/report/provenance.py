"""Where every number comes from: hashes of files on the page; clock, commit and machine in run.js
beside it.

The page is a function of the results, so that two clones write the same bytes. What differs from
run to run (when, how long, where, at which commit) goes into run.js, which nothing depends on;
index.html shows it when it is there.
"""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from electra.files import sha256_file, write_atomic
from electra.storage.manifest import read_notes
from pipelines.report.records import Inputs
from pipelines.report.table import Row, Table, left
from pipelines.tracking.lineage import gpus, printed


def files(inputs: Inputs, root: Path = Path()) -> Table:
    """The sha256 of every file that was read; settings, seeds, data and code are recorded in these
    files.
    """
    names = [
        f"results/{model.name}/{stage}.json"
        for model in inputs.models
        for stage in ("pretrain", "glue", "squad")
    ]
    names += [f"results/curves/{model.name}.csv" for model in inputs.models]
    names += [ablation.path for ablation in inputs.ablations]
    names += list(inputs.data)
    names += [f"build/models/{model.name}/MANIFEST.json" for model in inputs.models]
    hashes: list[Row] = [
        {left("file"): name, left("sha256"): sha256_file(root / name)}
        for name in names
        if (root / name).is_file()
    ]
    return Table("files", "files read, sha256", hashes)


def write_run(path: Path, root: Path = Path()) -> None:
    """Write run.js: when, how long each stage took, on what machine, at which commit."""
    timings = read_notes(root / "runs/timings.json")
    commit = printed(
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty= with changes",
    )
    cores, python = f"{os.cpu_count()} CPU cores", f"Python {platform.python_version()}"
    machine = ", ".join([platform.system(), platform.machine(), cores, python, *gpus()])
    date = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    run: dict[str, Any] = {"date": date, "commit": commit, "machine": machine}
    run["durations"] = {key: value["seconds"] for key, value in timings.items()}
    run["clocks"] = {key: value["clock"] for key, value in timings.items() if "clock" in value}
    write_atomic(path, f"window.electraRun = {json.dumps(run, indent=2, ensure_ascii=False)};\n")
