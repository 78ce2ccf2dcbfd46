"""Baselines on rows whose right answer is known, and the frozen head against scikit-learn."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from electra.data import tokenizer as tokenizers
from electra.files import write_jsonl
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import load_networks, network_tensors, write_folder
from electra.pretraining.networks import Discriminator
from pipelines.stages import baselines

WORDS = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps"]


def write(folder: Path, task: str, answer, count: int = 200) -> Path:
    """Rows of random words, labelled by `answer(a, b)`."""
    draw = random.Random(1)
    for split in ("train", "dev"):
        rows = []
        for number in range(count):
            a, b = draw.sample(WORDS, 4), draw.sample(WORDS, 4)
            row = {"id": str(number), "a": " ".join(a), "b": None if task == "sst2" else " ".join(b)}
            rows.append(row | {"label": answer(a, b)})
        write_jsonl(folder / f"{split}.jsonl", rows)
    return folder


@pytest.mark.parametrize(("task", "answer", "expected"), [
    ("sst2", lambda a, b: "1" if "red" in a else "0", {"chance": 50, "bag_of_words": 100}),
    ("mrpc", lambda a, b: "01"[len({*a} & {*b}) > 2], {"chance": 50, "word_overlap": 100}),
    ("stsb", lambda a, b: float(len({*a} & {*b})), {"chance": 0, "majority": 0, "word_overlap": pytest.approx(100)}),
])  # fmt: skip
def test_each_finds_what_it_can_find(tmp_path: Path, task: str, answer, expected: dict[str, float]) -> None:
    scores = baselines.of_task(GLUE[task], write(tmp_path, task, answer), FinetuneConfig())
    assert {name: scores[name] for name in expected} == expected
    assert ("word_overlap" in scores) == (task != "sst2")
    assert task == "sst2" or scores["bag_of_words"] < 85
    few, rest = baselines.splits(GLUE[task], tmp_path, FinetuneConfig(max_train_rows=7))
    assert (len(few), len(rest)) == (7, 200), "the rows that fine-tuning sees"


def test_the_majority_is_the_training_rows(tmp_path: Path) -> None:
    draw = random.Random(2)
    write(tmp_path, "mrpc", lambda a, b: "01"[draw.random() < 0.8])
    rows = baselines.splits(GLUE["mrpc"], tmp_path, FinetuneConfig())[1]
    scores = baselines.of_task(GLUE["mrpc"], tmp_path, FinetuneConfig())
    assert scores["majority"] == 100 * sum(row["label"] == "1" for row in rows) / len(rows) > 70


def test_what_has_no_baselines(tmp_path: Path) -> None:
    tags = GLUE["sst2"].__class__(name="tags", title="tags", labels=("X",), metrics=("f1",), tagging=True)
    assert baselines.of_task(tags, tmp_path, FinetuneConfig()) == {}
    assert baselines.load_frozen(tmp_path) is None


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    tokenizer = tokenizers.from_pieces([*tokenizers.SPECIALS, *WORDS], lowercase=True, strip_accents=None)
    tokenizers.save(tokenizer, tmp_path / "tokenizer")
    config = EncoderConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16, positions=16, dropout=0.0)
    network = Discriminator(Encoder(config, tokenizer.vocab_size))
    files = {path.name: path.read_text() for path in (tmp_path / "tokenizer").iterdir()}
    tensors = network_tensors(network.encoder, network.head)
    write_folder(
        tmp_path / "model" / "discriminator",
        tensors,
        config_json(config, tokenizer.vocab_size, "ElectraForPreTraining"),
        files,
        "",
    )
    return tmp_path / "model"


def test_the_frozen_head_ranks_rows_by_their_surest_token(tmp_path: Path, model: Path) -> None:
    folder = write(tmp_path / "rows", "mrpc", lambda a, b: "01"[a[0] < b[0]])
    frozen = baselines.load_frozen(model)
    assert frozen is not None
    config = FinetuneConfig(length=16)
    here = baselines.replaced_tokens(frozen, GLUE["mrpc"], folder, config, model / "discriminator")

    tokenizer = tokenizers.load(model / "discriminator")
    encoder = frozen.encoder.config
    network = Discriminator(Encoder(encoder, tokenizer.vocab_size))
    load_networks({"discriminator": (network.encoder, network.head)}, model)
    rows, surest = baselines.splits(GLUE["mrpc"], folder, config)[1], []
    for row in rows:
        a, b = tokenizer.encode_lines([row["a"], row["b"]])
        ids = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        with torch.no_grad():
            surest.append(network.eval()(torch.tensor([ids]), torch.tensor([segments]), None).max().item())
    there = 100 * roc_auc_score([row["label"] == "0" for row in rows], surest)
    assert here == pytest.approx(there, abs=0.02) and abs(here - 50) > 0.1
    assert baselines.replaced_tokens(frozen, GLUE["sst2"], folder, config, model) is None


@pytest.mark.parametrize(("high", "low", "expected"), [([3, 2], [1], 100), ([1, 1], [1], 50), ([0, 2], [1], 50)])
def test_auc(high: list[int], low: list[int], expected: float) -> None:
    assert baselines.auc(np.array(high), np.array(low)) == expected
    assert baselines.auc(np.array([]), np.array(low)) is None
