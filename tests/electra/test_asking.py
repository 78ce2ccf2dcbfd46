"""What a row may be called, where the task says it, where official files say it, and where nothing does."""

import pytest

from electra.asking import as_row, of
from electra.errors import BadInput
from electra.finetuning.tasks import GLUE, SQUAD_2, Task
from tests.electra.made_up_models import CHUNKS, MOOD


@pytest.mark.parametrize(
    ("task", "official", "record", "found"),
    [
        (MOOD, (), {"body": " x "}, {"id": "5", "a": "x", "b": None}),
        (MOOD, ("sentence",), {"a": "x", "number": 3}, {"id": "3", "a": "x", "b": None}),
        (GLUE["rte"], (), {"a": "x", "b": "y"}, {"id": "5", "a": "x", "b": "y"}),
        (GLUE["rte"], ("left", "right"), {"left": "x", "right": "y"}, {"id": "5", "a": "x", "b": "y"}),
        (GLUE["cola"], (), {"a": "x", "id": "q"}, {"id": "q", "a": "x", "b": None}),
        (CHUNKS, (), {"words": "x y"}, {"id": "5", "words": ["x", "y"]}),
        (SQUAD_2, (), {"question": "x", "context": "y"}, {"id": "5", "question": "x", "context": "y"}),
    ],
)
def test_records_become_rows(task: Task, official: tuple[str, ...], record: dict, found: dict) -> None:
    row = as_row(of(task, official), record, "5", "here")
    assert {key: value for key, value in row.items() if key in {*found, "b"}} == found
    assert row.get("label") is None and row.get("tags") is None


def test_official_names_stand_before_a_and_b() -> None:
    with pytest.raises(BadInput, match="here: has sentence; expected the columns left, right or a, b"):
        as_row(of(GLUE["rte"], ("left", "right")), {"sentence": "x"}, "5", "here")
