"""Access to the disk: left-overs of killed writers, names that are taken, a disk without a single
byte.
"""

import errno
import fcntl
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from electra.errors import BadInput, Busy, CorruptFile, OutOfRoom, Unreadable
from electra.files import (
    SMALL,
    atomic_folder,
    link_or_copy,
    lock_folder,
    read_errors,
    read_json,
    read_jsonl,
    read_object,
    remove,
    rename,
    sweep,
    unused_path,
    write_atomic,
    write_errors,
    write_json,
    write_jsonl,
    write_user_file,
)
from tests.support.project import ROOT, environment, largest_file


def refuse(*_, number=errno.EACCES, **__):
    raise OSError(number, os.strerror(number))


def test_what_killed_writers_left_is_swept_and_a_living_one_is_not(tmp_path):
    for name in (".a[1].tmp-00", ".b.json.tmp-11", "inner/.c.tmp-22"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "new").write_text("half")
    with atomic_folder(tmp_path / "a[1]"):
        (living,) = tmp_path.glob(".a*.tmp-*")
        write_atomic(tmp_path / "a[1]", "whole")
        assert (tmp_path / ".b.json.tmp-11").exists()  # of another file
        sweep(tmp_path)
        assert living.exists()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a[1]", "inner"]


WRITER = """
import os, sys
from pathlib import Path
from electra.files import atomic_folder, write_atomic

os.getpid = lambda: 7
for number in range(60):
    write_atomic(Path("a.json"), sys.argv[1] * 5000)
    with atomic_folder(Path("folder")) as folder:
        (folder / "first").write_text(sys.argv[1])
        (folder / "second").write_text(sys.argv[1])
"""


def test_what_could_not_be_removed_is_in_no_finished_folder(tmp_path, monkeypatch):
    with atomic_folder(tmp_path / "a") as folder:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            write_atomic(folder / "b", "b")
        assert len([*folder.iterdir()]) == 2
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_two_writers_with_the_same_process_number_leave_whole_files(tmp_path):
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], cwd=tmp_path, env=environment(ROOT))
        for name in "AB"
    ]
    assert [process.wait(120) for process in started] == [0, 0]
    assert (tmp_path / "a.json").read_text() in {"A" * 5000, "B" * 5000}
    folder = tmp_path / "folder"
    assert (folder / "first").read_text() == (folder / "second").read_text()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "folder"]


def test_a_write_is_durable_before_its_name_is(tmp_path, monkeypatch):
    """fsync the bytes, rename, fsync the folder: the order that survives a power cut."""
    synced = []

    def note_fsync(handle):
        # the final name is there only once all has been synced but the folder with that name
        synced.append((Path(f"/proc/self/fd/{handle}").resolve().name, (tmp_path / "a").exists()))

    monkeypatch.setattr(os, "fsync", note_fsync)
    write_atomic(tmp_path / "a", "whole")
    assert synced == [("new", False), (tmp_path.name, True)]
    synced.clear()
    remove(tmp_path / "a")
    with atomic_folder(tmp_path / "a") as folder:
        (folder / "inner").mkdir()
        (folder / "inner/file").touch()
    parts = [("inner", False), ("file", False), ("new", False)]
    assert synced == [*parts, (tmp_path.name, True)]


def test_only_a_full_disk_is_said_to_be_full(tmp_path, monkeypatch):
    free = SimpleNamespace(free=1_234_567)
    monkeypatch.setattr(shutil, "disk_usage", {tmp_path: free}.get)
    for number, advice in (
        (errno.EACCES, "check the disk and its permissions"),
        (errno.EROFS, "check the disk"),
        (errno.ENOSPC, r"1,234,567 bytes free\); free some space"),
        (errno.EDQUOT, "free some space"),
    ):
        with pytest.raises(OutOfRoom, match=advice), write_errors(tmp_path / "a/b/c"):
            refuse(number=number)
    with pytest.raises(OSError, match="Invalid"), write_errors(tmp_path / "a"):
        refuse(number=errno.EINVAL)


def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    before_rename(monkeypatch, refuse)
    (tmp_path / "a/file").mkdir(parents=True)
    with pytest.raises(OutOfRoom), atomic_folder(tmp_path / "a"):
        pass
    assert (tmp_path / "a/file").exists()


def test_a_folder_that_another_process_has_just_put_there_is_replaced(tmp_path, monkeypatch):
    before_rename(monkeypatch, lambda: (tmp_path / "a/theirs").mkdir(parents=True))
    with atomic_folder(tmp_path / "a") as folder:
        (folder / "ours").mkdir()
    assert [path.name for path in tmp_path.glob("*/*")] == ["ours"]


def before_rename(monkeypatch, action):
    """Do something once, before a new folder gets its final name."""
    rename = Path.rename

    def act_and_rename(old, new):
        if old.name == "new":
            monkeypatch.undo()
            action()
        return rename(old, new)

    monkeypatch.setattr(Path, "rename", act_and_rename)


def test_a_file_system_may_lack_hard_links_and_the_fsync_of_folders(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("whole")
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(os, "fsync", partial(refuse, number=errno.EINVAL))
    link_or_copy(tmp_path / "a", tmp_path / "c")
    rename(tmp_path / "c", tmp_path / "b")
    (tmp_path / "a").unlink()
    monkeypatch.setattr(os, "fsync", partial(refuse, number=errno.ENOTSUP))
    write_atomic(tmp_path / "a", (tmp_path / "b").read_text())
    assert (tmp_path / "a").read_text() == "whole"


@pytest.mark.parametrize(
    "owner, call, action",
    [
        (fcntl, "flock", lambda path: lock_folder(path).__enter__()),
        (os, "fsync", lambda path: rename(path, path.with_name("b"))),
        (os, "rmdir", remove),
    ],
)
def test_whatever_is_refused_is_a_sentence(tmp_path, monkeypatch, owner, call, action):
    (tmp_path / "a").mkdir()
    with monkeypatch.context() as patch, pytest.raises(OutOfRoom, match="cannot be written"):
        patch.setattr(owner, call, refuse)
        action(tmp_path / "a")


def test_a_read_that_fails_for_now_is_told_apart_from_damage(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    monkeypatch.setattr(Path, "read_text", partial(refuse, number=errno.ESTALE))
    with pytest.raises(Unreadable, match=r"a: cannot be read \(Stale file handle\)"):
        read_json(tmp_path / "a")
    for number in (errno.ENOENT, errno.ELOOP):
        with pytest.raises(CorruptFile) as caught, read_errors(tmp_path / "a"):
            refuse(number=number)
        assert not isinstance(caught.value, Unreadable)


def test_json_is_strict_and_its_lines_end_at_line_feeds_alone(tmp_path):
    (tmp_path / "a.jsonl").write_text('"a\u2028b"\n"c"\n')
    assert read_jsonl(tmp_path / "a.jsonl") == ["a\u2028b", "c"]
    for text in ('{"a": 1, "a": 2}', "[NaN]"):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(CorruptFile, match=r"a\.json: is malformed"):
            read_json(tmp_path / "a.json")
    (tmp_path / "a.jsonl").write_text('"a"\n{\n')
    with pytest.raises(CorruptFile, match=r"a\.jsonl:2: is malformed .JSONDecodeError"):
        read_jsonl(tmp_path / "a.jsonl")
    for write in (write_json, write_jsonl):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(tmp_path / "b", [math.nan])


def test_a_free_name_replaces_nothing(tmp_path):
    assert unused_path(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").symlink_to(tmp_path / "nowhere")
    assert unused_path(tmp_path / "a") == tmp_path / "a-3"


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    remove(tmp_path / "link")
    assert not [*tmp_path.iterdir()]


def test_a_reader_that_has_gone_is_no_fault_of_the_place():
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        write_user_file(Path(f"/dev/fd/{writer}"), "text")
    os.close(writer)


def test_a_file_that_is_open_elsewhere_gets_the_text_at_its_end(tmp_path):
    with (tmp_path / "a").open("w") as file:
        print("first", file=file, flush=True)
        write_user_file(Path(f"/dev/fd/{file.fileno()}"), "second\n")
    assert (tmp_path / "a").read_text() == "first\nsecond\n"


def test_a_place_that_takes_no_text_is_a_sentence():
    with pytest.raises(
        BadInput, match=r"^/dev/full: cannot be written \(No space left on device\)"
    ):
        write_user_file(Path("/dev/full"), "text")


def test_what_is_in_the_way_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "run/.lock").mkdir(parents=True)
    for action, obstacle in (
        (lambda: write_atomic(tmp_path / "run", "whole"), "run"),
        (lambda: write_atomic(tmp_path / "file/b/a.json", "whole"), "file"),
        (lambda: lock_folder(tmp_path / "run").__enter__(), r"run/\.lock"),
    ):
        sentence = rf"^{tmp_path}/{obstacle}: is in the way .*; move it away"
        with pytest.raises(OutOfRoom, match=sentence):
            action()
    assert not list(tmp_path.rglob("*tmp*"))


def test_a_lock_needs_room_and_names_its_holder_when_patience_ends(tmp_path):
    with largest_file(0), pytest.raises(OutOfRoom), lock_folder(tmp_path):
        pass
    holder = f"is in use by pid {os.getpid()} on {socket.gethostname()}; wait"
    for _ in range(2):
        start = time.monotonic()
        with lock_folder(tmp_path), pytest.raises(Busy, match=holder):
            lock_folder(tmp_path, patience=0.2).__enter__()
        assert time.monotonic() - start >= 0.2


def test_settings_are_a_small_file_and_no_device(tmp_path):
    (tmp_path / "device.json").symlink_to("/dev/null")  # where /dev/zero would never end
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(SMALL + 1)
    for name, fault in (("device", "is not a regular file"), ("huge", "has 16,777,217 bytes")):
        with pytest.raises(CorruptFile, match=rf"{name}\.json: {fault}"):
            read_object(tmp_path / f"{name}.json")
