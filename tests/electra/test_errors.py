"""What a sentence may show of the texts that others bring into it."""

import pytest

from electra.errors import BadInput, hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:p%40ss@host:5000/x", "https://***@host:5000/x"),
        ("postgresql+psycopg2://me:pass@db/mlflow, again", "postgresql+psycopg2://***@db/mlflow, again"),
        (
            "retries exceeded with url: /a?X-Amz-Signature=a/b+c&x=1 (Caused",
            "retries exceeded with url: /a?X-Amz-Signature=***&x=*** (Caused",
        ),
        ("s3://b/a?.jsonl, me@host: https://host/@me", "s3://b/a?.jsonl, me@host: https://host/@me"),
    ],
)
def test_secrets_of_urls_are_hidden_in_sentences(text: str, shown: str) -> None:
    assert hidden(text) == shown
    assert str(BadInput(text, text, text, text)) == f"{shown}: {shown}; expected {shown}; {shown}"
