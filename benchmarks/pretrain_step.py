"""The pre-training step beside transformers' modules: one script for CPU and GPU, one JSON.

    python benchmarks/pretrain_step.py --models small --rows 8 --threads 1   # a CPU: minutes
    python benchmarks/pretrain_step.py                                       # a GPU: small, base and large, 10 minutes

Arms: `ours-P` is the loop's own step; `peer-P` is ElectraForMaskedLM and ElectraForPreTraining written as their docs
suggest (SDPA, labels of -100, fused AdamW, autocast), with Gumbel sampling at the masked positions; `compiled-P` is the
peer under torch.compile. P is the precision, fp32 (transformers' default) or bf16.

Protocol: the same weights, rows, masks and rates in all arms; before anything is timed, all arms must give the same
loss without dropout. Then each arm runs in a process of its own, so that none holds memory beside another, and arms
take turns, round by round (A-B-A-B), with dropout 0.1 as published; what one round compiled the next one finds. A ratio
is one of blocks at the same place in a round; reported are the median and the spread. On a CPU, process time counts (a
busy machine stretches the wall's), which is given too. Utilisation is matrix products alone
(electra/pretraining/flops.py, `matmul`) over the rate of a large bf16 product, probed before each block. Rows are
synthetic. Peak memory is what an arm took above its imports (CPU) or above the rows (GPU: torch's allocator; `reserved`
is what it asked of the driver).
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.pretrain_arms import VOCAB, Ours, Rows, batches, equal_losses, make
from benchmarks.provenance import processor
from electra.config import plain
from electra.devices import default_device
from electra.files import read_json, write_json
from electra.optim.precision import choose
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Feed
from electra.pretraining.distributed import World
from electra.pretraining.evaluation import metrics, read_sums
from electra.pretraining.flops import step_flops
from electra.pretraining.state import State
from electra.pretraining.step import WARM_UP
from pipelines.config.params import load

RESULTS, LATE = Path("benchmarks/results"), "stopped at the deadline"
GPU_ROWS = {"base": 64, "large": 32}  # what every arm holds on a GPU of 80 GB; small's batch fits whole
MARKS = {"cpu": {"peer-fp32": 3.0, "equal bf16": 2.3, "equal fp32": 1.6, "utilisation": 0.4, "memory": 0.5, "overhead": 0.02},  # noqa: E501
         "cuda": {"equal bf16": 3.0, "compiled bf16": 1.5, "first step seconds": 60,
                  "tokens per second": {"small": 2.5e6, "base": 4.5e5}, "utilisation": {"large": 0.4}}}  # fmt: skip

Found = dict[str, Any]


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
        state = State(Path(folder), {}, World(0, 1, device), names, ours.optimizer)
        saved = seconds(lambda n: state.save(n + 1, {"step": n + 1}, settings.keep_checkpoints), 1)
    return {
        "data": seconds(lambda n: feed.batch(n), 5),
        "logging": seconds(lambda _: metrics(read_sums(sums)), 3) / settings.log_every,
        "checkpoint": saved / settings.save_every,
    }


def measure(
    arm: str, config: ElectraConfig, device: torch.device, *, blocks: int, steps: int, deadline: float
) -> Found:
    """One arm of one round: first step, peak memory, (process, wall) seconds a step of each block, the probed peak."""
    cpu = device.type == "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    if not arm.startswith("ours"):
        import transformers.models.electra.modeling_electra  # noqa: F401
    given = batches(config, device)
    before = _held(cpu)
    begun = time.perf_counter()
    one = make(arm, config, device)
    one.step(0, *given[0])
    synchronize(device)
    found: Found = {"first step seconds": time.perf_counter() - begun, "blocks": [], "bf16 peak": []}
    for number in range(1, 2 if cpu else WARM_UP + 3):
        one.step(number, *given[number % len(given)])
    synchronize(device)
    found["peak bytes"] = _peak(cpu) - before
    if not cpu:
        found["reserved bytes"] = torch.cuda.max_memory_reserved()
    while len(found["blocks"]) < blocks and (time.time() < deadline or not found["blocks"]):
        found["bf16 peak"].append(probe(device))
        one.start()
        synchronize(device)
        process, wall = time.process_time(), time.perf_counter()
        for number in range(steps):
            loss = one.step(number, *given[number % len(given)])
        synchronize(device)
        found["blocks"].append(((time.process_time() - process) / steps, (time.perf_counter() - wall) / steps))
        if not torch.isfinite(loss):
            raise SystemExit(f"{arm}: loss {loss.item()}")
    if isinstance(one, Ours):
        found["overhead"] = overhead(config, one, device)
    return found


def _held(cpu: bool) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if cpu else torch.cuda.memory_allocated()


def _peak(cpu: bool) -> int:
    return _held(cpu) if cpu else torch.cuda.max_memory_allocated()


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(config: ElectraConfig, rounds: list[dict[str, Found]], cpu: bool) -> Found:
    """Numbers of each arm, and of each peer over ours: on a CPU by process time, on a GPU by the wall's."""
    flops, tokens = step_flops(config, VOCAB, "matmul"), config.pretrain.batch * config.pretrain.length
    peaks = [rate for one in rounds for found in one.values() for rate in found["bf16 peak"]]
    which = 0 if cpu else 1
    arms: Found = {}
    ratios: Found = {}
    for arm in dict.fromkeys(name for one in rounds for name in one):
        mine = [one[arm] for one in rounds if arm in one]
        pairs = [block for found in mine for block in found["blocks"]]
        seconds = spread([pair[which] for pair in pairs])
        arms[arm] = {"seconds": seconds, "wall seconds": spread([wall for _, wall in pairs]),
                     "tokens per second": tokens / seconds["median"],
                     "utilisation": flops / seconds["median"] / max(peaks),
                     "first step seconds": mine[0]["first step seconds"]}  # fmt: skip
        arms[arm] |= {
            key: max(found[key] for found in mine) for key in ("peak bytes", "reserved bytes") if key in mine[0]
        }
        if "overhead" in mine[0]:
            share = mine[0]["overhead"]
            arms[arm]["overhead"] = {**share, "share": sum(share.values()) / seconds["median"]}
        for ours in (name for name in rounds[0] if name.startswith("ours") and not arm.startswith("ours")):
            both = [pair for one in rounds if arm in one and ours in one
                    for pair in zip(one[arm]["blocks"], one[ours]["blocks"], strict=False)]  # fmt: skip
            for clock, kind in enumerate(("process", "wall")):
                values = [theirs[clock] / own[clock] for theirs, own in both]
                ratios.setdefault(f"{arm} / {ours}", {})[kind] = spread(values)
    return {"arms": arms, "ratios": ratios, "bf16 peak": spread(peaks), "flops of a step": flops}


def child(out: Path, options: argparse.Namespace, deadline: float, *more: str) -> Found:
    """What a process of its own found, which has a minute beyond the deadline to end; `error` says what went wrong."""
    words = [sys.executable, __file__, "--out", str(out), "--deadline", str(deadline), *more]
    for name in ("rows", "threads", "blocks", "steps"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    try:
        left = max(deadline - time.time(), 0) + 60
        done = subprocess.run(words, timeout=left, stderr=subprocess.PIPE, text=True, check=False)
    except subprocess.TimeoutExpired:
        return {"error": LATE}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    found: Found = read_json(out)
    return found


def model(name: str, options: argparse.Namespace, folder: Path, deadline: float) -> Found:
    """Everything of one model: losses that agree, then the arms in turns until the deadline."""
    gpu, part, config = torch.cuda.is_available(), folder / "part.json", settings(name, options.rows)
    found: Found = {"settings": plain(load().models[name].electra()), "rows": config.pretrain.batch, "errors": {}}
    if any(not arm.startswith("ours") for arm in options.arms):
        found["loss at step 0"] = child(part, options, deadline, "--one", name)
        if "error" in found["loss at step 0"]:
            return found
    rounds: list[dict[str, Found]] = []
    for number in range(options.rounds):
        rounds.append({})
        for arm in options.arms:
            if time.time() > deadline or arm in found["errors"]:
                continue
            one = child(part, options, deadline, "--one", name, "--arm", arm)
            (found["errors"] if "error" in one else rounds[number])[arm] = one.get("error", one)
    if any(rounds):
        found |= summary(config, rounds, not gpu)
    found["skipped"] = [arm for arm in options.arms if arm not in found.get("arms", {}) and arm not in found["errors"]]
    return found


def settings(name: str, rows: int | None) -> ElectraConfig:
    """A preset with the batch that is timed, in one slice."""
    preset = load().models[name].electra()
    fitting = GPU_ROWS.get(name) if torch.cuda.is_available() else None
    return replace(
        preset, pretrain=replace(preset.pretrain, batch=rows or fitting or preset.pretrain.batch, accumulate=1)
    )


def provenance(options: argparse.Namespace) -> Found:
    git = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40"], capture_output=True, text=True)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "command": "python " + " ".join(sys.argv),
        "commit": git.stdout.strip(),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "gpu": gpu, "system": platform.platform(),
                    "load": os.getloadavg(), "threads": options.threads, "allocator of ours": "keeps freed memory"},
        "versions": {name: version(name) for name in ("torch", "transformers") if find_spec(name)},
        "python": platform.python_version(),
        "probed precision": choose("auto", default_device()),
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
    parse.add_argument("--rows", type=int, help="rows of a batch (default: the preset's, or what 80 GB of a GPU hold)")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--rounds", type=int, default=2 if gpu else 5, help="turns of each arm, a process each")
    parse.add_argument("--blocks", type=int, default=4 if gpu else 1, help="measured in one turn")
    parse.add_argument("--steps", type=int, default=20 if gpu else 2, help="steps of a block")
    parse.add_argument("--seconds", type=float, default=540.0, help="stop measuring after so long")
    parse.add_argument("--out", type=Path)
    parse.add_argument("--one", help=argparse.SUPPRESS)
    parse.add_argument("--arm", help=argparse.SUPPRESS)
    parse.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    options = parse.parse_args()
    torch.set_num_threads(options.threads)
    if options.one:
        config, device = settings(options.one, options.rows), default_device()
        turn = {"blocks": options.blocks, "steps": options.steps, "deadline": options.deadline}
        found = measure(options.arm, config, device, **turn) if options.arm else equal_losses(config, device)
        write_json(options.out, found)
        return
    begun, result = time.time(), provenance(options)
    out = options.out or RESULTS / f"pretrain-step-{'gpu' if gpu else f'cpu-{options.threads}'}.json"
    result["models"] = {}
    with tempfile.TemporaryDirectory() as folder:  # first steps are cold ones
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        for index, name in enumerate(options.models):  # each has its share of the time
            deadline = begun + options.seconds * (index + 1) / len(options.models)
            result["models"][name] = model(name, options, Path(folder), deadline)
            result["seconds"] = round(time.time() - begun, 1)
            write_json(out, result)
    print(json.dumps({name: {key: found.get(key) for key in ("ratios", "skipped", "errors")} for name, found in
                      result["models"].items()}, indent=1))  # fmt: skip
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
