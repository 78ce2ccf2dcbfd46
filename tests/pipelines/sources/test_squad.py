"""SQuAD's official files, and every way a question can be wrong."""

import json

import pytest

from electra.errors import BadInput
from pipelines.sources.glue import find_official
from pipelines.sources.squad import hub_rows, read_questions
from pipelines.text.cleaning import Rejected
from tests.support.bad_input import parquet

CONTEXT = "Super Bowl 50 was played in Santa Clara."
ANSWER = {"text": "Santa Clara", "answer_start": 28}
NOWHERE = "no answer is in the context"


def question(**changes):
    return {"id": "q1", "question": "Where?", "answers": [ANSWER], **changes}


def read(tmp_path, *questions, encoding="utf-8", **changes):
    paragraph = {"context": CONTEXT, "qas": questions, **changes}
    article = {"title": "Super_Bowl", "paragraphs": [paragraph]}
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": [article]}), encoding)
    return list(read_questions(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_rows(tmp_path, encoding):
    elsewhere = {"text": "Bowl", "answer_start": 0}
    questions = [
        question(),
        question(id="q2", answers=[ANSWER, elsewhere], is_impossible=False),
        question(id="q3", answers=[], is_impossible=True, plausible_answers=[ANSWER]),
    ]
    common = {"title": "Super_Bowl", "question": "Where?", "context": CONTEXT}
    santa = {"text": "Santa Clara", "start": 28}
    place = f"{tmp_path}/train.json: data[0].paragraphs[0].qas[1]"
    fault = "an answer that is not in the context at its offset"
    assert read(tmp_path, *questions, encoding=encoding) == [
        {"id": "q1", **common, "answers": [santa], "impossible": False},
        {"id": "q2", **common, "answers": [santa], "impossible": False},
        Rejected(place, fault, "Where?"),
        {"id": "q3", **common, "answers": [], "impossible": True},
    ]


def answers(*pairs):
    return {"answers": [{"text": text, "answer_start": start} for text, start in pairs]}


@pytest.mark.parametrize("changes, reason", [
    ({"answers": []}, "no answers, and not marked impossible"),
    (answers(("Santa Clara", 3)), NOWHERE),
    (answers(("Super", -1)), NOWHERE),
    ({"answers": [{"text": "Super", "answer_start": "x"}, 5]}, NOWHERE),
    (answers(("uper", True), ("", 0)), NOWHERE),
    (answers(("uper", 0.5)), NOWHERE),
    (answers(("Super", "9" * 5000)), NOWHERE),
    ({"answers": None}, "no answers"),
    ({"is_impossible": "perhaps"}, "is_impossible is 'perhaps' instead of true or false"),
    ({"is_impossible": True}, "impossible and answered"),
    ({"is_impossible": "TRUE"}, "impossible and answered"),
    ({"id": ""}, "no id"),
    ({"question": None}, "no question"),
    ({"question": "Where \ud800?"}, "lone surrogate"),
    (None, "not a JSON object"),
])  # fmt: skip
def test_a_bad_question_is_rejected_with_its_place(tmp_path, changes, reason):
    bad = "a string" if changes is None else question(**changes)
    rejected, good, again = read(tmp_path, bad, question(id="q2"), question(id="q2"))
    assert rejected.reason.startswith(reason)
    assert rejected.where.endswith("train.json: data[0].paragraphs[0].qas[0]")
    assert good["id"] == "q2" and again.reason == "an id that occurred before"


def test_missing_parts_are_rejected(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"data": [{"title": "no paragraphs"}, 5]}')
    rows = [*read(tmp_path, qas=None), *read(tmp_path, question(), context=None)]
    assert [row.reason for row in [*rows, *read_questions(path)]] == [
        "no list of questions", "no context", "no list of paragraphs", "no list of paragraphs",
    ]  # fmt: skip


@pytest.mark.parametrize("content", [
    b"", b"[]", b"{}", b'{"data": 5}', b'{"data": [', b'{"data": [], "data": []}', b"\xff\xff",
    b"[" * 100_000,
])  # fmt: skip
def test_a_file_in_another_layout_is_a_sentence(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is not in SQuAD's layout"):
        list(read_questions(path))


@pytest.mark.parametrize("flag", [False, "False", "0"])
def test_a_flag_may_be_text(tmp_path, flag):
    (row,) = read(tmp_path, question(is_impossible=flag))
    assert row["answers"] and row["impossible"] is False


@pytest.mark.parametrize("text", ["Überall", "Zürich", "𝄞 Zürich"])
def test_an_offset_may_count_bytes_or_utf16_units(tmp_path, text):
    context = f"Überall 😀 war es {text} {text}."
    before = context.partition(text)[0]
    place = len(before)
    units = (len(before.encode()), len(before.encode("utf-16-le")) // 2)
    for start in (place, str(place), float(place), *units):
        (row,) = read(tmp_path, question(**answers((text, start))), context=context)
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


@pytest.mark.parametrize("name, content", [
    ("v2.jsonl", LINES), ("v2.json", LINES),
    ("v2-list.json", json.dumps(EXPORTED).encode()),
    ("number.json", json.dumps({"version": 2, "data": EXPORTED}).encode()),
    ("text.json", json.dumps({"version": "v2.0", "data": EXPORTED}).encode()),
    ("v2.parquet", parquet(EXPORTED)),
])  # fmt: skip
def test_rows_as_datasets_exports_them(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert list(read_questions(path)) == EXPECTED
    path = path.rename(tmp_path / f"train-v2.0{path.suffix}")
    assert list(find_official(None, str(tmp_path))) == [("squad2", "train", path)]


@pytest.mark.parametrize("given", [
    {"text": "Santa Clara", "answer_start": 28},
    {"text": ["Santa Clara"], "answer_start": 28},
    [{"text": "Santa Clara", "answer_start": 28}],
])  # fmt: skip
def test_one_answer_need_be_no_list(given):
    assert list(hub_rows([EXPORTED[0] | {"answers": given}], "squad2", "x")) == EXPECTED[:1]


@pytest.mark.parametrize("given", [
    {"answers": {"text": ["Santa Clara"], "start": [28]}},
    {"answers": {"text": ["Santa Clara"], "answer_start": []}},
    {"answers": ["Santa Clara"]},
    {"answer": "Santa Clara"},
])  # fmt: skip
def test_answers_in_another_layout_are_not_taken_for_none(given):
    (rejected,) = hub_rows([{"id": "q1", **ROW, **given}], "squad2", "x")
    assert isinstance(rejected, Rejected)


def test_rows_of_the_hub():
    assert list(hub_rows(EXPORTED, "squad2", "x")) == EXPECTED
    first, rejected = hub_rows(EXPORTED, "squad1", "x")
    assert first == EXPECTED[0] and isinstance(rejected, Rejected)
