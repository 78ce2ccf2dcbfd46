"""`check` refuses what a later stage would, and hints at what is hardly meant, before anything runs."""

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.conftest import SMOKE

TEXT = "\n\n".join(f"Text number {number} of the smoke corpus." for number in range(60))
ROWS = "".join(json.dumps({"sentence": f"row {n}", "label": n % 2 == 0}) + "\n" for n in range(20))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text(TEXT)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(ROWS)
    own = "{kind: own, tasks: {mood: {train: train.jsonl, dev: dev.jsonl, labels: [true, false]}}}"
    (tmp_path / "params.yaml").write_text(SMOKE.replace("{kind: sample, seed: 1}", own))
    return tmp_path


def change(old: str, new: str) -> None:
    text = Path("params.yaml").read_text()
    assert old in text
    Path("params.yaml").write_text(text.replace(old, new))


def test_what_is_right_passes_without_a_hint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke"]) == 0
    said = capsys.readouterr()
    assert said.out == "smoke: every data source is there, and its beginning can be read\n" and said.err == ""


@pytest.mark.parametrize(
    ("file", "content", "settings", "code", "sentence"),
    [
        ("text/a.txt", "one document", {}, 65, "has 1 documents, none of them for valid"),
        ("text/a.txt", TEXT, {"vocab_size: 200": "vocab_size: 20"}, 65, "letters of the text alone need"),
        ("text/a.jsonl", '{"body": "a"}\n', {"text/*.txt": "text/*.jsonl"}, 65, "no field 'text'"),
        ("text/a.txt", TEXT, {"kind: train, vocab_size: 200": "kind: vocab, file: gone.txt"}, 65, "gone.txt: there is no"),  # noqa: E501
        ("text/a.txt", TEXT, {"length: 16, batch": "init_from: gone, length: 16, batch"}, 65, "init_from: gone"),
        ("train.jsonl", '{"text": "a", "label": true}\n', {}, 65, "no field 'sentence'"),
        ("dev.jsonl", ROWS.replace("true", "1"), {}, 65, "unknown label '1', not one of true, false"),
        ("dev.jsonl", "", {}, 65, "has no rows in mood dev"),
    ],
)  # fmt: skip
def test_what_a_later_stage_refuses(
    here: Path, file: str, content: str, settings: dict[str, str], code: int, sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (here / file).write_text(content)
    for old, new in settings.items():
        change(old, new)
    assert main(["check", "smoke"]) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and sentence in said


@pytest.mark.parametrize(
    ("content", "settings", "hint"),
    [
        ("A line of text.\n" * 10_000, {", documents: blank_lines": ""}, "one document of 159,999 characters"),
        ("\n\n".join(f" = Title {n} = \n\n Text." for n in range(9)), {", documents: blank_lines": ""}, "documents: headings"),  # noqa: E501
        (TEXT.replace("of", "&amp;"), {}, "cleaning: {markup: true}"),
        ("\n\n".join(["A line of a book is about as wide as a typewriter's was.\n" * 9] * 60), {}, "hard_wrapped: true"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_hardly_meant(
    here: Path, content: str, settings: dict[str, str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "text/a.txt").write_text(content)
    (here / "text/b.txt").write_text("\n\n".join(f"Another text, {n}." for n in range(60)))
    for old, new in {**settings, "valid_fraction: 0.2": "valid_fraction: 0.4"}.items():
        change(old, new)
    main(["check", "smoke"])
    assert hint in capsys.readouterr().err


def test_headings_part_a_text_and_lose_their_signs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    articles = "\n\n".join(f" = Title {n} = \n\n Text {n}. \n\n = = Part = = \n\n More." for n in range(30))
    (here / "text/a.txt").write_text(articles)
    change("documents: blank_lines", "documents: headings")
    assert main(["check", "smoke"]) == 0 and capsys.readouterr().err == ""
    assert main(["corpus", "smoke"]) == 0
    lines = Path("build/corpus/smoke/documents-00000.jsonl").read_text().splitlines()
    assert len(lines) == 30 and json.loads(lines[1])["text"] == "Title 1\nText 1.\nPart\nMore."


def test_a_label_that_no_row_has_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change("labels: [true, false]", "labels: [true, false, maybe]")
    assert main(["check", "smoke"]) == 0
    assert "no row of train.jsonl has the label maybe" in capsys.readouterr().err
