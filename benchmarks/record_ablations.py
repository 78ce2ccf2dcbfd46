"""Keep the results of ablations with their provenance: `python benchmarks/record_ablations.py
tiny`.

Takes what build/ablation holds of a model's ablations (or of one, by its name) and writes
benchmarks/results/ablations/NAME.json, which the report shows for every ablation that its own run
does not cover.
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
    parse = arguments(__doc__)
    parse.add_argument("name", help="a model or an ablation")
    asked = parse.parse_args().name
    timings = read_json(Path("runs/timings.json"))
    origin = provenance("torch")
    machine = origin["machine"]
    for name in (
        key for key, ablation in load().ablations.items() if asked in {key, ablation.base.model}
    ):
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
        write_record(
            Path(ABLATION_RECORDS) / f"{name}.json", {**read_json(path), "record": record}, {}
        )


if __name__ == "__main__":
    main()
