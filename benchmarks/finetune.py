"""Fine-tuning beside transformers' Trainer, end to end on real GLUE rows, from the same weights.

    python benchmarks/finetune.py ../shared/data/glue ../shared/data/vocab/bert-base-uncased-vocab.txt --fraction 0.02

Arms: `ours`, and `ours-bf16` with `precision: bf16`; `pad-128`, Trainer with every row padded to 128 as run_glue does
by default; `dynamic`, Trainer with rows padded to the longest of their batch. Each reads the same TSV rows, tokenises
them with its own tokenizer, trains one epoch with dropout 0.1 and AdamW at batch 32 on one thread, in fp32 but for the
arm named so, and predicts the dev rows. Arms take turns, each in a forked process of its own, so that its peak of
memory is its own; imports are done before and count for none. `--fraction` cuts every task alike, so that their shares
stay as they are; `--arms` leaves arms out (bf16 takes many times as long as fp32 where the processor has no products
for it). Needs `pip install accelerate`.
"""

import argparse
import itertools
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import datasets
import torch
import transformers

from benchmarks.finetune_gpu import write_model
from benchmarks.provenance import provenance
from electra.data import tokenizer as tokenizers
from electra.files import write_json
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, narrow
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.finetuning.training import read_outputs, train
from electra.nn.config import EncoderConfig
from electra.nn.weights import load_encoder
from pipelines.sources import glue

TASKS = ("cola", "mrpc", "rte", "stsb")
ARMS = ("ours", "ours-bf16", "pad-128", "dynamic")
SMALL = EncoderConfig(layers=12, hidden=256, heads=4, ffn=1024, embedding=128)
LENGTH, BATCH = 128, 32
Rows = dict[str, list[dict[str, Any]]]


def read(folder: Path, task: str, fraction: float) -> Rows:
    """Evenly spaced rows of both splits."""
    rows = {}
    for split in ("train", "dev"):
        path = folder / glue.LAYOUTS[task].path(split)
        whole = [row for row in glue.read_tsv(path, task, split) if isinstance(row, dict)]
        rows[split] = whole[:: round(1 / fraction)]
    return rows


def ours(task: str, rows: Rows, model: Path, precision: Literal["fp32", "bf16"]) -> int:
    facts = GLUE[task]
    config = FinetuneConfig(epochs=1, learning_rate=3e-4, batch=BATCH, length=LENGTH, precision=precision)
    tokenizer = tokenizers.load(model)
    encoder = load_encoder(model, dropout=0.1)
    splits = [encode(rows[split], facts, tokenizer, LENGTH) for split in ("train", "dev")]
    (train_rows, dev_rows), _ = narrow(encoder, splits)
    network = Classifier(encoder, len(facts.labels), 0.1)
    assert train(network, train_rows, config, seed=1, stream="benchmark").finite
    return len(read_outputs(network, dev_rows, precision=precision)["logits"])


def peer(task: str, rows: Rows, model: Path, folder: str, *, dynamic: bool) -> Any:
    """A Trainer that is ready to start, and its dev rows."""
    facts = GLUE[task]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    def prepare(batch: dict[str, list[Any]]) -> dict[str, Any]:
        texts = (batch["a"],) if batch["b"][0] is None else (batch["a"], batch["b"])
        padding = False if dynamic else "max_length"
        return dict(tokenizer(*texts, truncation=True, max_length=LENGTH, padding=padding))

    ready = {}
    for split, part in rows.items():
        labels = [row["label"] if facts.regression else facts.labels.index(row["label"]) for row in part]
        table = {"a": [row["a"] for row in part], "b": [row["b"] for row in part], "labels": labels}
        ready[split] = datasets.Dataset.from_dict(table).map(prepare, batched=True, remove_columns=["a", "b"])
    network = transformers.ElectraForSequenceClassification.from_pretrained(model, num_labels=max(1, len(facts.labels)))
    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=1, learning_rate=3e-4, warmup_steps=0.1, per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True,
        logging_strategy="no", seed=1, dataloader_pin_memory=False,
    )  # fmt: skip
    collator = transformers.DataCollatorWithPadding(tokenizer) if dynamic else transformers.default_data_collator
    splits = {"train_dataset": ready["train"], "eval_dataset": ready["dev"]}
    trainer = transformers.Trainer(network, arguments, **splits, processing_class=tokenizer, data_collator=collator)
    return trainer, ready["dev"]


def run_peer(task: str, rows: Rows, model: Path, *, dynamic: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        trainer, dev = peer(task, rows, model, folder, dynamic=dynamic)
        trainer.train()
        return len(trainer.predict(dev).predictions)


def import_everything(rows: Rows, model: Path) -> None:
    """What the libraries import only when used, so that no arm's time holds it; nothing is trained."""
    few = {split: part[:2] for split, part in rows.items()}
    with tempfile.TemporaryDirectory() as folder:
        for dynamic in (False, True):
            trainer, dev = peer("cola", few, model, folder, dynamic=dynamic)
            trainer.create_optimizer_and_scheduler(1)
            next(iter(trainer.get_train_dataloader()))
            trainer.predict(dev)
    few_rows = encode(few["train"], GLUE["cola"], tokenizers.load(model), LENGTH)
    read_outputs(Classifier(load_encoder(model), 2, 0.0), few_rows)


def measure(arm: str, task: str, rows: Rows, model: Path) -> dict[str, float]:
    """Run one arm on one task in a forked process."""

    def work(sender: Any) -> None:
        torch.set_num_threads(1)
        before = megabytes("VmRSS")
        started, cpu = time.perf_counter(), time.process_time()
        if arm.startswith("ours"):
            count = ours(task, rows, model, "bf16" if arm == "ours-bf16" else "fp32")
        else:
            count = run_peer(task, rows, model, dynamic=arm == "dynamic")
        assert count == len(rows["dev"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sender.send(
            {
                "cpu_seconds": round(time.process_time() - cpu, 3),
                "wall_seconds": round(time.perf_counter() - started, 3),
                "peak_mb": round(peak),
                "peak_above_start_mb": round(peak - before),
            }
        )

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender,))
    process.start()
    sender.close()
    result: dict[str, float] = receiver.recv()
    process.join()
    return result


def megabytes(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def record(
    given: argparse.Namespace, rows: dict[str, Rows], runs: list[dict[str, dict[str, dict[str, float]]]]
) -> dict[str, Any]:
    """What is kept: every run, the ratios of the rounds, and where they come from."""
    ratios: dict[str, Any] = {}
    mines, peers = ([arm for arm in kind if arm in given.arms] for kind in (ARMS[:2], ARMS[2:]))
    for mine, arm in itertools.product(mines, peers):
        for kind in ("cpu_seconds", "wall_seconds"):
            totals = [{each: sum(run[task][each][kind] for task in TASKS) for each in (arm, mine)} for run in runs]
            ratios[f"{kind}: {arm} / {mine}"] = spread([total[arm] / total[mine] for total in totals])
        for task in TASKS:
            name = f"cpu_seconds, {task}: {arm} / {mine}"
            ratios[name] = spread([run[task][arm]["cpu_seconds"] / run[task][mine]["cpu_seconds"] for run in runs])
        for kind in ("peak_mb", "peak_above_start_mb"):
            ratios[f"{kind}: {mine} / {arm}"] = spread(
                [max(run[t][mine][kind] for t in TASKS) / max(run[t][arm][kind] for t in TASKS) for run in runs]
            )
    return {
        "command": " ".join(["python", *sys.argv]),
        "what": __doc__,
        "model": "electra small (12 x 256), fresh weights, fp32, one thread",
        "rows": {task: {split: len(part) for split, part in splits.items()} for task, splits in rows.items()},
        "rows_are": f"{given.fraction:g} of the official train and dev rows, evenly spaced",
        "ratios": ratios,
        "runs": runs,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **provenance(("torch", "transformers", "accelerate", "datasets")),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("glue", type=Path, help="folder of official GLUE files")
    options.add_argument("vocabulary", type=Path)
    options.add_argument("--fraction", type=float, default=0.02, help="of the rows of each task")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS, help="default all")
    options.add_argument("--output", type=Path, default=Path("benchmarks/results/finetune.json"))
    given = options.parse_args()
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    rows = {task: read(given.glue, task, given.fraction) for task in TASKS}
    runs: list[dict[str, dict[str, dict[str, float]]]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(Path(folder), given.vocabulary, SMALL)
        torch.set_num_threads(1)
        import_everything(rows["cola"], model)
        for number in range(given.rounds):
            runs.append({})
            for task in TASKS:
                for arm in given.arms:
                    runs[-1].setdefault(task, {})[arm] = measure(arm, task, rows[task], model)
                    print(number + 1, task, arm, runs[-1][task][arm], flush=True)
            write_json(given.output, record(given, rows, runs))  # after each round: what was measured is kept
    for name, value in record(given, rows, runs)["ratios"].items():
        print(f"{name}: {value['median']} ({value['lowest']} to {value['highest']})")


if __name__ == "__main__":
    main()
