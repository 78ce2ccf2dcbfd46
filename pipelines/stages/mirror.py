"""Checkpoints behind a URL, ELECTRA_MIRROR=s3://bucket/electra, so that another machine continues
a dead one's run.

    <mirror>/pretrain/1a2b3c4d/step-5000/…    a checkpoint of the run of this fingerprint

A thread sends each new checkpoint, the newest alone where several are waiting, and keeps the newest
two there. One is complete if its files match its MANIFEST.json. Training never waits for the thread
and never ends because of it: an error is one warning, and the copy is tried again.
(`fsspec.generic.rsync` copies each file to a temporary one first.)
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.errors import SourceUnreachable, UserError, first_line, mask_secrets
from electra.files import atomic_folder, lock_folder, safe_join
from electra.storage import checkpoint
from electra.storage.manifest import MANIFEST, read_manifest, verify_manifest
from electra.storage.run_dir import OLD, newest_progress
from pipelines.stages import is_main

VARIABLE = "ELECTRA_MIRROR"
EVERY = 2.0  # seconds between two looks for a new checkpoint
AGAIN = 60.0  # seconds until a mirror that failed is tried again
LAST = 60.0  # seconds to send the last checkpoint after training has ended
KEPT = 2


@contextlib.contextmanager
def mirrored(run: Path, *, bring: bool = True) -> Iterator[None]:
    """Fetch a run's newest checkpoint from the mirror if that is ahead, and send each saved one."""
    if not os.environ.get(VARIABLE) or not is_main():
        yield
        return
    if bring:
        bring_newest(run)
    ended = threading.Event()
    thread = threading.Thread(target=send_all, args=(run, ended), name="mirror", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LAST)


def mirror_url(run: Path) -> str:
    """Return the URL of a run's checkpoints. A run continued with other settings has a URL of its
    own.
    """
    url = f"{os.environ[VARIABLE].rstrip('/')}/{run.parent.name}/{run.name}"
    continued = (newest_progress(run) or {}).get("continued")
    return f"{url}-{digest(continued)[:8]}" if continued else url


def send_all(run: Path, ended: threading.Event) -> None:
    """Send new checkpoints until training has ended, and the last one afterwards."""
    sent = -1
    failed = False
    is_last = False
    while not is_last:
        is_last = ended.wait(AGAIN if failed else EVERY)
        step = max(checkpoint.steps(run), default=-1)
        if step <= sent:
            continue
        try:
            send(run, step)
            sent = step
            failed = False
        except UserError as error:
            # otherwise training has a newer one by now
            if not failed and (run / f"step-{step}").exists():
                _report(
                    f"warning: {error}; training continues, "
                    "and its checkpoints are sent when the mirror answers"
                )
                failed = True


def send(run: Path, step: int) -> None:
    """Send a checkpoint and keep the newest two there, unless another machine is ahead."""
    with _open_mirror(mirror_url(run)) as (system, base):
        there = _steps(system, base)
        if step < max(there, default=-1) and not _is_restarted(run):
            return
        verify_manifest(run / f"step-{step}", step=step)
        system.put(f"{run}/step-{step}/", f"{base}/step-{step}/", recursive=True)
        kept = sorted(old for old in {*there, step} if old <= step)[-KEPT:]
        for old in there.difference(kept):
            system.rm(f"{base}/step-{old}", recursive=True)


def bring_newest(run: Path) -> None:
    """Copy the mirror's newest good checkpoint to the run's folder if it is ahead of those here."""
    here = max((step for step in checkpoint.steps(run) if _is_good(run, step)), default=-1)
    if here < 0 and _is_restarted(run):
        return
    url = mirror_url(run)
    try:
        with _open_mirror(url) as (system, base):
            ahead = sorted((step for step in _steps(system, base) if step > here), reverse=True)
    except UserError as error:
        _report(f"warning: {error}; training continues from what is here")
        return
    for step in ahead:
        try:
            with lock_folder(run), _open_mirror(f"{url}/step-{step}") as (system, source):
                if step in checkpoint.steps(run):
                    checkpoint.set_aside(run, step, "bad", "it is damaged, and the mirror has it")
                with atomic_folder(run / f"step-{step}") as temporary:
                    system.get_file(f"{source}/{MANIFEST}", str(temporary / MANIFEST))
                    for name in read_manifest(temporary, step=step)["files"]:
                        system.get_file(f"{source}/{name}", str(safe_join(temporary, name)))
                    verify_manifest(temporary, step=step)
            _report(f"{run}: step {step:,} is taken from {url}")
            return
        except UserError as error:
            _report(f"warning: {url}/step-{step}: {error}; the one before is taken")


def _is_restarted(run: Path) -> bool:
    """Return whether an earlier run of the same settings was archived: the mirror may still have
    its checkpoints.
    """
    return any(run.parent.glob(f"{run.name}{OLD}*"))


def _is_good(run: Path, step: int) -> bool:
    """Return whether a checkpoint's bytes match its manifest. They are hashed once, also for
    loading it.
    """
    try:
        verify_manifest(run / f"step-{step}", step=step)
    except UserError:
        return False
    return True


def _steps(system: Any, base: str) -> set[int]:
    """Return the steps that have a folder there, complete or not."""
    system.invalidate_cache()
    names = [path.rstrip("/").rpartition("/step-")[2] for path in system.glob(f"{base}/step-*")]
    return {int(name) for name in names if name.isdecimal()}


@contextlib.contextmanager
def _open_mirror(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL and the path in it. Every failure becomes one sentence."""
    import fsspec.core

    try:
        yield fsspec.core.url_to_fs(url)
    except UserError:
        raise
    except Exception as error:  # of boto, ssh, the disk: whatever carries the bytes
        raise SourceUnreachable(f"{VARIABLE}: {url} cannot be used ({first_line(error)})") from None


def _report(sentence: str) -> None:
    print(mask_secrets(sentence), file=sys.stderr, flush=True)  # the URL comes from the environment
