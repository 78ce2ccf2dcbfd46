"""What a step costs beside other busy processes, by how OpenMP's threads wait: `python benchmarks/busy.py`.

A model's steps on made-up rows, one process for each way of waiting, each measured in turn for a few seconds alone and
beside so many processes that compute without end. Two ratios count, both within a turn: the rate of each way to that of
the first one on the same load (above 1: faster), and how many times as long a step takes as on a quiet machine in the
same way. Two threads beside N processes have a fair share of two processors when that is (N + 2) / 2; `halves` are two
that share no loop (electra/pretraining/step_cpu.py), as tiny's are. Writes benchmarks/results/busy.json.

Linux shares a machine out by session first (`/proc/self/autogroup`), so the others are started in this one's.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import write_json

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")
RESULT = Path("benchmarks/results/busy.json")
WAYS = [
    *("2:", *(f"2:GOMP_SPINCOUNT={spins}" for spins in (1000, 3000, 10000)), "2:OMP_WAIT_POLICY=PASSIVE"),
    *("halves:GOMP_SPINCOUNT=3000", "1:"),
]
WARM_UP = 10  # steps


def serve(model: str, threads: str) -> None:
    """One of the measured processes: train for as many seconds as each line of stdin says, and tell what came of it."""
    import torch  # before pipelines, which chooses a way of waiting where none is set

    from electra.optim.adamw import build_optimizer
    from electra.pretraining.corruption import SpecialIds
    from electra.pretraining.dataloader import Feed, part
    from electra.pretraining.distributed import join
    from electra.pretraining.model import Pretraining
    from electra.pretraining.step import Step, keep_freed_memory
    from pipelines.config.params import load
    from tests.electra.helpers import MadeUpRows

    config = load().models[model].electra()
    slices = 2 if threads == "halves" else 1
    torch.set_num_threads(1 if threads == "halves" else int(threads))
    keep_freed_memory()
    device = torch.device("cpu")
    with join(device, "ddp", "busy") as world:
        network = Pretraining(config, 600, SpecialIds(pad=0, cls=2, sep=3, mask=4), None)
        optimizer = build_optimizer(network.named_parameters(), weight_decay=0.01)
        update = Step(network, optimizer, world, precision="fp32", halved=slices == 2)
        feed = Feed(MadeUpRows(1000, config.pretrain.length), config, device, "noise")
        done = 0

        def step() -> None:
            nonlocal done
            batch = feed.batch(done)
            update([part(batch, index, slices) for index in range(slices)], [done] * slices, "joint")
            done += 1

        for _ in range(WARM_UP):
            step()
        print("ready", flush=True)
        for line in sys.stdin:
            first, wall, cpu = done, time.perf_counter(), time.process_time()
            while time.perf_counter() - wall < float(line):
                step()
            facts = {"steps": done - first, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            print(json.dumps(facts), flush=True)


class Measured:
    """One of the measured processes, from outside."""

    def __init__(self, model: str, threads: str, setting: dict[str, str]) -> None:
        values = {key: value for key, value in os.environ.items() if key not in VARIABLES} | setting
        command = [sys.executable, __file__, "--serve", threads, "--model", model]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=values, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout and self.process.stdout.readline() == "ready\n"

    def measure(self, seconds: float) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))


@contextlib.contextmanager
def others(count: int) -> Iterator[None]:
    """So many processes that compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def table(found: dict[tuple[str, int], list[dict[str, float]]]) -> dict[str, Any]:
    """Rates and ratios of every way on every load."""
    rates = {key: [one["steps"] / one["wall"] for one in turns] for key, turns in found.items()}
    first = next(iter(found))[0]
    quiet = min(load for _, load in found)
    return {
        f"{way}, beside {load}": {
            "steps per second": spread(values),
            "processor seconds a step": spread([one["cpu"] / one["steps"] for one in found[way, load]]),
            f"rate / rate of {first}": spread([a / b for a, b in zip(values, rates[first, load], strict=True)]),
            "times as long as when quiet": spread([b / a for a, b in zip(values, rates[way, quiet], strict=True)]),
        }
        for (way, load), values in rates.items()
    }


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--model", default="tiny")
    parse.add_argument("--seconds", type=float, default=4.0, help="of one measurement")
    parse.add_argument("--turns", type=int, default=5)
    parse.add_argument("--others", type=int, nargs="+", default=[0, 1, 4])
    parse.add_argument("--ways", nargs="+", default=WAYS, help="THREADS:VARIABLE=VALUE, or THREADS:; `halves` of two")
    parse.add_argument("--out", type=Path, default=RESULT)
    parse.add_argument("--serve", help=argparse.SUPPRESS)
    options = parse.parse_args()
    if options.serve:
        serve(options.model, options.serve)
        return
    started, measured = time.monotonic(), dict[str, Measured]()
    for way in options.ways:
        threads, _, setting = way.partition(":")
        measured[way] = Measured(options.model, threads, dict([setting.split("=")]) if setting else {})
    found: dict[tuple[str, int], list[dict[str, float]]] = {(w, n): [] for n in options.others for w in measured}
    for turn in range(options.turns):
        order = list(found)
        random.Random(turn).shuffle(order)
        for way, load in order:
            with others(load):
                found[way, load].append(measured[way].measure(options.seconds))
    for one in measured.values():
        one.process.kill()
        one.process.wait()
    result = {
        "command": "python " + " ".join(sys.argv),
        "model": options.model,
        "rows": "made up, of the model's batch and length",
        "first way": "torch's own: libgomp's threads spin for up to 3 ms before they sleep",
        "others": "processes of this session that compute without end",
        "ways": table(found),
        "seconds": round(time.monotonic() - started),
        **provenance(("torch",)),
    }
    write_json(options.out, result)
    for name, facts in result["ways"].items():
        print(name, *(f"{fact} {value['median']}" for fact, value in facts.items()), sep="  ")


if __name__ == "__main__":
    main()
