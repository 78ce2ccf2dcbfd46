"""The published training, step by step, and outputs that do not depend on the company a row keeps."""

import dataclasses

import numpy as np
import pytest
import torch

from electra.finetuning import training
from electra.finetuning.batches import training_order
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier, shrink_word_table
from electra.finetuning.tasks import GLUE, FinetuneConfig
from electra.finetuning.training import count_steps, finetuning_optimizer, read_outputs, train
from electra.nn.factory import add_new_layers
from electra.nn.huggingface import load_encoder
from tests.support.tasks import FINETUNE as CONFIG
from tests.support.tasks import glue_rows


def classifier(model, classes=2):
    torch.manual_seed(3)
    return Classifier(load_encoder(model, dropout=0.0), classes, 0.0)


def test_a_narrow_vocabulary_trains_to_the_same_outputs(model, examples):
    whole = classifier(model)
    narrowed = classifier(model)
    (fewer,), widen = shrink_word_table(narrowed.encoder, [examples])
    assert narrowed.encoder.embeddings.word.num_embeddings == len(np.unique(examples.ids_S))
    config = dataclasses.replace(CONFIG, weight_decay=0.01)
    train(whole, examples, config, seed=1, stream="t")
    train(narrowed, fewer, config, seed=1, stream="t")
    expected = read_outputs(whole, examples)["logits"]
    assert np.allclose(read_outputs(narrowed, fewer)["logits"], expected, atol=1e-4)
    widen()
    assert np.allclose(read_outputs(narrowed, examples)["logits"], expected, atol=1e-4)


def test_steps_are_whole_epochs_of_rounded_up_batches():
    assert count_steps(2490, FinetuneConfig(epochs=10)) == 780  # RTE as published
    assert count_steps(8551, FinetuneConfig(epochs=3)) == 804  # CoLA
    assert count_steps(5, FinetuneConfig(epochs=0.5)) == 1


def test_training_equals_the_published_rules_written_out(model, examples):
    """Adam without bias correction, eps outside the root, summed loss, clip, layer-wise decay,
    product schedule.

    Theirs takes whole batches at once, ours parts with little padding.
    """
    config = dataclasses.replace(CONFIG, weight_decay=0.01, warmup=0.25, max_grad_norm=0.5)
    ours = classifier(model)
    theirs = classifier(model)
    train(ours, examples, config, seed=1, stream="t")
    steps = 8
    moments = {}
    order = training_order(60, 16, 1, "t")
    for step in range(steps):
        batch = examples.batch(next(order))
        hidden = theirs.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
        logits = theirs.head(hidden[:, 0])
        loss = torch.nn.functional.cross_entropy(logits, batch.targets["label"], reduction="sum")
        theirs.zero_grad()
        loss.backward()
        norm = torch.cat([p.grad.flatten() for p in theirs.parameters()]).norm()
        rate = config.learning_rate * (1 - step / steps) * min(1.0, step / 2)
        for name, p in theirs.named_parameters():
            if "layers." in name:
                share = 0.8 ** (3 - int(name.split("layers.")[1][0]))
            elif name.startswith("encoder."):
                share = 0.8**4
            else:
                share = 1.0
            grad = p.grad / max(1.0, float(norm) / 0.5)
            m, v = moments.get(name, (torch.zeros_like(p), torch.zeros_like(p)))
            m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad.square()
            moments[name] = (m.detach(), v.detach())
            decay = 0.01 if p.ndim > 1 else 0.0
            with torch.no_grad():
                p -= rate * share * (m / (v.sqrt() + 1e-6) + decay * p)
    for name, ours_trained in ours.named_parameters():
        assert torch.allclose(ours_trained, theirs.get_parameter(name), atol=2e-5), name


def test_each_layer_has_its_share_of_the_rate(modern_model):
    """New layers and the head have all of it."""
    network = Classifier(load_encoder(modern_model), 2, 0.0)
    add_new_layers(network.encoder, 2, 1)
    changes = {"layer_decay": 0.5, "layer_decay_exponent": "plain", "new_layers": 2}
    groups = finetuning_optimizer(network, dataclasses.replace(CONFIG, **changes)).param_groups
    share = {id(parameter): group["scale"] for group in groups for parameter in group["params"]}
    expected = {"embeddings": 0.5**4, "layers.0": 0.5**3, "layers.2": 0.5}
    expected |= {"layers.3": 1, "layers.4": 1, "final_norm": 1, "head": 1}
    for name, parameter in network.named_parameters():
        (rate,) = [value for part, value in expected.items() if part in name] or [0.5**2]
        assert share[id(parameter)] == rate, name


def test_the_optimizer_has_the_settings_of_the_recipe(model):
    changes = {"beta1": 0.8, "beta2": 0.9, "eps": 1e-4, "weight_decay": 0.5}
    config = dataclasses.replace(CONFIG, **changes, bias_correction=True)
    optimizer = finetuning_optimizer(classifier(model), config)
    group = max(optimizer.param_groups, key=lambda group: group["weight_decay"])
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.9), 1e-4, 0.5)
    assert {state["step"].item() for state in optimizer.state.values()} == {0.0}


def test_the_curve_is_the_mean_loss_of_a_row_in_a_short_batch_too(model, tokenizer):
    """Of three rows in batches of two, at a rate that changes nothing."""
    examples = encode(glue_rows("mrpc", 3, 1), GLUE["mrpc"], tokenizer, 40)
    network = classifier(model)
    with torch.no_grad():
        loss_B = network.losses(examples.batch(np.arange(3)))
    config = dataclasses.replace(CONFIG, batch=2, epochs=1, learning_rate=1e-12)
    first, second = train(network, examples, config, seed=1, stream="t").curve
    order = training_order(3, 2, 1, "t")
    assert first == (1, pytest.approx(loss_B[next(order)].mean().item(), rel=1e-4))
    assert second == (2, pytest.approx(loss_B[next(order)].mean().item(), rel=1e-4))


@torch.no_grad()
def test_regression_is_a_squared_error_of_one_output(model, tokenizer):
    examples = encode(glue_rows("stsb", 20, 1), GLUE["stsb"], tokenizer, 40)
    network = classifier(model, 0).eval()
    batch = examples.batch(np.arange(20))
    expected = (network(batch)[:, 0] - batch.targets["label"]) ** 2
    assert torch.equal(network.losses(batch), expected)


@pytest.mark.parametrize("every, count", [(2, 2), (50, 8)])
def test_training_ends_when_the_loss_is_not_finite(every, count, model, examples, monkeypatch):
    """It ends at the next check, or at its own end if that comes first."""
    network = classifier(model)
    steps = []
    monkeypatch.setattr(training, "CHECK_EVERY", every)
    monkeypatch.setattr(training, "set_learning_rate", lambda optimizer, rate: steps.append(rate))
    torch.nn.init.constant_(network.head.weight, float("nan"))
    actual = train(network, examples, CONFIG, seed=1, stream="t")
    assert not actual.finite and actual.curve == [] and len(steps) == count


def test_a_weight_that_is_not_finite_is_told_where_no_loss_shows_it(model, examples):
    network = classifier(model)
    with torch.no_grad():
        network.encoder.embeddings.position.weight[-1] = torch.nan  # no row is so long
    assert not train(network, examples, CONFIG, seed=1, stream="t").finite
