"""A run's own working tree. A run is (commit, model, settings), and its folder is named after the three:

    runs/flows/base-1a2b3c4d5e6f-9f8e7d6c/      a git worktree of this checkout that shares its DVC cache

    1. the commit, with links to your own files that it names and git does not track; the settings, as `dvc exp run -S`
    2. the flow's stages                    3. an experiment of that commit, pushed                   4. removed

No run edits or locks anybody's checkout, and two runs never share a folder: the second of the same three waits. A run
that failed or was killed leaves its folder with its checkpoints, and the same run resumes in it.
"""

import contextlib
import getpass
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, Busy, UserError, hidden
from electra.files import lock_folder, remove, rename
from pipelines import ROOT
from pipelines.runtime import dvc_store
from pipelines.runtime.dvc_runner import Place, run
from pipelines.tracking import FOLDER as TRACKING
from pipelines.tracking import flatten, uri

FOLDER = Path("runs") / "flows"
SHOWN = 4  # settings in the title of a flow run and of its run in MLflow
SAVED = ("params.yaml", "results", "dvc.lock", "pipelines/dvc.lock")  # in a run's experiment
OUTPUTS = {"build", "runs", "results"}
Log = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is to be run. `commit` is a full hash, or empty for a run in the checkout as it is, edits included."""

    model: str
    commit: str
    settings: tuple[tuple[str, str], ...]
    part: str = ""  # of a run that several machines share: `glue@base`

    @staticmethod
    def read(model: str, commit: str, settings: Mapping[str, Any] | None, part: str = "") -> "Request":
        """From a flow's parameters. Raises BadConfig for settings without a commit, bad keys and secrets among them."""
        if not re.fullmatch(r"[\w-]+", model, re.ASCII):  # it becomes a folder and a git reference
            raise BadConfig("model", f"is {model!r}", "the name of a model in params.yaml")
        flat = {key: _quoted(value) for key, value in flatten(dict(settings or {})).items()}
        sha = resolve(commit) if commit else ""
        if flat and not sha:
            do = "give a commit, in a checkout that has its .git" if commit else "edit params.yaml"
            raise BadConfig("settings", "are given for a run in the checkout as it stands", "a commit", do)
        for key, value in flat.items():
            if hidden(value) != value:
                expected = "one without: credentials belong to the workers' environment"
                raise BadConfig(f"settings.{key}", "holds a URL with a login or a query", expected)
            if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
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
        """The settings in short, `steps=1000`; of many, the first."""
        short = [f"{key.rpartition('.')[2]}={value}" for key, value in self.settings]
        return short if len(short) <= SHOWN else [*short[: SHOWN - 1], f"and {len(short) - SHOWN + 1} more"]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.model, self.commit[:8], *self.changes, self.part]))


def _quoted(value: str) -> str:
    """Text as hydra's grammar reads it: in quotes, if it has characters that mean something there."""
    plain = re.fullmatch(r"[\w ./+-]*", value, re.ASCII) or value[:1] in "[{"
    return value if plain else json.dumps(value, ensure_ascii=False)


def resolve(commit: str) -> str:
    """The hash of a commit, a tag or a branch; a branch is the remote's where there is a remote. Empty without git."""
    top = git("rev-parse", "--show-toplevel", check=False)
    if not top or Path(top).resolve() != ROOT.resolve():
        return ""
    if commit != "HEAD" and git("remote", "get-url", "origin", check=False):
        names = git("ls-remote", "origin", f"refs/heads/{commit}", f"refs/tags/{commit}", check=False)
        if names:
            return names.split()[0]
    sha = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", check=False)
    if not sha and re.fullmatch("[0-9a-f]{40}", commit):
        return commit  # not in this clone yet: it is fetched
    if not sha:
        do = "push it, or `git fetch` in the worker's checkout"
        raise BadConfig("commit", f"is {commit!r}, which is not known here", "a commit, a tag or a branch", do)
    return sha


@contextlib.contextmanager
def opened(request: Request, log: Log) -> Iterator[Place]:
    """The place where a run's stages run; its folder is removed at the end.

    It stays if the block raises, and while MLflow has not received everything.
    """
    if not request.commit:
        yield Place(ROOT)
        return
    folder = ROOT / FOLDER / request.name
    with _exclusive(folder, request, log):
        _reopen(folder, request) if folder.exists() else _make(folder, request, log)
        yield Place(folder, _variables(folder), pull=dvc_store.share(ROOT, folder))
        if not any((folder / "runs" / TRACKING).glob("*")):  # else `python -m pipelines sync` needs its figures
            git("worktree", "remove", "--force", str(folder))


def _make(folder: Path, request: Request, log: Log) -> None:
    """Check the commit out and change its settings, under another name until both have worked."""
    if git("status", "--porcelain", "--untracked-files=no", check=False):
        log(f"the checkout has uncommitted changes: this run is of {request.commit[:12]}, without them")
    beside = _add_worktree(folder, request)
    try:
        if request.settings:
            from dvc.utils.hydra import apply_overrides

            try:
                apply_overrides(beside / "params.yaml", [f"++{key}={value}" for key, value in request.settings])
            except Exception as error:  # of DVC, hydra or omegaconf
                raise BadConfig("settings", f"cannot be set ({error.__cause__ or error})", "values of YAML") from error
            ask(Place(beside, _variables(beside)), "params")  # the commit's own code refuses what it does not know
        git("worktree", "move", str(beside), str(folder))
    finally:
        if beside.exists():
            git("worktree", "remove", "--force", str(beside), check=False)


def _reopen(folder: Path, request: Request) -> None:
    """Make an existing folder a worktree again after the project was moved or cloned again (a new container)."""
    git("worktree", "repair", str(folder), check=False)
    if not git("rev-parse", "--verify", "--quiet", "HEAD", folder=folder, check=False):
        beside = _add_worktree(folder, request, "--no-checkout")
        rename(beside / ".git", folder / ".git")
        remove(beside)
        git("worktree", "repair", str(folder))
        git("reset", "--quiet", folder=folder)


def _add_worktree(folder: Path, request: Request, *options: str) -> Path:
    """A worktree of the commit beside a run's folder, without the hooks of this checkout (`dvc install`)."""
    if not git("cat-file", "-t", request.commit, check=False):
        git("fetch", "--quiet", "origin", request.commit)
    beside = folder.with_name(f".{folder.name}.new")
    remove(beside)
    options = ("--quiet", "--force", "--detach", *options)
    git("-c", f"core.hooksPath={os.devnull}", "worktree", "add", *options, str(beside), request.commit)
    return beside


def save_experiment(place: Place, request: Request, log: Log) -> None:
    """Commit what a run has changed as a DVC experiment of its commit, here and at `origin`.

    `dvc exp save` would do the same by way of references that all worktrees share, and so get in the way of another
    run, or of the user's own `dvc exp run`.
    """
    from dvc.repo.experiments.refs import ExpRefInfo

    folder, reference, me = place.folder, str(ExpRefInfo(request.commit, request.name)), getpass.getuser()
    author: list[str] = []
    for key, value in (("user.name", me), ("user.email", f"{me}@{platform.node()}")):
        author += ["-c", f"{key}={git('config', key, check=False) or value}"]
    git("add", "--all", "--", *(path for path in SAVED if (folder / path).exists()), folder=folder)
    tree, message = git("write-tree", folder=folder), f"dvc: experiment {request.name}"
    made = git(*author, "commit-tree", tree, "-p", request.commit, "-m", message, folder=folder)
    git("update-ref", reference, made)
    if git("remote", "get-url", "origin", check=False):
        try:
            git("push", "--quiet", "--force", "--no-verify", "origin", f"{reference}:{reference}")
        except UserError as error:
            log(f"warning: {error}; `dvc exp push origin {request.name}` in {ROOT} does it later")
    log(f"experiment {request.name}: `dvc exp branch {request.name} BRANCH` makes a branch of it")


@contextlib.contextmanager
def _exclusive(folder: Path, request: Request, log: Log) -> Iterator[None]:
    """Wait for a run of the same name, and log which process it waits for."""
    lock = folder.parent / ".locks" / folder.name
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock_folder(lock))
        except Busy as error:
            log(f"{request}: waits for the same run, which {error.found}")
            held.enter_context(lock_folder(lock, math.inf))
        yield


def _variables(folder: Path) -> dict[str, str]:
    """The environment of a run's processes: its own code and DVC state, this checkout's downloads and MLflow."""
    return {
        "DVC_SITE_CACHE_DIR": str(folder / ".dvc-site"),
        "MLFLOW_TRACKING_URI": uri(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
    }


def link_own_files(values: Any, folder: Path) -> None:
    """Link your files, named in `values` relative to the project and not tracked by git, into a run's folder."""
    if isinstance(values, Mapping | list):
        for value in values.values() if isinstance(values, Mapping) else values:
            link_own_files(value, folder)
        return
    path = Path(values) if isinstance(values, str) and "\n" not in values else Path()
    if not path.parts or path.is_absolute() or ".." in path.parts or path.parts[0] in OUTPUTS:
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
    """The output lines of a command of the run's own code. Raises StageFailed, with its sentence, if it fails."""
    printed: list[str] = []
    run([sys.executable, "-m", "pipelines", *arguments], " ".join(arguments), place, printed.append)
    return printed


def params(place: Place, *arguments: str) -> dict[str, Any]:
    """The output of `python -m pipelines params` of the run's own code."""
    printed = ask(place, "params", *arguments)
    values: dict[str, Any] = json.loads("\n".join(printed[printed.index("{") :]))  # warnings may come first
    return values


def git(*arguments: str, folder: Path | None = None, check: bool = True) -> str:
    """Git's output. A failure raises UserError or, without `check`, gives an empty text."""
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
