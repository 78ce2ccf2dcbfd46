"""Keep the results of ablations with their provenance: `python benchmarks/record_ablations.py tiny`.

Takes what `results/ablations/` holds of a model's ablations (or of one, by its name) and writes
benchmarks/results/ablations/NAME.json, which the report shows for every ablation that its own run does not cover.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import read_json, write_json
from pipelines.commands.estimate import chosen
from pipelines.config.params import load
from pipelines.report.reading import ABLATION_RECORDS


def main() -> None:
    params = load()
    timings = read_json(Path("runs/timings.json"))
    origin = provenance(("torch",))
    machine = origin["machine"]
    for name in chosen(sys.argv[1], params):
        path = Path("results/ablations") / f"{name}.json"
        if not path.is_file():
            print(f"{name}: not run")
            continue
        seconds = timings.get(f"ablation-{name}", {}).get("seconds")
        record = {
            "recorded": origin["recorded"],
            "commit": origin["commit"][:12] + origin["commit"][40:],
            "command": f"dvc repro pipelines/dvc.yaml:ablation@{name}",
            "seconds": seconds,
            "machine": f"{machine['processor']}, {machine['logical_cores']} cores, Python {machine['python']}",
            "versions": origin["versions"],
        }
        write_json(Path(ABLATION_RECORDS) / f"{name}.json", {**read_json(path), "record": record})
        print(f"recorded {ABLATION_RECORDS}/{name}.json")


if __name__ == "__main__":
    main()
