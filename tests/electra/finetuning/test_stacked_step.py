"""Recorded updates of fine-tuning: what plain ones do, on a few shapes at fixed places."""

import dataclasses

import numpy as np
import pytest
import torch

from electra.finetuning import stacked, stacked_step, training
from electra.finetuning.classification import encode
from electra.finetuning.runs import solve
from electra.finetuning.stacked import train_together
from electra.finetuning.tasks import GLUE
from tests.electra.helpers import Failing, Rerun

from .conftest import glue_rows
from .test_stacked import SEEDS, case


@pytest.fixture
def small_shapes(monkeypatch):
    for name, value in {"GRAIN": 128, "COLUMNS": 16, "OFTEN": 1}.items():
        monkeypatch.setattr(stacked_step, name, value)


def trained(kind, model, tokenizer, record, monkeypatch, room=2**17):
    networks, rows, config = case(kind, model, tokenizer)
    monkeypatch.setattr(stacked, "recorder", lambda place: record)
    monkeypatch.setitem(training.ROOM, "cpu", room)
    found = train_together(networks, rows, dataclasses.replace(config, epochs=4), seeds=SEEDS, stream="t")
    return networks, found


@pytest.mark.parametrize("room", [2**17, 1])  # 1: parts of at most 256 tokens
@pytest.mark.parametrize("kind", ["mnli", "mnli-max", "stsb-mean", "tags", "squad"])
def test_recorded_updates_do_what_plain_ones_do(kind, room, model, tokenizer, monkeypatch, small_shapes):
    """Filler evens out the shapes and counts for nothing: weights within 2e-5, losses within 1e-4, as in a stack."""
    record = Rerun()
    (ours, found), (theirs, expected) = (trained(kind, model, tokenizer, r, monkeypatch, room) for r in (record, None))
    assert 2 <= len(record.recorded) <= 10
    for one, other in zip(ours, theirs, strict=True):
        for (name, given), (_, plain) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            assert torch.allclose(given, plain, atol=2e-5), name
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one.curve, other.curve, rtol=1e-4)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_update_that_cannot_be_recorded_is_done_unrecorded_with_a_warning(
    number, model, tokenizer, monkeypatch, small_shapes, capsys
):
    (_, found), (_, expected) = (trained("mnli", model, tokenizer, r, monkeypatch, 1) for r in (Failing(number), None))
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one.curve, other.curve, rtol=1e-4)
    assert capsys.readouterr().err.count("warning: the step could not be recorded") == 1


def test_batches_of_one_shape_lie_at_one_place(tokenizer):
    rows = encode(glue_rows("mnli", 200, 1), GLUE["mnli"], tokenizer, 40)
    length = int(np.median(rows.length_N))
    first, second = np.flatnonzero(rows.length_N == length)[:4].reshape(2, 2)
    places = {}
    one = rows.batch(first, longest=48, places=places)
    assert one.longest == 48 and one.real_BT.shape == (2, 48) and one.real_BT.sum() == len(one.ids_P)
    before = one.ids_P.clone()
    other = rows.batch(second, longest=48, places=places)
    assert len(places) == 1 and one.ids_P.data_ptr() == other.ids_P.data_ptr()
    assert torch.equal(one.ids_P, rows.batch(second).ids_P) and not torch.equal(one.ids_P, before)
    assert one.ends.tolist() == [0, length, 2 * length] and one.ends.dtype == torch.int32


def test_on_a_gpu_a_single_seed_is_a_stack_of_one(monkeypatch):
    @dataclasses.dataclass
    class Job:
        device: str = "cuda"

    monkeypatch.setattr(solve, "solve_together", lambda jobs: [len(jobs)])
    assert solve.solve(Job()) == 1
