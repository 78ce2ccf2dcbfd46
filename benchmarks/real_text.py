"""Compare ELECTRA, a masked language model of equal FLOPs and no pre-training on real text:

    python benchmarks/real_text.py --steps 12000

1. Run the corpus, tasks and tokens stages with the settings of benchmarks/real_text.yaml.
2. Pre-train ELECTRA and the masked language model with each seed: build/models/<name>.
3. Fine-tune each on every task, and random weights of the same size too.
4. Write benchmarks/results/real-text-<steps>.json and .svg.

If it is interrupted, the same command continues. `--network` replaces the paper's encoder by
another one at equal FLOPs and is appended to the record's name.
"""

import argparse
import csv
import dataclasses
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    RESULTS,
    arguments,
    local_params,
    provenance,
    run_stages,
    summarize,
    with_model,
    write_record,
)
from electra.config import digest, merge, to_jsonable
from electra.errors import UserError
from electra.files import read_json, write_json
from electra.finetuning.tasks import SQUAD, TASKS
from electra.pretraining.config import GeneratorConfig, ObjectiveConfig
from electra.pretraining.flops import step_flops
from pipelines.cli.cost import vocabulary
from pipelines.config.params import ModelConfig, Params
from pipelines.report.comparison import compare_scores
from pipelines.report.records import TITLES
from pipelines.report.style import BLUE, GREY, INK, ORANGE, context, new_figure, save
from pipelines.report.table import signed
from pipelines.stages import CURVE, STAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "mini"
COSTS = Path("runs/real-text")  # processor seconds of each pre-training, including resumed parts
NETWORKS = ("deep", "modern")  # encoders of benchmarks/real_text.yaml
SIX = ("cola", "sst2", "mrpc", "stsb", "qnli", "rte")  # the tasks of the headline mean
TASKS_HERE = ("cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte", "mnli", *SQUAD.values())
ARMS = {
    "electra": ("ELECTRA", BLUE),
    "mlm": ("masked language model", ORANGE),
    "scratch": ("from scratch", GREY),
}
PRETRAINED = ("electra", "mlm")
PAIRS = (("electra", "scratch"), ("mlm", "scratch"), ("electra", "mlm"))
FACTS = (
    "seed",
    "steps",
    "flops",
    "flops_matmul_convention",
    "parameters",
    "precision",
    "rows_sha256",
)


def build_model(params: Params, network: str, arm: str, seed: int, steps: int) -> ModelConfig:
    """Return an arm's pre-training, which takes the FLOPs (of matrix products) of `steps` steps of
    ELECTRA with the paper's encoder.
    """
    model = params.models[MODEL]
    vocab_size = vocabulary(params.tokens[model.tokens].tokenizer)
    flops = steps * step_flops(model.electra(), vocab_size, "matmul")
    encoder = params.encoders[f"{MODEL}_{network}" if network else MODEL]
    model = dataclasses.replace(model, encoder=encoder)
    if arm == "mlm":  # one network
        objective = ObjectiveConfig(name="mlm", mask_token_rate=0.85, random_token_rate=0.0)
        model = dataclasses.replace(model, objective=objective, generator=GeneratorConfig())
    steps = round(flops / step_flops(model.electra(), vocab_size, "matmul"))
    pretrain = dataclasses.replace(model.pretrain, seed=seed, steps=steps)
    return dataclasses.replace(model, pretrain=pretrain)


def build_recipe(params: Params, seed: int, tasks: list[str]) -> dict[str, Any]:
    """Return the recipe with fine-tuning seeds that differ from those of other pre-trainings."""
    finetuning = params.finetunings[MODEL]
    glue = [task for task in tasks if task not in SQUAD.values()]
    seeds = {}
    for task in (*glue, "squad"):
        shipped = params.task_config(MODEL, task).seeds
        seeds[task] = {"seeds": [10 * seed + number for number in shipped]}
    versions = [version for version, task in SQUAD.items() if task in tasks]
    changes = {
        "run": glue,
        "defaults": {"keep_models": "none"},
        "squad": {"versions": versions, "keep_models": "none", **seeds.pop("squad")},
        "tasks": seeds,
    }
    return merge(params.recipe(finetuning.recipe), changes)


def with_arm(
    params: Params, options: argparse.Namespace, arm: str, seed: int
) -> tuple[str, Params]:
    """Return a name for an arm and seed, and the settings with entries of that name.

    The `scratch` arm belongs to ELECTRA's fine-tuning.
    """
    model = build_model(params, options.network, arm, seed, options.steps)
    name = f"{options.network or MODEL}-{arm}-{seed}-{model.pretrain.steps}"
    arms = ("pretrained", "scratch") if arm == "electra" else ("pretrained",)
    finetuning = dataclasses.replace(params.finetunings[MODEL], arms=arms)
    recipe = build_recipe(params, seed, options.tasks)
    return name, with_model(params, name, model, recipe, finetuning)


def pretrain(params: Params, name: str) -> dict[str, Any]:
    """Pre-train or resume, and return the facts of the run, its curve and processor seconds."""
    costs = COSTS / f"{name}-{digest(params.models[name])[:8]}.json"
    before = read_json(costs) if costs.is_file() else 0.0
    started = time.process_time()
    try:
        run_stages(params, pretrain=name)
    finally:
        write_json(costs, round(before + time.process_time() - started, 3))
    results = STAGES["pretrain"].results(name)
    with results.with_name(CURVE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    curve = [
        {key: float(row[key]) for key in ("tokens", "disc_auc") if row.get(key)} for row in rows
    ]
    facts = {key: value for key, value in read_json(results).items() if key in FACTS}
    return {**facts, "seconds": read_json(costs), "curve": curve}


def finetune(params: Params, name: str, tasks: list[str]) -> dict[str, dict[str, list[float]]]:
    """Fine-tune, and return the dev scores of each arm by task."""
    run_stages(params, glue=name)
    results = dict(read_json(STAGES["glue"].results(name))["tasks"])
    if set(SQUAD.values()) & set(tasks):
        run_stages(params, squad=name)
        for version, scores in read_json(STAGES["squad"].results(name))["versions"].items():
            results[SQUAD[version]] = scores
    return {
        arm: {task: scores[arm]["scores"] for task, scores in results.items()}
        for arm in params.finetunings[name].arms
    }


def compare_arms(scores: dict[str, list[dict[str, list[float]]]]) -> dict[str, Any]:
    """Return the mean and standard deviation of each arm over pre-trainings by task, with the
    differences between arms.

    A pre-training's score is the mean of its fine-tunings. The means of six and of eight tasks come
    first.
    """
    scored = next(iter(scores.values()))[0]
    groups = {f"mean of {len(group)}": group for group in (SIX, TASKS_HERE[:8])}
    groups |= {task: (task,) for task in TASKS_HERE}
    results: dict[str, Any] = {}
    for name, tasks in groups.items():
        if not scored.keys() >= {*tasks}:
            continue
        results[name] = {}
        arms = {}
        for arm, runs in scores.items():
            arms[arm] = [mean_of_tasks(run, tasks) for run in runs]
            results[name][arm] = summarize(arms[arm])
        for first, second in PAIRS:
            if pair := compare_scores(arms.get(first, ()), arms.get(second, ())):
                facts = {**dataclasses.asdict(pair), "reading": pair.verdict}
                results[name][f"{first} - {second}"] = facts
    return results


def mean_of_tasks(run: dict[str, list[float]], tasks: Sequence[str]) -> float:
    """Return the mean over tasks of the mean over fine-tunings."""
    return statistics.fmean(statistics.fmean(run[task]) for task in tasks)


def spread(score: dict[str, Any]) -> str:
    """Format a mean and its standard deviation, if there is one."""
    deviation = "" if score["std"] is None else f" ± {score['std']:.1f}"
    return f"{score['mean']:.1f}{deviation}"


def table_rows(tasks: dict[str, Any]) -> list[str]:
    """Return the rows of docs/real-text.md: task, mean ± deviation of each arm, ELECTRA's leads, in
    bold if their interval excludes zero.
    """
    rows = []
    for name, task in tasks.items():
        title = f"{TITLES[name]}, {TASKS[name].metrics[0]}" if name in TASKS else name
        cells = [title, *(spread(task[arm]) for arm in ARMS if arm in task)]
        for pair in ("electra - scratch", "electra - mlm"):
            if pair in task:
                points = signed(task[pair]["points"])
                significant = task[pair]["reading"] in {"higher", "lower"}
                cells.append(f"**{points}**" if significant else points)
        rows.append(" | ".join(cells))
    return rows


def draw(record: dict[str, Any]) -> "Figure":
    """Draw the held-out AUC of each discriminator over tokens, and the mean and deviation of each
    task by arm.
    """
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for run in record["pretraining"].get("electra", []):
        points = [
            (row["tokens"] / 1e6, row["disc_auc"]) for row in run["curve"] if "disc_auc" in row
        ]
        left.plot(*zip(*points, strict=True), color=BLUE)
    left.set_xlabel("million tokens read")
    left.set_title("Held-out AUC of the discriminator")
    titles = list(record["tasks"])
    for place, title in enumerate(titles):
        for i, (arm, (label, colour)) in enumerate(ARMS.items()):
            if score := record["tasks"][title].get(arm):
                height = place + 0.2 * (i - 1)
                name = label if place == 0 else None
                style = {"fmt": "o", "color": colour, "markersize": 4.5, "label": name}
                right.errorbar(score["mean"], height, xerr=score["std"] or 0, **style)
    right.set_yticks(range(len(titles)), [TITLES.get(name, name) for name in titles], color=INK)
    right.invert_yaxis()
    right.set_xlabel("points on dev, mean ± standard deviation of pre-trainings")
    right.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3)
    return figure


def run_and_record(path: Path, options: argparse.Namespace) -> None:
    """Run the selected arms and seeds, and write the record."""
    params = local_params()
    model = params.models[MODEL]
    origin = provenance("torch", "scikit-learn", "scipy")
    run_stages(params, corpus=params.tokens[model.tokens].corpus, tokens=model.tokens)
    run_stages(params, tasks=params.finetunings[MODEL].tasks)
    pretraining: dict[str, list[dict[str, Any]]] = {}
    scores: dict[str, list[dict[str, list[float]]]] = {}
    for seed in range(1, options.seeds + 1):
        for arm in options.arms:
            if options.only and f"{arm}-{seed}" not in options.only:
                continue
            name, seeded = with_arm(params, options, arm, seed)
            pretraining.setdefault(arm, []).append(pretrain(seeded, name))
            for start, points in finetune(seeded, name, options.tasks).items():
                scores.setdefault(arm if start == "pretrained" else start, []).append(points)
                print(name, start, points, flush=True)
    if options.only:
        return
    record = {
        "settings": to_jsonable(build_model(params, options.network, "electra", 1, options.steps)),
        "recipe": params.recipe(params.finetunings[MODEL].recipe),
        "pretraining": pretraining,
        "finetunings": scores,
        "tasks": compare_arms(scores),
    }
    write_record(path, record, origin)
    with context():
        save(draw(record), path.parent, path.stem)
    print(*table_rows(record["tasks"]), sep="\n")


def main() -> int:
    parser = arguments(__doc__)
    steps = "steps of ELECTRA; every arm gets the same FLOPs"
    parser.add_argument("--steps", type=int, required=True, help=steps)
    parser.add_argument("--seeds", type=int, default=3, help="pre-trainings per arm")
    parser.add_argument("--network", default="", choices=NETWORKS, help="use another encoder")
    parser.add_argument("--arms", nargs="+", default=list(PRETRAINED), choices=PRETRAINED)
    only = "run only these and write no record"
    parser.add_argument("--only", nargs="+", default=[], metavar="ARM-SEED", help=only)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS_HERE), choices=TASKS_HERE)
    options = parser.parse_args()
    variant = "-".join(filter(None, ("real-text", str(options.steps), options.network)))
    try:
        run_and_record(RESULTS / f"{variant}.json", options)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
