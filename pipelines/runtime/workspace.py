"""A run's own checkout. A run is (commit, model, settings), and its folder is named by the three:

    runs/flows/base-1a2b3c4d5e6f-9f8e7d6c/      a clone that borrows the checkout's objects and shares its DVC cache

    1. the commit, with files of yours that it names and git does not hold as links; the settings, by `dvc exp run -S`
    2. the flow's stages                    3. an experiment of that commit, pushed                   4. the folder goes

So nobody's checkout is edited or locked by a run, and two runs never meet: the second of the same three waits. A run
that failed or was killed leaves its folder, checkpoints included; the same run goes on in it.
"""

import contextlib
import getpass
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, Busy, UserError
from electra.files import lock_folder, remove, rename, write_atomic
from pipelines import ROOT
from pipelines.runtime import dvc_store
from pipelines.runtime.dvc_runner import Place, StageFailed, run
from pipelines.runtime.remote_files import FOLDER as COPIES
from pipelines.runtime.remote_files import VARIABLE as COPIES_IN
from pipelines.tracking import FOLDER as TRACKING
from pipelines.tracking import flatten, uri

FOLDER = Path("runs") / "flows"
TOLD = 4  # settings in the name of a flow run and of its run in MLflow
EVERY = 2.0  # seconds between two looks whether the run that is waited for has ended
MARK = "electra-store"  # in a clone's .git: there is a remote
ITS_OWN = {"build", "runs", "results"}  # what a run makes itself
Log = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What a run is of; `commit` is whole, or empty for a run in the checkout as it stands, edits included."""

    model: str
    commit: str
    settings: tuple[tuple[str, str], ...]
    part: str = ""  # of a run that several machines share: `glue@base`

    @staticmethod
    def read(model: str, commit: str, settings: Mapping[str, Any] | None, part: str = "") -> "Request":
        """From a flow's parameters. BadConfig for settings that have no commit to stand on, or cannot be given."""
        flat = {key: _quoted(value) for key, value in flatten(dict(settings or {})).items()}
        sha = resolve(commit) if commit else ""
        if flat and not sha:
            do = "give a commit, in a checkout that has its .git" if commit else "edit params.yaml"
            raise BadConfig("settings", "are given for a run in the checkout as it stands", "a commit", do)
        for key in flat:
            if not all(part.replace("_", "").replace("-", "").isalnum() for part in key.split(".")):
                raise BadConfig(f"settings.{key}", "is no name that DVC can set", "letters, digits, _ and -")
        return Request(model, sha, tuple(sorted(flat.items())), part)

    @property
    def name(self) -> str:
        """Of the folder and of the experiment: `base-1a2b3c4d5e6f`, with a digest of the settings if there are any."""
        digest = hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:8]
        part = re.sub(r"[^\w.-]", "-", self.part)
        return "-".join(filter(None, [self.model, self.commit[:12], digest * bool(self.settings), part]))

    @property
    def changes(self) -> list[str]:
        """The settings, short: `steps=1000`; of many the first."""
        told = [f"{key.rpartition('.')[2]}={value}" for key, value in self.settings]
        return told if len(told) <= TOLD else [*told[: TOLD - 1], f"and {len(told) - TOLD + 1} more"]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.model, self.commit[:8], *self.changes, self.part]))


def _quoted(value: str) -> str:
    """Text as DVC takes it from `-S`: in quotes, if it has signs that mean something there."""
    plain = re.fullmatch(r"[\w ./+-]*", value, re.ASCII) or value[:1] in "[{"
    return value if plain else json.dumps(value, ensure_ascii=False)


def resolve(commit: str) -> str:
    """The sha name of a commit, a tag or a branch; a branch is the remote's where there is one. Empty without git."""
    top = git("rev-parse", "--show-toplevel", check=False)
    if not top or Path(top).resolve() != ROOT.resolve():
        return ""
    if commit != "HEAD" and git("remote", "get-url", "origin", check=False):
        told = git("ls-remote", "origin", f"refs/heads/{commit}", f"refs/tags/{commit}", check=False)
        if told:
            return told.split()[0]
    sha = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", check=False)
    if not sha and len(commit) == 40:
        sha = commit  # one that this clone has not seen yet: it is fetched
    if not sha:
        do = "push it, or `git fetch` in the worker's checkout"
        raise BadConfig("commit", f"is {commit!r}, which is not known here", "a commit, a tag or a branch", do)
    return sha


@contextlib.contextmanager
def opened(request: Request, log: Log) -> Iterator[Place]:
    """Where a run's stages take place; gone afterwards, unless the block raises or MLflow has not got all of it."""
    if not request.commit:
        yield Place(ROOT)
        return
    folder = ROOT / FOLDER / request.name
    with _alone(folder, request, log):
        if not folder.exists():
            beside = folder.with_name(f".{folder.name}.new")
            try:
                remove(beside)
                _make(beside, request, log)
                rename(beside, folder)
            finally:
                remove(beside)
        yield Place(folder, _variables(folder))
        if not any((folder / "runs" / TRACKING).glob("*")):  # else `python -m pipelines sync` needs its figures
            remove(folder)


def settle(place: Place, request: Request, targets: Sequence[str], log: Log) -> None:
    """Save what a run has changed as an experiment of its commit, and push it to this checkout and to `origin`."""
    paths = ("params.yaml", "results", "dvc.lock", "pipelines/dvc.lock")
    git("add", "--all", "--", *(path for path in paths if (place.folder / path).exists()), folder=place.folder)
    dvc(place, "exp", "save", "--force", "--name", request.name, *targets, log=log)
    for remote in (str(ROOT), git("remote", "get-url", "origin", folder=place.folder)):
        try:
            dvc(place, "exp", "push", "--force", "--no-cache", remote, request.name, log=log)
        except StageFailed as error:
            log(f"warning: {error}; `dvc exp push origin {request.name}` in {ROOT} does it later")


def pulls(place: Place) -> bool:
    """Whether a run takes what ran elsewhere from a store."""
    return (place.folder / ".git" / MARK).exists()


@contextlib.contextmanager
def _alone(folder: Path, request: Request, log: Log) -> Iterator[None]:
    """Wait for a run of the same name; say for whom."""
    lock = folder.parent / ".locks" / folder.name
    said = False
    while True:
        try:
            with lock_folder(lock):
                yield
                return
        except Busy as error:
            if Path(error.where) != lock:
                raise
            if not said:
                log(f"{request}: waits for the same run, which {error.found.removeprefix('is ')}")
                said = True
            time.sleep(EVERY)


def _make(beside: Path, request: Request, log: Log) -> None:
    """Clone, and set: what is killed here, or whose settings are refused, has no name yet and is no checkout."""
    commit = request.commit
    git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(beside))
    origin = git("remote", "get-url", "origin", check=False) or str(ROOT)
    if "://" not in origin and (ROOT / origin).exists():
        origin = str((ROOT / origin).resolve())
    git("remote", "set-url", "origin", origin, folder=beside)
    if not git("cat-file", "-t", commit, folder=beside, check=False):
        git("fetch", "--quiet", "origin", commit, folder=beside)
    git("checkout", "--quiet", "--detach", commit, folder=beside)
    for key, value in (("name", getpass.getuser()), ("email", f"{getpass.getuser()}@{platform.node()}")):
        if not git("config", f"user.{key}", folder=beside, check=False):
            git("config", f"user.{key}", value, folder=beside)
    if git("status", "--porcelain", "--untracked-files=no", check=False):
        log(f"the checkout has changes that are not committed: this run is of {commit[:12]}, without them")
    if dvc_store.share(ROOT, beside):
        write_atomic(beside / ".git" / MARK, "")
    _set(Place(beside, _variables(beside)), request, log)


def _variables(folder: Path) -> dict[str, str]:
    """What the processes of a run find in their environment: its own code and state, this checkout's record of runs."""
    return {
        "DVC_SITE_CACHE_DIR": str(folder / ".dvc-site"),
        COPIES_IN: os.environ.get(COPIES_IN) or str(ROOT / COPIES),
        "MLFLOW_TRACKING_URI": uri(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
    }


def _set(place: Place, request: Request, log: Log) -> None:
    """Put settings into params.yaml as `dvc exp run -S` does, and have the commit's own reader check them."""
    if not request.settings:
        return
    from pipelines.config.settings_file import read

    values = read(place.folder / "params.yaml")
    changes = []
    for key, value in request.settings:
        section: Any = values
        for part in key.split("."):
            section = section.get(part, ...) if isinstance(section, Mapping) else ...
        changes += ["--set-param", f"{'+' if section is ... else ''}{key}={value}"]
    dvc(place, "exp", "run", *changes, "--single-item", f"{dvc_store.PIPELINE}:inputs", log=log)


def own_files(values: Any, folder: Path) -> None:
    """Link files of yours, named relative to the project and not held by git, from this checkout into a run's."""
    if isinstance(values, Mapping | list):
        for value in values.values() if isinstance(values, Mapping) else values:
            own_files(value, folder)
        return
    path = Path(values) if isinstance(values, str) and "\n" not in values else Path()
    if not path.parts or path.is_absolute() or ".." in path.parts or path.parts[0] in ITS_OWN:
        return
    there = Path()
    for part in path.parts:
        there /= part
        with contextlib.suppress(OSError):
            if not (ROOT / there).exists():
                return
            if not os.path.lexists(folder / there):
                (folder / there).symlink_to(ROOT / there)
                return


def ask(place: Place, *arguments: str) -> list[str]:
    """The lines that a command of the run's own code prints; StageFailed with its sentence if it fails."""
    printed: list[str] = []
    run([sys.executable, "-m", "pipelines", *arguments], " ".join(arguments), place, printed.append)
    return "\n".join(printed).split("\n")


def params(place: Place, *arguments: str) -> dict[str, Any]:
    """What `python -m pipelines params` of the run's own code prints."""
    printed = ask(place, "params", *arguments)
    found: dict[str, Any] = json.loads("\n".join(printed[printed.index("{") :]))  # warnings may come before
    return found


def dvc(place: Place, *arguments: str, log: Log) -> None:
    """A command of DVC there."""
    run([sys.executable, "-m", "dvc", *arguments], f"dvc {' '.join(arguments[:2])}", place, log)


def git(*arguments: str, folder: Path | None = None, check: bool = True) -> str:
    """What git prints; without `check` nothing where it fails."""
    where = folder or ROOT
    try:
        done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        if check:
            raise
        return ""
    if done.returncode and check:
        raise UserError(where, f"git {arguments[0]}: {' '.join(done.stderr.split())[:300]}")
    return done.stdout.strip() if done.returncode == 0 else ""
