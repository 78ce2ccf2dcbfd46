"""Break everything on purpose and count what happens: `python -m benchmarks.reliability --rounds
30`.

Every attack ends in the same bytes as without it, in a sentence and an exit code with nothing lost,
or in anything else, which is a bug. Writes benchmarks/results/reliability.json, with `--only` what
it says of these attacks; exit code 1 if there was anything else. docs/reliability.md says what each
does.
"""

import random
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, provenance, write_record
from benchmarks.reliability import changes, faults
from benchmarks.reliability.world import FINE, Fault, Verdict, World, warm_up
from electra.files import read_json

Attack = Callable[[World, random.Random, int], Iterator[Fault | Verdict]]
ATTACKS: dict[str, tuple[Attack, float]] = {  # name -> what it does, tries a round
    "kills": (faults.killed_at_random, 1),
    "changes": (faults.killed_at_changes, 4),
    "signals": (faults.signalled, 1),
    "commands": (faults.commands, 0.5),
    "damage": (faults.damaged, 10),
    "reads": (faults.unreadable, 3),
    "writes": (faults.unwritable, 5),
    "power": (faults.power_cuts, 4),
    "changed": (changes.settings, 2),
    "servers": (faults.without_mlflow, 0.1),
}


def attack_all(
    world: World, rounds: float, seed: int, only: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make all attacks: of each, counts by kind and what else happened."""
    for name in only:
        attack, tries = ATTACKS[name]
        counts: dict[str, Counter[str]] = {}
        failures = []
        started = processor_seconds()
        for each in attack(world, random.Random(f"{seed}/{name}"), max(1, round(rounds * tries))):
            verdict = world.attack(each) if isinstance(each, Fault) else each
            fine = verdict.outcome in FINE
            counts.setdefault(verdict.kind, Counter()).update(
                ["tried", verdict.outcome if fine else "else"]
            )
            if not fine:
                failures.append(vars(verdict))
                print(
                    f"{name}: {verdict.kind}: {verdict.what}: {verdict.outcome}",
                    file=sys.stderr,
                    flush=True,
                )
        total = figures(sum(counts.values(), Counter()))
        kinds = {kind: figures(count) for kind, count in sorted(counts.items())}
        spent = round(processor_seconds() - started, 1)
        print(f"{name:10} {total}", flush=True)
        yield name, {**total, "kinds": kinds, "failures": failures, "processor_seconds": spent}


def figures(count: Counter[str]) -> dict[str, int]:
    """The numbers of an attack."""
    return {
        "tried": count["tried"],
        "same_bytes": count["same"],
        "refused_with_a_sentence": count["refused"],
        "anything_else": count["else"],
    }


def processor_seconds() -> float:
    """What this process and its children have used."""
    return sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def main() -> None:
    options = arguments(__doc__, "reliability.json")
    options.add_argument("--rounds", type=float, default=30, help="how often (default: 30)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", help=f"some of {','.join(ATTACKS)}")
    chosen = options.parse_args()
    origin = provenance("torch", "safetensors", "mlflow")
    memory = Path("/dev/shm")  # noqa: S108  # a folder of our own in it; fsync is quick there
    folder = Path(tempfile.mkdtemp(prefix="reliability-", dir=memory if memory.is_dir() else None))
    command = f"python -m benchmarks.reliability --rounds {chosen.rounds:g} --seed {chosen.seed}"
    only = chosen.only.split(",") if chosen.only else list(ATTACKS)
    known: dict[str, Any] = (
        read_json(chosen.output)["attacks"] if chosen.only and chosen.output.is_file() else {}
    )
    try:
        warm_up()
        world = World(folder)
        for name, found in attack_all(world, chosen.rounds, chosen.seed, only):
            # its own: an attack may be renewed alone
            when = {key: origin[key] for key in ("commit", "recorded")}
            known[name] = {**found, "command": f"{command} --only {name}", **when}
            totals = {
                key: sum(each[key] for each in known.values()) for key in ("tried", "anything_else")
            }
            write_record(chosen.output, {"attacks": known, **totals}, origin)
    finally:
        shutil.rmtree(folder)
    sys.exit(any(known[name]["anything_else"] for name in only))


if __name__ == "__main__":
    main()
