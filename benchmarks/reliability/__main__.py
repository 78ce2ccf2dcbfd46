"""Break everything on purpose and count what happens: `python -m benchmarks.reliability --rounds 30`.

Every attack ends in the same bytes as without it, in a sentence and an exit code with nothing lost, or in anything
else, which is a bug; generated input may also be valid as it stands, and is taken. Writes
benchmarks/results/reliability.json, with `--only` what it says of these attacks; exit code 1 if there was anything
else. docs/reliability.md says what each does.
"""

import argparse
import random
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from benchmarks.reliability import changes, damage, generated, kills, servers, writes
from benchmarks.reliability.world import STAGES, Verdict, World, warm_up
from electra.files import read_json, write_json

RESULT = Path("benchmarks/results/reliability.json")
WHEN = ("commit", "recorded")  # of each attack its own: one may be renewed alone
Attack = Callable[[World, random.Random, int], Iterator[Verdict]]
ATTACKS: dict[str, tuple[Attack, float]] = {  # name -> what it does, tries a round
    "kills": (kills.at_random, 1),
    "changes": (kills.at_changes, 4),
    "signals": (kills.polite, 1),
    "commands": (kills.whole_commands, 0.5),
    "damage": (damage.every_file, 10),
    "reads": (damage.unreadable, 3),
    "writes": (writes.failing, 3),
    "full": (writes.full_disk, 2),
    "power": (writes.power_cuts, 4),
    "changed": (changes.settings, 2),
    "servers": (servers.vanished, 0.1),
    "prefect": (servers.prefect, 0.2),
    "settings": (generated.settings, 70),
    "rows": (generated.rows, 340),
    "corpora": (generated.corpora, 480),
}
GENERATED = {"settings", "rows", "corpora"}  # attacks that no stage has to run for


def attack_all(world: World, rounds: float, seed: int, only: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make all attacks: of each, counts by kind and what else happened."""
    for name in only:
        attack, tries = ATTACKS[name]
        counts: dict[str, Counter[str]] = {}
        failures = []
        started = processor_seconds()
        for verdict in attack(world, random.Random(f"{seed}/{name}"), max(1, round(rounds * tries))):
            fine = verdict.outcome in {"same", "refused", "taken"}
            counts.setdefault(verdict.kind, Counter()).update(["tried", verdict.outcome if fine else "else"])
            if not fine:
                failures.append({"kind": verdict.kind, "what": verdict.what, "outcome": verdict.outcome})
                print(f"{name}: {verdict.kind}: {verdict.what}: {verdict.outcome}", file=sys.stderr, flush=True)
        total = sum(counts.values(), Counter())
        found = {
            **figures(total),
            "kinds": {kind: figures(count) for kind, count in sorted(counts.items())},
            "failures": failures,
            "processor_seconds": round(processor_seconds() - started, 1),
        }
        print(f"{name:10} {figures(total)}", flush=True)
        yield name, found


def figures(count: Counter[str]) -> dict[str, int]:
    """The numbers of an attack."""
    return {
        "tried": count["tried"],
        "same_bytes": count["same"],
        "refused_with_a_sentence": count["refused"],
        **({"valid_and_taken": count["taken"]} if count["taken"] else {}),
        "anything_else": count["else"],
    }


def processor_seconds() -> float:
    """What this process and its children have used."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=float, default=30, help="how often (default: 30)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", help=f"some of {','.join(ATTACKS)}")
    options.add_argument("--output", type=Path, default=RESULT)
    chosen = options.parse_args()
    origin = provenance(("torch", "safetensors", "hypothesis", "pyarrow", "ruamel.yaml", "mlflow"))
    memory = Path("/dev/shm")  # noqa: S108  # a folder of our own in it; fsync is quick there
    folder = Path(tempfile.mkdtemp(prefix="reliability-", dir=memory if memory.is_dir() else None))
    command = f"python -m benchmarks.reliability --rounds {chosen.rounds:g} --seed {chosen.seed}"
    only = chosen.only.split(",") if chosen.only else list(ATTACKS)
    told: dict[str, Any] = read_json(chosen.output)["attacks"] if chosen.only and chosen.output.is_file() else {}
    try:
        warm_up()
        world = World(folder, STAGES if set(only) - GENERATED else ())
        for name, found in attack_all(world, chosen.rounds, chosen.seed, only):
            told[name] = {**found, "command": f"{command} --only {name}", **{key: origin[key] for key in WHEN}}
            totals = {key: sum(each[key] for each in told.values()) for key in ("tried", "anything_else")}
            write_json(chosen.output, {"attacks": told, **totals, **origin})
    finally:
        shutil.rmtree(folder)
    sys.exit(any(told[name]["anything_else"] for name in only))


if __name__ == "__main__":
    main()
