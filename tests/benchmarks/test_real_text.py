"""The comparison on real text: arms cost alike, and a stopped run goes on."""

import dataclasses
import signal
from types import SimpleNamespace

import pytest

from benchmarks import real_text
from electra.config import build, plain
from electra.errors import Stopped
from electra.files import read_json, write_json
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.flops import step_flops, training_flops
from electra.pretraining.trainer import pretrain
from electra.storage.manifest import write_manifest
from tests.electra.helpers import SPECIAL, VOCAB, MadeUpRows, config

pytestmark = pytest.mark.slow
PHASES = [{"length": 16, "share": 0.75}, {"length": 24, "share": 0.25, "batch": 4}]


def settings(steps: int) -> ElectraConfig:
    values = plain(config(encoder__embedding=32, encoder__init="neighbours"))
    values["pretrain"] |= {
        "phases": PHASES,
        "steps": steps,
        "schedule": "warmup_stable_decay",
        "decay_share": 0.25,
    }
    return build(ElectraConfig, values, "test")


class InMemory:
    """What `timed` asks of a model's rows."""

    def __init__(self, killed_at: int = -1) -> None:
        self.killed_at = killed_at

    def fingerprint(self, config):
        return {"config": real_text.of_config(config)}

    def train(self, config, run, *, log, launch):
        class Killing(launch.bar):
            def update(bar, done, **numbers):
                super().update(done, **numbers)
                if done == self.killed_at:
                    signal.raise_signal(signal.SIGTERM)

        data = Data(
            MadeUpRows(64), MadeUpRows(16, seed=1), SPECIAL, VOCAB, others={16: MadeUpRows(64, 16)}
        )
        return pretrain(
            config, data, run, {}, log=log, launch=dataclasses.replace(launch, bar=Killing)
        )


def test_a_stopped_run_goes_on_and_its_cost_counts(tmp_path):
    with pytest.raises(Stopped, match="after step 10 "):
        real_text.timed(InMemory(killed_at=10), settings(16), tmp_path / "electra-1-16")
    (notes,) = (tmp_path / "electra-1-16").glob("cost-*.json")
    before = read_json(notes)
    found, cost = real_text.timed(InMemory(), settings(16), tmp_path / "electra-1-16")
    assert 0 < before["seconds"] < cost["seconds"] and before["commits"] == cost["commits"]
    direct, _ = real_text.timed(InMemory(), settings(16), tmp_path / "other")
    weights = [
        {name: value.tolist() for name, value in of.model.state_dict().items()}
        for of in (found, direct)
    ]
    assert weights[0] == weights[1]


def test_the_masked_language_model_has_as_many_operations():
    flops = 400 * step_flops(settings(400), VOCAB, "matmul")
    electra, mlm = (
        real_text.settings(settings(400), arm, 3, flops, VOCAB) for arm in ("electra", "mlm")
    )
    assert electra == dataclasses.replace(
        settings(400), pretrain=dataclasses.replace(settings(400).pretrain, seed=3)
    )
    assert mlm.objective.name == "mlm" and mlm.objective.written == electra.objective.written
    assert mlm.pretrain.steps > 400
    operations = [training_flops(each, VOCAB, "matmul") for each in (electra, mlm)]
    assert operations[0] == pytest.approx(operations[1], rel=0.01)


@pytest.mark.parametrize("network", real_text.NETWORKS)
def test_another_network_has_as_many_operations_and_the_same_recipe(network):
    own, params = (real_text.prepared(name) for name in ("", network))
    base, other = (each.models[real_text.MODEL].electra() for each in (own, params))
    assert (
        other.encoder != base.encoder and dataclasses.replace(other, encoder=base.encoder) == base
    )
    assert params.recipe(real_text.MODEL) == own.recipe(real_text.MODEL)
    flops = real_text.flops_of(12_000, 8192)
    assert flops == 12_000 * step_flops(base, 8192, "matmul")
    config = real_text.settings(other, "electra", 1, flops, 8192)
    assert training_flops(config, 8192, "matmul") == pytest.approx(flops, rel=0.01)


@pytest.fixture
def stubbed(tmp_path, monkeypatch):
    """`main` in a folder of its own, with runs that cost nothing; what it ran."""
    ran = list[str]()

    def pretrained(params, folder, arm, seed, steps):
        model = folder / f"{arm}-{seed}-{steps}/model"
        model.mkdir(parents=True)
        encoder = plain(params.models[real_text.MODEL].encoder)
        write_json(
            model.with_name("found.json"), {"config": {"encoder": encoder}, "rows_sha256": "rows"}
        )
        return model, {
            "seed": seed,
            "curve": [{"tokens": 1, "disc_auc": 0.5}],
            "rows_sha256": "rows",
        }

    def finetuned(params, model, state, arm, seed, tasks):
        ran.append(f"{arm}-{seed}")
        return {task: [50.0 + seed] for task in tasks}

    stubs = {
        "RUNS": tmp_path / "runs",
        "RESULTS": tmp_path,
        "ModelRows": lambda *_: SimpleNamespace(digest="rows"),
        "pretrained": pretrained,
        "finetuned": finetuned,
        "prepare": lambda _: None,
        "rows_of": lambda params, tasks: dict.fromkeys(tasks, "hash"),
    }
    for name, stub in stubs.items():
        monkeypatch.setattr(real_text, name, stub)

    def run(*arguments: str) -> tuple[int, list[str]]:
        ran.clear()
        monkeypatch.setattr("sys.argv", ["benchmarks/real_text.py", "--steps", "40", *arguments])
        return real_text.main(), list(ran)

    return run


def test_fresh_weights_take_the_sizes_of_an_existing_electra(tmp_path, stubbed):
    assert stubbed("--seeds", "2", "--only", "electra-2")[0] == 0
    assert stubbed("--seeds", "2", "--only", "scratch-1") == (0, ["scratch-1"])
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["electra-2-40"]
    found = tmp_path / "runs/electra-2-40/found.json"
    write_json(found, read_json(found) | {"rows_sha256": "others"})
    assert stubbed("--seeds", "2", "--only", "scratch-1") == (0, ["scratch-1"])
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "electra-1-40",
        "electra-2-40",
    ]


def test_rows_of_other_text_are_made_again(tmp_path, monkeypatch):
    made, params = list[str](), real_text.prepared()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(real_text, "RUNS", tmp_path / "runs")
    text = tmp_path / "build/corpus" / params.tokens[real_text.ROWS].corpus
    for folder in (text, tmp_path / "build/tasks" / params.finetunings[real_text.MODEL].tasks):
        folder.mkdir(parents=True)

    def run(name, params, tracker):
        made.append((text / "documents-0.jsonl").read_text())
        (rows := tmp_path / "build/tokens" / name).mkdir(parents=True, exist_ok=True)
        (rows / "MANIFEST.json").write_text(made[-1])
        if made[-1] == "b":  # killed when they are there, and it is not noted yet
            raise KeyboardInterrupt

    monkeypatch.setattr(real_text.tokens, "run", run)
    for content in "aaba":
        (text / "documents-0.jsonl").write_text(content)
        write_manifest(text)
        if content == "b":
            with pytest.raises(KeyboardInterrupt):
                real_text.prepare(params)
        else:
            real_text.prepare(params)
    assert made == ["a", "b", "a"]


@pytest.mark.parametrize("rows", ["rows", "others"])
def test_a_model_of_other_rows_is_not_taken(tmp_path, monkeypatch, rows):
    params, of = (
        real_text.prepared(),
        SimpleNamespace(digest="rows", tokenizer=SimpleNamespace(vocab_size=VOCAB)),
    )
    monkeypatch.setattr(real_text, "ModelRows", lambda *_: of)
    config = real_text.settings(
        params.models[real_text.MODEL].electra(),
        "electra",
        1,
        real_text.flops_of(400, VOCAB),
        VOCAB,
    )
    known = {"config": real_text.of_config(config), "rows_sha256": rows}
    write_json(tmp_path / "electra-1-400/found.json", known)
    monkeypatch.setattr(real_text, "timed", lambda *_: pytest.fail("was trained"))
    if rows == "rows":
        assert real_text.pretrained(params, tmp_path, "electra", 1, 400)[1] == known
    else:
        with pytest.raises(pytest.fail.Exception):
            real_text.pretrained(params, tmp_path, "electra", 1, 400)


@pytest.mark.parametrize("arms", [["electra", "scratch"], ["scratch"]])
def test_arms_that_did_not_run_are_not_compared(tmp_path, stubbed, arms):
    assert stubbed("--seeds", "2", "--network", "modern", "--arms", *arms, "--tasks", "rte")[0] == 0
    found = read_json(tmp_path / "real-text-40-modern.json")["tasks"]
    assert list(found) == ["rte"] and set(found["rte"]) == {
        *arms,
        *([" - ".join(arms)] if len(arms) == 2 else []),
    }
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["modern"]


def test_differences_are_read_by_their_intervals():
    electra = [{"cola": [60.0, 62.0]}, {"cola": [62.0]}, {"cola": [63.0]}]
    scores = {"electra": electra, "scratch": [{"cola": [50.0]}] * 3}
    found = real_text.compared(scores)["cola"]
    assert found["electra"]["scores"] == [61.0, 62.0, 63.0] and found["electra"]["std"] == 1.0
    assert found["electra - scratch"]["points"] == pytest.approx(12.0)
    assert found["electra - scratch"]["reading"] == "higher" and "electra - mlm" not in found
