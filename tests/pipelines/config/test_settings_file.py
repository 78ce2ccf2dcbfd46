"""A params.yaml that is not settings at all is refused in one sentence."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings

from electra.errors import BadConfig
from pipelines.config.params import load
from pipelines.config.settings_file import one_line, parse
from tests.support import bad_params

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 11)
)


@pytest.mark.parametrize(
    "content, expected",
    [
        (None, "there is no such file"),
        (b"run: \xff", "is not UTF-8"),
        (b"a: " + b"1" * 5000, "holds an invalid value (Exceeds the limit (4300 digits)"),
        (b"a: !!bool perhaps", "holds an invalid value ('perhaps')"),
        (b'run: {"models\\n": 1}', "run.models : no such setting"),
        (b"1: 2", "params.yaml: has the key 1, which is not text"),
        (b"run: 2001-01-01", "run: holds datetime.date(2001, 1, 1); put text in quotes"),
        (b"run: {a: [x, !!binary eA==]}", "run.a.1: holds b'x'"),
        (
            "a: 1\nb: x\x85y".encode(),
            r'params.yaml:2: holds the line break U+0085; remove it, or write "\x85"',
        ),
        ("a: 1 # x\u2028b: 2".encode(), "params.yaml:1: holds the line break U+2028"),
        (b"files: ['s3://s3cret@b/a']", "files.0: holds the URL 's3://***@b/a'"),
        (b"'s3://s3cret@b/a': 1", "holds the URL 's3://***@b/a'"),
        (b"files: ['https://host/a?sig=s3cret&x=1']", "URL 'https://host/a?sig=***&x=***'"),
        (BOMB.encode(), "has aliases that stand for more than 1,000,000 values"),
        (b"a: " + b"{a: " * 100_000 + b"}" * 100_000, "is nested too deeply"),
    ],
)
def test_yaml_that_cannot_be_settings_is_one_sentence(content, expected, tmp_path):
    if content is not None:
        (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(BadConfig) as caught:
        load(tmp_path / "params.yaml")
    sentence = str(caught.value)
    assert expected in sentence and "params.yaml" in sentence
    assert "\n" not in sentence and "s3cret" not in sentence


def test_a_list_that_holds_itself_is_one_sentence():
    with pytest.raises(BadConfig, match=r"^params.yaml: is nested too deeply$"):
        parse("x: &a [*a]", Path("params.yaml"))


@settings(deadline=None, max_examples=100)
@example(bad_params.whole().encode())
@given(bad_params.damaged())
def test_damaged_file_is_accepted_or_refused_in_a_sentence(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "params.yaml"
    path.write_bytes(content)
    outcome = bad_params.outcome(path)
    is_whole = content == bad_params.whole().encode()
    assert outcome == "accepted" or (outcome == "refused" and not is_whole)


def test_a_text_in_a_sentence_has_at_most_a_thousand_characters():
    assert one_line("a\nb  c") == "a b c"
    assert one_line("x" * 1000) == "x" * 1000 and one_line("x" * 1001) == "x" * 1000 + "..."
