"""Pre-train `small` for a few minutes of a GPU on local text:

    python benchmarks/gpu_small.py --steps 20000    # build/models/gpu_small

The rows are `local_wiki` of benchmarks/real_text.yaml, which are built if they are missing.
The rate is the median over logged intervals; seconds are wall time, with compilation, evaluations
and checkpoints.
"""

import dataclasses
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness import arguments, local_params, provenance, run_stages, write_record
from electra.files import read_json
from pipelines.config.params import Params
from pipelines.stages import BUILD, STAGES
from pipelines.tracking import Tracker

MODEL = "gpu_small"


class Points(Tracker):
    """Keeps the numbers of each logged step."""

    def __init__(self) -> None:
        super().__init__(None)
        self.points: list[dict[str, Any]] = []

    def metrics(self, step: int | None, values: Mapping[str, Any]) -> None:
        self.points.append({"step": step, **values})


def pretrain(params: Params, steps: int) -> dict[str, Any]:
    """Pre-train for `steps`, and return its part of the record."""
    model = params.models[MODEL]
    if not (BUILD / "tokens" / model.tokens).is_dir():
        run_stages(params, corpus=params.tokens[model.tokens].corpus, tokens=model.tokens)
    model = dataclasses.replace(model, pretrain=dataclasses.replace(model.pretrain, steps=steps))
    params = dataclasses.replace(params, models={**params.models, MODEL: model})
    log = Points()
    started = time.perf_counter()
    STAGES["pretrain"].run(MODEL, params, log)
    seconds = time.perf_counter() - started
    rates = [
        point["train/tokens_per_second"]
        for point in log.points
        if "train/tokens_per_second" in point
    ]
    return {
        "gpu": torch.cuda.get_device_name(),
        "steps": steps,
        "seconds": round(seconds, 1),
        "tokens per second": round(statistics.median(rates)),
        "peak bytes": torch.cuda.max_memory_allocated(),
        "curve": [point for point in log.points if "valid/loss" in point],
        "results": read_json(STAGES["pretrain"].results(MODEL)),
    }


def main() -> None:
    parser = arguments(__doc__, "gpu-small.json")
    parser.add_argument("--steps", type=int, required=True, help="steps of pre-training")
    options = parser.parse_args()
    origin = provenance("torch")
    write_record(options.output, pretrain(local_params(), options.steps), origin)


if __name__ == "__main__":
    main()
