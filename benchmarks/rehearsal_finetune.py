"""Fine-tuning jobs on two stand-in GPUs, by the pool's own workers: where each worked, what a step launched.

Small's encoder on made-up rows of all lengths, as many as keep the loss from being looked at, for it is noise.
"""

import dataclasses
import random
from pathlib import Path
from typing import Any

import torch

from benchmarks.finetune_gpu import write_model
from benchmarks.rehearsal_case import Counters
from electra.data.tokenizer import SPECIALS
from electra.files import write_jsonl
from electra.finetuning import step, training
from electra.finetuning.runs import plan
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import Plan
from electra.finetuning.tasks import FinetuneConfig
from electra.workers import run_units
from pipelines.config.params import load

BATCH, STEPS = 32, training.CHECK_EVERY - 1
WORDS = ("good", "bad", "cat", "dog")


def observed(job: Job) -> dict[str, Any]:
    """A job in the pool, its GPU, and the counts of its first step and of a late one that was all replayed."""
    counters, seen = Counters(), []

    class Counted(step.Step):
        def __call__(self, rows_B: Any) -> Any:
            before = counters.read()
            result = super().__call__(rows_B)
            seen.append(counters.since(before))
            return result

    training.Step = Counted  # type: ignore[misc]
    begun = counters.read()
    record = plan.alone(job)
    after = counters.since(begun)
    held = [torch.cuda.max_memory_allocated(k) for k in range(torch.cuda.device_count())]
    here = torch.cuda.current_device()
    last = seen[: record["steps"]]
    return {
        "jobs": [job.name],
        "device": f"cuda:{here}",
        "steps": len(last),
        "first step": last[0],
        "late step": next((counts for counts in reversed(last) if counts.get("graph", 0) >= 2), last[-1]),
        "steps of replays alone": sum(counts.get("graph", 0) >= 2 for counts in last),
        "bytes here": held[here],
        "bytes elsewhere": sum(held) - held[here],
        "wrong": after.get("wrong", 0),
        "illegal": after.get("illegal", 0),
    }


def run(folder: Path) -> list[dict[str, Any]]:
    """Two arms by two workers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, *WORDS]))
    draw = random.Random(1)
    for split, count in (("train", BATCH * STEPS), ("dev", 64)):
        lengths = [min(126, 4 + int(draw.lognormvariate(3.4, 0.5))) for _ in range(count)]
        texts = [" ".join(draw.choice(WORDS) for _ in range(length)) for length in lengths]
        rows = [{"id": str(n), "a": text, "b": None, "label": str(n % 2)} for n, text in enumerate(texts)]
        write_jsonl(folder / "rows" / f"{split}.jsonl", rows)
    config = dataclasses.replace(FinetuneConfig(seeds=(1,), keep="none", batch=BATCH, length=128), epochs=1.0)
    model = write_model(folder, folder / "vocab.txt", load().models["small"].encoder)
    jobs = Plan("cola", config, rows=folder / "rows", model=model, state=folder / "state", device="cuda").jobs()
    units = run_units(observed, jobs, 2, preload=("electra.finetuning.runs.plan",))
    return [found for _, found in sorted(units, key=lambda pair: pair[0])]
