"""Wall time and dev scores of GLUE's tasks with several seeds, on real rows (made for a GPU).

    python benchmarks/finetune_gpu.py

The paper's eight tasks, with the recipe of the model in params.yaml (small) and five seeds, `--workers` runs at a time,
from the start of these to the last prediction. Weights are new unless `--encoder` names a folder that pre-training
left; then the dev scores mean something, too. On CPUs ask for `--precision fp32`. Rows and vocabulary are those of
benchmarks/real_text.yaml unless others are given.
"""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness import arguments, local_params, provenance, write_record
from electra.data import tokenizer as tokenizers
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import Plan, run_all
from electra.finetuning.tasks import PAPER_AVERAGE, FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, write_folder
from pipelines.config.params import load
from pipelines.sources import LocalTasks
from pipelines.stages.glue import device
from pipelines.stages.tasks import gather

Tasks = Sequence[tuple[str, FinetuneConfig]]


def glue_files() -> tuple[str, str]:
    """The folder of GLUE files and the vocabulary of benchmarks/real_text.yaml."""
    params = local_params()
    return params.tasks["local"].glue, params.tokens["local_wiki_books"].tokenizer.file


def write_model(folder: Path, vocabulary: Path, config: EncoderConfig) -> Path:
    """A model of this size with fresh weights: speed does not depend on what they are."""
    tokenizer = tokenizers.from_vocab(vocabulary)
    tokenizers.save(tokenizer, folder / "tokenizer")
    files = {path.name: path.read_text() for path in (folder / "tokenizer").iterdir()}
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    write_folder(folder / "model", tensors, config_json(config, tokenizer.vocab_size, "ElectraModel"), files, "")
    return folder / "model"


def whole(tasks: Tasks, rows: Path, model: Path, place: str, workers: int) -> dict[str, Any]:
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
    options = arguments(__doc__, "finetune-gpu.json")
    folder, vocabulary = glue_files()
    options.add_argument("glue", nargs="?", default=folder, help="folder of official GLUE files")
    options.add_argument("vocabulary", type=Path, nargs="?", default=vocabulary)
    options.add_argument("--model", default="small", help="whose size and recipe, from params.yaml")
    options.add_argument("--encoder", type=Path, help="a folder that pre-training left; else fresh weights")
    options.add_argument("--tasks", nargs="*", default=list(PAPER_AVERAGE))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--rows", type=int, help="of each task's training rows; default all")
    given = options.parse_args()
    params, place, origin = load(), device(), provenance("torch")
    changes = params.changes(given.model)
    same = {"seeds": tuple(range(1, given.seeds + 1)), "arms": ("pretrained",), "keep": "none", "start": None}
    same |= {"precision": given.precision, "ensemble": False, "test": False}
    same |= {"max_train_rows": given.rows} if given.rows else {}
    tasks = [(task, dataclasses.replace(params.finetune.resolve(task, changes), **same)) for task in given.tasks]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        gather(LocalTasks(kind="local", glue=given.glue), "tasks", rows := Path(name) / "rows")
        encoder = given.encoder or write_model(Path(name), given.vocabulary, params.models[given.model].encoder)
        found = whole(tasks, rows, encoder, place, given.workers)
    settings = {key: getattr(given, key) for key in ("model", "seeds", "precision", "rows")}
    settings["encoder"] = str(given.encoder or "fresh weights")
    card = torch.cuda.get_device_name() if place == "cuda" else "CPU, one thread"
    write_record(given.output, {"device": card, "settings": settings, "whole": found}, origin)


if __name__ == "__main__":
    main()
