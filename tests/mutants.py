"""Faults that the tests should see: `python -m tests.mutants --count 200 --seed 1`.

A mutant is one fault in a copy of the project (tests/mutation.py). The quick tests run once, under
coverage. Then each mutant meets the tests that ran its line, the nearest first, then the rest of
its mirror folder (coverage does not see into processes), golden digests last. A survivor lacks a
test, or its code can go.
"""

import argparse
import math
import os
import queue
import random
import re
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData

from benchmarks.harness import ROOT, provenance, write_record
from tests.mutation import PYTEST, draw, killer

GOLDEN = "tests/test_golden.py"
NEAREST = 40  # tests that a mutant meets at most, but for those of its mirror folder
COVERAGE = (
    "--cov=electra --cov=pipelines --cov-context=test --cov-report= --junitxml=tests.xml".split()
)
Runs = dict[Path, dict[int, set[str]]]  # the tests that run each line of each file


def measure(folder, workers):
    """Run all quick tests and return the seconds of those that pass, and the lines that each
    runs.
    """
    command = [*PYTEST, *COVERAGE, f"--numprocesses={workers}", "--dist=loadfile"]
    subprocess.run(command, cwd=folder)
    seconds = defaultdict(float)
    for case in ElementTree.parse(folder / "tests.xml").iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        failed = {part.tag for part in case} & {"failure", "error"}
        test = f"{file}::{case.attrib['name'].partition('[')[0]}"
        seconds[test] += math.inf if failed else float(case.attrib["time"])
    passing = {test: time for test, time in seconds.items() if time < math.inf}
    data = CoverageData(str(folder / ".coverage"))
    data.read()
    runs = defaultdict(dict)
    for path in data.measured_files():
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = {re.split(r"[|[]", context)[0] for context in contexts}
            runs[Path(path).relative_to(folder)][line] = tests & passing.keys()
    return passing, runs


def choose(mutant, seconds, runs):
    """Return the tests that may see a mutant, those first that are nearest to its mirror file."""
    name, lines, _ = mutant
    mirror = f"tests/{name.parent}/test_{name.stem.strip('_')}.py"

    def rank(test):
        file = test.partition("::")[0]
        return -len(os.path.commonpath([file, mirror])), file, seconds[test]

    ran = set().union(*(runs[name].get(line, ()) for line in lines))
    ran = ran or set().union(*runs[name].values())  # of a line that runs at import
    golden = {test for test in seconds if test.startswith(GOLDEN)}  # in a process
    nearest = sorted(ran - golden, key=rank)[:NEAREST]
    mirrored = {test for test in seconds if test.startswith(f"tests/{name.parent}/")}
    return [*nearest, *sorted(mirrored.difference(nearest), key=rank), *sorted(golden)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/mutants.json")
    options = parser.parse_args()
    origin = provenance("pytest", "coverage")
    os.environ["CI"] = "true"  # hypothesis draws the same each time
    chance = random.Random(options.seed)
    mutants = {}
    while len(mutants) < options.count:
        mutants.update(filter(None, [draw(chance)]))
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.workers) as pool:
        folders = queue.SimpleQueue[Path]()
        for number in range(options.workers):
            folder = Path(temporary) / str(number)
            subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)
            folders.put(folder)
        seconds, runs = measure(folder, options.workers)

        def attack(mutant):
            folder = folders.get()
            test = killer(folder, mutant, choose(mutant, seconds, runs))
            folders.put(folder)
            return test

        killed_by = {}
        for what, test in zip(mutants, pool.map(attack, mutants.values()), strict=True):
            killed_by[what] = test
            print(f"{test:60} {what}", flush=True)
            tests = list(killed_by.values())
            record = {
                "tried": len(tests),
                "survivors": [what for what, test in killed_by.items() if test == "nothing"],
                "golden": sum(test.startswith(GOLDEN) for test in tests),
                "killed_by": killed_by,
            }
            write_record(options.output, record, origin)


if __name__ == "__main__":
    main()
