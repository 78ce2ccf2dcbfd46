"""The only file that renames, fsyncs or deletes: whole files or none, whole folders or none, one
process per folder.

A file appears under its final name only complete and fsynced (write under a temporary name, fsync,
rename, fsync the folder), so a crash at any moment leaves the old bytes or the new ones. Writers
may be processes of several containers or machines. So temporary names are random, and each writer
locks its own. One that nobody holds was left by a killed writer.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import io
import itertools
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from electra.errors import BadInput, Busy, CorruptFile, OutOfRoom, Unreadable

REBUILD_ADVICE = "run the stage that makes it again"
RETRY = "run the same command again"
LOCK = ".lock"  # in a locked folder: who holds it
SMALL = 1 << 24  # bytes; a larger file is not a settings file
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
REFUSED = {
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
}
IN_THE_WAY = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP}
# reading fails like this where a file of ours is missing or replaced
DAMAGED = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


def sha256_bytes(data: bytes) -> str:
    """Return the hex sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    """Make a file durable, or the names in a folder: a rename is only safe once its folder is on
    disk.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # of file systems that cannot
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into an OutOfRoom that the user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in IN_THE_WAY:
            obstacle = Path(error.filename2 or error.filename or path)
            while not os.path.lexists(obstacle):  # below a file
                obstacle = obstacle.parent
            sentence = f"{obstacle}: is in the way ({error.strerror}); move it away"
        elif error.errno in FULL:
            reason = f"{error.strerror}, {free_bytes(path):,} bytes free"
            sentence = f"{path}: cannot be written ({reason}); free some space"
        elif error.errno in REFUSED:
            advice = "check the disk and its permissions"
            sentence = f"{path}: cannot be written ({error.strerror}); {advice}"
        else:
            raise
        raise OutOfRoom(f"{sentence}, then {RETRY}") from error


@contextlib.contextmanager
def read_errors(path: Path, do: str = REBUILD_ADVICE) -> Iterator[None]:
    """Turn a refusal to read into CorruptFile, or into Unreadable if the next try may succeed."""
    try:
        yield
    except OSError as error:
        fault = f"{path}: cannot be read ({error.strerror or error})"
        if error.errno is None or error.errno in DAMAGED:
            raise CorruptFile(f"{fault}; {do}") from None
        raise Unreadable(f"{fault}; {RETRY}, and if that does not help move it away") from None


@contextlib.contextmanager
def well_formed(where: object, do: str = REBUILD_ADVICE) -> Iterator[None]:
    """Turn the errors from reading a malformed record into CorruptFile."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFile(
            f"{where}: is malformed ({type(error).__name__}: {error}); {do}"
        ) from error


def free_bytes(path: Path) -> int:
    """Return the free space of the disk on which a path is, or would be."""
    folder = path if path.is_dir() else path.parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder next to `path`, which this process locks and removes at
    the end.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, f".{glob.escape(path.name)}")
        while True:
            folder = path.with_name(f".{path.name}.tmp-{secrets.token_hex(8)}")
            folder.mkdir()
            with contextlib.suppress(FileNotFoundError):  # swept before it was locked
                lock = (folder / LOCK).open("ab")
                if _locked(lock.fileno()) and (folder / LOCK).exists():
                    break
                lock.close()
        try:
            yield folder / "new"
        finally:
            # anything left, such as a lock that another process has just opened, is swept later
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def sweep(folder: Path, names: str = "**/.*") -> None:
    """Remove the temporary folders of killed writers anywhere in a folder: those
    whose lock is free.
    """
    for leftover in list(folder.glob(f"{names}.tmp-*")):
        with contextlib.suppress(OSError), (leftover / LOCK).open("ab") as lock:
            if _locked(lock.fileno()):
                shutil.rmtree(leftover, ignore_errors=True)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a whole file under its final name, or leave the old file there."""
    with _temporary(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
        _fsync(temporary)
        temporary.replace(path)
        _fsync(path.parent)


def write_user_file(path: Path, text: str) -> None:
    """Write to a path that a user gave: a whole file, as `write_atomic` does, also behind a link,
    or into a device or a pipe.

    Paths under /dev and /proc (/dev/stdout, /dev/fd/3) are open elsewhere, and so never replaced.
    """
    try:
        special = path.is_symlink() and path.absolute().parts[1] in {"dev", "proc"}
        if special or (path.exists() and not path.is_file() and not path.is_dir()):
            with path.open("ab") as file:
                file.write(text.encode())
        else:
            write_atomic(path.resolve(), text)
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be written ({reason}); choose another place") from None


def dump_json(value: Any) -> str:
    """Return stable JSON text: sorted keys, two spaces, one final newline. NaN is refused, since
    other readers reject it.
    """
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write stable JSON atomically."""
    write_atomic(path, dump_json(value))


def _read_text(path: Path, do: str) -> str:
    with read_errors(path, do):
        if not os.path.lexists(path):
            raise BadInput(f"{path}: there is no such file; run the stage that makes it")
        if not path.is_file():  # a device or a pipe may never end
            raise CorruptFile(f"{path}: is not a regular file; {do}")
        with well_formed(path, do):
            return path.read_text(encoding="utf-8")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of the pairs of a JSON object. Raise KeyError for a key that occurs twice."""
    if len(row := dict(pairs)) != len(pairs):
        raise KeyError("a key twice in one object")
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def read_json(path: Path, do: str = REBUILD_ADVICE) -> Any:
    """Read JSON; a missing or malformed file is a UserError. So are NaN, and a key that occurs
    twice, as after a merge: readers differ in which value they take.
    """
    text = _read_text(path, do)
    with well_formed(path, do):
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of settings, and so a small file."""
    if path.is_file() and (size := path.stat().st_size) > SMALL:
        raise CorruptFile(f"{path}: has {size:,} bytes, and settings have at most {SMALL:,}")
    values = read_json(path)
    if not isinstance(values, dict):
        raise CorruptFile(
            f"{path}: is a {type(values).__name__} instead of a JSON object; {REBUILD_ADVICE}"
        )
    return values


def encodes(text: str) -> bool:
    """Return whether a text can be written as UTF-8: JSON may escape a lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def dump_line(row: Any) -> str:
    """Return one compact JSON object with its line's end."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write one compact JSON object per line, atomically."""
    write_atomic(path, "".join(map(dump_line, rows)))


def read_jsonl(path: Path) -> list[Any]:
    """Read one JSON value per line. Errors name the line."""
    rows: list[Any] = []
    for number, line in enumerate(io.StringIO(_read_text(path, REBUILD_ADVICE)), 1):
        with well_formed(f"{path}:{number}"):
            rows.append(json.loads(line))
    return rows


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder. If the block succeeds, it becomes `path`; otherwise it is removed.

    Every file is fsynced before the rename. An existing `path` is replaced; if another process does
    the same at the same time, the last one stays.
    """
    with _temporary(path) as temporary:
        temporary.mkdir()
        yield temporary
        sweep(temporary)  # of what could not be removed
        for part in [*temporary.rglob("*"), temporary]:
            _fsync(part)
        _put(temporary, path)
        _fsync(path.parent)


def _put(new: Path, path: Path) -> None:
    """Rename `new` to `path`. The old `path` goes into the folder of `new`."""
    for number in itertools.count():
        old = new.with_name(f"old-{number}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(old)
        try:
            new.rename(path)
            return
        except OSError as error:
            # another process was quicker
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                with contextlib.suppress(OSError):
                    old.rename(path)
                raise


def remove(path: Path) -> None:
    """Delete a file or a folder tree, if it exists."""
    with write_errors(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def rename(old: Path, new: Path) -> None:
    """Rename durably."""
    with write_errors(new):
        old.rename(new)
        _fsync(new.parent)


def unused_path(path: Path) -> Path:
    """Return `path`, or if that is taken `path-2`, `path-3`, …, so that nothing is replaced."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    names = itertools.chain([path], numbered)
    return next(name for name in names if not os.path.lexists(name))


def link_or_copy(old: Path, new: Path) -> None:
    """Give a finished file a second name without a second copy of its bytes, where the file system
    can.
    """
    try:
        new.hardlink_to(old)
    except OSError:
        shutil.copyfile(old, new)


def safe_join(folder: Path, name: str, do: str = REBUILD_ADVICE) -> Path:
    """Join a name found in data to a folder; one that leads outside of it, or over a link, is
    refused.
    """
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute():
        raise BadInput(
            f"{folder}: names the file {name!r}, which lies outside; do not use this data"
        )
    path = folder / name
    if path.resolve() != folder.resolve() / name:
        raise CorruptFile(f"{path}: leads over a link; {do}")
    return path


@contextlib.contextmanager
def lock_folder(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Lock a folder for this process. After `patience` seconds raise Busy with the holder's pid and
    host.
    """
    deadline = time.monotonic() + patience
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # unbuffered: otherwise closing would run into a full disk again
        handle = (folder / LOCK).open("ab+", buffering=0)
    with handle:
        with write_errors(folder):
            while not _locked(handle.fileno()):
                if time.monotonic() >= deadline:
                    handle.seek(0)
                    holder = handle.read().decode("utf-8", "replace").strip() or "another process"
                    raise Busy(f"{folder}: is in use by {holder}; wait for that run or stop it")
                time.sleep(0.1)
            handle.truncate(0)
            handle.write(f"pid {os.getpid()} on {socket.gethostname()}".encode())
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked a folder. Writes nothing, since listings may be of a
    read-only one.
    """
    with contextlib.suppress(OSError), (folder / LOCK).open("rb") as handle:
        return not _locked(handle.fileno(), fcntl.LOCK_SH)
    return False


def _locked(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the lock of an open file, unless another process has it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
