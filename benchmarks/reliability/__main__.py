"""Attack every stage on purpose and count how it ends: `python -m benchmarks.reliability --rounds
30`.

A run under attack must end in the same bytes as without it, or in one sentence and an exit code.
The same command without the attack must then end in the same bytes. Anything else is a bug, and the
exit code is 1. Counts by kind of attack go to benchmarks/results/reliability.json; with `--only`
nothing is written.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, provenance, write_record
from benchmarks.reliability.attacks import ATTACKS
from benchmarks.reliability.world import OUTCOMES, Verdict, World, import_stages

COUNTS = ("tried", *OUTCOMES, "bugs")


def count_by_kind(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Return the counts of each kind of attack, and every bug; print each bug when it is found."""
    kinds: dict[str, Counter[str]] = {}
    bugs = []
    for verdict in verdicts:
        bug = verdict.outcome not in OUTCOMES
        count = kinds.setdefault(verdict.kind, Counter(dict.fromkeys(COUNTS, 0)))
        count.update(["tried", "bugs" if bug else verdict.outcome])
        if bug:
            bugs.append(vars(verdict))
            print(f"{verdict.kind}: {verdict.what}: {verdict.outcome}", file=sys.stderr, flush=True)
    total = sum(kinds.values(), Counter())
    return {"total": {key: total[key] for key in COUNTS}, "kinds": kinds, "bugs": bugs}


def run_campaign(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Make the chosen attacks in a folder, and return their counts."""
    import_stages()
    world = World(folder)
    verdicts: list[Verdict] = []
    for name in options.only or ATTACKS:
        attack, tries = ATTACKS[name]
        chance = random.Random(f"{options.seed}/{name}")
        verdicts += attack(world, chance, max(1, round(options.rounds * tries)))
        print(f"{name}: done", flush=True)
    return count_by_kind(verdicts)


def main() -> int:
    parser = arguments(__doc__, "reliability.json")
    parser.add_argument("--rounds", type=float, default=30, help="how often (default: 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=ATTACKS)
    options = parser.parse_args()
    origin = provenance("torch", "safetensors", "mlflow")
    memory = Path("/dev/shm")  # noqa: S108  # fsync is quick there
    folder = tempfile.mkdtemp(prefix="reliability-", dir=memory if memory.is_dir() else None)
    try:
        counts = run_campaign(Path(folder), options)
    finally:
        shutil.rmtree(folder)
    print(counts["total"])
    if not options.only:
        write_record(options.output, counts, origin)
    return int(bool(counts["bugs"]))


if __name__ == "__main__":
    sys.exit(main())
