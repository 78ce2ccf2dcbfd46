"""A made-up language of a few words, and rows and networks of every task: all made in under a
second.
"""

import dataclasses
import random

import torch

from electra.data import tokenizer as tokenizers
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier
from electra.finetuning.labels import bioes
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_questions
from electra.finetuning.tagging import Tagger, Tagging
from electra.finetuning.tasks import GLUE, SQUAD_1, SQUAD_2, FinetuneConfig, SquadConfig, Task
from electra.nn.config import BertConfig, ModernBertConfig
from electra.nn.factory import add_new_layers
from electra.nn.huggingface import load_encoder
from tests.support.models import LETTERS

WORDS = (
    "red blue green old new big small cat dog bird fish house tree river runs sleeps sings eats "
    "near far in the is"
).split()
CONFIG = BertConfig(layers=2, hidden=32, heads=2, ffn=64, embedding=16, positions=64)
MODERN = ModernBertConfig(
    kind="modern", layers=3, hidden=32, heads=2, ffn=48, embedding=32, positions=64, window=6
)


def make_tokenizer():
    continuations = [f"##{letter}" for letter in LETTERS]
    pieces = [*tokenizers.SPECIALS, *WORDS, *LETTERS, *continuations, ".", "?"]
    return tokenizers.from_pieces(pieces, lowercase=True, strip_accents=None)


def sentence(draw, words):
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "."


def glue_rows(task, count, seed):
    """Labels that follow from a word: learnable, and every class occurs."""
    draw = random.Random(seed)
    facts = GLUE[task]
    rows = []
    for number in range(count):
        a = sentence(draw, draw.randint(3, 14))
        b = sentence(draw, draw.randint(3, 14))
        if facts.regression:
            label = float(a.split().count("the") + number % 5) % 5
        else:
            label = facts.labels[number % len(facts.labels)]
            a = f"{WORDS[facts.labels.index(label)]} {a}"
        single = task in {"cola", "sst2"}
        rows.append({"id": f"{task}-{number}", "a": a, "b": None if single else b, "label": label})
    return rows


def squad_rows(count, seed, *, impossible):
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        animals = draw.sample(["cat", "dog", "bird", "fish"], 3)
        facts = [(animal, draw.choice(["red", "blue", "green"])) for animal in animals]
        context = " ".join(f"the {animal} is {colour}." for animal, colour in facts)
        none = impossible and number % 3 == 0
        animal, colour = ("river", "") if none else facts[number % 3]
        fact = f"the {animal} is "
        answer = {"text": colour, "start": context.find(fact) + len(fact)}
        row = {
            "id": f"q{number}",
            "title": "t",
            "question": f"the {animal} is?",
            "context": context,
            "answers": [] if none else [answer],
            "impossible": none,
        }
        rows.append(row)
    return rows


FINETUNE = FinetuneConfig(learning_rate=1e-3, epochs=2, batch=16, length=40)
SQUAD = SquadConfig(
    length=40,
    beam=5,
    stride=12,
    question_length=10,
    answer_length=7,
    n_best=3,
    null_threshold=-1.5,
)
CHUNKS = Task(
    name="chunks",
    title="chunks",
    labels=("NP", "VP"),
    metrics=("entity_f1", "accuracy"),
    tagging=True,
    columns=("words",),
)


def tagged_rows(count, seed):
    """Animals are NP, verbs are VP."""
    draw = random.Random(seed)
    types = dict.fromkeys(("cat", "dog", "bird", "fish"), "NP")
    types |= dict.fromkeys(("runs", "sleeps", "sings", "eats"), "VP")
    rows = []
    for number in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.randint(2, 9))]
        spans = [(types[word], at, at) for at, word in enumerate(words) if word in types]
        rows.append({"id": str(number), "words": words, "tags": bioes(spans, len(words))})
    return rows


CLASSIFIERS = {  # name -> (task, new layers, what the head reads)
    "classes": ("mnli", 0, ()),
    "number": ("stsb", 0, ()),
    "new layers": ("cola", 2, ()),
    "max": ("mnli", 0, ("max",)),
    "mean": ("stsb", 0, ("mean",)),
    "pair": ("mrpc", 0, ("pair", "all")),
    "align": ("rte", 1, ("align", "all")),
    "cls of all": ("rte", 0, ("cls", "all")),
}


def make_kinds(model, tokenizer):
    """Yield each kind of fine-tuned network with its task, settings and rows."""
    for name, (task, fresh, head) in CLASSIFIERS.items():
        encoder = load_encoder(model, dropout=0.0)
        add_new_layers(encoder, fresh, 1)
        network = Classifier(encoder, len(GLUE[task].labels), 0.0, *head)
        torch.nn.init.normal_(network.head.bias)
        examples = encode(glue_rows(task, 9, 1), GLUE[task], tokenizer, 40)
        yield name, network, GLUE[task], FINETUNE, examples
    tags = Tagging(CHUNKS).encode(tagged_rows(9, 1), tokenizer, FINETUNE)
    tagger = Tagger(load_encoder(model, dropout=0.0), len(CHUNKS.classes), 40)
    yield "tags", tagger, CHUNKS, FINETUNE, tags.examples
    rows = squad_rows(9, 1, impossible=True)
    for head, squad in (("conditional", SQUAD_2), ("independent", SQUAD_1)):
        config = dataclasses.replace(SQUAD, head=head, versions=(squad.version,))
        network = SpanFinder(load_encoder(model, dropout=0.0), config)
        yield head, network, squad, config, encode_questions(rows, tokenizer, config).examples
