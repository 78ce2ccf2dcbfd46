"""A made-up language of a few words, a random encoder of it, and rows of every task: all made in
under a second.
"""

import random
from pathlib import Path

import pytest

from electra.data import tokenizer as tokenizers
from electra.files import write_jsonl
from electra.finetuning.classification import encode
from electra.finetuning.tasks import GLUE
from electra.nn.config import BertConfig, ModernBertConfig
from tests.electra.made_up_models import LETTERS, write_encoder

WORDS = "red blue green old new big small cat dog bird fish house tree river runs sleeps sings eats near far in the is"
WORDS = WORDS.split()
CONFIG = BertConfig(layers=2, hidden=32, heads=2, ffn=64, embedding=16, positions=64)


MODERN = ModernBertConfig(
    kind="modern", layers=3, hidden=32, heads=2, ffn=48, embedding=32, positions=64, window=6
)


@pytest.fixture(scope="session")
def tokenizer():
    pieces = [
        *tokenizers.SPECIALS,
        *WORDS,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        ".",
        "?",
    ]
    return tokenizers.from_pieces(pieces, lowercase=True, strip_accents=None)


@pytest.fixture(scope="session")
def model(tmp_path_factory, tokenizer) -> Path:
    return write_encoder(CONFIG, tmp_path_factory.mktemp("model"), tokenizer)


@pytest.fixture(scope="session")
def modern_model(tmp_path_factory, tokenizer) -> Path:
    return write_encoder(MODERN, tmp_path_factory.mktemp("modern"), tokenizer)


def sentence(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "."


def glue_rows(task: str, count: int, seed: int) -> list[dict]:
    """Labels that follow from a word: learnable, and every class occurs."""
    draw, facts = random.Random(seed), GLUE[task]
    rows = []
    for number in range(count):
        a, b = sentence(draw, draw.randint(3, 14)), sentence(draw, draw.randint(3, 14))
        if facts.regression:
            label: object = float(a.split().count("the") + number % 5) % 5
        else:
            label = facts.labels[number % len(facts.labels)]
            a = f"{WORDS[facts.labels.index(label)]} {a}"
        single = task in {"cola", "sst2"}
        rows.append({"id": f"{task}-{number}", "a": a, "b": None if single else b, "label": label})
    return rows


def squad_rows(count: int, seed: int, *, impossible: bool) -> list[dict]:
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        facts = [
            (animal, draw.choice(["red", "blue", "green"]))
            for animal in draw.sample(["cat", "dog", "bird", "fish"], 3)
        ]
        context = " ".join(f"the {animal} is {colour}." for animal, colour in facts)
        none = impossible and number % 3 == 0
        animal, colour = ("river", "") if none else facts[number % 3]
        start = context.index(f"{animal} is") + len(f"{animal} is ") if not none else 0
        answers = [] if none else [{"text": colour, "start": start}]
        row = {
            "id": f"q{number}",
            "title": "t",
            "question": f"the {animal} is?",
            "context": context,
        }
        rows.append(row | {"answers": answers, "impossible": none})
    return rows


@pytest.fixture(scope="session")
def examples(tokenizer):
    return encode(glue_rows("mrpc", 60, 1), GLUE["mrpc"], tokenizer, 40)


@pytest.fixture(scope="session")
def task_rows(tmp_path_factory) -> Path:
    """A folder as the tasks stage leaves it."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, task in GLUE.items():
        write_jsonl(folder / name / "train.jsonl", glue_rows(name, 60, 1))
        for split in task.evaluation:
            write_jsonl(folder / name / f"{split}.jsonl", glue_rows(name, 24, 2))
    for name in ("squad1", "squad2"):
        write_jsonl(folder / name / "train.jsonl", squad_rows(40, 1, impossible=name == "squad2"))
        write_jsonl(folder / name / "dev.jsonl", squad_rows(15, 2, impossible=name == "squad2"))
    return folder
