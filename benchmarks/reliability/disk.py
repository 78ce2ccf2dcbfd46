"""Every change that a child process makes to files, one by one: to count them, to be killed at one,
to let one fail.

Python's audit hooks report each open, rename, link, removal and new folder before it happens. They
report no writes and fsyncs. So files are opened as `Watched`, which reports its writes, and
safetensors' compiled writer is replaced by one in Python that takes the same steps. The caller gets
a hook's exception as the system's answer.
"""

import builtins
import errno
import io
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

# Gets the coming change ("create", "write", "fsync", "rename", "remove", "folder" or "link"), its
# paths, and data: of a write the file and the bytes, of a creation whether the file is emptied.
Listener = Callable[[str, tuple[Path, ...], Any], None]
PIECE = 1 << 16


def watch(listener: Listener) -> None:
    """From here on, in this process, call `listener` at every change to a file below the working
    folder.
    """
    top = Path.cwd()
    busy = False

    def report(what: str, *names: Any, data: Any = None) -> None:
        nonlocal busy
        paths = tuple(top / os.fsdecode(name) for name in names)
        if not busy and all(path.is_relative_to(top) for path in paths):
            busy = True
            try:
                listener(what, paths, data)
            finally:
                busy = False

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            if given[2] & (os.O_WRONLY | os.O_RDWR) and given[2] & os.O_CREAT:
                report("create", given[0], data=bool(given[2] & os.O_TRUNC))
        elif event in {"os.rename", "os.link"}:
            report(event.removeprefix("os."), given[0], given[1])
        elif event in {"os.remove", "os.rmdir", "os.mkdir"}:
            folder = path_of(given[-1]) if given[-1] > 0 else top
            what = "folder" if event == "os.mkdir" else "remove"
            report(what, folder / os.fsdecode(given[0]))

    class Watched(io.FileIO):
        """A file that reports its writes."""

        def write(self, data: Any) -> int:
            view = memoryview(data).cast("B")
            report("write", path_of(self.fileno()), data=(self, view))
            return super().write(view)

    def watched_fsync(file: Any, fsync: Callable[[Any], None] = os.fsync) -> None:
        report("fsync", path_of(file if isinstance(file, int) else file.fileno()))
        fsync(file)

    def opened(file: Any, mode: str) -> io.FileIO | None:
        reads = set(mode) <= set("rbt") or isinstance(file, int)
        return None if reads else Watched(file, mode.replace("b", "").replace("t", ""))

    def watched_serialize(tensors: dict[str, Any], name: Any, metadata: Any = None) -> None:
        raw = safetensors.serialize(tensors, metadata)
        temporary = Path(name).parent / ".tmp000000"
        try:
            with open(temporary, "wb", 0) as file:  # noqa: PTH123
                for start in range(0, len(raw), PIECE):
                    file.write(raw[start : start + PIECE])
            temporary.rename(name)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            text = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise safetensors.SafetensorError(text) from None

    replace_open(opened)
    os.fsync = watched_fsync
    safetensors.torch.serialize_file = watched_serialize  # type: ignore[attr-defined]
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]  # it goes past `write`
    sys.addaudithook(hook)


def replace_open(opened: Callable[[Any, str], io.FileIO | None]) -> None:
    """Let `open` use the raw file that `opened` returns, if it returns one."""
    plain_open = builtins.open

    def open_raw(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        raw = opened(file, mode)
        if raw is None:
            return plain_open(file, mode, buffering, *more, **named)
        if buffering == 0:
            return raw
        if "+" in mode:
            buffered: Any = io.BufferedRandom(raw)
        else:
            buffered = io.BufferedWriter(raw) if raw.writable() else io.BufferedReader(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)

    builtins.open = io.open = open_raw


def path_of(descriptor: int) -> Path:
    """Return the present path of an open file."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def count_changes(target: Path) -> Callable[[], object]:
    """Count the changes; the returned function writes their number to a file elsewhere."""
    kinds: list[str] = []
    watch(lambda what, paths, data: kinds.append(what))
    return lambda: target.write_text(str(len(kinds)))


def watch_from(place: int, listener: Listener) -> None:
    """Watch from the change number `place` on, counted from 0."""
    numbers = itertools.count()

    def listen(what: str, paths: tuple[Path, ...], data: Any) -> None:
        if next(numbers) >= place:
            listener(what, paths, data)

    watch(listen)


def kill_process(what: str, paths: tuple[Path, ...], data: Any) -> None:
    """Kill this process before a change; in the middle of a write."""
    if what == "write":
        file, view = data
        io.FileIO.write(file, view[: len(view) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number: int, kinds: str, *, lasting: bool) -> Listener:
    """Return a listener that fails at the first change of some kinds, and if `lasting` at all that
    follow.
    """
    failed = False

    def listen(what: str, paths: tuple[Path, ...], data: Any) -> None:
        nonlocal failed
        if what in kinds.split() and (lasting or not failed):
            failed = True
            raise OSError(number, os.strerror(number), str(paths[0]))

    return listen


FAULTS = {
    "full disk, ENOSPC": partial(fail, errno.ENOSPC, "create write folder link", lasting=True),
    "one bad place, EIO": partial(
        fail, errno.EIO, "create write fsync folder rename link remove", lasting=False
    ),
    "no permission, EACCES": partial(
        fail, errno.EACCES, "create folder rename link remove", lasting=True
    ),
}


def fail_reads(path: Path) -> None:
    """From here on, in this process, let reading one file fail as from a disk with a bad place."""
    path = path.absolute()
    error = OSError(errno.EIO, os.strerror(errno.EIO), str(path))
    safe_open = safetensors.torch.safe_open  # type: ignore[attr-defined]

    class Unreadable(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            raise error

        def readall(self) -> bytes:
            raise error

    def is_path(file: Any) -> bool:
        named = isinstance(file, str | bytes | os.PathLike)
        return named and Path(os.fsdecode(file)).absolute() == path

    def opened(file: Any, mode: str) -> io.FileIO | None:
        reads = set(mode) <= set("rbt")
        return Unreadable(file, "r") if reads and is_path(file) else None

    def failing_safe_open(file: Any, *more: Any, **named: Any) -> Any:
        if is_path(file):
            raise error
        return safe_open(file, *more, **named)

    replace_open(opened)
    safetensors.torch.safe_open = failing_safe_open  # type: ignore[attr-defined]
