"""Rows to arrays: their layout, cut texts, both orders."""

import numpy as np

from electra.finetuning.classification import Classification, encode
from electra.finetuning.predictions import fault
from electra.finetuning.reading import subset
from electra.finetuning.task_kind import Encoded
from electra.finetuning.tasks import GLUE, FinetuneConfig


def row(**values):
    return {"id": "7", "a": "the cat", "b": None, "label": "1", **values}


def test_layout_of_single_sentences_and_pairs(tokenizer):
    rows = [row(a="the cat", b="big dog runs"), row(id="8", a="fish", label="0")]
    examples = encode(rows, GLUE["mrpc"], tokenizer, 16)
    pieces = "[CLS] the cat [SEP] big dog runs [SEP] [CLS] fish [SEP]".split()
    assert [tokenizer.raw.id_to_token(int(piece)) for piece in examples.ids_S] == pieces
    assert examples.length_N.tolist() == [8, 3] and examples.targets["label"].tolist() == [1, 0]
    assert examples.second_N.tolist() == [4, 3]
    # scores are scaled as published
    assert encode([row(label=2.5)], GLUE["stsb"], tokenizer, 16).targets["label"].tolist() == [0.5]


def test_long_pairs_lose_single_pieces_of_the_longer_text(tokenizer):
    for a, b, cut_a, cut_b in (
        (3, 3, 3, 3),
        (8, 9, 4, 3),
        (9, 8, 4, 3),
        (2, 9, 2, 5),
        (9, 1, 6, 1),
    ):
        pair = row(a="cat " * a, b="dog " * b)
        examples = encode([pair], GLUE["mrpc"], tokenizer, 10)
        assert examples.second_N[0] == cut_a + 2
        assert examples.length_N[0] == cut_a + cut_b + 3
    assert encode([row(a="cat " * 9)], GLUE["cola"], tokenizer, 9).length_N[0] == 9


def test_pairs_are_trained_on_in_both_orders(tokenizer):
    rows = [row(b="big dog runs"), row(id="alone")]
    config = FinetuneConfig(both_orders=True)
    encoded = Classification(GLUE["mrpc"]).encode(rows, tokenizer, config)
    assert encoded.rows == rows
    assert encoded.examples.row_ids == ["7", "alone", "7-turned"]
    assert encoded.examples.second_N.tolist() == [4, 4, 5]


def test_a_subset_is_drawn_by_the_seed_and_keeps_the_order():
    rows = list(range(50))
    few = subset(rows, 10, 0)
    assert len(set(few)) == 10 and few == sorted(few) == subset(rows, 10, 0)
    assert few != subset(rows, 10, 1)
    assert subset(rows, None, 0) == subset(rows, 50, 0) == rows


def test_one_answer_to_every_row_is_a_fault_unless_there_is_one_label():
    rows = [row(label="0"), row(label="1")]
    assert fault(GLUE["cola"], rows, np.ones(2)) == "1 was predicted for every row"
    assert fault(GLUE["cola"], rows, np.arange(2.0)) is None
    assert fault(GLUE["cola"], rows[:1] * 2, np.ones(2)) is None
    outputs = {"logits": np.array([[1, 0], [0, np.nan]])}  # which counts as 0
    cola = Classification(GLUE["cola"])
    result = cola.score_split(outputs, Encoded(rows, None), None, labelled=True)
    assert result.fault == "0 was predicted for every row" and not result.finite
