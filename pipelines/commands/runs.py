"""What lies in runs/: checkpoints, runs set aside, finished units; and the one way to delete them, which asks.

Everything in there can be made again by the commands that made it, at their cost.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from electra.errors import BadConfig, BadInput, Busy
from electra.files import lock_folder, remove
from electra.storage import checkpoint
from electra.storage.run_dir import ASIDE, VARIABLE

RUNS, FLOWS = Path("runs"), "flows"


def table() -> str:
    """One line a folder in runs/: its size, the step of its newest checkpoint, whether it is in use or set aside."""
    rows = [("run", "size", "step", "")]
    folders = [*RUNS.glob("[!.]*"), *(RUNS / FLOWS).glob("[!.]*")]
    for folder in sorted(path for path in folders if path.is_dir() and path != RUNS / FLOWS):
        steps = checkpoint.steps(folder)
        notes = [
            "in use" if _in_use(folder) else "",
            "set aside" if ASIDE in folder.name else "",
            "holds damaged checkpoints" if any(folder.glob("bad-step-*")) else "",
        ]
        size, step = f"{_bytes(folder) / 1e6:,.1f} MB", f"{steps[-1]:,}" if steps else ""
        rows.append((str(folder.relative_to(RUNS)), size, step, ", ".join(filter(None, notes))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def wish_to_continue(origin: str, key: str) -> None:
    """Hand a run's name to the stage, and to processes that it may launch, by the variable that is used with DVC."""
    if origin.partition(ASIDE)[0] != key:
        raise BadConfig("--continue", f"is {origin!r}", f"{key}, or a run that was set aside from it")
    os.environ[VARIABLE] = origin


def delete(names: Sequence[str], *, sure: bool) -> None:
    """Delete folders of runs/ after a question, or without one where the user is `sure`; all of them or none.

    Raises BadInput for what is no folder directly in runs/ or runs/flows/, and where nobody can
    be asked; Busy for one in use.
    """
    folders = [RUNS / name for name in names]
    for name, folder in zip(names, folders, strict=True):
        parts = Path(name).parts[Path(name).parts[:1] == (FLOWS,) :]
        if len(parts) != 1 or parts[0].startswith(".") or folder.is_symlink() or not folder.is_dir():
            do = "`python -m pipelines runs` lists them"
            raise BadInput(folder, "is no run", "the name of a folder in runs/", do)
    with contextlib.ExitStack() as held:
        for folder in folders:
            for lock in _locks(folder):
                held.enter_context(lock_folder(lock))
        if not sure and not _agreed(folders):
            print("nothing was removed")
            return
        for folder in folders:
            remove(folder)
            print(f"{folder} was removed")


def _agreed(folders: Sequence[Path]) -> bool:
    size = sum(map(_bytes, folders)) / 1e6
    question = f"remove {', '.join(map(str, folders))} ({size:,.1f} MB) for good? [y/N] "
    if not sys.stdin.isatty():
        found = "asks, and there is no terminal to answer"
        raise BadInput("runs remove", found, "a terminal", "add --yes if you are sure")
    return input(question).strip().lower() in {"y", "yes"}


def _in_use(folder: Path) -> bool:
    try:
        for lock in _locks(folder):
            with lock_folder(lock):
                pass
    except Busy:
        return True
    return False


def _locks(folder: Path) -> list[Path]:
    """The folders by whose locks a run holds it: those inside, and the one beside a flow's checkout."""
    inside = [lock.parent for lock in sorted(folder.rglob(".lock"))]
    return [*inside, folder.parent / ".locks" / folder.name] if folder.parent.name == FLOWS else inside


def _bytes(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # of a run that is at work
        return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    return 0
