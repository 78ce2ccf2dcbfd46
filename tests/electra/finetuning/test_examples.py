"""Rows to arrays: what is refused, what is cut, and an order of batches that hardly pads."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from electra.errors import BadInput
from electra.files import write_jsonl
from electra.finetuning.examples import (
    _cut,
    both_orders,
    encode,
    evaluation_order,
    read_rows,
    subset,
    training_order,
)
from electra.finetuning.tasks import GLUE


def row(**values) -> dict:
    return {"id": "7", "a": "the cat", "b": None, "label": "1", **values}


@pytest.mark.parametrize(
    ("task", "rows", "sentence"),
    [
        ("cola", [], "holds no rows"),
        ("cola", [row(), row(id="8", label="2")], r":2 \(id 8\): has the label '2'; expected one of 0, 1"),
        ("rte", [row(label="Entailment")], r"has the label 'Entailment'; expected one of entailment, not_entailment"),
        ("cola", [row(label=None)], r"has the label None"),
        ("stsb", [row(label=float("nan"))], r"has the score nan; expected a finite number"),
        ("stsb", [row(label="4.2")], r"has the score '4.2'"),
        ("stsb", [row(label=True)], r"has the score True"),
        ("cola", [row(), row()], r":2 \(id 7\): repeats the id of line 1"),
        ("cola", [row(a=None)], r"expected an object with text"),
        ("cola", [["a", "list"]], r"expected an object with text"),
        ("mrpc", [row(b=3)], r"has b 3; expected text or null"),
    ],
)
def test_a_bad_row_is_named_with_line_id_and_value(task, rows, sentence, tmp_path):
    path = tmp_path / "train.jsonl"
    if any("nan" in str(r) for r in rows):
        path.write_text('{"id": "7", "a": "x", "b": "y", "label": NaN}\n')
    else:
        write_jsonl(path, rows)
    with pytest.raises(BadInput, match=sentence) as caught:
        read_rows(path, GLUE[task])
    assert caught.value.exit_code == 65


def test_test_rows_need_no_label(tmp_path):
    write_jsonl(tmp_path / "test.jsonl", [row(label=None)])
    assert len(read_rows(tmp_path / "test.jsonl", GLUE["cola"], labelled=False)) == 1


def test_layout_of_single_sentences_and_pairs(tokenizer):
    rows = [row(a="the cat", b="a dog runs", label="1"), row(id="8", a="fish", label="0")]
    examples = encode(rows, GLUE["mrpc"], tokenizer, 16)
    the, cat, dog, runs, fish = (tokenizer.raw.token_to_id(word) for word in ("the", "cat", "dog", "runs", "fish"))
    a = tokenizer.raw.token_to_id("a")
    cls, sep, pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    assert examples.ids_NL.tolist() == [[cls, the, cat, sep, a, dog, runs, sep], [cls, fish, sep, *[pad] * 5]]
    assert examples.length_N.tolist() == [8, 3] and examples.targets["label"].tolist() == [1, 0]
    batch = examples.batch(np.array([0, 1]))
    assert batch.segments_BT.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [0] * 8]
    assert batch.lengths_B is not None and batch.lengths_B.tolist() == [8, 3]
    alone = examples.batch(np.array([1]))
    assert alone.lengths_B is None and alone.ids_BT.shape == (1, 3)


def test_scores_are_scaled_as_published(tokenizer):
    examples = encode([row(label=2.5)], GLUE["stsb"], tokenizer, 16)
    assert examples.targets["label"].tolist() == [0.5]


@pytest.mark.parametrize("sizes", list(itertools.product(range(0, 9, 2), range(0, 10, 3))))
@pytest.mark.parametrize("room", [3, 6, 7])
def test_cutting_takes_single_pieces_from_the_longer_side(sizes, room):
    a, b = list(range(sizes[0])), list(range(sizes[1]))
    slow_a, slow_b = a[:], b[:]
    while len(slow_a) + len(slow_b) > room:
        (slow_a if len(slow_a) > len(slow_b) else slow_b).pop()
    assert _cut(a, b, room) == (slow_a, slow_b)


def test_an_epoch_holds_each_row_once_in_an_order_of_its_seed():
    lengths = np.random.default_rng(0).integers(3, 60, 1000)
    epochs = list(itertools.islice(training_order(lengths, 32, 5, "x"), 64))
    for epoch in (epochs[:32], epochs[32:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(1000))
    again = list(itertools.islice(training_order(lengths, 32, 5, "x"), 64))
    assert all((one == two).all() for one, two in zip(epochs, again, strict=True))
    other = next(training_order(lengths, 32, 6, "x"))
    assert epochs[0].tolist() != other.tolist()
    assert {tuple(sorted(batch)) for batch in epochs[:32]} != {tuple(sorted(batch)) for batch in epochs[32:]}


@pytest.mark.parametrize(("mean", "rows"), [(11, 8551), (13, 3000), (40, 1000), (70, 2490)])
def test_hardly_any_padding_is_computed(mean, rows):
    """Lengths spread like those of real sentences (log-normal, the longest cut)."""
    lengths = np.clip(np.random.default_rng(1).lognormal(np.log(mean), 0.5, rows).astype(int), 4, 128)
    steps = -(-rows // 32)
    batches = list(itertools.islice(training_order(lengths, 32, 1, "x"), steps))
    computed = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert computed <= 1.10 * lengths.sum()
    held_out = list(evaluation_order(lengths, tokens=4096))
    assert sorted(np.concatenate(held_out).tolist()) == list(range(rows))
    assert sum(len(batch) * lengths[batch].max() for batch in held_out) <= 1.10 * lengths.sum()
    assert all(len(batch) == 1 or len(batch) * lengths[batch].max() <= 4096 for batch in held_out)


def test_both_orders_and_subsets():
    rows = [row(id=str(n), a=f"a{n}", b=f"b{n}") for n in range(50)]
    turned = both_orders(rows)
    assert len(turned) == 100 and (turned[50]["a"], turned[50]["b"]) == ("b0", "a0")
    assert len({r["id"] for r in turned}) == 100
    few = subset(rows, 10, 0)
    assert len(few) == 10 and few == subset(rows, 10, 0) and few == sorted(few, key=lambda r: int(r["id"]))
    assert subset(rows, None, 0) == subset(rows, 50, 0) == rows


REAL = Path("../shared/data/glue/CoLA/train.tsv")


@pytest.mark.skipif(not REAL.is_file(), reason="the folder of real task files is absent")
def test_hardly_any_padding_on_real_sentences(tokenizer):
    lengths = np.array([len(line.split("\t")[3].split()) + 2 for line in REAL.read_text(encoding="utf-8").splitlines()])
    batches = list(itertools.islice(training_order(lengths, 32, 1, "x"), -(-len(lengths) // 32)))
    assert sum(len(batch) * lengths[batch].max() for batch in batches) <= 1.10 * lengths.sum()
