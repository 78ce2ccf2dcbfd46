"""Files behind URLs, `s3://bucket/wiki/*.jsonl.zst` or what fsspec knows: listed, copied once, verified at each use.

    runs/fetched/wiki-1a2b3c4d/files/…       what a URL names: a file, a folder, or the files of a glob
    runs/fetched/wiki-1a2b3c4d/copies.json   the size of each, the server's version tag, and its sha256

Stages read the copies. A file whose size or tag has changed is copied again, with a warning that has both hashes; while
the server is unreachable, intact copies are used. ELECTRA_FETCHED names another folder than runs/fetched.
"""

import contextlib
import errno
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from glob import has_magic
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, CorruptFile, NoAccess, SourceUnreachable, UserError
from electra.files import lock_folder, remove, rename, room, safe_join, sha256_bytes, sha256_file
from electra.storage.manifest import read_notes, sha256_once, write_sealed
from pipelines.runtime.progress_bar import ProgressBar

FOLDER = Path("runs") / "fetched"
VARIABLE = "ELECTRA_FETCHED"
NOTES = "copies.json"
AT_ONCE = 8  # files
NOTED = 2.0  # seconds between two writes of copies.json
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
DO = "run the same command again: what has come is kept"
Version = list[Any]  # size in bytes, and a tag that changes with the content


def is_url(text: str) -> bool:
    """Whether a setting is a URL rather than a path."""
    return "://" in text


def listing(url: str, where: str) -> dict[str, Version]:
    """The files that a URL names, under their names relative to it, without reading them."""
    with reaching(url, where) as (system, path):
        return {name: version for name, (_, version) in _files(system, path).items()}


def place(text: str, where: str) -> Path:
    """A path as it is; for a URL that names a file its copy, for any other the folder of copies."""
    if not is_url(text):
        return Path(text)
    folder, names = _copied(text, where)
    return folder / names[0] if names == [text.rpartition("/")[2]] else folder


def copies(url: str, where: str) -> list[Path]:
    """The copies of all files that a URL names, whole."""
    folder, names = _copied(url, where)
    return [folder / name for name in names]


def _copied(url: str, where: str) -> tuple[Path, list[str]]:
    """Copy what is not here yet; the folder, and the names in it."""
    stem = url.rstrip("/*").rpartition("/")[2].partition(".")[0].strip("*?[]") or "files"
    home = Path(os.environ.get(VARIABLE) or FOLDER) / f"{stem}-{sha256_bytes(url.encode())[:8]}"
    with lock_folder(home, math.inf):
        notes = {"names": [], "files": {}} | read_notes(home / NOTES) | {"url": url}
        try:
            with reaching(url, where) as (system, path):
                _fetch(system, _files(system, path), home, where, notes)
        except SourceUnreachable as error:
            known, names = notes["files"], notes["names"]
            if not names or not all(_is_whole(home / "files" / name, known.get(name)) for name in names):
                raise
            print(f"warning: {error}; the copies in {home} are used", file=sys.stderr, flush=True)
    return home / "files", notes["names"]


def _fetch(system: Any, listed: dict[str, tuple[str, Version]], home: Path, where: str, notes: dict[str, Any]) -> None:
    """Bring a URL's copies up to date with the listing, and `notes`: `names`, and `files` name -> [version, sha256]."""
    known, noted, url = notes["files"], time.monotonic(), notes["url"]
    todo = [name for name in listed if not _is_whole(home / "files" / name, known.get(name), listed[name][1])]

    def one(name: str) -> str:
        path, (size, _) = listed[name]
        return _copy(system, path, size, safe_join(home / "files", name, "do not use this data"), f"{where}: {url}")

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        with ProgressBar(where, sum(listed[name][1][0] or 1 for name in todo), "bytes") as progress:
            for name, sha256 in zip(todo, pool.map(one, todo), strict=True):
                if (old := known.get(name, [None, sha256])[1]) != sha256:
                    print(f"warning: {url}: {name} has sha256 {sha256}, and had {old} before", file=sys.stderr)
                    notes["names"] = []  # until all is here: old copies and new ones belong to no one version
                known[name] = [listed[name][1], sha256]
                progress.update(progress.done + (listed[name][1][0] or 1))
                if time.monotonic() - noted > NOTED:
                    write_sealed(home / NOTES, notes)
                    noted = time.monotonic()
        for name in known.keys() - listed.keys():
            remove(home / "files" / name)
            del known[name]
        notes["names"] = list(listed)
    finally:
        pool.shutdown(cancel_futures=True)
        write_sealed(home / NOTES, notes)


def _is_whole(path: Path, fact: list[Any] | None, version: Version | None = None) -> bool:
    """Whether a copy is intact, and of this version if one is given; a damaged one costs a warning."""
    if fact is None or not path.is_file() or (version is not None and fact[0] != version):
        return False
    if (found := sha256_once(path)) != fact[1]:
        print(f"warning: {path}: has sha256 {found}; expected {fact[1]}; it is copied again", file=sys.stderr)
    return bool(found == fact[1])


def _copy(system: Any, path: str, size: int | None, target: Path, where: str) -> str:
    """Copy one file, of the size that the server reports; returns its sha256."""
    part = target.with_name(f".{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        for _ in range(2):
            system.get_file(path, str(part))
            if size in {None, arrived := part.stat().st_size}:
                sha256 = sha256_file(part)
                rename(part, target)
                return sha256
        raise CorruptFile(f"{where}: {path}", f"arrives with {arrived:,} bytes, twice", f"{size:,}", DO)
    finally:
        remove(part)


def _files(system: Any, path: str) -> dict[str, tuple[str, Version]]:
    """Name -> (path on the server, version) of the files that a path or glob names, sorted by name."""
    system.invalidate_cache()
    if has_magic(path):
        root = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        found = system.glob(path, detail=True)
    else:
        info = system.info(path)
        root = path.rpartition("/")[0] if info["type"] == "file" else path.rstrip("/")
        found = {path: info}
    for folder in [name for name, info in found.items() if info["type"] == "directory"]:
        found |= system.find(folder, detail=True)
    files = {name.removeprefix(f"{root}/"): info for name, info in found.items() if info["type"] == "file"}
    if not files:  # a glob or a prefix whose files have gone: their copies may be the last ones
        raise FileNotFoundError(path)
    return {
        name: (str(info["name"]), [info["size"], _mark(info)])
        for name, info in sorted(files.items())
        if not name.rpartition("/")[2].startswith(".")
    }


def _mark(info: dict[str, Any]) -> str:
    return next((str(info[key]) for key in ("ETag", "etag", "md5", "mtime", "LastModified") if info.get(key)), "")


@contextlib.contextmanager
def reaching(url: str, where: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and the path in it; every failure becomes one sentence.

    Raises NoAccess without valid credentials, SourceUnreachable for what is missing, does not answer or breaks off, and
    BadConfig for a kind of URL that cannot be read here.
    """
    import fsspec.core

    kind = url.partition("://")[0]
    try:
        yield fsspec.core.url_to_fs(url)
    except UserError:
        raise
    except ImportError as error:
        do = "pip install 'electra-workflow[s3]'" if kind == "s3" else "install it"
        raise BadConfig(where, f"{url} needs a package that is not here ({reason(error)})", "the package", do) from None
    except FileNotFoundError:
        raise SourceUnreachable(where, f"there is nothing at {url}", "", "put it there or change the URL") from None
    except Exception as error:  # of boto, aiohttp, ssh: whatever carries the bytes
        if isinstance(error, OSError) and error.errno in DISK:
            with room(FOLDER):
                raise
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise BadConfig(where, f"{url} is of a kind that fsspec does not know", "s3://, …", "") from None
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            expected = f"those of {kind} in the environment"
            raise NoAccess(where, f"{url} asks for credentials ({reason(error)})", expected) from None
        raise SourceUnreachable(where, f"{url} does not answer, or broke off ({reason(error)})", "", DO) from None


def reason(error: BaseException) -> str:
    """What a library's error says in its first line, or what it is called."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
