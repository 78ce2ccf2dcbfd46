"""Checkpoints on a server that speaks S3: another machine goes on with a dead one's run, to the same bytes."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
import torch

from electra.storage import checkpoint
from electra.storage.run_dir import archive
from pipelines.runtime import mirror
from pipelines.runtime.mirror import Mirror, mirrored
from tests.conftest import SMOKE, copy_project, environment, files_of, until
from tests.s3_server import S3, forget

PRINT = {"config": {"steps": 9}}
URL = "s3://team/electra"


def save(run: Path, step: int, value: float = 0.0, fingerprint: object = PRINT) -> None:
    progress = {"step": step, "fingerprint": fingerprint, "continued": []}
    checkpoint.save(run, step, {"model": {"weight": torch.full((1000,), value + step)}}, progress, keep=2)


def there() -> list[str]:
    return sorted(
        path.partition("/runs/x")[2].partition("/")[2] for path in fsspec.filesystem("s3").find("team/electra")
    )


def whole(*steps: int) -> list[str]:
    files = ("MANIFEST.json", "model.safetensors", "progress.json")
    return sorted(f"step-{step}/{file}" for step in steps for file in files)


@pytest.fixture
def sender(tmp_path: Path, s3: S3) -> Mirror:
    return Mirror(URL, tmp_path / "runs/x", PRINT)


def bring(folder: Path) -> list[int]:
    """The steps that another machine finds."""
    Mirror(URL, folder / "runs/x", PRINT).bring()
    return checkpoint.steps(folder / "runs/x")


def test_the_newest_two_are_kept_and_the_newest_is_brought(tmp_path: Path, sender: Mirror, s3: S3) -> None:
    for step in (10, 20, 30):
        save(sender.run, step)
        sender.send()
    assert there() == whole(20, 30)
    sent = [path.rpartition("/")[2] for path in s3.asked if path.startswith("PUT") and "step-30/" in path]
    assert sent[-1] == "MANIFEST.json" and len(sent) == 3
    assert bring(tmp_path / "another") == [30]
    step, groups, progress = checkpoint.load(tmp_path / "another/runs/x/step-30")
    assert torch.equal(groups["model"]["weight"], torch.full((1000,), 30.0)) and progress["fingerprint"] == PRINT
    assert bring(tmp_path / "another") == [30]
    Mirror(URL, tmp_path / "third/runs/y", {"config": {"steps": 10}}).bring()
    assert not (tmp_path / "third").exists()


def test_a_machine_that_is_behind_takes_nothing_away(tmp_path: Path, sender: Mirror) -> None:
    for step in (20, 30):
        save(sender.run, step)
        sender.send()
    behind = Mirror(URL, tmp_path / "behind/runs/x", PRINT)
    save(behind.run, 10)
    behind.send()
    assert there() == whole(20, 30)
    behind.bring()
    assert checkpoint.steps(behind.run) == [10, 30]


def test_a_run_that_begins_anew_does_not_meet_its_old_checkpoints(tmp_path: Path, sender: Mirror) -> None:
    save(sender.run, 50)
    sender.send()
    archive(sender.run)
    again = Mirror(URL, sender.run, PRINT)
    again.bring()
    assert checkpoint.steps(again.run) == []
    save(again.run, 10)
    again.send()
    assert there() == sorted([*whole(50), *whole(10)])
    assert bring(tmp_path / "another") == [10]


def test_a_login_in_the_mirrors_address_is_not_told(tmp_path, sender, capsys):
    sender.url = "unknown://me:s3cret@host"
    sender.bring()
    assert "unknown://***@host" in (told := capsys.readouterr().err) and "s3cret" not in told


def test_a_checkpoint_of_another_run_is_not_sent(sender: Mirror) -> None:
    save(sender.run, 50, fingerprint={"config": {"steps": 99}})
    sender.send()
    assert not there()


def test_what_an_earlier_version_sent_is_found(tmp_path: Path, sender: Mirror, s3: S3) -> None:
    """Before 0.3 its place was named by the model, and the fingerprint held hashes of code."""
    old = tmp_path / "old"
    for step, code in ((20, "1"), (30, "1")):
        save(old, step, fingerprint=PRINT | {"code": {"electra/nn": code}})
    system = fsspec.filesystem("s3")
    for path in sorted(old.rglob("*")):
        if path.is_file():
            system.put_file(str(path), f"team/electra/pretrain-x-5e1f77aa/{path.relative_to(old)}")
    system.put_file(str(old / "step-30/progress.json"), "team/electra/pretrain-y-00000000/step-30/progress.json")
    assert bring(tmp_path / "another") == [30]


def test_a_damaged_checkpoint_is_kept_and_the_mirrors_good_one_is_brought(tmp_path: Path, sender: Mirror) -> None:
    save(sender.run, 20)
    sender.send()
    (sender.run / "step-20/model.safetensors").write_bytes(b"damaged")
    sender.bring()
    assert checkpoint.steps(sender.run) == [20] and len(list(sender.run.glob("bad-step-20*"))) == 1
    assert checkpoint.load(sender.run / "step-20")[0] == 20


def test_a_continued_run_is_not_given_checkpoints_of_a_fresh_one(tmp_path: Path, sender: Mirror) -> None:
    save(sender.run, 30)
    sender.send()
    other = Mirror(URL, tmp_path / "another/runs/x", PRINT)
    for step in (10, 20):
        progress = {"step": step, "fingerprint": PRINT, "continued": [{"step": 5}]}
        checkpoint.save(other.run, step, {"model": {"weight": torch.zeros(10)}}, progress, keep=2)
        other.send()
    other.bring()
    assert checkpoint.steps(other.run) == [10, 20]
    shutil.rmtree(other.run / "step-20")
    other.bring()
    assert checkpoint.steps(other.run) == [10, 20]


@pytest.mark.parametrize("fault", ["short", "cut", "denied"])
def test_a_checkpoint_that_does_not_come_whole_is_left_for_the_one_before(tmp_path, sender, s3, capsys, fault):
    for step in (20, 30):
        save(sender.run, step)
        sender.send()
    (path,) = [path for path in fsspec.filesystem("s3").find("team/electra") if path.endswith("30/model.safetensors")]
    s3.faults[f"/{path}"] = fault
    assert bring(tmp_path / "another") == [20]
    said = capsys.readouterr().err
    assert said.count("warning:") == 1 and "step-30" in said and "the one before is taken" in said
    assert not list((tmp_path / "another").rglob(".*tmp*"))


def test_a_checkpoint_that_was_not_sent_to_its_end_is_none(tmp_path: Path, sender: Mirror, s3: S3) -> None:
    save(sender.run, 20)
    sender.send()
    save(sender.run, 30)
    place = sender.place([]).removeprefix("s3:/")
    s3.faults[f"PUT {place}/step-30/progress.json"] = "denied"
    sender.send()
    assert there() == sorted([*whole(20), "step-30/model.safetensors"])
    assert bring(tmp_path / "another") == [20]
    s3.faults.clear()
    save(sender.run, 40)
    sender.next = 0.0
    sender.send()
    assert there() == whole(20, 40)


def test_a_mirror_that_is_down_stops_nothing_is_told_once_and_tried_again(tmp_path, s3, monkeypatch, capsys):
    for name, seconds in (("EVERY", 0.05), ("AGAIN", 0.1)):
        monkeypatch.setattr(mirror, name, seconds)
    monkeypatch.setenv(mirror.VARIABLE, f"{URL}/")
    run = tmp_path / "runs/x"
    with monkeypatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        forget()
        with mirrored(run, PRINT):
            for step in (10, 20):
                save(run, step)
                time.sleep(0.5)
    said = capsys.readouterr().err
    assert said.count("asks for credentials") == 2  # at the beginning, and when it is to be sent
    assert "training goes on from what is here" in said and "are sent when the mirror answers" in said
    forget()
    with mirrored(run, PRINT):
        pass
    assert there() == whole(20)


def train(folder: Path, **more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pipelines", "pretrain", "smoke"]
    return subprocess.Popen(command, cwd=folder, env=environment(folder, **more), stderr=subprocess.PIPE, text=True)


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

    def sent() -> bool:
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
