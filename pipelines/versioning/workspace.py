"""A run's own clone. A run is (commit, model, settings), and its folder is named after the three:

    runs/flows/base-1a2b3c4d5e6f-9f8e7d6c/    a clone that shares git objects and DVC's cache

    1. the commit, with links to your own files that it names and git does not track
    2. the settings in its params.yaml
    3. the flow's stages
    4. an experiment of that commit, pushed
    5. the folder is removed

Runs never edit or lock anybody's checkout. Two runs of the same three do not overlap: the second
waits. A run that failed or was killed leaves its folder with its checkpoints, and the same
run resumes in it.
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from electra.config import leaves
from electra.errors import BadConfig, Busy, UserError, mask_secrets
from electra.files import lock_folder, remove, rename
from pipelines import ROOT
from pipelines.tracking import FOLDER as TRACKING
from pipelines.tracking import uri
from pipelines.versioning import dvc_store
from pipelines.versioning.dvc_runner import Checkout, run

FOLDER = Path("runs") / "flows"
# in a run's folder: everything is saved, only MLflow may lack events
FINISHED = Path(".git") / "finished"
# set where deploy/worker has made the checkout, which nobody looks at
WORKER_CLONE = "ELECTRA_REPOSITORY"
SHOWN = 4  # settings in the title of a flow run and of its run in MLflow
SAVED = ("params.yaml", "results", "dvc.lock", "pipelines/dvc.lock")  # in a run's experiment
OUTPUTS = {"build", "runs", "results"}
Log = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """A requested run. `commit` is a full hash, or empty for a run in the present checkout, edits
    included.

    `settings` are values by dotted keys of params.yaml.
    """

    model: str
    commit: str
    settings: Mapping[str, Any]
    part: str = ""  # of a run that several machines share: `glue@base`

    @staticmethod
    def read(
        model: str, commit: str, settings: Mapping[str, Any] | None, part: str = ""
    ) -> "Request":
        """Return the request of a flow's parameters.

        Raises BadConfig for an unknown commit, for settings without a commit, and for secrets and
        references in them.
        """
        if not re.fullmatch(r"[\w-]+", model, re.ASCII):  # it becomes a folder and a git reference
            raise BadConfig(f"model: is {model!r}, should be the name of a model in params.yaml")
        flat = dict(sorted(leaves(settings or {})))
        sha = resolve(commit) if commit else ""
        if flat and not sha:
            raise BadConfig(
                "settings: need a commit, in a checkout that has its .git; "
                "without one, edit params.yaml"
            )
        for key, value in flat.items():
            text = json.dumps(value, default=str)
            if mask_secrets(text) != text:
                raise BadConfig(
                    f"settings.{key}: a URL's login and query belong to the workers' environment"
                )
            if "${" in text:
                raise BadConfig(
                    f"settings.{key}: holds ${{…}}, which nothing expands; give the value itself"
                )
        return Request(model, sha, flat, part)

    @property
    def name(self) -> str:
        """Return the name of the folder and of the experiment: `base-1a2b3c4d5e6f`, with a
        digest of settings, if any.
        """
        parts = [self.model, self.commit[:12]]
        if self.settings:
            parts.append(hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:8])
        parts.append(re.sub(r"[^\w.-]", "-", self.part))
        return "-".join(filter(None, parts))

    @property
    def changes(self) -> list[str]:
        """Return the settings in short form, `steps=1000`; of many, only the first."""
        short = [f"{key.rpartition('.')[2]}={value}" for key, value in self.settings.items()]
        return (
            short
            if len(short) <= SHOWN
            else [*short[: SHOWN - 1], f"and {len(short) - SHOWN + 1} more"]
        )

    def __str__(self) -> str:
        return " ".join(filter(None, [self.model, self.commit[:8], *self.changes, self.part]))


def resolve(commit: str) -> str:
    """Return the hash of a commit, a tag or a branch. With a remote, a branch is the remote's.
    "HEAD" is this checkout's commit or, in a container's clone, the newest of its origin. It is
    empty without git. Raises BadConfig for a commit that is not known, and UserError where git
    fails.
    """
    if not has_git():
        if commit == "HEAD":
            return ""
        raise BadConfig(f"commit: is {commit!r}, but git does not track this folder")
    origin = git("config", "remote.origin.url", check=False)
    follows = WORKER_CLONE in os.environ
    if origin and (follows or commit != "HEAD"):
        names = [f"refs/heads/{commit}", f"refs/tags/{commit}"]
        names.append(f"refs/tags/{commit}^{{}}")  # the commit of an annotated tag
        if commit == "HEAD":
            names = [commit]
        if listed := git("ls-remote", "--", "origin", *names, check=follows):
            return listed.splitlines()[-1].split()[0]
    sha = git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", check=False
    )
    if not sha and re.fullmatch("[0-9a-f]{40}", commit):
        return commit  # not in this clone yet: it is fetched
    if not sha:
        raise BadConfig(
            f"commit: {commit!r} is not known here; push it, "
            "or `git fetch` in the worker's checkout"
        )
    return sha


def has_git() -> bool:
    """Return whether git tracks this project. Raises UserError where git fails, as in a folder of
    another user.
    """
    if shutil.which("git") is None and not (ROOT / ".git").exists():
        return False
    try:
        return bool(git("ls-files", "params.yaml"))
    except UserError as error:
        if "not a git repository" in str(error):
            return False
        raise


@contextlib.contextmanager
def opened(
    request: Request, log: Log, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Checkout]:
    """Open the checkout where a run's stages run, with these variables. Its folder is removed at
    the end.

    The folder stays if the block raises. It also stays until MLflow has received everything; the
    next run then removes it.
    """
    if not request.commit:
        yield Checkout(ROOT, variables)
        return
    for mark in sorted((ROOT / FOLDER).glob(f"*/{FINISHED}")):
        with contextlib.suppress(Busy), lock_folder(_lock(mark.parents[1])):
            _remove_if_sent(mark.parents[1])
    folder = ROOT / FOLDER / request.name
    with _exclusive(folder, request, log):
        _make(folder, request, log, variables)
        # this project may be a part of a larger repository
        project = folder / git("rev-parse", "--show-prefix")
        pull = dvc_store.share(ROOT, project)
        yield Checkout(project, _variables(project, variables), pull=pull)
        (folder / FINISHED).touch()
        _remove_if_sent(folder)


def _remove_if_sent(folder: Path) -> None:
    """Remove a finished run's folder unless `python -m pipelines sync` still needs its figures."""
    if not any((folder / git("rev-parse", "--show-prefix") / "runs" / TRACKING).glob("*")):
        remove(folder)


def _make(folder: Path, request: Request, log: Log, variables: Mapping[str, str]) -> None:
    """Clone the commit and change its settings, under another name until both have worked.

    An existing folder only gets the new clone's .git, since the project may have moved or belong to
    a new container.
    """
    if git("status", "--porcelain", "--untracked-files=no"):
        log(
            "the checkout has uncommitted changes: "
            f"this run is of {request.commit[:12]}, without them"
        )
    prefix = git("rev-parse", "--show-prefix")
    trial = folder.with_name(f".{folder.name}.new")
    remove(trial)
    try:
        git(
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            git("rev-parse", "--show-toplevel"),
            str(trial),
        )
        if not git("cat-file", "-t", request.commit, folder=trial, check=False):
            git("fetch", "--quiet", _origin(), request.commit, folder=trial)
        if folder.exists():
            git("update-ref", "--no-deref", "HEAD", request.commit, folder=trial)
            git("reset", "--quiet", folder=trial)
            remove(folder / ".git")
            rename(trial / ".git", folder / ".git")
            return
        git("checkout", "--quiet", "--detach", request.commit, folder=trial)
        if request.settings:
            write_settings(trial / prefix / "params.yaml", request.settings)
            checkout = Checkout(trial / prefix, _variables(trial / prefix, variables))
            ask(checkout, "params")  # the commit's own code refuses settings that it does not know
        rename(trial, folder)
    finally:
        remove(trial)


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write values by dotted keys into a params.yaml, whose comments stay; BadConfig for a key
    within a value.
    """
    from ruamel.yaml.comments import CommentedMap

    values = dvc_store.read_yaml(path)
    for key, value in settings.items():
        *sections, last = key.split(".")
        section = values
        for name in sections:
            section = section.setdefault(name, CommentedMap())
            if not isinstance(section, CommentedMap):
                raise BadConfig(f"settings.{key}: {name} is a value of params.yaml and has no keys")
            section.fa.set_block_style()  # in braces ruamel writes texts that DVC cannot read
        section[last] = value
    dvc_store.write_yaml(path, values)


def save_experiment(checkout: Checkout, request: Request, log: Log) -> None:
    """Save the changes of a run as a DVC experiment of its commit, here and at `origin`.

    The commit and its reference are those of `dvc exp save`, which would also commit a pickle
    (.dvc/tmp/repro.dat) and asks for every stage's inputs, though a machine that takes results from
    the store has none.
    """
    folder = checkout.folder

    def committed(path: Path) -> str:
        return git("show", f"HEAD:./{path}", folder=folder, check=False)

    dvc_store.restore_entries(folder, committed)
    git("add", "--all", "--", *(path for path in SAVED if (folder / path).exists()), folder=folder)
    author = ["-c", "user.name=electra", "-c", f"user.email=electra@{platform.node()}"]
    if git("config", "user.email", folder=folder, check=False):
        author = []
    message = f"dvc: experiment {request.name}"
    git(
        *author,
        "commit",
        "--quiet",
        "--allow-empty",
        "--no-gpg-sign",
        "--message",
        message,
        folder=folder,
    )
    reference = f"HEAD:refs/exps/{request.commit[:2]}/{request.commit[2:]}/{request.name}"
    push = ("push", "--quiet", "--force", "--no-verify")
    git(*push, git("rev-parse", "--show-toplevel"), reference, folder=folder)
    if origin := _origin():
        try:
            git(*push, origin, reference, folder=folder)
        except UserError as error:
            log(f"warning: {error}; `dvc exp push origin {request.name}` in {ROOT} does it later")
    log(f"experiment {request.name}: `dvc exp branch {request.name} BRANCH` makes a branch of it")


def _origin() -> str:
    """Return the URL of this checkout's `origin`, or "" without one."""
    url = git("config", "remote.origin.url", check=False)
    return str(ROOT / url) if (ROOT / url).exists() and url else url


@contextlib.contextmanager
def _exclusive(folder: Path, request: Request, log: Log) -> Iterator[None]:
    """Wait for a run of the same name, and log which process it waits for."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock_folder(_lock(folder)))
        except Busy as error:
            log(f"{request}: waits for the same run ({error})")
            held.enter_context(lock_folder(_lock(folder), math.inf))
        yield


def _lock(folder: Path) -> Path:
    return folder.parent / ".locks" / folder.name


def _variables(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run's processes: its own code and its own state of DVC, this
    checkout's MLflow, and these variables.
    """
    return {
        "DVC_SITE_CACHE_DIR": str(folder / ".dvc-site"),
        "MLFLOW_TRACKING_URI": uri(),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])
        ),
        **variables,
    }


def link_untracked_files(values: Any, folder: Path) -> None:
    """Link your files, named in `values` relative to the project and not tracked by git, into a
    run's folder.
    """
    if isinstance(values, Mapping | list):
        for value in values.values() if isinstance(values, Mapping) else values:
            link_untracked_files(value, folder)
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


def ask(checkout: Checkout, *arguments: str) -> list[str]:
    """Return the output lines of a command of the run's own code. Raises StageFailed, with its
    sentence.
    """
    printed: list[str] = []
    run(
        [sys.executable, "-m", "pipelines", *arguments],
        " ".join(arguments),
        checkout,
        printed.append,
    )
    return printed


class Values(dict[str, Any]):
    """Settings of a run, which the stages' `inputs` read as they read `Params`."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.__dict__ = self


def params(checkout: Checkout, *arguments: str) -> Values:
    """Return the output of `python -m pipelines params` of the run's own code."""
    printed = ask(checkout, "params", *arguments)
    # warnings may come first
    values: Values = json.loads("\n".join(printed[printed.index("{") :]), object_hook=Values)
    return values


def git(*arguments: str, folder: Path | None = None, check: bool = True) -> str:
    """Return git's output. No hook runs. A failure raises UserError or, without `check`, gives
    an empty text.
    """
    where = folder or ROOT
    command = ["git", "-C", str(where), "-c", f"core.hooksPath={os.devnull}", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}
        )
    except OSError as error:
        raise UserError(f"{where}: git cannot be started ({error.strerror}); install it") from None
    if done.returncode and check:
        raise UserError(f"{where}: git {arguments[0]}: {' '.join(done.stderr.split())[:300]}")
    return done.stdout.strip() if done.returncode == 0 else ""
