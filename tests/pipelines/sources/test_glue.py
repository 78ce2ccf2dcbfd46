"""The nine tasks' official files as published, and every way a row or a header can be wrong."""

from pathlib import Path

import pytest

from electra.data.text import Rejected
from electra.errors import BadInput
from electra.finetuning.tasks import GLUE
from pipelines.sources import glue
from pipelines.sources.glue import LAYOUTS, hub_rows, read_tsv


def write(tmp_path: Path, *lines: str, name: str = "dev.tsv") -> Path:
    path = tmp_path / name
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
    return path


def test_cola_has_no_header_but_in_test(tmp_path: Path) -> None:
    path = write(tmp_path, "gj04\t1\t\tThe sailors rode.", "gj04\t0\t*\tSailors the rode.")
    assert list(read_tsv(path, "cola", "train")) == [
        {"id": "0", "a": "The sailors rode.", "b": None, "label": "1"},
        {"id": "1", "a": "Sailors the rode.", "b": None, "label": "0"},
    ]
    path = write(tmp_path, "index\tsentence", "0\tBill whistled.")
    assert list(read_tsv(path, "cola", "test")) == [{"id": "0", "a": "Bill whistled.", "b": None, "label": None}]


def test_byte_order_mark_quotes_and_carriage_returns(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r", '1\t7\t8\t" He said\tHe said .\r')
    assert list(read_tsv(path, "mrpc", "dev")) == [{"id": "0", "a": '" He said', "b": "He said .", "label": "1"}]


def test_mnli_columns_differ_between_train_and_dev(tmp_path: Path) -> None:
    parses = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    head = f"index\tpromptID\tpairID\tgenre\t{parses}\tsentence1\tsentence2\t"
    row = "0\t-\t-\tsubset\t-\t-\t-\t-\tA dog.\tAn animal.\t"
    train = write(tmp_path, head + "label1\tgold_label", row + "neutral\tentailment")
    dev = write(
        tmp_path,
        head + "label1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        row + "a\tb\tc\td\te\tneutral",
        name="d.tsv",
    )
    assert [row["label"] for row in read_tsv(train, "mnli", "train")] == ["entailment"]
    assert list(read_tsv(dev, "mnli", "dev")) == [{"id": "0", "a": "A dog.", "b": "An animal.", "label": "neutral"}]


def test_scores_are_numbers(tmp_path: Path) -> None:
    head = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    rows = [f"{i}\tg\tf\ty\to\tn\tn\tA.\tB.\t{score}" for i, score in enumerate(("3.800", "nan", "5.1", "high", "0"))]
    read = list(read_tsv(write(tmp_path, head, *rows), "stsb", "dev"))
    assert [row["label"] if isinstance(row, dict) else row.reason for row in read] == [
        3.8, "label 'nan' is no finite number", "label '5.1' is not from 0 to 5", "label 'high' is no number", 0.0,
    ]  # fmt: skip
    assert [row["id"] for row in read if isinstance(row, dict)] == ["0", "4"]


@pytest.mark.parametrize(("line", "reason"), [
    ("1\tA.\tB.", "3 columns instead of 4"),
    ("1\tA.\tB.\tentailment\textra", "5 columns instead of 4"),
    ("1\tA.\tB.\tneutral", "unknown label 'neutral', not one of entailment, not_entailment"),
    ("1\tA.\tB.\t", "unknown label '', not one of entailment, not_entailment"),
    ("1\t \t\tentailment", "no text"),
    ("1\tA\udcff.\tB.\tentailment", "invalid UTF-8"),
    ("", "1 columns instead of 4"),
])  # fmt: skip
def test_a_bad_row_is_rejected_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    path = write(
        tmp_path, "index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\tentailment", line, "2\tC.\tD.\tnot_entailment"
    )
    first, bad, last = read_tsv(path, "rte", "dev")
    assert isinstance(bad, Rejected) and (bad.where, bad.reason) == (f"{path}:3", reason)
    assert isinstance(first, dict) and isinstance(last, dict) and last["id"] == "2"


@pytest.mark.parametrize("task", LAYOUTS)
def test_a_header_that_lacks_a_column_is_a_sentence(tmp_path: Path, task: str) -> None:
    path = write(tmp_path, "index\tphrase\tlabel", "0\tA.\t1")
    with pytest.raises(BadInput, match=r"dev\.tsv:1: has no column .*; expected the official"):
        list(read_tsv(path, task, "dev"))


def test_layouts_cover_the_tasks_and_their_labels() -> None:
    assert set(LAYOUTS) == set(GLUE)
    for name, layout in LAYOUTS.items():
        assert set(layout.files) == set(layout.hub_splits)
        assert set(layout.hub_labels) in (set(), set(GLUE[name].labels))


def test_rows_of_the_hub() -> None:
    rows = [
        {"premise": "A dog.", "hypothesis": "An animal.", "label": 0, "idx": 0},
        {"premise": "A dog.", "hypothesis": "A cat.", "label": 2, "idx": 1},
        {"premise": "A dog.", "hypothesis": "A cat.", "label": -1, "idx": 2},
        {"premise": "A dog.", "hypothesis": None, "label": 1, "idx": 3},
        {"premise": "A dog.", "hypothesis": "A cat.", "label": 3, "idx": 4},
    ]
    read = list(hub_rows(rows, "mnli", "glue/mnli/train"))
    assert [row["label"] if isinstance(row, dict) else row.where for row in read] == [
        "entailment", "contradiction", None, "glue/mnli/train:3", "glue/mnli/train:4",
    ]  # fmt: skip
    assert list(hub_rows([{"sentence": "Fine.", "label": 1}], "sst2", "x")) == [
        {"id": "0", "a": "Fine.", "b": None, "label": "1"}
    ]
    (scored,) = hub_rows([{"sentence1": "a", "sentence2": "b", "label": 4.25}], "stsb", "x")
    assert isinstance(scored, dict) and scored["label"] == 4.25
    assert glue.make_row(GLUE["qqp"], "0", "a", "", "1", "x") == {"id": "0", "a": "a", "b": "", "label": "1"}
