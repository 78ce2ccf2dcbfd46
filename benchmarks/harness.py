"""Shared code of the benchmarks: run arms in turns, compute ratios with their spread, and write a
JSON record with its provenance.
"""

import argparse
import multiprocessing
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from electra.files import write_json
from pipelines import ROOT as ROOT
from pipelines.config.params import FILE, FinetuningConfig, ModelConfig, Params, load
from pipelines.finetuning_runs.summary import sd
from pipelines.stages import STAGES
from pipelines.tracking import Tracker
from pipelines.tracking.lineage import printed

T = TypeVar("T")
RESULTS = Path("benchmarks/results")
# merged into params.yaml: local files and the models that are compared on them
REAL_TEXT = ROOT / "benchmarks/real_text.yaml"


def arguments(doc: str | None, output: str = "") -> argparse.ArgumentParser:
    """Return a parser with the benchmark's docstring as its help, and `--output` if a default is
    given.
    """
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
    if output:
        path = RESULTS / output
        parser.add_argument("--output", type=Path, default=path, help="default: %(default)s")
    return parser


def local_params() -> Params:
    """Return params.yaml with benchmarks/real_text.yaml merged into it."""
    return load(ROOT / FILE, over=REAL_TEXT)


def run_stages(params: Params, **names: str) -> None:
    """Run stages in order, each for an entry: `run_stages(params, corpus="c4", tokens="c4")`."""
    for stage, name in names.items():
        STAGES[stage].run(name, params, Tracker(None))


def with_model(
    params: Params,
    name: str,
    model: ModelConfig,
    recipe: dict[str, Any],
    finetuning: FinetuningConfig,
) -> Params:
    """Return the settings with a model, its recipe and its fine-tuning under a name."""
    finetuning = replace(finetuning, model=name, recipe=name)
    return replace(
        params,
        models={**params.models, name: model},
        recipes={**params.recipes, name: recipe},
        finetunings={**params.finetunings, name: finetuning},
    )


def in_turns(arms: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run all arms once per round (A-B-A-B), so that other load affects them equally."""
    results: dict[str, list[T]] = {arm: [] for arm in arms}
    for number in range(rounds):
        for arm, run in arms.items():
            results[arm].append(run())
            print(f"round {number + 1}, {arm}: {results[arm][-1]}", flush=True)
    return results


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return the median, lowest and highest value, rounded to `digits` significant digits."""
    values = sorted(values)
    summary = {"median": statistics.median(values), "lowest": values[0], "highest": values[-1]}
    return {name: float(f"{value:.{digits}g}") for name, value in summary.items()}


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Return values, their mean and standard deviation (None of one), rounded to hundredths."""
    deviation = sd(values)
    return {
        "scores": [round(value, 2) for value in values],
        "mean": round(statistics.fmean(values), 2),
        "std": None if deviation is None else round(deviation, 2),
    }


def ratios(first: Iterable[float], second: Iterable[float]) -> dict[str, float]:
    """Return the spread of first / second over the rounds that both have."""
    return spread([a / b for a, b in zip(first, second, strict=False)])


def in_process(work: Callable[..., T], *given: Any, timeout: float | None = None) -> T:
    """Run a function in a new process, which imports its module again, and return its result. Raise
    its error, or TimeoutError after some seconds.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(work, *given)
        try:
            return future.result(timeout)
        except TimeoutError:
            for process in multiprocessing.active_children():
                process.kill()
            raise


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MiB."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)


def processor() -> str:
    """Return the processor's name, from /proc/cpuinfo if it exists."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def commit() -> str:
    """Return the current commit, followed by "with changes" if the tree differs. Changed results do
    not count.
    """
    ignored = [":!results", ":!benchmarks/results", ":!*dvc.lock"]
    changed = printed("git", "status", "--porcelain", "--", ".", *ignored)
    return printed("git", "rev-parse", "HEAD") + (" with changes" if changed else "")


def provenance(*packages: str) -> dict[str, Any]:
    """Return command, machine, commit, date and the versions of packages."""
    module = sys.modules["__main__"].__spec__  # set by `python -m`
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
    """Write results with the `provenance` from the start of the measurement."""
    write_json(path, {**origin, **results})
    print(f"wrote {path}", flush=True)
