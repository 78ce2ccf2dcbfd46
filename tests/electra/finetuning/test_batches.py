"""Rows end to end: the order of training, parts of a batch, and an encoder that equals the padded one."""

import itertools

import numpy as np
import pytest
import torch

from electra.finetuning import batches, unpadded
from electra.finetuning.batches import parts, stack, training_order
from electra.finetuning.classification import encode
from electra.finetuning.tasks import GLUE
from electra.finetuning.unpadded import first_hidden, hidden, pooled_hidden
from electra.nn import varlen
from electra.nn.weights import load_encoder
from tests.electra.nn.test_varlen import by_rows

from .conftest import glue_rows, padded

# mean and longest length in word pieces, as the official files have them with the published lengths
LAYOUTS = {
    "cola": (11, 128), "sst2": (13, 128), "mrpc": (53, 128), "stsb": (31, 128), "qqp": (30, 128), "mnli": (39, 128),
    "qnli": (50, 128), "rte": (71, 128), "wnli": (37, 128), "squad": (170, 512), "tagging": (30, 256),
}  # fmt: skip


@pytest.fixture(scope="module")
def examples(tokenizer):
    return encode(glue_rows("mrpc", 60, 1), GLUE["mrpc"], tokenizer, 40)


def test_an_epoch_is_one_shuffle_of_all_rows():
    epochs = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    for epoch in (epochs[:32], epochs[32:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(1000))
        assert [len(batch) for batch in epoch] == [32] * 31 + [8]
    again = list(itertools.islice(training_order(1000, 32, 5, "x"), 64))
    assert all((one == two).all() for one, two in zip(epochs, again, strict=True))
    assert epochs[0].tolist() != next(training_order(1000, 32, 6, "x")).tolist()
    assert {tuple(sorted(batch)) for batch in epochs[:32]} != {tuple(sorted(batch)) for batch in epochs[32:]}


@pytest.mark.parametrize("task", LAYOUTS)
def test_hardly_anything_is_computed_for_padding(task):
    """Products of a small encoder on the tokens and cells of real batches, beside those that the tokens alone need."""
    mean, longest = LAYOUTS[task]
    length_N = np.clip(np.random.default_rng(1).lognormal(np.log(mean), 0.45, 2000).astype(int), 4, longest)
    hidden_size = 256
    spent = needed = 0
    rows = list(itertools.islice(training_order(2000, 32, 1, "x"), 20))
    for batch in rows:
        split = list(parts(batch, length_N, 1024))
        assert sorted(np.concatenate(split).tolist()) == sorted(batch.tolist())
        assert all(len(part) == 1 or length_N[part].sum() <= 1024 for part in split)
        tokens, pairs = length_N[batch].sum(), (length_N[batch] ** 2).sum()
        cells = sum(len(part) * length_N[part].max() ** 2 for part in split)
        needed += 24 * hidden_size**2 * tokens + 4 * hidden_size * pairs
        spent += 24 * hidden_size**2 * tokens + 4 * hidden_size * cells
    assert spent <= 1.10 * needed


def test_all_arrays_of_a_batch_go_to_a_gpu_by_one_copy(monkeypatch):
    copies, meta = [], torch.Tensor.to

    def to(tensor, *arguments, **options):
        copies.append((tensor, options))
        return meta(tensor, "cpu")

    empty = torch.empty
    monkeypatch.setattr(batches.torch, "empty", lambda *shape, pin_memory, **options: empty(*shape, **options))
    monkeypatch.setattr(torch.Tensor, "to", to)
    arrays = [np.arange(5), np.array([1.5], np.float32), np.array([[True, False, True]]), np.arange(6).reshape(2, 3)]
    copied = batches._to_device(arrays, torch.device("cuda"))
    assert len(copies) == 1 and copies[0][1] == {"non_blocking": True}
    for array, tensor in zip(arrays, copied, strict=True):
        assert torch.equal(torch.from_numpy(array), tensor) and tensor.dtype == torch.from_numpy(array).dtype


def test_a_batch_costs_the_host_nothing_for_rows_that_are_not_in_it(examples):
    examples.batch(np.array([0]))
    begins = examples.start_N
    examples.batch(np.array([1, 2]))
    assert examples.start_N is begins and begins.tolist() == [0, *np.cumsum(examples.length_N)[:-1].tolist()]


def test_a_batch_tells_where_every_token_stands():
    examples = stack([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [2, 2, 1], {"label": np.array([5, 6, 7])}, ["a", "b", "c"])
    batch = examples.batch(np.array([2, 1]))
    assert batch.ids_P.tolist() == [2, 8, 9, 3, 2, 3] and batch.segments_P.tolist() == [0, 1, 1, 1, 0, 0]
    assert batch.positions_P.tolist() == [0, 1, 2, 3, 0, 1] and batch.row_P.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.grid(batch.ids_P, 0).tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert batch.first_B.tolist() == [0, 4] and batch.targets["label"].tolist() == [7, 6]
    assert examples.batch(np.array([0])).real_BT is None


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [5]])
def test_hidden_states_and_gradients_equal_the_padded_encoders(model, examples, rows):
    encoder = load_encoder(model, dropout=0.0)
    batch = examples.batch(np.array(rows))
    weights = torch.randn(len(batch.ids_P), 32, generator=torch.Generator().manual_seed(1))
    whole = encoder(*padded(batch)).flatten(0, 1)[batch.cell_P]
    (whole * weights).sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in encoder.named_parameters()}
    encoder.zero_grad()
    ours = hidden(encoder, batch)
    assert torch.allclose(ours, whole, atol=1e-5)
    (ours * weights).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-4), name
    assert torch.allclose(first_hidden(encoder, batch), whole[batch.first_B], atol=1e-5)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [5]])
def test_rows_of_their_own_see_what_the_grid_lets_them_see(model, examples, rows, monkeypatch):
    """Where the device has the operator, which is played here, neither a grid nor a mask is made."""
    encoder, batch = load_encoder(model, dropout=0.0), examples.batch(np.array(rows))
    weights = torch.randn(len(batch.ids_P), 32, generator=torch.Generator().manual_seed(1))
    found = []
    for usable in (False, True):
        monkeypatch.setattr(varlen, "usable", lambda device, size, usable=usable: usable)
        if usable:
            monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", by_rows)
            monkeypatch.setattr(unpadded, "_Spread", None)
        encoder.zero_grad()
        states, firsts = hidden(encoder, batch), first_hidden(encoder, batch)
        ((states * weights).sum() + (firsts * weights[: len(rows)]).sum()).backward()
        gradients = [each.grad for each in encoder.parameters() if each.grad is not None]
        found.append([states.detach(), firsts.detach(), *gradients])
    for grid, own in zip(*found, strict=True):
        assert torch.allclose(own, grid, atol=1e-4)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [5]])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_mean_and_maximum_are_over_a_rows_own_tokens(model, examples, rows, pooling):
    encoder = load_encoder(model, dropout=0.0)
    batch = examples.batch(np.array(rows))
    weights = torch.randn(len(rows), 32, generator=torch.Generator().manual_seed(1))
    ids, segments, lengths = padded(batch)
    whole = encoder(ids, segments, lengths)
    own = [row[:length] for row, length in zip(whole, lengths, strict=True)]
    wanted = torch.stack([row.mean(0) if pooling == "mean" else row.max(0).values for row in own])
    (wanted * weights).sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in encoder.named_parameters()}
    encoder.zero_grad()
    ours = pooled_hidden(encoder, batch, pooling)
    assert torch.allclose(ours, wanted, atol=1e-5)
    (ours * weights).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-4), name


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


@pytest.mark.parametrize("where", ["attention", "elsewhere"])
def test_dropout_disturbs_as_much_as_the_padded_encoders(model, examples, where):
    """Over many draws the hidden states have the same mean, to within its error, and the same variance."""
    encoder = load_encoder(model, dropout=0.3).train()
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
