"""The encoder over rows end to end equals the padded one."""

import dataclasses

import numpy as np
import pytest
import torch

from electra.finetuning import unpadded
from electra.finetuning.classification import encode
from electra.finetuning.heads import pooled, pooled_size
from electra.finetuning.tasks import GLUE
from electra.finetuning.unpadded import aligned_hidden, compared_hidden, first_hidden, hidden, pooled_hidden
from electra.nn import varlen
from electra.nn.factory import fresh_encoder
from electra.nn.huggingface import load_encoder
from tests.electra.nn.test_varlen import by_rows

from .conftest import MODERN, glue_rows, padded


@pytest.fixture(params=["bert", "modern", "modern, last layer global"])
def encoder(request, model, modern_model):
    if request.param == "modern, last layer global":
        return fresh_encoder(dataclasses.replace(MODERN, layers=4), 1000, 1).eval()
    return load_encoder(model if request.param == "bert" else modern_model, dropout=0.0)


def gradients(encoder, loss):
    encoder.zero_grad()
    loss.backward()
    return [parameter.grad.clone() for parameter in encoder.parameters() if parameter.grad is not None]


def aligned(row, side):
    """One row's tokens beside their likes in the other text, a token at a time."""
    texts, found = [row[side == number] for number in (0, 1)], []
    for text, other in (texts, texts[::-1]):
        cosines = [torch.cosine_similarity(token[None], other) for token in text]
        likes = torch.stack([(10 * cosine).softmax(0) @ other for cosine in cosines])
        found.append((text - likes).abs().mean(0))
    return torch.cat(found)


def test_hidden_states_and_gradients_equal_the_padded_encoders(encoder, examples):
    """Also of means and maxima over a row's own tokens, and of its two texts' means and likes."""
    for batch in (examples.batch(np.arange(4)), examples.batch(np.array([5]))):
        ids, segments, lengths = padded(batch)
        whole_BTH = encoder(ids, segments, lengths)
        rows = [row[:length] for row, length in zip(whole_BTH, lengths, strict=True)]
        sides = [side[:length] for side, length in zip(segments, lengths, strict=True)]
        texts = [[row[side == number].mean(0) for number in (0, 1)] for row, side in zip(rows, sides, strict=True)]
        ours_PH = hidden(encoder, batch)
        for found, expected in (
            (ours_PH, whole_BTH.flatten(0, 1)[batch.cell_P]),
            (first_hidden(encoder, batch), whole_BTH[:, 0]),
            (pooled_hidden(ours_PH, batch, "mean"), torch.stack([row.mean(0) for row in rows])),
            (pooled_hidden(ours_PH, batch, "max"), torch.stack([row.amax(0) for row in rows])),
            (compared_hidden(ours_PH, batch), torch.stack([torch.cat([u, v, (u - v).abs(), u * v]) for u, v in texts])),
            (aligned_hidden(ours_PH, batch, 32), torch.stack(list(map(aligned, rows, sides)))),
        ):
            assert torch.allclose(found, expected, atol=1e-5)
        weights = torch.randn(ours_PH.shape, generator=torch.Generator().manual_seed(1))
        expected = gradients(encoder, (encoder(ids, segments, lengths).flatten(0, 1)[batch.cell_P] * weights).sum())
        for one, other in zip(gradients(encoder, (hidden(encoder, batch) * weights).sum()), expected, strict=True):
            assert torch.allclose(one, other, atol=1e-4)
        expected = gradients(encoder, (encoder(ids, segments, lengths)[:, 0] * weights[: len(ids)]).sum())
        ours = gradients(encoder, (first_hidden(encoder, batch) * weights[: len(ids)]).sum())
        assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(ours, expected, strict=True))


def test_a_pair_without_a_second_text_has_zeros_in_its_place(model, tokenizer):
    batch = encode(glue_rows("cola", 3, 1), GLUE["cola"], tokenizer, 40).batch(np.arange(3))
    found = compared_hidden(hidden(load_encoder(model), batch), batch)
    assert found[:, :32].any() and not found[:, 32:64].any() and torch.equal(found[:, 64:96], found[:, :32].abs())
    assert not aligned_hidden(hidden(load_encoder(model), batch), batch, 32).any()


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [5]])
def test_rows_of_their_own_see_what_the_grid_lets_them_see(encoder, examples, rows, monkeypatch):
    """Where the device has the operator, which is played here, neither a grid nor a mask is made."""
    batch = examples.batch(np.array(rows))
    weights = torch.randn(len(batch.ids_P), 32, generator=torch.Generator().manual_seed(1))
    found = []
    for usable in (False, True):
        monkeypatch.setattr(varlen, "usable", lambda device, size, usable=usable: usable)
        if usable:
            monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", by_rows)
            monkeypatch.setattr(unpadded, "_Spread", None)
        states, firsts = hidden(encoder, batch), first_hidden(encoder, batch)
        loss = (states * weights).sum() + (firsts * weights[: len(rows)]).sum()
        found.append([states.detach(), firsts.detach(), *gradients(encoder, loss)])
    for grid, own in zip(*found, strict=True):
        assert torch.allclose(own, grid, atol=1e-4)


def test_all_layers_end_to_end_are_the_embeddings_and_what_each_layer_gives(encoder, examples):
    """The last state is the encoder's: a modern one's is normed, and no other."""
    batch, given = examples.batch(np.arange(5)), []
    states = hidden(encoder, batch, "all").split(32, 1)
    hooks = [layer.register_forward_hook(lambda layer, args, out: given.append(out)) for layer in encoder.layers]
    hooks.append(encoder.project.register_forward_hook(lambda part, args, out: given.append(out)))
    whole = encoder(*padded(batch))
    for hook in hooks:
        hook.remove()
    for ours, theirs in zip(states, [*given[:-1], whole], strict=True):
        assert torch.allclose(ours, theirs.flatten(0, 1)[batch.cell_P], atol=1e-5)
    for pooling in ("cls", "mean", "pair", "align"):
        found = pooled(encoder, batch, pooling, "all")
        assert found.shape[1] == pooled_size(encoder, pooling, "all") == len(states) * pooled_size(encoder, pooling)
        last = torch.cat(found.split(32, 1)[len(states) - 1 :: len(states)], 1)
        assert torch.allclose(last, pooled(encoder, batch, pooling), atol=1e-5)


def test_attention_dropout_has_the_gradient_of_what_it_did(model, examples):
    encoder = load_encoder(model, dropout=0.2).double().train()
    batch = examples.batch(np.array([0, 1]))
    bias = encoder.layers[0].attention.qkv.bias

    def loss() -> torch.Tensor:
        torch.manual_seed(5)
        return hidden(encoder, batch).square().mean()

    (grad,) = torch.autograd.grad(loss(), bias)
    step = torch.randn(bias.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 1e-5
    with torch.no_grad():
        bias += step
        above = loss()
        bias -= 2 * step
        below = loss()
    assert float((above - below) / 2) == pytest.approx(float((grad * step).sum()), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["attention", "elsewhere"])
@pytest.mark.parametrize("folder", ["model", "modern_model"])
def test_dropout_disturbs_as_much_as_the_padded_encoders(folder, request, examples, where):
    """Over many draws the hidden states have the same mean, to within its error, and the same variance."""
    encoder = load_encoder(request.getfixturevalue(folder), dropout=0.3).train()
    if where == "attention":
        encoder.embeddings.dropout = 0.0
    for layer in encoder.layers:
        if where == "attention":
            layer.drop.rate = 0.0
        else:
            layer.attention.dropout = 0.0
    batch = examples.batch(np.arange(6))
    torch.manual_seed(1)
    with torch.no_grad():
        ours = torch.stack([first_hidden(encoder, batch) for _ in range(1000)])
        theirs = torch.stack([encoder(*padded(batch))[:, 0] for _ in range(1000)])
    assert ours.var(0).sum() / theirs.var(0).sum() == pytest.approx(1.0, abs=0.05)
    error = ((ours.var(0) + theirs.var(0)) / 1000).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)) / error).abs().max() < 5.0
