"""How far a run in several processes drifts from one in one: `python benchmarks/processes.py`, minutes on a CPU.

The same rows, masks, samples, dropout and slices; only the order of sums differs, and each step carries it on to the
next. Two layers of 64 on made-up rows that can be learnt, at ten times a usual rate, `accumulate: 4`, gloo; for each
number of steps the largest relative difference of a held-out loss from the one of one process, at any evaluation so
far. Writes benchmarks/results/processes.json.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks.harness import arguments, provenance, write_record
from electra.config import plain
from electra.pretraining.dataloader import Data
from electra.pretraining.trainer import pretrain
from pipelines.commands.gpu_check.sample import SPECIAL, MadeUpRows, Size, size

EVERY = 10  # steps between evaluations
COUNTS = (2, 4)  # processes


class Learnable(MadeUpRows):
    """Rows in which a row's kind and the position give the token."""

    def __init__(self, count: int, length: int, vocab_size: int) -> None:
        super().__init__(count, length, vocab_size)
        kinds = np.random.default_rng(count).integers(0, 5, (count, 1))
        tokens = (SPECIAL.mask + 1 + 11 * kinds + np.arange(length) % 11).astype(self.ids.dtype)
        self.ids = np.where(self.ids > SPECIAL.mask, tokens, self.ids)


def settings(steps: int) -> Size:
    whole = size(torch.device("cpu"))
    changes: dict[str, Any] = {"steps": steps, "accumulate": 4, "eval_every": EVERY}
    changes |= {"precision": "fp32", "learning_rate": 5e-3, "warmup": 2}
    return replace(whole, config=replace(whole.config, pretrain=replace(whole.config.pretrain, **changes)))


def train(steps: int, run: Path) -> None:
    """One process of a run, as torchrun would start it."""
    torch.set_num_threads(1)
    shape = settings(steps)
    rows, held_out = (Learnable(count, shape.config.pretrain.length, shape.vocab_size) for count in (512, 256))
    pretrain(shape.config, Data(rows, held_out, SPECIAL, shape.vocab_size), run, {}, log=lambda step, numbers: None)


def curve(steps: int, count: int, run: Path) -> list[float]:
    """The held-out losses of a run with `count` processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        several = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    words = [sys.executable, __file__, "--child", "--steps", str(steps), "--run", str(run)]
    shared = os.environ | several | {"OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(words, env=shared | {"RANK": str(rank)}) for rank in range(count)]
    if codes := [code for process in started if (code := process.wait())]:
        raise SystemExit(f"{count} processes ended with {codes[0]}")
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def main() -> None:
    parse = arguments(__doc__, "processes.json")
    parse.add_argument("--steps", type=int, default=60)
    parse.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parse.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parse.parse_args()
    if options.child:
        train(options.steps, options.run)
        return
    origin, found = provenance("torch"), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        alone = curve(options.steps, 1, Path(folder) / "alone")
        for count in COUNTS:
            name = f"{count} processes"
            losses = curve(options.steps, count, Path(folder) / name)
            apart = [abs(a - b) / b for a, b in zip(losses, alone, strict=True)]
            found[name] = {str(EVERY * at): max(apart[: at + 1]) for at in range(1, len(apart))}
            print(name, {steps: f"{value:.1e}" for steps, value in found[name].items()}, flush=True)
    shape = settings(options.steps)
    facts = {"settings": plain(shape.config), "vocabulary": shape.vocab_size, "loss of one process": alone}
    write_record(options.output, {"largest relative difference by steps": found, **facts}, origin)


if __name__ == "__main__":
    main()
