"""What two slices at once give over loops that two threads share: `python benchmarks/halves.py`.

Steps of tiny on its own rows by one thread, by two threads that share every loop, and by two that each take half of
the batch (electra/pretraining/step.py), in turns within one process; to benchmarks/results/halves.json. The rows
have to be there: `dvc repro pipelines/dvc.yaml:tokens@sample_world`.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pipelines  # noqa: F401  # before torch, which reads how threads are to wait when it is loaded

# isort: split
import torch

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.optim.adamw import set_rate
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import Feed, part
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.step import Step, keep_freed_memory
from pipelines.config.params import load
from pipelines.stages.pretrain import ModelRows

OUT = Path("benchmarks/results/halves.json")
MODEL, STEPS, ROUNDS = "tiny", 25, 8
WAYS = {"1 thread": (1, False), "2 threads, each loop shared": (2, False), "2 threads, half a batch each": (1, True)}


class Way:
    """A run of its own, by some number of threads a loop, whole batches or halves."""

    def __init__(self, threads: int, halved: bool) -> None:
        params = load()
        config = params.models[MODEL].electra()
        rows = ModelRows(params, params.models[MODEL].tokens, config)
        self.threads, self.slices, self.number = threads, 1 + halved, 0
        ids, world = rows.tokenizer, World(0, 1, torch.device("cpu"))
        special = SpecialIds(pad=ids.pad_id, cls=ids.cls_id, sep=ids.sep_id, mask=ids.mask_id)
        torch.manual_seed(1)
        model = Pretraining(config, ids.vocab_size, special).train()
        set_rate(optimizer := optimizer_of(model), config.pretrain.learning_rate)
        self.step = Step(model, optimizer, world, precision="fp32", halved=halved)
        self.feed = Feed(rows.train_rows, config, world.device, "noise")

    def seconds(self, steps: int) -> float:
        """A step's, from the rows to the norm that the host reads."""
        torch.set_num_threads(self.threads)
        started = time.perf_counter()
        for _ in range(steps):
            batch = self.feed.batch(self.number)
            parts = [part(batch, index, self.slices) for index in range(self.slices)]
            _, norm = self.step(parts, [1] * self.slices, "joint")
            assert norm.isfinite()
            self.number += 1
        return (time.perf_counter() - started) / steps


def main() -> None:
    origin = provenance()
    keep_freed_memory()
    ways = {name: Way(*way) for name, way in WAYS.items()}
    for way in ways.values():
        way.seconds(5)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seconds[name].append(way.seconds(STEPS))
    table = {}
    for name, found in seconds.items():
        rates = [one / mine for one, mine in zip(seconds["1 thread"], found, strict=True)]
        table[name] = {
            "milliseconds": [round(1000 * second, 1) for second in found],
            "rate_over_one": round(statistics.median(rates), 3),
            "rates": [round(rate, 3) for rate in rates],
        }
        print(f"{name}: {statistics.median(rates):.2f} times one thread", flush=True)
    write_json(OUT, {"model": MODEL, "steps": STEPS, "ways": table, **origin})


if __name__ == "__main__":
    main()
