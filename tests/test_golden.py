"""The digests of tests/golden.json, computed again, so that a refactoring is known to change nothing."""

import json
import platform

import pytest
import torch

from tests.golden import ROOMS
from tests.support.project import ROOT, read_text, run

GOLDEN = json.loads(read_text("tests/golden.json"))


@pytest.mark.skipif(
    platform.machine() != GOLDEN["machine"], reason="floating point differs by architecture"
)
@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != GOLDEN["torch"],
    reason="torch's kernels differ by version",
)
def test_the_bytes_are_the_golden_ones():
    """Announce a change that is meant in CHANGELOG.md, then `python -m tests.golden >
    tests/golden.json`.
    """
    computed = json.loads(run(ROOT, "-m", "tests.golden").stdout)
    for room in ROOMS:
        assert computed[room] == GOLDEN[room]
        assert len({*computed[room].values()}) == len(computed[room]), "two cases compute the same"
