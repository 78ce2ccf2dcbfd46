"""What tiny's marks hang on: `python benchmarks/controls.py [CONTROL ...]` -> benchmarks/results/controls.json.

Each control is one pre-training (seed 1, one thread) and, from its encoder and from fresh weights of the same
network, one fine-tuning on each of the nine tasks and SQuAD 2.0 (seed 1), with one thing other than in `tiny`:

    published_head    the published head: [CLS], and no fresh layer
    published_start   the published initial values of queries and keys: not mimetic; the other values as in tiny
    both              these two together
    another_world     corpus, tokenizer and tasks of the sample world of seed 2

What is finished is not done again; CONTROLs are recorded alone. What benchmarks/tiny_marks.py has for seed 1 is what
each is compared with.
"""

import dataclasses
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from benchmarks.tiny_marks import ARMS, MODEL, SQUAD, finetuned, prepare, pretrained
from electra.config import merge
from electra.files import read_json, write_json
from electra.finetuning.tasks import GLUE
from pipelines.config.params import Params, load
from pipelines.sources import SampleCorpus, SampleTasks
from pipelines.stages import corpus, inputs, tasks, tokens
from pipelines.stages.squad import never_answering
from pipelines.tracking import Tracker

OUT, MARKS = Path("benchmarks/results/controls.json"), Path("benchmarks/results/tiny-marks.json")
SEED, WORLD = 1, "world_2"


def published_head(params: Params) -> Params:
    """Fine-tuning reads [CLS], by no layer of its own."""
    recipe = params.finetunings[MODEL].recipe
    head = {"defaults": {"pooling": "cls", "fresh_layers": 0}}
    return dataclasses.replace(params, recipes={**params.recipes, recipe: merge(params.recipes[recipe], head)})


def published_start(params: Params) -> Params:
    """Queries and keys begin like all other matrices."""
    model = params.models[MODEL]
    changed = dataclasses.replace(model, encoder=dataclasses.replace(model.encoder, init="published"))
    return dataclasses.replace(params, models={**params.models, MODEL: changed})


def another_world(params: Params) -> Params:
    """Other beings, facts and words with labels; its text, rows and tasks are made."""
    rows, finetuning = params.tokens[params.models[MODEL].tokens], params.finetunings[MODEL]
    text = dataclasses.replace(params.corpora[rows.corpus], sources=(SampleCorpus(kind="sample", seed=2),))
    changed = dataclasses.replace(
        params,
        corpora={**params.corpora, WORLD: text},
        tokens={**params.tokens, WORLD: dataclasses.replace(rows, corpus=WORLD)},
        tasks={**params.tasks, WORLD: SampleTasks(kind="sample", seed=2)},
        finetunings={**params.finetunings, MODEL: dataclasses.replace(finetuning, tasks=WORLD)},
    )
    inputs.survey(changed)
    for stage in (corpus, tokens, tasks):
        stage.run(WORLD, changed, Tracker(None))
    return changed


CONTROLS: dict[str, Callable[[Params], Params]] = {
    "published_head": published_head,
    "published_start": published_start,
    "both": lambda params: published_head(published_start(params)),
    "another_world": another_world,
}


def measured(name: str, params: Params) -> dict[str, Any]:
    """One control: how its pre-training ended, and its scores by task and arm."""
    changed = CONTROLS[name](params)
    home, record = pretrained(changed, WORLD if name == "another_world" else params.models[MODEL].tokens, SEED)
    scores, _ = finetuned(changed, home, SEED, ARMS)
    return {
        "disc_auc": record["history"][-1]["disc_auc"],
        "mean_of_nine": {arm: round(statistics.fmean(scores[task][arm] for task in GLUE), 2) for arm in ARMS},
        "tasks": {task: {arm: round(score, 2) for arm, score in arms.items()} for task, arms in scores.items()},
        "never_answering_f1": never_answering(Path("build/tasks") / changed.finetunings[MODEL].tasks / SQUAD),
    }


def main() -> None:
    origin, params, names = provenance(("torch",)), load(), sys.argv[1:]
    prepare(params)
    found = {}
    for name in names or CONTROLS:
        found[name] = measured(name, params)
        print(f"{name}: {found[name]}", flush=True)
    marks = read_json(MARKS)
    of_marks = {**marks["tasks"], "mean_of_nine": marks["mean_of_nine"]}
    write_json(
        OUT,
        {
            "command": " ".join(["python benchmarks/controls.py", *names]),
            "data": "sample world",
            "seed": SEED,
            "tiny": {key: {arm: of[arm]["scores"][SEED - 1] for arm in ARMS} for key, of in of_marks.items()},
            "controls": found,
            **origin,
        },
    )


if __name__ == "__main__":
    main()
