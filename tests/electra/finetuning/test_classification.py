"""Rows to arrays: what is refused, what is cut."""

import pytest

from electra.errors import BadInput
from electra.files import write_jsonl
from electra.finetuning.classification import _cut, both_orders, encode
from electra.finetuning.reading import read_rows, subset
from electra.finetuning.tasks import GLUE


def row(**values) -> dict:
    return {"id": "7", "a": "the cat", "b": None, "label": "1", **values}


@pytest.mark.parametrize(
    ("task", "rows", "sentence"),
    [
        ("cola", [], "holds no rows"),
        (
            "cola",
            [row(), row(id="8", label="2")],
            r":2 \(id 8\): has the label '2'; expected one of 0, 1",
        ),
        (
            "rte",
            [row(label="Entailment")],
            r"has the label 'Entailment'; expected one of entailment, not_entailment",
        ),
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
    the, cat, dog, runs, fish = (
        tokenizer.raw.token_to_id(word) for word in ("the", "cat", "dog", "runs", "fish")
    )
    a = tokenizer.raw.token_to_id("a")
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    assert examples.ids_S.tolist() == [cls, the, cat, sep, a, dog, runs, sep, cls, fish, sep]
    assert examples.length_N.tolist() == [8, 3] and examples.targets["label"].tolist() == [1, 0]
    assert examples.second_N.tolist() == [4, 3]


def test_scores_are_scaled_as_published(tokenizer):
    examples = encode([row(label=2.5)], GLUE["stsb"], tokenizer, 16)
    assert examples.targets["label"].tolist() == [0.5]


@pytest.mark.parametrize(
    "sizes", [(3, 3, 3, 3), (8, 9, 4, 3), (9, 8, 4, 3), (2, 9, 2, 5), (9, 1, 6, 1), (9, 0, 7, 0)]
)
def test_cutting_takes_single_pieces_from_the_longer_side(sizes):
    a, b, cut_a, cut_b = (list(range(size)) for size in sizes)
    assert _cut(a, b, 7) == (cut_a, cut_b) and (len(a), len(b)) == sizes[:2]


def test_both_orders_and_subsets():
    rows = [row(id=str(n), a=f"a{n}", b=f"b{n}") for n in range(50)]
    turned = both_orders(rows)
    assert len(turned) == 100 and (turned[50]["a"], turned[50]["b"]) == ("b0", "a0")
    assert len({r["id"] for r in turned}) == 100
    few = subset(rows, 10, 0)
    assert (
        len(few) == 10
        and few == subset(rows, 10, 0)
        and few == sorted(few, key=lambda r: int(r["id"]))
    )
    assert subset(rows, None, 0) == subset(rows, 50, 0) == rows
