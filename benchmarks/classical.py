"""What scikit-learn finds in the real rows that real_text.py fine-tunes on: `python
benchmarks/classical.py`.

Writes benchmarks/results/classical.json: chance, majority, tf-idf with logistic regression, and for
two texts features of the pair with boosted trees (pipelines/stages/baselines.py), on the rows and
dev sets of docs/real-text.md.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import arguments, local_params, provenance, write_record
from benchmarks.real_text import SIX
from electra.finetuning.tasks import GLUE
from pipelines.stages import baselines, tasks
from pipelines.tracking import Tracker

SIMPLE = ("bag_of_words", "word_overlap")


def main() -> None:
    asked, origin = arguments(__doc__, "classical.json").parse_args(), provenance("scikit-learn")
    params = local_params()
    tasks.run("local", params, Tracker(None))
    found: dict[str, Any] = {}
    for name in (*SIX, "qqp", "mnli"):
        begun, config = time.process_time(), params.finetune.resolve(name, params.changes("mini"))
        found[name] = baselines.score_baselines(
            GLUE[name], Path("build/tasks/local") / name, config
        )
        found[name] |= {"best": max(found[name].get(kind, 0.0) for kind in SIMPLE)}
        found[name] |= {"processor_seconds": round(time.process_time() - begun, 1)}
        print(name, found[name], flush=True)
    mean = round(statistics.fmean(found[name]["best"] for name in SIX), 1)
    write_record(asked.output, {"tasks": found, "mean_of_six": mean}, origin)


if __name__ == "__main__":
    main()
