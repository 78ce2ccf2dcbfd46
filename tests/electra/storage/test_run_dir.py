"""Whose a run is: changed settings set it aside and bring it back, `origin` continues it, foreign or bad is kept."""

import dataclasses
import errno
import json
import shutil

import pytest
import torch

from electra.errors import BadInput, CorruptFile, UserError
from electra.files import lock_folder, read_json, sha256_file, write_json
from electra.pretraining.config import of_config
from electra.pretraining.trainer import Launch, pretrain
from electra.storage import checkpoint, manifest, run_dir
from electra.storage.manifest import write_manifest, write_sealed
from tests.electra.helpers import config, data

SHORT = {"pretrain__steps": 4, "pretrain__save_every": 2, "pretrain__eval_every": 2}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def train(run, origin="", of=None, **changes):
    settings = config(**SHORT | changes)
    return pretrain(
        settings,
        data(),
        run,
        {"config": of_config(settings)} | (of or {}),
        log=lambda *_: None,
        launch=Launch(origin=origin),
    )


def names(folder, pattern="*"):
    return sorted(path.name for path in folder.glob(pattern))


def bytes_of(run):
    return {
        str(path.relative_to(run)): sha256_file(path)
        for path in sorted(run.rglob("*"))
        if path.name != ".lock" and path.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of a few steps: `a` as it is, `seed` and `wide` of other settings, `long` half-way through more steps."""
    folder = tmp_path_factory.mktemp("made")
    train(folder / "a")
    train(folder / "seed", pretrain__seed=2, pretrain__steps=9)
    train(folder / "wide", encoder__hidden=64)
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "a", tmp_path / "run")
    return tmp_path / "run"


def test_what_bears_on_no_result_may_change_in_mid_run(run, capsys):
    before = bytes_of(run)
    changes = {"log_every": 3, "keep": 5, "save_every": 1, "threads": 2, "compile": "off", "parallel": "fsdp"}
    train(run, **{f"pretrain__{key}": value for key, value in changes.items()})
    assert bytes_of(run) == before and names(run.parent) == ["run"]
    assert "resuming at step 4 of 4" in capsys.readouterr().err


def test_changed_settings_set_a_run_aside_and_the_old_ones_take_it_up_again(run, capsys):
    first = bytes_of(run)
    train(run, pretrain__learning_rate=1e-3)
    (aside,) = run_dir.asides(run)
    told = capsys.readouterr().err
    assert f"pretrain.learning_rate 0.005 -> 0.001; the run of before, at step 4, is kept as {aside}" in told
    assert f"--continue {aside.name}" in told and bytes_of(aside) == first
    second = bytes_of(run)
    train(run)
    assert bytes_of(run) == first and "is taken up again" in capsys.readouterr().err
    train(run, pretrain__learning_rate=1e-3)
    assert bytes_of(run) == second and names(run.parent) == ["run", aside.name]


def test_a_run_set_aside_overwrites_no_other(run):
    for rate in (1e-3, 2e-3):
        train(run, pretrain__learning_rate=rate)
    one, two = run_dir.asides(run)
    shutil.copytree(two, run.parent / "copy")
    with run_dir.RunFolder(run) as held:
        owner = run_dir.owner(one)
        assert held.set_aside(owner).name == f"{one.name}-2" and run.is_dir()


def test_another_code_or_tokenizer_is_named(run, capsys):
    train(run, of={"code": {"electra/nn": "1"}, "tokenizer": "x"})
    assert "tokenizer none -> x, other code in electra/nn; the run of before" in capsys.readouterr().err


def test_a_run_is_continued_under_other_settings_and_remembers_it(run, capsys):
    done = train(run, "run", pretrain__steps=6, pretrain__batch=16, pretrain__save_every=1)
    (aside,) = run_dir.asides(run)
    assert f"goes on with {aside.name} from step 4" in capsys.readouterr().err
    (change,) = done.continued
    assert change["step"] == 4 and change["run"] == aside.name
    assert change["changed"] == {"pretrain.batch": [8, 16], "pretrain.steps": [4, 6]}
    assert [record["step"] for record in done.history] == [0, 2, 4, 6]
    assert done.history[-1]["tokens"] == (4 * 8 + 2 * 16) * 24
    flops = [record["flops"] for record in done.history]
    assert flops[-1] - flops[-2] == pytest.approx(2 * (flops[-2] - flops[-3]))
    # a kill, then the same command with and without the wish: the run goes on as the one it is
    shutil.rmtree(run / "step-6")
    for origin in ("run", aside.name, ""):
        again = train(run, origin, pretrain__steps=6, pretrain__batch=16, pretrain__save_every=1)
        assert again.continued == done.continued and again.history == done.history
    # and the run that it came from has lost nothing
    train(run)
    assert checkpoint.steps(run) == [2, 4] and len(run_dir.asides(run)) == 1


def test_a_run_set_aside_is_continued_by_its_name(run, capsys):
    train(run, pretrain__steps=6)
    (aside,) = run_dir.asides(run)
    with pytest.raises(BadInput, match=f"is of these very settings already; .*{aside.name}"):
        train(run, "run", pretrain__steps=6)
    done = train(run, aside.name, pretrain__steps=6)
    assert done.continued[0]["run"] == aside.name and len(run_dir.asides(run)) == 2
    with pytest.raises(BadInput, match="is no run to continue"):
        train(run, "run.aside-nothing", pretrain__steps=6)
    with pytest.raises(BadInput, match="is no run to continue"):
        train(run, "../run", pretrain__steps=6)


@pytest.mark.parametrize(
    ("changes", "of", "error"),
    [
        ({"encoder__hidden": 64, "pretrain__steps": 6}, {}, "of shape"),
        ({"pretrain__steps": 3}, {}, r"cannot go on at step 4 \(joint\) of 3"),
        ({"pretrain__steps": 6}, {"tokenizer": "other"}, "cannot be continued under another tokenizer"),
        ({"pretrain__steps": 6, "pretrain__bias_correction": True}, {}, "under another pretrain.bias_correction"),
    ],
)
def test_what_cannot_be_continued_is_a_sentence_and_nothing_has_moved(run, changes, of, error):
    before = bytes_of(run)
    with pytest.raises(UserError, match=error):
        train(run, "run", of, **changes)
    assert bytes_of(run) == before and names(run.parent) == ["run"]


def test_a_checkpoint_of_another_seed_is_kept_and_not_taken(run, made, capsys):
    expected = bytes_of(run)
    shutil.copytree(made / "seed" / "step-9", run / "step-9")
    train(run)
    assert names(run, "*step-*") == ["foreign-step-9", "step-2", "step-4"]
    assert "it is of another run: pretrain.seed 2 -> 1, pretrain.steps 9 -> 4" in capsys.readouterr().err
    assert {name: of for name, of in bytes_of(run).items() if "foreign" not in name} == expected


def test_tensors_of_another_shape_fall_back_to_the_older_checkpoint(run, made, capsys):
    expected = bytes_of(run)
    folder = run / "step-4"
    for name in ("model", "optimizer"):
        shutil.copy(made / "wide" / "step-4" / f"{name}.safetensors", folder)
    write_manifest(folder, step=4)
    train(run)
    assert (run / "bad-step-4").is_dir() and "of shape" in capsys.readouterr().err
    assert {name: of for name, of in bytes_of(run).items() if "bad" not in name} == expected


@pytest.mark.parametrize("how", ["empty", "cut", "flip", "delete"])
def test_the_curve_beside_the_checkpoints_is_a_copy_that_is_not_trusted(run, how):
    path = run / "metrics.jsonl"
    raw = path.read_bytes()
    damaged = {"empty": b"", "cut": raw[: len(raw) // 2], "flip": raw.replace(b"1", b"7")}
    path.unlink() if how == "delete" else path.write_bytes(damaged[how])
    shutil.rmtree(run / "step-4")
    found = train(run)
    assert path.read_bytes() == raw and found.history == [json.loads(line) for line in raw.splitlines()]


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_an_unreadable_checkpoint_falls_back_to_the_older_one(run, monkeypatch, number, capsys):
    original, expected = manifest.sha256_once, bytes_of(run)

    def refused(path):
        if path.name == "optimizer.safetensors" and path.parent.name == "step-4" and not (run / "bad-step-4").exists():
            raise OSError(number, "refused")
        return original(path)

    monkeypatch.setattr(manifest, "sha256_once", refused)
    train(run)
    told = capsys.readouterr().err
    assert "bad-step-4: " in told and "cannot be read (refused)" in told and "resuming at step 2" in told
    assert {name: of for name, of in bytes_of(run).items() if "bad" not in name} == expected


@pytest.mark.parametrize("file", ["MANIFEST.json", "model.safetensors", "progress.json"])
def test_a_link_in_a_checkpoint_is_refused(run, file, capsys):
    (run / "step-4" / file).rename(run / "elsewhere")
    (run / "step-4" / file).symlink_to(run / "elsewhere")
    train(run)
    assert (run / "bad-step-4" / file).is_symlink() and "is a link" in capsys.readouterr().err


def test_bad_checkpoints_of_one_step_are_all_kept(run):
    for _ in range(2):
        (run / "step-4" / "progress.json").write_text("{")
        train(run)
    assert names(run, "bad-*") == ["bad-step-4", "bad-step-4-2"]


def test_checkpoints_of_an_older_version_are_set_aside_with_a_sentence(run, capsys):
    for step in (2, 4):
        progress = read_json(run / f"step-{step}" / "progress.json")
        write_json(run / f"step-{step}" / "progress.json", {key: progress[key] for key in ("step", "precision")})
        write_manifest(run / f"step-{step}", step=step)
    train(run)
    (aside,) = run_dir.asides(run)
    assert checkpoint.steps(aside) == checkpoint.steps(run) == [2, 4]
    assert "made by an older version of this project, without a fingerprint" in capsys.readouterr().err
    with pytest.raises(BadInput, match="of an older version"):
        train(run, aside.name, pretrain__steps=6)


def test_a_refused_step_before_the_first_checkpoint_is_set_aside_with_its_settings(tmp_path):
    write_sealed(tmp_path / "run" / "nonfinite-step-1.json", {"step": 1, "fingerprint": {"config": {"old": 1}}})
    train(tmp_path / "run")
    (aside,) = run_dir.asides(tmp_path / "run")
    assert names(aside, "nonfinite*") and not names(tmp_path / "run", "nonfinite*")


def test_what_killed_processes_left_is_swept(run):
    for name in (".metrics.jsonl.tmp-999999999", ".fingerprint.json.tmp-999999999"):
        (run / name).write_text("half")
    (run / ".step-9.tmp-999999999").mkdir()
    train(run)
    assert names(run, ".*") == [".lock"]


def test_a_run_set_aside_that_is_in_use_is_not_taken_up(run):
    train(run, pretrain__steps=6)
    (aside,) = run_dir.asides(run)
    with lock_folder(aside), pytest.raises(UserError, match="is in use"):
        train(run)
    assert [checkpoint.steps(one) for one in sorted(run_dir.asides(run), key=aside.__ne__)] == [[2, 4], [4, 6]]


def test_with_every_checkpoint_of_other_settings_damaged_nothing_begins_by_itself(run):
    for step in (2, 4):
        (run / f"step-{step}" / "progress.json").unlink()
    with pytest.raises(CorruptFile, match="no checkpoint is good"):
        train(run, pretrain__seed=5)


def test_the_state_is_of_the_run_that_was_asked_for(run):
    """Where a checkpoint of another run comes in between claim and load, loading finds out."""
    saved = checkpoint.load_newest(run)
    other = dataclasses.replace(config(), pretrain=dataclasses.replace(config().pretrain, seed=7))

    def check(groups, progress):
        if progress["fingerprint"] != {"config": of_config(other)}:
            raise CorruptFile(run, "is of another run")

    assert saved is not None
    with pytest.raises(CorruptFile, match="no checkpoint is good"):
        checkpoint.load_newest(run, check)
