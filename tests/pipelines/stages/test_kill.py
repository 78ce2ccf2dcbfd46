"""SIGKILL at a random moment of the corpus and tokens stages; `python -m benchmarks.reliability --only kills` does it as often as told."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks import kill


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_ends_with_the_same_bytes(tmp_path: Path) -> None:
    kill.write_text(tmp_path / "text")
    started = time.monotonic()
    assert kill.start(tmp_path, tmp_path / "alone", 1).wait() == 0
    whole = time.monotonic() - started
    killed = kill.start(tmp_path, tmp_path / "killed", 1)
    try:
        killed.wait(random.uniform(0.3, 0.9) * whole)
    except subprocess.TimeoutExpired:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    assert kill.start(tmp_path, tmp_path / "killed", 2).wait() == 0
    assert kill.digest(tmp_path / "killed") == kill.digest(tmp_path / "alone")
    assert not [path for path in (tmp_path / "killed").rglob(".*") if path.name != ".lock"]
