"""Seeds of a task in one stack of weights beside the same seeds one by one, on real GLUE rows (made for a GPU).

    python benchmarks/finetune_gpu.py ../shared/data/glue ../shared/data/vocab/bert-base-uncased-vocab.txt

For each of the paper's eight tasks, with the recipe of the model in params.yaml (small) and five seeds: first both arms
in turns on `--rows` training rows and one epoch, each in a process of its own: seconds from the first step to the last
prediction, rows read and kernels loaded before. Then, with `--whole N`, all tasks in stacks on all rows and epochs, N
tasks at a time in processes of their own, from the start of these to the last prediction. Weights are fresh unless
`--encoder` names a folder that pre-training left; then the dev scores mean something, too. On CPUs ask for `--precision
fp32`. What is measured is written at once, and a second start goes on with what is missing.
"""

import argparse
import dataclasses
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.provenance import provenance
from electra.config import digest, plain
from electra.data import tokenizer as tokenizers
from electra.files import read_json, write_json
from electra.finetuning.runs.job import Job
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.pool import run_all
from electra.finetuning.tasks import GLUE, PAPER_AVERAGE, FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.nn.scratch_init import fresh_encoder
from electra.nn.weights import config_json, encoder_tensors, write_folder
from pipelines.config.params import load
from pipelines.sources import LocalTasks
from pipelines.stages import code_deps
from pipelines.stages.glue import device
from pipelines.stages.tasks import gather

ARMS: dict[str, Literal["on", "off"]] = {"stacked": "on", "alone": "off"}


def write_model(folder: Path, vocabulary: Path, config: EncoderConfig) -> Path:
    """A model of this size with fresh weights: speed does not depend on what they are."""
    tokenizer = tokenizers.from_vocab(vocabulary)
    tokenizers.save(tokenizer, folder / "tokenizer")
    files = {path.name: path.read_text() for path in (folder / "tokenizer").iterdir()}
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    write_folder(folder / "model", tensors, config_json(config, tokenizer.vocab_size, "ElectraModel"), files, "")
    return folder / "model"


def measure(arm: str, task: str, config: FinetuneConfig, rows: Path, model: Path, place: str) -> dict[str, Any]:
    """All seeds of one task: wall time, the device's peak of memory, and each seed's dev score."""
    cuda = place.startswith("cuda")
    with tempfile.TemporaryDirectory() as state:
        jobs = Plan(task, config, rows=rows, model=model, state=Path(state), device=place, stack=ARMS[arm]).jobs()
        if cuda:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        started = time.perf_counter()
        records = run_all(jobs, 1)
        seconds = time.perf_counter() - started
    peak = {"peak_mb": round(torch.cuda.max_memory_allocated() / 2**20)} if cuda else {}
    scores = [round(record["metrics"][GLUE[task].metrics[0]], 2) for record in records]
    return {"seconds": round(seconds, 3), **peak, "steps": records[0]["steps"], "scores": scores}


def apart(*given: Any) -> dict[str, Any]:
    """`measure` in a new process: nothing of another arm is held there."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(warmed, *given).result()


def warmed(arm: str, task: str, config: FinetuneConfig, rows: Path, model: Path, place: str) -> dict[str, Any]:
    """`measure` once rows are read and kernels loaded."""
    torch.set_num_threads(1)
    measure(arm, task, dataclasses.replace(config, epochs=1e-9), rows, model, place)
    return measure(arm, task, config, rows, model, place)


def compare(
    task: str, config: FinetuneConfig, rows: Path, model: Path, place: str, most: int, rounds: int
) -> dict[str, Any]:
    """Both arms in turns on `most` rows, each in a process of its own; the ratio of each round, alone over stacked."""
    config = dataclasses.replace(config, max_train_rows=most, epochs=1.0)
    runs = [{arm: apart(arm, task, config, rows, model, place) for arm in ARMS} for _ in range(rounds)]
    ratios = [run["alone"]["seconds"] / run["stacked"]["seconds"] for run in runs]
    spread = {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
    return {"alone / stacked, seconds": {key: round(value, 3) for key, value in spread.items()}, "runs": runs}


def whole(
    tasks: Sequence[tuple[str, FinetuneConfig]], rows: Path, model: Path, place: str, workers: int
) -> dict[str, Any]:
    """Wall time of all tasks and seeds, stacked; each seed's dev score, and when each task had ended."""
    ended: dict[str, float] = {}
    scores: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as state:
        started = time.perf_counter()
        jobs: list[Job] = []
        for task, config in tasks:
            jobs += Plan(
                task, config, rows=rows / task, model=model, state=Path(state), device=place, stack="on"
            ).jobs()

        def on_done(job: Job, record: dict[str, Any]) -> None:
            ended[job.task.name] = round(time.perf_counter() - started, 1)
            scores.setdefault(job.task.name, []).append(round(record["metrics"][job.task.metrics[0]], 2))

        run_all(jobs, workers, on_done)
        seconds = round(time.perf_counter() - started, 1)
    return {"seconds": seconds, "tasks_at_a_time": workers, "ended": ended, "scores": scores}


def run(
    output: Path, facts: dict[str, Any], tasks: Sequence[tuple[str, FinetuneConfig]], rows: Path, model: Path,
    *, most: int, rounds: int, workers: int,
) -> dict[str, Any]:  # fmt: skip
    """Measure what `output` does not hold yet under the same facts; it is written after each task."""
    place = device()
    before = read_json(output) if output.is_file() else {}
    if before.get("key") != facts["key"]:
        before = {}
    record = {**facts, "compared": before.get("compared", {}), "whole": before.get("whole")}
    for task, config in tasks:
        if task not in record["compared"]:
            record["compared"][task] = compare(task, config, rows / task, model, place, most, rounds)
            print(task, record["compared"][task]["alone / stacked, seconds"], flush=True)
            write_json(output, record)
    if workers and not record["whole"]:
        record["whole"] = whole(tasks, rows, model, place, workers)
        write_json(output, record)
    return record


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("glue", type=Path, help="folder of official GLUE files")
    options.add_argument("vocabulary", type=Path)
    options.add_argument("--model", default="small", help="whose size and recipe, from params.yaml")
    options.add_argument("--encoder", type=Path, help="a folder that pre-training left; else fresh weights")
    options.add_argument("--tasks", nargs="*", default=list(PAPER_AVERAGE))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    options.add_argument("--rows", type=int, default=4000, help="training rows of the comparison")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--whole", type=int, default=0, metavar="N", help="all rows and epochs as well, N tasks at a time"
    )
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
        "rows": given.rows,
        "rounds": given.rounds,
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
        record = run(
            given.output, facts, tasks, rows, encoder, most=given.rows, rounds=given.rounds, workers=given.whole
        )
    print(f"written: {given.output}; all tasks: {record['whole']['seconds'] if record['whole'] else 'not measured'}")


if __name__ == "__main__":
    main()
