"""The command: the three checks one after the other, their results as a table and JSON, and an exit code."""

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from electra.devices import driver_version, refuse_unusable_driver
from electra.errors import BadDevice
from electra.files import read_json, write_json
from electra.pretraining.step import lacks_to_compile
from pipelines import ROOT
from pipelines.commands.gpu_check.sample import record
from pipelines.tracking.lineage import printed

FAILED, PATIENCE = 1, 600  # exit code of a check that failed; seconds that one may take
BENCHMARK = ROOT / "benchmarks" / "pretrain_step.py"
LATE = "stopped at the deadline"  # how the benchmark reports a part that it had no time for
# Arms, rows and lengths of the speed check: on a GPU the benchmark's own rows, which every arm holds on 80 GB.
SPEED = {
    "cuda": ["--models", "small", "base", "large", "--blocks", "2", "--steps", "10"],
    "cpu": ["--models", "tiny", "--rows", "4", "--blocks", "1", "--steps", "1"],
}
Records = list[dict[str, Any]]


def run(options: argparse.Namespace) -> int:
    """Check the device that was asked for, else the GPU, else the CPU."""
    device, begun = choose(options.device), time.monotonic()
    result: dict[str, Any] = {"device": facts(device), "checks": []}
    print(headline(result["device"]), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        environment = os.environ | caches | ({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})
        out = Path(folder) / "out.json"
        for part in ("losses", "resume", "speed"):
            print(f"gpu-check: {part} ...", file=sys.stderr, flush=True)
            left = options.seconds - (time.monotonic() - begun)
            arguments = (device, out, environment)
            result["checks"] += speed(*arguments, left) if part == "speed" else numbers(part, *arguments)
            result["seconds"] = round(time.monotonic() - begun, 1)
            write_json(Path(options.output), result)
    show(result)
    print(f"written: {options.output}", file=sys.stderr)
    return FAILED if any(row["verdict"] == "FAILED" for row in result["checks"]) else 0


def choose(asked: str | None) -> str:
    """`cuda` or `cpu`; a GPU that is asked for, or there, and cannot be used is an error."""
    if asked != "cpu":
        refuse_unusable_driver()
        if torch.cuda.is_available():
            return "cuda"
        if asked == "cuda":
            do = "see that a GPU and its driver are there, or give --device cpu"
            raise BadDevice("--device", f"torch {torch.__version__} sees no GPU", "one", do)
    return "cpu"


def facts(device: str) -> dict[str, Any]:
    """The machine and its software."""
    machine: dict[str, Any] = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    machine["git"] = printed("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12")
    machine["recorded"] = time.strftime("%Y-%m-%d", time.gmtime())
    if device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        machine |= {"gpu": gpu.name, "gib": round(gpu.total_memory / 2**30, 1), "driver": driver_version() or "unknown"}
        machine |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        machine |= {"lacks to compile": lacks_to_compile()}
    return machine


def headline(machine: dict[str, Any]) -> str:
    """The machine on one line."""
    if machine["device"] == "cpu":
        return f"gpu-check on the CPU, at a small size (torch {machine['torch']})"
    lacking = machine["lacks to compile"]
    compiled = f", nothing is compiled: no {lacking}" if lacking else ""
    where = f"{machine['gpu']} ({machine['gib']} GiB), driver {machine['driver']}"
    return f"gpu-check on {where}, torch {machine['torch']} with CUDA {machine['cuda']}{compiled}"


def numbers(part: str, device: str, out: Path, environment: dict[str, str]) -> Records:
    """The records of a part that is a module of this package."""
    command = [sys.executable, "-m", "pipelines.commands.gpu_check", part, device, str(out)]
    if wrong := call(command, environment, PATIENCE):
        return [record(part, wrong, "an end", "FAILED")]
    records: Records = read_json(out)
    return records


def speed(device: str, out: Path, environment: dict[str, str], seconds: float) -> Records:
    """Ours beside transformers' modules; what is not reached in time is skipped, what cannot be run has failed."""
    if not BENCHMARK.is_file():
        return [record("speed", f"{BENCHMARK} is not here", "", "skipped")]
    precision = "bf16" if device == "cuda" else "fp32"
    peer = importlib.util.find_spec("transformers") is not None
    arms = [f"ours-{precision}", *([f"peer-{precision}"] if peer else [])]
    command = [sys.executable, str(BENCHMARK), *SPEED[device], "--arms", *arms, "--rounds", "1", "--out", str(out)]
    seconds = max(seconds, 60)
    if wrong := call([*command, "--seconds", str(seconds)], environment, PATIENCE + seconds):
        return [record("speed", wrong, "an end", "FAILED")]
    records = [rate(name, found, *arms) for name, found in read_json(out)["models"].items()]
    absent = record("speed: transformers", "not installed: `pip install transformers`", "", "skipped")
    return records if peer else [*records, absent]


def rate(name: str, found: dict[str, Any], ours: str, peer: str = "") -> dict[str, Any]:
    """One model's tokens a second, first step and peak memory, and the peer's."""
    first = found.get("loss at step 0", {})
    errors = found.get("errors", {}) | ({"losses": first["error"]} if "error" in first else {})
    if wrong := [f"{part}: {why}" for part, why in errors.items() if why != LATE]:
        return record(f"speed: {name}", "; ".join(wrong), "an end", "FAILED")
    arms = found.get("arms", {})
    if ours not in arms:
        return record(f"speed: {name}", "out of time: give more --seconds", "", "skipped")
    speed, memory = ({arm: arms[arm][key] for arm in arms} for key in ("tokens per second", "peak bytes"))
    first_step = f"first step {arms[ours]['first step seconds']:.0f} s"
    mine = f"{speed[ours]:,.0f} tokens/s, {memory[ours] / 2**30:.1f} GiB, {first_step}"
    theirs = f"transformers: {speed[peer]:,.0f}, {memory[peer] / 2**30:.1f} GiB" if peer in arms else "out of time"
    title = f"speed: {name}, {found['rows']} × {found['settings']['pretrain']['length']}"
    return record(title, mine, theirs, "measured", arms=arms)


def call(command: list[str], environment: dict[str, str], seconds: float) -> str:
    """Run to the end; returns what went wrong in one line ("" for nothing), and copies its stderr then."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds:.0f} s"
    if not done.returncode:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    print(*lines[-40:], sep="\n", file=sys.stderr, flush=True)
    return lines[-1].strip()


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=headline(result["device"]), title_justify="left")
    for column in ("check", "found", "expected, or beside it", ""):
        table.add_column(column, overflow="fold")
    colours = {"ok": "green", "FAILED": "bold red", "measured": "cyan", "skipped": "yellow"}
    for row in result["checks"]:
        cells, verdict = (escape(row[key]) for key in ("name", "found", "expected")), row["verdict"]
        table.add_row(*cells, f"[{colours[verdict]}]{verdict}[/]")
    Console(width=None if sys.stdout and sys.stdout.isatty() else 150).print(table)
