"""Custom tasks: every kind of file, and every way a row can be wrong."""

import json

import pyarrow
import pytest

from electra.config import build
from electra.errors import BadConfig, BadInput
from electra.finetuning.tasks import find
from pipelines.sources import CustomTask, CustomTasks, custom_tasks
from pipelines.sources.streams import Skipped
from pipelines.stages.tasks import gather
from pipelines.text.cleaning import Rejected
from tests.support.bad_input import parquet

FILES = {"train": "t.tsv", "dev": "d.tsv"}


def task(**values):
    usual = {**FILES, "a": "text", "label": "stars", "labels": ["bad", "good"]}
    return build(CustomTask, {**usual, **values}, "tasks.mine")


NUMBERS = task(kind="regression", labels=[])
# by the first letter of a file's name
SETTINGS = {
    "t": task(),
    "w": task(kind="tagging", a="words", label="tags", labels=["NP", "VP"]),
    "n": NUMBERS,
    "b": task(labels=[0, 1]),
    "i": task(id="id"),
}


def read(path, content, settings=None, *, labelled=True, **features):
    """Return the rows of a file with this content; of a list, as JSON lines or parquet."""
    if path.suffix == ".parquet":
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        table = pyarrow.Table.from_pylist(content)
        path.write_bytes(parquet(table.replace_schema_metadata(metadata)))
    else:
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content)
        path.write_text(content, errors="surrogateescape", newline="")
    settings = settings or SETTINGS[path.name[0]]
    return list(custom_tasks.read_rows(path, settings, "mine", labelled=labelled))


def results(rows):
    """Return the text and label of each row, or why there is none."""
    return [
        (row["a"], row["label"]) if isinstance(row, dict) else getattr(row, "reason", row)
        for row in rows
    ]


@pytest.mark.parametrize("name, content, texts", [
    ("t.tsv", 'stars\ttext\ngood\tHe said "fine.\nbad\t"\n', ['He said "fine.', '"']),
    ("t.csv", 'stars,text\ngood,"He said ""fine,\r\ntoo"""\nbad,x\n', ['He said "fine,\ntoo"', "x"]),
    ("t.csv", "n;text;stars\n1;a, b;good\n2;c;bad\n", ["a, b", "c"]),
    ("t.csv", 'text\tstars\n"a\tb"\tgood\nc\tbad\n', ["a\tb", "c"]),
    ("t.txt", "text|stars\na, b|good\n\nc|bad\n", ["a, b", "c"]),
    ("t.csv", "\ufefftext,stars\r\na,good\r\nc,bad\r\n", ["a", "c"]),
    ("t.json", '[{"text": "a", "stars": "good"},\n {"text": "c", "stars": "bad"}]', ["a", "c"]),
])  # fmt: skip
def test_a_dialect_is_recognised(tmp_path, name, content, texts):
    assert results(read(tmp_path / name, content)) == list(zip(texts, ["good", "bad"], strict=True))


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_pairs_and_numbers_of_rows(tmp_path, name):
    records = [
        {"text": " a b\n", "other": "c", "stars": 1},
        {"text": "d", "other": "e", "stars": 0},
    ]
    rows = read(tmp_path / name, records, task(b="other", labels=["0", "1"]))
    assert [tuple(row.values()) for row in rows] == [("0", "a b", "c", "1"), ("1", "d", "e", "0")]


@pytest.mark.parametrize("name, content", [
    ("w.jsonl", '{"words": ["the", "cat", "runs"], "tags": ["B-NP", "I-NP", "B-VP"]}\n{"words": ["New\u00a0York"], "tags": ["B-NP"]}'),
    ("w.tsv", "words\ttags\nthe cat runs\tB-NP I-NP B-VP\nNew\u00a0York\tB-NP\n"),
    ("w.conll", "-DOCSTART- -X- O\n\nthe DT B-NP\ncat NN I-NP\nruns VB B-VP\n-DOCSTART- O\nNew\u00a0York B-NP\n\n\n"),
    ("w.iob2", "the\tB-NP\ncat\tI-NP \nruns\tB-VP\n\nNew\u00a0York\tB-NP\n"),
    ("w.txt", "# id 7 domain=en\nthe _ _ B-NP\ncat _ _ I-NP\nruns _ _ B-VP\n\n# id 8\nNew\u00a0York _ _ B-NP\n"),
    ("w.tsv", "## 7\tthe cat\nthe\tB-NP\ncat\tI-NP\nruns\tB-VP\n\n## 8\nNew\u00a0York\tB-NP\n"),
])  # fmt: skip
def test_words_and_tags_of_every_format(tmp_path, name, content):
    assert read(tmp_path / name, content) == [
        {"id": "0", "words": ["the", "cat", "runs"], "tags": ["B-NP", "I-NP", "B-VP"]},
        {"id": "1", "words": ["New\u00a0York"], "tags": ["B-NP"]},
    ]


TAG = {"_type": "ClassLabel", "names": ["O", "B-NP", "I-NP"]}


@pytest.mark.parametrize("feature", [{"_type": "Sequence", "feature": TAG}, [TAG]])
def test_numbers_of_tags_take_their_names_from_the_features(tmp_path, feature):
    records = [{"words": ["the", "cat", "."], "tags": [1, 2, 0]}]
    (row,) = read(tmp_path / "w.parquet", records, tags=feature)
    assert row["tags"] == ["B-NP", "I-NP", "O"]
    (row,) = read(tmp_path / "w.jsonl", records)
    assert row.reason.startswith("tags that are numbers, [1, 2, 0]: write their names")


@pytest.mark.parametrize("name, labels", [
    ("t.parquet", ["good", "bad", None]),
    ("b.parquet", ["1", "0", None]),  # a task that names the numbers
    ("n.parquet", [1.0, 0.0, None]),  # one that asks for numbers
])  # fmt: skip
def test_numbers_of_classes_take_their_names_from_the_features(tmp_path, name, labels):
    records = [{"text": "a", "stars": number} for number in (1, 0, None)]
    stars = {"_type": "ClassLabel", "names": ["bad", "good"]}
    rows = read(tmp_path / name, records, labelled=False, stars=stars)
    assert [row["label"] for row in rows] == labels


def test_a_test_set_keeps_the_labels_that_fit_so_that_it_can_be_scored(tmp_path):
    records = [{"text": "a", "stars": "good"}, {"text": "b", "stars": "?"}, {"text": "c"}]
    rows = read(tmp_path / "t.jsonl", records, labelled=False)
    assert results(rows) == [("a", "good"), ("b", None), ("c", None)]
    tagged = read(tmp_path / "w.conll", "1 CD B-NP\n\ncat\n", labelled=False)
    assert [row["tags"] for row in tagged] == [["B-NP"], None]


@pytest.mark.parametrize("labels, given, expected", [
    ([True, False], True, "true"),
    ([True, False], "False", "false"),
    (["-", "+"], "-", "-"),
    (["a", "b"], "\xa0b ", "b"),
    ([-1, 1], -1, "-1"),
])  # fmt: skip
def test_classes_may_be_numbers_booleans_and_signs(tmp_path, labels, given, expected):
    rows = read(tmp_path / "t.jsonl", [{"text": "a", "stars": given}], task(labels=labels))
    assert results(rows) == [("a", expected)]


def test_a_row_without_a_label_is_skipped(tmp_path):
    records = [{"text": "a", "stars": label} for label in (None, "", "-", -1, float("nan"))]
    path = tmp_path / "t.jsonl"
    assert read(path, [*records, {"text": "a key left out"}]) == [Skipped("no_label")] * 6
    assert read(path, records[:1], NUMBERS) == [Skipped("no_label")]
    assert results(read(path, [{"text": "a", "stars": -1}], NUMBERS)) == [("a", -1.0)]


def test_a_second_text_is_not_lost_in_silence(tmp_path, capsys):
    row = {"premise": "x", "hypothesis": "y", "stars": "good"}
    read(tmp_path / "t.jsonl", [row], task(a="premise"))
    assert "hypothesis next to premise is not read; set `b:" in capsys.readouterr().err
    read(tmp_path / "t.jsonl", [row], task(a="premise", b="hypothesis"))
    assert capsys.readouterr().err == ""


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize("name, content, reason", [
    ("t.tsv", "stars\ttext\ngood\tx\ty\n", "3 columns instead of 2"),
    ("t.csv", 'stars,text\ngood,x"y"\ngood,"x"y\n', "not CSV ("),
    ("t.tsv", "stars\ttext\nfine\tx\n", "unknown label 'fine', not one of bad, good"),
    ("t.tsv", "stars\ttext\ngood\t \n", "no text in 'text'"),
    ("t.jsonl", '{"text": "a \\ud800", "stars": "good"}', "lone surrogate"),
    ("t.jsonl", f'{{"text": "a", "stars": {DEEP}}}', "several labels, [[[[["),
    ("b.jsonl", '{"text": "a", "stars": true}', "unknown label 'true', not one of 0, 1"),
    ("t.jsonl", '{"stars": "good"}', "no field 'text'"),
    ("t.jsonl", '{"text": "first", "text": "second", "stars": "good"}', "a key twice in one object"),
    ("n.tsv", "stars\ttext\nhigh\tb\n", "label 'high' is not a number"),
    ("w.tsv", "words\ttags\nthe cat\tB-NP\n", "has 1 tags for 2 words; expected a tag for each word"),
    ("w.conll", "\u00a0\tB-NP", "is {"),
    ("w.conll", "the B-NP\rcat I-NP\r\ra B-NP", "a carriage return within a line"),
    ("i.tsv", "id\tstars\ttext\n7\tgood\ta\n7\tbad\tb\n", "the id '7' of "),
])  # fmt: skip
def test_a_bad_row_is_rejected_with_its_line(tmp_path, name, content, reason):
    *_, bad = read(tmp_path / name, content)
    assert isinstance(bad, Rejected) and bad.reason.startswith(reason)
    assert bad.where == f"{tmp_path / name}:{content.count(chr(10)) or 1}"


@pytest.mark.parametrize("name, content, line, kept", [
    ("t.csv", 'stars,text\ngood,"a\n\udcff\nb"\nbad,c\n', 3, ["c"]),
    ("t.csv", 'stars,text\ngood,"a \udcff\nbad,b"\nbad,c\n', 2, ["c"]),
    ("t.json", '[{"text": "a", "stars": "good"},\n{"text": "\udcff"},\n{"text": "c", "stars": "bad"}]', 2, ["a", "c"]),
    ("w.conll", "the B-NP\nc\udcffat I-NP\nruns B-VP\n\na B-NP\n", 2, [["a"]]),
])  # fmt: skip
def test_a_line_that_is_not_utf8_costs_its_row_alone(tmp_path, name, content, line, kept):
    bad, *rows = read(tmp_path / name, content)
    assert (bad.where, bad.reason) == (f"{tmp_path / name}:{line}", "invalid UTF-8")
    assert [row.get("a") or row["words"] for row in rows] == kept


@pytest.mark.parametrize(
    "features", ["[]", '"x"', '{"info": null}', '{"info": {"features": {"stars": null}}}', "[" * 100_000]
)  # fmt: skip
def test_features_in_another_layout_are_one_sentence(tmp_path, features):
    table = pyarrow.table({"text": ["a"]}).replace_schema_metadata({"huggingface": features})
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet(table))
    with pytest.raises(BadInput, match=r"t\.parquet: cannot be read"):
        list(custom_tasks.records(path))


@pytest.mark.parametrize("name, content, sentence", [
    ("t.tsv", "stars\tbody\ngood\ta\n", r"t\.tsv:1: has no column 'text' among 'stars', 'body'; set `a`"),
    ("t.tsv", "text\tstars\tstars\nnice\tgood\tbad\n", r"t\.tsv:1: has the column 'stars' twice"),
    ("t.csv", 'text,stars\n"nice,good\nb,bad\n', r"t\.csv:2: opens a quote that is never closed"),
    ("w.conll", "1\tthe\tB-NP\n2\tcat\tO\n\n", r"w\.conll:1: its first column numbers the words"),
    ("i.conll", "the B-NP\n", r"i\.conll: has no column 'id' among 'text', 'stars'"),
])  # fmt: skip
def test_what_is_wrong_with_a_whole_file_is_one_sentence(tmp_path, name, content, sentence):
    with pytest.raises(BadInput, match=sentence):
        read(tmp_path / name, content)


@pytest.mark.parametrize("line", ["a, " * 100_000, 'a\r"b, c', "x" * 200_000])
def test_a_line_that_is_no_header_has_no_cells(line):
    assert custom_tasks.split_header(line, "a.txt", ["text"]) == line.split("\t")


@pytest.mark.parametrize("values, sentence", [
    ({"labels": ["one"]}, r"tasks\.mine\.labels: should be 2 or more for classification"),
    ({"labels": [1, "1"]}, "should name each entry once"),
    ({"labels": [0.5, 1.5]}, r"labels\[0\]: is 0\.5, should be a valid string or"),
    ({"kind": "regression"}, "should not be set for regression"),
    ({"metric": "bleu"}, r"tasks\.mine\.metric: is 'bleu', should be one of accuracy, f1, macro_f1, matthews"),
    ({"kind": "tagging", "b": "x"}, r"tasks\.mine\.b: should not be set for tagging"),
])  # fmt: skip
def test_an_impossible_setting_is_one_sentence(values, sentence):
    with pytest.raises(BadConfig, match=sentence):
        task(**values)


def test_the_stage_leaves_rows_facts_and_warnings(tmp_path, capsys):
    (tmp_path / "t.tsv").write_text("stars\ttext\ngood\tA  cat\nbad\tb\n\tc\n")
    (tmp_path / "d.tsv").write_text("stars\ttext\ngood\ta cat\nbad\tc\n")
    files = {split: str(tmp_path / name) for split, name in FILES.items()}
    source = CustomTasks(kind="custom", tasks={"mine": task(**files)})
    assert gather(source, "tasks.own", tmp_path / "out")["tasks"]["mine"] == {
        "train": {"rows": 2, "quarantined": 0, "without_label": 1},
        "dev": {"rows": 2, "quarantined": 0, "also_in_train": 1},
    }
    warnings = capsys.readouterr().err
    assert "warning: tasks.own: mine dev: 1 row also in the training rows" in warnings
    assert "mine train: 1 row without a label, left out" in warnings
    facts = find(tmp_path / "out/mine", "mine")
    expected = (("bad", "good"), ("accuracy",), ("text",))
    assert (facts.labels, facts.metrics, facts.columns) == expected


def test_an_official_task_keeps_its_name():
    with pytest.raises(ValueError, match="is the name of an official task"):
        CustomTasks(kind="custom", tasks={"cola": task()})
