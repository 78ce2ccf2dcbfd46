"""SQuAD's official files, and every way a question can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadInput, SourceUnreachable
from pipelines.sources.glue import find_official
from pipelines.sources.squad import hub_rows, read_questions
from pipelines.text.cleaning import Rejected
from tests.pipelines.sources.bad_input import parquet

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
    return list(read_questions(path))


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
    (question(answers=[]), "no answers, and not marked impossible"),
    (question(answers=[{"text": "Santa Clara", "answer_start": 3}]), NOWHERE),
    (question(answers=[{"text": "Super", "answer_start": -1}]), NOWHERE),
    (question(answers=[{"text": "Super", "answer_start": "x"}, 5]), NOWHERE),
    (question(answers=[{"text": "Super", "answer_start": True}]), NOWHERE),
    (question(answers=[{"text": "uper", "answer_start": 0.5}]), NOWHERE),
    (question(answers=None), "no answers"),
    (question(is_impossible="perhaps"), "is_impossible is 'perhaps' instead of true or false"),
    (question(is_impossible=True), "impossible and answered"),
    (question(is_impossible="TRUE"), "impossible and answered"),
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
    assert [type(row) for row in read_questions(path)] == [Rejected, Rejected]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"data": 5}',
        b'{"data": [',
        b'{"data": [], "data": []}',
        b"\xff\xff",
        b"[" * 100_000,
    ],
)
def test_a_file_in_another_layout_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is not in SQuAD's layout"):
        list(read_questions(path))
    with pytest.raises(SourceUnreachable, match="no such file"):
        list(read_questions(tmp_path / "nowhere.json"))


@pytest.mark.parametrize("flag", [False, "false", "False", 0, "0"])
def test_a_flag_may_be_text(tmp_path: Path, flag: Any) -> None:
    (row,) = read(tmp_path, question(is_impossible=flag))
    assert row["answers"] and row["impossible"] is False


@pytest.mark.parametrize("text", ["Zürich", "𝄞 Zürich"])
@pytest.mark.parametrize("unit", ["utf-8", "utf-16-le", "characters", "text", "float"])
def test_an_offset_may_count_bytes_or_utf16_units(tmp_path: Path, text: str, unit: str) -> None:
    context = f"Überall 😀 war es {text} {text}."
    place = context.index(text)
    units = {"utf-8": 1, "utf-16-le": 2}
    start: Any = place
    if unit in units:
        start = len(context[:place].encode(unit)) // units[unit]
    if unit in {"text", "float"}:
        start = str(place) if unit == "text" else float(place)
    row_in = question(answers=[{"text": text, "answer_start": start}])
    (row,) = read(tmp_path, row_in, context=context)
    assert row["answers"] == [{"text": text, "start": place}]


ROW = {"title": "T", "question": "Where?", "context": CONTEXT}
EXPORTED = [  # as `datasets` writes them
    {"id": "q1", **ROW, "answers": {"text": ["Santa Clara"], "answer_start": [28]}},
    {"id": "q2", **ROW, "answers": {"text": [], "answer_start": []}},
]
EXPECTED = [
    {"id": "q1", **ROW, "answers": [{"text": "Santa Clara", "start": 28}], "impossible": False},
    {"id": "q2", **ROW, "answers": [], "impossible": True},
]
LINES = "\n".join(map(json.dumps, EXPORTED)).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v2.jsonl", LINES),
        ("v2.json", LINES),
        ("v2-list.json", json.dumps(EXPORTED).encode()),
        ("number.json", json.dumps({"version": 2, "data": EXPORTED}).encode()),
        ("text.json", json.dumps({"version": "v2.0", "data": EXPORTED}).encode()),
        ("v2.parquet", parquet(EXPORTED)),
    ],
)
def test_rows_as_datasets_exports_them(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert list(read_questions(path)) == EXPECTED
    path = path.rename(tmp_path / f"train-v2.0{path.suffix}")
    assert list(find_official(None, str(tmp_path))) == [("squad2", "train", path)]


def test_rows_of_the_hub() -> None:
    assert list(hub_rows(EXPORTED, "squad2", "x")) == EXPECTED
    _, rejected = hub_rows(EXPORTED, "squad1", "x")
    assert isinstance(rejected, Rejected)
