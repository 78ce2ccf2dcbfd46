"""What a modern encoder, Muon, a schedule and other first weights give on real text, at equal time or operations:

    python benchmarks/modern.py --data ../shared/data/corpus/wiki-0.jsonl.xz --seconds 600
    python benchmarks/modern.py --data ../shared/data/corpus/wiki-0.jsonl.xz --flops 2e13 --tasks build/tasks/local

1. the first documents of a file (one JSON document with a `text` a line) become a vocabulary,
   rows, and held-out sentences
2. each arm's step is timed in turn with the others'; its steps are what the budget, or half of it, pays for
3. every arm and seed is pre-trained by the project's own loop, in `runs/modern-benchmark`:
   stopped, it goes on where it was
4. all discriminators judge the same held-out rows, corrupted once by the generator of the first arm and seed, and the
   same minimal pairs: a held-out sentence, and itself with two words swapped, one dropped, or one inflected
5. with --tasks, each encoder is fine-tuned for CoLA and STS-B, by one recipe a task
6. when all are done, benchmarks/results/modern-<kind>-<budget>.json

Operations are those of matrix products in networks; Muon's own are added (`muon_flops`).
Processor seconds are the process's.
"""

import argparse
import copy
import dataclasses
import itertools
import json
import lzma
import re
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks.minimal_pairs import LENGTH, minimal_pairs, seen
from benchmarks.provenance import provenance
from electra.config import build, digest, merge, plain
from electra.data.packing import Packer, PackingConfig
from electra.data.text import sentences
from electra.data.tokenizer import Tokenizer, train_wordpiece
from electra.errors import Stopped
from electra.files import dump_json, read_json, sha256_file, write_atomic, write_json
from electra.finetuning import predictions
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, narrow
from electra.finetuning.reading import read_rows
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.finetuning.training import read_outputs
from electra.finetuning.training import train as finetune
from electra.pretraining.config import ElectraConfig, of_config
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import Data, Feed
from electra.pretraining.evaluation import area_under_curve
from electra.pretraining.flops import step_flops
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.trainer import Launch, pretrain

RUNS, OUT = Path("runs/modern-benchmark"), Path("benchmarks/results")
VOCABULARY, HELD_OUT, TIMED = 4096, 512, 20
SPLITS = ("train", "dev")
BERT = {"layers": 2, "hidden": 128, "heads": 4, "ffn": 512, "embedding": 128, "dropout": 0.0, "attention_dropout": 0.0}
MODERN = {"kind": "modern", "layers": 2, "hidden": 128, "heads": 4, "ffn": 340, "embedding": 128}
BASE: dict[str, Any] = {
    "encoder": BERT,
    "generator": {"width": 0.25},
    "objective": {"sharing": "tokens"},
    "pretrain": {"length": LENGTH, "batch": 64, "steps": 100, "warmup": 0, "learning_rate": 1e-3, "threads": 1}
    | {"precision": "fp32", "bias_correction": True, "beta2": 0.98},
}
MUON = {"pretrain": {"optimizer": "muon"}}
STABLE = {"pretrain": {"schedule": "warmup_stable_decay", "decay_share": 0.2}}
WIDE: dict[str, Any] = {"encoder": {"init_std": 0.09}}  # about 1 / √hidden, where 0.02 is that of 2,500
BESIDE = {"encoder": {"init_std": 0.09, "init": "neighbours"}}
ARMS: dict[str, dict[str, Any]] = {  # what differs from the paper's recipe
    "paper's encoder": {},
    "paper's, Muon": MUON,
    "paper's, stable": STABLE,
    "paper's, wide": WIDE,
    "paper's, neighbours": BESIDE,
    "modern": {"encoder": MODERN},
    "modern, local": {"encoder": {**MODERN, "window": 8}},
    "modern, Muon": merge({"encoder": MODERN}, MUON),
    "modern, wide": merge({"encoder": MODERN}, WIDE),
    "modern, neighbours": merge({"encoder": MODERN}, BESIDE),
    "modern, neighbours, Muon": merge(merge({"encoder": MODERN}, BESIDE), MUON),
    "modern, neighbours, stable": merge(merge({"encoder": MODERN}, BESIDE), STABLE),
}
WHOLE, HALF = list(ARMS), ", half the budget"
ARMS |= {arm + HALF: ARMS[arm] for arm in WHOLE}
_TUNED: dict[str, Any] = {"learning_rate": 5e-4, "epochs": 3, "bias_correction": True, "beta2": 0.98}
_TUNED |= {"layer_decay": 1.0, "precision": "fp32"}
TUNED = {
    "cola": FinetuneConfig(**{**_TUNED, "pooling": "mean"}),
    "stsb": FinetuneConfig(
        **{**_TUNED, "pooling": "pair", "head_layers": "all", "learning_rate": 5e-3, "layer_decay": 0.3}
    ),
}


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows in memory."""

    ids: Any
    bounds: Any

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True)
class Text:
    """The rows, and sentences that are in none of them."""

    data: Data
    tokenizer: Tokenizer
    sentences: list[str]


def read(path: Path, megabytes: float) -> Text:
    """The first documents of a file; every twentieth is held out."""
    documents, size = list[list[str]](), 0.0
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            documents.append([each for paragraph in text.splitlines() for each in sentences(paragraph)])
            size += len(text) / 1e6
            if size > megabytes:
                break
    kept = [each for number, document in enumerate(documents) if number % 20 for each in document]
    tokenizer = train_wordpiece(kept, VOCABULARY)
    parts = {}
    for name, held_out in (("train", False), ("valid", True)):
        packer = Packer(LENGTH, tokenizer, PackingConfig(overflow="carry"), 1)
        for document in (each for number, each in enumerate(documents) if (number % 20 == 0) is held_out):
            for line in tokenizer.encode_bytes(document):
                packer.add_line(line)
            packer.end_document()
        packer.finish()
        parts[name] = Rows(*packer.take())
    ids = tokenizer
    special = SpecialIds(pad=ids.pad_id, cls=ids.cls_id, sep=ids.sep_id, mask=ids.mask_id)
    data = Data(parts["train"], parts["valid"], special, tokenizer.vocab_size)
    fits = [each for document in documents[::20] for each in document if 5 <= len(each.split()) <= 20]
    return Text(data, tokenizer, fits)


def settings(arm: str, seed: int, steps: int) -> ElectraConfig:
    """An arm's pre-training; a tenth of it warms up."""
    every = max(1, steps // 4)
    run = {"steps": steps, "warmup": steps // 10, "seed": seed, "save_every": max(1, steps // 10)}
    more = {"log_every": every, "eval_every": every, "eval_batches": 8}
    return build(ElectraConfig, merge(merge(BASE, ARMS[arm]), {"pretrain": run | more}), arm)


def step_seconds(arms: list[str], text: Text) -> dict[str, float]:
    """Processor seconds of a step of each arm, the best of a few, arms in turn."""
    torch.set_num_threads(1)
    timed: dict[str, list[float]] = {arm: [] for arm in arms}
    ready = {arm: _ready(arm, text) for arm in arms}
    for number, arm in itertools.product(range(TIMED), arms):
        model, optimizer, feed = ready[arm]
        started = time.process_time()
        model(feed.batch(number)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        timed[arm].append(time.process_time() - started)
    return {arm: min(seconds) for arm, seconds in timed.items()}


def steps_for(budget: float, price: dict[str, float]) -> dict[str, int]:
    """The steps of every arm, by what a step of it costs."""
    spent = {arm: budget / 2 if arm.endswith(HALF) else budget for arm in ARMS}
    return {arm: max(20, round(spent[arm] / price[arm.removesuffix(HALF)])) for arm in ARMS}


def _ready(arm: str, text: Text) -> tuple[Any, Any, Feed]:
    config = settings(arm, 1, 100)
    model = Pretraining(config, text.tokenizer.vocab_size, text.data.special).train()
    return model, optimizer_of(model), Feed(text.data.train, config, torch.device("cpu"), "noise")


def muon_flops(model: Pretraining) -> float:
    """Products of one step's orthogonalisations: five times x xᵀ, its square, and that times x."""
    total = 0.0
    for group in optimizer_of(model).param_groups:
        for parameter in group["params"] if "parts" in group else ():
            short, long = sorted((parameter.shape[0] // group["parts"], parameter.shape[1]))
            total += group["parts"] * 5 * (4 * short * short * long + 2 * short**3)
    return total


def flops_of(arm: str, text: Text) -> float:
    """Operations of one step in matrix products."""
    config, size = settings(arm, 1, 100), text.tokenizer.vocab_size
    muon = muon_flops(Pretraining(config, size, text.data.special)) if config.pretrain.optimizer == "muon" else 0.0
    return step_flops(config, size, "matmul") + muon


def fixed_rows(generator: Pretraining, text: Text) -> tuple[Any, Any, Any]:
    """Held-out rows (N, T), their lengths, and which tokens this generator has replaced."""
    config = dataclasses.replace(generator.config, pretrain=dataclasses.replace(generator.config.pretrain, batch=64))
    feed = Feed(text.data.valid, config, torch.device("cpu"), "fixed rows")
    outputs, lengths = [], []
    with torch.no_grad():
        for number in range(min(HELD_OUT, len(text.data.valid)) // 64):
            batch = feed.batch(number)
            outputs.append(generator(batch))
            lengths.append(batch.lengths_B)
    corrupted = torch.cat([each.corrupted_BT for each in outputs])
    return corrupted, torch.cat(lengths), torch.cat([each.replaced_BT for each in outputs])


@torch.no_grad()
def judged(model: Pretraining, rows: tuple[Any, Any, Any]) -> dict[str, float]:
    """AUC over all real tokens, and the loss over the entropy of the share that is replaced."""
    ids_NT, lengths_N, replaced_NT = rows
    real_NT = torch.arange(ids_NT.shape[1]) < lengths_N[:, None]
    logits = model.discriminator(ids_NT, torch.zeros_like(ids_NT), lengths_N)[real_NT]
    truth = replaced_NT[real_NT].float()
    share = float(truth.mean())
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth).item()
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    return {"auc": area_under_curve(logits.numpy(), truth.numpy() > 0), "loss_over_entropy": float(loss / entropy)}


def folder(home: Path, arm: str, seed: int) -> Path:
    """Of a run."""
    return home / re.sub(r"\W+", "-", f"{arm}-{seed}")


def one(arm: str, seed: int, steps: int, text: Text, home: Path) -> tuple[Pretraining, dict[str, Any]]:
    """Pre-train, or go on; what it took is kept beside the run."""
    config, run = settings(arm, seed, steps), folder(home, arm, seed)
    known = run / "seconds.json"
    spent, started = (read_json(known)["seconds"] if known.is_file() else 0.0), time.process_time()
    torch.set_num_threads(1)
    try:
        trained = pretrain(
            config, text.data, run, {"config": of_config(config)}, log=_quiet, launch=Launch(title=f"{arm}, {seed}")
        )
    finally:
        if run.is_dir() and not (known.is_file() and read_json(known).get("done")):
            write_json(known, {"seconds": spent + time.process_time() - started, "done": False})
    if not read_json(known)["done"]:
        write_json(known, {**read_json(known), "done": True})
    last = trained.history[-1]
    facts = {"seconds": read_json(known)["seconds"], "masked_token_loss": last["mlm_loss"], "own_auc": last["disc_auc"]}
    return trained.model, {"steps": steps, **facts, "history": trained.history}


def tuned(model: Pretraining, text: Text, tasks: Path, seed: int, home: Path) -> dict[str, float]:
    """Scores on dev of the encoder fine-tuned for every task, one run each; kept, with what they are of."""
    made, known = recipe(tasks), home / "tuned.json"
    if known.is_file() and (before := read_json(known)).get("made") == made:
        return dict(before["scores"])
    found = {}
    for name, config in TUNED.items():
        task, encoder = GLUE[name], copy.deepcopy(model.discriminator.encoder)
        rows = [read_rows(tasks / name / f"{split}.jsonl", task) for split in SPLITS]
        splits, _ = narrow(encoder, [encode(each, task, text.tokenizer, config.length) for each in rows])
        torch.manual_seed(seed)
        network = Classifier(encoder, len(task.labels), config.head_dropout, config.pooling, config.head_layers)
        finetune(network, splits[0], config, seed=seed, stream=name)
        scores = predictions.scores(task, rows[1], read_outputs(network, splits[1])["logits"])
        found[f"{name}_{task.metrics[0]}"] = scores[task.metrics[0]]
    write_json(known, {"made": made, "scores": found})
    return found


def recipe(tasks: Path) -> dict[str, Any]:
    """How every encoder is fine-tuned, and the hashes of the rows."""
    rows = {f"{name}/{split}": sha256_file(tasks / name / f"{split}.jsonl") for name in TUNED for split in SPLITS}
    return {"settings": {name: plain(config) for name, config in TUNED.items()}, "rows": rows}


def _quiet(step: int, numbers: dict[str, float]) -> None:
    """The loop's own bar is enough."""


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, list[float]]]:
    """Mean and standard deviation over seeds of every measure."""
    found: dict[str, dict[str, list[float]]] = {}
    for arm, each in runs.items():
        names = [name for name, value in each[0].items() if isinstance(value, float)]
        found[arm] = {
            name: [statistics.mean(run[name] for run in each), statistics.stdev([run[name] for run in each] or [0, 0])]
            for name in names
        }
    return found


def main() -> int:
    """Everything; a stop leaves what is done, and the same command goes on."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--data", type=Path, required=True)
    asked.add_argument("--megabytes", type=float, default=8.0)
    asked.add_argument("--seconds", type=float, help="processor seconds of each run")
    asked.add_argument("--flops", type=float, help="operations in matrix products of each run, instead")
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--tasks", type=Path, help="folder of the stage `tasks`: fine-tune for CoLA and STS-B, too")
    asked.add_argument(
        "--arms", nargs="+", default=WHOLE, choices=list(ARMS), help="the first one's generator judges all"
    )
    chosen = asked.parse_args()
    if (chosen.seconds is None) == (chosen.flops is None):
        asked.error("give --seconds or --flops")
    kind, budget = ("seconds", chosen.seconds) if chosen.flops is None else ("flops", chosen.flops)
    text = read(chosen.data, chosen.megabytes)
    what = {
        "base": BASE,
        "budget": {kind: budget},
        "megabytes": chosen.megabytes,
        "text": chosen.data.name,
    }
    home = RUNS / f"{kind}-{budget:g}-{digest(what | {'arms': ARMS})}"
    if not (plan := home / "plan.json").is_file():
        times, costs = step_seconds(WHOLE, text), {arm: flops_of(arm, text) for arm in WHOLE}
        write_json(plan, {"step_seconds": times, "step_flops": costs, "begun": provenance(("torch",))})
    planned = read_json(plan)
    steps = steps_for(budget, planned[f"step_{kind}"])
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in chosen.arms}
    pairs = minimal_pairs(text.sentences, set(text.tokenizer.pieces()))
    rows = None
    try:
        for seed, arm in itertools.product(range(1, chosen.seeds + 1), chosen.arms):
            model, facts = one(arm, seed, steps[arm], text, home)
            rows = rows or fixed_rows(model, text)
            facts |= {f"fixed_{name}": value for name, value in judged(model, rows).items()}
            facts |= {f"pairs_{name}": seen(model, each, text.tokenizer) for name, each in pairs.items()}
            if chosen.tasks:
                facts |= tuned(model, text, chosen.tasks, seed, folder(home, arm, seed))
            runs[arm].append({"seed": seed, **facts})
    except Stopped as stopped:
        sys.stderr.write(f"{stopped}\n")
        return stopped.exit_code
    result = {
        "what": what | {"arms": {arm: ARMS[arm] for arm in chosen.arms}},
        **({"fine_tuning": recipe(chosen.tasks)} if chosen.tasks else {}),
        "command": shlex.join(["python", *sys.argv]),
        "plan": planned,
        "ended": provenance(("torch",)),
    }
    result |= {
        "sha256": sha256_file(chosen.data),
        "rows": {"train": len(text.data.train), "valid": len(text.data.valid)},
    }
    result |= {
        "pairs": {name: len(each) for name, each in pairs.items()},
        "mean_and_deviation": summary(runs),
        "runs": runs,
    }
    write_atomic(OUT / f"modern-{kind}-{budget:g}.json", dump_json(result))
    sys.stdout.write(dump_json(result["mean_and_deviation"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
