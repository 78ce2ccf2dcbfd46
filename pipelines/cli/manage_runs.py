"""The contents of runs/ (checkpoints, finished units, runs), and how to archive and delete them.

Everything in there can be made again by the commands that made it, at the same cost.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from electra.config import require
from electra.errors import BadConfig, BadInput, pluralize, printable
from electra.files import is_locked, lock_folder, remove
from electra.storage import checkpoint
from electra.storage.run_dir import CONTINUE, OLD, RUNS, RunFolder, read_entry, runs_folder
from pipelines import tracking
from pipelines.config.params import Params
from pipelines.stages import STAGES

KINDS = ("arm", "corpus", "finetune", "pretrain", "tokens")
FLOWS = "flows"
MANY = "finetune"  # a stage whose runs are listed in one line


def table() -> str:
    """Return a line for each run: its folder, its entry, its size, the step of its newest
    checkpoint, and its state.
    """
    rows = [("run", "entry", "size", "step", "")]
    for folder in _listed():
        steps = checkpoint.steps(folder)
        runs = sum(1 for run in folder.glob("[!.]*")) if folder == RUNS / MANY else 0
        notes = {
            pluralize(runs, "run"): runs,
            "in use": any(map(is_locked, _locks(folder))),
            "archived": OLD in folder.name,
            "holds damaged checkpoints": any(folder.glob("bad-step-*")),
        }
        run = printable(str(folder.relative_to(RUNS)))
        size = f"{_bytes(folder) / 1e6:,.1f} MB"
        step = f"{steps[-1]:,}" if steps else ""
        state = ", ".join(note for note, holds in notes.items() if holds)
        rows.append((run, printable(read_entry(folder)), size, step, state))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<<>><", widths, strict=True))
    return "".join(f"{line.format(*row).rstrip()}\n" for row in rows)


def _listed() -> list[Path]:
    """Return every run (all fine-tunings as one) and the flows' folders, but not the records that
    wait for MLflow.
    """
    runs_folder()
    groups = {RUNS / stage for stage in (*KINDS, FLOWS)} - {RUNS / MANY}
    folders = set(RUNS.glob("[!.]*")) - groups - {RUNS / tracking.FOLDER}
    for group in groups:
        folders.update(group.glob("[!.]*"))
    return sorted(path for path in folders if path.is_dir() and not path.is_symlink())


def ask_to_continue(origin: str, name: str) -> None:
    """Pass the run to continue to the stage and its processes, through the environment variable
    that DVC runs use.
    """
    from pipelines.stages.pretrain import find_runs

    known = find_runs(name)
    if origin and origin not in known:
        runs = ", ".join(known) or "none"
        raise BadConfig(f"--continue: {name} has no run {origin!r}; its runs are: {runs}")
    os.environ[CONTINUE] = origin or name


def restart(stage: str, name: str, params: Params) -> None:
    """Archive the run of an entry's present settings, finished or not, so that its stage starts
    from the beginning.
    """
    run: Path = STAGES[stage].module.run_folder(name, params)
    if not any(run.glob("[!.]*")):
        raise BadConfig(f"--restart: {run} holds nothing of {stage} {name}; leave the option out")
    with RunFolder(run) as held:
        print(f"{run}: starts over; the old run is {held.archive()}", file=sys.stderr, flush=True)


def delete(names: Sequence[str], *, archived: bool, sure: bool) -> None:
    """Delete folders of runs/, all of them or none, after asking unless `sure`.

    `archived` adds those that `--restart` has archived. Raises BadInput for an unknown name, and
    without a terminal to ask in; Busy for a run in use.
    """
    known = {str(folder.relative_to(RUNS)): folder for folder in _listed()}
    for name in names:
        if name not in known:
            raise BadInput(f"{RUNS / name}: there is no such run; `electra runs` lists them")
    folders = [known[name] for name in dict.fromkeys(names)]
    if archived:
        folders += [
            folder for name, folder in known.items() if OLD in name and folder not in folders
        ]
    if not folders and archived:
        print("there are no archived runs")
        return
    require(bool(folders), "runs remove: name the runs to remove, or give --archived")
    with contextlib.ExitStack() as held:
        for folder in folders:
            for lock in _locks(folder):
                held.enter_context(lock_folder(lock))
        if not sure and not sys.stdin.isatty():
            raise BadInput("runs remove: needs a terminal to ask in; add --yes if you are sure")
        size = f"{sum(map(_bytes, folders)) / 1e6:,.1f} MB"
        names = printable(", ".join(map(str, folders)))
        if not sure and not typer.confirm(f"remove {names} ({size}) for good?"):
            print("nothing was removed")
            return
        for folder in folders:
            remove(folder)
            print(printable(f"{folder} was removed"))


def _locks(folder: Path) -> list[Path]:
    """Return the folders whose locks show that a run is in use: those inside it, and the one
    next to a flow's checkout.
    """
    locks = [lock.parent for lock in sorted(folder.rglob(".lock"))]
    if folder.parent.name == FLOWS:
        locks.append(folder.parent / ".locks" / folder.name)
    return locks


def _bytes(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # a running stage deletes files
        return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    return 0
