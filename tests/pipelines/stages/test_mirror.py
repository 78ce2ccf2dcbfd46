"""Checkpoints on a server that speaks S3: another machine goes on with a dead one's run, to the
same bytes.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

import fsspec
import pytest
import torch

from electra.errors import SourceUnreachable
from electra.storage import checkpoint
from electra.storage.run_dir import archive
from pipelines.stages import mirror
from pipelines.stages.mirror import mirrored
from tests.support.project import SMOKE, copy_project, environment, files_of, progress, until
from tests.support.s3_server import forget

PRINT = {"config": {"steps": 9}}
URL = "s3://team/electra"


def save(run, step, continued=()):
    groups = {"model": {"weight": torch.full((1000,), float(step))}}
    record = progress(step, fingerprint=PRINT, continued=list(continued))
    checkpoint.save(run, step, groups, record, keep=2)


def there():
    return sorted(
        path.partition("/runs/x")[2].partition("/")[2]
        for path in fsspec.filesystem("s3").find("team/electra")
    )


def whole(*steps):
    files = ("MANIFEST.json", "model.safetensors", "progress.json")
    return sorted(f"step-{step}/{file}" for step in steps for file in files)


@pytest.fixture
def run(tmp_path, s3, monkeypatch):
    """The folder of a run whose checkpoints are mirrored."""
    monkeypatch.setenv(mirror.VARIABLE, f"{URL}/")
    return tmp_path / "runs/x"


def bring(folder):
    """The steps that another machine finds."""
    mirror.bring_newest(folder / "runs/x")
    return checkpoint.steps(folder / "runs/x")


def save_and_send(run, *steps, continued=()):
    for step in steps:
        save(run, step, continued=continued)
        mirror.send(run, step)


def test_the_newest_two_are_kept_and_the_newest_is_brought(tmp_path, run):
    save_and_send(run, 10, 20, 30)
    assert there() == whole(20, 30)
    for _ in range(2):
        assert bring(tmp_path / "another") == [30]
    assert files_of(tmp_path / "another/runs/x/step-30") == files_of(run / "step-30")
    mirror.bring_newest(tmp_path / "third/runs/y")
    assert not (tmp_path / "third").exists()


def test_a_machine_that_is_behind_takes_nothing_away(tmp_path, run):
    save_and_send(run, 20, 30)
    behind = tmp_path / "behind"
    save_and_send(behind / "runs/x", 10)
    assert there() == whole(20, 30)
    assert bring(behind) == [10, 30]


def test_a_run_that_is_restarted_does_not_meet_its_old_checkpoints(tmp_path, run):
    save_and_send(run, 50)
    archive(run)
    mirror.bring_newest(run)
    assert checkpoint.steps(run) == []
    save_and_send(run, 10)
    assert there() == whole(10)
    assert bring(tmp_path / "another") == [10]


@pytest.mark.parametrize("kind", ["unknown", "memory"])
def test_a_login_in_the_mirrors_address_is_not_printed(run, monkeypatch, capsys, kind):
    monkeypatch.setenv(mirror.VARIABLE, f"{kind}://me:s3cret@host")
    if kind == "memory":  # which works
        save_and_send(run, 10)
        shutil.rmtree(run)
    mirror.bring_newest(run)
    assert f"{kind}://***@host" in (printed := capsys.readouterr().err) and "s3cret" not in printed


def test_a_damaged_checkpoint_is_kept_and_the_mirrors_good_one_is_brought(run):
    save_and_send(run, 20)
    (run / "step-20/model.safetensors").write_bytes(b"damaged")
    mirror.bring_newest(run)
    assert checkpoint.steps(run) == [20] and len(list(run.glob("bad-step-20*"))) == 1
    assert checkpoint.load(run / "step-20")[0] == 20


def test_a_continued_run_is_not_given_checkpoints_of_a_fresh_one(tmp_path, run):
    save_and_send(run, 30)
    other = tmp_path / "another/runs/x"
    save_and_send(other, 10, 20, continued=[{"step": 5, "tokens": 0, "flops": 0, "run": "x"}])
    mirror.bring_newest(other)
    assert checkpoint.steps(other) == [10, 20]
    shutil.rmtree(other / "step-20")
    mirror.bring_newest(other)
    assert checkpoint.steps(other) == [10, 20]


@pytest.mark.parametrize("fault", ["short", "cut", "denied"])
def test_a_checkpoint_that_does_not_come_whole_is_left_for_the_one_before(
    tmp_path, run, s3, capsys, fault
):
    save_and_send(run, 20, 30)
    path = f"{mirror.mirror_url(run).removeprefix('s3:/')}/step-30/model.safetensors"
    s3.faults[path] = fault
    assert bring(tmp_path / "another") == [20]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning:" in line]
    assert "step-30" in line and "the one before is taken" in line
    assert not list((tmp_path / "another").rglob(".*tmp*"))


def test_a_checkpoint_that_was_not_sent_to_its_end_is_none(tmp_path, run, s3):
    save_and_send(run, 20)
    save(run, 30)
    s3.faults[f"PUT {mirror.mirror_url(run).removeprefix('s3:/')}/step-30/progress.json"] = "denied"
    with pytest.raises(SourceUnreachable, match="cannot be used"):
        mirror.send(run, 30)
    assert {*whole(20)} <= {*there()}  # with those files of step 30 that came before the refusal
    assert bring(tmp_path / "another") == [20]
    s3.faults.clear()
    save_and_send(run, 40)
    assert {*whole(40)} <= {*there()}
    assert len({path.partition("/")[0] for path in there()}) == 2
    assert bring(tmp_path / "third") == [40]


def test_only_the_first_of_several_processes_sends(run, monkeypatch):
    launched = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    with mirrored(run):
        save(run, 10)
    assert there() == []


def test_a_mirror_that_is_down_stops_nothing_is_reported_once_and_tried_again(
    run, monkeypatch, capsys
):
    for name, seconds in (("EVERY", 0.05), ("AGAIN", 0.1)):
        monkeypatch.setattr(mirror, name, seconds)
    with monkeypatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        forget()
        with mirrored(run):
            for step in (10, 20):
                save(run, step)
                time.sleep(0.5)
    printed = capsys.readouterr().err
    assert printed.count("cannot be used") == 2  # at the beginning, and when it is to be sent
    assert "training continues from what is here" in printed
    assert "are sent when the mirror answers" in printed
    forget()
    with mirrored(run):
        pass
    assert there() == whole(20)


def train(folder, **more):
    command = [sys.executable, "-m", "pipelines", "pretrain", "smoke"]
    # the test's own server
    more |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    return subprocess.Popen(
        command, cwd=folder, env=environment(folder, **more), stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_another_machine_ends_a_killed_run_with_the_same_bytes(tmp_path, s3, monkeypatch):
    from pipelines.cli import main

    first = copy_project(tmp_path / "first")
    text = SMOKE.replace("steps: 20", "steps: 2000").replace("save_every: 5}", "save_every: 100}")
    (first / "params.yaml").write_text(text.replace("eval_every: 10", "eval_every: 1000"))
    with monkeypatch.context() as patch:
        patch.chdir(first)
        for stage in ("corpus", "tokens"):
            assert main([stage, "smoke"]) == 0
    second, alone = (tmp_path / name for name in ("second", "alone"))
    for folder in (second, alone):
        shutil.copytree(first, folder)
    killed = train(first, ELECTRA_MIRROR=URL)
    system = fsspec.filesystem("s3")

    def sent():
        system.invalidate_cache()
        return any(path.endswith("/MANIFEST.json") for path in system.find("team/electra"))

    until(lambda: killed.poll() is not None or sent())
    killed.kill()
    assert killed.communicate() and killed.returncode == -signal.SIGKILL
    shutil.rmtree(first)
    processes = [train(second, ELECTRA_MIRROR=URL), train(alone)]
    told, _ = (process.communicate()[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0], told
    assert "is taken from s3://team/electra/pretrain/" in told and "resuming at step" in told
    made, expected = (files_of(folder / "build/models") for folder in (second, alone))
    assert made == expected and len(made) > 3
