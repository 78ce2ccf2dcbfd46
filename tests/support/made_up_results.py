"""Made-up results in the stages' shapes, to draw a report from; no score in here was ever measured."""

import functools
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

from electra.files import write_json, write_jsonl
from electra.finetuning.tasks import GLUE
from electra.storage.manifest import write_manifest
from pipelines.config.params import load
from tests.support.project import ROOT

ARMS = {
    "electra": ("ELECTRA", 71.2),
    "replace_mlm": ("Replace MLM", 66.3),
    "mlm": ("BERT", 66.1),
}
SCRATCH = dict(zip(GLUE, (12.0, 68.0, 68.4, 24.0, 70.1, 55.2, 61.0, 53.1, 56.3), strict=True))
GAIN = dict(zip(GLUE, (25.0, 14.2, 0.4, 41.0, 9.3, 12.6, 15.8, 7.0, -0.6), strict=True))


@functools.cache
def shipped():
    return load(ROOT / "params.yaml")


def params(*models, ablations=(), **more):
    """params.yaml with `run` selecting these, and other sections where they are given."""
    run = replace(shipped().run, models=models, ablations=ablations)
    return replace(shipped(), run=run, **more)


def write(model="tiny", *, lift=1.0, deviations=(-1.0, 0.0, 1.0)):
    """Everything that one model leaves behind, with a fine-tuning for each deviation from its task's
    score.
    """
    results = Path("results") / model
    shutil.copytree(ROOT / "results/tiny", results, dirs_exist_ok=True)
    Path("results/curves").mkdir(exist_ok=True)
    shutil.copy(ROOT / "results/curves/tiny.csv", f"results/curves/{model}.csv")

    def around(score):
        return {"scores": [score + deviation for deviation in deviations]}

    tasks = {
        name: {
            "metric": task.metrics[0],
            "train_rows": 3000,
            "dev_rows": 500,
            "pretrained": around(SCRATCH[name] + lift * GAIN[name]),
            "scratch": around(SCRATCH[name]),
            "baselines": {"chance": 41.25, "word_overlap": 44.25, "replaced_tokens": 61.75},
        }
        for name, task in GLUE.items()
    }
    scratch = statistics.fmean(SCRATCH.values())
    average = {
        "name": "mean over nine tasks (sample world)",
        "tasks": list(GLUE),
        "pretrained": around(scratch + lift * statistics.fmean(GAIN.values())),
        "scratch": around(scratch),
    }
    write_json(results / "glue.json", {"tasks": tasks, "average": average})
    squad = {"metric": "f1", "baselines": {"never_answering": 33.25}}
    for arm, exact in (("pretrained", 61.0), ("scratch", 49.5)):
        squad[arm] = around(exact + 3.5) | {"all": {"exact": [exact]}}
    write_json(results / "squad.json", {"versions": {"2.0": squad}})
    write_predictions(model)
    write_examples(model)


def write_ablation(failed=""):
    """A part of Table 5, three seeds of each arm; the arm `failed` has no result."""
    arms = {}
    for name, (label, middle) in ARMS.items():
        arms[name] = {"label": label, "settings": {"objective.name": name}}
        if name == failed:
            fault = "loss was not finite at step 310"
            arms[name] |= {"status": f"failed: {fault}", "failed": [f"seed 1: {fault}"]}
        else:
            average = {"scores": [middle - 0.3, middle, middle + 0.3]}
            arms[name] |= {"status": "ok", "flops": 2.1e14, "average": average}
    write_json(Path("results/table5/ablation.json"), {"reference": "mlm", "arms": arms})


def write_examples(model):
    text = "[CLS] the old bak ##er sold <b> bread [SEP] she kept goats . [SEP]".split()
    replaced = [piece == "sold" for piece in text]
    row = {
        "tokens": ["milled" if piece == "sold" else piece for piece in text],
        "original": text,
        "replaced": replaced,
        "probability": [0.9 if new else 0.0 for new in replaced],
    }
    folder = Path(f"build/models/{model}")
    write_json(folder / "examples.json", [row] * 8)
    write_manifest(folder, name=model)


def write_predictions(model):
    """One right and two wrong predictions of each task, and one of each kind of question."""
    tasks = Path("build/tasks/sample_world")
    context = f"{'Once. ' * 30}Maren the miller two grey goats behind the mill, and more."
    gold = {"text": "two grey goats", "start": context.index("two")}
    questions, answers = [], {}
    for number, (impossible, answer) in enumerate(
        [(False, "two grey goats"), (False, "grey goats"), (True, ""), (True, "the mill")]
    ):
        row = {"id": f"q{number}", "question": f"What does Maren keep ({number})?"}
        row |= {"context": context, "answers": [] if impossible else [gold]}
        questions.append(row | {"impossible": impossible})
        answers[f"q{number}"] = answer
    write_jsonl(tasks / "squad2/dev.jsonl", questions)
    squad = Path(f"build/squad/{model}/2.0")
    write_json(squad / "pretrained-seed2.json", answers)
    for other in ("seed2-null-odds", "seed10"):
        write_json(squad / f"pretrained-{other}.json", dict.fromkeys(answers, 0.0))
    for name, task in GLUE.items():
        right, wrong = (4.5, 0.5) if task.regression else task.labels[:2]
        near = 4.0 if task.regression else right
        rows = [
            {"id": f"{number}", "a": f"The weaver of <Marlow> {number}."} for number in range(3)
        ]
        for row in rows:
            row["b"] = None if name in {"cola", "sst2"} else "A baker & a goat."
        predictions = [
            {"id": "0", "label": right, "prediction": near, "logits": [2.0, 1.0]},
            {"id": "1", "label": right, "prediction": wrong, "logits": [2.0, 1.0]},
            {"id": "2", "label": right, "prediction": wrong, "logits": [4.0, 1.0]},
        ]
        write_jsonl(tasks / name / "dev.jsonl", rows)
        write_jsonl(Path(f"build/glue/{model}/{name}/pretrained-seed1.jsonl"), predictions)
    for folder in (f"squad/{model}", f"glue/{model}", "tasks/sample_world"):
        write_manifest(Path("build") / folder, name=Path(folder).name)
