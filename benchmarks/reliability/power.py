"""Enumerate the states in which a sequence of changes may leave a disk when the power fails.

The model is POSIX at its weakest. A file's data is certain only up to the last fsync. Later data is
there, missing, cut, or zeros. A folder's names are certain up to its last fsync, and of later
changes to names any prefix has happened, in each folder independently. A rename within a folder is
whole or not there.
"""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.reliability.disk import watch

HOW = ["old", "zeros", "cut", "torn", "all", "random", "random", "random"]


@dataclass
class File:
    """The data as programs see it, and as it is safe."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytes | None = None  # never fsynced

    def after(self, chance: random.Random, how: str) -> bytes:
        """Return the data after a power cut."""
        data = bytes(self.data)
        if self.safe == data:
            return data
        length = chance.randrange(len(data) + 1)
        states = {
            "old": self.safe or b"",
            "zeros": bytes(len(data)),
            "cut": data[:length],
            "torn": data[:length] + bytes(len(data) - length),
        }
        return {**states, "all": data}[chance.choice(list(states)) if how == "random" else how]


@dataclass
class Folder:
    """Names as programs see them, as they are safe, and the changes from the one to the other."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    safe: dict[str, "File | Folder"] = field(default_factory=dict)
    changes: list[dict[str, "File | Folder | None"]] = field(default_factory=list)

    def change(self, change: dict[str, "File | Folder | None"]) -> None:
        """Give names to files and folders; None removes a name."""
        apply_change(change, self.names)
        self.changes.append(change)

    def sync(self) -> None:
        """Make the names safe."""
        self.safe = dict(self.names)
        self.changes = []

    def after(self, chance: random.Random, how: str) -> dict[str, "File | Folder"]:
        """Return the names after a power cut."""
        names = dict(self.safe)
        counts = {"old": 0, "random": chance.randrange(len(self.changes) + 1)}
        for change in self.changes[: counts.get(how, len(self.changes))]:
            apply_change(change, names)
        return names


def apply_change(change: dict[str, Any], names: dict[str, Any]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """A model of a folder, first as it is on the real disk, all of it safe."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = self.read(root)

    def read(self, folder: Path) -> Folder:
        names: dict[str, File | Folder] = {}
        for path in folder.iterdir():
            if path.is_dir():
                names[path.name] = self.read(path)
            else:
                data = path.read_bytes()
                names[path.name] = File(bytearray(data), data)
        return Folder(names, dict(names))

    def node(self, path: Path) -> Any:
        """Return the file or folder at a path."""
        node: Any = self.top
        for name in path.relative_to(self.root).parts:
            node = node.names[name]
        return node

    def change(self, what: str, paths: tuple[Path, ...], data: Any) -> None:
        """Make one change, which benchmarks/reliability/disk.py reports before it happens."""
        path = paths[0]
        if what == "write":
            handle, view = data
            file = self.node(path)
            start = len(file.data) if "a" in handle.mode else handle.tell()
            file.data[start : start + len(view)] = view
        elif what == "fsync":
            node = self.node(path)
            if isinstance(node, Folder):
                node.sync()
            else:
                node.safe = bytes(node.data)
        elif path == self.root or path.parent.is_dir():  # else the system refuses it
            self.change_names(what, self.node(path.parent), paths, data)

    def change_names(
        self, what: str, parent: Folder, paths: tuple[Path, ...], empties: bool
    ) -> None:
        """Create, remove or rename a file or a folder."""
        name = paths[0].name
        node = parent.names.get(name)
        if what == "create" and node is None:
            parent.change({name: File()})
        elif what == "create" and empties and isinstance(node, File):
            node.data = bytearray()
        elif what == "folder" and node is None:
            parent.change({name: Folder()})
        elif what == "remove":
            parent.change({name: None})
        elif what in {"rename", "link"} and node is not None:
            target = self.node(paths[1].parent)
            gone: dict[str, File | Folder | None] = {name: None} if what == "rename" else {}
            if target is parent:
                parent.change({**gone, paths[1].name: node})
            else:
                target.change({paths[1].name: node})
                parent.change(gone)

    def cut_power(self, target: Path, chance: random.Random) -> None:
        """Write a state that the disk may have after a power cut to a real folder."""
        self.write(self.top, target, chance, chance.choice(HOW))

    def write(self, folder: Folder, target: Path, chance: random.Random, how: str) -> None:
        target.mkdir(parents=True)
        for name, node in folder.after(chance, how).items():
            if isinstance(node, Folder):
                self.write(node, target / name, chance, how)
            else:
                (target / name).write_bytes(node.after(chance, how))


def cut_at(place: int, target: Path, chance: random.Random) -> Callable[[], object] | None:
    """Kill this process before the change number `place`, and leave a state after a power cut at
    `target`.
    """
    disk = Disk(Path.cwd())
    left = place

    def listen(what: str, paths: tuple[Path, ...], data: Any) -> None:
        nonlocal left
        if left == 0:
            assert contents(disk.read(disk.root)) == contents(disk.top), "the model is wrong"
            disk.cut_power(target, chance)
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        disk.change(what, paths, data)

    watch(listen)
    return None


def contents(folder: Folder) -> dict[str, bytes]:
    """Return every file of a model with its bytes, but for locks."""
    files = {}
    for name, node in folder.names.items():
        if isinstance(node, Folder):
            files |= {f"{name}/{inner}": data for inner, data in contents(node).items()}
        elif name != ".lock":
            files[name] = bytes(node.data)
    return files
