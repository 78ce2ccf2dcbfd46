"""Try generated bad files by the thousand: `python benchmarks/bad_input.py 10000` → benchmarks/results/bad-input.json.

Every file is accounted for line by line or refused with one sentence; a traceback or a silent drop ends the script with
the smallest file that shows it. A tenth as many small folders of such files go through the whole corpus stage.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.workers import VARIABLE
from tests.pipelines.sources import bad_input


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    many = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    found: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    os.environ[VARIABLE] = "1"
    origin = provenance(("hypothesis", "pyarrow"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        @seed(1)
        @settings(many)
        @given(bad_input.FILES, bad_input.DAMAGE)
        def files(file: dict[str, Any], damage: Any) -> None:
            tried["files"] += 1
            found.update(bad_input.read_one(bad_input.write(folder, file, damage), file, damage[0] == "none"))

        @seed(1)
        @settings(many, max_examples=count // 10)
        @given(bad_input.PARQUET, bad_input.DAMAGE)
        def parquet_files(rows: list[Any], damage: Any) -> None:
            tried["parquet files"] += 1
            path = folder / "a.parquet"
            path.write_bytes(bad_input.damaged(bad_input.parquet(rows), damage))
            found.update(bad_input.read_one(path, {"form": {}}, False))

        @seed(1)
        @settings(many, max_examples=count // 10)
        @given(st.lists(st.tuples(bad_input.FILES, bad_input.DAMAGE), min_size=1, max_size=3), bad_input.FORMS)
        def folders(several: list[Any], form: dict[str, Any]) -> None:
            tried["folders through the stage"] += 1
            found.update(bad_input.run_stage(folder, [bad_input.write(folder, *file) for file in several], form))

        started = time.process_time()
        for test in (files, parquet_files, folders):
            test()
    result = {
        "command": f"python benchmarks/bad_input.py {count}",
        "tried": dict(tried),
        "tracebacks": 0,
        "silent_drops": 0,
        "became": dict(found.most_common()),
        "processor_seconds": round(time.process_time() - started, 1),
        **origin,
    }
    write_json(Path("benchmarks/results/bad-input.json"), result)
    print(f"{tried.total():,} generated inputs: every one accounted for or one sentence")


if __name__ == "__main__":
    main()
