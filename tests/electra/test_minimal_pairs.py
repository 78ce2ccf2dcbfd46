"""Scores of sentences by hand, and shares of pairs."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import electra
from electra import minimal_pairs
from electra.errors import BadInput
from electra.minimal_pairs import Pair, accuracies, scores

TEXTS = ["the chef ate the meal", "the dog", "bread near the zoo and the cat"]


def test_a_generators_score_is_the_pseudo_log_likelihood(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = electra.load(models / "generator")
    expected = []
    for text in TEXTS:
        (ids,) = model.tokenizer.encode_lines([text])
        row = torch.tensor([[model.tokenizer.cls_id, *ids, model.tokenizer.sep_id]])
        total = 0.0
        for place in range(1, len(ids) + 1):
            masked = row.clone()
            masked[0, place] = model.tokenizer.mask_id
            with torch.no_grad():
                logits, _ = model.network(masked, torch.zeros_like(masked), None, torch.tensor([[place]]))
            total += logits[0, : model.tokenizer.vocab_size].double().log_softmax(-1)[row[0, place]].item()
        expected.append(total)
    monkeypatch.setattr(minimal_pairs, "ROWS", 4)  # batches that end within a text
    assert scores(model, TEXTS) == pytest.approx(expected, abs=1e-4)  # fp32, in rows of other lengths


def test_a_discriminators_score_is_how_little_it_suspects(models: Path) -> None:
    model = electra.load(models / "discriminator")
    judged = model.replaced(TEXTS)
    expected = [sum(math.log(1 - float(share)) for share in each.probability) for each in judged]
    assert scores(model, TEXTS) == pytest.approx(expected, rel=1e-5)


def test_pairs_are_counted_by_paradigm_and_ties_are_halves(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimal_pairs, "scores", lambda model, texts: np.array([float(len(text)) for text in texts]))
    monkeypatch.setattr(minimal_pairs, "AT_ONCE", 2)
    pairs = [Pair("a", "long", "no"), Pair("b", "x", "xx"), Pair("a", "x", "y"), Pair("a", "x", "yy")]
    assert accuracies(electra.load(models / "generator"), pairs) == {"a": 50.0, "b": 0.0}


def test_an_encoder_alone_has_no_score(models: Path) -> None:
    with pytest.raises(BadInput, match="of the kind encoder"):
        scores(electra.load(models / "encoder"), TEXTS)
