"""What a disk may hold after the power went: the states that a sequence of changes may leave, and
no others.

The model is POSIX at its weakest. Of a file's data, only what an fsync has covered is there for
certain; later data is there, or missing, or cut, or zeros. Of a folder's names, those that an fsync
of the folder has covered; of later creations, renames and removals a prefix, in each folder its
own. A rename within a folder is whole or not there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class File:
    """The data as programs see it, and as it is safe."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytes | None = None  # never fsynced

    def after(self, chance: random.Random, how: str) -> bytes:
        """The data after a power cut."""
        data, old = bytes(self.data), self.safe or b""
        if self.safe == data:
            return data
        cut = chance.randrange(len(data) + 1)
        states = {
            "old": old,
            "zeros": bytes(len(data)),
            "cut": data[:cut],
            "torn": data[:cut] + bytes(len(data) - cut),
        }
        return {**states, "all": data}[chance.choice(list(states)) if how == "random" else how]


@dataclass
class Folder:
    """Names as programs see them, as they are safe, and the changes between the two."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    safe: dict[str, "File | Folder"] = field(default_factory=dict)
    # None: the name goes
    changes: list[dict[str, "File | Folder | None"]] = field(default_factory=list)

    def change(self, what: dict[str, "File | Folder | None"]) -> None:
        apply(what, self.names)
        self.changes.append(what)

    def sync(self) -> None:
        self.safe, self.changes = dict(self.names), []

    def after(self, chance: random.Random, how: str) -> dict[str, "File | Folder"]:
        """The names after a power cut."""
        names = dict(self.safe)
        count = {"old": 0, "random": chance.randrange(len(self.changes) + 1)}.get(
            how, len(self.changes)
        )
        for what in self.changes[:count]:
            apply(what, names)
        return names


def apply(what: dict[str, Any], names: dict[str, Any]) -> None:
    for name, node in what.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """A model of the folder `root`, first as it is on the real disk, all of it safe."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = self._read(root)
        self.todo: list[Callable[[], None]] = []

    def _read(self, folder: Path) -> Folder:
        names: dict[str, File | Folder] = {}
        for path in folder.iterdir():
            names[path.name] = (
                self._read(path)
                if path.is_dir()
                else File(bytearray(raw := path.read_bytes()), raw)
            )
        return Folder(names, dict(names))

    def node(self, path: Path) -> "File | Folder":
        """What is under a path."""
        node: File | Folder = self.top
        for name in path.relative_to(self.root).parts:
            assert isinstance(node, Folder)
            node = node.names[name]
        return node

    def note(self, what: str, paths: tuple[Path, ...], data: Any) -> None:
        """Remember a change for `replay` (benchmarks/reliability/disk.py reports it before it
        happens).
        """
        if what == "write":
            file, view = data
            place = None if "a" in file.mode else file.tell()
            data = (place, bytes(view))
        self.todo.append(lambda: self.do(what, paths, data))

    def do(self, what: str, paths: tuple[Path, ...], data: Any) -> None:
        """Make one change."""
        path = paths[0]
        if what == "write":
            place, raw = data
            file = self.node(path)
            assert isinstance(file, File)
            start = len(file.data) if place is None else place
            file.data[start : start + len(raw)] = raw
            return
        if what == "fsync":
            node = self.node(path)
            if isinstance(node, Folder):
                node.sync()
            else:
                node.safe = bytes(node.data)
            return
        try:
            parent = self.node(path.parent)
        except KeyError:  # `mkdir(parents=True)` begins with what cannot be done
            return
        assert isinstance(parent, Folder)
        if what == "create":
            there = parent.names.get(path.name)
            if there is None:
                parent.change({path.name: File()})
            elif data and isinstance(there, File):
                there.data = bytearray()
        elif what == "folder":
            if path.name not in parent.names:
                parent.change({path.name: Folder()})
        elif what == "remove":
            parent.change({path.name: None})
        elif what == "rename" and path.name in parent.names:
            target, moved = self.node(paths[1].parent), parent.names[path.name]
            assert isinstance(target, Folder)
            if target is parent:
                parent.change({path.name: None, paths[1].name: moved})
            else:
                target.change({paths[1].name: moved})
                parent.change({path.name: None})
        elif what == "link":
            target = self.node(paths[1].parent)
            assert isinstance(target, Folder)
            target.change({paths[1].name: parent.names[path.name]})

    def cut(self, target: Path, chance: random.Random) -> None:
        """Write a state that the disk may have after a power cut to a real folder."""
        how = chance.choice(["old", "zeros", "cut", "torn", "all", "random", "random", "random"])
        self._write(self.top, target, chance, how)

    def _write(self, folder: Folder, target: Path, chance: random.Random, how: str) -> None:
        target.mkdir(parents=True)
        for name, node in folder.after(chance, how).items():
            if isinstance(node, Folder):
                self._write(node, target / name, chance, how)
            else:
                (target / name).write_bytes(node.after(chance, how))


def cut_all(disk: Disk, targets: dict[int, list[tuple[Path, int]]]) -> None:
    """Replay what was noted and write states after so many changes: number of changes → folders,
    each with its seed.
    """
    for number, change in enumerate([lambda: None, *disk.todo]):
        change()
        for target, seed in targets.get(number, []):
            disk.cut(target, random.Random(seed))


def contents(folder: Path | Folder) -> dict[str, bytes]:
    """Every file with its bytes, as programs see them: of a model, or of a real folder."""
    if isinstance(folder, Path):
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
    found = {}
    for name, node in folder.names.items():
        if isinstance(node, File):
            found[name] = bytes(node.data)
        else:
            found |= {f"{name}/{inner}": raw for inner, raw in contents(node).items()}
    return found
