"""The command: the three checks one after the other, a table of what they found, one JSON, and an exit code."""

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from electra.devices import driver_version, refuse_unusable_driver
from electra.errors import BadDevice
from electra.files import read_json, write_json
from electra.pretraining.step import lacks_to_compile
from pipelines import ROOT
from pipelines.tracking.lineage import printed

FAILED, PATIENCE = 1, 600  # exit code of a check that failed; seconds that one may take
BENCHMARK = ROOT / "benchmarks" / "pretrain_step.py"
LATE = "stopped at the deadline"  # what it says of a part that it had no time for
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
        parts: dict[str, Callable[[], Records]] = {
            "losses": lambda: numbers("losses", device, out, environment),
            "resume": lambda: numbers("resume", device, out, environment),
            "speed": lambda: speed(device, out, environment, options.seconds - (time.monotonic() - begun)),
        }
        for name, part in parts.items():
            print(f"gpu-check: {name} ...", file=sys.stderr, flush=True)
            result["checks"] += part()
            result["seconds"] = round(time.monotonic() - begun, 1)
            write_json(Path(options.output), result)
    show(result)
    print(f"written: {options.output}", file=sys.stderr)
    return FAILED if any(record["verdict"] == "FAILED" for record in result["checks"]) else 0


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
    """What the figures stand on."""
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
    """One line of that."""
    if machine["device"] == "cpu":
        return f"gpu-check on the CPU, at a small size (torch {machine['torch']})"
    lacking = machine["lacks to compile"]
    compiled = f", nothing is compiled: no {lacking}" if lacking else ""
    where = f"{machine['gpu']} ({machine['gib']} GiB), driver {machine['driver']}"
    return f"gpu-check on {where}, torch {machine['torch']} with CUDA {machine['cuda']}{compiled}"


def numbers(part: str, device: str, out: Path, environment: dict[str, str]) -> Records:
    """The records of a part that is a module of this package."""
    command = [sys.executable, "-m", "pipelines.commands.gpu_check", part, "--device", device, "--out", str(out)]
    if wrong := call(command, environment, PATIENCE):
        return [{"name": part, "found": wrong, "expected": "an end", "verdict": "FAILED"}]
    records: Records = read_json(out)
    return records


def speed(device: str, out: Path, environment: dict[str, str], seconds: float) -> Records:
    """Ours beside transformers' modules; what is not reached in time is skipped, what cannot be run has failed."""
    if not BENCHMARK.is_file():
        return [skipped("speed", f"{BENCHMARK} is not here")]
    precision = "bf16" if device == "cuda" else "fp32"
    peer = importlib.util.find_spec("transformers") is not None
    arms = [f"ours-{precision}", *([f"peer-{precision}"] if peer else [])]
    command = [sys.executable, str(BENCHMARK), *SPEED[device], "--arms", *arms, "--rounds", "1", "--out", str(out)]
    seconds = max(seconds, 60)
    if wrong := call([*command, "--seconds", str(seconds)], environment, PATIENCE + seconds):
        return [{"name": "speed", "found": wrong, "expected": "an end", "verdict": "FAILED"}]
    records = [rate(name, found, *arms) for name, found in read_json(out)["models"].items()]
    return records if peer else [*records, skipped("speed: transformers", "not installed: `pip install transformers`")]


def rate(name: str, found: dict[str, Any], ours: str, peer: str = "") -> dict[str, Any]:
    """One model's tokens a second, first step and peak memory, and the peer's."""
    first = found.get("loss at step 0", {})
    errors = found.get("errors", {}) | ({"losses": first["error"]} if "error" in first else {})
    if wrong := [f"{part}: {why}" for part, why in errors.items() if why != LATE]:
        return {"name": f"speed: {name}", "found": "; ".join(wrong), "expected": "an end", "verdict": "FAILED"}
    if ours not in found.get("arms", {}):
        return skipped(f"speed: {name}", "the time was over: give more --seconds")
    arms = found["arms"]
    mine = arms[ours]
    speed, memory = f"{mine['tokens per second']:,.0f} tokens/s", f"{mine['peak bytes'] / 2**30:.1f} GiB"
    told = f"{speed}, {memory}, first step {mine['first step seconds']:.0f} s"
    beside = "no peer in the time"
    if peer in arms:
        theirs = arms[peer]
        beside = f"transformers: {theirs['tokens per second']:,.0f}, {theirs['peak bytes'] / 2**30:.1f} GiB"
    settings = found["settings"]["pretrain"]
    title = f"speed: {name}, {found['rows']} × {settings['length']}"
    return {"name": title, "found": told, "expected": beside, "verdict": "measured", "arms": arms}


def skipped(name: str, why: str) -> dict[str, Any]:
    """A row of what was not done."""
    return {"name": name, "found": why, "expected": "", "verdict": "skipped"}


def call(command: list[str], environment: dict[str, str], seconds: float) -> str:
    """Run to the end; returns what went wrong, in a line, and shows what was said of it on stderr."""
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
    """The table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=headline(result["device"]), title_justify="left")
    for column in ("check", "found", "expected, or beside it", ""):
        table.add_column(column, overflow="fold")
    colours = {"ok": "green", "FAILED": "bold red", "measured": "cyan", "skipped": "yellow"}
    for record in result["checks"]:
        cells, verdict = (escape(record[key]) for key in ("name", "found", "expected")), record["verdict"]
        table.add_row(*cells, f"[{colours[verdict]}]{verdict}[/]")
    Console(width=None if sys.stdout and sys.stdout.isatty() else 150).print(table)
