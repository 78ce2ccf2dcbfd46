"""Try damaged params.yaml files: `python benchmarks/bad_params.py --count 2000 --seed 1` → benchmarks/results/bad-params.json.

Every file is either accepted or refused in one sentence that names the file. The script ends with 1 if one is not, and
its record says which seeds show it.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import write_json
from tests.pipelines import bad_params

RESULT = Path("benchmarks/results/bad-params.json")


def attack(count: int, seed: int) -> dict[str, Any]:
    """How many of `count` files were accepted, refused in a sentence, and anything else, by kind of damage."""
    found: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "params.yaml"
        for number in range(seed * 1_000_000, seed * 1_000_000 + count):
            content, kind = bad_params.generate(number)
            path.write_bytes(content)
            became = bad_params.outcome(path)
            if became not in {"accepted", "refused"}:
                failures[str(number)] = f"{kind}: {became}"
                became = "anything else"
            found[became] += 1
            kinds.setdefault(kind, Counter())[became] += 1
    counts = {"accepted": found["accepted"], "refused_with_a_sentence": found["refused"]}
    by_kind = {kind: dict(kinds[kind]) for kind in sorted(kinds)}
    return {
        "files": count,
        **counts,
        "anything_else": found["anything else"],
        "by_damage": by_kind,
        "failures": failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    origin, started = provenance(("ruamel.yaml",)), time.process_time()
    result = attack(options.count, options.seed)
    command = f"python benchmarks/bad_params.py --count {options.count} --seed {options.seed}"
    seconds = round(time.process_time() - started, 1)
    write_json(RESULT, {"command": command, **result, "processor_seconds": seconds, **origin})
    print(
        f"{result['files']:,} files: {result['accepted']:,} accepted, {result['refused_with_a_sentence']:,} refused in a sentence, {result['anything_else']:,} anything else"
    )
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
