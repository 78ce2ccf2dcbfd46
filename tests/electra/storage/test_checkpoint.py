"""Checkpoints on disk: whole after a crash at any moment, every damage found, nothing wrong ever
saved.
"""

import itertools
import multiprocessing
import os
import sys

import pytest
import torch
from safetensors import SafetensorError

from electra.errors import CorruptFile, NonFinite, Unreadable
from electra.storage import checkpoint, tensors
from electra.storage.manifest import write_manifest
from tests.support.project import progress

FORK = multiprocessing.get_context("fork")


def test_crash_at_every_file_operation_of_a_save_leaves_a_good_checkpoint(tmp_path):
    for number in range(200):
        run = tmp_path / str(number)
        for step in (1, 2):
            save_step(run, step)
        process = FORK.Process(target=save_and_crash, args=(run, number))
        process.start()
        process.join()
        step, groups = checkpoint.load_newest(run)[:2]
        assert step in {2, 3} and torch.equal(groups["model"]["w"], torch.arange(4.0) * step)
        save_step(run, 3)  # left-overs of the crash do not hinder the next save
        assert checkpoint.load_newest(run)[0] == 3 and checkpoint.steps(run) == [2, 3]
        assert not list(run.glob(".*")) and not list(run.glob("bad-*"))
        if process.exitcode == 0:
            break
    assert 25 < number < 199  # opens, writes, fsyncs, renames, deletions


def save_step(run, step):
    groups = {"model": {"w": torch.arange(4.0) * step}, "optimizer": {"m": torch.ones(3)}}
    checkpoint.save(run, step, groups, progress(step), keep=2)


def save_and_crash(run, number):
    """Save step 3, prune step 1, and leave the process, without a goodbye, before its `number`-th
    file operation.
    """
    calls = itertools.count()

    def count():
        if next(calls) == number:
            os._exit(9)

    def watch(event, arguments):
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}:
            count()

    fsync = os.fsync
    write = tensors.write_tensors
    os.fsync = lambda handle: (count(), fsync(handle))

    def write_tensors(path, of):
        count()  # the library writes out of Python's sight: before it, and after half of the bytes
        path.write_bytes(b"half")
        count()
        write(path, of)

    tensors.write_tensors = write_tensors
    sys.addaudithook(watch)
    save_step(run, 3)
    os._exit(0)


@pytest.mark.parametrize(
    "error", [OSError(116, "Stale file handle"), SafetensorError("I/O error (os error 5)")]
)
def test_a_disk_that_does_not_answer_leaves_checkpoints_where_they_are(
    tmp_path, monkeypatch, error
):
    for step in (1, 2):
        save_step(tmp_path, step)

    def refuse(path):
        raise error

    monkeypatch.setattr(tensors, "load_file", refuse)
    with pytest.raises(Unreadable, match="run the same command again"):
        checkpoint.load_newest(tmp_path)
    assert checkpoint.steps(tmp_path) == [1, 2]


def test_a_checkpoint_is_read_back_before_an_older_one_goes(tmp_path, monkeypatch):
    for step in (1, 2):
        save_step(tmp_path, step)

    def write_then_cut(folder, **fields):
        write_manifest(folder, **fields)
        (folder / "model.safetensors").write_bytes(b"half")

    monkeypatch.setattr(checkpoint, "write_manifest", write_then_cut)
    with pytest.raises(CorruptFile, match="4 bytes instead of"):
        save_step(tmp_path, 3)
    assert checkpoint.steps(tmp_path) == [1, 2, 3]
    assert checkpoint.read_progress(tmp_path / "step-3")["step"] == 3, "whatever its tensors are"
    assert checkpoint.load_newest(tmp_path)[0] == 2


def test_only_plain_numbers_are_steps(tmp_path):
    for name in ("step-7", "step-10", "step-010", "step-\u0663", "step-x", "bad-step-3"):
        (tmp_path / name).mkdir()
    assert checkpoint.steps(tmp_path) == [7, 10]


def test_checkpoints_swapped_between_steps_are_refused(tmp_path):
    for step in (1, 2):
        save_step(tmp_path, step)
    (tmp_path / "step-1").rename(tmp_path / "x")
    (tmp_path / "step-2").rename(tmp_path / "step-1")
    (tmp_path / "x").rename(tmp_path / "step-2")
    (tmp_path / "bad-step-1").mkdir()  # as an earlier fault left it
    with pytest.raises(CorruptFile, match=r"good: .*step-2.* 1 instead of 2; .*step-1"):
        checkpoint.load_newest(tmp_path)
    kept = r"good: bad-step-1 \| bad-step-1-2 \| bad-step-2; bring one back"
    with pytest.raises(CorruptFile, match=kept):
        checkpoint.load_newest(tmp_path)


def test_nonfinite_weights_are_not_saved(tmp_path):
    for value in (torch.nan, -torch.inf):
        with pytest.raises(NonFinite):
            checkpoint.save(tmp_path, 1, {"model": {"w": torch.tensor([value])}}, {}, keep=2)
    assert checkpoint.steps(tmp_path) == []
