"""The one door to the disk: whole files or none, whole folders or none, one process a folder.

A file appears under its final name only complete and fsynced (write beside, fsync, rename, fsync the folder), so a
crash at any moment leaves the old bytes or the new ones. Only this module renames, fsyncs or deletes.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import itertools
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput, Busy, CorruptFile, OutOfRoom

AGAIN = "run the stage that makes it again"
LOCK = ".lock"  # in a locked folder: who holds it
SMALL = 1 << 24  # bytes of settings; a file of more holds something else
REFUSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
IN_THE_WAY = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP}


def sha256_bytes(data: bytes) -> str:
    """Hex sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's content, read in 1 MiB pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a rename is only safe once its folder is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def room(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into an error that the user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in IN_THE_WAY:
            there = error.filename2 or error.filename or path
            found, do = f"is in the way ({error.strerror})", "move it away, then run the same command again"
            raise OutOfRoom(there, found, "a file or folder of ours, or nothing", do) from error
        if error.errno not in REFUSED:
            raise
        found = f"cannot be written ({error.strerror}, {_free_bytes(path):,} bytes free)"
        do = "free some space or choose another folder, then run the same command again"
        raise OutOfRoom(path, found, "a writable disk with room", do) from error


@contextlib.contextmanager
def readable(path: Path, do: str = AGAIN) -> Iterator[None]:
    """The same for a refusal to read."""
    try:
        yield
    except OSError as error:
        raise CorruptFile(path, f"cannot be read ({error.strerror or error})", "a file that can be read", do) from None


def _free_bytes(path: Path) -> int:
    folder = path if path.is_dir() else path.parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a whole file under its final name or leave what was there."""
    raw = data.encode() if isinstance(data, str) else data
    with room(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
        _sweep(path)
        try:
            with temporary.open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        fsync_folder(path.parent)


def write_through(path: Path, text: str) -> None:
    """Write where a user points to: a file whole, as `write_atomic` does, also behind a link; into a device or a pipe.

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
        raise BadInput(path, f"cannot be written ({reason})", "a file to write to", "choose another place") from None


def dump_json(value: Any) -> str:
    """Stable JSON text: sorted keys, two spaces, one final newline; NaN is refused, since no other reader takes it."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write stable JSON atomically."""
    write_atomic(path, dump_json(value))


def read_json(path: Path, do: str = "delete it and run the stage that makes it") -> Any:
    """Read JSON; a missing or broken file is a UserError."""
    with _as_json(path, "a JSON file", do):
        if not path.is_file() and not path.is_dir():
            path.stat()  # which says that it is missing
            raise OSError("no regular file")  # a device or a pipe may never end
        return json.loads(path.read_text(encoding="utf-8"))


@contextlib.contextmanager
def _as_json(path: Path, expected: str, do: str) -> Iterator[None]:
    """Turn whatever goes wrong while JSON is read into a UserError."""
    try:
        with readable(path, do):
            try:
                yield
            except FileNotFoundError:
                raise BadInput(path, "there is no such file", expected, "run the stage that makes it") from None
    except (ValueError, RecursionError) as error:  # a ValueError: no JSON, no UTF-8, or a number of endless digits
        raise CorruptFile(path, f"is not JSON ({error})", "JSON", do) from None


@contextlib.contextmanager
def as_written(where: object) -> Iterator[None]:
    """Around the use of a record: values other than its stage writes are a CorruptFile."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        found = f"is not as its stage writes it ({type(error).__name__}: {error})"
        raise CorruptFile(where, found, "the record that a stage left", AGAIN) from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of settings, and so a small file."""
    if path.is_file() and (size := path.stat().st_size) > SMALL:
        raise CorruptFile(path, f"has {size:,} bytes", f"at most {SMALL:,}", AGAIN)
    values = read_json(path)
    if not isinstance(values, dict):
        raise CorruptFile(path, f"is a {type(values).__name__}", "keys and values", AGAIN)
    return values


def encodes(text: str) -> bool:
    """Whether a text can be written as UTF-8: JSON may escape half a character, a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dump_line(row: Any) -> str:
    """One compact JSON object with its line's end."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def write_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Write one compact JSON object a line, atomically."""
    write_atomic(path, "".join(map(dump_line, rows)))


def read_jsonl(path: Path) -> list[Any]:
    """Read one JSON value a line; the error names the line."""
    rows: list[Any] = []
    do = "delete the file and run the stage that makes it"
    with _as_json(path, "a JSON-lines file", do), path.open(encoding="utf-8") as file:
        try:
            rows.extend(map(json.loads, file))
        except (ValueError, RecursionError) as error:
            found = f"is not JSON ({error})"
            raise CorruptFile(f"{path}:{len(rows) + 1}", found, "one JSON value a line", do) from None
    return rows


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; when the block ends well it becomes `path`, else it is removed.

    An existing `path` is replaced. Every file is fsynced before the rename. What killed processes left is removed.
    """
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with room(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        remove(temporary)  # of a dead process whose number this one has
        temporary.mkdir()
        try:
            yield temporary
            commit_folder(temporary, path)
        except BaseException:
            remove(temporary)
            raise


def _sweep(path: Path) -> None:
    """Remove what killed processes left beside `path` while they wrote it."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.tmp-*"):
        if not _alive(leftover.name.rpartition("-")[2]):
            remove(leftover)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def commit_folder(temporary: Path, path: Path) -> None:
    """Fsync every file of `temporary`, then give it the name `path`; what was there is replaced."""
    for file in sorted(temporary.rglob("*")):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        else:
            fsync_folder(file)
    fsync_folder(temporary)
    remove(path)
    temporary.rename(path)
    fsync_folder(path.parent)


def remove(path: Path) -> None:
    """Delete a file or a folder tree, if it is there."""
    with room(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def rename(old: Path, new: Path) -> None:
    """Rename durably."""
    with room(new):
        old.rename(new)
        fsync_folder(new.parent)


def free_name(path: Path) -> Path:
    """`path`, or if that is taken `path-2`, `path-3`, …, so that nothing is replaced."""
    taken = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return path if not os.path.lexists(path) else next(name for name in taken if not os.path.lexists(name))


def link_or_copy(old: Path, new: Path) -> None:
    """Give a finished file a second name without a second copy of its bytes, where the file system can."""
    try:
        new.hardlink_to(old)
    except OSError:
        shutil.copyfile(old, new)


def safe_join(folder: Path, name: str, do: str = AGAIN) -> Path:
    """Join a name found in data to a folder; one that leads outside of it, or over a link, is refused."""
    parts, path = Path(name).parts, folder
    if not parts or ".." in parts or Path(name).is_absolute():
        found = f"names the file {name!r}, which lies outside"
        raise BadInput(folder, found, "a name inside the folder", "do not use this data")
    for part in parts:
        path /= part
        if path.is_symlink():
            raise CorruptFile(path, "is a link", "a file of its own", do)
    return path


@contextlib.contextmanager
def lock_folder(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a folder for this process; after `patience` seconds it is refused with the holder's pid and host."""
    deadline = time.monotonic() + patience
    with room(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / LOCK).open("ab+", buffering=0)  # else a full disk would be met once more when it is closed
    with handle:
        while not _locked(handle.fileno()):
            if time.monotonic() >= deadline:
                handle.seek(0)
                found = f"is in use by {handle.read().decode('utf-8', 'replace').strip() or 'another process'}"
                raise Busy(folder, found, "a folder of its own for each run", "wait for that run or stop it")
            time.sleep(0.1)
        with room(folder):
            handle.truncate(0)
            handle.write(f"pid {os.getpid()} on {socket.gethostname()}".encode())
        yield


def _locked(handle: int) -> bool:
    """Take the lock of an open file, unless another process has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
