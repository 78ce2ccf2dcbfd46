"""One case of benchmarks/rehearsal.py in its own process on the stand-in GPU: launches, records, waits, memory.

Kernels do nothing there, so what reads numbers is replaced: sums and evaluations answer with ones, nothing is
non-finite, and checkpoints hold zeros. Everything else is the project's own `pretrain()` and its fine-tuning jobs.
"""

import argparse
import ctypes
import functools
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from electra.config import build, plain
from electra.devices import default_device, use_own_gpu
from electra.files import write_json
from electra.pretraining import evaluation, model, trainer
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.step import WARM_UP
from electra.storage import checkpoint
from electra.workers import run_units
from pipelines.commands.gpu_check.resume import wait_for
from pipelines.commands.gpu_check.sample import SPECIAL, MadeUpRows
from pipelines.config.params import ModelConfig, load

VOCAB, STEPS, SEEN = 30_522, 4 * (WARM_UP + 1), WARM_UP + 2  # SEEN: a step that neither logs, evaluates nor saves
COUNTED = ("launch", "triton", "gemm", "h2d", "d2h", "d2d", "memset", "sync", "graph", "wrong", "illegal", "captured")
NAMES = ("eager", "compiled", "recorded", "compiled recorded")
MODES = {name: ("compiled" in name, "recorded" in name) for name in NAMES}


class Counters:
    """The stand-in's own counts since it was loaded, and the number of graphs that torch's compiler has made."""

    def __init__(self) -> None:
        self.stand_in = ctypes.CDLL(os.environ["LD_PRELOAD"])

    def read(self) -> dict[str, int]:
        found = {name: ctypes.c_long.in_dll(self.stand_in, f"fake_{name}").value for name in COUNTED}
        return found | {"compiled": counters["stats"]["unique_graphs"]}

    def since(self, before: dict[str, int]) -> dict[str, int]:
        now = self.read()
        return {name: now[name] - before[name] for name in now if now[name] != before[name]}


@functools.cache
def presets() -> dict[str, ModelConfig]:
    """The models of params.yaml, read once."""
    return load().models


def config(model: str, changes: dict[str, Any]) -> ElectraConfig:
    """A preset for a few steps, with changed settings by dotted key."""
    short: dict[str, Any] = {"pretrain.steps": STEPS, "pretrain.warmup": 1, "pretrain.eval_batches": 1}
    short |= dict.fromkeys((f"pretrain.{what}_every" for what in ("log", "eval", "save")), WARM_UP + 1)
    short |= {"pretrain.threads": 1, **{f"pretrain.min_{what}_interval_minutes": 0.0 for what in ("save", "eval")}}
    values = plain(presets()[model].electra())
    for key, value in (short | changes).items():
        section, _, name = key.partition(".")
        values[section][name] = value
    return build(ElectraConfig, values, "rehearsal")


def replace_what_reads_numbers(keep_checkpoints: bool) -> None:
    """Sums, evaluation, the finite checks, first weights (drawing large's takes a minute), and what is saved."""

    def ones(total: dict[str, Tensor]) -> dict[str, float]:
        return dict.fromkeys(evaluation_read(total), 1.0)

    @torch.no_grad()
    def look(model: Any, batches: Any, *rest: Any) -> dict[str, float]:
        model.eval()
        for batch, stage in batches:
            model(batch, stage)
        model.train()
        return dict.fromkeys(("loss", "disc_loss", "disc_baseline", "disc_recall", "disc_auc"), 1.0)

    def save(run: Path, step: int, groups: Any, progress: Any, *, keep: int) -> None:
        zeros = {
            file: {name: torch.zeros_like(tensor.cpu()) for name, tensor in tensors.items()}
            for file, tensors in groups.items()
        }
        if keep_checkpoints:
            written(run, step, zeros, progress, keep=keep)

    evaluation_read, written = evaluation.read_sums, checkpoint.save
    trainer.read_sums, trainer.evaluate, checkpoint.save = ones, look, save
    trainer.Trainer.require_finite = lambda *_: None  # type: ignore[method-assign]
    model.initialise = lambda *_: None


def train(settings: ElectraConfig, mode: str, folder: Path, stop_at: int = 0) -> dict[str, Any]:
    """A run of `pretrain()` and its counts: of one late step, of each graph, of what was compiled when."""
    compiled, recorded = MODES[mode]
    replace_what_reads_numbers(keep_checkpoints=stop_at > 0)
    make, graphs, seen = trainer.CudaRecorder, [], []
    count, device = Counters(), default_device()

    class Recorder(make):  # type: ignore[misc, valid-type]
        def __call__(self, work: Any) -> Any:
            result = super().__call__(work)
            graphs.append(count.read()["captured"])
            return result

    def at_step(optimizer: Any, rate: float) -> None:
        seen.append(count.read())
        if stop_at and len(seen) > stop_at:
            wait_for(folder / f"step-{WARM_UP + 1}")
            os._exit(0)
        set_rate(optimizer, rate)

    set_rate, trainer.set_rate = trainer.set_rate, at_step
    trainer.lacks_to_compile = lambda: "" if compiled else "compiler"
    trainer.CudaRecorder = Recorder if recorded else lambda device: None
    settings = replace(settings, pretrain=replace(settings.pretrain, compile="off" if mode == "eager" else "auto"))
    rows = MadeUpRows(settings.pretrain.batch + 64, settings.pretrain.length, VOCAB)
    begun = time.monotonic()
    trainer.pretrain(settings, Data(rows, rows, SPECIAL, VOCAB), folder, {}, log=lambda step, numbers: None)
    late = {name: seen[SEEN + 1][name] - seen[SEEN][name] for name in COUNTED} if len(seen) > SEEN + 1 else {}
    ended, others = count.read(), {*range(torch.cuda.device_count())} - {device.index}
    # In two-stage training each stage has a warm-up of its own.
    warm = [seen[at] for at in (SEEN, len(seen) // 2 + SEEN) if at < len(seen)][
        -1 if settings.objective.training == "two_stage" else 0
    ]
    return {
        "steps": len(seen),
        "resumed at step": settings.pretrain.steps - len(seen),
        "late step": {name: value for name, value in late.items() if value},
        "graphs": graphs,
        "compiled": ended["compiled"],
        "compiled after the warm-up": ended["compiled"] - warm["compiled"],
        **{name: ended[name] for name in ("wrong", "illegal")},
        "peak GiB": round(torch.cuda.max_memory_allocated(device) / 2**30, 2),
        "reserved GiB": round(torch.cuda.max_memory_reserved(device) / 2**30, 2),
        "device": str(device),
        "bytes elsewhere": sum(map(torch.cuda.max_memory_allocated, others)),
        "seconds": round(time.monotonic() - begun, 1),
    }


def arm(unit: tuple[str, str, str, str]) -> dict[str, Any]:
    """What a worker of an ablation does: take its own GPU, then train."""
    model, changes, mode, folder = unit
    use_own_gpu()
    return train(config(model, json.loads(changes)), mode, Path(folder))


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--case", required=True, help="a JSON object")
    parse.add_argument("--folder", type=Path, required=True)
    parse.add_argument("--out", type=Path, required=True)
    options = parse.parse_args()
    case = json.loads(options.case)
    torch.set_num_threads(1)
    if case["kind"] == "arms":
        units = [
            (case["model"], json.dumps(case["changes"]), case["mode"], str(options.folder / str(k))) for k in range(2)
        ]
        found = [result for _, result in sorted(run_units(arm, units, 2))]
    elif case["kind"] == "finetune":
        from benchmarks import rehearsal_finetune

        found = rehearsal_finetune.run(options.folder)
    else:
        if case["gpus"] > 1:
            torch.cuda.set_device(case["gpus"] - 1)
        stop = SEEN + 1 if case["kind"] == "killed" else 0
        found = [train(config(case["model"], case["changes"]), case["mode"], options.folder, stop)]
    write_json(options.out, found)


if __name__ == "__main__":
    main()
