"""Rows end to end: the order of training, and parts of a batch."""

import itertools

import numpy as np
import pytest
import torch

from electra.finetuning import batches
from electra.finetuning.batches import parts, stack, training_order
from electra.finetuning.classification import encode
from electra.finetuning.tasks import GLUE

from .conftest import glue_rows

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


def test_a_batch_tells_where_every_token_stands():
    examples = stack([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [2, 2, 1], {"label": np.array([5, 6, 7])}, ["a", "b", "c"])
    batch = examples.batch(np.array([2, 1]))
    assert batch.ids_P.tolist() == [2, 8, 9, 3, 2, 3] and batch.segments_P.tolist() == [0, 1, 1, 1, 0, 0]
    assert batch.positions_P.tolist() == [0, 1, 2, 3, 0, 1] and batch.row_P.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.grid(batch.ids_P, 0).tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert batch.first_B.tolist() == [0, 4] and batch.targets["label"].tolist() == [7, 6]
    assert examples.batch(np.array([0])).real_BT is None
