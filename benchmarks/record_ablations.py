"""Record the results of ablations with their provenance: `python benchmarks/record_ablations.py
tiny`.

Copies the results of one ablation, or of all ablations of a model, from build/ablation to
benchmarks/results/ablations/NAME.json. The report shows them for ablations that were not run.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import arguments, provenance, write_record
from electra.files import read_json
from pipelines.config.params import load
from pipelines.report.load_results import ABLATION_RECORDS
from pipelines.stages import STAGES


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("name", help="a model or an ablation")
    selected = parser.parse_args().name
    timings = read_json(Path("runs/timings.json"))
    origin = provenance("torch")
    machine = origin["machine"]
    for name, ablation in load().ablations.items():
        if selected not in {name, ablation.base.model}:
            continue
        path = STAGES["ablation"].results(name)
        if not path.is_file():
            print(f"{name}: not run")
            continue
        record = {
            "recorded": origin["recorded"],
            "commit": origin["commit"][:12] + origin["commit"][40:],
            "command": f"dvc repro pipelines/dvc.yaml:ablation@{name}",
            "seconds": timings.get(f"ablation-{name}", {}).get("seconds"),
            "machine": f"{machine['processor']}, {machine['logical_cores']} cores, "
            f"Python {machine['python']}",
            "versions": origin["versions"],
        }
        results = {**read_json(path), "record": record}
        write_record(Path(ABLATION_RECORDS) / f"{name}.json", results, {})


if __name__ == "__main__":
    main()
