"""A params.yaml that is not settings at all: whatever its bytes are, one sentence and no crash, or it loads."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings

from electra.errors import BadConfig
from pipelines.config.params import load
from tests.pipelines import bad_params


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: " + "[" * 100_000, "params.yaml:1: is more than 20 levels deep"),
        ("a: " + "[" * 100_000 + "]" * 100_000, "levels deep"),
        ("- " * 50_000, "levels deep"),
        ("a: &x [*x]", "params.yaml:1: repeats &x within itself; expected values written out"),
        ("a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 30)), "100,000 values"),
        ("a: " + "1" * 5000, "none of its kind (Exceeds the limit (4300 digits)"),
        ("a: {b: [0x" + "f" * 5000 + "]}", "params.yaml: a.b: holds a whole number of 20,000 bits; expected"),
        ("a: {b: {? 0x" + "f" * 5000 + " : 1}}", "params.yaml: a.b: holds a whole number of 20,000 bits; expected"),
        (
            "a: -18446744073709551616",
            "params.yaml: a: holds -18446744073709551616; expected whole numbers of at most 64",
        ),
        ("a: 2001-99-99", "none of its kind (month must be in 1..12)"),
        ("a: !!bool perhaps", "none of its kind ('perhaps')"),
        ('a: "\\0"', "holds a control character"),
        ('run: {"models\\n": 1}', "params.yaml: run.models: is not a parameter"),
        ("1: 2", "params.yaml: [1]: is not a parameter"),
        ("run: 2001-01-01", "params.yaml: run: holds datetime.date(2001, 1, 1); expected numbers, text"),
        ("run: {? [a] : b}", "params.yaml: run: holds ('a',); expected numbers, text"),
    ],
)
def test_yaml_that_cannot_be_settings_is_one_sentence(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        load(written(tmp_path, text))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_or_unreadable_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no such file"):
        load(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_bytes(b"run: \xff")
    with pytest.raises(BadConfig, match="is not UTF-8"):
        load(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").unlink()
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(BadConfig, match=r"params.yaml: cannot be read \(Is a directory\)"):
        load(tmp_path / "params.yaml")


@settings(deadline=None, max_examples=100)
@example(bad_params.whole().encode())
@given(bad_params.damaged())
def test_every_damaged_file_is_accepted_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    """More of them: `python -m benchmarks.reliability --only settings`."""
    path = tmp_path_factory.getbasetemp() / "params.yaml"
    path.write_bytes(content)
    found = bad_params.outcome(path)
    assert found == "accepted" if content == bad_params.whole().encode() else found in {"accepted", "refused"}
