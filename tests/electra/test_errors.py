"""What a sentence may show of the texts that others bring into it."""

import pytest

from electra.errors import BadInput, hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:p%40ss@host:5000/x", "https://***@host:5000/x"),
        (
            "postgresql+psycopg2://me:pass@db/mlflow, again",
            "postgresql+psycopg2://***@db/mlflow, again",
        ),
        (
            "retries exceeded with url: /a?X-Amz-Signature=a/b+c&x=1 (Caused",
            "retries exceeded with url: /a?X-Amz-Signature=***&x=*** (Caused",
        ),
        (
            "s3://b/a?.jsonl, me@host: https://host/@me",
            "s3://b/a?.jsonl, me@host: https://host/@me",
        ),
    ],
)
def test_secrets_of_urls_are_hidden_in_sentences(text: str, shown: str) -> None:
    assert hidden(text) == shown
    assert str(BadInput(text, text, text, text)) == f"{shown}: {shown}; expected {shown}; {shown}"


def test_a_terminal_obeys_nothing_in_a_sentence() -> None:
    assert (
        str(BadInput("a\x1b[2J", "is ü\u202e 字\n\t", do="\udcff\r"))
        == "a\\x1b[2J: is ü\\u202e 字\n\t; \\udcff\\r"
    )


def test_a_long_list_is_cut_in_a_sentence() -> None:
    labels = ", ".join(map(str, range(50_000)))
    told = str(BadInput("a:1", "has the label 'x'", f"one of {labels}", "y" * 10**6))
    assert (
        "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … and 49,990 more; yyy" in told
        and len(told) < 5_000
    )
    keys = f"one of {', '.join(f'key{number}' for number in range(40))}"
    assert str(BadInput("a", "b", keys)).endswith(keys), "what a section may hold is shown whole"
