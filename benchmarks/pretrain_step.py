"""Compare the pre-training step with transformers' modules: one script for CPU and GPU, one JSON.

    python benchmarks/pretrain_step.py --models small --rows 8   # a CPU: minutes
    python benchmarks/pretrain_step.py   # a GPU: small, base and large, 10 minutes

Arms: `ours-P` is the loop's own step, with alternatives to its parts on a GPU (class Ours in
pretrain_arms.py, such as `whole-P` or `eager-P`); `peer-P` is ElectraForMaskedLM and
ElectraForPreTraining written as their docs suggest (SDPA, labels of -100, fused AdamW, autocast),
with Gumbel sampling at the masked positions; `expert-P` is the peer with its vocabulary head at the
masked positions only; `compiled-P` is the peer under torch.compile. P is the precision, fp32
(transformers' default) or bf16.

Protocol: the same weights, rows, masks and rates in all arms; before anything is timed, all arms
must give the same loss without dropout. Then each arm runs in a process of its own, so that none
holds memory while another runs, and arms take turns, round by round (A-B-A-B), with dropout 0.1 as
published; what one round compiled the next one finds. A ratio is one of blocks at the same place in
a round; reported are the median and the spread. On a CPU, process time counts (a busy machine
stretches the wall's), which is given too. Utilisation is matrix products alone
(electra/pretraining/flops.py, `matmul`) over the rate of a large bf16 product, probed before each
block. Rows are synthetic. Peak memory is what an arm took above its imports (CPU) or above the rows
(GPU: torch's allocator; `reserved` is what it asked of the driver).
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness import (
    RESULTS,
    arguments,
    memory_mb,
    provenance,
    ratios,
    run_process,
    spread,
    write_record,
)
from benchmarks.pretrain_arms import PEERS, VOCAB, batches, equal_losses, make
from electra.config import plain
from electra.devices import default_device
from electra.optim.precision import choose
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import step_flops
from electra.pretraining.step import WARM_UP
from pipelines.config.params import load

LATE = "stopped at the deadline"
# what every arm holds on a GPU of 80 GB; small's batch fits whole
GPU_ROWS = {"base": 64, "modern-base": 64, "large": 32}
CLOCKS = ("process", "wall")  # of a CPU the first counts, of a GPU the second

Results = dict[str, Any]


def now(device: torch.device) -> tuple[float, float]:
    """Return process and wall seconds, once the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.process_time(), time.perf_counter()


def timed(work: Any, times: int, device: torch.device) -> tuple[float, float]:
    """Return the process and wall seconds of one call of `work(number)`."""
    started = now(device)
    for number in range(times):
        work(number)
    ended = now(device)
    return (ended[0] - started[0]) / times, (ended[1] - started[1]) / times


def probe(device: torch.device) -> float:
    """Return the operations a second (of process time on a CPU) of a large square product, in bf16
    if the device has it.

    A processor without bf16 emulates it, a hundred times slower than fp32.
    """
    cpu = device.type == "cpu"
    kind = torch.bfloat16 if choose("auto", device) == "bf16" else torch.float32
    size = 2048 if cpu else 8192
    matrix = torch.randn(size, size, device=device).to(kind)
    once = timed(lambda _: matrix @ matrix, 1, device)[1]
    seconds = timed(lambda _: matrix @ matrix, max(1, round(0.5 / once)), device)
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
    """Return one arm of one round: first step, peak memory, (process, wall) seconds a step of each
    block, the probed peak.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    if arm.startswith(PEERS):
        import transformers.models.electra.modeling_electra  # noqa: F401
    given = batches(config, device, 4)
    before = memory(device)
    trainer = make(arm, config, device)
    losses: list[Any] = []

    def step(number: int) -> None:
        losses[:] = [trainer.step(number, *given[number % len(given)])]

    results: Results = {"first step seconds": timed(step, 1, device)[1]}
    timed(step, 1 if device.type == "cpu" else WARM_UP + 2, device)
    results["peak bytes"] = memory(device) - before
    if device.type == "cuda":
        results["reserved bytes"] = torch.cuda.max_memory_reserved()
    results |= {"blocks": [], "bf16 peak": []}
    while len(results["blocks"]) < blocks and (time.time() < deadline or not results["blocks"]):
        results["bf16 peak"].append(probe(device))
        results["blocks"].append(timed(step, steps, device))
        if not torch.isfinite(losses[0]):
            raise SystemExit(f"{arm}: loss {losses[0].item()}")
    return results


def memory(device: torch.device) -> float:
    """Return the most bytes that this process has held so far, on a GPU those of torch."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return memory_mb("VmHWM") * 2**20


def summary(config: ElectraConfig, rounds: list[dict[str, Results]], cpu: bool) -> Results:
    """Return the numbers of each arm, and of each peer over ours: on a CPU by process time, on a
    GPU by the wall's.
    """
    flops = step_flops(config, VOCAB, "matmul")
    tokens = config.pretrain.batch * config.pretrain.length
    turns: dict[str, list[Results]] = {}
    for turn in rounds:
        for arm, found in turn.items():
            turns.setdefault(arm, []).append(found)
    peaks = list(
        itertools.chain(*(found["bf16 peak"] for found in itertools.chain(*turns.values())))
    )
    arms: Results = {}
    for arm, mine in turns.items():
        blocks = list(itertools.chain(*(found["blocks"] for found in mine)))
        clocks = [spread([block[clock] for block in blocks]) for clock in range(len(CLOCKS))]
        seconds = clocks[0] if cpu else clocks[1]
        arms[arm] = {
            "seconds": seconds,
            "wall seconds": clocks[1],
            "tokens per second": tokens / seconds["median"],
            "utilisation": flops / seconds["median"] / max(peaks),
            "first step seconds": mine[0]["first step seconds"],
        }
        for key in {"peak bytes", "reserved bytes"} & mine[0].keys():
            arms[arm][key] = max(found[key] for found in mine)
    over: Results = {}
    for arm, ours in itertools.product(turns, turns):
        if ours.startswith("ours") and not arm.startswith("ours"):
            over[f"{arm} / {ours}"] = compare(rounds, arm, ours)
    return {"arms": arms, "ratios": over, "bf16 peak": spread(peaks), "flops of a step": flops}


def compare(rounds: list[dict[str, Results]], arm: str, ours: str) -> dict[str, Any]:
    """Return the ratios of two arms by clock, of blocks at the same place in the same round."""
    pairs: list[Any] = []
    for turn in rounds:
        if {arm, ours} <= turn.keys():
            pairs += zip(turn[arm]["blocks"], turn[ours]["blocks"], strict=False)
    return {
        clock: ratios([theirs[number] for theirs, _ in pairs], [own[number] for _, own in pairs])
        for number, clock in enumerate(CLOCKS)
    }


def child(options: argparse.Namespace, deadline: float, *more: str) -> Results:
    """Return the results of a process of its own, which has a minute beyond the deadline to end;
    `error` says what went wrong.
    """
    words = ["--deadline", str(deadline), *more]
    for name in ("rows", "length", "threads", "blocks", "steps"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    try:
        results = run_process(__file__, words, max(deadline - time.time(), 0) + 60)
    except TimeoutExpired:
        return {"error": LATE}
    except RuntimeError as error:
        return {"error": str(error)}
    return dict(results)


def model(name: str, options: argparse.Namespace, deadline: float) -> Results:
    """Return the results of one model: equal losses, then the arms in turns until the deadline."""
    config = settings(name, options.rows, options.length)
    found: Results = {
        "settings": plain(load().models[name].electra()),
        "rows": config.pretrain.batch,
        "errors": {},
    }
    if any(arm.startswith(PEERS) for arm in options.arms):
        found["loss at step 0"] = child(options, deadline, "--one", name)
        if "error" in found["loss at step 0"]:
            return found
    rounds: list[dict[str, Results]] = []
    for number in range(options.rounds):
        rounds.append({})
        for arm in options.arms:
            if time.time() > deadline or arm in found["errors"]:
                continue
            one = child(options, deadline, "--one", name, "--arm", arm)
            (found["errors"] if "error" in one else rounds[number])[arm] = one.get("error", one)
    if any(rounds):
        found |= summary(config, rounds, not torch.cuda.is_available())
    found["skipped"] = [
        arm
        for arm in options.arms
        if arm not in found.get("arms", {}) and arm not in found["errors"]
    ]
    return found


def settings(name: str, rows: int | None = None, length: int | None = None) -> ElectraConfig:
    """A preset with the batch that is timed, in one slice."""
    preset = load().models[name].electra()
    fitting = GPU_ROWS.get(name) if torch.cuda.is_available() else None
    batch = rows or fitting or preset.pretrain.batch
    timed = {"batch": batch, "length": length or preset.pretrain.length, "accumulate": 1}
    return replace(preset, pretrain=replace(preset.pretrain, **timed))


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
    option(
        "rows", int, None, "rows of a batch (default: the preset's, or what 80 GB of a GPU hold)"
    )
    option("length", int, None, "tokens of a row (default: the preset's)")
    option("threads", int, 1)
    option("rounds", int, 2 if gpu else 5, "turns of each arm, a process each")
    option("blocks", int, 4 if gpu else 1, "measured in one turn")
    option("steps", int, 20 if gpu else 2, "steps of a block")
    option("seconds", float, 540.0, "stop measuring after so long")
    option("out", Path, None)
    for name, kind in (("one", str), ("arm", str), ("deadline", float)):
        option(name, kind, None, argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = default_device()
    if options.one:
        config = settings(options.one, options.rows, options.length)
        turn = {"blocks": options.blocks, "steps": options.steps, "deadline": options.deadline}
        arm = options.arm
        print(
            json.dumps(
                measure(arm, config, device, **turn) if arm else equal_losses(config, device)
            )
        )
    else:
        measure_models(options, device)


def measure_models(options: argparse.Namespace, device: torch.device) -> None:
    """Measure every model and write the record after each."""
    gpu = device.type == "cuda"
    started = time.time()
    origin = provenance("torch", "transformers")
    card = torch.cuda.get_device_name() if gpu else None
    origin["machine"] |= {"gpu": card, "threads": options.threads}
    origin["probed precision"] = choose("auto", device)
    variant = "gpu" if gpu else f"cpu-{options.threads}"
    output = options.out or RESULTS / f"pretrain-step-{variant}.json"
    models: Results = {}
    with tempfile.TemporaryDirectory() as folder:  # so that first steps are cold ones
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        for number, name in enumerate(options.models, 1):  # each has its share of the time
            deadline = started + options.seconds * number / len(options.models)
            models[name] = model(name, options, deadline)
            shown = {key: models[name].get(key) for key in ("ratios", "skipped", "errors")}
            print(json.dumps({name: shown}, indent=1))
            record = {"models": models, "seconds": round(time.time() - started, 1)}
            write_record(output, record, origin)


if __name__ == "__main__":
    main()
