"""The ablation stage on a model of a few hundred weights: budgets, seeds, shared arms, failures,
going on, points.
"""

import contextlib
import dataclasses
import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from electra.errors import CorruptFile, NonFinite, Stopped
from electra.files import lock_folder, read_json, write_json, write_jsonl
from electra.pretraining.config import Flops, PhaseConfig
from electra.pretraining.flops import step_flops, training_flops
from electra.pretraining.phases import phases_of
from electra.storage.manifest import write_manifest, write_sealed
from pipelines import tracking
from pipelines.config.params import Params, load
from pipelines.stages import PRETRAINING, ablation, corpus, tokens
from pipelines.stages.pretrain import ModelRows
from pipelines.versioning.code import digest_of
from tests.conftest import SMOKE, copy_text

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
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        texts = [f"the old cat {word} bread" for word in ("keeps", "sells")]
        for split in ("train", "dev"):
            rows = [
                {"id": f"{i}", "a": texts[i % 2], "b": None, "label": f"{i % 2}"} for i in range(16)
            ]
            write_jsonl(Path(f"build/tasks/smoke/cola/{split}.jsonl"), rows)
        write_manifest(Path("build/tasks/smoke"), kind="tasks", name="smoke")
    return folder


@pytest.fixture
def params(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """Those rows in a fresh folder without any arm, one process."""
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    for made in (built / "build").iterdir():
        Path("build", made.name).symlink_to(made)
    Path("params.yaml").write_text((built / "params.yaml").read_text())
    return load()


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The titles of the arms that are really trained."""
    titles: list[str] = []
    train = ModelRows.train

    def counted(self, config, run, *, log, launch):
        titles.append(launch.title)
        return train(self, config, run, log=log, launch=launch)

    monkeypatch.setattr(ModelRows, "train", counted)
    yield titles


SCORING = ablation.Scoring({}, Path(), ())


def run(name: str, params: Params) -> dict:
    ablation.run(name, params, tracking.Tracker(None))
    return read_json(Path(f"build/ablation/{name}/results.json"))


def by_name(planned: list[ablation.Arm]) -> dict[str, ablation.Arm]:
    return {arm.title: arm for arm in planned}


def test_arms_spend_equal_operations(params: Params) -> None:
    planned = by_name(ablation.plan_arms("objectives", params, 100))
    electra, mlm = (planned[f"{name}-seed1"].config for name in ("electra", "mlm"))
    cost = step_flops(electra, 100) / step_flops(mlm, 100)
    assert electra.pretrain.steps == 4 and mlm.pretrain.steps == round(4 * cost) > 4
    assert mlm.pretrain.warmup == round(2 * mlm.pretrain.steps / 4)


def test_checkpoints_of_all_points_are_kept(params: Params) -> None:
    config = ablation.with_steps(params.models["smoke"].electra(), 100, 100)
    pretrain = ablation.with_checkpoints(config, (0.25, 0.5)).pretrain
    assert (pretrain.save_every, pretrain.keep_checkpoints) == (25, 5)


def test_a_run_of_phases_keeps_their_shares_at_any_budget(params: Params) -> None:
    config = params.models["smoke"].electra()
    phases = (PhaseConfig(length=8, steps=60), PhaseConfig(length=16, steps=20, batch=4))
    settings = {"phases": phases, "steps": 80, "warmup": 12}
    whole = dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, **settings))
    for steps in (20, Flops(flops=20 * step_flops(whole, 100))):
        cut = ablation.with_steps(whole, steps, 100)
        phases = [(phase.length, phase.first, phase.last) for phase in phases_of(cut.pretrain, 20)]
        assert phases == [(8, 0, 15), (16, 15, 20)]
        assert (cut.pretrain.steps, cut.pretrain.warmup) == (20, 3)
        assert training_flops(cut, 100) == pytest.approx(training_flops(whole, 100) / 4, rel=1e-12)


def test_equal_steps_and_own_steps(params: Params) -> None:
    config = params.ablations["weights"]
    for budget, changed, expected in (
        ("equal_steps", {"objective.name": "mlm"}, 4),
        ("own", {"pretrain.steps": 5}, 5),
    ):
        protocol = dataclasses.replace(config.protocol, budget=budget)
        arms = {"published": {}, "ten": changed}
        other = dataclasses.replace(config, protocol=protocol, arms=arms)
        params.ablations["weights"] = other
        planned = ablation.plan_arms("weights", params, 100)
        assert [arm.config.pretrain.steps for arm in planned] == [4, expected]


def test_an_experiment_runs_is_read_back_and_shares_its_arms(
    params: Params, trained: list[str]
) -> None:
    record = run("objectives", params)
    assert trained == ["electra-seed1", "mlm-seed1", "electra-seed2", "mlm-seed2"]
    electra = record["arms"]["electra"]
    assert (electra["status"], electra["seeds"], electra["steps"]) == ("ok", [1, 2], 4)
    assert len(electra["average"]["scores"]) == len(electra["glue"]["cola"]) == 2
    assert [point["step"] for point in electra["points"]] == [2, 4]
    assert electra["points"][0]["flops"] == pytest.approx(electra["flops"] / 2)
    assert record["train_rows"] == {"cola": 16}
    assert electra["curve"][-1]["step"] == 4
    first = left("objectives")
    assert str(Path.cwd()).encode() not in first[0] and b"seconds" not in first[0]
    vocab_size = ModelRows(params, "smoke", params.models["smoke"].electra()).tokenizer.vocab_size
    folder = ablation.arm_folder(
        by_name(ablation.plan_arms("objectives", params, vocab_size))["electra-seed1"], params
    )
    early, end = (
        read_json(folder / f"point-{point}" / "MANIFEST.json")["files"]["model.safetensors"]
        for point in ("0.5", "1")
    )
    assert early["sha256"] != end["sha256"]
    names = sorted(path.name for path in folder.glob("[!.]*"))
    assert names == ["arm.json", "point-0.5", "point-1", "run.json", "tasks"]

    trained.clear()
    assert run("objectives", params) and trained == []
    assert left("objectives") == first
    run("weights", params)  # `published` is `electra` by another name
    assert trained == ["ten-seed1"]
    told = read_json(Path("runs/ablation-weights/progress.json"))
    assert [(row["arm"], row["status"]) for row in told] == [("published", "done"), ("ten", "done")]


def left(name: str) -> list[bytes]:
    """The bytes of an ablation's results."""
    return [path.read_bytes() for path in sorted(Path("build/ablation", name).iterdir())]


@pytest.mark.parametrize(
    "error", [CorruptFile("a file: is damaged"), OSError(errno.EIO, "Input/output error")]
)
def test_what_is_not_an_arms_own_fault_is_no_result(
    params: Params, monkeypatch: pytest.MonkeyPatch, error
) -> None:
    def broken(self, config, run, *, log, launch):
        raise error

    monkeypatch.setattr(ModelRows, "train", broken)
    with pytest.raises(type(error)):
        run("weights", params)
    assert not Path("build/ablation/weights/results.json").exists()


def test_a_failed_arm_stops_no_other(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    train = ModelRows.train

    def broken(self, config, run, *, log, launch):
        if launch.title == "mlm-seed2":
            raise NonFinite("step 3: loss nan")
        if launch.title.startswith("electra"):
            raise RuntimeError("no room in the machine")
        return train(self, config, run, log=log, launch=launch)

    monkeypatch.setattr(ModelRows, "train", broken)
    told = run("objectives", params)["arms"]
    assert told["electra"]["status"] == "failed: RuntimeError: no room in the machine"
    assert told["mlm"]["status"] == "ok"
    assert told["mlm"]["seeds"] == [1]
    assert any(fault.startswith("seed 2: step 3: loss nan") for fault in told["mlm"]["failed"])


def test_what_a_stopped_experiment_has_done_is_kept(params, trained, monkeypatch):
    counted = ModelRows.train

    def stopped(self, config, run, *, log, launch):
        if launch.title == "electra-seed2":
            raise Stopped(f"{launch.title}: stopped by signal 15")
        return counted(self, config, run, log=log, launch=launch)

    monkeypatch.setattr(ModelRows, "train", stopped)
    with pytest.raises(Stopped):
        run("objectives", params)
    assert not Path("build/ablation/objectives/results.json").exists()
    assert trained == ["electra-seed1", "mlm-seed1"]
    monkeypatch.setattr(ModelRows, "train", counted)
    run("objectives", params)
    assert trained == ["electra-seed1", "mlm-seed1", "electra-seed2", "mlm-seed2"]


def test_what_other_code_has_finished_or_is_damaged_is_not_taken(
    params: Params, tmp_path: Path
) -> None:
    (arm, *_) = ablation.plan_arms("weights", params, 100)
    for point in ("0.5", "1"):
        write_json(tmp_path / f"point-{point}" / "config.json", {})
        write_manifest(
            tmp_path / f"point-{point}", kind="network", model=arm.key, part=f"point-{point}"
        )
    record = {"code": [[0, "1a2b"], [2, digest_of(PRETRAINING)]], "steps": 10}
    write_sealed(noted := tmp_path / "arm.json", record)
    assert ablation.read_finished(arm, tmp_path) == record
    whole = noted.read_text()
    noted.write_text(whole.replace("10", "11"))
    assert ablation.read_finished(arm, tmp_path) is None
    write_sealed(noted, {**record, "code": record["code"][:1]})
    assert ablation.read_finished(arm, tmp_path) is None
    noted.write_text(whole)
    write_json(tmp_path / "point-0.5" / "config.json", {"damaged": True})
    assert ablation.read_finished(arm, tmp_path) is None


def test_two_experiments_do_not_train_one_arm_at_once(
    params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    (arm, *_) = ablation.plan_arms("weights", params, 100)
    entered = threading.Event()

    def train(*_: object) -> dict[str, str]:
        entered.set()
        return {}

    monkeypatch.setattr(ablation, "train", train)
    waiting = threading.Thread(target=ablation.run_arm, args=(arm, SCORING, params), daemon=True)
    with lock_folder(ablation.arm_folder(arm, params)):
        waiting.start()
        assert not entered.wait(0.5)
    assert entered.wait(60)
    waiting.join(60)
