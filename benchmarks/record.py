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

from benchmarks.provenance import provenance
from electra.config import digest, plain
from electra.files import read_json, remove, write_json
from pipelines import report
from pipelines.config.params import RunConfig, load

RESULTS = Path("benchmarks/results")


def record(name: str) -> dict[str, Any]:
    """One model's settings, results, times and machine."""
    params = load()
    params.require("models", name)
    model, finetuning = params.models[name], params.finetunings[name]
    tokens = params.tokens[model.tokens]
    timings = read_json(Path("runs/timings.json"))
    stages = [
        f"corpus-{tokens.corpus}",
        f"tokens-{model.tokens}",
        f"tasks-{finetuning.tasks}",
        *(f"{s}-{name}" for s in ("pretrain", "glue", "squad")),
    ]
    pretrain = read_json(Path(f"results/{name}/pretrain.json"))
    seconds = timings.get(f"pretrain-{name}", {}).get("seconds")
    seen = pretrain["steps"] * pretrain["batch"] * pretrain["length"]
    return {
        "command": [f"dvc repro pipelines/dvc.yaml:{stage}@{name}" for stage in ("pretrain", "glue", "squad")]
        + [f"python benchmarks/record.py {name}"],
        "settings": {
            "model": plain(model),
            "tokens": plain(tokens),
            "corpus": plain(params.corpora[tokens.corpus]),
            "finetune": plain(params.finetune),
            "finetuning": plain(finetuning) | {"changes": params.changes(name)},
        },
        "settings_digest": digest(model, tokens, params.corpora[tokens.corpus], params.finetune, params.changes(name)),
        "data": {
            kind: read_json(Path(f"results/{kind}/{key}.json"))
            for kind, key in (("corpus", tokens.corpus), ("tokens", model.tokens), ("tasks", finetuning.tasks))
        },
        "pretrain": pretrain,
        "glue": read_json(Path(f"results/{name}/glue.json")),
        "squad": read_json(Path(f"results/{name}/squad.json")),
        "seconds": {stage: timings[stage]["seconds"] for stage in stages if stage in timings},
        "tokens_per_second": round(seen / seconds) if seconds else None,
        "tokens_per_second_counts": "positions of all training rows over the wall time of the whole stage, "
        "evaluation and checkpoints included",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **provenance(("torch", "safetensors", "dvc")),
    }


def main() -> None:
    name = sys.argv[1]
    write_json(RESULTS / f"{name}.json", record(name))
    shutil.copyfile(f"results/{name}/pretrain.csv", RESULTS / f"{name}.csv")
    params = load()
    report.build(dataclasses.replace(params, run=RunConfig(models=(name,), ablations=())), RESULTS / name)
    for page in ("index.html", "run.js"):  # the page quotes rows of its corpus and tasks, which are their owners'
        remove(RESULTS / name / page)
    print(f"recorded {RESULTS / name}.json and {RESULTS / name}/")


if __name__ == "__main__":
    main()
