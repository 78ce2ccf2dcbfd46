"""Where every number comes from: hashes, seeds and settings on the page; clock, commit and machine in run.js beside it.

The page is a function of the results, so that two clones write the same bytes. What differs from run to run (when, how
long, where, at which commit) goes into run.js, which nothing depends on; index.html shows it when it is there.
"""

import json
import os
import platform
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.files import sha256_file, write_atomic
from electra.storage.manifest import read_notes
from pipelines.report.records import Inputs
from pipelines.report.table import Table, flops, left

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "dvc", "prefect", "mlflow", "matplotlib")


def all_tables(inputs: Inputs, params: Any, root: Path = Path()) -> list[Table]:
    """Tables: each model's recorded facts, each data set's, and the sha256 of every file that was read."""
    tables = []
    data = {"corpus": inputs.corpora, "tokens": inputs.tokens, "tasks": inputs.tasks}
    for model in inputs.models:
        rows = [("settings, hash", digest(params.models[model.name])), *_flat(model.pretrain)]
        tables.append(_pairs(f"facts-{model.name}", f"{model.name}: pre-training", rows))
    for kind, group in data.items():
        tables += [_pairs(f"facts-{kind}-{name}", f"{kind} {name}", _flat(values)) for name, values in group.items()]
    for ablation in inputs.ablations:
        rows = list(ablation.provenance.items())
        rows += [(arm.label, json.dumps(arm.settings, sort_keys=True)) for arm in ablation.arms]
        title = f"ablation {ablation.name}: settings of each arm"
        tables.append(_pairs(f"facts-ablation-{ablation.name}", title, [(key, str(value)) for key, value in rows]))
    results = ("pretrain.json", "pretrain.csv", "glue.json", "squad.json")
    files = [f"results/{model.name}/{file}" for model in inputs.models for file in results]
    files += [ablation.path for ablation in inputs.ablations]
    files += [f"results/{kind}/{name}.json" for kind, group in data.items() for name in group]
    files += [f"build/models/{model.name}/MANIFEST.json" for model in inputs.models]
    files += [f"build/{kind}/{name}/MANIFEST.json" for kind, group in data.items() for name in group]
    hashes = [(file, sha256_file(root / file)) for file in files if (root / file).is_file()]
    tables.append(_pairs("facts-files", "files read, sha256", hashes))
    return [table for table in tables if table.rows]


def _pairs(name: str, title: str, rows: list[tuple[str, Any]]) -> Table:
    cells = [(key, flops(value) if isinstance(value, float) else str(value)) for key, value in rows]
    return Table(name, title, left("what", "value"), cells)


def _flat(values: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Nested values as dotted keys; long lists by their length."""
    if isinstance(values, dict):
        return [pair for key, value in sorted(values.items()) for pair in _flat(value, f"{prefix}{key}.")]
    if isinstance(values, list) and (len(values) > 8 or any(isinstance(value, dict | list) for value in values)):
        values = f"{len(values)} entries"
    elif isinstance(values, list):
        values = ", ".join(map(str, values))
    return [(prefix.removesuffix("."), values)]


def write_run(path: Path, root: Path = Path()) -> None:
    """Write run.js: when, how long each stage took, on what machine, at which commit."""
    timings = read_notes(root / "runs/timings.json")
    run = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "commit": _commit(root),
        "machine": _machine(),
        "versions": {name: version(name) for name in PACKAGES},
        "durations": {key: value["seconds"] for key, value in timings.items()},
    }
    write_atomic(path, f"window.electraRun = {json.dumps(run, indent=2, ensure_ascii=False)};\n")


def _machine() -> str:
    cores, python = f"{os.cpu_count()} CPU cores", f"Python {platform.python_version()}"
    gpus = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") if shutil.which("nvidia-smi") else ""
    return ", ".join([platform.system(), platform.machine(), cores, python, *gpus.splitlines()])


def _commit(root: Path) -> str:
    commit = _output("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if commit and _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    return commit


def _output(*command: str) -> str:
    """A program's output, or nothing if it is absent, fails, or takes too long."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
