"""Write and verify the manifest of a finished folder: MANIFEST.json, written last, with the size
and sha256 of every file, and its owner. Readers verify each file before they use it, and ignore
files that the manifest does not list.
"""

import json
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from electra.errors import BadInput, CorruptFile, UserError
from electra.files import (
    REBUILD_ADVICE,
    dump_json,
    read_errors,
    read_json,
    safe_join,
    sha256_bytes,
    sha256_file,
    well_formed,
    write_json,
)

MANIFEST = "MANIFEST.json"
CARD = "README.md"  # people may edit it, so no manifest lists it
SETTLED = 1_000_000_000  # ns: so soon after a change another one may leave the same times
_hashed: dict[tuple[int, ...], str] = {}


def cached_sha256(path: Path) -> str:
    """Return the hex sha256 of a file, hashed once per process: again only when its inode, size or
    times have changed.
    """
    status = path.stat()
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if stamp not in _hashed:
        digest = sha256_file(path)
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) <= SETTLED:
            return digest
        _hashed[stamp] = digest
    return _hashed[stamp]


def write_manifest(folder: Path, **fields: Any) -> dict[str, Any]:
    """Write MANIFEST.json, last: size and sha256 of every file in the folder, the given fields, the
    hash of all that.

    Model cards are left out. The fields name the owner of the files. A folder within may have a
    manifest of its own, which is a file like any other.
    """
    files = {
        str(file.relative_to(folder)): {"bytes": file.stat().st_size, "sha256": sha256_file(file)}
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file != folder / MANIFEST and file.name != CARD
    }
    return write_checksummed(folder / MANIFEST, {**fields, "files": files})


def write_checksummed(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Write a JSON object with its own hash inside, for a file that no manifest lists. Return it
    with the hash.
    """
    sealed: dict[str, Any] = json.loads(dump_json(values))  # as it is read again
    sealed["sha256"] = _hash(sealed)
    write_json(path, sealed)
    return sealed


def read_checksummed(path: Path, do: str = REBUILD_ADVICE) -> dict[str, Any]:
    """Read a file of `write_checksummed`, its keys in the file's order. Raise CorruptFile if a bit
    of it has changed.
    """
    values = read_json(path, do)
    if not isinstance(values, dict) or values.pop("sha256", None) != _hash(values):
        raise CorruptFile(f"{path}: is damaged (its own sha256 does not fit it); {do}")
    return values


def read_cache(path: Path) -> dict[str, Any]:
    """Read a file that only saves work. Return {} if it does not exist or, with a warning, if it is
    damaged.
    """
    if not os.path.lexists(path):
        return {}
    try:
        return read_checksummed(path, "nothing needs to be done")
    except UserError as error:
        print(
            f"warning: {error}; the work that they saved is done again", file=sys.stderr, flush=True
        )
        return {}


def _hash(values: dict[str, Any]) -> str:
    return sha256_bytes(json.dumps(values, sort_keys=True).encode())


def read_manifest(folder: Path, do: str = REBUILD_ADVICE, **fields: Any) -> dict[str, Any]:
    """Return a folder's manifest, which must be whole and say these fields. Read no other file."""
    path = folder / MANIFEST
    with read_errors(path, do):
        if not folder.is_dir():
            raise BadInput(f"{folder}: there is no such folder; {do}")
        if not path.is_file():
            raise CorruptFile(f"{folder}: has no {MANIFEST}, so it is not complete; {do}")
    manifest = read_checksummed(path, do)
    for key, value in fields.items():
        if manifest.get(key) != value:
            raise CorruptFile(
                f"{path}: says {key} {manifest.get(key)!r} instead of {value!r}; {do}"
            )
    return manifest


def verify_manifest(
    folder: Path, *, only: Collection[str] | None = None, do: str = REBUILD_ADVICE, **fields: Any
) -> dict[str, Any]:
    """Check a folder's files, or `only` those of these names, against its manifest, and return the
    manifest.

    The error names the file and what is wrong with it. Links to folders are refused. Files that the
    manifest does not list are ignored. Bytes are hashed once per process.
    """
    manifest = read_manifest(folder, do, **fields)
    with well_formed(folder / MANIFEST, do):  # a fitting hash doesn't prove the form
        for name in manifest["files"] if only is None else only:
            path = folder / name
            with read_errors(path, do):
                if path.parent != folder:
                    safe_join(folder, str(Path(name).parent), do)
                if name not in manifest["files"]:
                    raise CorruptFile(f"{path}: is not in {MANIFEST}; {do}")
                if not path.is_file():  # a link, as DVC makes, is one
                    raise CorruptFile(f"{path}: is missing; {do}")
                expected = manifest["files"][name]
                size = path.stat().st_size
                if size != expected["bytes"]:
                    raise CorruptFile(
                        f"{path}: has {size} bytes instead of {expected['bytes']}; {do}"
                    )
                digest = cached_sha256(path)
                if digest != expected["sha256"]:
                    fault = f"has sha256 {digest} instead of {expected['sha256']}"
                    raise CorruptFile(f"{path}: {fault}; {do}")
    return manifest


def read_if_complete(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the manifest of a folder that has this fingerprint and is intact, else None; damage is
    a warning.
    """
    try:
        if not folder.is_dir() or read_manifest(folder).get("fingerprint") != fingerprint:
            return None
        return verify_manifest(folder)
    except (CorruptFile, BadInput) as error:
        print(f"warning: {error}; it is made again", file=sys.stderr, flush=True)
        return None
