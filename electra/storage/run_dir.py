"""The folder of a run: `runs/<stage>/<first 8 digits of its fingerprint>/`, for every kind of run.

    runs/pretrain/1f0c52d3/run.json     the entry of params.yaml that it belongs to
    runs/pretrain/1f0c52d3/step-800/    a checkpoint
    runs/pretrain/1f0c52d3.old/         the same run, finished by earlier code

A fingerprint is of settings and data, so two settings never share a folder, and settings that come
back find their run. Code is an attribute of a run: it is recorded with every checkpoint and result,
and a run continues under changed code. Nothing is deleted because something changed.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.errors import BadInput, CorruptFile, SourceUnreachable, Unreadable, UserError
from electra.files import lock_folder, read_json, rename, sweep, unused_path, write_json
from electra.storage import checkpoint
from electra.storage.checkpoint import Groups, Progress
from electra.storage.fingerprint import Code, Fingerprint, describe, differences

RUNS = Path("runs")
RECORD = "run.json"
OLD = ".old"
# the run to continue: the option `--continue` for stages that DVC starts
CONTINUE = "ELECTRA_CONTINUE"
Versions = list[list[Any]]  # [step from which it was used, Code], in order


def runs_folder() -> Path:
    """Return runs/. Raises SourceUnreachable where it is a link to a disk that is not mounted."""
    if RUNS.is_symlink() and not RUNS.is_dir():
        raise SourceUnreachable(f"{RUNS}: leads to {RUNS.readlink()}, which is not there; mount it")
    return RUNS


def run_path(stage: str, fingerprint: Fingerprint | str) -> Path:
    """Return the folder of the run with a fingerprint, or with the hex digest of one."""
    return RUNS / stage / (fingerprint if isinstance(fingerprint, str) else digest(fingerprint))[:8]


def name_run(run: Path, entry: str, fingerprint: Fingerprint | str) -> None:
    """Record the owner of a run's folder, for listings. Raises CorruptFile where the folder is
    another run's.
    """
    record = {"entry": entry, "fingerprint": fingerprint}
    if (run / RECORD).is_file():
        other = read_json(run / RECORD).get("fingerprint")
        if other != fingerprint:
            changes = describe(differences({"": other}, {"": fingerprint}))
            raise CorruptFile(f"{run}: is the folder of another run ({changes}); move it away")
    write_json(run / RECORD, record)


def read_entry(run: Path) -> str:
    """Return the entry of params.yaml that a run belongs to, "" if that is unknown."""
    with contextlib.suppress(UserError, AttributeError):
        return str(read_json(run / RECORD).get("entry", ""))
    return ""


class RunFolder:
    """A run's folder, locked by this process, which waits up to `patience` seconds for another one
    that holds it.

    The lock is inside, so it is taken again when the folder is renamed.
    """

    def __init__(self, path: Path, patience: float = 0) -> None:
        self.path = path
        self.patience = patience
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> "RunFolder":
        self._lock.enter_context(lock_folder(self.path, self.patience))
        sweep(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def archive(self) -> Path:
        """Rename the folder to `<name>.old`, and start a new one with only its record. Return the
        old path.
        """
        old = archive(self.path)
        self._lock.close()
        self.__enter__()
        if (old / RECORD).is_file():
            write_json(self.path / RECORD, read_json(old / RECORD))
        return old


def archive(run: Path) -> Path:
    """Rename a run's folder to `<name>.old`, or `.old-2` and so on: nothing is replaced."""
    old = unused_path(run.with_name(f"{run.name}{OLD}"))
    rename(run, old)
    return old


def readable_checkpoints(run: Path) -> dict[int, Progress]:
    """Return the progress.json of each checkpoint of a run, newest first; damaged ones are left to
    the loader.
    """
    result = {}
    for step in reversed(checkpoint.steps(run)):
        try:
            result[step] = checkpoint.read_progress(run / f"step-{step}")
        except Unreadable:
            raise
        except UserError:
            pass
    return result


def newest_progress(run: Path) -> Progress | None:
    """Return the record of the newest checkpoint, or None without one."""
    return next(iter(readable_checkpoints(run).values()), None)


def prepare(folder: RunFolder, fingerprint: Fingerprint, code: Code, last: int) -> None:
    """Prepare a run's folder: leave only checkpoints that training may continue from.

    Checkpoints of another run, put there by hand, become `foreign-step-N`. A run that other code
    has finished (`last`: its last step) is archived, since it will be trained again.
    """
    run = folder.path
    for step, progress in readable_checkpoints(run).items():
        changes = differences(progress["fingerprint"], fingerprint)
        if changes:
            why = f"it is of another run: {describe(changes)}"
            checkpoint.set_aside(run, step, "foreign", why)
    latest = newest_progress(run)
    used = latest["code"] if latest else []
    if latest and used and code and latest["step"] >= last and used[-1][1] != code:
        old = folder.archive()
        _report(f"{run}: finished under other code, so it is trained again; the old run is {old}")


def continue_from(
    run: Path,
    source: Path,
    fingerprint: Fingerprint,
    fits: Callable[[Groups, Progress], None],
    *,
    keep: int,
) -> None:
    """Start a run from a copy of another run's newest checkpoint, and record the change. The other
    run is not changed.

    Does nothing where that was done before. `fits` raises a UserError for a checkpoint that these
    settings cannot continue from.
    """
    progress = newest_progress(run)
    if progress:
        if any(change["run"] == source.name for change in progress["continued"]):
            return
        raise BadInput(
            f"{run}: holds a run of these settings, at step {progress['step']:,}; give --restart "
            "first to archive it"
        )
    newest_saved = checkpoint.load_newest(source, rename_bad=False)
    if newest_saved is None:
        raise BadInput(f"{source}: holds no checkpoint")
    step, groups, saved = newest_saved
    changed = differences(saved["fingerprint"], fingerprint)
    for key, do in (
        ("tokenizer", "other tokens need other weights: let the run start over"),
        ("pretrain.bias_correction", "the optimizer's state is of one kind: change it back"),
    ):
        if key in changed:
            old = changed[key][0]
            raise BadInput(f"{source}: cannot be continued under another {key} than {old}; {do}")
    fits(groups, saved)
    change = {key: saved[key] for key in ("step", "tokens", "flops")}
    change |= {"run": source.name, "changed": changed}
    saved |= {"fingerprint": fingerprint, "continued": [*saved["continued"], change]}
    if "pretrain.precision" in changed:
        del saved["precision"]
    checkpoint.save(run, step, groups | {"running": {}}, saved, keep=keep)
    settings = describe(changed) or "the same settings"
    _report(f"{run}: continues {source.name} from step {step:,}, with {settings}")


def _report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
