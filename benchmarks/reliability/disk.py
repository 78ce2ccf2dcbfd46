"""Every change that a child process makes to files, one by one: to count them, to be killed at one,
to have one fail.

Python's audit hooks report each open, rename, link, removal and new folder before it happens,
whoever asks for it. Writes and fsyncs have none: files are opened as `Watched`, whose writes are
the kernel's, and safetensors' writer, which is compiled, is replaced by one in Python that takes
the same steps. What a hook raises, its caller gets as the system's answer.
"""

import builtins
import ctypes
import errno
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

# What is about to happen: "create", "write", "fsync", "rename", "remove", "folder", "link"; its
# paths; of a write the file and the bytes, of a creation whether what was there is emptied
Happening = Callable[[str, tuple[Path, ...], Any], None]
WRITES = os.O_WRONLY | os.O_RDWR
EVENTS = {"os.remove": "remove", "os.rmdir": "remove", "os.mkdir": "folder"}
PIECE = 1 << 16


def watch(happening: Happening) -> None:
    """From here on, in this process, for good: call `happening` at every change to a file below the
    working folder.
    """
    here, inside = Path.cwd(), False

    def report(what: str, *names: Any, data: Any = None) -> None:
        nonlocal inside
        paths = tuple(here / os.fsdecode(name) for name in names)
        if not inside and all(path.is_relative_to(here) for path in paths):
            inside = True
            try:
                happening(what, paths, data)
            finally:
                inside = False

    def place(name: Any, folder: int) -> Path:
        return (path_of(folder) if folder > 0 else here) / os.fsdecode(name)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            if given[2] & WRITES and given[2] & os.O_CREAT:
                report("create", given[0], data=bool(given[2] & os.O_TRUNC))
        elif event == "os.rename":
            report("rename", given[0], given[1])
        elif event == "os.link":
            report("link", given[0], given[1])
        elif event in EVENTS:
            report(EVENTS[event], place(given[0], given[-1]))

    class Watched(io.FileIO):
        """A file whose writes are reported; half of the bytes are on the disk when a write is cut
        short.
        """

        def write(self, data: Any) -> int:
            view = memoryview(data).cast("B")
            report("write", path_of(self.fileno()), data=(self, view))
            return super().write(view)

    fsync = os.fsync

    def watched_fsync(file: Any) -> None:
        report("fsync", path_of(file if isinstance(file, int) else file.fileno()))
        fsync(file)

    plain_open = builtins.open

    def watched_open(
        file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any
    ) -> Any:
        if set(mode) <= set("rbt") or isinstance(file, int):
            return plain_open(file, mode, buffering, *more, **named)
        raw = Watched(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)

    def watched_serialize(tensors: dict[str, Any], name: Any, metadata: Any = None) -> None:
        raw = safetensors.serialize(tensors, metadata)
        aside = Path(name).parent / ".tmp000000"
        try:
            with watched_open(aside, "wb", 0) as file:
                for start in range(0, len(raw), PIECE):
                    file.write(raw[start : start + PIECE])
            aside.rename(name)
        except OSError as error:
            aside.unlink(missing_ok=True)
            text = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise safetensors.SafetensorError(text) from None

    os.fsync = watched_fsync
    builtins.open = io.open = watched_open
    safetensors.torch.serialize_file = watched_serialize
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]  # it goes past `write`
    sys.addaudithook(hook)


def path_of(descriptor: int) -> Path:
    """The path under which an open file is now."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def count(into: int) -> None:
    """Write one letter to the descriptor for each change."""
    watch(lambda what, paths, data: os.write(into, what[:1].encode()) and None)


class At:
    """Do `act` at the change number `index`, counted from 0."""

    def __init__(self, index: int, act: Happening) -> None:
        self._left, self._act = index, act

    def __call__(self, what: str, paths: tuple[Path, ...], data: Any) -> None:
        self._left -= 1
        if self._left < 0:
            self._act(what, paths, data)


def die(what: str, paths: tuple[Path, ...], data: Any) -> None:
    """Be killed before a change; in the middle of a write."""
    if what == "write":
        file, view = data
        io.FileIO.write(file, view[: len(view) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


class Fail:
    """Fail with an error number: at the first change of `kinds` that is met and, with `lasting`, at
    all that follow.
    """

    def __init__(self, number: int, kinds: tuple[str, ...], *, lasting: bool) -> None:
        self.number, self.kinds, self.lasting, self.met = number, kinds, lasting, False

    def __call__(self, what: str, paths: tuple[Path, ...], data: Any) -> None:
        if what in self.kinds and (self.lasting or not self.met):
            self.met = True
            raise OSError(self.number, os.strerror(self.number), str(paths[0]))


def full() -> Fail:
    """A disk on which there is no room left."""
    return Fail(errno.ENOSPC, ("create", "write", "folder", "link"), lasting=True)


def broken() -> Fail:
    """A disk with one bad place."""
    return Fail(
        errno.EIO, ("create", "write", "fsync", "folder", "rename", "link", "remove"), lasting=False
    )


def forbidden() -> Fail:
    """Folders that may not be changed from some moment on."""
    return Fail(errno.EACCES, ("create", "folder", "rename", "link", "remove"), lasting=True)


def unreadable(path: Path) -> None:
    """From here on, in this process: reading one file fails as it does from a disk with a bad
    place.
    """
    plain_open, safe_open, path = builtins.open, safetensors.torch.safe_open, path.absolute()
    error = OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    class Bad(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            raise error

        def readall(self) -> bytes:
            raise error

    def is_it(file: Any) -> bool:
        return (
            isinstance(file, str | bytes | os.PathLike)
            and Path(os.fsdecode(file)).absolute() == path
        )

    def bad_open(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        if not is_it(file) or not set(mode) <= set("rbt"):
            return plain_open(file, mode, buffering, *more, **named)
        buffered = io.BufferedReader(Bad(file, "r"))
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)

    def bad_safe_open(file: Any, *more: Any, **named: Any) -> Any:
        if is_it(file):
            raise error
        return safe_open(file, *more, **named)

    builtins.open = io.open = bad_open
    safetensors.torch.safe_open = bad_safe_open


def obey_permissions() -> None:
    """Let the bits of files and folders count for root, too: give up the two rights that go past
    them.
    """
    libc, header = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0)
    # effective, permitted, inheritable: of rights 0 to 31, then of the others
    rights = (ctypes.c_uint32 * 6)()
    libc.capget(header, rights)
    past = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    rights[0] &= ~past
    rights[1] &= ~past
    assert libc.capset(header, rights) == 0
