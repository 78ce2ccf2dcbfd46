"""The pre-training step beside transformers' modules: one script for CPU and GPU, one JSON.

    python benchmarks/pretrain_step.py --models small --rows 8 --threads 1     # a CPU: minutes
    python benchmarks/pretrain_step.py                                         # a GPU: small, base and large, in 10 minutes

Arms: `ours-P` is the loop's own step; `peer-P` is ElectraForMaskedLM and ElectraForPreTraining written as their docs
suggest (SDPA, labels of -100, fused AdamW, autocast), with Gumbel sampling at the masked positions; `compiled-P` is the
peer under torch.compile. P is the precision, fp32 (transformers' default) or bf16.

Protocol: the same weights, rows, masks and rates in all arms; before anything is timed, all arms must give the same loss
without dropout. Then arms take turns in one process, block by block (A-B-A-B), with dropout 0.1 as published. A ratio is
one of neighbouring blocks; reported are the median and the spread. On a CPU, process time counts (a busy machine
stretches the wall's), which is given too. Utilisation is matrix products alone (electra/flops.py, `matmul`) over the
rate of a large bf16 product, probed in each round. Rows are synthetic. Peak memory is of one arm alone: on CPUs in a
process of its own, above what its imports took.
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.pretrain_arms import VOCAB, Ours, Rows, batches, equal_losses, make
from benchmarks.record import processor
from electra.config import ElectraConfig, plain
from electra.files import read_json, write_json
from electra.flops import step_flops
from electra.training.evaluation import metrics, read_sums
from electra.training.feed import Feed
from electra.training.parallel import World
from electra.training.precision import choose
from electra.training.state import State
from electra.training.step import WARM_UP
from pipelines.params import load

RESULTS = Path("benchmarks/results")
GPU_ROWS = {"large": 128}  # one of the sixteen slices of its batch; the others' batches fit whole
MARKS = {"cpu": {"peer-fp32": 3.0, "equal bf16": 2.3, "equal fp32": 1.6, "utilisation": 0.4, "memory": 0.5, "overhead": 0.02},
         "cuda": {"equal bf16": 3.0, "compiled bf16": 1.5, "first step seconds": 60,
                  "tokens per second": {"small": 2.5e6, "base": 4.5e5}, "utilisation": {"large": 0.4}}}  # fmt: skip


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def probe(device: torch.device, seconds: float = 0.5) -> float:
    """Bf16 multiply-adds of a large square product, in operations a second (of process time on a CPU)."""
    size = 2048 if device.type == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    left @ right
    synchronize(device)
    count, begun = 0, clock()
    while clock() - begun < seconds:
        left @ right
        synchronize(device)
        count += 1
    return 2 * size**3 * count / (clock() - begun)


def overhead(config: ElectraConfig, ours: Ours, device: torch.device) -> dict[str, float]:
    """Seconds a step that data, logging and checkpoints take, each at the preset's own interval."""
    settings = config.pretrain
    feed = Feed(Rows(4 * settings.batch, settings.length), config, device, "noise")

    def seconds(work: Any, times: int) -> float:
        synchronize(device)
        begun = time.process_time() if device.type == "cpu" else time.perf_counter()
        for number in range(times):
            work(number)
        synchronize(device)
        return ((time.process_time() if device.type == "cpu" else time.perf_counter()) - begun) / times

    sums = {name: torch.ones((), device=device, dtype=torch.double) for name in
            ("count", "chosen", "mlm_loss", "tokens", "replaced", "disc_loss", "said_replaced", "found")}  # fmt: skip
    names = {parameter: name for name, parameter in ours.model.named_parameters()}
    feed.batch(0)
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder), {}, World(0, 1, device, "ddp"), names, ours.optimizer)
        saved = seconds(lambda n: state.save(n + 1, {"step": n + 1}, settings.keep), 1)
    return {
        "data": seconds(lambda n: feed.batch(n), 5),
        "logging": seconds(lambda _: metrics(read_sums(sums)), 3) / settings.log_every,
        "checkpoint": saved / settings.save_every,
    }


def peak_memory(arm: str, config: ElectraConfig) -> int:
    """Bytes that an arm's two steps took at most above its imports (in a process made for it)."""
    import transformers.models.electra.modeling_electra  # noqa: F401

    device = torch.device("cpu")
    given = batches(config, device, 1)[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = make(arm, config, device)
    for number in range(2):
        made.step(number, *given)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def run(config: ElectraConfig, arms: list[str], blocks: int, steps: int, out: Path, deadline: float) -> None:
    """Measure one model; `out` is written anew after each round, so that a deadline costs rounds and not results."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cpu = device.type == "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    found: dict[str, Any] = {"loss at step 0": equal_losses(config, device), "arms": {}, "skipped": []}
    given, made = batches(config, device), {}
    for arm in arms:
        if time.time() > deadline:
            found["skipped"].append(arm)
            continue
        gc.collect()
        held = 0 if cpu else torch.cuda.memory_allocated()
        if not cpu:
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        made[arm] = make(arm, config, device)
        made[arm].step(0, *given[0])
        synchronize(device)
        facts = found["arms"][arm] = {"first step seconds": time.perf_counter() - begun}
        for number in range(1, 2 if cpu else WARM_UP + 3):
            made[arm].step(number, *given[number % len(given)])
        synchronize(device)
        if not cpu:
            facts["peak bytes"] = torch.cuda.max_memory_allocated() - held
        write_json(out, found)
    times: dict[str, list[tuple[float, float]]] = {arm: [] for arm in made}
    peaks: list[float] = []
    while len(peaks) < blocks and (time.time() < deadline or not peaks):
        peaks.append(probe(device))
        for arm, one in made.items():
            one.start()
            synchronize(device)
            process, wall = time.process_time(), time.perf_counter()
            for number in range(steps):
                loss = one.step(number, *given[number % len(given)])
            synchronize(device)
            times[arm].append(((time.process_time() - process) / steps, (time.perf_counter() - wall) / steps))
            if not torch.isfinite(loss):
                raise SystemExit(f"{arm}: loss {loss.item()}")
        more = summary(config, times, peaks, cpu)
        for arm, numbers in more.pop("arms").items():
            found["arms"][arm] |= numbers
        found |= more
        write_json(out, found)
    for arm, one in made.items():
        if isinstance(one, Ours):
            share = overhead(config, one, device)
            seconds = found["arms"][arm]["seconds"]["median"]
            found["arms"][arm]["overhead"] = {**share, "share": sum(share.values()) / seconds}
    write_json(out, found)


def summary(config: ElectraConfig, times: dict[str, list[tuple[float, float]]], peaks: list[float], cpu: bool) -> Any:
    """Numbers of each arm, and of each peer over ours: on a CPU by process time, on a GPU by the wall's."""
    flops, tokens = step_flops(config, VOCAB, "matmul"), config.pretrain.batch * config.pretrain.length
    best, which = max(peaks), 0 if cpu else 1
    arms, ratios = {}, {}
    for arm, pairs in times.items():
        seconds = spread([pair[which] for pair in pairs])
        arms[arm] = {"seconds": seconds, "wall seconds": spread([wall for _, wall in pairs]),
                     "tokens per second": tokens / seconds["median"],
                     "utilisation": flops / seconds["median"] / best}  # fmt: skip
        for ours in (name for name in times if name.startswith("ours") and not arm.startswith("ours")):
            for clock, kind in enumerate(("process", "wall")):
                values = [theirs[clock] / mine[clock] for theirs, mine in zip(pairs, times[ours], strict=True)]
                ratios.setdefault(f"{arm} / {ours}", {})[kind] = spread(values)
    return {"arms": arms, "ratios": ratios, "bf16 peak": spread(peaks), "flops of a step": flops}


def child(model: str, options: argparse.Namespace, out: Path, *more: str) -> None:
    """This script on one model, in a process of its own, until its deadline."""
    words = [sys.executable, __file__, "--one", model, "--out", str(out), *more]
    for name in ("rows", "threads", "blocks", "steps", "deadline"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    left = options.deadline - time.time() + 45
    try:
        done = subprocess.run(
            [*words, "--arms", *options.arms], timeout=max(left, 1), stderr=subprocess.PIPE, text=True
        )
        wrong = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired:
        wrong = ["stopped at the deadline"]
    if wrong:
        write_json(out, {**(read_json(out) if out.exists() else {}), "error": wrong[0]})


def provenance(options: argparse.Namespace) -> dict[str, Any]:
    git = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40"], capture_output=True, text=True)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "command": "python " + " ".join(sys.argv),
        "commit": git.stdout.strip(),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "gpu": gpu, "system": platform.platform(),
                    "load": os.getloadavg(), "threads": options.threads, "allocator of ours": "keeps freed memory"},
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "python": platform.python_version(),
        "probed precision": choose("auto", torch.device("cuda" if gpu else "cpu")),
        "conventions": "matmul FLOPs x 3, head on the chosen slots; ratios are peer time over ours; synthetic rows",
        "marks": MARKS["cuda" if gpu else "cpu"],
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip


def main() -> None:
    gpu = torch.cuda.is_available()
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--models", nargs="+", default=["small", "base", "large"] if gpu else ["small"])
    parse.add_argument("--arms", nargs="+", default=["ours-bf16", "peer-bf16", "compiled-bf16"] if gpu
                       else ["ours-fp32", "ours-bf16", "peer-fp32", "peer-bf16"])  # fmt: skip
    parse.add_argument("--rows", type=int, help="rows of a batch (default: the preset's)")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--blocks", type=int, default=8 if gpu else 5)
    parse.add_argument("--steps", type=int, default=20 if gpu else 2, help="steps of a block")
    parse.add_argument("--seconds", type=float, default=540.0, help="stop measuring after so long")
    parse.add_argument("--out", type=Path)
    parse.add_argument("--one", help=argparse.SUPPRESS)
    parse.add_argument("--memory", help=argparse.SUPPRESS)
    parse.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    options = parse.parse_args()
    torch.set_num_threads(options.threads)
    if options.one:
        preset = load().models[options.one].electra()
        rows = options.rows or (GPU_ROWS.get(options.one, preset.pretrain.batch) if gpu else preset.pretrain.batch)
        config = replace(preset, pretrain=replace(preset.pretrain, batch=rows, accumulate=1))
        if options.memory:
            write_json(options.out, {"peak bytes": peak_memory(options.memory, config)})
        else:
            run(config, options.arms, options.blocks, options.steps, options.out, options.deadline)
        return
    begun, result = time.time(), provenance(options)
    out = options.out or RESULTS / f"pretrain-step-{'gpu' if gpu else f'cpu-{options.threads}'}.json"
    result["models"] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        for index, model in enumerate(
            options.models
        ):  # first steps are cold ones; each model has its share of the time
            options.deadline = begun + options.seconds * (index + 1) / len(options.models)
            part = Path(folder) / f"{model}.json"
            child(model, options, part)
            found = result["models"][model] = read_json(part)
            write_json(out, result)
            found["settings"] = plain(load().models[model].electra())
            found["rows"] = (
                options.rows or (GPU_ROWS.get(model) if gpu else None) or found["settings"]["pretrain"]["batch"]
            )
            for arm in options.arms if not gpu else []:
                memory = Path(folder) / f"{arm}.json"
                child(model, options, memory, "--memory", arm)
                found["arms"].setdefault(arm, {}).update(read_json(memory))
            result["seconds"] = round(time.time() - begun, 1)
            write_json(out, result)
    print(json.dumps({name: {key: found.get(key) for key in ("ratios", "skipped", "error")} for name, found in
                      result["models"].items()}, indent=1))  # fmt: skip
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
