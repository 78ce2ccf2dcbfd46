"""Measure the default model over eight pre-trainings: `python benchmarks/tiny_marks.py`.

Pre-train `tiny` with eight seeds, fine-tune each three times as `dvc repro` does, and as often from
scratch. Corpus, tasks and tokenizer are the same for all, so standard deviations are over whole
pre-trainings. Finished runs are reused. Writes benchmarks/results/tiny-marks.json.
"""

import dataclasses
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    arguments,
    provenance,
    run_stages,
    summarize,
    with_model,
    write_record,
)
from electra.config import merge, to_jsonable
from electra.files import read_json
from electra.finetuning.tasks import GLUE
from pipelines.config.params import Params, load
from pipelines.stages import STAGES

MODEL = "tiny"
SEEDS = range(1, 9)
ARMS = ("pretrained", "scratch")
SQUAD = "squad2"


def with_seed(params: Params, seed: int) -> tuple[str, Params]:
    """Return the name of a copy of the model with a seed, and the settings with that copy."""
    name = f"{MODEL}-{seed}"
    model = params.models[MODEL]
    model = dataclasses.replace(model, pretrain=dataclasses.replace(model.pretrain, seed=seed))
    finetuning = params.finetunings[MODEL]
    seeds = {"seeds": [3 * seed - 2, 3 * seed - 1, 3 * seed]}  # no two from scratch are equal
    recipe = merge(params.recipe(finetuning.recipe), {"defaults": seeds, "squad": seeds})
    finetuning = dataclasses.replace(finetuning, arms=ARMS)
    return name, with_model(params, name, model, recipe, finetuning)


def main() -> None:
    options = arguments(__doc__, "tiny-marks.json").parse_args()
    origin = provenance("torch", "scikit-learn")
    params = load()
    rows = params.models[MODEL].tokens
    run_stages(params, corpus=params.tokens[rows].corpus, tokens=rows)
    run_stages(params, tasks=params.finetunings[MODEL].tasks)
    pretrainings = []
    runs = []
    for seed in SEEDS:
        name, seeded = with_seed(params, seed)
        run_stages(seeded, pretrain=name, glue=name, squad=name)
        results = read_json(STAGES["pretrain"].results(name))
        pretrainings.append({"seed": seed, **{key: results[key] for key in ("steps", "flops")}})
        run = dict(read_json(STAGES["glue"].results(name))["tasks"])
        runs.append({**run, SQUAD: read_json(STAGES["squad"].results(name))["versions"]["2.0"]})
    tasks: dict[str, Any] = {}
    for task, facts in runs[0].items():
        tasks[task] = {"metric": facts["metric"], "baselines": facts["baselines"]}
        for arm in ARMS:
            tasks[task][arm] = summarize([run[task][arm]["mean"] for run in runs])
    means = {}
    for arm in ARMS:
        means[arm] = [statistics.fmean(run[task][arm]["mean"] for task in GLUE) for run in runs]
    record = {
        "data": "sample world",
        "recipe": to_jsonable(params.models[MODEL].electra()),
        "finetune": params.recipe(params.finetunings[MODEL].recipe),
        "pretrainings": pretrainings,
        "mean_of_nine": {arm: summarize(values) for arm, values in means.items()},
        "tasks": tasks,
        "never_answering_f1": tasks[SQUAD]["baselines"]["never_answering"],
    }
    write_record(options.output, record, origin)


if __name__ == "__main__":
    main()
