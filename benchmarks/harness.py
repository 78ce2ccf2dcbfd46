"""What all benchmarks share: arms in turns, ratios with their spread, where a figure comes from,
and the JSON record.

A benchmark imports what it measures, calls `in_turns` or a loop of its own, and ends with
`write_record`.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from electra.files import write_json
from pipelines.config.params import FILE, Params, load

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks/results")
# laid over params.yaml: local files and what is compared on them
REAL_TEXT = ROOT / "benchmarks/real_text.yaml"


def arguments(doc: str | None, output: str = "") -> argparse.ArgumentParser:
    """A parser whose help is the benchmark's docstring, with `--output` where it has a default."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if output:
        parser.add_argument(
            "--output", type=Path, default=RESULTS / output, help="default: %(default)s"
        )
    return parser


def local_params() -> Params:
    """params.yaml with benchmarks/real_text.yaml laid over it."""
    return load(ROOT / FILE, over=REAL_TEXT)


def in_turns(arms: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run all arms once a round, A-B-A-B, so that what changes on the machine reaches all of them
    alike.
    """
    found: dict[str, list[T]] = {arm: [] for arm in arms}
    for number, (arm, run) in ((number, pair) for number in range(rounds) for pair in arms.items()):
        found[arm].append(run())
        print(f"round {number + 1}, {arm}: {found[arm][-1]}", flush=True)
    return found


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Median, lowest and highest, to so many significant digits."""
    found = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
    return {name: float(f"{value:.{digits}g}") for name, value in found.items()}


def ratios(first: Iterable[float], second: Iterable[float]) -> dict[str, float]:
    """The spread of first / second, round by round; the longer one's last rounds are left out."""
    return spread([a / b for a, b in zip(first, second, strict=False)])


def apart(script: str, words: Sequence[str], timeout: float | None = None) -> Any:
    """What a benchmark printed as JSON in its last line, run in a process of its own; RuntimeError
    if it failed.
    """
    command = [sys.executable, script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(
            (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        )
    return json.loads(done.stdout.splitlines()[-1])


def memory_mb(field: str) -> float:
    """A field of this process's /proc/self/status, as VmRSS or VmHWM, in MiB."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.partition(f"{field}:")[2].split()[0]) / 1024, 1)


def processor() -> str:
    """The processor's name, where Linux says it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def commit() -> str:
    """The commit that is checked out; "with changes" unless the code is the commit's."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    # What runs write into the tree is no change of the code that wrote it.
    code = [
        "git",
        "status",
        "--porcelain",
        "--",
        ".",
        ":!results",
        ":!benchmarks/results",
        ":!*dvc.lock",
    ]
    clean = subprocess.run(code, capture_output=True, text=True, check=False).stdout == ""
    return head + ("" if clean else " with changes")


def provenance(*packages: str) -> dict[str, Any]:
    """Command, machine, versions, commit and date; `packages` adds to those whose versions are
    given.
    """
    return {
        "command": shlex.join(["python", *sys.argv]),
        "machine": {
            "processor": processor(),
            "logical_cores": os.cpu_count(),
            "load_average": [round(load, 1) for load in os.getloadavg()],
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {package: _version(package) for package in ("numpy", "tokenizers", *packages)},
        "commit": commit(),
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def write_record(path: Path, found: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    """Write what was found with the `provenance` of when the measurement began."""
    write_json(path, {**origin, **found})
    print(f"wrote {path}", flush=True)
