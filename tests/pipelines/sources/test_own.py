"""Tasks of one's own: every kind of file, and every way a row can be wrong."""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from electra.config import build
from electra.data.text import Rejected
from electra.errors import BadConfig, BadInput, SourceUnreachable
from electra.finetuning.tasks import find
from pipelines.sources import OwnTask, OwnTasks, own
from pipelines.stages.tasks import gather

FILES = {"train": "t.tsv", "dev": "d.tsv"}


def task(**values) -> OwnTask:
    return build(OwnTask, {**FILES, "a": "text", "label": "stars", "labels": ["bad", "good"], **values}, "tasks.mine")


def read(path: Path, settings: OwnTask, *, labelled: bool = True) -> list:
    return list(own.read_rows(path, settings, "mine", labelled=labelled))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_tsv_takes_quotes_as_text_and_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'stars\tn\ttext\ngood\t7\tHe said "fine.\nbad\t8\t"\n')
    assert read(path, task(id="n")) == [
        {"id": "7", "a": 'He said "fine.', "b": None, "label": "good"},
        {"id": "8", "a": '"', "b": None, "label": "bad"},
    ]


def test_jsonl_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    records = [{"text": "a b", "other": "c", "stars": 1}, {"text": "d", "other": "e", "stars": 0}]
    lines = write(tmp_path / "t.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "t.parquet")
    settings = task(b="other", labels=["0", "1"])
    expected = [
        {"id": "0", "a": "a b", "b": "c", "label": "1"},
        {"id": "1", "a": "d", "b": "e", "label": "0"},
    ]
    assert read(lines, settings) == read(tmp_path / "t.parquet", settings) == expected


def test_a_test_set_keeps_the_labels_that_fit_so_that_it_can_be_scored(tmp_path: Path) -> None:
    lines = [{"text": "a", "stars": "good"}, {"text": "b", "stars": "?"}, {"text": "c"}]
    path = write(tmp_path / "t.jsonl", "".join(json.dumps(record) + "\n" for record in lines))
    assert [row["label"] for row in read(path, task(), labelled=False)] == ["good", None, None]
    tags = task(kind="tagging", a="words", label="tags", labels=["NP"])
    path = write(tmp_path / "w.conll", "the B-NP\n\ncat\n")
    assert [row["tags"] for row in read(path, tags, labelled=False)] == [["B-NP"], None]


def test_classes_may_be_numbers_and_booleans_in_settings_and_in_data(tmp_path: Path) -> None:
    for labels, given, expected in [
        ([True, False], [True, "true", "False", False], ["true", "true", "false", "false"]),
        ([0, 1], [1, "0", 0.0, 1.0], ["1", "0", "0", "1"]),
        (["False", "True"], [True, False, "True"], ["True", "False", "True"]),
    ]:
        path = write(tmp_path / "t.jsonl", "".join(json.dumps({"text": "a", "stars": one}) + "\n" for one in given))
        rows = read(path, task(labels=labels))
        assert [row["label"] if isinstance(row, dict) else row.reason for row in rows] == expected
    bad = write(tmp_path / "t.jsonl", '{"text": "a", "stars": true}\n{"text": "a", "stars": 0.5}\n')
    reasons = [row.reason for row in read(bad, task(labels=[0, 1]))]
    assert reasons == ["unknown label 'true', not one of 0, 1", "unknown label '0.5', not one of 0, 1"]
    with pytest.raises(BadConfig, match=r"labels\[0\]: is 0.5; expected text or a whole number or true or false"):
        task(labels=[0.5, 1.5])
    with pytest.raises(BadConfig, match="expected 2 or more, each once"):
        task(labels=[1, "1"])


def test_rows_that_no_file_can_hold_and_numbers_beyond_all_bounds_are_rejected(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    lines = [
        '{"text": "a \\ud800", "stars": "good"}',
        '{"text": "a", "stars": "\\udfff"}',
        f'{{"text": {deep}, "stars": "good"}}',
        f'{{"text": "a", "stars": {deep}}}',
        "[" * 100_000,
    ]
    rows = read(write(tmp_path / "t.jsonl", "\n".join(lines) + "\n\n"), task())
    reasons = ["lone surrogate", "lone surrogate", "no text in 'text'", "unknown label '[[[[[", "not a JSON object"]
    assert [row.reason[:20] for row in rows] == reasons
    numbers = task(kind="regression", labels=[])
    (huge,) = read(write(tmp_path / "n.jsonl", '{"text": "a", "stars": 1' + "0" * 400 + "}"), numbers)
    assert huge.reason.startswith("label a whole number of 1,329 bits") and huge.reason.endswith("is no number")


def test_a_line_between_documents_is_no_sentence(tmp_path: Path) -> None:
    settings = task(kind="tagging", a="words", label="tags", labels=["NP"])
    path = write(tmp_path / "t.conll", "-DOCSTART- -X- -X- O\n\nthe B-NP\n-DOCSTART- O\ncat B-NP\n")
    assert [row["words"] for row in read(path, settings)] == [["the"], ["cat"]]


def test_words_from_lists_from_tsv_and_from_conll_files(tmp_path: Path) -> None:
    settings = task(kind="tagging", a="words", label="tags", labels=["NP", "VP"])
    expected = [{"id": "0", "words": ["the", "cat", "runs"], "tags": ["B-NP", "I-NP", "B-VP"]}]
    record = {"words": expected[0]["words"], "tags": expected[0]["tags"]}
    assert read(write(tmp_path / "t.jsonl", json.dumps(record)), settings) == expected
    assert read(write(tmp_path / "t.tsv", "words\ttags\nthe cat runs\tB-NP I-NP B-VP\n"), settings) == expected
    text = "the DT B-NP\ncat NN I-NP\nruns VB B-VP\n\n\n"
    assert read(write(tmp_path / "t.conll", text), settings) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("good\tx\ty", "3 columns instead of 2"),
        ("good", "1 columns instead of 2"),
        ("fine\tx", "unknown label 'fine', not one of bad, good"),
        ("good\t ", "no text in 'text'"),
    ],
)
def test_a_bad_row_is_rejected_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path / "t.tsv", f"stars\ttext\ngood\ta\n{line}\nbad\tb\n")
    first, bad, last = read(path, task())
    assert isinstance(bad, Rejected) and (bad.where, bad.reason) == (f"{path}:3", reason)
    assert (first["id"], last["id"]) == ("0", "2")


def test_scores_ids_and_tags_are_checked(tmp_path: Path) -> None:
    numbers = task(kind="regression", labels=[])
    rows = read(write(tmp_path / "n.tsv", "stars\ttext\n1.5\ta\nnan\tb\nhigh\tc\n"), numbers)
    assert [row["label"] if isinstance(row, dict) else row.reason for row in rows] == [
        1.5, "label 'nan' is no finite number", "label 'high' is no number",
    ]  # fmt: skip
    twice = read(write(tmp_path / "t.tsv", "id\tstars\ttext\n7\tgood\ta\n7\tbad\tb\n"), task(id="id"))
    assert isinstance(twice[1], Rejected) and twice[1].reason == f"the id '7' of {tmp_path / 't.tsv'}:2 again"
    tags = task(kind="tagging", a="words", label="tags", labels=["NP"])
    (bad,) = read(write(tmp_path / "w.tsv", "words\ttags\nthe cat\tB-NP\n"), tags)
    assert isinstance(bad, Rejected) and bad.reason == "has 1 tags for 2 words; expected a tag for each word"


def test_what_is_wrong_with_a_whole_file_or_a_setting_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"t\.tsv:1: has no column 'text' among 'stars', 'body'; expected .* params.yaml"
    ):
        read(write(tmp_path / "t.tsv", "stars\tbody\ngood\ta\n"), task())
    with pytest.raises(SourceUnreachable, match="there is no such file"):
        read(tmp_path / "gone.parquet", task())
    for values, sentence in [
        ({"labels": ["one"]}, r"tasks\.mine\.labels: is \['one'\]; expected 2 or more"),
        ({"kind": "regression"}, r"expected none for regression"),
        ({"metric": "bleu"}, r"tasks\.mine\.metric: is 'bleu'; expected one of accuracy, f1, macro_f1, matthews"),
        ({"kind": "tagging", "b": "x"}, r"tasks\.mine\.b: is 'x'; expected null for tagging"),
    ]:
        with pytest.raises(BadConfig, match=sentence):
            task(**values)
    with pytest.raises(BadConfig, match="that no official task has"):
        OwnTasks(kind="own", tasks={"cola": task()})


def test_the_stage_leaves_rows_facts_and_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "t.tsv", "stars\ttext\ngood\tA  cat\nbad\tb\n")
    write(tmp_path / "d.tsv", "stars\ttext\ngood\ta cat\nbad\tc\n")
    files = {split: str(tmp_path / name) for split, name in FILES.items()}
    counts = gather(OwnTasks(kind="own", tasks={"mine": task(**files)}), "tasks.own", tmp_path / "out")
    assert counts["tasks"]["mine"]["dev"] == {"rows": 2, "quarantined": 0, "also_in_train": 1}
    assert "warning: tasks.own: 1 of 2 rows of mine dev are training rows, too" in capsys.readouterr().err
    facts = find(tmp_path / "out/mine", "mine")
    assert facts.labels == ("bad", "good") and facts.metrics == ("accuracy",) and facts.columns == ("text",)
