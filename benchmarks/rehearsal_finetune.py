"""Fine-tuning jobs on two stand-in GPUs, through the pool's own workers: on which GPU each worked, and what it held there."""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from benchmarks.finetune_gpu import write_model
from electra.data.tokenizer import SPECIALS
from electra.files import write_jsonl
from electra.finetuning.runs import pool
from electra.finetuning.runs.plan import plan
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.workers import run_units

SIZE = EncoderConfig(layers=2, hidden=128, heads=2, ffn=256, embedding=64, positions=64)


def observed(unit: pool.Unit) -> dict[str, Any]:
    """A unit of the pool, and the GPU that it worked on."""
    records = pool.alone(unit)
    held = [torch.cuda.max_memory_allocated(k) for k in range(torch.cuda.device_count())]
    here = torch.cuda.current_device()
    return {"jobs": [job.name for job in unit], "device": f"cuda:{here}", "steps": records[0]["steps"],
            "bytes here": held[here], "bytes elsewhere": sum(held) - held[here], "wrong": 0, "illegal": 0}  # fmt: skip


def run(folder: Path, *, stack: bool) -> list[dict[str, Any]]:
    """Two arms with two seeds each, by two workers: four units, or two stacks."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, "good", "bad", "cat", "dog"]))
    rows = [{"id": str(n), "a": "good cat" if n % 2 else "bad dog", "b": None, "label": str(n % 2)} for n in range(64)]
    for split in ("train", "dev"):
        write_jsonl(folder / "rows" / f"{split}.jsonl", rows)
    config = dataclasses.replace(FinetuneConfig(seeds=(1, 2), keep="none", batch=8, length=16), epochs=1.0)
    model = write_model(folder, folder / "vocab.txt", SIZE)
    jobs = plan("cola", config, rows=folder / "rows", model=model, state=folder / "state", device="cuda",
                stack="on" if stack else "off")  # fmt: skip
    return [
        found
        for _, found in sorted(
            run_units(observed, pool.units_of(jobs), 2, preload=("electra.finetuning.runs.preload",)),
            key=lambda pair: pair[0],
        )
    ]
