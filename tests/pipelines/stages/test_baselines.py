"""Baselines on rows whose right answer is known, and the frozen head against scikit-learn."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from electra.data import tokenizer as tokenizers
from electra.files import write_jsonl
from electra.finetuning.classification import encode
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import load_networks
from electra.pretraining.networks import Discriminator
from pipelines.stages import baselines
from tests.support.models import write_pretrained

WORDS = ["red", "bread", "meal", "cat", "dog", "chef", "ate", "cooked"]


def write(folder, task, answer):
    """Rows of random words, labelled by `answer(a, b)`."""
    draw = random.Random(1)
    for split in ("train", "dev"):
        rows = []
        for number in range(200):
            a = draw.sample(WORDS, 4)
            b = draw.sample(WORDS, 4)
            second = None if task == "sst2" else " ".join(b)
            rows.append({"id": str(number), "a": " ".join(a), "b": second, "label": answer(a, b)})
        write_jsonl(folder / f"{split}.jsonl", rows)
    return folder


@pytest.mark.parametrize("task, answer, expected", [
    ("sst2", lambda a, b: "1" if "red" in a else "0", {"chance": 50, "bag_of_words": 100}),
    ("mrpc", lambda a, b: "01"[len({*a} & {*b}) > 2], {"chance": 50, "word_overlap": 100}),
    ("stsb", lambda a, b: float(len({*a} & {*b})), {"majority": 0, "word_overlap": pytest.approx(90, 0.1)}),
])  # fmt: skip
def test_each_finds_what_it_can_find(tmp_path, task, answer, expected):
    scores = baselines.score_baselines(GLUE[task], write(tmp_path, task, answer), FinetuneConfig())
    assert {name: scores[name] for name in expected} == expected
    assert ("word_overlap" in scores) == (task != "sst2")
    assert task == "sst2" or scores["bag_of_words"] < 85
    few, rest = baselines.read_splits(GLUE[task], tmp_path, FinetuneConfig(max_train_rows=7))
    assert (len(few), len(rest)) == (7, 200), "the rows that fine-tuning sees"


def test_what_a_pair_has_in_common(monkeypatch):
    # "the saw"
    assert baselines.count_in_order("the cat saw the dog".split(), "the dog saw a cat".split()) == 2
    assert baselines.split_words("Don't go, Ann-7!") == ["don", "t", "go", "ann", "7"]
    assert baselines.split_words(" … ") == [""]
    low, neighbours, threes, names, numbered = baselines.comparable_parts("Ann has 2.")
    assert (low, neighbours) == ({"ann", "has", "2"}, {("ann", "has"), ("has", "2")})
    assert (names, numbered, "ann" in threes, len(threes)) == ({"Ann"}, {"2"}, True, 8)
    found = baselines.pair_features("Ann has 2 red cats.", "Bob has no cats.")
    assert found[:4] == [2, 2 / 5, 2 / 4, 2 / 7]
    order = [2 / 5, 2 / 4, 0, 0, 1, 1 / 5]
    assert found[20:] == [*order, *(0, 1, 0, 1), *(0, 1), *(5, 4, 1, -1)]
    same = baselines.pair_features("a b", "a b")
    assert same[:8] == [2, 1, 1, 1, 1, 1, 1, 1] and len(same) == len(found)
    monkeypatch.setattr(baselines, "FIRST", 2)  # the order of long texts takes time
    assert baselines.pair_features("a b c", "a b c")[20] == 2 / 3


def test_words_that_training_never_had_count():
    train = [{"a": "red cats run", "b": "red red dogs"}, {"a": "cats sleep", "b": "dogs run"}]
    dev = [{"a": "zebras doze", "b": "zebras doze"}, {"a": "zebras doze", "b": "lion roar"}]
    _, of_dev = baselines.tfidf(train, dev)
    np.testing.assert_allclose(baselines.overlap(dev, of_dev)[:, -2:], [[1, 1], [0, 0]], atol=1e-9)
    empty = [{"a": "cats", "b": ""}]
    vectors, _ = baselines.tfidf(empty, empty)
    assert baselines.overlap(empty, vectors)[0, -2:].tolist() == [0, 0]
    assert vectors[2].shape[1] == 5 + 4 + 3 + 2, "of two to five characters in ' cats '"


def test_large_tasks_are_fitted_on_a_part_and_one_label_is_the_guess(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(baselines, "FIT_ROWS", 50)
    fit = "pipelines.stages.baselines.predict_fitted"
    monkeypatch.setattr(fit, lambda task, train, dev: seen.append(len(train)) or {})
    for answer in (lambda a, b: "01"["red" in a], lambda a, b: "1"):
        rows = write(tmp_path, "mrpc", answer)
        scores = baselines.score_baselines(GLUE["mrpc"], rows, FinetuneConfig())
    assert seen == [50] and scores == {"chance": 50.0, "majority": 100.0}
    assert baselines.score_baselines(GLUE["cola"], rows, FinetuneConfig())["chance"] == 0.0
    graded = [{"a": "x", "b": "y", "label": label} for label in (0.0, 0.0, 3.0)]
    assert baselines.predict_simply(GLUE["stsb"], graded, graded)["majority"].tolist() == [1.0] * 3


def test_more_weights_than_memory_holds_are_not_fitted(monkeypatch):
    rows = [{"a": word, "b": None, "label": str(number % 2)} for number, word in enumerate(WORDS)]
    assert "bag_of_words" in baselines.predict_simply(GLUE["sst2"], rows, rows)
    monkeypatch.setattr(baselines, "MOST_WEIGHTS", 50)
    assert baselines.predict_simply(GLUE["sst2"], rows, rows).keys() == {"majority"}


def test_what_has_no_baselines(tmp_path):
    tags = replace(GLUE["sst2"], name="tags", labels=("X",), metrics=("f1",), tagging=True)
    assert baselines.score_baselines(tags, tmp_path, FinetuneConfig()) == {}
    assert baselines.load_frozen(tmp_path) is None


def test_the_frozen_head_ranks_rows_by_their_surest_token(tmp_path):
    model = tmp_path / "model"
    write_pretrained(model)
    frozen = baselines.load_frozen(model)
    assert frozen is not None
    config = FinetuneConfig(length=16)

    def score(task, answer):
        folder = write(tmp_path / "rows", task, answer)
        here = baselines.score_frozen(frozen, GLUE[task], folder, config, model / "discriminator")
        return here, baselines.read_splits(GLUE[task], folder, config)[1]

    first, rows = score("mrpc", lambda a, b: "01"[a[0] < b[0]])
    tokenizer = tokenizers.load(model / "discriminator")
    network = Discriminator(Encoder(frozen.encoder.config, tokenizer.vocab_size)).eval()
    load_networks({"discriminator": (network.encoder, network.head)}, model)
    surest = []
    for row in rows:
        a, b = tokenizer.encode_lines([row["a"], row["b"]])
        ids = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        with torch.no_grad():
            logits = network(torch.tensor([ids]), torch.tensor([segments]), None)
        surest.append(logits.max().item())
    expected = 100 * roc_auc_score([row["label"] == "0" for row in rows], surest)
    assert first == pytest.approx(expected, abs=0.02) and first != pytest.approx(50, abs=0.1)
    assert score("mrpc", lambda a, b: "1")[0] is None, "one label"
    assert score("sst2", lambda a, b: "01"["red" in a])[0] is None
    graded, rows = score("stsb", lambda a, b: float(len({*a} & {*b})))
    label = np.array([row["label"] for row in rows])
    apart = label != np.median(label)
    expected = 100 * roc_auc_score(label[apart] < np.median(label), np.array(surest)[apart])
    assert graded == pytest.approx(expected, abs=0.02) and not apart.all()


def test_padding_is_no_token_of_the_frozen_head(tmp_path):
    write_pretrained(tmp_path)
    frozen: Any = baselines.load_frozen(tmp_path)
    frozen.head.forward = lambda hidden_BTH: torch.arange(float(hidden_BTH.shape[1])).expand(2, -1)
    rows = [{"a": "red", "b": text, "label": "0", "id": text} for text in ("a", "a b c")]
    examples = encode(rows, GLUE["mrpc"], tokenizers.load(tmp_path / "discriminator"), 16)
    last = frozen.outputs(examples.batch(np.arange(2)))["replaced"]
    assert last.tolist() == (examples.length_N - 1).tolist() and last[0] < last[1]
