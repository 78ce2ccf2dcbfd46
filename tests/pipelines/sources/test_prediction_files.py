"""Files of predictions, and references that are not theirs."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from electra.errors import BadInput
from electra.finetuning.reading import score
from electra.finetuning.tasks import GLUE, SQUAD_2
from pipelines.sources.prediction_files import read_predictions

ROWS = [{"id": "0", "label": "1"}, {"id": "1", "label": "0"}]


@pytest.mark.parametrize(
    "text, name, sentence",
    [
        ('{"id": "0", "prediction": "1"}\n', "p.jsonl", r"has no prediction for id 1 \(row 2\); expected one for each of 2"),
        ("index\tprediction\n0\t1\n1\t0\n5\t1\n", "p.tsv", r"predicts id 5, which is not among the references \(1 such\)"),
        ("index\tprediction\n0\t1\n0\t1\n", "p.tsv", r"p\.tsv:3: predicts 0 again"),
        ("index\tprediction\n0\t1\textra\n", "p.tsv", r"p\.tsv:2: 3 columns instead of 2"),
        ('{"id": "0", "id": "1", "prediction": "1"}\n', "p.jsonl", r"p\.jsonl:1: a key twice in one object"),
        ("id\tlabel\n0\t1\n", "p.tsv", r"p\.tsv:2: has id, label; expected an id and a prediction"),
        ('{"id": 1.0, "prediction": "1"}\n', "p.jsonl", r"p\.jsonl:1: the id 1\.0 is neither text nor"),
        ("\udcff\n", "p.jsonl", r"p\.jsonl:1: invalid UTF-8"),
        ("\udcff\n", "p.json", r"p\.json:1: invalid UTF-8"),
        ('{"a": "x", "a": "y"}', "p.json", r"p\.json: is not JSON, or has a question twice"),
        ("index\tprediction\n0\tyes\n1\t0\n", "p.tsv", r"predicts 'yes' for id 0 \(row 1\): unknown label 'yes', not one of 0, 1"),
    ],
)  # fmt: skip
def test_predictions_that_do_not_fit_their_references(text, name, sentence, tmp_path):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(BadInput, match=sentence):
        score(GLUE["cola"], ROWS, read_predictions(tmp_path / name), tmp_path / name)


def test_predictions_come_as_parquet(tmp_path):
    path = tmp_path / "p.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": [0, 1], "prediction": ["1", "0"]}), path)
    assert read_predictions(path) == {"0": "1", "1": "0"}


def test_answers_of_squad_are_scored_by_their_questions(tmp_path):
    context = "The cat sat on the mat."
    answers = [{"text": "The cat", "start": 0}]
    questions = [
        {"id": "a", "answers": answers, "impossible": False, "context": context},
        {"id": "b", "answers": [], "impossible": True, "context": context},
    ]
    path = tmp_path / "p.json"
    path.write_text('{"a": "cat", "b": ""}')
    assert score(SQUAD_2, questions, read_predictions(path), path)["exact"] == 100.0
    path.write_text("[1]")
    with pytest.raises(BadInput, match="holds no object"):
        read_predictions(path)
    with pytest.raises(BadInput, match="answers 3 to a; expected text"):
        score(SQUAD_2, questions, {"a": 3, "b": ""}, path)


def test_a_file_that_never_ends_is_refused():
    with pytest.raises(BadInput, match="/dev/zero: holds NUL bytes"):
        read_predictions(Path("/dev/zero"))
