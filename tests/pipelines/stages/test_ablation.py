"""The ablation stage on a model of a few hundred weights: budgets, seeds, shared arms, failures,
resumption, points.
"""

import contextlib
import errno
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from electra.errors import CorruptFile, NonFinite, Stopped
from electra.files import lock_folder, read_json, write_json, write_jsonl
from electra.pretraining.config import Flops, PhaseConfig
from electra.pretraining.flops import step_flops, training_flops
from electra.pretraining.phases import make_phases
from electra.storage.manifest import write_checksummed, write_manifest
from electra.storage.run_dir import run_path
from pipelines import tracking
from pipelines.config.params import load
from pipelines.stages import PRETRAINING, ablation, corpus, tokens
from pipelines.stages.pretrain import ModelRows
from pipelines.versioning.code import code_digest
from tests.support.pretraining import TWO_STAGES, config
from tests.support.project import SMOKE, copy_text

ABLATIONS = """
ablations:
  objectives:
    title: Objectives
    base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}
    arms: {electra: {}, mlm: {objective.name: mlm}}
    protocol:
      tasks: [cola]
      seeds: 2
      points: [0.5]
      finetune: &few {defaults: {epochs: 1, length: 16, layer_decay: 1.0}}
  weights:
    title: Weights
    base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}
    arms: {published: {}, ten: {objective.discriminator_weight: 10.0}}
    protocol: {tasks: [cola], finetune: *few}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the rows of a small corpus and of one task, made once."""
    folder = tmp_path_factory.mktemp("ablation")
    text = SMOKE.replace("ablations: {}\n", "").replace("steps: 20", "steps: 4")
    (folder / "params.yaml").write_text(
        text.replace("eval_every: 10", "eval_every: 20") + ABLATIONS
    )
    copy_text(folder)
    with contextlib.chdir(folder):
        params = load()
        corpus.run("smoke", params, tracking.Tracker(None))
        tokens.run("smoke", params, tracking.Tracker(None))
        for split in ("train", "dev"):
            rows = [
                {"id": f"{i}", "a": f"the old cat {word} bread", "b": None, "label": f"{i % 2}"}
                for i, word in enumerate(["keeps", "sells"] * 8)
            ]
            write_jsonl(Path(f"build/tasks/smoke/cola/{split}.jsonl"), rows)
        write_manifest(Path("build/tasks/smoke"), kind="tasks", name="smoke")
    return folder


@pytest.fixture
def params(built, tmp_path, monkeypatch):
    """Those rows in a fresh folder without any arm, one process."""
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    for folder in (built / "build").iterdir():
        Path("build", folder.name).symlink_to(folder)
    Path("params.yaml").symlink_to(built / "params.yaml")
    return load()


def before_training(monkeypatch, action):
    """Call `action` with the title of each arm before it is trained."""
    train = ModelRows.train

    def act_and_train(self, config, run, title):
        action(title)
        return train(self, config, run, title)

    monkeypatch.setattr(ModelRows, "train", act_and_train)


@pytest.fixture
def trained(monkeypatch):
    """The titles of the arms that are trained."""
    titles = []
    before_training(monkeypatch, titles.append)
    return titles


def run(name, params):
    ablation.run(name, params, tracking.Tracker(None))
    return read_json(Path(f"build/ablation/{name}/results.json"))


def results(name):
    return [path.read_bytes() for path in sorted(Path("build/ablation", name).iterdir())]


def test_budget_equal_flops(params):
    electra, mlm = (arm.config for arm in ablation.plan_arms("objectives", params, 100)[::2])
    cost = step_flops(electra, 100) / step_flops(mlm, 100)
    assert electra.pretrain.steps == 4 and mlm.pretrain.steps == round(4 * cost) > 4
    assert mlm.pretrain.warmup == round(2 * mlm.pretrain.steps / 4)


@pytest.mark.parametrize(
    "budget, changed, steps",
    [("equal_steps", {"objective.name": "mlm"}, 4), ("own", {"pretrain.steps": 5}, 5)],
)
def test_budget_of_steps(params, budget, changed, steps):
    config = params.ablations["weights"]
    protocol = replace(config.protocol, budget=budget)
    model = params.models["smoke"]
    params.models["smoke"] = replace(model, pretrain=replace(model.pretrain, threads=2))
    params.ablations["weights"] = replace(config, protocol=protocol, arms={"a": {}, "b": changed})
    arms = ablation.plan_arms("weights", params, 100)
    assert {arm.config.pretrain.threads for arm in arms} == {1}
    assert [arm.config.pretrain.steps for arm in arms] == [4, steps]


def test_checkpoints_of_all_points_are_kept(params):
    config = ablation.with_steps(params.models["smoke"].electra(), 100, 100)
    pretrain = ablation.with_checkpoints(config, (0.25, 0.5)).pretrain
    assert (pretrain.save_every, pretrain.keep_checkpoints) == (25, 5)


def test_phases_keep_their_shares_at_any_budget(params):
    config = params.models["smoke"].electra()
    phases = (PhaseConfig(length=8, steps=60), PhaseConfig(length=16, steps=20, batch=4))
    changes = {"steps": 80, "warmup": 12, "min_eval_interval_minutes": 5.0}
    long = replace(config, pretrain=replace(config.pretrain, phases=phases, **changes))
    for steps in (20, Flops(flops=20 * step_flops(long, 100))):
        short = ablation.with_steps(long, steps, 100)
        assert (short.pretrain.steps, short.pretrain.warmup) == (20, 3)
        assert short.pretrain.min_eval_interval_minutes == 0, "curves have the same steps"
        first, second = make_phases(short.pretrain, 20)
        assert (first.length, first.last, second.length, second.last) == (8, 15, 16, 20)
        assert training_flops(short, 100) == pytest.approx(training_flops(long, 100) / 4, rel=1e-12)


def test_warm_up_fits_into_a_stage_of_any_budget():
    staged = config(**TWO_STAGES, pretrain__steps=20, pretrain__warmup=10)
    assert ablation.with_steps(staged, 7, 100).pretrain.warmup == 3  # half of 7
    assert ablation.with_steps(config(pretrain__warmup=0), 3, 100).pretrain.warmup == 0


def test_ablation_runs_once_and_shares_its_arms(params, trained):
    record = run("objectives", params)
    assert trained == ["electra-seed1", "mlm-seed1", "electra-seed2", "mlm-seed2"]
    electra = record["arms"]["electra"]
    assert (electra["status"], electra["seeds"], electra["steps"]) == ("ok", [1, 2], 4)
    assert electra["average"]["scores"] == electra["glue"]["cola"] and record["train_rows"] == {
        "cola": 16
    }
    assert [point["step"] for point in electra["points"]] == [2, 4]
    assert electra["points"][0]["flops"] == pytest.approx(electra["flops"] / 2)
    assert electra["curve"][-1]["step"] == 4 and electra["pretrain"] == electra["curve"][-1]
    first = results("objectives")
    assert str(Path.cwd()).encode() not in first[0] and b"seconds" not in first[0]
    rows = ModelRows(params, "smoke", params.models["smoke"].electra())
    arm, *_ = ablation.plan_arms("objectives", params, rows.tokenizer.vocab_size)
    folder = run_path("arm", rows.fingerprint(arm.config))
    weights = [folder / f"point-{point}" / "model.safetensors" for point in ("0.5", "1")]
    assert weights[0].read_bytes() != weights[1].read_bytes()
    names = sorted(path.name for path in folder.glob("[!.]*"))
    assert names == ["arm.json", "point-0.5", "point-1", "run.json", "tasks"]

    trained.clear()
    assert run("objectives", params) and trained == []
    assert results("objectives") == first
    # `published` is `electra` by another name
    assert run("weights", params)["arms"]["ten"]["points"] == []
    assert trained == ["ten-seed1"]


def test_an_arm_is_recorded_with_the_settings_that_it_ran_with(params, monkeypatch):
    monkeypatch.setattr(ablation, "longest_row_read", lambda settings, step, steps: 8 + step)
    failed = {"metrics": {"matthews": 0.0}, "train_rows": 16, "failed": "one answer"}
    monkeypatch.setattr(ablation, "run_all", lambda jobs, workers: [failed])
    events = []
    tracker = tracking.Tracker(SimpleNamespace(send=events.append))
    ablation.run("objectives", params, tracker)
    assert (events[0]["what"], events[0]["name"]) == ("dataset", "tokens/smoke")
    opened = {event["run"]: event["params"] for event in events if event["what"] == "open"}
    arms = read_json(Path("build/ablation/objectives/results.json"))["arms"]
    faults = ["cola, seed 1: one answer", "cola, seed 2: one answer"]
    assert arms["electra"]["failed"] == faults, "at the end alone"
    configs = Path("runs/arm").glob("*/point-0.5/config.json")
    read = {read_json(path)["trained_positions"] for path in configs}
    steps = arms["mlm"]["steps"]
    assert read == {8 + point["step"] for arm in arms.values() for point in arm["points"][:1]}
    curves = [event["values"] for event in events if event["what"] == "metrics"]
    assert {"valid/loss/seed1", "valid/loss/seed2"} <= set().union(*curves)
    assert opened["mlm"]["pretrain.steps"] == str(steps) != opened["electra"]["pretrain.steps"]
    assert opened["mlm"]["seeds"] == "[1, 2]" and "pretrain.seed" not in opened["mlm"]
    assert opened["mlm"]["tokens"] == "smoke"


def test_a_child_run_lasts_from_its_first_seed_to_its_last():
    events = []
    tracker = tracking.Tracker(SimpleNamespace(send=events.append))
    times = ((5.0, 7.0), (3.0, 9.0), (4.0, 8.0))
    by_seed = {
        seed: {"started": started, "ended": ended, "history": []}
        for seed, (started, ended) in enumerate(times)
    }
    ablation.track(tracker, "mlm", by_seed, {"status": "ok"}, {})
    opened, tags, closed = events
    assert (opened["time"], tags["values"], closed["time"]) == (3.0, {"status": "ok"}, 9.0)


def test_an_arm_is_fine_tuned_alone_whatever_the_recipe_keeps(params):
    params.recipes["smoke"] = {"defaults": {"predict_test": True, "keep_models": "all"}}
    config = ablation.plan_scoring("weights", params).tasks["cola"]
    assert (config.arms, config.keep_models, config.predict_test) == (
        ("pretrained",),
        "none",
        False,
    )


def test_what_is_no_failure_of_an_arm_ends_the_stage_which_goes_on_there(
    params, trained, monkeypatch
):
    errors = [
        CorruptFile("a file: is damaged"),
        OSError(errno.EIO, "Input/output error"),
        Stopped("stopped by signal 15"),
    ]

    def stop(title):
        if title == "electra-seed2" and errors:
            raise errors.pop()

    before_training(monkeypatch, stop)
    for error in reversed(errors[:]):
        with pytest.raises(type(error)):
            run("objectives", params)
    assert not Path("build/ablation/objectives/results.json").exists()
    assert trained == ["electra-seed1", "mlm-seed1"]
    run("objectives", params)
    assert trained == ["electra-seed1", "mlm-seed1", "electra-seed2", "mlm-seed2"]


def test_failed_arm_stops_no_other(params, monkeypatch):
    def fail(title):
        if title == "mlm-seed2":
            raise NonFinite("step 3: loss nan")
        if title.startswith("electra"):
            raise RuntimeError("no room in the machine")

    before_training(monkeypatch, fail)
    arms = run("objectives", params)["arms"]
    assert arms["electra"]["status"] == "failed: RuntimeError: no room in the machine"
    assert (arms["mlm"]["status"], arms["mlm"]["seeds"]) == ("ok", [1])
    assert any(fault.startswith("seed 2: step 3: loss nan") for fault in arms["mlm"]["failed"])


def test_arm_of_other_code_or_damaged_is_not_read(params, tmp_path):
    arm, _ = ablation.plan_arms("weights", params, 100)
    for part in ("point-0.5", "point-1"):
        write_json(tmp_path / part / "config.json", {})
        write_manifest(tmp_path / part, kind="network", model=arm.key, part=part)
    record = {"code": [[0, "1a2b"], [2, code_digest(PRETRAINING)]], "steps": 10}
    file = tmp_path / "arm.json"
    write_checksummed(file, record)
    assert ablation.read_finished(arm, tmp_path) == record
    good = file.read_text()
    file.write_text(good.replace("10", "11"))
    assert ablation.read_finished(arm, tmp_path) is None
    write_checksummed(file, {**record, "code": record["code"][:1]})
    assert ablation.read_finished(arm, tmp_path) is None
    file.write_text(good)
    write_json(tmp_path / "point-0.5" / "config.json", {"damaged": True})
    assert ablation.read_finished(arm, tmp_path) is None


def test_two_ablations_do_not_train_one_arm_at_once(params, monkeypatch):
    arm, _ = ablation.plan_arms("weights", params, 100)
    entered = threading.Event()
    monkeypatch.setattr(ablation, "train", lambda *_: entered.set() or {})
    scoring = ablation.Scoring({}, Path(), ())
    waiting = threading.Thread(target=ablation.run_arm, args=(arm, scoring, params), daemon=True)
    rows = ModelRows(params, arm.tokens, arm.config)
    with lock_folder(run_path("arm", rows.fingerprint(arm.config))):
        waiting.start()
        assert not entered.wait(0.5)
    assert entered.wait(60)
    waiting.join(60)
