"""Faults that the tests should see: `python -m tests.mutants --count 200 --seed 1`.

A mutant is one fault in a copy of the project (tests/mutation.py). The quick tests run once, under
coverage, and have to pass. Then each mutant meets the tests that ran its line, the nearest first,
then the rest of its mirror file (coverage does not see into processes), golden digests last. A
survivor lacks a test, or its code can go.
"""

import argparse
import os
import random
import re
import subprocess
import tempfile
from pathlib import Path

from coverage import CoverageData

from benchmarks.harness import ROOT, provenance, write_record
from tests.mutation import PYTEST, draw, killer

GOLDEN = "tests/test_golden.py"
NEAREST = 40  # tests that a mutant meets at most, but for those of its mirror file
COVERAGE = "--cov=electra --cov=pipelines --cov-context=test --cov-report= --numprocesses=2".split()


def measure(folder):
    """Run all quick tests, and return those that run each line of each file."""
    subprocess.run([*PYTEST, *COVERAGE, "--dist=loadfile"], cwd=folder, check=True)
    data = CoverageData(str(folder / ".coverage"))
    data.read()
    runs = {}
    for path in data.measured_files():
        lines = runs[Path(path).relative_to(folder)] = {}
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = {re.split(r"[|[]", context)[0] for context in contexts}
            lines[line] = tests - {""}  # of the import
    return runs


def choose(mutant, runs):
    """Return the tests that may see a mutant, those first that lie nearest to its mirror file."""
    name, lines, _ = mutant
    mirror = f"tests/{name.parent}/test_{name.stem.strip('_')}.py"

    def rank(test):
        file = test.partition("::")[0]
        return -len(os.path.commonpath([file, mirror])), test

    ran = set().union(*(runs[name].get(line, ()) for line in lines))
    ran = ran or set().union(*runs[name].values())  # of a line that runs at import
    golden = sorted(test for test in ran if test.startswith(GOLDEN))
    nearest = sorted(ran.difference(golden), key=rank)[:NEAREST]
    mirrored = [mirror] if (ROOT / mirror).is_file() else []
    return [*nearest, *mirrored, *golden]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/mutants.json")
    options = parser.parse_args()
    origin = provenance("pytest", "coverage")
    os.environ["CI"] = "true"  # hypothesis draws the same each time
    chance = random.Random(options.seed)
    mutants = {}
    while len(mutants) < options.count:
        mutants.update(filter(None, [draw(chance)]))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)
        runs = measure(folder)
        killed_by = {}
        for what, mutant in mutants.items():
            killed_by[what] = killer(folder, mutant, choose(mutant, runs))
            print(f"{killed_by[what]:60} {what}", flush=True)
            record = {
                "tried": len(killed_by),
                "survivors": [name for name, test in killed_by.items() if test == "nothing"],
                "golden": sum(test.startswith(GOLDEN) for test in killed_by.values()),
                "killed_by": killed_by,
            }
            write_record(options.output, record, origin)


if __name__ == "__main__":
    main()
