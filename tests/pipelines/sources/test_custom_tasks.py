"""Custom tasks: every kind of file, and every way a row can be wrong."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from electra.config import build
from electra.errors import BadConfig, BadInput, SourceUnreachable
from electra.finetuning.tasks import find
from pipelines.sources import CustomTask, CustomTasks, custom_tasks
from pipelines.stages.tasks import gather
from pipelines.text.cleaning import Rejected

FILES = {"train": "t.tsv", "dev": "d.tsv"}


def task(**values: Any) -> CustomTask:
    return build(
        CustomTask,
        {**FILES, "a": "text", "label": "stars", "labels": ["bad", "good"], **values},
        "tasks.mine",
    )


TAGS = task(kind="tagging", a="words", label="tags", labels=["NP", "VP"])
NUMBERS = task(kind="regression", labels=[])


def read(
    path: Path, content: str | list[Any], settings: CustomTask, *, labelled: bool = True
) -> list[Any]:
    """The rows of a file with this content; of a list, as JSON lines."""
    lines = (
        content
        if isinstance(content, str)
        else "".join(json.dumps(record) + "\n" for record in content)
    )
    path.write_text(lines)
    return list(custom_tasks.read_rows(path, settings, "mine", labelled=labelled))


def labels_or_reasons(rows: list[Any]) -> list[Any]:
    return [row.reason if isinstance(row, Rejected) else row["label"] for row in rows]


def test_tsv_takes_quotes_as_text_and_columns_by_name(tmp_path: Path) -> None:
    assert read(
        tmp_path / "t.tsv", 'stars\tn\ttext\ngood\t7\tHe said "fine.\nbad\t8\t"\n', task(id="n")
    ) == [
        {"id": "7", "a": 'He said "fine.', "b": None, "label": "good"},
        {"id": "8", "a": '"', "b": None, "label": "bad"},
    ]


def test_jsonl_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    records = [{"text": "a b", "other": "c", "stars": 1}, {"text": "d", "other": "e", "stars": 0}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "t.parquet")
    settings = task(b="other", labels=["0", "1"])
    expected = [
        {"id": "0", "a": "a b", "b": "c", "label": "1"},
        {"id": "1", "a": "d", "b": "e", "label": "0"},
    ]
    assert read(tmp_path / "t.jsonl", records, settings) == expected
    assert (
        list(custom_tasks.read_rows(tmp_path / "t.parquet", settings, "mine", labelled=True))
        == expected
    )


def test_words_from_lists_from_tsv_and_from_conll_files(tmp_path: Path) -> None:
    row = {"id": "0", "words": ["the", "cat", "runs"], "tags": ["B-NP", "I-NP", "B-VP"]}
    assert read(tmp_path / "t.jsonl", [{"words": row["words"], "tags": row["tags"]}], TAGS) == [row]
    assert read(tmp_path / "t.tsv", "words\ttags\nthe cat runs\tB-NP I-NP B-VP\n", TAGS) == [row]
    text = (
        "-DOCSTART- -X- O\n\nthe DT B-NP\ncat NN I-NP\nruns VB B-VP\n-DOCSTART- O\ncat B-NP\n\n\n"
    )
    assert read(tmp_path / "t.conll", text, TAGS) == [
        row,
        {"id": "1", "words": ["cat"], "tags": ["B-NP"]},
    ]


def test_a_test_set_keeps_the_labels_that_fit_so_that_it_can_be_scored(tmp_path: Path) -> None:
    records = [{"text": "a", "stars": "good"}, {"text": "b", "stars": "?"}, {"text": "c"}]
    assert labels_or_reasons(read(tmp_path / "t.jsonl", records, task(), labelled=False)) == [
        "good",
        None,
        None,
    ]
    tagged = read(tmp_path / "w.conll", "the B-NP\n\ncat\n", TAGS, labelled=False)
    assert [row["tags"] for row in tagged] == [["B-NP"], None]


@pytest.mark.parametrize(("labels", "given", "expected"), [
    ([True, False], [True, "true", "False", False], ["true", "true", "false", "false"]),
    ([0, 1], [1, "0", 0.0, 1.0], ["1", "0", "0", "1"]),
    (["False", "True"], [True, False, "True"], ["True", "False", "True"]),
    ([0, 1], [True, 0.5], ["unknown label 'true', not one of 0, 1", "unknown label '0.5', not one of 0, 1"]),
])  # fmt: skip
def test_classes_may_be_numbers_and_booleans(
    tmp_path: Path, labels: list[Any], given: Any, expected: Any
) -> None:
    records = [{"text": "a", "stars": one} for one in given]
    assert labels_or_reasons(read(tmp_path / "t.jsonl", records, task(labels=labels))) == expected


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(("name", "settings", "content", "reason"), [
    ("t.tsv", task(), "stars\ttext\ngood\tx\ty\n", "3 columns instead of 2"),
    ("t.tsv", task(), "stars\ttext\ngood\n", "1 columns instead of 2"),
    ("t.tsv", task(), "stars\ttext\nfine\tx\n", "unknown label 'fine', not one of bad, good"),
    ("t.tsv", task(), "stars\ttext\ngood\t \n", "no text in 'text'"),
    ("t.jsonl", task(), '{"text": "a \\ud800", "stars": "good"}', "lone surrogate"),
    ("t.jsonl", task(), '{"text": "a", "stars": "\\udfff"}', "lone surrogate"),
    ("t.jsonl", task(), f'{{"text": {DEEP}, "stars": "good"}}', "no text in 'text'"),
    ("t.jsonl", task(), f'{{"text": "a", "stars": {DEEP}}}', "unknown label '[[[[["),
    ("t.jsonl", task(), "[" * 100_000, "not a JSON object"),
    ("t.jsonl", task(), '{"stars": "good"}', "no field 'text'"),
    ("n.tsv", NUMBERS, "stars\ttext\nnan\tb\n", "label 'nan' is no finite number"),
    ("n.tsv", NUMBERS, "stars\ttext\nhigh\tb\n", "label 'high' is no number"),
    ("n.jsonl", NUMBERS, '{"text": "a", "stars": 1' + "0" * 400 + "}", "label a whole number of 1,329 bits"),
    ("w.tsv", TAGS, "words\ttags\nthe cat\tB-NP\n", "has 1 tags for 2 words; expected a tag for each word"),
    ("t.tsv", task(id="id"), "id\tstars\ttext\n7\tgood\ta\n7\tbad\tb\n", "the id '7' of "),
])  # fmt: skip
def test_a_bad_row_is_rejected_with_its_line(
    tmp_path: Path, name: str, settings: CustomTask, content: str, reason: str
) -> None:
    *_, bad = read(tmp_path / name, content, settings)
    assert isinstance(bad, Rejected) and bad.reason.startswith(reason)
    assert bad.where == f"{tmp_path / name}:{content.count(chr(10)) or 1}"


def test_what_is_wrong_with_a_whole_file_is_one_sentence(tmp_path: Path) -> None:
    sentence = r"t\.tsv:1: has no column 'text' among 'stars', 'body'; set `a`"
    with pytest.raises(BadInput, match=sentence):
        read(tmp_path / "t.tsv", "stars\tbody\ngood\ta\n", task())
    with pytest.raises(SourceUnreachable, match="there is no such file"):
        list(custom_tasks.read_rows(tmp_path / "gone.parquet", task(), "mine", labelled=True))


@pytest.mark.parametrize(("values", "sentence"), [
    ({"labels": ["one"]}, r"tasks\.mine\.labels: should be 2 or more for classification"),
    ({"labels": [1, "1"]}, "should name each entry once"),
    ({"labels": [0.5, 1.5]}, r"labels\[0\]: is 0\.5, should be a valid string or"),
    ({"kind": "regression"}, "should not be set for regression"),
    ({"metric": "bleu"}, r"tasks\.mine\.metric: is 'bleu', should be one of accuracy, f1, macro_f1, matthews"),
    ({"kind": "tagging", "b": "x"}, r"tasks\.mine\.b: should not be set for tagging"),
])  # fmt: skip
def test_an_impossible_setting_is_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadConfig, match=sentence):
        task(**values)


def test_the_stage_leaves_rows_facts_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.tsv").write_text("stars\ttext\ngood\tA  cat\nbad\tb\n")
    (tmp_path / "d.tsv").write_text("stars\ttext\ngood\ta cat\nbad\tc\n")
    files = {split: str(tmp_path / name) for split, name in FILES.items()}
    counts = gather(
        CustomTasks(kind="own", tasks={"mine": task(**files)}), "tasks.own", tmp_path / "out"
    )
    assert counts["tasks"]["mine"]["dev"] == {"rows": 2, "quarantined": 0, "also_in_train": 1}
    assert (
        "warning: tasks.own: 1 of 2 rows of mine dev are training rows, too"
        in capsys.readouterr().err
    )
    facts = find(tmp_path / "out/mine", "mine")
    assert (
        facts.labels == ("bad", "good")
        and facts.metrics == ("accuracy",)
        and facts.columns == ("text",)
    )
    with pytest.raises(ValueError, match="is the name of an official task"):
        CustomTasks(kind="own", tasks={"cola": task()})


def test_a_column_or_a_key_that_is_there_twice_is_not_guessed(tmp_path: Path) -> None:
    settings = CustomTask(train="t.tsv", dev="d.tsv", a="text", labels=("good", "bad"))
    with pytest.raises(BadInput, match=r"t\.tsv:1: has the column 'label' twice"):
        read(tmp_path / "t.tsv", "text\tlabel\tlabel\nnice\tgood\tbad\n", settings)
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "first", "text": "second", "label": "good"}\n')
    (row,) = custom_tasks.read_rows(path, settings, "mine", labelled=True)
    assert isinstance(row, Rejected) and row.reason == "a key twice in one object"
