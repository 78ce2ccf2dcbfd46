"""The tasks stage: official files in, rows out, every row accounted for."""

import shutil

import pytest

from electra.errors import BadInput, SourceUnreachable
from electra.files import read_jsonl
from electra.finetuning.tasks import GLUE
from electra.storage.manifest import verify_manifest
from pipelines.sources import HubDataset, HubTasks, LocalTasks, SampleTasks, hub
from pipelines.stages.tasks import gather, hash_input, hub_splits

HEADER = "index\tsentence1\tsentence2\tlabel\n"
ROW = "{}\tA man sleeps.\tA man rests.\tentailment\n"


def rte(folder, *, rows=40, bad=0, split="train"):
    (folder / "RTE").mkdir(parents=True, exist_ok=True)
    lines = [ROW.format(i) for i in range(rows)] + ["9\tA.\tB.\tmaybe\n"] * bad
    (folder / "RTE" / f"{split}.tsv").write_text(HEADER + "".join(lines))
    return LocalTasks(kind="local", glue=str(folder))


@pytest.mark.slow
def test_the_sample_world_goes_through_its_official_files(tmp_path):
    first = gather(SampleTasks(kind="sample", seed=1), "tasks.s", tmp_path / "a")
    assert set(first["tasks"]) == {*GLUE, "squad1", "squad2"} and first["quarantined"] == 0
    official = tmp_path / "a/official"
    source = LocalTasks(kind="local", glue=str(official / "glue"), squad=str(official / "squad"))
    assert gather(source, "tasks.l", tmp_path / "b")["tasks"] == first["tasks"]
    for file in sorted((tmp_path / "b").rglob("*.jsonl")):
        assert file.read_bytes() == (tmp_path / "a" / file.relative_to(tmp_path / "b")).read_bytes()
    verify_manifest(tmp_path / "a")


def test_a_handful_of_bad_rows_is_quarantined_and_counted_and_more_stop(tmp_path):
    metrics = gather(rte(tmp_path / "glue", bad=5), "tasks.x", tmp_path / "out")
    assert metrics["tasks"]["rte"]["train"] == {"rows": 40, "quarantined": 5}
    assert metrics["quarantined"] == 5
    entries = read_jsonl(tmp_path / "out/quarantine.jsonl")
    assert entries[0]["where"].endswith("train.tsv:42")
    assert entries[0]["reason"] == "unknown label 'maybe', not one of entailment, not_entailment"
    with pytest.raises(
        BadInput, match=r"train.tsv:42: unknown label 'maybe'.*\(the first of 6 bad rows of 46"
    ):
        gather(rte(tmp_path / "glue", bad=6), "tasks.x", tmp_path / "six")
    assert {path.name for path in tmp_path.iterdir()} == {"glue", "out"}


def test_a_wrong_layout_or_an_empty_split_stops(tmp_path):
    source = rte(tmp_path / "glue")
    rte(tmp_path / "glue", rows=0, split="dev")
    for change, error, sentence in (
        (lambda: None, BadInput, "has no rows in rte dev"),
        (
            lambda: (tmp_path / "glue/RTE/dev.tsv").write_text("a\tb\n1\t2\n"),
            BadInput,
            r"dev.tsv:1: has no column",
        ),
        (
            lambda: shutil.rmtree(tmp_path / "glue/RTE"),
            BadInput,
            r"tasks\.x: has none of the tasks",
        ),
        (
            lambda: shutil.rmtree(tmp_path / "glue"),
            SourceUnreachable,
            r"tasks\.x\.glue: there is no folder",
        ),
    ):
        change()
        with pytest.raises(error, match=sentence):
            gather(source, "tasks.x", tmp_path / "out")


def test_the_diagnostic_set_is_a_test_split_of_mnli(tmp_path):
    header = "index\tsentence1\tsentence2\n"
    for name in ("MNLI/test_matched.tsv", "diagnostic/diagnostic.tsv"):
        (tmp_path / "glue" / name).parent.mkdir(parents=True)
        (tmp_path / "glue" / name).write_text(
            header + '0\tThe "cat" sat.\tA cat sat.\n1\tA cat sat.\tNo cat sat.\n'
        )
    metrics = gather(
        LocalTasks(kind="local", glue=str(tmp_path / "glue")), "tasks.x", tmp_path / "out"
    )
    assert metrics["tasks"]["mnli"] == {
        split: {"rows": 2, "quarantined": 0} for split in ("test", "test_diagnostic")
    }
    rows = read_jsonl(tmp_path / "out/mnli/test_diagnostic.jsonl")
    assert rows[0] == {"id": "0", "a": 'The "cat" sat.', "b": "A cat sat.", "label": None}
    assert rows[1]["id"] == "1"


def test_a_dev_row_repeats_one_of_its_own_task_by_text_or_by_words(tmp_path):
    source = rte(tmp_path / "glue")
    folder = tmp_path / "glue/WNLI"
    folder.mkdir()
    (folder / "train.tsv").write_text(HEADER + "0\tA dog barks.\tA dog.\t1\n")
    (folder / "dev.tsv").write_text(HEADER + "0\tA man sleeps.\tA man rests.\t1\n")
    found = gather(source, "tasks.x", tmp_path / "out")["tasks"]["wnli"]
    assert found["dev"] == {"rows": 1, "quarantined": 0}
    first, second = ({"words": ["A", word]} for word in ("dog", "cat"))
    assert hash_input(first) != hash_input(second)


def test_squad_of_the_hub_has_train_and_validation_rows(monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "resolve", lambda *_: "f" * 40)
    monkeypatch.setattr(hub, "read_rows", lambda *place: asked.append(place[2]) or [])
    source = HubTasks(kind="hub", squad2=HubDataset(dataset="made/squad", revision="main"))
    found = [(task, split) for task, split, _ in hub_splits(source, "tasks.x")]
    assert found == [("squad2", "train"), ("squad2", "dev")] and asked == ["train", "validation"]
