"""Compare fine-tuning with transformers' Trainer, end to end on real GLUE rows, same weights.

    python benchmarks/finetune.py --encoder small --fraction 0.02

Arms: `ours`, and `ours-bf16` with `precision: bf16`; `pad-128`, Trainer with every row padded to
128 as run_glue does by default; `dynamic`, Trainer with rows padded to the longest of their batch.
Each reads the same TSV rows (of `tasks.local` in benchmarks/real_text.yaml), tokenises them with
its own tokenizer, trains one epoch with dropout 0.1 and AdamW at batch 32 on one thread, in fp32
but for the arm named so, and predicts the dev rows. Arms take turns, each in a forked process of
its own, so that its peak of memory is its own; imports are done before and count for none.
`--encoder` names an encoder of params.yaml. `--fraction` cuts every task alike, so that their
shares stay as they are; `--arms` leaves arms out (bf16 takes many times as long as fp32 where the
processor has no products for it). Needs `pip install accelerate`.
"""

import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import datasets
import torch
import transformers

from benchmarks.harness import (
    arguments,
    in_turns,
    local_params,
    peak_memory_mb,
    provenance,
    ratios,
    write_record,
)
from electra.data import tokenizer as tokenizers
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, shrink_word_table
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.finetuning.training import read_outputs, train
from electra.nn.config import BertConfig
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, load_encoder, write_folder
from pipelines.sources import glue

TASKS = ("cola", "mrpc", "rte", "stsb")
OURS = ("ours", "ours-bf16")
PEERS = ("pad-128", "dynamic")
LENGTH = 128
BATCH = 32
Rows = dict[str, list[dict[str, Any]]]


def write_model(folder: Path, config: BertConfig, vocabulary: Path) -> Path:
    """Write a model with fresh weights, since speed does not depend on them."""
    tokenizer = tokenizers.load(vocabulary)
    tokenizers.save(tokenizer, folder / "tokenizer")
    files = {path.name: path.read_text() for path in (folder / "tokenizer").iterdir()}
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    write_folder(
        folder / "model",
        tensors,
        config_json(config, tokenizer.vocab_size, "ElectraModel"),
        files,
        "",
    )
    return folder / "model"


def read(folder: Path, task: str, fraction: float) -> Rows:
    """Return evenly spaced rows of both splits."""
    rows = {}
    for split in ("train", "dev"):
        path = folder / glue.LAYOUTS[task].paths()[split]
        whole = [row for row in glue.read_tsv(path, task, split) if isinstance(row, dict)]
        rows[split] = whole[:: round(1 / fraction)]
    return rows


def ours(task: str, rows: Rows, model: Path, precision: Literal["fp32", "bf16"]) -> int:
    """Train and predict, and return the number of predictions."""
    facts = GLUE[task]
    config = FinetuneConfig(
        epochs=1, learning_rate=3e-4, batch=BATCH, length=LENGTH, precision=precision
    )
    encoder = load_encoder(model, dropout=0.1)
    tokenizer = tokenizers.load(model)
    splits = [encode(rows[split], facts, tokenizer, LENGTH) for split in ("train", "dev")]
    (train_rows, dev_rows), _ = shrink_word_table(encoder, splits)
    network = Classifier(encoder, len(facts.labels), 0.1)
    assert train(network, train_rows, config, seed=1, stream="benchmark").finite
    return len(read_outputs(network, dev_rows, precision=precision)["logits"])


def peer(task: str, rows: Rows, model: Path, *, dynamic: bool, trained: bool = True) -> int:
    """Train and predict; or, where only imports are wanted, take one batch and predict."""
    facts = GLUE[task]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    def prepare(batch: dict[str, list[Any]]) -> dict[str, Any]:
        texts = (batch["a"],) if batch["b"][0] is None else (batch["a"], batch["b"])
        padding = False if dynamic else "max_length"
        return dict(tokenizer(*texts, truncation=True, max_length=LENGTH, padding=padding))

    ready = {}
    for split, part in rows.items():
        labels = [row["label"] for row in part]
        if not facts.regression:
            labels = [facts.labels.index(label) for label in labels]
        table = {"a": [row["a"] for row in part], "b": [row["b"] for row in part], "labels": labels}
        texts = datasets.Dataset.from_dict(table)
        ready[split] = texts.map(prepare, batched=True, remove_columns=["a", "b"])
    network = transformers.ElectraForSequenceClassification.from_pretrained(
        model, num_labels=max(1, len(facts.labels))
    )
    collator = transformers.default_data_collator
    if dynamic:
        collator = transformers.DataCollatorWithPadding(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder,
            num_train_epochs=1,
            learning_rate=3e-4,
            warmup_steps=0.1,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            seed=1,
            dataloader_pin_memory=False,
        )
        both = {"train_dataset": ready["train"], "eval_dataset": ready["dev"]}
        trainer = transformers.Trainer(
            network, settings, **both, processing_class=tokenizer, data_collator=collator
        )
        if trained:
            trainer.train()
        else:
            trainer.create_optimizer_and_scheduler(1)
            next(iter(trainer.get_train_dataloader()))
        return len(trainer.predict(ready["dev"]).predictions)


def import_everything(rows: Rows, model: Path) -> None:
    """Import the modules that libraries import only when used, so that no arm's time includes
    it.
    """
    few = {split: part[:2] for split, part in rows.items()}
    for dynamic in (False, True):
        peer("cola", few, model, dynamic=dynamic, trained=False)
    few_rows = encode(few["train"], GLUE["cola"], tokenizers.load(model), LENGTH)
    read_outputs(Classifier(load_encoder(model), 2, 0.0), few_rows)


def measure(arm: str, task: str, rows: Rows, model: Path) -> dict[str, float]:
    """Run one arm on one task in a forked process."""

    def work(sender: Any) -> None:
        torch.set_num_threads(1)
        started = time.perf_counter()
        cpu = time.process_time()
        if arm in OURS:
            count = ours(task, rows, model, "bf16" if arm == "ours-bf16" else "fp32")
        else:
            count = peer(task, rows, model, dynamic=arm == "dynamic")
        assert count == len(rows["dev"])
        found = {
            "cpu_seconds": time.process_time() - cpu,
            "wall_seconds": time.perf_counter() - started,
            "peak_mb": peak_memory_mb(),
        }
        sender.send({name: round(value, 3) for name, value in found.items()})

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender,))
    process.start()
    sender.close()
    result: dict[str, float] = receiver.recv()
    process.join()
    return result


def compare(turns: dict[str, list[dict[str, dict[str, float]]]]) -> dict[str, Any]:
    """Return the ratios of the rounds: Trainer's processor time over ours, in all and by task, and
    our peak of memory over Trainer's.
    """
    found: dict[str, Any] = {}
    parts = {"cpu_seconds": TASKS} | {f"cpu_seconds, {task}": (task,) for task in TASKS}
    for mine, arm in itertools.product(OURS, PEERS):
        if not {mine, arm} <= turns.keys():
            continue
        for name, tasks in parts.items():
            times = [
                [sum(run[task]["cpu_seconds"] for task in tasks) for run in turns[each]]
                for each in (arm, mine)
            ]
            found[f"{name}: {arm} / {mine}"] = ratios(*times)
        peaks = [
            [max(task["peak_mb"] for task in run.values()) for run in turns[each]]
            for each in (mine, arm)
        ]
        found[f"peak_mb: {mine} / {arm}"] = ratios(*peaks)
    return found


def main() -> None:
    parser = arguments(__doc__, "finetune.json")
    parser.add_argument("--encoder", default="small")
    parser.add_argument("--fraction", type=float, default=0.02, help="of the rows of each task")
    parser.add_argument("--rounds", type=int, default=3)
    every = (*OURS, *PEERS)
    parser.add_argument("--arms", nargs="+", choices=every, default=every, help="default all")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    params = local_params()
    config = params.encoders[options.encoder]
    assert isinstance(config, BertConfig)
    config = replace(config, dropout=0.1, attention_dropout=0.1)
    folder = Path(params.tasks["local"].glue)
    rows = {task: read(folder, task, options.fraction) for task in TASKS}
    origin = provenance("torch", "transformers", "accelerate", "datasets")
    with tempfile.TemporaryDirectory() as name:
        vocabulary = Path(params.tokens["local_wiki_books"].tokenizer.file)
        model = write_model(Path(name), config, vocabulary)
        torch.set_num_threads(1)
        import_everything(rows["cola"], model)

        def run(arm: str) -> dict[str, dict[str, float]]:
            return {task: measure(arm, task, rows[task], model) for task in TASKS}

        turns = in_turns({arm: partial(run, arm) for arm in options.arms}, options.rounds)
    sizes = {
        task: {split: len(part) for split, part in splits.items()} for task, splits in rows.items()
    }
    record: dict[str, Any] = {
        "model": f"{config.layers} x {config.hidden}, fresh weights, one thread",
        "rows": sizes,
        "rows_are": f"{options.fraction:g} of the official train and dev rows, evenly spaced",
        "ratios": compare(turns),
        "runs": turns,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    write_record(options.output, record, origin)
    for name, value in record["ratios"].items():
        print(f"{name}: {value['median']} ({value['lowest']} to {value['highest']})")


if __name__ == "__main__":
    main()
