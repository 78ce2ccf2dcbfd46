"""A run's folder: its name (by settings and data), changes that it allows, foreign and bad
checkpoints.
"""

import errno
import json
import shutil
from pathlib import Path

import pytest

from electra.config import digest
from electra.errors import BadInput, CorruptFile, Unreadable, UserError
from electra.pretraining.config import fingerprinted_settings
from electra.storage import checkpoint, run_dir
from electra.storage.manifest import write_manifest
from tests.conftest import files_of
from tests.electra import helpers
from tests.electra.helpers import config, data

CODE = "12"
OTHER = "34"
SHORT = {"pretrain__steps": 4, "pretrain__save_every": 2, "pretrain__eval_every": 2}


def train(run, origin=None, inputs=None, code=CODE, stop_at=None, **changes):
    settings = config(**SHORT | changes)
    return helpers.train(run, settings, inputs=inputs, origin=origin, code=code, stop_at=stop_at)


def names(folder, pattern="*"):
    return sorted(path.name for path in folder.glob(pattern))


def bytes_of(run):
    return {name: data for name, data in files_of(run).items() if name != ".lock"}


@pytest.fixture(scope="module")
def made_runs(tmp_path_factory):
    """Runs of a few steps: `a` as it is, `seed` and `wide` of other settings, `long` half-way
    through more steps.
    """
    folder = tmp_path_factory.mktemp("made")
    train(folder / "a")
    train(folder / "seed", pretrain__seed=2, pretrain__steps=9)
    train(folder / "wide", encoder__hidden=64)
    return folder


@pytest.fixture
def run(made_runs, tmp_path):
    shutil.copytree(made_runs / "a", tmp_path / "run")
    return tmp_path / "run"


def test_what_bears_on_no_result_may_change_in_mid_run(run, capsys):
    before = bytes_of(run)
    changes = {
        "pretrain__log_every": 3,
        "pretrain__keep_checkpoints": 5,
        "pretrain__save_every": 1,
        "pretrain__threads": 2,
        "pretrain__compile": "off",
    }
    train(run, **changes)
    assert bytes_of(run) == before and names(run.parent) == ["run"]
    assert "resuming at step 4 of 4" in capsys.readouterr().err


def test_a_folder_is_named_by_settings_and_data_alone():
    one, other = ({"config": {"steps": steps}, "train": "1f"} for steps in (4, 5))
    assert run_dir.run_path("pretrain", one) == Path("runs/pretrain") / digest(one)[:8]
    assert run_dir.run_path("pretrain", digest(one)) == run_dir.run_path("pretrain", one)
    assert run_dir.run_path("pretrain", other) != run_dir.run_path("pretrain", one)


def test_a_folder_that_two_runs_would_share_is_refused(tmp_path):
    run_dir.name_run(tmp_path, "tiny", {"config": {"steps": 4}})
    run_dir.name_run(tmp_path, "tiny", {"config": {"steps": 4}})
    assert run_dir.read_entry(tmp_path) == "tiny"
    with pytest.raises(CorruptFile, match=r"folder of another run .*steps 4 -> 5"):
        run_dir.name_run(tmp_path, "tiny", {"config": {"steps": 5}})


def test_a_run_continues_under_changed_code_and_records_both_versions(run, capsys):
    shutil.rmtree(run / "step-4")
    done = train(run, code=OTHER)
    stderr = capsys.readouterr().err
    assert stderr.count("the code has changed at step 2; `--restart` would start over") == 1
    assert done.code == [[0, CODE], [2, OTHER]] and names(run.parent) == ["run"]
    assert checkpoint.read_progress(run / "step-4")["code"] == done.code
    assert train(run, code=OTHER).code == done.code and "changed" not in capsys.readouterr().err


def test_a_finished_run_is_trained_anew_by_changed_code_and_the_old_one_is_kept(run, capsys):
    run_dir.name_run(run, "tiny", {"config": fingerprinted_settings(config(**SHORT))})
    first = bytes_of(run)
    done = train(run, code=OTHER)
    assert run_dir.read_entry(run) == "tiny", (
        "the new run is listed, and can be continued, under its entry"
    )
    old = run.with_name("run.old")
    assert bytes_of(old) == first and done.code == [[0, OTHER]]
    assert (
        f"finished under other code, so it is trained again; the old run is {old}"
        in capsys.readouterr().err
    )
    train(run, code=OTHER)
    assert names(run.parent) == ["run", "run.old"]
    train(run, code=CODE)
    assert names(run.parent) == ["run", "run.old", "run.old-2"]


def test_a_launch_that_names_no_code_changes_none(run, capsys):
    assert train(run, code="").code == [[0, CODE]] and names(run.parent) == ["run"]
    assert "code" not in capsys.readouterr().err


def test_a_run_is_continued_under_other_settings_and_remembers_it(run, tmp_path, capsys):
    new = tmp_path / "new"
    before = bytes_of(run)
    more = {"pretrain__steps": 6, "pretrain__batch": 16, "pretrain__save_every": 1}
    more["pretrain__precision"] = "bf16"
    done = train(new, run, **more)
    assert (
        "continues run from step 4, with pretrain.batch 8 -> 16, "
        "pretrain.precision fp32 -> bf16, pretrain.steps 4 -> 6" in capsys.readouterr().err
    )
    (change,) = done.continued
    assert change["step"] == 4 and change["run"] == "run"
    assert set(change["changed"]) == {"pretrain.batch", "pretrain.precision", "pretrain.steps"}
    assert change["changed"]["pretrain.steps"] == [4, 6] and done.precision == "bf16"
    assert [record["step"] for record in done.history] == [0, 2, 4, 6]
    rows = data().train
    assert done.history[-1]["tokens"] == round(4 * 8 * rows.tokens / 64) + round(
        2 * 16 * rows.tokens / 64
    )
    flops = [record["flops"] for record in done.history]
    assert flops[-1] - flops[-2] == pytest.approx(2 * (flops[-2] - flops[-3]))
    # a kill, then the same command with and without the wish: the run continues as the one it is
    shutil.rmtree(new / "step-6")
    for origin in (run, None):
        again = train(new, origin, **more)
        assert again.continued == done.continued and again.history == done.history
    assert bytes_of(run) == before


def test_a_continued_run_begins_its_means_again(tmp_path):
    rare = {"pretrain__log_every": 100, "pretrain__eval_every": 100}
    train(tmp_path / "old", stop_at=3, **rare)
    train(tmp_path / "new", tmp_path / "old", stop_at=5, pretrain__steps=6, **rare)
    counts = [
        checkpoint.load_newest(tmp_path / name)[1]["running"]["log/count"].item()
        for name in ("old", "new")
    ]
    assert counts == [3, 2]


@pytest.mark.parametrize(
    "changes, of, error",
    [
        ({"encoder__hidden": 64, "pretrain__steps": 6}, {}, "has no tensor generator"),
        ({"pretrain__steps": 3}, {}, r"cannot go on at step 4 \(joint\) of 3"),
        (
            {"pretrain__steps": 6},
            {"tokenizer": "other"},
            "cannot be continued under another tokenizer",
        ),
        (
            {"pretrain__steps": 6, "pretrain__bias_correction": True},
            {},
            "under another pretrain.bias_correction than False",
        ),
    ],
)
def test_what_cannot_be_continued_is_a_sentence_and_nothing_has_moved(
    run, tmp_path, changes, of, error
):
    before = bytes_of(run)
    with pytest.raises(UserError, match=error):
        train(tmp_path / "new", run, of, **changes)
    assert bytes_of(run) == before and not names(tmp_path / "new", "[!.]*")


def test_a_run_that_has_begun_is_not_continued_from_another(run, made_runs, tmp_path):
    train(tmp_path / "new", pretrain__steps=6, stop_at=2)
    with pytest.raises(BadInput, match=r"holds a run of these settings, at step 2; .*--restart"):
        train(tmp_path / "new", run, pretrain__steps=6)
    with pytest.raises(BadInput, match="holds no checkpoint"):
        train(tmp_path / "newer", tmp_path / "nothing", pretrain__steps=6)
    (run / "step-4/progress.json").write_text("{")
    before = bytes_of(run)
    done = train(tmp_path / "newest", run, pretrain__steps=6, stop_at=3)
    assert done.continued[0]["step"] == 2 and bytes_of(run) == before


def test_a_checkpoint_of_another_seed_is_kept_and_not_taken(run, made_runs, capsys):
    expected = bytes_of(run)
    shutil.copytree(made_runs / "seed" / "step-9", run / "step-9")
    train(run)
    assert names(run, "*step-*") == ["foreign-step-9", "step-2", "step-4"]
    assert (
        "it is of another run: pretrain.seed 2 -> 1, pretrain.steps 9 -> 4"
        in capsys.readouterr().err
    )
    assert {name: of for name, of in bytes_of(run).items() if "foreign" not in name} == expected


@pytest.mark.parametrize(
    "tensors, change, fault",
    [
        ("a", {"code": None}, "progress.json.code: is None"),
        ("a", {"history": [{"loss": "0"}]}, "history[0].loss: is '0'"),
        ("a", {"step": 3}, "is the record of step 3"),
        ("wide", {}, "this network"),
        ("", {}, "malformed (KeyError: 'running')"),
    ],
)
def test_a_resealed_fault_falls_back_to_the_older_checkpoint(
    run, made_runs, tensors, change, fault, capsys
):
    expected = bytes_of(run)
    folder = run / "step-4"
    for file in folder.glob("*.safetensors"):
        file.unlink()
        if tensors:
            shutil.copy(made_runs / tensors / "step-4" / file.name, folder)
    path = folder / "progress.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    write_manifest(folder, step=4)
    train(run)
    assert fault in capsys.readouterr().err
    assert {name: of for name, of in bytes_of(run).items() if "bad" not in name} == expected


def test_the_curve_beside_the_checkpoints_is_a_copy_that_is_not_trusted(run):
    path = run / "metrics.jsonl"
    raw = path.read_bytes()
    for damaged in (b"", raw[: len(raw) // 2], raw.replace(b"1", b"7")):
        path.write_bytes(damaged)
        shutil.rmtree(run / "step-4")
        history = train(run).history
        assert path.read_bytes() == raw
        assert history == [json.loads(line) for line in raw.splitlines()]


def test_bad_checkpoints_of_one_step_are_all_kept(run):
    for _ in range(2):
        (run / "step-4" / "progress.json").write_text("{")
        train(run)
    assert names(run, "bad-*") == ["bad-step-4", "bad-step-4-2"]


def test_a_checkpoint_that_cannot_be_read_just_now_is_not_passed_over(run, monkeypatch):
    def refuse(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(checkpoint, "read_json", refuse)
    with pytest.raises(Unreadable):
        run_dir.readable_checkpoints(run)


def test_what_killed_processes_left_is_swept(run):
    for name in (".metrics.jsonl.tmp-99", ".step-9.tmp-99", "tasks/.cola.tmp-99"):
        (run / name).mkdir(parents=True)
        (run / name / "new").write_text("half")
    train(run)
    assert names(run, "**/.*") == [".lock"]
