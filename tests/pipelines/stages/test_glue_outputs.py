"""What the glue stage leaves beside scores: test sets, ensembles, kept models; other starts; own
tasks; kills.
"""

import json
from pathlib import Path

import pytest

from electra.errors import BadConfig
from electra.files import read_jsonl, write_jsonl
from electra.storage.manifest import write_manifest
from pipelines.cli import main
from pipelines.config.params import load
from pipelines.stages import STAGES, glue, published, squad, tasks
from pipelines.tracking import Tracker
from tests.pipelines.stages.test_glue import workspace  # noqa: F401

ROWS = Path("build/tasks/made_up")


def change(old: str, new: str) -> None:
    text = Path("params.yaml").read_text()
    assert old in text
    Path("params.yaml").write_text(text.replace(old, new))


def add_test_sets() -> None:
    for name in ("cola", "mnli", "stsb"):
        rows = [{**row, "label": None} for row in read_jsonl(ROWS / name / "dev.jsonl")[:7]]
        for split in ("test", "test_mismatched", "test_diagnostic")[: 3 if name == "mnli" else 1]:
            write_jsonl(ROWS / name / f"{split}.jsonl", rows)
    write_manifest(ROWS, kind="tasks", name="made_up")


def test_test_sets_are_predicted_in_the_leaderboards_form_and_by_all_seeds_together(
    workspace,  # noqa: F811
) -> None:
    add_test_sets()
    change("seeds: [1, 2],", "seeds: [1, 2], test: true, ensemble: true,")
    change("run: [cola, mnli, mrpc, stsb]", "run: [cola, mnli, stsb]")
    glue.run("small", load(), Tracker(None))
    made = {
        path.name: path
        for path in Path("build/glue/small/leaderboard/pretrained-ensemble").iterdir()
    }
    assert set(made) == {"CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv", "STS-B.tsv"}
    assert set(made) >= {
        path.name for path in Path("build/glue/small/leaderboard/scratch-seed2").iterdir()
    }
    header, *lines = made["STS-B.tsv"].read_text().splitlines()
    assert header == "index\tprediction" and len(lines) == 7
    diagnostic = [line.split("\t")[1] for line in made["AX.tsv"].read_text().splitlines()[1:]]
    assert len(diagnostic) == 7 and set(diagnostic) <= {"contradiction", "entailment", "neutral"}
    assert Path("build/glue/small/mnli/pretrained-seed1-test-diagnostic.jsonl").is_file()
    seeds = [
        read_jsonl(Path(f"build/glue/small/stsb/pretrained-seed{seed}-test.jsonl"))
        for seed in (1, 2)
    ]
    assert all(line["label"] is None for line in seeds[0])
    means = [sum(rows[at]["logits"][0] for rows in seeds) / 2 * 5 for at in range(7)]
    expected = [f"{min(max(mean, 0), 5):.3f}" for mean in means]
    assert [line.split("\t")[1] for line in lines] == pytest.approx(list(map(str, expected)))
    result = json.loads(Path("build/glue/small/results.json").read_text())["tasks"]["mnli"]
    assert set(result["ensemble"]) == {"pretrained", "scratch"} and result["ensemble"]["scratch"][
        "seeds"
    ] == [1, 2]
    assert 0 <= result["ensemble"]["scratch"]["accuracy"] <= 100


def test_without_the_diagnostic_set_there_is_no_file_of_it(workspace) -> None:  # noqa: F811
    add_test_sets()
    (ROWS / "mnli/test_diagnostic.jsonl").unlink()
    write_manifest(ROWS, kind="tasks", name="made_up")
    change("seeds: [1, 2],", "seeds: [1], test: true, arms: [pretrained],")
    change("run: [cola, mnli, mrpc, stsb]", "run: [mnli]")
    glue.run("small", load(), Tracker(None))
    made = {path.name for path in Path("build/glue/small/leaderboard/pretrained-seed1").iterdir()}
    assert made == {"MNLI-m.tsv", "MNLI-mm.tsv"}


def test_a_task_starts_from_anothers_encoder(workspace) -> None:  # noqa: F811
    change("run: [cola, mnli, mrpc, stsb]", "run: [mrpc, mnli]")
    glue.run("small", load(), Tracker(None))
    before = json.loads(Path("build/glue/small/results.json").read_text())["tasks"]
    change("{mrpc: {both_orders: true}}", "{mrpc: {both_orders: true, start: mnli}}")
    glue.run("small", load(), Tracker(None))
    after = json.loads(Path("build/glue/small/results.json").read_text())["tasks"]
    assert after["mnli"] == before["mnli"] and after["mrpc"]["scratch"] == before["mrpc"]["scratch"]
    lines = read_jsonl(Path("build/glue/small/mrpc/pretrained-seed2.jsonl"))
    assert (
        len(lines) == 20
        and Path("build/glue/small/mnli/pretrained-seed2/model.safetensors").is_file()
    )
    configs, encoder = glue.configs_of("small", load()), Path("build/models/small/encoder")
    jobs = glue.plan_glue(configs, ROWS, encoder)
    job = next(
        job for job in jobs if (job.task.name, job.arm, job.seed) == ("mrpc", "pretrained", 2)
    )
    assert job.start is not None and (job.start.task.name, job.start.seed) == ("mnli", 2)
    assert job.start.folder == Path("runs/finetune") / job.start.fingerprint[:8]
    change("run: [mrpc, mnli]", "run: [mrpc]")
    with pytest.raises(
        BadConfig, match=r"tasks\.mrpc\.start: is 'mnli', should be a task that is run as well"
    ):
        load()


OWN = "published:\n  elsewhere: {folder: build/models/small/encoder}\n"
RECIPE = "  mood: {defaults: {seeds: [1], test: true, length: 12}, tasks: {mood: {epochs: 2}}}\nmodels:\n"
FINETUNING = "finetunings:\n  elsewhere: {model: elsewhere, tasks: mine, recipe: mood, arms: [pretrained, scratch]}\n"


def test_a_model_from_elsewhere_learns_a_task_of_ones_own(workspace) -> None:  # noqa: F811
    rows = [
        f"{'good' if at % 2 else 'bad'}\t{'cat runs' if at % 2 else 'dog sleeps'}\n"
        for at in range(20)
    ]
    Path("mood.tsv").write_text("mood\ttext\n" + "".join(rows))
    files = "train: mood.tsv, dev: mood.tsv, test: mood.tsv"
    mine = f"mine: {{kind: own, tasks: {{mood: {{{files}, a: text, label: mood, labels: [bad, good]}}}}}}"
    change("own: {kind: local, glue: here}", mine)
    change("published: {}\n", OWN)
    change("models:\n", RECIPE)
    change("finetunings:\n", FINETUNING)
    params = load()
    assert main(["check", "elsewhere"]) == main(["params", "elsewhere"]) == 0
    assert STAGES["glue"].inputs(params, "elsewhere") == ("tasks@mine", "published@elsewhere")
    tasks.run("mine", params, Tracker(None))
    published.run("elsewhere", params, Tracker(None))
    glue.run("elsewhere", params, Tracker(None))
    result = json.loads(Path("build/glue/elsewhere/results.json").read_text())
    assert (
        result["average"]["name"] == "mean over mood"
        and result["tasks"]["mood"]["metric"] == "accuracy"
    )
    scores = result["tasks"]["mood"]["pretrained"]["all"]
    assert scores["accuracy_test"] == scores["accuracy"], "a labelled test set is scored"
    assert Path("build/glue/elsewhere/mood/pretrained-seed1/task.json").is_file()
    squad.run("elsewhere", params, Tracker(None))
    assert json.loads(Path("build/squad/elsewhere/results.json").read_text())["versions"] == {}, (
        "no SQuAD"
    )
    change("mood: {epochs: 2}", "moods: {epochs: 2}")
    with pytest.raises(
        BadConfig, match=r"recipes\.mood\.tasks\.moods: no such task; did you mean mood\?"
    ):
        load()
