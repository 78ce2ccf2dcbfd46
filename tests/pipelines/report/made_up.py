"""Made-up results in the stages' shapes, to draw a report from; no number in here was ever measured."""

import csv
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from electra.files import write_json, write_jsonl
from electra.finetuning.tasks import GLUE
from electra.nn.config import EncoderConfig
from electra.pretraining.config import ObjectiveConfig, PretrainConfig
from electra.storage.manifest import write_manifest
from pipelines.config.ablation_config import AblationConfig

ARMS = {
    "electra": ("ELECTRA", 71.2),
    "all_tokens_mlm": ("All-Tokens MLM", 70.9),
    "replace_mlm": ("Replace MLM", 66.3),
    "electra_15": ("ELECTRA 15 %", 67.0),
    "mlm": ("BERT", 66.1),
}
SCRATCH = dict(zip(GLUE, (12.0, 68.0, 68.4, 24.0, 70.1, 55.2, 61.0, 53.1, 56.3), strict=True))
GAIN = dict(zip(GLUE, (25.0, 14.2, 0.4, 41.0, 9.3, 12.6, 15.8, 7.0, -0.6), strict=True))


ENCODER = EncoderConfig(layers=4, hidden=128, heads=2, ffn=512, embedding=128)
PRETRAIN = PretrainConfig(length=128, batch=32, steps=1200, learning_rate=1e-3, warmup=100)


@dataclass(frozen=True)
class Model:
    tokens: str = "sample_world"
    encoder: EncoderConfig = ENCODER
    pretrain: PretrainConfig = PRETRAIN
    objective: ObjectiveConfig = ObjectiveConfig()


@dataclass(frozen=True)
class Named:
    kind: str = "sample"
    corpus: str = "sample_world"


def ablation() -> AblationConfig:
    arms = {name: {"objective.name": name} for name in ARMS}
    where = {"model": "tiny", "tokens": "sample_world", "data": "sample_world", "recipe": "tiny"}
    return AblationConfig(title="Table 5: what the main network is asked", arms=arms, **where)


@dataclass(frozen=True)
class Run:
    models: tuple[str, ...] = ("tiny",)
    ablations: tuple[str, ...] = ("table5",)


@dataclass(frozen=True)
class Params:
    """As much of params.yaml as the report reads."""

    run: Run = Run()
    models: dict[str, Model] = field(default_factory=lambda: {"tiny": Model(), "mini": Model()})
    tokens: dict[str, Named] = field(default_factory=lambda: {"sample_world": Named()})
    tasks: dict[str, Named] = field(default_factory=lambda: {"sample_world": Named()})
    ablations: dict[str, AblationConfig] = field(default_factory=lambda: {"table5": ablation()})
    finetunings = dict.fromkeys(("tiny", "mini"), SimpleNamespace(tasks="sample_world"))
    finetune = SimpleNamespace(resolve=lambda task, changes, *, own: changes)

    def recipe(self, name: str) -> dict[str, Any]:
        return {}

    def own_tasks(self, source: str) -> tuple[str, ...]:
        return ()


def write(root: Path, model: str = "tiny", *, lift: float = 1.0, seeds: int = 3, flops: float = 2.1e14) -> None:
    """Everything that one model and one ablation leave behind."""
    chance = random.Random(f"{model}")
    write_pretraining(root, model, flops)
    tasks = {}
    for name, task in GLUE.items():
        low, gain = SCRATCH[name], lift * GAIN[name]
        tasks[name] = {"metric": task.metrics[0], "train_rows": 3000, "dev_rows": 500}
        for arm, middle, width in (("pretrained", low + gain, 0.9), ("scratch", low, 1.1)):
            scores = [middle + chance.gauss(0, width) for _ in range(seeds)]
            tasks[name][arm] = {"scores": scores, "mean": sum(scores) / seeds, "failed": []}
            tasks[name][arm] |= {"all": dict.fromkeys(task.metrics, scores), "train": [score + 2 for score in scores]}
        tasks[name]["baselines"] = {"chance": 41.25, "majority": 42.25, "bag_of_words": 43.25, "word_overlap": 44.25}
        tasks[name]["baselines"]["replaced_tokens"] = 61.75
    average: dict[str, Any] = {"name": "mean over nine tasks (sample world)"}
    for arm in ("pretrained", "scratch"):
        by_seed = zip(*(tasks[name][arm]["scores"] for name in GLUE), strict=True)
        average[arm] = {"scores": [sum(scores) / len(GLUE) for scores in by_seed]}
    glue = {"source": "sample_world", "label": "sample world", "tasks": tasks, "average": average}
    write_json(root / f"results/{model}/glue.json", glue)
    squad = {
        arm: {
            "exact": {"scores": [low + chance.gauss(0, 0.8) for _ in range(seeds)]},
            "f1": {"scores": [low + 3.5 + chance.gauss(0, 0.8) for _ in range(seeds)]},
            "train": {"exact": [low + 7.0] * seeds, "f1": [low + 8.25] * seeds},
        }
        for arm, low in (("pretrained", 61.0), ("scratch", 49.5))
    }
    versions = {"2.0": {**squad, "never_answering": 33.25}}
    write_json(root / f"results/{model}/squad.json", {"label": "sample world", "versions": versions})
    write_data(root)
    write_predictions(root, model)
    write_examples(root, model)


def write_pretraining(root: Path, model: str, flops: float) -> None:
    rows = []
    for step in range(0, 1201, 100):
        t = step / 1200
        grown = 1 - math.exp(-3 * t)
        rate, mlm, disc = 0.142 - 0.075 * grown, 6.6 - 4.4 * grown, 0.29 - 0.13 * grown
        row = {"step": step, "flops": flops * t, "loss": mlm + 50 * disc, "mlm_loss": mlm, "disc_loss": disc}
        row |= {"mlm_accuracy": 0.05 + 0.5 * grown, "sample_accuracy": 0.03 + 0.42 * grown, "replaced_rate": rate}
        row |= {"disc_auc": 0.5 + 0.41 * grown, "disc_precision": 0.83 * grown, "disc_recall": 0.44 * grown}
        rows.append(row | ({"train_loss": row["loss"] * 1.03} if step else {}))
    path = root / f"results/{model}/pretrain.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, sorted({key for row in rows for key in row}), restval="")
        writer.writeheader()
        writer.writerows(rows)
    facts = {"steps": 1200, "flops": flops, "parameters": {"discriminator": 920_000, "generator": 70_000}}
    write_json(root / f"results/{model}/pretrain.json", {**facts, "threads": 2, "seed": 1, **rows[-1]})


def write_ablation(root: Path, seeds: int = 3, failed: str = "") -> None:
    """Table 5; the arm `failed` has no result."""
    chance = random.Random("table5")
    arms = {}
    for name, (label, middle) in ARMS.items():
        means = {task: SCRATCH[task] + GAIN[task] * (middle - 56) / 15 for task in GLUE}
        tasks = {task: [mean + chance.gauss(0, 0.8) for _ in range(seeds)] for task, mean in means.items()}
        scores = [sum(tasks[task][seed] for task in GLUE) / len(GLUE) for seed in range(seeds)]
        arms[name] = {"label": label, "settings": {"objective.name": name}}
        if name == failed:
            arms[name]["status"] = "failed: loss was not finite at step 310"
        else:
            arms[name] |= {"status": "ok", "flops": 2.1e14, "steps": 1200, "glue": tasks, "average": {"scores": scores}}
    write_json(root / "results/ablations/table5.json", {"name": "table5", "model": "tiny", "arms": arms})


def write_data(root: Path) -> None:
    facts = {"documents": 5200, "lines": 31_000, "bytes": 4_100_000, "dropped": {"short": 12}}
    facts |= {"quarantined": 2, "reasons": {"not UTF-8": 2}}
    write_json(root / "results/corpus/sample_world.json", facts)
    split = {"rows": 8160, "tokens": 912_823, "padding": 0.126}
    rows = {"128": {"train": split, "valid": {"rows": 172, "tokens": 19_189, "padding": 0.128}}}
    write_json(root / "results/tokens/sample_world.json", {"vocab_size": 800, "rows": rows, "unknown_rate": 0.0})
    counts = {"train": {"rows": 999, "quarantined": 1}, "dev": {"rows": 400, "quarantined": 0}}
    write_json(root / "results/tasks/sample_world.json", {"tasks": dict.fromkeys([*GLUE, "squad2"], counts)})


def write_examples(root: Path, model: str) -> None:
    chance = random.Random("examples")
    first = "the old bak ##er of mar ##low sold warm bread to every child in the square before the bells rang ."
    second = "she never asked a coin of the widow mar ##en , who kept two grey goats behind the mill ."
    text = f"[CLS] {first} [SEP] {second} [SEP]".split()
    others = ["miller", "stone", "green", "winter", "ships", "<b>", "kept", "three"]
    rows = []
    for _ in range(8):
        replaced = [token[0] not in "[#" and chance.random() < 0.11 for token in text]
        tokens = [chance.choice(others) if new else token for token, new in zip(text, replaced, strict=True)]
        sure = [round(chance.betavariate(5, 2) if new else chance.betavariate(0.5, 12), 4) for new in replaced]
        likely = {"pieces": ["<b>", "kept"], "probability": [0.375, 0.25]}
        proposals = [{"place": place} | likely for place, new in enumerate(replaced) if new]
        row = {"tokens": tokens, "original": text, "replaced": replaced, "probability": sure}
        rows.append(row | {"proposals": proposals})
    write_json(root / f"build/models/{model}/examples.json", rows)
    write_manifest(root / f"build/models/{model}", name=model)


def write_predictions(root: Path, model: str) -> None:
    chance = random.Random("predictions")
    middle = "Maren the weaver keeps two grey goats behind the mill, and she sells their milk at the market. "
    context = "Marlow lies on the river Ash. " * 4 + middle + "The bells of Marlow ring at dawn. " * 5
    questions, answers = [], {}
    for index in range(24):
        gold = [] if index % 3 == 0 else [{"text": "two grey goats", "start": context.index("two grey goats")}]
        question = f"What does Maren keep behind the mill ({index})?"
        row = {"id": f"q{index}", "title": "Marlow", "question": question, "context": context}
        questions.append(row | {"answers": gold, "impossible": not gold})
        answers[f"q{index}"] = chance.choice(["", "two grey goats", "the market", "grey goats"])
    write_jsonl(root / "build/tasks/sample_world/squad2/dev.jsonl", questions)
    write_json(root / f"build/squad/{model}/2.0/pretrained-seed1.json", answers)
    write_json(root / f"build/squad/{model}/2.0/pretrained-seed1-null-odds.json", dict.fromkeys(answers, 0.0))
    for name, task in GLUE.items():
        rows, said = [], {"pretrained": [], "scratch": []}
        for index in range(40):
            label: Any = round(chance.uniform(0, 5), 1) if task.regression else chance.choice(task.labels)
            pair = name not in {"cola", "sst2"}
            texts = {"a": f"The weaver of <Marlow> sold bread {index}.", "b": "A baker & a goat." if pair else None}
            rows.append({"id": f"{index}", **texts, "label": label})
            for arm, skill in (("pretrained", 0.8), ("scratch", 0.6)):
                other: Any = 2.5 if task.regression else chance.choice(task.labels)
                guess = label if chance.random() < skill else other
                logits = [2.5 * (of == guess) + chance.random() for of in task.labels] or [guess]
                said[arm].append({"id": f"{index}", "prediction": guess, "label": label, "logits": logits})
        write_jsonl(root / f"build/tasks/sample_world/{name}/dev.jsonl", rows)
        for arm, found in said.items():
            write_jsonl(root / f"build/glue/{model}/{name}/{arm}-seed1.jsonl", found)
    for folder in (f"squad/{model}", f"glue/{model}", "tasks/sample_world"):
        write_manifest(root / "build" / folder, name=Path(folder).name)
