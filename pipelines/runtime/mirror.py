"""Checkpoints behind a URL, ELECTRA_MIRROR=s3://bucket/electra, so that another machine goes on with a dead one's run.

    <mirror>/pretrain/1a2b3c4d/step-5000/…              a checkpoint of the run of this fingerprint
    <mirror>/pretrain/1a2b3c4d/step-5000/MANIFEST.json  sent last: without it there is none
    <mirror>/pretrain/1a2b3c4d.1/…                      the same run, restarted once

A thread sends each new checkpoint, the newest alone where several are waiting, and keeps the newest two there. Training
never waits for it and never ends for it: what goes wrong is a warning, once, and is tried again.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.config import digest
from electra.errors import CorruptFile, UserError, hidden
from electra.files import atomic_folder, lock_folder, safe_join
from electra.storage import checkpoint
from electra.storage.fingerprint import Fingerprint
from electra.storage.manifest import MANIFEST, read_manifest, verify_manifest
from electra.storage.run_dir import OLD, identity, newest
from pipelines.runtime.processes import is_main
from pipelines.runtime.remote_files import reaching

VARIABLE = "ELECTRA_MIRROR"
EVERY = 2.0  # seconds between two looks for a new checkpoint
AGAIN = 60.0  # seconds until a mirror that failed is tried again
LAST = 60.0  # seconds for what is to be sent when training has ended
KEPT = 2


@contextlib.contextmanager
def mirrored(run: Path, fingerprint: Fingerprint, *, bring: bool = True) -> Iterator[None]:
    """Around a run's training: bring its newest checkpoint from the mirror if that is ahead, and send what is saved."""
    url = os.environ.get(VARIABLE, "")
    if not url or not is_main():
        yield
        return
    mirror = Mirror(url.rstrip("/"), run, fingerprint)
    if bring:
        mirror.bring()
    thread = threading.Thread(target=mirror.watch, name="mirror", daemon=True)
    thread.start()
    try:
        yield
    finally:
        mirror.ended.set()
        thread.join(LAST)


class Mirror:
    """The mirror of one run. A run that was continued under other settings has another place than a fresh one."""

    def __init__(self, url: str, run: Path, fingerprint: Fingerprint) -> None:
        self.url, self.run, self.fingerprint = url, run, fingerprint
        self.ended, self.sent, self.failed, self.next = threading.Event(), -1, False, 0.0
        self.begun_anew = 0  # how often, as the mirror knows; an archived run here counts, too

    def place(self, continued: list[Any]) -> str:
        """The URL of the checkpoints of this run."""
        anew = max(self.begun_anew, len(list(self.run.parent.glob(f"{self.run.name}{OLD}*"))))
        more = (f".{anew}" if anew else "") + (f"-{digest(continued)[:8]}" if continued else "")
        return f"{self.url}/{self.run.parent.name}/{self.run.name}{more}"

    # ── send ──

    def watch(self) -> None:
        """Send what is new until training has ended, and then what is new still."""
        while not self.ended.wait(EVERY):
            if time.monotonic() >= self.next:
                self.send()
        self.send()

    def send(self) -> None:
        """Send the newest checkpoint unless it was sent; a failure is reported once."""
        step = max(checkpoint.steps(self.run), default=-1)
        folder = self.run / f"step-{step}"
        if step <= self.sent:
            return
        try:
            progress = checkpoint.read_progress(folder)
            if identity(progress) != self.fingerprint:
                return  # training will rename it to foreign-step-N
            self._upload(folder, step, self.place(progress["continued"]))
            self.sent = step
        except UserError as error:
            if not folder.exists():
                return  # training has a newer one by now
            self.next = time.monotonic() + AGAIN
            if not self.failed:
                _say(f"warning: {error}; training goes on, and its checkpoints are sent when the mirror answers")
            self.failed = True
            return
        if self.failed:
            _say(f"{self.place(progress['continued'])}: the mirror answers again, and has step {step:,}")
        self.failed = False

    def _upload(self, folder: Path, step: int, url: str) -> None:
        manifest = verify_manifest(folder, step=step)
        with reaching(url, VARIABLE) as (system, base):
            whole, parts = _steps(system, base)
            if step > max(whole, default=-1):
                target = f"{base}/step-{step}"
                system.makedirs(target, exist_ok=True)
                for name, fact in manifest["files"].items():
                    system.put_file(str(folder / name), f"{target}/{name}")
                    if (size := system.info(f"{target}/{name}")["size"]) != fact["bytes"]:
                        raise CorruptFile(f"{url}/step-{step}/{name}", f"has {size:,} bytes", f"{fact['bytes']:,}")
                system.put_file(str(folder / MANIFEST), f"{target}/{MANIFEST}")
                whole = {*whole, step}
            for old in sorted(whole)[:-KEPT]:
                system.rm_file(f"{base}/step-{old}/{MANIFEST}")
            for old in {*sorted(whole)[:-KEPT], *(part for part in parts if part < step)}:
                system.rm(f"{base}/step-{old}", recursive=True)

    # ── bring ──

    def bring(self) -> None:
        """Put the mirror's newest good checkpoint where training looks for it, if it is ahead of what is here."""
        home = self.run
        here = next((step for step in reversed(checkpoint.steps(home)) if _is_good(home, step)), -1)
        try:
            with reaching(f"{self.url}/{home.parent.name}", VARIABLE) as (system, base):
                system.invalidate_cache()
                known = (path.rpartition(".")[2].partition("-")[0] for path in system.glob(f"{base}/{home.name}.*"))
                self.begun_anew = max((int(number) for number in known if number.isdecimal()), default=0)
            url = self.place((newest(home) or {}).get("continued", []))
            with reaching(url, VARIABLE) as (system, base):
                ahead = [step for step in sorted(_steps(system, base)[0], reverse=True) if step > here]
            if not ahead and here < 0:
                url, ahead = self._earlier()
        except UserError as error:
            _say(f"warning: {error}; training goes on from what is here")
            return
        for step in ahead:
            try:
                with lock_folder(home), reaching(f"{url}/step-{step}", VARIABLE) as (system, source):
                    if step in checkpoint.steps(home):
                        checkpoint.set_aside(home, step, "bad", "it is damaged, and the mirror has it")
                    _download(system, source, home / f"step-{step}", step)
                _say(f"{home}: step {step:,} is taken from {url}")
                return
            except UserError as error:
                _say(f"warning: {url}/step-{step}: {error}; the one before is taken")

    def _earlier(self) -> tuple[str, list[int]]:
        """Where a version before 0.3 sent this run (`pretrain-base-1a2b3c4d`), and its steps, newest first."""
        with reaching(self.url, VARIABLE) as (system, base):
            paths = system.glob(f"{base}/pretrain-*/step-*/progress.json")
            for place in sorted({path.rpartition("/step-")[0] for path in paths}):
                steps = sorted(_steps(system, place)[0], reverse=True)
                progress = json.loads(system.cat_file(f"{place}/step-{steps[0]}/progress.json")) if steps else {}
                if identity(progress) == self.fingerprint:
                    return f"{self.url}/{place.rpartition('/')[2]}", steps
        return self.url, []


def _is_good(run: Path, step: int) -> bool:
    """Whether a checkpoint's bytes are what its manifest says: they are hashed once, for its loading too."""
    try:
        verify_manifest(run / f"step-{step}", step=step)
    except UserError:
        return False
    return True


def _download(system: Any, source: str, folder: Path, step: int) -> None:
    with atomic_folder(folder) as temporary:
        system.get_file(f"{source}/{MANIFEST}", str(temporary / MANIFEST))
        for name in read_manifest(temporary, step=step)["files"]:
            system.get_file(f"{source}/{name}", str(safe_join(temporary, name)))
        verify_manifest(temporary, step=step)


def _steps(system: Any, base: str) -> tuple[set[int], set[int]]:
    """The checkpoints that are whole, and those that are not (yet, or any more)."""
    system.invalidate_cache()
    is_whole: dict[int, bool] = {}
    for path in system.find(base):
        folder, _, name = path.removeprefix(f"{base}/").partition("/")
        step = folder.removeprefix("step-")
        if step.isdecimal():
            is_whole[int(step)] = is_whole.get(int(step), False) or name == MANIFEST
    return {step for step, whole in is_whole.items() if whole}, {step for step, whole in is_whole.items() if not whole}


def _say(sentence: str) -> None:
    print(hidden(sentence), file=sys.stderr, flush=True)  # the URL comes from the environment
