"""The nine tasks' official files as published, and every way a row or a header can be wrong."""

import os

import pytest

from electra.errors import BadInput, SourceUnreachable
from electra.finetuning.tasks import GLUE
from pipelines.sources.glue import LAYOUTS, find_official, hub_rows, read_tsv
from pipelines.text.cleaning import Rejected

PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
MNLI = f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1"
MNLI_ROW = "0\t-\t-\tsubset\t-\t-\t-\t-\tA dog.\tAn animal."
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
RTE = "index\tsentence1\tsentence2\tlabel"


def read(tmp_path, task, split, *lines):
    path = tmp_path / "dev.tsv"
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
    return list(read_tsv(path, task, split))


@pytest.mark.parametrize("task, split, lines, expected", [
    ("cola", "train", ["gj04\t1\t\tThe sailors rode.", "gj04\t0\t*\tSailors the rode."],
     [("0", "The sailors rode.", None, "1"), ("1", "Sailors the rode.", None, "0")]),
    ("cola", "test", ["index\tsentence", "0\tBill whistled."], [("0", "Bill whistled.", None, None)]),
    ("mrpc", "dev", ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r", '1\t7\t8\t" He said\tHe said .\r'],
     [("0", '" He said', "He said .", "1")]),
    ("mnli", "train", [f"{MNLI}\tgold_label", f"{MNLI_ROW}\tneutral\tentailment"],
     [("0", "A dog.", "An animal.", "entailment")]),
    ("mnli", "dev", [f"{MNLI}\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label", f"{MNLI_ROW}\ta\tb\tc\td\te\tneutral"],
     [("0", "A dog.", "An animal.", "neutral")]),
    ("stsb", "dev", [STSB, "0\tg\tf\ty\to\tn\tn\tA.\tB.\t3.800"], [("0", "A.", "B.", 3.8)]),
])  # fmt: skip
def test_official_files(tmp_path, task, split, lines, expected):
    assert [tuple(row.values()) for row in read(tmp_path, task, split, *lines)] == expected


@pytest.mark.parametrize("line, reason", [
    ("1\tA.\tB.", "3 columns instead of 4"),
    ("1\tA.\tB.\tneutral", "unknown label 'neutral', not one of entailment, not_entailment"),
    ("1\t \t\tentailment", "no text"),
    ("1\tA\udcff.\tB.\tentailment", "invalid UTF-8"),
    ("", "1 columns instead of 4"),
])  # fmt: skip
def test_a_bad_row_is_rejected_with_its_line(tmp_path, line, reason):
    rows = ("0\tA.\tB.\tentailment", line, "2\tC.\tD.\tnot_entailment")
    first, bad, last = read(tmp_path, "rte", "dev", RTE, *rows)
    assert isinstance(bad, Rejected)
    assert (bad.where, bad.reason) == (f"{tmp_path}/dev.tsv:3", reason)
    assert (first["id"], last["id"]) == ("0", "2")


def test_scores_are_numbers_from_0_to_5(tmp_path):
    rows = [f"0\tg\tf\ty\to\tn\tn\tA.\tB.\t{score}" for score in ("5.1", "high")]
    reasons = [row.reason for row in read(tmp_path, "stsb", "dev", STSB, *rows)]
    assert reasons == ["label '5.1' is not from 0 to 5", "label 'high' is not a number"]


@pytest.mark.parametrize("task", LAYOUTS)
def test_a_header_that_lacks_a_column_is_a_sentence(tmp_path, task):
    with pytest.raises(BadInput, match=r"dev\.tsv:1: has no column .*; the official"):
        read(tmp_path, task, "dev", "index\tphrase\tlabel", "0\tA.\t1")
    assert set(LAYOUTS[task].hub_labels) <= set(GLUE[task].labels)


def test_rows_of_the_hub():
    rows = [{"premise": "A.", "hypothesis": "B.", "label": label} for label in (0, 2, -1, 3)]
    rows.append({"premise": "A.", "hypothesis": None, "label": 0})
    *read, fourth, fifth = hub_rows(rows, "mnli", "glue/mnli/train")
    assert [row["label"] for row in read] == ["entailment", "contradiction", None]
    assert (fourth.where, fifth.where) == ("glue/mnli/train:3", "glue/mnli/train:4")
    (single,) = hub_rows([{"sentence": "Fine.", "label": 1}], "sst2", "x")
    assert single == {"id": "0", "a": "Fine.", "b": None, "label": "1"}
    (scored,) = hub_rows([{"sentence1": "a", "sentence2": "", "label": 4.25}], "stsb", "x")
    assert (scored["b"], scored["label"]) == ("", 4.25)


def test_splits_of_the_hub():
    assert list(LAYOUTS["mnli"].hub_places("mnli"))[1::4] == [
        ("dev", "mnli", "validation_matched"), ("test_diagnostic", "ax", "test"),
    ]  # fmt: skip


def test_a_link_to_nothing_and_a_pipe_are_not_taken_for_absent_files(tmp_path):
    folder = tmp_path / "CoLA"
    folder.mkdir()
    assert list(find_official(str(tmp_path), None)) == []
    (folder / "dev.tsv").symlink_to("nowhere")
    with pytest.raises(SourceUnreachable, match=r"dev\.tsv is a link to nothing"):
        list(find_official(str(tmp_path), None))
    os.mkfifo(folder / "train.tsv")
    with pytest.raises(BadInput, match=r"train\.tsv isn't a regular file"):
        list(find_official(str(tmp_path), None))
    with pytest.raises(BadInput, match=r"train\.tsv: isn't a regular file; name a file"):
        list(read_tsv(folder / "train.tsv", "cola", "train"))
    (tmp_path / "train-v2.0.parquet").symlink_to("nowhere")
    with pytest.raises(SourceUnreachable, match=r"v2\.0\.parquet is a link to nothing"):
        list(find_official(None, str(tmp_path)))


def test_a_bad_first_row_moves_no_index(tmp_path):
    bad, row = read(tmp_path, "cola", "dev", "gj04\t1\t\tA\udcff.", "gj04\t1\t\tB.")
    assert isinstance(bad, Rejected) and row["id"] == "1"
