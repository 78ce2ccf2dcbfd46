"""Keep the results of experiments with their provenance: `python benchmarks/record_ablations.py tiny`.

Takes what `results/ablations/` holds of a model's experiments (or of one, by its name) and writes
benchmarks/results/ablations/NAME.json, which the report shows for every experiment that its own run does not cover.
"""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import processor
from electra.files import read_json, write_json
from pipelines.estimate import chosen
from pipelines.params import load
from pipelines.report.experiments import RECORDS


def main() -> None:
    params = load()
    timings = read_json(Path("runs/timings.json"))
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
    for name in chosen(sys.argv[1], params):
        path = Path("results/ablations") / f"{name}.json"
        if not path.is_file():
            print(f"{name}: not run")
            continue
        seconds = timings.get(f"ablation-{name}", {}).get("seconds")
        record = {
            "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
            "commit": commit.stdout.strip(),
            "command": f"dvc repro pipelines/dvc.yaml:ablation@{name}",
            "seconds": seconds,
            "machine": f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        }
        write_json(Path(RECORDS) / f"{name}.json", {**read_json(path), "record": record})
        print(f"recorded {RECORDS}/{name}.json")


if __name__ == "__main__":
    main()
