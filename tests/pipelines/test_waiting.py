"""How OpenMP's threads wait for each other is chosen before torch is imported, and a user's own
choice stands.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.project import ROOT, environment

LIBRARY = next(Path(find_spec("torch").origin).parent.glob("lib/libgomp*"), None)
ASK = f"import ctypes, sys, pipelines.__main__; assert 'torch' not in sys.modules; ctypes.CDLL({str(LIBRARY)!r})"


@pytest.mark.skipif(LIBRARY is None, reason="this torch does not use libgomp")
@pytest.mark.parametrize(
    "own, spins",
    [({}, 3000), ({"GOMP_SPINCOUNT": "7"}, 7), ({"OMP_WAIT_POLICY": "PASSIVE"}, 0)],
    ids=["nothing set", "a count", "a policy"],
)
def test_torchs_threads_spin_briefly_unless_the_user_says_otherwise(own, spins):
    values = environment(ROOT, OMP_DISPLAY_ENV="VERBOSE", **own)
    for name in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} - set(own):
        values.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=values,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr) == [str(spins)]
