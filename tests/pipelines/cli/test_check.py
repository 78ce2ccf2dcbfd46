"""`check` refuses inputs that a later stage would refuse, and hints at likely mistakes, before
anything runs.
"""

import gzip
import re
from pathlib import Path

import pytest

from pipelines import preflight
from pipelines.cli import main
from tests.support.project import edit

TEXT = "\n\n".join(f"Text number {number} of the smoke corpus." for number in range(60))
ROWS = '{"sentence": "a row", "label": true}\n{"sentence": "another", "label": false}\n' * 10


@pytest.fixture
def here(here):
    (here / "text").mkdir()
    (here / "text/a.txt").write_text(TEXT)
    for name in ("train", "dev"):
        (here / f"{name}.jsonl").write_text(ROWS)
    mood = "{train: train.jsonl, dev: dev.jsonl, labels: [true, false]}"
    change("{kind: sample, seed: 1}", f"{{kind: custom, tasks: {{mood: {mood}}}}}")
    return here


def change(old, new):
    edit(Path("params.yaml"), old, new)


def test_what_is_right_passes_without_a_hint(here, capsys):
    assert main(["check", "smoke"]) == 0
    sentence = "smoke: every data source is there, and its beginning can be read"
    assert capsys.readouterr() == (f"{sentence} (1 of 1 files looked at)\n", "")
    change('{kind: local, files: ["text/*.txt"], documents: blank_lines}', "{kind: sample}")
    assert main(["check", "smoke"]) == 0, "its documents are not there yet"


@pytest.mark.parametrize(
    "file, content, settings, code, sentence",
    [
        ("text/a.txt", "one document", {}, 65, "has 1 document, none for valid"),
        ("text/a.txt", TEXT, {"vocab_size: 200": "vocab_size: 20"}, 65, "letters of the text alone need"),
        ("text/a.jsonl", '{"body": "a"}\n', {"text/*.txt": "text/*.jsonl"}, 65, "no field 'text'"),
        ("text/a.txt", TEXT, {"kind: train, vocab_size: 200": "kind: vocab, file: gone.txt"}, 65, "gone.txt: there is no"),
        ("text/a.txt", TEXT, {"length: 16, batch": "init_from: gone, length: 16, batch"}, 65, "init_from: there is no folder gone"),
        ("text/a.txt", TEXT, {"blank_lines}]": "blank_lines}], cleaning: {language: xx}"}, 64, "cleaning.language: has 'xx'"),
        ("text/a.txt", TEXT, {"blank_lines}]": "blank_lines}], cleaning: {decontaminate: {tasks: other}}", "tasks:\n": "tasks:\n  other: {kind: local, squad: gone}\n"}, 69, "tasks.other: there is no folder gone"),
        ("train.jsonl", '{"text": "a", "label": true}\n', {}, 65, "no field 'sentence'"),
        ("dev.jsonl", ROWS.replace("true", "1"), {}, 65, "unknown label '1', not one of true, false"),
        ("dev.jsonl", "", {}, 65, "has no rows in mood dev"),
        ("dev.jsonl", ROWS.replace("label", "lable"), {}, 65, "has no rows in mood dev with a label; check the setting `label`"),
    ],
)  # fmt: skip
def test_what_a_later_stage_refuses(here, file, content, settings, code, sentence, refuse):  # fmt: skip
    (here / file).write_text(content)
    for old, new in settings.items():
        change(old, new)
    assert sentence in refuse(code, "check smoke")


def test_all_files_that_cannot_be_read_are_in_one_sentence_and_can_be_left_out(
    here, run_command, refuse
):
    """They are between and behind more good rows than `check` reads for its hints."""
    good = "".join(f'{{"text": "Row {n} of many."}}\n' for n in range(3000)).encode()
    german = "Früh übt sich, wer ein Meister werden will.\n"
    for name, content in {
        "a.jsonl": good,
        "b.jsonl": b'{"body": "a text"}\n' * 30,
        "c.jsonl": b"hello\n" * 30,
        "d.txt": german.encode("latin-1") * 30,
        "e.jsonl.gz": gzip.compress(good)[:-100],
        "f.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 30,
        "g.txt": b"PK\x03\x04",
    }.items():
        (here / "text" / name).write_bytes(content)
    change("text/*.txt", "text/*")
    error = refuse(65, "check smoke")
    assert "corpora.smoke: 6 files cannot be read" in error and "text/a." not in error
    for fault in (
        "b.jsonl:1: no field 'text': '{\"body\": \"a text\"}'; set `text`",
        "c.jsonl:1: not JSON: 'hello'",
        "d.txt:1: invalid UTF-8: 'Fr\\xfch",
        "; set `encoding: latin-1` if 'Früh' is right",
        "e.jsonl.gz: is damaged",
        "f.png: is a binary file",
        "g.txt: is a zip file",
    ):
        assert fault in error
    names = re.findall(r"'!text/.\.[a-z.]+'", error)
    change('["text/*"]', f"[text/*, {', '.join(names)}]")
    run_command("check smoke")


def test_few_bad_rows_are_left_to_the_quarantine(here, capsys):
    (here / "text/b.jsonl").write_text('{"body": "a text"}\n' * 5)
    change("text/*.txt", "text/*")
    assert main(["check", "smoke"]) == 0
    assert "b.jsonl:1: no field 'text' (5 bad rows" in capsys.readouterr().err
    (here / "text/c.jsonl").write_text('{"body": "a text"}\n')
    assert main(["check", "smoke"]) == 65
    assert "2 files cannot be read" in capsys.readouterr().err
    for n in range(9):
        (here / f"text/{n}.txt").write_text(TEXT)
    assert main(["check", "smoke"]) == 0, "a tenth of the rows may be bad"


def test_a_part_of_very_many_files_is_looked_at(here, monkeypatch, run_command):
    monkeypatch.setattr(preflight, "FILES", 4)
    for n in range(11):
        (here / f"text/{n}.txt").write_text(TEXT)
    assert "(4 of 12 files looked at)" in run_command("check smoke")


@pytest.mark.parametrize(
    "content, settings, hint",
    [
        ("A line of text.\n" * 10_000, {", documents: blank_lines": ""}, "one document of 159,999 characters"),
        ("\n\n".join(["A line of a book is about as wide as a typewriter's was.\n" * 9] * 60), {}, "hard_wrapped: true"),
        (f"{TEXT}\n\nFrüh übt sich.", {"blank_lines": "blank_lines, encoding: latin-1"}, "1 file may be UTF-8, the first text/a.txt"),
        (TEXT, {"labels: [true, false]": "labels: [true, false, maybe]"}, "no row of train.jsonl has the label maybe"),
    ],
)  # fmt: skip
def test_what_is_hardly_meant(here, content, settings, hint, capsys):
    (here / "text/a.txt").write_text(content)
    (here / "text/b.txt").write_text("\n\n".join(f"Another text, {n}." for n in range(60)))
    for old, new in {**settings, "valid_fraction: 0.2": "valid_fraction: 0.4"}.items():
        change(old, new)
    assert main(["check", "smoke"]) == 0
    assert hint in capsys.readouterr().err
