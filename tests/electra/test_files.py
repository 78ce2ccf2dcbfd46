"""The door to the disk: what killed writers left, names that are taken, a disk without a single byte."""

import errno
import os

import pytest

from electra.errors import CorruptFile, OutOfRoom
from electra.files import SMALL, free_name, lock_folder, read_object, remove, write_atomic
from tests.conftest import largest_file

DEAD = 999_999_999  # no process has this number


def test_what_a_killed_writer_of_a_file_left_is_swept(tmp_path):
    for name in (f".a.json.tmp-{DEAD}", f".b.json.tmp-{DEAD}", f".a.json.tmp-{os.getppid()}"):
        (tmp_path / name).write_text("half")
    write_atomic(tmp_path / "a.json", "whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "a.json",
        f".b.json.tmp-{DEAD}",
        f".a.json.tmp-{os.getppid()}",
    }  # another file's, a living process's


def test_a_free_name_replaces_nothing(tmp_path):
    assert free_name(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").symlink_to(tmp_path / "nowhere")
    assert free_name(tmp_path / "a") == tmp_path / "a-3"


@pytest.mark.parametrize("name", ["a.json", "run/.lock", "file/a.json"])
def test_what_is_in_the_way_is_a_sentence(tmp_path, name):
    (tmp_path / "file").write_text("")
    if not name.startswith("file"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(OutOfRoom, match=r"is in the way .*; move it away"):
        if name.endswith(".lock"):
            with lock_folder(tmp_path / "run"):
                pass
        else:
            write_atomic(tmp_path / name, "whole")
    assert not list(tmp_path.rglob("*tmp*"))


def test_a_lock_on_a_disk_without_room_is_a_sentence(tmp_path):
    with largest_file(0), pytest.raises(OutOfRoom), lock_folder(tmp_path / "run"):
        pass
    with lock_folder(tmp_path / "run"):
        pass


def test_a_rename_that_is_refused_is_a_sentence(tmp_path, monkeypatch):
    from electra import files

    def refused(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "fsync_folder", refused)
    (tmp_path / "a").mkdir()
    with pytest.raises(OutOfRoom):
        files.rename(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_may_not_be_removed_is_a_sentence(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "rmdir", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    for name in ("folder", "file"):
        with pytest.raises(OutOfRoom, match=f"{name}: cannot be written"):
            remove(tmp_path / name)
    monkeypatch.undo()


def test_settings_are_a_small_file_and_no_device(tmp_path):
    (tmp_path / "device.json").symlink_to("/dev/null")  # where /dev/zero would never end
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(SMALL + 1)
    for name, found in (("device", r"cannot be read \(no regular file\)"), ("huge", "has 16,777,217 bytes")):
        with pytest.raises(CorruptFile, match=rf"{name}\.json: {found}"):
            read_object(tmp_path / f"{name}.json")
