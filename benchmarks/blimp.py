"""BLiMP's minimal pairs without labels, by the networks that real_text.py has pre-trained:

    python benchmarks/blimp.py runs/real-text/modern/electra-1-12000 runs/real-text/modern/mlm-1-21383

Each folder's discriminator and generator (or masked language model) are scored. The
pairs are BLiMP's of the hub, or those of `--pairs`. Writes benchmarks/results/blimp.json.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import arguments, provenance, write_record
from electra import load
from electra.files import read_json
from electra.minimal_pairs import accuracies
from pipelines.commands.pairs import read

FACTS = ("steps", "flops", "parameters", "rows_sha256")


def main() -> None:
    asked, origin = arguments(__doc__, "blimp.json"), provenance("torch")
    asked.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a run of real_text.py")
    asked.add_argument("--pairs", nargs="*", default=[], help="files; default: BLiMP from the hub")
    chosen = asked.parse_args()
    pairs, found = list(read(chosen.pairs)), dict[str, Any]()
    for folder in chosen.folders:
        run = read_json(folder / "found.json")
        for part in ("discriminator", "generator"):
            if (model := folder / "model" / part).is_dir():
                paradigms = {name: round(value, 1) for name, value in accuracies(load(model), pairs).items()}
                mean = round(statistics.fmean(paradigms.values()), 1)
                encoder = run["config"]["encoder"]["kind"]
                facts = {key: run[key] for key in FACTS} | {"encoder": encoder, "tokens": run["curve"][-1]["tokens"]}
                found[f"{folder.name} {part}"] = {**facts, "mean": mean, "paradigms": paradigms}
                print(folder.name, part, mean, flush=True)
    write_record(chosen.output, {"pairs": len(pairs), "models": found}, origin)


if __name__ == "__main__":
    main()
