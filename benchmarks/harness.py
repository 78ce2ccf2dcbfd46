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
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from electra.files import write_json
from pipelines.config.params import FILE, Params, load
from pipelines.stages import STAGES
from pipelines.tracking import Tracker

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks/results")
# laid over params.yaml: local files and what is compared on them
REAL_TEXT = ROOT / "benchmarks/real_text.yaml"


def arguments(doc: str | None, output: str = "") -> argparse.ArgumentParser:
    """Return a parser whose help is the benchmark's docstring, with `--output` if it has a
    default.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if output:
        parser.add_argument(
            "--output", type=Path, default=RESULTS / output, help="default: %(default)s"
        )
    return parser


def local_params() -> Params:
    """Return params.yaml with benchmarks/real_text.yaml laid over it."""
    return load(ROOT / FILE, over=REAL_TEXT)


def run_stages(params: Params, **names: str) -> None:
    """Run stages in this order, each for a name: `run_stages(params, corpus="c4", tokens="c4")`."""
    for stage, name in names.items():
        STAGES[stage].run(name, params, Tracker(None))


def in_turns(arms: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run all arms once a round, A-B-A-B, so that other load on the machine meets all alike."""
    results: dict[str, list[T]] = {arm: [] for arm in arms}
    for number in range(rounds):
        for arm, run in arms.items():
            results[arm].append(run())
            print(f"round {number + 1}, {arm}: {results[arm][-1]}", flush=True)
    return results


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return the median, lowest and highest value, to so many significant digits."""
    values = sorted(values)
    three = {"median": statistics.median(values), "lowest": values[0], "highest": values[-1]}
    return {name: float(f"{value:.{digits}g}") for name, value in three.items()}


def ratios(first: Iterable[float], second: Iterable[float]) -> dict[str, float]:
    """Return the spread of first / second, round by round, while both have rounds."""
    return spread([a / b for a, b in zip(first, second, strict=False)])


def run_process(script: str, words: Sequence[str], timeout: float | None = None) -> Any:
    """Run a benchmark in a process of its own and return the JSON of its last line. Raise
    RuntimeError if it fails.
    """
    command = [sys.executable, script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        lines = [f"exit code {done.returncode}", *done.stderr.strip().splitlines()]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])


def memory_mb(field: str) -> float:
    """Return a field of this process's /proc/self/status, as VmRSS or VmHWM, in MiB."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.partition(f"{field}:")[2].split()[0]) / 1024, 1)


def processor() -> str:
    """Return the processor's name, where Linux says it."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def commit() -> str:
    """Return the commit that is checked out, with the words "with changes" unless the code is the
    commit's. Results in the tree are no code.
    """
    ignored = [":!results", ":!benchmarks/results", ":!*dvc.lock"]
    changed = git("status", "--porcelain", "--", ".", *ignored)
    return git("rev-parse", "HEAD") + (" with changes" if changed else "")


def git(*words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def provenance(*packages: str) -> dict[str, Any]:
    """Return command, machine, commit, date, and versions of numpy, tokenizers and `packages`."""
    module = sys.modules["__main__"].__spec__  # of `python -m`
    program = ["-m", module.name.removesuffix(".__main__")] if module else sys.argv[:1]
    return {
        "command": shlex.join(["python", *program, *sys.argv[1:]]),
        "machine": {
            "processor": processor(),
            "logical_cores": os.cpu_count(),
            "load_average": [round(load, 1) for load in os.getloadavg()],
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {package: version(package) for package in ("numpy", "tokenizers", *packages)},
        "commit": commit(),
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def write_record(path: Path, results: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    """Write results with the `provenance` of when the measurement began."""
    write_json(path, {**origin, **results})
    print(f"wrote {path}", flush=True)
