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
from electra.files import is_locked
from electra.pretraining.config import fingerprinted_settings
from electra.storage import checkpoint, run_dir
from electra.storage.manifest import write_manifest
from tests.support import pretraining
from tests.support.pretraining import config, data
from tests.support.project import files_of

CODE = "12"
OTHER = "34"
SHORT = {"steps": 4, "save_every": 2, "eval_every": 2}


def settings_of(hidden=32, **pretrain):
    changes = {f"pretrain__{key}": value for key, value in {**SHORT, **pretrain}.items()}
    return config(encoder__hidden=hidden, **changes)


def train(run, origin=None, inputs=None, code=CODE, stop_at=None, **changes):
    """Train a few steps; `changes` are settings of `pretrain`, or `hidden`."""
    options = {"origin": origin, "code": code, "stop_at": stop_at}
    return pretraining.train(run, settings_of(**changes), inputs=inputs, **options)


def names(folder, pattern="*"):
    return sorted(path.name for path in folder.glob(pattern))


def bytes_of(run):
    return {name: data for name, data in files_of(run).items() if name != ".lock"}


@pytest.fixture(scope="module")
def made_runs(tmp_path_factory):
    """Runs of a few steps: `a` as it is, and `wide` of another network."""
    folder = tmp_path_factory.mktemp("made")
    train(folder / "a")
    train(folder / "wide", hidden=64)
    return folder


@pytest.fixture
def run(made_runs, tmp_path):
    shutil.copytree(made_runs / "a", tmp_path / "run")
    return tmp_path / "run"


def test_what_bears_on_no_result_may_change_in_mid_run(run, capsys):
    """Nor is anything left of a process that was killed while it wrote."""
    before = bytes_of(run)
    (run / ".step-9.tmp-99").mkdir()
    (run / ".step-9.tmp-99/new").write_text("half")
    train(run, log_every=3, keep_checkpoints=5, save_every=1, threads=2, compile="off")
    assert bytes_of(run) == before and names(run.parent) == ["run"]
    assert "resuming at step 4 of 4" in capsys.readouterr().err


def test_a_folder_is_named_by_settings_and_data_alone():
    fingerprint = {"config": {"steps": 4}, "train": "1f"}
    for given in (fingerprint, digest(fingerprint)):
        assert run_dir.run_path("pretrain", given) == Path("runs/pretrain", digest(fingerprint)[:8])


def test_a_folder_that_two_runs_would_share_is_refused(tmp_path):
    for entry in ("tiny", "renamed"):
        run_dir.name_run(tmp_path, entry, {"config": {"steps": 4}})
        assert run_dir.read_entry(tmp_path) == entry
    with pytest.raises(CorruptFile, match=r"folder of another run .*steps 4 -> 5"):
        run_dir.name_run(tmp_path, "tiny", {"config": {"steps": 5}})


def test_a_run_continues_under_changed_code_and_records_both_versions(run, capsys):
    assert train(run, code="").code == [[0, CODE]]  # a launch that names no code changes none
    assert names(run.parent) == ["run"] and "code" not in capsys.readouterr().err
    shutil.rmtree(run / "step-4")
    done = train(run, code=OTHER)
    stderr = capsys.readouterr().err
    assert stderr.count("the code has changed at step 2; `--restart` would start over") == 1
    assert done.code == [[0, CODE], [2, OTHER]] and names(run.parent) == ["run"]
    assert checkpoint.read_progress(run / "step-4")["code"] == done.code
    assert train(run, code=OTHER).code == done.code and "changed" not in capsys.readouterr().err


def test_a_finished_run_is_trained_anew_by_changed_code_and_the_old_one_is_kept(run, capsys):
    run_dir.name_run(run, "tiny", {"config": fingerprinted_settings(settings_of())})
    first = bytes_of(run)
    done = train(run, code=OTHER)
    # the new run is listed, and can be continued, under its entry
    assert run_dir.read_entry(run) == "tiny" and done.code == [[0, OTHER]]
    old = run.with_name("run.old")
    assert bytes_of(old) == first
    sentence = f"finished under other code, so it is trained again; the old run is {old}"
    assert sentence in capsys.readouterr().err
    train(run, code=OTHER)
    assert names(run.parent) == ["run", "run.old"]
    train(run, code=CODE)
    assert names(run.parent) == ["run", "run.old", "run.old-2"]
    with run_dir.RunFolder(run) as folder:
        folder.archive()
        assert is_locked(run)


def test_a_run_is_continued_under_other_settings_and_remembers_it(run, tmp_path, capsys):
    new = tmp_path / "new"
    before = bytes_of(run)
    more = {"steps": 6, "batch": 16, "save_every": 1, "precision": "bf16"}
    done = train(new, run, **more)
    assert (
        "continues run from step 4, with pretrain.batch 8 -> 16, "
        "pretrain.precision fp32 -> bf16, pretrain.steps 4 -> 6" in capsys.readouterr().err
    )
    (change,) = done.continued
    assert change["step"] == 4 and change["run"] == "run"
    assert change["changed"] == {
        "pretrain.batch": [8, 16],
        "pretrain.precision": ["fp32", "bf16"],
        "pretrain.steps": [4, 6],
    }
    assert done.precision == "bf16"
    assert [record["step"] for record in done.history] == [0, 2, 4, 6]
    tokens_per_row = data().train.tokens / 64
    assert done.history[-1]["tokens"] == pytest.approx((4 * 8 + 2 * 16) * tokens_per_row, abs=1)
    # a kill, then the same command with and without the wish: the run continues as the one it is
    for origin in (run, None):
        shutil.rmtree(new / "step-6")
        again = train(new, origin, **more)
        assert again.continued == done.continued and again.history == done.history
    assert bytes_of(run) == before


def test_a_continued_run_begins_its_means_again(tmp_path):
    rare = {"log_every": 100, "eval_every": 100}
    train(tmp_path / "old", stop_at=3, **rare)
    train(tmp_path / "new", tmp_path / "old", stop_at=5, steps=6, **rare)
    for name, count in (("old", 3), ("new", 2)):
        newest = checkpoint.load_newest(tmp_path / name)
        assert newest and newest[1]["running"]["log/count"] == count


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"hidden": 64}, "has no tensor generator"),
        ({"steps": 4, "batch": 16}, r"cannot go on at step 4 \(joint\) of 4"),
        ({"inputs": {"tokenizer": "other"}}, "cannot be continued under another tokenizer"),
        ({"bias_correction": True}, "under another pretrain.bias_correction than False"),
    ],
)
def test_what_cannot_be_continued_is_a_sentence_and_nothing_has_moved(
    run, tmp_path, changes, error
):
    before = bytes_of(run)
    with pytest.raises(UserError, match=error):
        train(tmp_path / "new", run, **{"steps": 6, **changes})
    assert bytes_of(run) == before and not names(tmp_path / "new", "[!.]*")


def test_a_run_that_has_begun_is_not_continued_from_another(run, made_runs, tmp_path):
    train(tmp_path / "new", steps=6, stop_at=2)
    with pytest.raises(BadInput, match=r"holds a run of these settings, at step 2; .*--restart"):
        train(tmp_path / "new", run, steps=6)
    with pytest.raises(BadInput, match="holds no checkpoint"):
        train(tmp_path / "newer", tmp_path / "nothing", steps=6)
    (run / "step-4/progress.json").write_text("{")
    before = bytes_of(run)
    done = train(tmp_path / "newest", run, steps=6, stop_at=3)
    assert done.continued[0]["step"] == 2 and bytes_of(run) == before


def test_a_checkpoint_of_another_run_is_kept_and_not_taken(run, made_runs, capsys):
    expected = bytes_of(run)
    shutil.rmtree(run / "step-4")
    shutil.copytree(made_runs / "wide/step-4", run / "step-4")
    train(run)
    assert "it is of another run: encoder.hidden 64 -> 32" in capsys.readouterr().err
    shutil.rmtree(run / "foreign-step-4")
    assert bytes_of(run) == expected


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
    shutil.rmtree(run / "bad-step-4")
    assert bytes_of(run) == expected


def test_the_curve_beside_the_checkpoints_is_a_copy_that_is_not_trusted(run):
    path = run / "metrics.jsonl"
    raw = path.read_bytes()
    for damaged in (raw[: len(raw) // 2], raw.replace(b"1", b"7")):
        path.write_bytes(damaged)
        shutil.rmtree(run / "step-4")
        assert train(run).history == [json.loads(line) for line in raw.splitlines()]
        assert path.read_bytes() == raw


def test_a_checkpoint_that_cannot_be_read_just_now_is_not_passed_over(run, monkeypatch):
    def refuse(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(checkpoint, "read_json", refuse)
    with pytest.raises(Unreadable):
        run_dir.readable_checkpoints(run)
