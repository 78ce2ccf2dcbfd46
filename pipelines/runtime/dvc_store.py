"""The store that a team's machines share: a DVC remote with stages' outputs, and the run cache: what each came from.

By the run cache a stage that ran anywhere, of the same settings, data and code, is not run again: `dvc repro --pull`
takes its outs from the store, even if the lock files of the checkout differ. `dvc push` leaves out files under git
(`results/*.json`), without which an entry of the run cache is no use, so this pushes, by DVC's own interface.

    python -m pipelines.runtime.dvc_store FOLDER TARGET   # push the outs of a target and of all before it
    python -m pipelines.runtime.dvc_store FOLDER          # drop from the lock files what neither cache nor store has
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.errors import SourceUnreachable, UserError

REPAIR = "everything is kept in the cache here; repair it and start the same run again"


def keep(target: str) -> str:
    """From the checkout that is the working folder: push the target, what it rests on and the run cache.

    Returns the remote's name, or "" where there is none. Raises SourceUnreachable for one that does not take it.
    """
    from dvc.repo import Repo

    with Repo() as repo:
        name = str(repo.config["core"].get("remote") or "")
        if name:
            stages = [stage for stage in repo.stage.collect(target, with_deps=True) if not stage.always_changed]
            outs = [out for stage in stages for out in stage.outs if out.hash_info]
            used = (hashes for out in outs for hashes in out.get_used_objs().values())
            _push(repo, name, {out.hash_info for out in outs}.union(*used))
    return name


def _push(repo: Any, name: str, made: set[Any]) -> None:
    """Objects first: an entry of the run cache that is there promises that its objects are."""
    with _reached(repo, name) as where:
        refused = repo.cloud.push(made).failed
        if refused:
            raise SourceUnreachable(where, f"did not take {len(refused)} files", "all of them", REPAIR)
        repo.stage_cache.push(None)


def forget_missing() -> list[str]:
    """In the checkout that is the working folder: make DVC run again the stages whose outputs nobody has.

    Its lock files come from git, and may promise what was never pushed to this store; `dvc repro --pull
    --allow-missing` believes them. So the stages with outputs that neither the cache nor the store has are removed
    from the lock files. Returns their names. Raises SourceUnreachable for a store that does not answer.
    """
    from dvc.repo import Repo

    with Repo() as repo:
        name = str(repo.config["core"].get("remote") or "")
        stages = [stage for stage in repo.index.stages if not stage.always_changed]
        needed = {
            stage: {out.hash_info.value for out in stage.outs if out.use_cache and out.hash_info} for stage in stages
        }
        missing = set().union(*needed.values())
        missing.difference_update(repo.cache.local.oids_exist(list(missing)))
        if missing and name:
            with _reached(repo, name):
                missing.difference_update(repo.cloud.get_remote_odb(name).oids_exist(list(missing)))
        lost = [stage for stage in stages if needed[stage] & missing]
        for stage in lost:
            stage.dvcfile._lockfile.remove_stage(stage)
    return [stage.addressing for stage in lost]


@contextlib.contextmanager
def _reached(repo: Any, name: str) -> Iterator[str]:
    """The store's name and URL for messages; any failure to reach it is SourceUnreachable."""
    where = f"the store {name} ({repo.config['remote'][name]['url']})"
    try:
        yield where
    except UserError:
        raise
    except Exception as error:  # of boto, ssh, the disk: whatever carries the bytes
        raise SourceUnreachable(where, f"does not answer ({error})", "", REPAIR) from error


def share(ours: Path, theirs: Path) -> bool:
    """Give a run's folder the cache and the remotes of a checkout; returns whether there is a default remote.

    DVC puts files there as links where the file system can, so what a run reads takes no disk.
    """
    from dvc.repo import Repo

    with Repo(str(ours)) as repo:
        cache = {"type": ["reflink", "hardlink", "copy"], **repo.config["cache"], "dir": repo.cache.local_cache_dir}
        remotes, default = repo.config["remote"], repo.config["core"].get("remote")
    with Repo(str(theirs)) as repo, repo.config.edit("local") as local:
        local["cache"] = {key: cache[key] for key in ("dir", "type")}
        local["remote"] = remotes
        if default:
            local["core"] = {"remote": default}
    return bool(default)


def main(folder: str, target: str = "") -> int:
    """Store a target's outputs, or without one make lock files match what there is; prints what it did, in one line."""
    os.chdir(folder)  # DVC's names of stages are relative to it; this code is the worker's own and not the checkout's
    try:
        if not target:
            if lost := forget_missing():
                print(f"to be made anew, since neither cache nor store has them: {', '.join(lost)}")
            return 0
        name = keep(target)
    except SourceUnreachable as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{target} is in", f"the store {name}" if name else "the cache of this machine; there is no remote")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
