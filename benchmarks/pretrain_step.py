"""The pre-training step beside transformers' modules: one script for CPU and GPU, one JSON.

    python benchmarks/pretrain_step.py --models small --rows 8 --threads 1   # a CPU: minutes
    python benchmarks/pretrain_step.py                                       # a GPU: small, base and large, 10 minutes

Arms: `ours-P` is the loop's own step, with alternatives to its parts on a GPU (class Ours in
pretrain_arms.py, such as `whole-P` or `eager-P`); `peer-P` is ElectraForMaskedLM and
ElectraForPreTraining written as their docs suggest (SDPA, labels of -100, fused AdamW, autocast),
with Gumbel sampling at the masked positions; `compiled-P` is the peer under torch.compile. P is the
precision, fp32 (transformers' default) or bf16.

Protocol: the same weights, rows, masks and rates in all arms; before anything is timed, all arms
must give the same loss without dropout. Then each arm runs in a process of its own, so that none
holds memory beside another, and arms take turns, round by round (A-B-A-B), with dropout 0.1 as
published; what one round compiled the next one finds. A ratio is one of blocks at the same place in
a round; reported are the median and the spread. On a CPU, process time counts (a busy machine
stretches the wall's), which is given too. Utilisation is matrix products alone
(electra/pretraining/flops.py, `matmul`) over the rate of a large bf16 product, probed before each
block. Rows are synthetic. Peak memory is what an arm took above its imports (CPU) or above the rows
(GPU: torch's allocator; `reserved` is what it asked of the driver).
"""

import argparse
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
from benchmarks.pretrain_arms import VOCAB, Ours, Rows, batches, equal_losses, make
from electra.config import plain
from electra.devices import default_device
from electra.optim.precision import choose
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Feed
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import metrics, read_sums
from electra.pretraining.flops import step_flops
from electra.pretraining.state import State
from electra.pretraining.step import WARM_UP
from pipelines.config.params import load

LATE = "stopped at the deadline"
# what every arm holds on a GPU of 80 GB; small's batch fits whole
GPU_ROWS = {"base": 64, "modern-base": 64, "large": 32}
CLOCKS = ("process", "wall")  # of a CPU the first counts, of a GPU the second
SUMS = ("count", "chosen", "mlm_loss", "tokens", "replaced", "disc_loss", "said_replaced", "found")

Found = dict[str, Any]


def now(device: torch.device) -> tuple[float, float]:
    """Process and wall seconds, once the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.process_time(), time.perf_counter()


def timed(work: Any, times: int, device: torch.device) -> tuple[float, float]:
    """(process, wall) seconds of one call of `work(number)`."""
    begun = now(device)
    for number in range(times):
        work(number)
    process, wall = ((end - start) / times for start, end in zip(begun, now(device), strict=True))
    return process, wall


def probe(device: torch.device) -> float:
    """Operations a second (of process time on a CPU) of a large square product, in bf16 if the
    device has it.

    A processor without bf16 emulates it, a hundred times slower than fp32.
    """
    cpu, kind = (
        device.type == "cpu",
        torch.bfloat16 if choose("auto", device) == "bf16" else torch.float32,
    )
    size = 2048 if cpu else 8192
    left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    once = timed(lambda _: left @ right, 1, device)[1]
    return 2 * size**3 / timed(lambda _: left @ right, max(1, round(0.5 / once)), device)[not cpu]


def overhead(config: ElectraConfig, ours: Ours, device: torch.device) -> dict[str, float]:
    """Seconds a step that data, logging and checkpoints take, each at the preset's own interval."""
    settings, which = config.pretrain, device.type != "cpu"
    feed = Feed(Rows(4 * settings.batch, settings.length), config, device, "noise")
    sums = {name: torch.ones((), device=device, dtype=torch.double) for name in SUMS}
    names = {parameter: name for name, parameter in ours.model.named_parameters()}
    feed.batch(0)
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder), {}, World(0, 1, device), names, ours.optimizer)
        saved = timed(
            lambda n: state.save(n + 1, {"step": n + 1}, settings.keep_checkpoints), 1, device
        )[which]
    return {
        "data": timed(feed.batch, 5, device)[which],
        "logging": timed(lambda _: metrics(read_sums(sums)), 3, device)[which] / settings.log_every,
        "checkpoint": saved / settings.save_every,
    }


def measure(
    arm: str,
    config: ElectraConfig,
    device: torch.device,
    *,
    blocks: int,
    steps: int,
    deadline: float,
) -> Found:
    """One arm of one round: first step, peak memory, (process, wall) seconds a step of each block,
    the probed peak.
    """
    cpu = device.type == "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    if arm.startswith(("peer", "compiled")):
        import transformers.models.electra.modeling_electra  # noqa: F401
    given, begun = batches(config, device), time.perf_counter()
    before = memory_mb("VmHWM") * 2**20 if cpu else torch.cuda.memory_allocated()
    one = make(arm, config, device)
    losses = []

    def step(number: int) -> None:
        losses[:] = [one.step(number, *given[number % len(given)])]

    step(0)
    found: Found = {"first step seconds": now(device)[1] - begun, "blocks": [], "bf16 peak": []}
    timed(step, 1 if cpu else WARM_UP + 2, device)
    found["peak bytes"] = (
        memory_mb("VmHWM") * 2**20 if cpu else torch.cuda.max_memory_allocated()
    ) - before
    if not cpu:
        found["reserved bytes"] = torch.cuda.max_memory_reserved()
    while len(found["blocks"]) < blocks and (time.time() < deadline or not found["blocks"]):
        found["bf16 peak"].append(probe(device))
        found["blocks"].append(timed(step, steps, device))
        if not torch.isfinite(losses[0]):
            raise SystemExit(f"{arm}: loss {losses[0].item()}")
    if isinstance(one, Ours):
        found["overhead"] = overhead(config, one, device)
    return found


def summary(config: ElectraConfig, rounds: list[dict[str, Found]], cpu: bool) -> Found:
    """Numbers of each arm, and of each peer over ours: on a CPU by process time, on a GPU by the
    wall's.
    """
    flops, tokens = (
        step_flops(config, VOCAB, "matmul"),
        config.pretrain.batch * config.pretrain.length,
    )
    peaks = [rate for one in rounds for found in one.values() for rate in found["bf16 peak"]]
    arms: Found = {}
    over: Found = {}
    for arm in dict.fromkeys(name for one in rounds for name in one):
        mine = [one[arm] for one in rounds if arm in one]
        pairs = [pair for found in mine for pair in found["blocks"]]
        process, wall = (spread([pair[clock] for pair in pairs]) for clock in range(2))
        seconds = process if cpu else wall
        arms[arm] = {
            "seconds": seconds,
            "wall seconds": wall,
            "tokens per second": tokens / seconds["median"],
        }
        arms[arm] |= {"utilisation": flops / seconds["median"] / max(peaks)}
        arms[arm] |= {"first step seconds": mine[0]["first step seconds"]}
        arms[arm] |= {
            key: max(of[key] for of in mine)
            for key in ("peak bytes", "reserved bytes")
            if key in mine[0]
        }
        if "overhead" in mine[0]:
            share = mine[0]["overhead"]
            arms[arm]["overhead"] = {**share, "share": sum(share.values()) / seconds["median"]}
        for ours in (
            name for name in rounds[0] if name.startswith("ours") and not arm.startswith("ours")
        ):
            both = [pair for one in rounds if {arm, ours} <= one.keys()
                    for pair in zip(one[arm]["blocks"], one[ours]["blocks"], strict=False)]  # fmt: skip
            over[f"{arm} / {ours}"] = {
                kind: ratios((theirs[clock] for theirs, _ in both), (own[clock] for _, own in both))
                for clock, kind in enumerate(CLOCKS)
            }
    return {"arms": arms, "ratios": over, "bf16 peak": spread(peaks), "flops of a step": flops}


def child(options: argparse.Namespace, deadline: float, *more: str) -> Found:
    """What a process of its own found, which has a minute beyond the deadline to end; `error` says
    what went wrong.
    """
    words = ["--deadline", str(deadline), *more]
    for name in ("rows", "length", "threads", "blocks", "steps"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    try:
        found: Found = run_process(__file__, words, max(deadline - time.time(), 0) + 60)
    except TimeoutExpired:
        return {"error": LATE}
    except RuntimeError as error:
        return {"error": str(error)}
    return found


def model(name: str, options: argparse.Namespace, deadline: float) -> Found:
    """Everything of one model: losses that agree, then the arms in turns until the deadline."""
    config = settings(name, options.rows, options.length)
    found: Found = {
        "settings": plain(load().models[name].electra()),
        "rows": config.pretrain.batch,
        "errors": {},
    }
    if any(arm.startswith(("peer", "compiled")) for arm in options.arms):
        found["loss at step 0"] = child(options, deadline, "--one", name)
        if "error" in found["loss at step 0"]:
            return found
    rounds: list[dict[str, Found]] = []
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
    arms = (
        ["ours-bf16", "peer-bf16", "compiled-bf16"]
        if gpu
        else ["ours-fp32", "ours-bf16", "peer-fp32", "peer-bf16"]
    )
    parse = arguments(__doc__)
    parse.add_argument(
        "--models", nargs="+", default=["small", "base", "large"] if gpu else ["small"]
    )
    parse.add_argument("--arms", nargs="+", default=arms)
    parse.add_argument(
        "--rows",
        type=int,
        help="rows of a batch (default: the preset's, or what 80 GB of a GPU hold)",
    )
    parse.add_argument("--length", type=int, help="tokens of a row (default: the preset's)")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument(
        "--rounds", type=int, default=2 if gpu else 5, help="turns of each arm, a process each"
    )
    parse.add_argument("--blocks", type=int, default=4 if gpu else 1, help="measured in one turn")
    parse.add_argument("--steps", type=int, default=20 if gpu else 2, help="steps of a block")
    parse.add_argument("--seconds", type=float, default=540.0, help="stop measuring after so long")
    parse.add_argument("--out", type=Path)
    for hidden, kind in (("--one", str), ("--arm", str), ("--deadline", float)):
        parse.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    options = parse.parse_args()
    torch.set_num_threads(options.threads)
    device = default_device()
    if options.one:
        config = settings(options.one, options.rows, options.length)
        turn = {"blocks": options.blocks, "steps": options.steps}
        each = (
            measure(options.arm, config, device, **turn, deadline=options.deadline)
            if options.arm
            else None
        )
        print(json.dumps(each or equal_losses(config, device)))
        return
    begun, origin = time.time(), provenance("torch", "transformers")
    origin["machine"] |= {
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "threads": options.threads,
    }
    origin["probed precision"], found = choose("auto", device), {}
    out = (
        options.out or RESULTS / f"pretrain-step-{'gpu' if gpu else f'cpu-{options.threads}'}.json"
    )
    with tempfile.TemporaryDirectory() as folder:  # first steps are cold ones
        os.environ |= {
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
        for index, name in enumerate(options.models):  # each has its share of the time
            found[name] = model(
                name, options, begun + options.seconds * (index + 1) / len(options.models)
            )
            print(
                json.dumps(
                    {name: {key: found[name].get(key) for key in ("ratios", "skipped", "errors")}},
                    indent=1,
                )
            )
            write_record(out, {"models": found, "seconds": round(time.time() - begun, 1)}, origin)


if __name__ == "__main__":
    main()
