"""Wall time and dev scores of GLUE's tasks with several seeds, on real rows (made for a GPU).

    python benchmarks/finetune_gpu.py ../shared/data/glue ../shared/data/vocab/bert-base-uncased-vocab.txt

The paper's eight tasks, with the recipe of the model in params.yaml (small) and five seeds, `--workers` runs at a time,
from the start of these to the last prediction. Weights are new unless `--encoder` names a folder that pre-training
left; then the dev scores mean something, too. On CPUs ask for `--precision fp32`.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.provenance import provenance
from electra.config import digest, plain
from electra.data import tokenizer as tokenizers
from electra.files import write_json
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.pool import run_all
from electra.finetuning.tasks import PAPER_AVERAGE, FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.nn.scratch_init import fresh_encoder
from electra.nn.weights import config_json, encoder_tensors, write_folder
from pipelines.config.params import load
from pipelines.sources import LocalTasks
from pipelines.stages import code_deps
from pipelines.stages.glue import device
from pipelines.stages.tasks import gather


def write_model(folder: Path, vocabulary: Path, config: EncoderConfig) -> Path:
    """A model of this size with fresh weights: speed does not depend on what they are."""
    tokenizer = tokenizers.from_vocab(vocabulary)
    tokenizers.save(tokenizer, folder / "tokenizer")
    files = {path.name: path.read_text() for path in (folder / "tokenizer").iterdir()}
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    write_folder(folder / "model", tensors, config_json(config, tokenizer.vocab_size, "ElectraModel"), files, "")
    return folder / "model"


def whole(
    tasks: Sequence[tuple[str, FinetuneConfig]], rows: Path, model: Path, place: str, workers: int
) -> dict[str, Any]:
    """Wall time of all tasks and seeds; each seed's dev score, and when each task had ended."""
    ended: dict[str, float] = {}
    scores: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as state:
        started = time.perf_counter()
        jobs: list[Job] = []
        for task, config in tasks:
            jobs += Plan(task, config, rows=rows / task, model=model, state=Path(state), device=place).jobs()

        def on_done(job: Job, record: dict[str, Any]) -> None:
            ended[job.task.name] = round(time.perf_counter() - started, 1)
            scores.setdefault(job.task.name, []).append(round(record["metrics"][job.task.metrics[0]], 2))

        run_all(jobs, workers, on_done)
        seconds = round(time.perf_counter() - started, 1)
    return {"seconds": seconds, "runs_at_a_time": workers, "ended": ended, "scores": scores}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("glue", type=Path, help="folder of official GLUE files")
    options.add_argument("vocabulary", type=Path)
    options.add_argument("--model", default="small", help="whose size and recipe, from params.yaml")
    options.add_argument("--encoder", type=Path, help="a folder that pre-training left; else fresh weights")
    options.add_argument("--tasks", nargs="*", default=list(PAPER_AVERAGE))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--output", type=Path, default=Path("benchmarks/results/finetune-gpu.json"))
    given = options.parse_args()
    params = load()
    model = params.models[given.model]
    same = {"seeds": tuple(range(1, given.seeds + 1)), "arms": ("pretrained",), "keep": "none", "start": None}
    tasks = []
    for task in given.tasks:
        config = params.finetune.resolve(task, params.changes(given.model))
        tasks.append((task, dataclasses.replace(config, **same, precision=given.precision, ensemble=False, test=False)))
    asked = {
        "model": given.model,
        "encoder": str(given.encoder or "fresh weights"),
    }
    facts = {
        "command": " ".join(["python", *sys.argv]),
        "what": __doc__,
        "device": torch.cuda.get_device_name() if device() == "cuda" else "CPU, one thread",
        "key": digest(asked, code_deps.finetuning(), device(), {task: plain(config) for task, config in tasks}),
        "settings": {**asked, "seeds": given.seeds, "precision": given.precision},
        **provenance(("torch",)),
    }  # fmt: skip
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        gather(LocalTasks(kind="local", glue=str(given.glue)), "tasks", rows)
        encoder = given.encoder or write_model(Path(folder), given.vocabulary, model.encoder)
        record = {**facts, "whole": whole(tasks, rows, encoder, device(), given.workers)}
        write_json(given.output, record)
    print(f"written: {given.output}; all tasks: {record['whole']['seconds']} s")


if __name__ == "__main__":
    main()
