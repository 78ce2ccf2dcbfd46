"""Inputs of stages: the user's files as DVC sees them, and official files that are asked for before
anything is read.
"""

import os
from pathlib import Path

import pytest

from electra.errors import SourceUnreachable
from electra.files import read_json, sha256_file
from electra.finetuning.tasks import GLUE
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.sources.glue import LAYOUTS
from pipelines.stages import STAGES, corpus, inputs, tasks
from pipelines.tracking import Tracker
from tests.support.project import SMOKE, edit

MOOD = "smoke: {kind: custom, tasks: {mood: {train: t.tsv, dev: d.tsv, labels: [a, b]}}}"
VOCAB = "tokenizers:\n  other: {kind: vocab, file: build/tokens/other/vocab.txt}\n"
SAMPLE = "smoke: {kind: sample, seed: 1}"
OWN = SMOKE.replace(SAMPLE, MOOD).replace("tokenizers:\n", VOCAB)
OWN = OWN.replace("corpus: absent, tokenizer: smoke", "corpus: absent, tokenizer: other")
OFFICIAL = SMOKE.replace(SAMPLE, "smoke: {kind: local, glue: glue, squad: squad}")
WITHOUT_TASKS = ("blank_lines}]", "blank_lines}], cleaning: {decontaminate: {tasks: smoke}}")


def write(**texts):
    """Write files of the user; `text_a` stands for text/a.txt, `t` for t.tsv."""
    for name, text in texts.items():
        folder, _, stem = name.rpartition("_")
        path = Path(folder, f"{stem}.txt" if folder else f"{stem}.tsv")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def record(settings):
    """Record the hashes of every entry, and return them."""
    Path("params.yaml").write_text(settings)
    params = load()
    for section in ("corpora", "tasks"):
        for name in getattr(params, section):
            inputs.record_files(section, name, params)
    files = Path("build/inputs").rglob("*.json")
    return {f"{path.parent.name}/{path.stem}": read_json(path) for path in files}


def changed(before, settings):
    """Record them again, and return which are others, and all."""
    after = record(settings)
    return {key for key in after if after[key] != before[key]}, after


def test_changed_file_changes_the_entries_that_name_it(here, monkeypatch):
    write(text_a="one", text_b="one", t="one")
    before = record(OWN)
    assert [name for name, _ in before["corpora/smoke"]] == ["a.txt", "b.txt"]
    assert before["corpora/absent"] == [] and before["tasks/smoke"][1] == ["d.tsv", None]
    hashed = []
    monkeypatch.setattr(
        inputs, "sha256_file", lambda path: hashed.append(path) or sha256_file(path)
    )
    assert record(OWN) == before and hashed == []
    write(text_b="two")
    names, before = changed(before, OWN)
    assert names == {"corpora/smoke"}
    write(d="two")
    names, before = changed(before, OWN)
    assert names == {"tasks/smoke"} and hashed == [Path("text/b.txt"), Path("d.tsv")]
    old = Path("text/b.txt").stat()
    write(text_b="new")
    os.utime("text/b.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    names, _ = changed(before, OWN)
    assert names == {"corpora/smoke"}, "though size and time are as before"
    without = record(OWN.replace('"text/*.txt"', '"!text/b.txt", "text/*.txt"'))
    assert [name for name, _ in without["corpora/smoke"]] == ["a.txt"]


def test_corpus_compared_with_tasks_has_their_files_and_settings(here):
    settings = OWN.replace(*WITHOUT_TASKS)
    write(d="one")
    first = record(settings)["corpora/smoke"]
    write(d="two")
    second = record(settings)["corpora/smoke"]
    third = record(settings.replace("[a, b]", "[a, b], a: text"))["corpora/smoke"]
    assert [name for name, _ in first] == ["t.tsv", "d.tsv", "tasks.smoke"]
    assert (first[0], first[2]) == (second[0], second[2]) and first[1] != second[1]
    assert second[:2] == third[:2] and second[2] != third[2]
    tested = record(settings.replace("dev: d.tsv", "dev: d.tsv, test: e.tsv"))["corpora/smoke"]
    assert [name for name, _ in tested] == ["t.tsv", "d.tsv", "e.tsv", "tasks.smoke"]


def test_changed_vocabulary_changes_its_tokenizer_alone(here):
    Path("params.yaml").write_text(OWN)
    inputs.record_code(load())
    absent = read_json(Path("build/code.json"))
    assert absent["vocabularies"] == {"other": "", "smoke": ""}
    assert set(absent) - {"vocabularies"} < set(STAGES)
    vocabulary = Path("build/tokens/other/vocab.txt")
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_text("[PAD]")
    inputs.record_code(load())
    present = read_json(Path("build/code.json"))
    assert present["vocabularies"]["other"] and present["vocabularies"]["smoke"] == ""
    assert present | {"vocabularies": absent["vocabularies"]} == absent


def write_project(recipe="{}", text=OFFICIAL):
    text = text.replace("recipe: paper", "recipe: smoke")
    Path("params.yaml").write_text(text.replace("  smoke: {}", f"  smoke: {recipe}"))


def write_official(*names):
    for task in names or GLUE:
        layout = LAYOUTS[task]
        header = layout.headerless or tuple(filter(None, (layout.a, layout.b, layout.label)))
        label = GLUE[task].labels[0] if GLUE[task].labels else "1.0"
        row = [label if name == layout.label else "x" for name in header]
        for split in ("train", *GLUE[task].evaluation):
            path = Path("glue", layout.paths()[split])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\t".join(header) + "\n" + "\t".join(row) + "\n")


def test_missing_official_file_is_named_before_anything_is_read(here, capsys):
    write_project()
    write(text_a="text")
    Path("squad").mkdir()
    write_official()
    assert "glue/SST-2/dev.tsv" in inputs.list_files("tasks", "smoke", load())
    Path("glue/SST-2/dev.tsv").unlink()
    sentence = (
        "tasks.smoke: there is no glue/SST-2/dev.tsv; put the dev rows of sst2 there, or leave sst2 "
        "out of recipes.paper.run"
    )
    with pytest.raises(SourceUnreachable) as caught:
        tasks.run("smoke", load(), Tracker(None))
    assert str(caught.value) == sentence
    assert main(["check", "smoke"]) == 69
    assert sentence in capsys.readouterr().err
    write_project(text=OFFICIAL.replace(*WITHOUT_TASKS))
    with pytest.raises(SourceUnreachable, match=r"there is no glue/SST-2/dev\.tsv"):
        corpus.run("smoke", load(), Tracker(None))
    write_official()
    expected = (
        r"there is no squad/train-v2.0.json.*leave squad2 out of recipes\.\w+\.squad\.versions"
    )
    with pytest.raises(SourceUnreachable, match=expected):
        tasks.run("smoke", load(), Tracker(None))


def test_only_tasks_of_some_model_are_needed_and_mnli_not_its_second_dev_set(here, capsys):
    write_project("{run: [mnli, cola]}", OFFICIAL.replace(", squad: squad", ""))
    needed = dict.fromkeys(("mnli", "cola"), "recipes.smoke.run")
    assert inputs.needed_tasks(load(), "smoke") == needed
    write_official("mnli", "cola")
    Path("glue/MNLI/dev_mismatched.tsv").unlink()
    with Path("glue/MNLI/train.tsv").open("a") as file:
        file.write("cut\n")
    tasks.run("smoke", load(), Tracker(None))
    messages = capsys.readouterr().err
    assert "there is no glue/MNLI/dev_mismatched.tsv; mnli is scored without" in messages
    advice = "see build/tasks/smoke/quarantine.jsonl, and tasks.smoke.quarantine to change it"
    assert f"warning: tasks.smoke: 1 of 5 rows (20.00%) cannot be read; {advice}" in messages
    assert Path("build/tasks/smoke/mnli/dev.jsonl").is_file()


def test_every_file_of_an_own_task_is_needed(here, capsys):
    Path("params.yaml").write_text(OWN)
    write(text_a="text", t="sentence\tlabel\n")
    assert main(["check", "smoke"]) == 65
    assert "no file matches 'd.tsv'" in capsys.readouterr().err


def test_damaged_notes_are_not_believed(here):
    write(text_a="one")
    before = record(OWN)
    ((_, sha256),) = before["corpora/smoke"]
    edit(inputs.NOTES, sha256, sha256[::-1])
    assert record(OWN) == before
