"""Where a measured figure comes from: commit, machine, load and versions."""

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

VERSIONS = ("numpy", "tokenizers")


def processor() -> str:
    """The processor's name, where Linux tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def provenance(more: tuple[str, ...] = ()) -> dict[str, Any]:
    """What every record carries beside its figures; `more` names packages whose versions matter."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    # What runs write into the tree is no change of the code that wrote it.
    code = ["git", "status", "--porcelain", "--", ".", ":!results", ":!benchmarks/results", ":!*dvc.lock"]
    clean = subprocess.run(code, capture_output=True, text=True, check=False).stdout == ""
    return {
        "machine": {
            "processor": processor(),
            "logical_cores": os.cpu_count(),
            "load_average": [round(load, 1) for load in os.getloadavg()],
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {package: version(package) for package in (*VERSIONS, *more)},
        "commit": commit + ("" if clean else " with changes"),
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
    }
