"""The store that a team's machines share: a DVC remote with stages' outputs and the run cache,
which maps inputs to outputs. So a stage that ran anywhere with the same settings, data and code is
not run again: `dvc repro --pull` takes its outs from the store, even if the lock files of the
checkout differ.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from electra.errors import BadConfig, first_line
from electra.files import write_atomic
from pipelines.versioning.dvc_runner import DVC, Checkout, run

LOCKS = (Path("dvc.lock"), Path("pipelines") / "dvc.lock")


def push(target: str, checkout: Checkout, log: Callable[[str], None]) -> None:
    """Push a target, its dependencies and the run cache. Raises StageFailed for a store that does
    not take them.
    """
    run([*DVC, "push", "--run-cache", "--with-deps", target], f"store {target}", checkout, log)


def forget_missing(checkout: Checkout, log: Callable[[str], None]) -> None:
    """Make DVC run again the stages whose outputs neither the cache nor the store has.

    Lock files come from git, and may list outputs that were never pushed to this store. `dvc repro
    --pull --allow-missing` trusts them. So these stages are removed from the lock files. Raises
    StageFailed for a store that does not answer.
    """
    printed: list[str] = []
    run(
        [*DVC, "data", "status", "--json", "--not-in-remote"],
        "what the store has",
        checkout,
        printed.append,
    )
    status = json.loads(next(line for line in reversed(printed) if line.startswith("{")))
    missing = {path.rstrip("/") for path in status.get("not_in_cache", [])}
    missing &= {path.rstrip("/") for path in status.get("not_in_remote", [])}
    for path in LOCKS:
        lock = read_yaml(checkout.folder / path)
        stages = lock.get("stages", {})
        lost = [
            name
            for name, stage in stages.items()
            if {out["path"] for out in stage.get("outs", [])} & missing
        ]
        for name in lost:
            log(f"{name} is made again: neither the cache nor the store has its outputs")
            del stages[name]
        if lost:
            write_yaml(checkout.folder / path, lock)


def restore_entries(folder: Path, committed: Callable[[Path], str]) -> None:
    """Put back the entries of lock files that `forget_missing` has removed, for stages that the run
    did not make.

    `committed` returns the text of a file at the run's commit.
    """
    for path in LOCKS:
        lock = read_yaml(folder / path)
        before = parse_yaml(committed(path), path).get("stages", {})
        lost = [name for name in before if name not in lock.get("stages", {})]
        if lost:
            lock = lock or {"schema": "2.0", "stages": {}}
            lock["stages"].update({name: before[name] for name in lost})
            write_yaml(folder / path, lock)


def share(ours: Path, theirs: Path) -> bool:
    """Give a run's folder the cache and the remotes of a checkout, and return whether there is
    a default remote.

    DVC puts files there as links where the file system can, so a run's inputs take no disk space.
    """
    from dvc.repo import Repo

    with Repo(str(ours)) as repo:
        kinds = repo.config["cache"].get("type", ["reflink", "hardlink", "copy"])
        cache = {"type": kinds, "dir": repo.cache.local_cache_dir}
        remotes = repo.config["remote"]
        default = repo.config["core"].get("remote")
    with Repo(str(theirs)) as repo, repo.config.edit("local") as local:
        local["cache"] = cache
        local["remote"] = remotes
        if default:
            local["core"] = {"remote": default}
    return bool(default)


def read_yaml(path: Path) -> Any:
    """Return a YAML file with its comments and order, which `write_yaml` keeps. Empty where
    there is no file.
    """
    return parse_yaml(path.read_bytes(), path) if path.is_file() else {}


def parse_yaml(content: str | bytes, where: Path) -> Any:
    """Parse the content of the YAML file `where`. Raises BadConfig if it is not a mapping."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML().load(content) or {}
    except (YAMLError, ValueError) as error:
        raise BadConfig(f"{where}: is not YAML ({first_line(error)}); correct it") from None
    if not isinstance(values, dict):
        raise BadConfig(f"{where}: should hold sections of keys and values")
    return values


def write_yaml(path: Path, values: Any) -> None:
    """Write values as DVC writes its own files and params.yaml."""
    write_atomic(path, dump_yaml(values))


def dump_yaml(values: Any) -> str:
    """Return values as DVC writes its own files and params.yaml."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    text = io.StringIO()
    yaml.dump(values, text)
    return text.getvalue()
