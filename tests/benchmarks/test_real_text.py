"""The comparison on real text: a run in several sittings is one run, arms cost alike, scores are compared by task."""

import contextlib
import dataclasses
import itertools
import math
import re
import shutil
import signal
import statistics
from types import SimpleNamespace

import pytest

from benchmarks import real_text, sittings
from electra.config import build, plain
from electra.errors import BadInput, Stopped
from electra.files import read_json, write_json
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.flops import step_flops, training_flops
from electra.pretraining.trainer import Launch, pretrain
from electra.storage.manifest import write_manifest, write_sealed
from electra.storage.run_dir import ASIDE
from pipelines.report.comparison import difference, seeds_needed
from pipelines.report.table import signed
from tests.conftest import ROOT
from tests.electra.helpers import SPECIAL, VOCAB, MadeUpRows, config

PHASES = [{"length": 16, "share": 0.75}, {"length": 24, "share": 0.25, "batch": 4}]


def settings(steps: int) -> ElectraConfig:
    values = plain(config(encoder__embedding=32, encoder__init="neighbours"))
    values["pretrain"] |= {"phases": PHASES, "steps": steps, "schedule": "warmup_stable_decay", "decay_share": 0.25}
    return build(ElectraConfig, values, "test")


class InMemory:
    """What `train` asks of a model's rows."""

    digest, tokenizer = "rows", SimpleNamespace(identity="pieces")

    def __init__(self, killed_at: int = -1) -> None:
        self.killed_at, self.counted, self.noted = killed_at, [], list[float]()

    def train(self, config, run, *, log, launch, owner):
        self.counted.append((launch.title, launch.until))

        class Killing(launch.bar):
            def update(bar, done, **numbers):
                super().update(done, **numbers)
                self.noted.append(sittings.sittings(run)["seconds"])
                if done == self.killed_at:
                    signal.raise_signal(signal.SIGTERM)

        launch = dataclasses.replace(launch, bar=Killing)

        data = Data(MadeUpRows(64), MadeUpRows(16, seed=1), SPECIAL, VOCAB, others={16: MadeUpRows(64, 16)})
        return pretrain(config, data, run, owner, log=log, launch=launch)


def weights(trained):
    return {name: value.tolist() for name, value in trained.model.state_dict().items()}


def test_a_run_made_longer_in_a_second_sitting_is_to_the_byte_a_run_of_so_many_steps(tmp_path, capsys):
    rows = InMemory()
    first = sittings.train(settings(16), rows, tmp_path / "electra-1")
    assert re.search(r"electra-1, phase 1 of 2 \(rows of 16\): .* tokens/s, 6 steps in about", capsys.readouterr().err)
    longer = sittings.train(settings(24), rows, tmp_path / "electra-1")
    assert rows.counted == [("electra-1", 12), ("electra-1-16", None), ("electra-1", 18), ("electra-1-24", None)]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "electra-1",
        "electra-1-16",
        "electra-1-24",
    ]
    for steps, found in ((16, first), (24, longer)):
        direct = InMemory().train(
            settings(steps), tmp_path / f"direct-{steps}", log=lambda *_: None, launch=Launch(title="direct"), owner={}
        )
        assert weights(found) == weights(direct) and found.steps == steps
        assert found.history[-1]["disc_auc"] == direct.history[-1]["disc_auc"]
    assert weights(first) != weights(longer)
    flat, whole = (sittings.sittings(tmp_path / name) for name in ("electra-1", "electra-1-24"))
    assert 0 < flat["seconds"] < whole["seconds"] and flat["commits"] == whole["commits"]


@pytest.mark.parametrize("at", [10, 20])  # in the flat part, and after it
def test_a_stopped_run_goes_on_where_it_was(tmp_path, at):
    with pytest.raises(Stopped, match=f"after step {at} "):
        sittings.train(settings(24), InMemory(killed_at=at), tmp_path / "electra-1")
    found = sittings.train(settings(24), InMemory(), tmp_path / "electra-1")
    assert weights(found) == weights(sittings.train(settings(24), InMemory(), tmp_path / "other-1"))


def test_fewer_steps_than_a_run_has_had_are_refused(tmp_path):
    sittings.train(settings(48), InMemory(), tmp_path / "electra-1")
    with pytest.raises(BadInput, match=r"electra-1: is at step 36; expected at most 12; ask for more steps"):
        sittings.train(settings(16), InMemory(), tmp_path / "electra-1")


def test_a_flat_run_of_other_settings_is_refused(tmp_path):
    sittings.train(settings(16), InMemory(), tmp_path / "electra-1")
    shutil.rmtree(tmp_path / "electra-1-16")
    other = settings(16)
    other = dataclasses.replace(other, objective=dataclasses.replace(other.objective, discriminator_weight=10.0))
    for steps in (16, 24):  # whether it is to go on or not
        longer = dataclasses.replace(other, pretrain=dataclasses.replace(other.pretrain, steps=steps))
        with pytest.raises(BadInput, match="electra-1: is of other settings or rows; expected a flat run of these"):
            sittings.train(longer, InMemory(), tmp_path / "electra-1")
    assert [path.name for path in tmp_path.iterdir()] == ["electra-1"]


def test_a_branch_of_other_settings_is_refused_and_moved_away_takes_its_notes_along(tmp_path):
    sittings.train(settings(16), InMemory(), tmp_path / "electra-1")
    other = settings(16)
    other = dataclasses.replace(other, objective=dataclasses.replace(other.objective, discriminator_weight=10.0))
    with pytest.raises(BadInput, match="electra-1-16: is of other settings or rows; expected a run of these; move"):
        sittings.train(other, InMemory(), tmp_path / "electra-1")
    for name in ("electra-1", "electra-1-16"):
        (tmp_path / name).rename(tmp_path / f"{name}-before")
        assert sittings.sittings(tmp_path / name)["seconds"] == 0
        assert sittings.sittings(tmp_path / f"{name}-before")["seconds"] > 0
    sittings.train(other, InMemory(), tmp_path / "electra-1")


def test_what_a_killed_sitting_has_cost_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(sittings, "SECONDS", 2.0)
    monkeypatch.setattr(sittings, "time", SimpleNamespace(process_time=itertools.count(0.0).__next__))
    rows = InMemory()
    sittings.train(settings(16), rows, tmp_path / "electra-1")
    assert len({*rows.noted}) > 4 and rows.noted == sorted(rows.noted)
    assert rows.noted[-1] < sittings.sittings(tmp_path / "electra-1-16")["seconds"]


def test_a_signal_at_the_flat_parts_last_step_is_heeded(tmp_path):
    with pytest.raises(Stopped, match="electra-1: stopped by signal 15 after step 12 "):
        sittings.train(settings(16), InMemory(killed_at=12), tmp_path / "electra-1")
    assert not (tmp_path / "electra-1-16").exists()
    sittings.train(settings(16), InMemory(), tmp_path / "electra-1")


def test_a_run_that_left_but_a_step_that_was_not_finite_is_another_run_too(tmp_path):
    (tmp_path / "electra-1").mkdir()
    write_sealed(tmp_path / "electra-1/nonfinite-step-9.json", {"step": 9, "fingerprint": {"config": "other"}})
    with pytest.raises(BadInput, match="electra-1: is of other settings or rows; expected a flat run of these; move"):
        sittings.train(settings(16), InMemory(), tmp_path / "electra-1")


def test_what_a_run_that_was_put_aside_has_cost_comes_back_with_it(tmp_path):
    sittings.train(settings(16), InMemory(), tmp_path / "electra-1")
    shutil.rmtree(tmp_path / "electra-1-16")
    write_json(tmp_path / "electra-1/sittings.json", {"seconds": 1000.0, "commits": []})
    (tmp_path / "electra-1").rename(tmp_path / f"electra-1{ASIDE}x")
    sittings.train(settings(24), InMemory(), tmp_path / "electra-1")
    assert sittings.sittings(tmp_path / "electra-1")["seconds"] > 1000


def test_the_masked_language_model_has_as_many_operations():
    flops = 400 * step_flops(settings(400), VOCAB, "matmul")
    electra, mlm = (real_text.settings(settings(400), arm, 3, flops, VOCAB) for arm in ("electra", "mlm"))
    assert electra == dataclasses.replace(settings(400), pretrain=dataclasses.replace(settings(400).pretrain, seed=3))
    assert mlm.objective.name == "mlm" and mlm.objective.written == electra.objective.written
    assert mlm.pretrain.steps > 400
    operations = [training_flops(each, VOCAB, "matmul") for each in (electra, mlm)]
    assert operations[0] == pytest.approx(operations[1], rel=0.01)


@pytest.mark.parametrize("network", real_text.NETWORKS)
def test_another_network_has_as_many_operations_and_the_same_recipe(network):
    own, params = (real_text.prepared(name) for name in ("", network))
    base, other = (each.models[real_text.MODEL].electra() for each in (own, params))
    assert other.encoder != base.encoder and dataclasses.replace(other, encoder=base.encoder) == base
    assert params.recipe(real_text.MODEL) == own.recipe(real_text.MODEL)
    flops = real_text.flops_of(params, 12_000, 8192)
    assert flops == 12_000 * step_flops(base, 8192, "matmul")
    config = real_text.settings(other, "electra", 1, flops, 8192)
    assert training_flops(config, 8192, "matmul") == pytest.approx(flops, rel=0.01)


@pytest.fixture
def stubbed(tmp_path, monkeypatch):
    """`main` in a folder of its own, with runs that cost nothing; what it ran."""
    ran = list[str]()
    monkeypatch.setattr(real_text, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(real_text, "ModelRows", lambda *_: SimpleNamespace(digest="rows"))

    def pretrained(params, home, arm, seed, steps):
        assert home.name == f"{arm}-{seed}"
        model = home.with_name(f"{home.name}-{steps}") / "model"
        model.mkdir(parents=True)
        encoder = plain(params.models[real_text.MODEL].encoder)
        write_json(model.with_name("found.json"), {"config": {"encoder": encoder}, "rows_sha256": "rows"})
        curve = [{"tokens": 1, "disc_auc": 0.5}]
        return model, {"seed": seed, "curve": curve, "rows_sha256": "rows"}

    def finetuned(params, folder, arm, state, seed, tasks):
        ran.append(f"{arm}-{seed}")
        return {task: [50.0 + seed] for task in tasks}

    def rows_of(params, tasks):
        return dict.fromkeys(tasks, "hash")

    stubs = {"pretrained": pretrained, "finetuned": finetuned, "prepare": lambda _: None, "rows_of": rows_of}
    for name, stub in stubs.items():
        monkeypatch.setattr(real_text, name, stub)
    for name in ("load_encoder", "probe"):
        monkeypatch.setattr(real_text, name, lambda *_, **__: None)
    monkeypatch.setattr(real_text.tokenizers, "load", lambda _: None)
    monkeypatch.setattr(real_text, "OUT", tmp_path)

    def run(*arguments: str) -> tuple[int, list[str]]:
        ran.clear()
        monkeypatch.setattr("sys.argv", ["benchmarks/real_text.py", "--steps", "40", *arguments])
        return real_text.main(), list(ran)

    return run


def test_further_seeds_are_added_to_the_record(tmp_path, stubbed, capsys):
    record = tmp_path / "real-text-40.json"
    both = [f"{arm}-{seed}" for seed in (1, 2) for arm in ("electra", "mlm", "scratch")]
    assert stubbed("--seeds", "2") == (0, both)
    first = read_json(record)
    capsys.readouterr()
    shutil.rmtree(tmp_path / "runs")  # of another machine
    assert stubbed("--seeds", "3", "--add") == (0, ["electra-3", "mlm-3", "scratch-3"])
    added = read_json(record)
    table = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert table[:3] == ["| CoLA", "| SST-2", "| MRPC"]
    assert added["tasks"]["rte"]["electra"]["scores"] == [51.0, 52.0, 53.0]
    assert [run["seed"] for run in added["pretraining"]["mlm"]] == [1, 2, 3]
    assert added["added to"] == {key: first[key] for key in ("command", "commit", "machine", "recorded", "versions")}
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["electra-3-40", "mlm-3-40"]


def test_fresh_weights_take_the_sizes_of_an_electra_that_is_there(tmp_path, stubbed):
    assert stubbed("--seeds", "2", "--only", "electra-2")[0] == 0
    assert stubbed("--seeds", "2", "--only", "scratch-1") == (0, ["scratch-1"])
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["electra-2-40"]
    found = tmp_path / "runs/electra-2-40/found.json"
    write_json(found, read_json(found) | {"rows_sha256": "others"})
    assert stubbed("--seeds", "2", "--only", "scratch-1") == (0, ["scratch-1"])
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["electra-1-40", "electra-2-40"]


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("settings", {}, "has settings other than"),
        ("recipe", {}, "has a recipe other than"),
        ("finetunings", {"scratch": [{"rte": [50.0]}]}, "has tasks other than"),
        ("pretraining", {"mlm": [{"rows_sha256": "others"}]}, "has rows other than"),
        ("task_rows", {"cola": "others"}, "has task rows other than"),
    ],
)
def test_seeds_are_not_added_to_a_record_of_something_else(tmp_path, stubbed, capsys, part, value, told):
    stubbed("--seeds", "1")
    record = tmp_path / "real-text-40.json"
    write_json(record, read_json(record) | {part: value})
    assert stubbed("--add") == (BadInput.exit_code, [])
    assert f"real-text-40.json: {told} those of the comparison here" in capsys.readouterr().err


def test_a_record_whose_tasks_rows_have_no_hash_is_added_to_and_gets_none(tmp_path, stubbed):
    stubbed("--seeds", "1")
    path = tmp_path / "real-text-40.json"
    record = read_json(path)
    assert record.pop("task_rows")["cola"] == "hash"
    write_json(path, record)
    assert stubbed("--seeds", "2", "--add") == (0, ["electra-2", "mlm-2", "scratch-2"])
    assert "task_rows" not in read_json(path)


def test_a_record_that_has_all_seeds_is_left_as_it_is(tmp_path, stubbed, capsys):
    stubbed("--seeds", "2")
    before = (tmp_path / "real-text-40.json").read_bytes()
    assert stubbed("--seeds", "2", "--add") == (BadInput.exit_code, [])
    assert "real-text-40.json: has all these seeds; expected further ones; ask for more" in capsys.readouterr().err
    assert (tmp_path / "real-text-40.json").read_bytes() == before


def test_rows_of_other_text_are_made_anew(tmp_path, monkeypatch):
    made = list[str]()

    def make_rows(rows, where, corpus, folder, work):
        made.append((corpus / "documents-0.jsonl").read_text())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "MANIFEST.json").write_text(made[-1])
        if made[-1] == "b":  # killed when they are there, and it is not noted yet
            raise KeyboardInterrupt

    monkeypatch.chdir(ROOT)
    params = real_text.prepared()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(real_text, "make_rows", make_rows)
    monkeypatch.setattr(real_text, "RUNS", tmp_path / "runs")
    name = params.tokens[real_text.MODEL].corpus
    for folder in (f"build/corpus/{name}", f"build/tasks/{params.finetunings[real_text.BASE].tasks}"):
        (tmp_path / folder).mkdir(parents=True)
    for text in "aaba":
        (tmp_path / f"build/corpus/{name}/documents-0.jsonl").write_text(text)
        write_manifest(tmp_path / f"build/corpus/{name}")
        with contextlib.suppress(KeyboardInterrupt):
            real_text.prepare(params)
    assert made == ["a", "b", "a"]


@pytest.mark.parametrize("rows", ["rows", "others"])
def test_a_model_of_other_rows_is_not_taken(tmp_path, monkeypatch, rows):
    monkeypatch.chdir(ROOT)
    params, of = real_text.prepared(), SimpleNamespace(digest="rows", tokenizer=SimpleNamespace(vocab_size=VOCAB))
    monkeypatch.setattr(real_text, "ModelRows", lambda *_: of)
    flops = real_text.flops_of(params, 400, VOCAB)
    config = real_text.settings(params.models[real_text.MODEL].electra(), "electra", 1, flops, VOCAB)
    known = {"config": real_text.of_config(config), "rows_sha256": rows}
    write_json(tmp_path / "electra-1-400/found.json", known)

    def train(*_):
        raise BadInput("train", "was called", "")

    monkeypatch.setattr(real_text, "train", train)
    if rows == "rows":
        assert real_text.pretrained(params, tmp_path / "electra-1", "electra", 1, 400)[1] == known
    else:
        with pytest.raises(BadInput, match="was called"):
            real_text.pretrained(params, tmp_path / "electra-1", "electra", 1, 400)


@pytest.mark.parametrize("more", [[], ["--only", "mlm-1"]])
def test_add_needs_a_record_and_writes_one(stubbed, more):
    if more:
        stubbed("--seeds", "1")
    with pytest.raises(SystemExit, match="2"):
        stubbed("--add", *more)


@pytest.mark.parametrize("arms", [["electra", "scratch"], ["mlm", "scratch"], ["scratch"]])
def test_arms_that_did_not_run_are_not_compared(tmp_path, stubbed, arms):
    assert stubbed("--seeds", "2", "--network", "modern", "--arms", *arms, "--tasks", "rte")[0] == 0
    found = read_json(tmp_path / "real-text-40-modern.json")["tasks"]
    assert list(found) == ["rte"] and set(found["rte"]) == {*arms, *([" - ".join(arms)] if len(arms) == 2 else [])}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["modern"]


def test_pretrainings_are_compared_task_by_task():
    scores = {
        "electra": [
            {"cola": [59.0, 61.0], "rte": [70.0], "squad1": [9.0]},
            {"cola": [62.0], "rte": [70.0], "squad1": [9.5]},
        ],
        "mlm": [{"cola": [60.0], "rte": [50.0], "squad1": [8.0]}, {"cola": [61.0], "rte": [52.0], "squad1": [8.0]}],
        "scratch": [{"cola": [40.0], "rte": [50.0], "squad1": [7.0]}, {"cola": [41.0], "rte": [52.0], "squad1": [7.4]}],
    }
    found = real_text.compared(scores, {"mean of 2": ["cola", "rte"]})
    assert list(found) == ["mean of 2", "cola", "rte", "squad1"]
    assert found["mean of 2"]["electra"] == {"scores": [65.0, 66.0], "mean": 65.5, "std": 0.71}
    assert found["mean of 2"]["electra - scratch"]["points"] == pytest.approx(19.75)
    assert found["mean of 2"]["electra - scratch"]["reading"] == "came out"
    close = found["cola"]["electra - mlm"]
    assert close["reading"] == f"too close, would need {seeds_needed(close['sds'])} seeds an arm"
    curve = [{"tokens": 0, "disc_auc": 0.5}, {"tokens": 10**6, "disc_auc": 0.7}]
    figure = real_text.draw({"pretraining": {"electra": [{"curve": curve}] * 2}, "tasks": found})
    assert len(figure.axes[0].lines) == 2
    titles = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert titles == ["mean of 2", "CoLA", "RTE", "SQuAD 1.1"]
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == [
        name for name, _ in real_text.ARMS.values()
    ]


def test_the_page_says_what_the_record_says():
    record = read_json(ROOT / "benchmarks/results/real-text-12000.json")
    page = (ROOT / "docs/real-text.md").read_text(encoding="utf-8")
    for line in real_text.lines(record["tasks"]):
        assert line in page
    networks_note = (ROOT / "docs/notes/real-text-networks.md").read_text(encoding="utf-8")
    networks = {
        "two layers, paper's": "12000",
        "four layers, paper's": "12000-deep",
        "two layers, modern": "12000-modern",
    }
    for title, name in networks.items():
        other = read_json(ROOT / f"benchmarks/results/real-text-{name}.json")
        for arm, (words, _) in real_text.ARMS.items():
            if arm in other["pretraining"]:
                assert real_text.network_line(f"{title}, {words}", arm, other) in networks_note
            if arm in other["finetunings"]:
                assert real_text.task_line(f"{title}, {words}", arm, other) in networks_note
    note = (ROOT / "docs/notes/real-text-recipe.md").read_text(encoding="utf-8")
    for steps, name in ((3976, "3976"), (12000, "12000-fewer-rows")):
        assert real_text.longer(steps, read_json(ROOT / f"benchmarks/results/real-text-{name}.json")) in note
    arms = record["pretraining"]
    assert {arm: len(runs) for arm, runs in arms.items()} == {"electra": 3, "mlm": 3}
    for key, title in (
        ("flops_matmul_convention", "FLOPs in matrix products"),
        ("flops", "FLOPs as the authors' script counts"),
    ):
        told = " | ".join(f"{runs[0][key] / 1e13:.2f} × 10¹³" for runs in arms.values())
        assert f"| {title} | {told} |" in page
    told = " | ".join(f"{runs[0]['steps']:,}, {runs[0]['curve'][-1]['tokens'] / 1e6:.1f}" for runs in arms.values())
    assert f"| steps, million tokens | {told} |" in page
    told = " | ".join(", ".join(f"{run['seconds'] / 60:.0f}" for run in runs) for runs in arms.values())
    assert f"| processor minutes of a run (the last on another machine) | {told} |" in page
    for kind in ("swapped", "dropped", "inflected"):
        told = " | ".join(", ".join(f"{run['pairs'][kind]:.1f}" for run in runs) for runs in arms.values())
        assert f"| {kind} | {told} |" in note


def spread_of_mean(runs):
    """The deviation of a mean of six that its tasks' own spread over pre-trainings would give."""
    of_tasks = [statistics.variance([statistics.fmean(run[task]) for run in runs]) for task in real_text.SIX]
    return math.sqrt(sum(of_tasks)) / len(of_tasks)


def test_the_pages_doubts_are_the_records_own():
    record = read_json(ROOT / "benchmarks/results/real-text-12000.json")
    scores, lead = record["finetunings"], record["tasks"]["mean of 6"]["electra - mlm"]["points"]
    six = ["cola", "sst2", "mrpc", "stsb", "qnli", "rte"]

    def mean(tasks, arm):
        return round(statistics.fmean(statistics.fmean(run[task]) for run in scores[arm] for task in tasks), 1)

    assert [mean(six[1:], arm) for arm in ("electra", "mlm", "scratch")] == [68.3, 68.6, 65.3]
    assert [mean([*six[1:], "qqp", "mnli"], arm) for arm in ("electra", "mlm")] == [67.5, 67.6]
    spreads = [spread_of_mean(scores[arm]) for arm in ("electra", "mlm")]
    assert round(spreads[0], 1) == 0.6
    students_t = 2.31  # of eight degrees of freedom: six variances of each, some far larger than others
    reach = students_t * math.sqrt(sum(spread**2 for spread in spreads) / 3)
    assert reach > lead > 0


def test_what_is_said_of_the_judge_and_of_four_layers_is_in_the_records():
    trials = read_json(ROOT / "benchmarks/results/real-text-trials.json")["sharing"]["runs"]
    assert [round(trials[name]["curve"][-1]["auc_fixed_rows"], 2) for name in ("all10", "all", "g25")] == [
        0.67,
        0.80,
        0.86,
    ]
    two, four = (read_json(ROOT / f"benchmarks/results/real-text-12000{name}.json") for name in ("", "-deep"))
    higher = {
        task: round(four["tasks"][task]["electra"]["mean"] - two["tasks"][task]["electra"]["mean"], 1)
        for task in real_text.SIX
    }
    assert {task for task, points in higher.items() if points < 0} == {"cola", "sst2", "stsb", "rte"}
    assert [higher["mrpc"], higher["qnli"]] == [0.0, 0.8]
    (one,), runs = four["pretraining"]["electra"], two["pretraining"]["electra"]
    for name in ("swapped", "dropped", "inflected"):
        assert min(run["pairs"][name] for run in runs) <= one["pairs"][name] <= max(run["pairs"][name] for run in runs)
    aucs = [run["curve"][-1]["disc_auc"] for run in runs]
    assert min(aucs) < one["curve"][-1]["disc_auc"] < max(aucs)


def test_the_note_on_networks_says_what_its_records_say():
    note = (ROOT / "docs/notes/real-text-networks.md").read_text(encoding="utf-8").replace("\n  ", " ")
    record = read_json(ROOT / "benchmarks/results/real-text-12000-modern.json")
    scores, six = record["finetunings"], record["tasks"]["mean of 6"]
    fives = [
        [statistics.fmean(statistics.fmean(run[task]) for task in real_text.SIX[1:]) for run in scores[arm]]
        for arm in ("electra", "mlm")
    ]
    five, of_five = [statistics.fmean(runs) for runs in fives], difference(*fives)
    lead = six["electra - mlm"]
    assert lead["reading"] == "came out"
    assert f"ELECTRA is {lead['points']:.1f} above" in note
    assert f"interval {lead['low']:.1f} to {lead['high']:.1f}" in note
    students_t = 2.71  # of 4.3 degrees of freedom, by Welch and Satterthwaite: twelve variances of one each
    reach = students_t * math.sqrt(sum(spread_of_mean(scores[arm]) ** 2 for arm in ("electra", "mlm")) / 2)
    assert reach == pytest.approx((lead["high"] - lead["low"]) / 2, abs=0.05)
    assert f"the other five are {five[0]:.1f} against {five[1]:.1f}, inside noise" in note
    assert f"interval {signed(of_five.low)} to {of_five.high:.1f})" in note
    assert "came out" not in {
        record["tasks"][task]["electra - scratch"]["reading"] for task in ("mean of 6", *real_text.SIX)
    }
    assert record["tasks"]["stsb"]["electra - scratch"]["reading"] == "reversed"
    trials = read_json(ROOT / "benchmarks/results/real-text-trials.json")["rates_of_the_modern_encoder"]["runs"]
    of_two = [run for run in trials if run["task"] != "cola"]
    behind = [run for run in of_two if run["electra"] >= run["scratch"]]
    assert [sum(run["task"] == task for run in trials) for task in ("stsb", "qnli", "cola")] == [6, 3, 4] and not behind
    assert [sum(run["mlm"] < run["scratch"] for run in of_two if "mlm" in run), len(of_two)] == [5, 9]
    assert all(run["electra"] > run["scratch"] for run in trials if run["task"] == "cola")
