"""Kill pre-training at random moments and damage its checkpoints: `python benchmarks/kill_pretraining.py 200`.

So many SIGKILLs, a quarter as many SIGTERMs, and so many damages to checkpoint files (one flipped bit, cut short, emptied,
deleted, swapped with another step's), each in runs of a tiny model that are started again until they end. The bytes of the
last checkpoint and of the metrics are compared with those of a run left alone. Writes benchmarks/results/kill-pretraining.json.
"""

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.provenance import provenance
from electra.errors import UserError
from electra.files import sha256_file, write_json
from electra.pretraining.trainer import pretrain
from electra.storage import checkpoint
from tests.electra.helpers import config, data

RESULT = Path("benchmarks/results/kill-pretraining.json")
FORK = multiprocessing.get_context("fork")
DAMAGES = ("flip", "truncate", "empty", "delete", "swap")
FILES = ("model.safetensors", "optimizer.safetensors", "running.safetensors", "progress.json", "MANIFEST.json")


def train(run: Path) -> None:
    """The whole run, or the rest of it; exits as the command line would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        pretrain(config(), data(), run, {}, log=lambda step, numbers: None)
    except UserError as error:
        os._exit(error.exit_code)


def state(run: Path) -> dict[str, str]:
    """Hashes of weights, optimizer, running sums, progress and metrics."""
    newest = run / f"step-{checkpoint.steps(run)[-1]}"
    return {path.name: sha256_file(path) for path in [*sorted(newest.iterdir()), run / "metrics.jsonl"]}


def interrupt(run: Path, number: int, chance: random.Random, longest: float) -> int:
    """Start the run again and again, interrupting it each time; returns how often it was hit before it ended."""
    hits = 0
    while True:
        process = FORK.Process(target=train, args=(run,))
        process.start()
        process.join(chance.uniform(0, longest))
        if process.exitcode is None:
            os.kill(process.pid or 0, number)
            process.join()
            hits += process.exitcode != 0
        if process.exitcode == 0:
            return hits
        assert process.exitcode in {-signal.SIGKILL, 75, -signal.SIGTERM}, process.exitcode


def damage(run: Path, how: str, chance: random.Random) -> None:
    """Damage one file of the newest checkpoint."""
    old, new = (run / f"step-{step}" for step in checkpoint.steps(run)[-2:])
    path = new / chance.choice(FILES)
    raw = bytearray(path.read_bytes())
    if how == "swap":  # a file that both steps have in common would be no damage
        path = new / FILES[chance.randrange(2)]
        path.write_bytes((old / path.name).read_bytes())
    elif how == "delete":
        path.unlink()
    else:
        bit = chance.randrange(len(raw) * 8)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes({"flip": raw, "truncate": raw[: bit // 8], "empty": b""}[how])


def main() -> None:
    wanted, chance = int(sys.argv[1]), random.Random(1)
    torch.set_num_threads(1)
    found: dict[str, Any] = {"sigkill": 0, "sigterm": 0, "damages": dict.fromkeys(DAMAGES, 0), "runs": 0}
    differing = undetected = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "alone"
        begun = time.monotonic()
        process = FORK.Process(target=train, args=(alone,))
        process.start()
        process.join()
        length, expected = time.monotonic() - begun, state(alone)
        for key, number, limit in (("sigkill", signal.SIGKILL, wanted), ("sigterm", signal.SIGTERM, wanted // 4)):
            while found[key] < limit:
                run = Path(folder) / f"run-{found['runs']}"
                found[key] += interrupt(run, number, chance, length)
                found["runs"] += 1
                differing += state(run) != expected
        for index in range(wanted):
            how = DAMAGES[index % len(DAMAGES)]
            damage(alone, how, chance)
            process = FORK.Process(target=train, args=(alone,))
            process.start()
            process.join()
            aside = list(alone.glob("bad-step-*"))
            undetected += not aside
            differing += process.exitcode != 0 or state(alone) != expected
            for bad in aside:
                with contextlib.suppress(OSError):
                    checkpoint.remove(bad)
            found["damages"][how] += 1
    facts = {
        "command": f"python benchmarks/kill_pretraining.py {wanted}",
        "seed": 1,
        **found,
        "runs_that_ended_with_other_bytes": differing,
        "damages_not_noticed": undetected,
        "seconds_of_a_run_left_alone": round(length, 2),
        "seconds": round(time.monotonic() - started),
        **provenance(("torch", "safetensors")),
    }
    write_json(RESULT, facts)
    sys.stdout.write(f"{found}\ndiffering {differing}, damages not noticed {undetected}: {RESULT}\n")
    sys.exit(bool(differing or undetected))


if __name__ == "__main__":
    main()
