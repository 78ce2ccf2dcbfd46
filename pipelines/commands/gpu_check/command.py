"""The command: the checks one after the other, their results as a table and JSON, and an exit code."""

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

from electra.config import build
from electra.devices import driver_version, refuse_unusable_driver
from electra.errors import BadConfig, BadDevice
from electra.files import read_json, write_json
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import phase_flops
from electra.pretraining.phases import phases_of
from electra.pretraining.step import lacks_to_compile
from pipelines import ROOT
from pipelines.commands.estimate import PUBLISHED_VOCABULARY
from pipelines.commands.gpu_check.sample import record
from pipelines.runtime import roofline
from pipelines.tracking.lineage import printed

SECONDS = range(60, 3601)
FAILED, PATIENCE = 1, 600  # exit code of a check that failed; seconds that one may take
PARTS = ("rates", "losses", "networks", "finetune", "resume", "speed")
CHECK = [sys.executable, "-m", "pipelines.commands.gpu_check"]
BENCHMARK = ROOT / "benchmarks" / "pretrain_step.py"
LATE = "stopped at the deadline"  # how the benchmark reports a part that it had no time for
# Models of the speed check, and whether transformers has them: on a GPU with the benchmark's own rows, which every arm
# holds on 80 GB.
SPEED = {"cuda": {"small base": True, "modern-base": False}, "cpu": {"tiny": False}}
SHAPE = {"cuda": ["--blocks", "2", "--steps", "10"], "cpu": ["--rows", "4", "--blocks", "1", "--steps", "1"]}
OVER = 1.15  # how far a step may exceed its memory's budget
Records = list[dict[str, Any]]
Rates = dict[str, float] | None


def run(options: argparse.Namespace) -> int:
    """Check the requested device, else the GPU, else the CPU."""
    begun, output = time.monotonic(), Path(options.output)
    if options.seconds not in SECONDS:
        raise BadConfig("--seconds", f"is {options.seconds}", "60 to 3600")
    if output.is_dir():
        raise BadConfig("--output", f"is the folder {output}", "a file", f"give {output / 'gpu-check.json'}")
    device = choose(options.device)
    result: dict[str, Any] = {"device": facts(device), "checks": []}
    write_json(output, result)  # fail now rather than after minutes if it cannot be written
    print(headline(result["device"]), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        environment = os.environ | caches | ({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})
        out = Path(folder) / "out.json"
        for part in PARTS[device == "cpu" :]:
            print(f"gpu-check: {part} ...", file=sys.stderr, flush=True)
            left = options.seconds - (time.monotonic() - begun)
            if left <= 0:
                result["checks"].append(record(part, "out of time: give more --seconds", "", "skipped"))
            elif part == "speed":
                result["checks"] += speed(device, out, environment, left, result.get("rates"))
            elif wrong := call([*CHECK, part, device, str(out)], environment, PATIENCE):
                result["checks"].append(record(part, wrong, "an end", "FAILED"))
            else:
                result["checks"] += read_json(out)
            if part == "rates" and "rates" in (row := result["checks"][-1]):
                result["rates"] = row.pop("rates")
            result["seconds"] = round(time.monotonic() - begun, 1)
            write_json(output, result)
    show(result)
    print(f"written: {options.output}", file=sys.stderr)
    return FAILED if any(row["verdict"] == "FAILED" for row in result["checks"]) else 0


def choose(asked: str | None) -> str:
    """`cuda` or `cpu`; a GPU that is requested or present, but unusable, is an error."""
    if asked != "cpu":
        refuse_unusable_driver()
        if torch.cuda.is_available():
            return "cuda"
        if asked == "cuda":
            raise BadDevice("--device", f"torch {torch.__version__} sees no GPU", "one", "see to it and its driver")
    return "cpu"


def facts(device: str) -> dict[str, Any]:
    """The machine and its software."""
    git = printed("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12")
    machine: dict[str, Any] = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    machine |= {"git": git, "recorded": time.strftime("%Y-%m-%d", time.gmtime())}
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


def speed(device: str, out: Path, environment: dict[str, str], seconds: float, rates: Rates) -> Records:
    """Ours beside transformers' modules; what is not reached in time is skipped, what cannot be run has failed."""
    if not BENCHMARK.is_file():
        return [record("speed", f"{BENCHMARK} is not here", "", "skipped")]
    precision = "bf16" if device == "cuda" else "fp32"
    peer = importlib.util.find_spec("transformers") is not None
    records, begun, wanted = [], time.monotonic(), SPEED[device]
    for number, (models, beside) in enumerate(wanted.items()):
        arms = [f"ours-{precision}", *([f"peer-{precision}"] if peer and beside else [])]
        share = (seconds - (time.monotonic() - begun)) / (len(wanted) - number)
        words = ["--models", *models.split(), *SHAPE[device], "--arms", *arms, "--rounds", "1", "--out", str(out)]
        command = [sys.executable, str(BENCHMARK), *words, "--seconds", str(max(share, 60))]
        if wrong := call(command, environment, PATIENCE + max(share, 60)):
            records.append(record(f"speed: {models}", wrong, "an end", "FAILED"))
            continue
        for name, found in read_json(out)["models"].items():
            records += rate(name, found, rates, *arms)
    if device == "cuda" and not peer:
        records.append(record("speed: transformers", "not installed: `pip install transformers`", "", "skipped"))
    return records


def rate(name: str, found: dict[str, Any], rates: Rates, ours: str, peer: str = "") -> Records:
    """One model's speed beside the peer's and the roofline's bound, and its peak memory beside the budget."""
    first = found.get("loss at step 0", {})
    errors = found.get("errors", {}) | ({"losses": first["error"]} if "error" in first else {})
    if wrong := [f"{part}: {why}" for part, why in errors.items() if why != LATE]:
        return [record(f"speed: {name}", "; ".join(wrong), "an end", "FAILED")]
    arms = found.get("arms", {})
    if ours not in arms:
        return [record(f"speed: {name}", "out of time: give more --seconds", "", "skipped")]
    values, theirs = arms[ours], arms.get(peer)
    mine = f"{values['tokens per second']:,.0f} tokens/s, {values['utilisation']:.0%} of the peak"
    mine += f", first step {values['first step seconds']:.0f} s"
    beside = [f"transformers: {theirs['tokens per second']:,.0f}"] if theirs else ["out of time"] if peer else []
    more: dict[str, Any] = {"arms": arms}
    size = f"{name}, {found['rows']} × {found['settings']['pretrain']['length']}"
    records = []
    if rates:
        more |= (bound := bounds(found, rates, values["tokens per second"]))
        beside.append(f"bound: {bound['bound']:,.0f} ({bound['reached']:.0%} reached)")
        peak, budget = values["peak bytes"] / 2**30, bound["budget"] / 2**30
        told = (f"{peak:.1f} GiB", f"at most {OVER:.2f} × {budget:.1f} GiB")
        records = [record(f"memory: {size}", *told, peak <= OVER * budget)]
    return [record(f"speed: {size}", mine, "; ".join(beside), "measured", **more), *records]


def bounds(found: dict[str, Any], rates: dict[str, float], speed: float) -> dict[str, float]:
    """The roofline's tokens a second for a timed step on this GPU, the share reached, and bytes by the budget."""
    preset = {**found["settings"]["pretrain"], "batch": found["rows"], "accumulate": 1}
    config = build(ElectraConfig, found["settings"] | {"pretrain": preset}, "speed")
    vocab_size = PUBLISHED_VOCABULARY
    (phase,), weights = phases_of(config.pretrain, 1), roofline.parameters(config, vocab_size)

    def least(card: roofline.Card) -> float:
        return roofline.step_bound(config, phase, vocab_size, weights, card)

    bound = phase.batch * phase.length / least(roofline.measured_card("", rates))
    intensity = phase_flops(config, phase, vocab_size, "matmul") / least(roofline.CARDS["h100"])
    budget = roofline.memory(config, weights, vocab_size) - roofline.CONTEXT
    return {"bound": bound, "reached": speed / bound, "intensity": intensity, "budget": budget}


def call(command: list[str], environment: dict[str, str], seconds: float) -> str:
    """Run to the end; returns what went wrong in one line ("" for nothing), and copies its stderr then."""
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, timeout=seconds, capture_output=True, text=True)
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
