"""SQuAD's official files, and every way a question can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadInput, SourceUnreachable
from pipelines.sources.squad import hub_rows, read_json
from pipelines.text.cleaning import Rejected

CONTEXT = "Super Bowl 50 was played in Santa Clara."
ANSWER = {"text": "Santa Clara", "answer_start": CONTEXT.index("Santa")}
NOWHERE = "no answer that stands in the context"


def question(**changes: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Where?", "answers": [ANSWER], **changes}


def read(tmp_path: Path, *questions: Any, encoding: str = "utf-8", **changes: Any) -> list[Any]:
    paragraph = {"context": CONTEXT, "qas": list(questions), **changes}
    path = tmp_path / "train.json"
    path.write_text(
        json.dumps({"data": [{"title": "Super_Bowl", "paragraphs": [paragraph]}]}), encoding
    )
    return list(read_json(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_rows(tmp_path: Path, encoding: str) -> None:
    questions = [
        question(),
        question(
            id="q2", answers=[ANSWER, {"text": "Bowl", "answer_start": 0}], is_impossible=False
        ),
        question(id="q3", answers=[], is_impossible=True, plausible_answers=[ANSWER]),
    ]
    common = {"title": "Super_Bowl", "question": "Where?", "context": CONTEXT}
    santa = {"text": "Santa Clara", "start": 28}
    assert read(tmp_path, *questions, encoding=encoding) == [
        {"id": "q1", **common, "answers": [santa], "impossible": False},
        # without the one that stands elsewhere
        {"id": "q2", **common, "answers": [santa], "impossible": False},
        {"id": "q3", **common, "answers": [], "impossible": True},
    ]


@pytest.mark.parametrize(("bad", "reason"), [
    (question(answers=[]), NOWHERE),
    (question(answers=[{"text": "Santa Clara", "answer_start": 3}]), NOWHERE),
    (question(answers=[{"text": "Super", "answer_start": -1}]), NOWHERE),
    (question(answers=[{"text": "Super", "answer_start": "0"}, 5]), NOWHERE),
    (question(answers=None), NOWHERE),
    (question(id=""), "no id"),
    (question(question=None), "no question"),
    (question(question="Where \ud800?"), "lone surrogate"),
    ("a string", "not a JSON object"),
])  # fmt: skip
def test_a_bad_question_is_rejected_with_its_place(tmp_path: Path, bad: Any, reason: str) -> None:
    rejected, good, again = read(tmp_path, bad, question(id="q2"), question(id="q2"))
    assert isinstance(rejected, Rejected) and rejected.reason.startswith(reason)
    assert rejected.where.endswith("train.json: data[0].paragraphs[0].qas[0]")
    assert good["id"] == "q2" and again.reason == "an id that occurred before"


def test_missing_parts_are_rejected(tmp_path: Path) -> None:
    assert [type(row) for row in read(tmp_path, qas=None)] == [Rejected]
    assert [type(row) for row in read(tmp_path, question(), context=None)] == [Rejected]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"data": [{"title": "no paragraphs"}, 5]}))
    assert [type(row) for row in read_json(path)] == [Rejected, Rejected]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"data": 5}', b'{"data": [', b"\xff\xff", b"[" * 100_000]
)
def test_a_file_in_another_layout_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is not in SQuAD's layout"):
        list(read_json(path))
    with pytest.raises(SourceUnreachable, match="no such file"):
        list(read_json(tmp_path / "nowhere.json"))


def test_rows_of_the_hub() -> None:
    row = {"id": "q1", "title": "T", "question": "Where?", "context": CONTEXT}
    answers = {"text": ["Santa Clara"], "answer_start": [28]}
    none: dict[str, list[Any]] = {"text": [], "answer_start": []}
    (answered,) = hub_rows([{**row, "answers": answers}], "squad2", "x")
    (impossible,) = hub_rows([{**row, "answers": none}], "squad2", "x")
    (rejected,) = hub_rows([{**row, "answers": none}], "squad1", "x")
    assert isinstance(answered, dict) and answered["answers"] == [
        {"text": "Santa Clara", "start": 28}
    ]
    assert isinstance(impossible, dict) and impossible["impossible"]
    assert isinstance(rejected, Rejected)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_impossible": "false"}, "is_impossible is 'false' instead of true or false"),
        ({"is_impossible": True}, "impossible and answered"),
    ],
)
def test_a_flag_that_would_drop_answers_is_rejected(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    (row,) = read(tmp_path, question(**changes))
    assert isinstance(row, Rejected) and row.reason == reason
