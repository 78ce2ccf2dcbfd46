"""Recorded updates of fine-tuning: what plain ones do, on a few shapes at fixed places."""

import dataclasses

import numpy as np
import pytest
import torch

from electra.finetuning import step, training
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_squad
from electra.finetuning.step import padded, with_padding_rows
from electra.finetuning.tagging import Tagger, Tagging
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig, Task
from electra.finetuning.training import train
from electra.nn.huggingface import load_encoder
from tests.electra.helpers import Failing, Rerun

from .conftest import glue_rows, squad_rows

CONFIG = FinetuneConfig(learning_rate=1e-3, batch=16, length=40, dropout=0.0, head_dropout=0.0, weight_decay=0.1)
SQUAD = SquadConfig(learning_rate=1e-3, batch=16, length=40, dropout=0.0, stride=12, question_length=10)


@pytest.fixture(autouse=True)
def small_shapes(monkeypatch):
    for name, value in {"GRAIN": 128, "COLUMNS": 16, "OFTEN": 1}.items():
        monkeypatch.setattr(step, name, value)


def case(kind, model, tokenizer):
    """A network, its rows and the settings."""
    encoder, config = load_encoder(model, dropout=0.0), dataclasses.replace(CONFIG, epochs=4)
    torch.manual_seed(1)
    if kind == "squad":
        rows = encode_squad(squad_rows(40, 1, impossible=True), tokenizer, SQUAD)
        return SpanFinder(encoder, SQUAD), rows.examples, dataclasses.replace(SQUAD, epochs=4)
    if kind == "tags":
        task = Task(name="chunks", title="chunks", labels=("NP",), metrics=("entity_f1",), tagging=True)
        words = [row["a"].rstrip(".").split() for row in glue_rows("cola", 50, 1)]
        tags = [["B-NP" if word == "cat" else "O" for word in each] for each in words]
        rows = [{"id": str(at), "words": words[at], "tags": tags[at]} for at in range(50)]
        return Tagger(encoder, len(task.classes), 40), Tagging(task).encode(rows, tokenizer, config).examples, config
    task, pooling = [*kind.split("-"), "cls"][:2]
    rows = encode(glue_rows(task, 60, 1), GLUE[task], tokenizer, 40)
    return Classifier(encoder, len(GLUE[task].labels), 0.0, pooling), rows, config


def trained(case, record, monkeypatch, room=2**17):
    monkeypatch.setattr(training, "recorder", lambda place: record)
    monkeypatch.setitem(training.ROOM, "cpu", room)
    return train(*case, seed=2, stream="t")


CASES = [(kind, room, "model") for kind in ("mnli", "mnli-max", "stsb-mean", "tags", "squad") for room in (2**17, 1)]


@pytest.mark.parametrize(  # room 1: parts of at most 256 tokens
    ("kind", "room", "encoder"), [*CASES, ("mnli-max", 2**17, "modern_model"), ("squad", 1, "modern_model")]
)
def test_recorded_updates_do_what_plain_ones_do(kind, room, encoder, request, tokenizer, monkeypatch):
    """Padding bears on no number but by the order of additions: weights within 2e-5, losses within 1e-4."""
    model = request.getfixturevalue(encoder)
    record, one, other = Rerun(), case(kind, model, tokenizer), case(kind, model, tokenizer)
    before = {name: value.detach().clone() for name, value in one[0].named_parameters()}
    found, expected = trained(one, record, monkeypatch, room), trained(other, None, monkeypatch, room)
    assert 2 <= len(record.recorded) <= 10
    for (name, given), (_, plain) in zip(one[0].named_parameters(), other[0].named_parameters(), strict=True):
        assert torch.allclose(given, plain, atol=2e-5), name
    assert np.allclose(found.curve, expected.curve, rtol=1e-4)
    assert max(float((p.detach() - before[name]).abs().max()) for name, p in one[0].named_parameters()) > 1e-3


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_update_that_cannot_be_recorded_is_done_unrecorded_with_a_warning(
    number, model, tokenizer, monkeypatch, capsys
):
    found, expected = (
        trained(case("mnli", model, tokenizer), record, monkeypatch, 1) for record in (Failing(number), None)
    )
    assert np.allclose(found.curve, expected.curve, rtol=1e-4)
    assert capsys.readouterr().err.count("warning: the step could not be recorded") == 1


@pytest.mark.parametrize("kind", ["mnli", "tags", "squad"])
def test_a_step_stays_on_its_device(kind, model, tokenizer):
    """On torch's device without data: what was left on the CPU, or is read back to it, would raise."""
    network, rows, _ = case(kind, model, tokenizer)
    network.to("meta").train()
    for layer in network.encoder.layers:
        layer.attention.dropout = layer.drop.rate = 0.1
    chosen, longest = padded(np.arange(8), rows.length_N)
    loss_B = network.losses(with_padding_rows(rows).batch(chosen, "meta", longest=longest))
    loss_B.sum().backward()
    assert loss_B.shape == (len(chosen),) and loss_B.device.type == "meta"
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in network.parameters())


def test_training_ends_when_the_loss_is_not_finite(model, tokenizer, monkeypatch):
    network, rows, config = case("mnli", model, tokenizer)
    steps = []
    monkeypatch.setattr(training, "CHECK_EVERY", 2)
    monkeypatch.setattr(training, "set_rate", lambda optimizer, rate: steps.append(rate))
    torch.nn.init.constant_(network.head.weight, float("nan"))
    found = train(network, rows, config, seed=1, stream="t")
    assert not found.finite and found.curve == [] and len(steps) == 2
