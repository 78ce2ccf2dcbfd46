"""Where every number comes from: hashes, seeds and settings on the page; clock, commit and machine in run.js beside it.

The page is a function of the results, so that two clones write the same bytes. What differs from run to run (when, how
long, where, at which commit) goes into run.js, which nothing depends on; index.html shows it when it is there.
"""

import json
import os
import platform
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.files import sha256_file, write_atomic
from electra.storage.manifest import read_notes
from pipelines.report.records import Inputs
from pipelines.report.table import Table, flops, left
from pipelines.tracking.lineage import gpus, printed

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "dvc", "prefect", "mlflow", "matplotlib")
Facts = Iterable[tuple[str, Any]]


def all_tables(inputs: Inputs, params: Any, root: Path = Path()) -> list[Table]:
    """Tables: each model's recorded facts, each data set's, and the sha256 of every file that was read."""
    tables = []
    data = [
        (kind, name, values) for kind in ("corpus", "tokens", "tasks") for name, values in inputs.data[kind].items()
    ]
    for model in inputs.models:
        facts = [("settings, hash", digest(params.models[model.name])), *_flat(model.pretrain)]
        tables.append(_table(model.name, f"{model.name}: pre-training", facts))
    tables += [_table(f"{kind}-{name}", f"{kind} {name}", _flat(values)) for kind, name, values in data]
    for ablation in inputs.ablations:
        arms = [(arm.label, json.dumps(arm.settings, sort_keys=True)) for arm in ablation.arms]
        facts = [(key, str(value)) for key, value in ablation.provenance.items()]
        title = f"ablation {ablation.name}: settings of each arm"
        tables.append(_table(f"ablation-{ablation.name}", title, [*facts, *arms]))
    results = ("pretrain.json", "pretrain.csv", "glue.json", "squad.json")
    files = [f"results/{model.name}/{file}" for model in inputs.models for file in results]
    files += [ablation.path for ablation in inputs.ablations]
    files += [f"results/{kind}/{name}.json" for kind, name, _ in data]
    files += [f"build/models/{model.name}/MANIFEST.json" for model in inputs.models]
    files += [f"build/{kind}/{name}/MANIFEST.json" for kind, name, _ in data]
    hashes = [(file, sha256_file(root / file)) for file in files if (root / file).is_file()]
    tables.append(_table("files", "files read, sha256", hashes))
    return [table for table in tables if table.rows]


def _table(name: str, title: str, facts: Facts) -> Table:
    texts = [(key, flops(value) if isinstance(value, float) else str(value)) for key, value in facts]
    return Table(f"facts-{name}", title, [{left("what"): key, left("value"): text} for key, text in texts])


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
    return ", ".join([platform.system(), platform.machine(), cores, python, *gpus()])


def _commit(root: Path) -> str:
    git = ("git", "-C", str(root))
    commit = printed(*git, "rev-parse", "--short=12", "HEAD")
    return commit + " with changes" * bool(commit and printed(*git, "status", "--porcelain", "--untracked-files=no"))
