"""Compare the pre-training step with transformers' modules: one script for CPU and GPU, one JSON.

    python benchmarks/pretrain_step.py --models small --rows 8   # a CPU: minutes
    python benchmarks/pretrain_step.py   # a GPU: small, base and large, 10 minutes

Arms, where P is the precision: fp32 (transformers' default) or bf16

ours-P      the step of the training loop; our_step in pretrain_arms.py lists variants for a GPU
peer-P      ElectraForMaskedLM and ElectraForPreTraining, used as their docs suggest (SDPA, labels
            of -100, fused AdamW, autocast), with Gumbel sampling at the masked positions
expert-P    peer-P with the vocabulary head at the masked positions only
compiled-P  peer-P under torch.compile

All arms have the same weights, rows, masks and learning rate, and must give the same loss without
dropout before anything is timed. Each arm runs in its own process, so that no other arm occupies
memory, and arms take turns (A-B-A-B) with dropout 0.1, as published. Later rounds reuse code that
earlier ones compiled. A ratio compares blocks at the same position in a round; the record has
median and spread. CPU ratios use process time, because other load stretches wall time; both are
recorded. Utilisation counts matrix products only (electra/pretraining/flops.py, `matmul`), relative
to the rate of a large bf16 product, which is measured before each block. Rows are synthetic. Peak
memory is measured above the imports (CPU) or above the rows (GPU: torch's allocator; `reserved`
includes its cache).
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness import (
    RESULTS,
    arguments,
    in_process,
    peak_memory_mb,
    provenance,
    ratios,
    spread,
    write_record,
)
from benchmarks.pretrain_arms import PEERS, VOCAB, batches, build_arm, equal_losses
from electra.config import to_jsonable
from electra.devices import default_device
from electra.optim.precision import Precision, choose
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import step_flops
from electra.pretraining.step import WARM_UP
from pipelines.config.params import load

LATE = "stopped at the deadline"
# Rows per batch that fit on a GPU of 80 GB in every arm. small needs no limit.
GPU_ROWS = {"base": 64, "modern-base": 64, "large": 32}
CLOCKS = ("process", "wall")  # the first for a CPU, the second for a GPU

Results = dict[str, Any]


def now(device: torch.device) -> tuple[float, float]:
    """Return process and wall time, once the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.process_time(), time.perf_counter()


def time_calls(work: Any, count: int, device: torch.device) -> tuple[float, float]:
    """Return the process and wall seconds per call of `work(number)`."""
    process, wall = now(device)
    for number in range(count):
        work(number)
    process_end, wall_end = now(device)
    return (process_end - process) / count, (wall_end - wall) / count


def fastest(device: torch.device) -> Precision:
    """Return bf16 if the device has instructions for its products."""
    capabilities = torch.cpu.get_capabilities()
    if device.type == "cpu" and (capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")):
        return "bf16"
    return choose("auto", device)


def probe(device: torch.device) -> float:
    """Return the FLOPs per second (of process time on a CPU) of a large matrix product, in bf16 if
    the device supports it.

    Emulated bf16 would be a hundred times slower than fp32.
    """
    cpu = device.type == "cpu"
    kind = torch.bfloat16 if fastest(device) == "bf16" else torch.float32
    size = 2048 if cpu else 8192
    matrix = torch.randn(size, size, device=device).to(kind)
    once = time_calls(lambda _: matrix @ matrix, 1, device)[1]
    seconds = time_calls(lambda _: matrix @ matrix, max(1, round(0.5 / once)), device)
    return 2 * size**3 / seconds[0 if cpu else 1]


def measure(
    arm: str,
    config: ElectraConfig,
    device: torch.device,
    *,
    blocks: int,
    steps: int,
    deadline: float,
) -> Results:
    """Measure one arm for one round: the first step, peak memory, (process, wall) seconds per step
    of each block, and the probed peak.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    if arm.startswith(PEERS):
        import transformers.models.electra.modeling_electra  # noqa: F401
    inputs = batches(config, device, 4)
    before = memory(device)
    train = build_arm(arm, config, device)
    losses: list[Any] = []

    def step(number: int) -> None:
        losses[:] = [train(number, *inputs[number % len(inputs)])]

    results: Results = {"first step seconds": time_calls(step, 1, device)[1]}
    time_calls(step, 1 if device.type == "cpu" else WARM_UP + 2, device)
    results["peak bytes"] = memory(device) - before
    if device.type == "cuda":
        results["reserved bytes"] = torch.cuda.max_memory_reserved()
    results |= {"blocks": [], "bf16 peak": []}
    while len(results["blocks"]) < blocks and (time.time() < deadline or not results["blocks"]):
        results["bf16 peak"].append(probe(device))
        results["blocks"].append(time_calls(step, steps, device))
        if not torch.isfinite(losses[0]):
            raise ValueError(f"{arm}: loss {losses[0].item()}")
    return results


def memory(device: torch.device) -> float:
    """Return the peak memory of this process so far in bytes; on a GPU, of torch's allocator."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return peak_memory_mb() * 2**20


def summary(config: ElectraConfig, rounds: list[dict[str, Results]], cpu: bool) -> Results:
    """Summarize each arm, and the ratio of each peer to ours, by process time on a CPU and by wall
    time on a GPU.
    """
    flops = step_flops(config, VOCAB, "matmul")
    tokens = config.pretrain.batch * config.pretrain.length
    turns: dict[str, list[Results]] = {}
    for turn in rounds:
        for arm, results in turn.items():
            turns.setdefault(arm, []).append(results)
    repeats = list(itertools.chain(*turns.values()))
    peaks = list(itertools.chain(*(results["bf16 peak"] for results in repeats)))
    arms: Results = {}
    for arm, repeats in turns.items():
        blocks = list(itertools.chain(*(results["blocks"] for results in repeats)))
        clocks = [spread([block[clock] for block in blocks]) for clock in range(len(CLOCKS))]
        seconds = clocks[0] if cpu else clocks[1]
        arms[arm] = {
            "seconds": seconds,
            "wall seconds": clocks[1],
            "tokens per second": tokens / seconds["median"],
            "utilisation": flops / seconds["median"] / max(peaks),
            "first step seconds": repeats[0]["first step seconds"],
        }
        for key in {"peak bytes", "reserved bytes"} & repeats[0].keys():
            arms[arm][key] = max(results[key] for results in repeats)
    to_ours: Results = {}
    for arm, ours in itertools.product(turns, turns):
        if ours.startswith("ours") and not arm.startswith("ours"):
            to_ours[f"{arm} / {ours}"] = compare(rounds, arm, ours)
    return {
        "arms": arms,
        "ratios": to_ours,
        "bf16 peak": spread(peaks),
        "flops of a step": flops,
    }


def compare(rounds: list[dict[str, Results]], arm: str, ours: str) -> dict[str, Any]:
    """Return the ratios of two arms by clock, over blocks at the same position in a round."""
    pairs: list[Any] = []
    for turn in rounds:
        if {arm, ours} <= turn.keys():
            pairs += zip(turn[arm]["blocks"], turn[ours]["blocks"], strict=False)
    return {
        clock: ratios([block[number] for block, _ in pairs], [block[number] for _, block in pairs])
        for number, clock in enumerate(CLOCKS)
    }


def child(deadline: float, work: Callable[[], Results]) -> Results:
    """Return the results of a function in a child process, or `error`. The process may take a
    minute beyond the deadline.
    """
    try:
        return in_process(work, timeout=max(deadline - time.time(), 0) + 60)
    except TimeoutError:
        return {"error": LATE}
    except Exception as error:
        return {"error": str(error)}


def model(name: str, options: argparse.Namespace, deadline: float) -> Results:
    """Check that the arms' losses are equal, then measure them in turns until the deadline."""
    device = default_device()
    config = settings(name, options.rows, options.length)
    results: Results = {
        "settings": to_jsonable(load().models[name].electra()),
        "rows": config.pretrain.batch,
        "errors": {},
    }
    if any(arm.startswith(PEERS) for arm in options.arms):
        results["loss at step 0"] = child(deadline, partial(equal_losses, config, device))
        if "error" in results["loss at step 0"]:
            return results
    turns = {"blocks": options.blocks, "steps": options.steps, "deadline": deadline}
    rounds: list[dict[str, Results]] = []
    for number in range(options.rounds):
        rounds.append({})
        for arm in options.arms:
            if time.time() > deadline or arm in results["errors"]:
                continue
            turn = child(deadline, partial(measure, arm, config, device, **turns))
            if "error" in turn:
                results["errors"][arm] = turn["error"]
            else:
                rounds[number][arm] = turn
    if any(rounds):
        results |= summary(config, rounds, device.type == "cpu")
    done = {*results.get("arms", {}), *results["errors"]}
    results["skipped"] = [arm for arm in options.arms if arm not in done]
    return results


def settings(name: str, rows: int | None = None, length: int | None = None) -> ElectraConfig:
    """Return a preset with the batch that is timed, without gradient accumulation."""
    preset = load().models[name].electra()
    fitting = GPU_ROWS.get(name) if torch.cuda.is_available() else None
    batch = rows or fitting or preset.pretrain.batch
    changes = {"batch": batch, "length": length or preset.pretrain.length, "accumulate": 1}
    return replace(preset, pretrain=replace(preset.pretrain, **changes))


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = arguments(__doc__)

    def option(name: str, kind: type, value: Any, text: str | None = None) -> None:
        count = "+" if isinstance(value, list) else None
        parser.add_argument(f"--{name}", type=kind, nargs=count, default=value, help=text)

    kinds = ["ours", *PEERS] if gpu else ["ours", *PEERS[:2]]
    precisions = ["bf16"] if gpu else ["fp32", "bf16"]
    arms = ["-".join(names) for names in itertools.product(kinds, precisions)]
    option("models", str, ["small", "base", "large"] if gpu else ["small"])
    option("arms", str, arms)
    option("rows", int, None, "rows per batch (default: the preset's, or what fits in 80 GB)")
    option("length", int, None, "tokens per row (default: the preset's)")
    option("threads", int, 1)
    option("rounds", int, 2 if gpu else 5, "turns of each arm, each in its own process")
    option("blocks", int, 4 if gpu else 1, "blocks measured per turn")
    option("steps", int, 20 if gpu else 2, "steps per block")
    option("seconds", float, 540.0, "time limit for all models")
    option("out", Path, None)
    measure_models(parser.parse_args())


def measure_models(options: argparse.Namespace) -> None:
    """Measure every model and write the record after each."""
    gpu = torch.cuda.is_available()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the processes
    started = time.time()
    origin = provenance("torch", "transformers")
    name = torch.cuda.get_device_name() if gpu else None
    origin["machine"] |= {"gpu": name, "threads": options.threads}
    origin["probed precision"] = fastest(default_device())
    variant = "gpu" if gpu else f"cpu-{options.threads}"
    output = options.out or RESULTS / f"pretrain-step-{variant}.json"
    models: Results = {}
    with tempfile.TemporaryDirectory() as folder:  # so that each record includes a cold first step
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        for number, name in enumerate(options.models, 1):  # each gets an equal share of the time
            deadline = started + options.seconds * number / len(options.models)
            models[name] = model(name, options, deadline)
            shown = {key: models[name].get(key) for key in ("ratios", "skipped", "errors")}
            print(json.dumps({name: shown}, indent=1))
            record = {"models": models, "seconds": round(time.time() - started, 1)}
            write_record(output, record, origin)


if __name__ == "__main__":
    main()
