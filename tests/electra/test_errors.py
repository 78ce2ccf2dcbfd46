"""Texts from outside in messages: secrets, control characters, length."""

import pickle

import pytest

from electra import errors
from electra.errors import BadInput, UserError, mask_secrets, pluralize


@pytest.mark.parametrize(
    "text, shown",
    [
        ("https://me:p%40ss@host:5000/x", "https://***@host:5000/x"),
        (
            "postgresql+psycopg2://me:pass@db/mlflow, again",
            "postgresql+psycopg2://***@db/mlflow, again",
        ),
        (
            "retries exceeded with url: /a?X-Amz-Signature=a/b+c&x=1 (Caused by /b;k=2 /c#t=3",
            "retries exceeded with url: /a?X-Amz-Signature=***&x=*** (Caused by /b;k=*** /c#t=***",
        ),
        (
            "s3://b/a?.jsonl, me@host: https://host/@me",
            "s3://b/a?.jsonl, me@host: https://host/@me",
        ),
    ],
)
def test_secrets_of_urls_are_hidden_in_sentences(text, shown):
    assert mask_secrets(text) == shown
    assert str(BadInput(f"a.txt: {text}")) == f"a.txt: {shown}"


def test_one_thing_is_not_plural():
    assert [pluralize(each, "row") for each in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_a_terminal_obeys_nothing_in_a_sentence():
    error = BadInput("a\x1b[2J: is ü\u202e 字\n\t; \udcff\r")
    assert str(error) == "a\\x1b[2J: is ü\\u202e 字\n\t; \\udcff\\r"


def test_an_error_of_a_worker_keeps_its_sentence():
    error = pickle.loads(pickle.dumps(BadInput("a: 'x', https://me:word@host")))
    assert type(error) is BadInput and str(error) == "a: 'x', https://***@host"


def test_a_long_list_is_cut_in_a_sentence():
    labels = ", ".join(map(str, range(50_000)))
    sentence = str(BadInput(f"a:1: 'x' is none of {labels}"))
    assert sentence == "a:1: 'x' is none of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … and 49,990 more"
    assert len(str(BadInput("y" * 10**6))) < 5_000
    keys = ", ".join(f"key{number}" for number in range(50))
    assert str(BadInput(f"one of {keys}")) == f"one of {keys}", "a section's keys are all shown"


def test_each_error_has_its_exit_code():
    """Those of sysexits.h; schedulers and scripts tell by them what helps."""
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    codes = {kind.__name__: kind.exit_code for kind in kinds if issubclass(kind, UserError)}
    assert codes == {
        "UserError": 1,
        "BadConfig": 64,
        "BadInput": 65,
        "SourceUnreachable": 69,
        "BadDevice": 69,
        "NonFinite": 70,
        "OutOfMemory": 71,
        "Refused": 71,
        "Busy": 73,
        "CorruptFile": 74,
        "Unreadable": 74,
        "OutOfRoom": 74,
        "Stopped": 75,
    }
