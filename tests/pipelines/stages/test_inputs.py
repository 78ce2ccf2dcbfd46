"""Own files as DVC sees them: a changed byte is seen, an old file is not read again."""

import itertools
from pathlib import Path

import pytest

from electra.files import read_json
from pipelines.config.params import load
from pipelines.stages import STAGES, inputs
from tests.conftest import SMOKE

MOOD = "smoke: {kind: own, tasks: {mood: {train: t.tsv, dev: d.tsv, labels: [a, b]}}}"
VOCAB = "tokenizers:\n  other: {kind: vocab, file: build/tokens/other/vocab.txt}\n"
OWN = SMOKE.replace("smoke: {kind: sample, seed: 1}", MOOD).replace("tokenizers:\n", VOCAB)
OWN = OWN.replace("corpus: absent, tokenizer: smoke", "corpus: absent, tokenizer: other")


def look() -> None:
    params = load()
    for section in ("corpora", "tasks"):
        for name in getattr(params, section):
            inputs.record_files(section, name, params)


def noted() -> dict[str, list]:
    return {
        f"{path.parent.name}/{path.stem}": read_json(path)
        for path in sorted(Path("build/inputs").rglob("*.json"))
    }


def test_a_changed_file_changes_the_entries_that_name_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("params.yaml").write_text(OWN)
    for name in ("text/a.txt", "text/b.txt", "t.tsv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("one")
    look()
    before = noted()
    assert [name for name, _ in before["corpora/smoke"]] == ["a.txt", "b.txt"] and before[
        "corpora/absent"
    ] == []
    assert before["tasks/smoke"][1] == ["d.tsv", None]
    hashed: list[Path] = []
    hash_file = inputs.sha256_file
    monkeypatch.setattr(inputs, "sha256_file", lambda path: hashed.append(path) or hash_file(path))
    look()
    assert noted() == before and hashed == []
    for name, entry in (
        ("text/b.txt", "corpora/smoke"),
        ("d.tsv", "tasks/smoke"),
    ):
        Path(name).write_text("two")
        look()
        after = noted()
        assert {key for key in after if after[key] != before[key]} == {entry}
        before = after
    assert hashed == [Path("text/b.txt"), Path("d.tsv")]


def test_a_changed_vocabulary_changes_its_tokenizer_alone(here: Path) -> None:
    Path("params.yaml").write_text(OWN)
    inputs.record_code(load())
    absent = read_json(Path("build/code.json"))
    assert absent["vocabularies"] == {"other": "", "smoke": ""} and set(absent) - {
        "vocabularies"
    } < set(STAGES)
    vocabulary = Path("build/tokens/other/vocab.txt")
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_text("[PAD]")
    inputs.record_code(load())
    there = read_json(Path("build/code.json"))
    assert there["vocabularies"]["other"] and there["vocabularies"]["smoke"] == ""
    assert there | {"vocabularies": absent["vocabularies"]} == absent


def test_what_is_left_out_changes_nothing(here: Path) -> None:
    Path("params.yaml").write_text(SMOKE.replace('"text/*.txt"', '"!text/b.txt", "text/*.txt"'))
    Path("text").mkdir()
    for name in ("a.txt", "b.txt"):
        Path("text", name).write_text("one")
    look()
    assert [name for name, _ in noted()["corpora/smoke"]] == ["a.txt"]


def test_a_corpus_without_the_texts_of_tasks_has_their_files_and_settings(here: Path) -> None:
    wanted = OWN.replace(
        "blank_lines}]}", "blank_lines}], cleaning: {decontaminate: {tasks: smoke}}}"
    )
    found: list[list[list[str]]] = []
    for settings, dev in (
        (wanted, "one"),
        (wanted, "two"),
        (wanted.replace("[a, b]", "[a, b], a: text"), "two"),
    ):
        Path("params.yaml").write_text(settings)
        Path("d.tsv").write_text(dev)
        look()
        found.append(noted()["corpora/smoke"])
        assert [name for name, _ in found[-1]] == ["t.tsv", "d.tsv", "tasks.smoke"] and noted()[
            "corpora/absent"
        ] == []
    changed = [
        [before != after for before, after in zip(*pair, strict=True)]
        for pair in itertools.pairwise(found)
    ]
    assert changed == [[False, True, False], [False, False, True]]


def test_damaged_notes_are_not_believed(here: Path) -> None:
    Path("params.yaml").write_text(OWN)
    Path("text").mkdir()
    Path("text/a.txt").write_text("one")
    look()
    before, ((_, sha256),) = noted(), noted()["corpora/smoke"]
    notes = inputs.NOTES.read_text()
    for damaged in (notes.replace(sha256, sha256[::-1]), notes[:-9], "[]"):
        inputs.NOTES.write_text(damaged)
        look()
        assert noted() == before
