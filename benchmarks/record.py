"""Keep the results of a finished model with their provenance: `python benchmarks/record.py mini`.

Reads what the stages of the model left (results/M, results/{corpus,tokens,tasks}, runs/timings.json) and writes
benchmarks/results/M.json (everything in one record), M.csv (the pre-training curve) and M/ (figures, tables,
the report without its page).
"""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.harness import RESULTS, arguments, provenance, write_record
from electra.config import digest, plain
from electra.files import read_json, remove
from pipelines import report
from pipelines.config.params import Params, RunConfig, load

TRAINED = ("pretrain", "glue", "squad")


def record(name: str, params: Params) -> dict[str, Any]:
    """One model's settings, results and times."""
    model, finetuning = params.models[name], params.finetunings[name]
    tokens, changes = params.tokens[model.tokens], params.changes(name)
    corpus = params.corpora[tokens.corpus]
    made = {"corpus": tokens.corpus, "tokens": model.tokens, "tasks": finetuning.tasks}
    timings = read_json(Path("runs/timings.json"))
    stages = [*(f"{kind}-{key}" for kind, key in made.items()), *(f"{stage}-{name}" for stage in TRAINED)]
    results = {stage: read_json(Path(f"results/{name}/{stage}.json")) for stage in TRAINED}
    seconds = timings.get(f"pretrain-{name}", {}).get("seconds")
    seen = results["pretrain"]["steps"] * results["pretrain"]["batch"] * results["pretrain"]["length"]
    return {
        "command": [f"dvc repro pipelines/dvc.yaml:{stage}@{name}" for stage in TRAINED]
        + [f"python benchmarks/record.py {name}"],
        "settings": {
            "model": plain(model),
            "tokens": plain(tokens),
            "corpus": plain(corpus),
            "finetune": plain(params.finetune),
            "finetuning": plain(finetuning) | {"changes": changes},
        },
        "settings_digest": digest(model, tokens, corpus, params.finetune, changes),
        "data": {kind: read_json(Path(f"results/{kind}/{key}.json")) for kind, key in made.items()},
        **results,
        "seconds": {stage: timings[stage]["seconds"] for stage in stages if stage in timings},
        "tokens_per_second": round(seen / seconds) if seconds else None,
        "tokens_per_second_counts": "positions of all training rows over the wall time of the whole stage, "
        "evaluation and checkpoints included",
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def main() -> None:
    parse = arguments(__doc__)
    parse.add_argument("model")
    name, params = parse.parse_args().model, load()
    params.require("models", name)
    write_record(RESULTS / f"{name}.json", record(name, params), provenance("torch", "safetensors", "dvc"))
    shutil.copyfile(f"results/{name}/pretrain.csv", RESULTS / f"{name}.csv")
    report.build(dataclasses.replace(params, run=RunConfig(models=(name,), ablations=())), RESULTS / name)
    for page in ("index.html", "run.js"):  # the page quotes rows of its corpus and tasks, which are their owners'
        remove(RESULTS / name / page)


if __name__ == "__main__":
    main()
