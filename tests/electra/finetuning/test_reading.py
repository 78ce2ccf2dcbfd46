"""Bad rows of each kind of task, by line, id and value."""

import json

import pytest

from electra.errors import BadInput
from electra.finetuning.reading import read_rows
from electra.finetuning.tasks import TASKS
from tests.support.tasks import CHUNKS

TEXTS = {"a": "the cat", "b": None, "label": "1"}
WORDS = {"words": ["a", "b"], "tags": ["O", "S-NP"]}
QUESTION = {"question": "the?", "context": "the red cat", "impossible": False}
QUESTION["answers"] = [{"text": "red", "start": 4}]
GOOD = {"cola": TEXTS, "mrpc": TEXTS, "stsb": TEXTS, "chunks": WORDS, "squad2": QUESTION}


def read(folder, task, *rows):
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_rows(path, CHUNKS if task == "chunks" else TASKS[task])


@pytest.mark.parametrize(
    "task, changes, sentence",
    [
        ("cola", {"label": "2"}, "has the label '2'; expected one of 0, 1"),
        ("cola", {"a": None}, "expected an object with text"),
        ("mrpc", {"b": 3}, "has b 3; expected text or null"),
        ("stsb", {"label": float("nan")}, "has the score nan; expected a finite number"),
        ("stsb", {"label": "4.2"}, "has the score '4.2'"),
        ("stsb", {"label": True}, "has the score True"),
        ("chunks", {"tags": ["O"]}, "has 1 tags for 2 words; expected a tag for each word"),
        ("chunks", {"tags": None}, "has no tags for 2 words"),
        (
            "chunks",
            {"tags": ["O", "B-PP"]},
            "has the tag 'B-PP'; expected O, or one of B-, I-, E-, S- before NP, VP",
        ),
        ("chunks", {"words": ["a", " "]}, "an object with an id and words"),
        ("chunks", {"words": "ab"}, "an object with an id and words"),
        (
            "squad2",
            {"answers": [{"text": "cat", "start": 5}]},
            "has the answer 'cat' at 5, where the context reads 'ed '",
        ),
        ("squad2", {"answers": [{"text": "red", "start": -7}]}, "at -7"),
        ("squad2", {"answers": [{"text": "", "start": 0}]}, "has the answer ''"),
        ("squad2", {"answers": [{"text": "red", "start": "4"}]}, "at '4'"),
        ("squad2", {"impossible": True}, "has answers though it is impossible"),
        ("squad2", {"answers": []}, "has no answer"),
        ("squad2", {"context": None}, "expected an object with text"),
        ("squad2", {"question": None}, "expected an object with text"),
        ("squad2", {"answers": None}, "lacks its answers"),
        ("squad2", {"impossible": None}, "lacks its answers"),
    ],
)
def test_a_bad_row_is_named(task, changes, sentence, tmp_path):
    with pytest.raises(BadInput, match=rf":1 \(id 7\): .*{sentence}"):
        read(tmp_path, task, {"id": "7", **GOOD[task], **changes})


def test_a_split_is_rows_with_ids_of_their_own(tmp_path):
    row = {"id": "7", **TEXTS}
    for rows, sentence in (
        ([], "holds no rows"),
        ([row, row], r":2 \(id 7\): repeats the id of line 1"),
        ([["a", "list"]], "expected an object with text"),
        ([{**row, "id": 7}], "expected an object with text"),
    ):
        with pytest.raises(BadInput, match=sentence):
            read(tmp_path, "cola", *rows)
