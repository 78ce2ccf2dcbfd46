"""ELECTRA, a masked language model of equal FLOPs and no pre-training on real text:

    python benchmarks/real_text.py --steps 12000

1. corpus, tasks and rows, by the stages themselves, as benchmarks/real_text.yaml says
2. ELECTRA and the masked language model are pre-trained with each seed:
  runs/real-text/<arm>-<seed>-<steps>
3. each is fine-tuned on every task; so are fresh weights
4. benchmarks/results/real-text-<steps>.json and .svg

Stopped or killed at any time, the same command goes on where it was. With --network another encoder
takes the place of the paper's and spends as many FLOPs; its runs are in runs/real-text/<network>,
and the record's name ends in <network>.
"""

import argparse
import dataclasses
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, arguments, commit, local_params, provenance, write_record
from electra.config import digest, plain
from electra.errors import UserError
from electra.files import read_json, sha256_file, write_json
from electra.finetuning.tasks import SQUAD, TASKS
from electra.pretraining.config import ElectraConfig, GeneratorConfig, ObjectiveConfig, of_config
from electra.pretraining.flops import step_flops
from electra.pretraining.trainer import Launch, Trained
from electra.storage.manifest import MANIFEST, read_manifest
from pipelines.config.params import Params
from pipelines.finetuning_runs.plan import Plan, run_all
from pipelines.finetuning_runs.summary import sd
from pipelines.report.comparison import difference
from pipelines.report.records import TITLES
from pipelines.report.style import BLUE, GREY, INK, ORANGE, context, new_figure, save
from pipelines.report.table import signed
from pipelines.stages import FINETUNING, STAGES, corpus, tasks, tokens
from pipelines.stages.glue import configs_of
from pipelines.stages.pretrain import ModelRows, write_model
from pipelines.stages.progress_bar import ProgressBar
from pipelines.tracking import Tracker
from pipelines.versioning.code import digest_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, ROWS = "mini", "real_text"
RUNS = Path("runs/real-text")
NETWORKS = ("deep", "modern")  # encoders of benchmarks/real_text.yaml
SIX = ("cola", "sst2", "mrpc", "stsb", "qnli", "rte")  # the tasks of the headline mean
TASKS_HERE = ("cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte", "mnli", *SQUAD.values())
ARMS = {
    "electra": ("ELECTRA", BLUE),
    "mlm": ("masked language model", ORANGE),
    "scratch": ("from scratch", GREY),
}
PAIRS = (("electra", "scratch"), ("mlm", "scratch"), ("electra", "mlm"))


def prepared(network: str = "") -> Params:
    """The settings of this comparison, with another network's encoder where one is named."""
    params = local_params()
    encoder = params.encoders["_".join(filter(None, (MODEL, network)))]
    model = dataclasses.replace(params.models[MODEL], encoder=encoder)
    return dataclasses.replace(params, models=params.models | {MODEL: model})


def prepare(params: Params) -> None:
    """Make text and tasks where they are missing, and the rows again if they are of other text or
    settings.
    """
    rows, source = params.tokens[ROWS], params.finetunings[MODEL].tasks
    for stage, kind, name in ((corpus, "corpus", rows.corpus), (tasks, "tasks", source)):
        if not (Path("build") / kind / name).is_dir():
            stage.run(name, params, Tracker(None))
    manifest, made = Path("build/tokens") / ROWS / MANIFEST, RUNS / "rows.json"
    key = digest(
        rows, read_manifest(Path("build/corpus") / rows.corpus)["files"], STAGES["tokens"].digest
    )
    if not (
        manifest.is_file() and made.is_file() and read_json(made) == {key: sha256_file(manifest)}
    ):
        tokens.run(ROWS, params, Tracker(None))
        write_json(made, {key: sha256_file(manifest)})


# ── pre-training ──


def settings(
    model: ElectraConfig, arm: str, seed: int, flops: float, vocab_size: int
) -> ElectraConfig:
    """An arm's pre-training for so many FLOPs (matrix products)."""
    config = model
    if arm == "mlm":  # it has neither generator nor discriminator
        objective = ObjectiveConfig(name="mlm", mask_token_rate=0.85, random_token_rate=0.0)
        config = dataclasses.replace(model, objective=objective, generator=GeneratorConfig())
    steps = round(flops / step_flops(config, vocab_size, "matmul"))
    return dataclasses.replace(
        config, pretrain=dataclasses.replace(config.pretrain, seed=seed, steps=steps)
    )


def flops_of(steps: int, vocab_size: int) -> float:
    """What every pre-training spends, in matrix products: so many steps of ELECTRA with the paper's
    encoder.
    """
    return steps * step_flops(prepared().models[MODEL].electra(), vocab_size, "matmul")


def pretrained(
    params: Params, folder: Path, arm: str, seed: int, steps: int
) -> tuple[Path, dict[str, Any]]:
    """The model of one arm and seed, and what its pre-training was, cost and reached, which is kept
    beside it.
    """
    model = params.models[MODEL].electra()
    rows = ModelRows(params, ROWS, model)
    vocab_size = rows.tokenizer.vocab_size
    config = settings(model, arm, seed, flops_of(steps, vocab_size), vocab_size)
    home = folder / f"{arm}-{seed}-{config.pretrain.steps}"
    known, this = home / "found.json", {"config": of_config(config), "rows_sha256": rows.digest}
    if known.is_file() and this.items() <= (before := dict(read_json(known))).items():
        return home / "model", before
    trained, cost = timed(rows, config, home)
    facts = rows.facts(config, trained)
    write_model(home / "model", MODEL, config, trained, rows, facts)
    kept = ("steps", "phases", "flops", "flops_matmul_convention", "parameters", "precision")
    found = {
        "seed": seed,
        **this,
        **{key: facts[key] for key in kept},
        **cost,
        "curve": trained.history,
    }
    write_json(known, found)
    return home / "model", found


def timed(rows: ModelRows, config: ElectraConfig, home: Path) -> tuple[Trained, dict[str, Any]]:
    """Pre-train, or go on; also the processor seconds and commits of all starts that ended or were
    stopped.
    """
    notes, begun, here = (
        home / f"cost-{digest(rows.fingerprint(config))[:8]}.json",
        time.process_time(),
        commit(),
    )
    try:
        launch = Launch(title=home.name, bar=ProgressBar)
        trained = rows.train(config, home, log=lambda step, numbers: None, launch=launch)
    finally:
        seconds = time.process_time() - begun
        # read here: a finished run of other code may have been archived with its notes
        if home.is_dir():
            cost = dict(read_json(notes)) if notes.is_file() else {"seconds": 0.0, "commits": []}
            commits = sorted({*cost["commits"], here})
            write_json(notes, {"seconds": round(cost["seconds"] + seconds, 3), "commits": commits})
    return trained, dict(read_json(notes))


def any_electra(params: Params, folder: Path, steps: int) -> Path:
    """An ELECTRA model of this network, existing or the first: fresh weights take its vocabulary
    and sizes.
    """
    model = params.models[MODEL].electra()
    this = {"encoder": plain(model.encoder), "rows_sha256": ModelRows(params, ROWS, model).digest}
    for found in sorted(folder.glob("electra-*-*/found.json")):
        known = read_json(found)
        if {"encoder": known["config"]["encoder"], "rows_sha256": known["rows_sha256"]} == this:
            return found.with_name("model")
    return pretrained(params, folder, "electra", 1, steps)[0]


# ── fine-tuning ──


def finetuned(
    params: Params, model: Path, state: Path, arm: str, seed: int, of: list[str]
) -> dict[str, list[float]]:
    """The scores of each task's fine-tunings, points on dev; no other pre-training has their seeds."""
    rows, kind = (
        Path("build/tasks") / params.finetunings[MODEL].tasks,
        "scratch" if arm == "scratch" else "pretrained",
    )
    squad = params.task_config(MODEL, "squad")
    versions = params.squad_versions(MODEL)
    plans = configs_of(MODEL, params) | {SQUAD[version]: squad for version in versions}
    found: dict[str, list[float]] = {}
    for task in of:
        own = tuple(10 * seed + each for each in plans[task].seeds)
        config = dataclasses.replace(plans[task], seeds=own, arms=(kind,), keep="none")  # type: ignore[arg-type]
        where = {"rows": rows / task, "model": model / "encoder", "state": state}
        jobs = Plan(task, config, **where, code=digest_of(FINETUNING)).jobs()  # type: ignore[arg-type]
        found[task] = [done["metrics"][jobs[0].task.metrics[0]] for done in run_all(jobs, 1)]
        print(f"{state.name} {task}:", *(f"{score:.1f}" for score in found[task]), flush=True)
    return found


def compared(scores: dict[str, list[dict[str, list[float]]]]) -> dict[str, Any]:
    """Task -> mean and deviation of each arm over pre-trainings, and what may be said of each
    difference.

    A pre-training's score is the mean of its fine-tunings. The means of six and of eight tasks come
    first.
    """
    known = next(iter(scores.values()))[0]
    means = {f"mean of {len(of)}": of for of in (SIX, TASKS_HERE[:8]) if {*of} <= known.keys()}
    found: dict[str, Any] = {}
    for name, of in (means | {task: (task,) for task in TASKS_HERE if task in known}).items():
        arms = {
            arm: [statistics.fmean(statistics.fmean(run[task]) for task in of) for run in runs]
            for arm, runs in scores.items()
        }
        found[name] = {
            arm: {
                "scores": [round(value, 2) for value in values],
                "mean": round(statistics.fmean(values), 2),
                "std": None if (deviation := sd(values)) is None else round(deviation, 2),
            }
            for arm, values in arms.items()
        }
        for first, second in PAIRS:
            if pair := difference(arms.get(first, ()), arms.get(second, ())):
                found[name][f"{first} - {second}"] = {
                    **dataclasses.asdict(pair),
                    "reading": pair.verdict,
                }
    return found


# ── the record ──


def spread(of: dict[str, Any]) -> str:
    """A mean ± standard deviation; a single run has none."""
    return f"{of['mean']:.1f}" + (f" ± {of['std']:.1f}" if of["std"] is not None else "")


def lines(of: dict[str, Any]) -> list[str]:
    """The rows of docs/real-text.md: a task, the arms' means ± deviations, ELECTRA's differences
    (bold: they count).
    """
    found = []
    for name, task in of.items():
        title = f"{TITLES[name]}, {TASKS[name].metrics[0]}" if name in TASKS else name
        cells = [title, *(spread(task[arm]) for arm in ARMS if arm in task)]
        for pair in ("electra - scratch", "electra - mlm"):
            if pair in task:
                points, bold = (
                    signed(task[pair]["points"]),
                    "**" * (task[pair]["reading"] in ("higher", "lower")),
                )
                cells.append(f"{bold}{points}{bold}")
        found.append(f"| {' | '.join(cells)} |")
    return found


def draw(record: dict[str, Any]) -> "Figure":
    """Left: the held-out AUC of each discriminator over tokens; right: each task, mean and
    deviation by arm.
    """
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for run in record["pretraining"].get("electra", []):
        points = [point for point in run["curve"] if "disc_auc" in point]
        left.plot([p["tokens"] / 1e6 for p in points], [p["disc_auc"] for p in points], color=BLUE)
    left.set_xlabel("million tokens read")
    left.set_title("Replaced tokens found, held-out text")
    titles = list(record["tasks"])
    for place, title in enumerate(titles):
        for i, (arm, (label, colour)) in enumerate(ARMS.items()):
            if found := record["tasks"][title].get(arm):
                style: dict[str, Any] = {"fmt": "o", "color": colour, "markersize": 4.5}
                style |= {"label": label} if place == 0 else {}
                right.errorbar(
                    found["mean"], place + 0.2 * (i - 1), xerr=found["std"] or 0, **style
                )
    right.set_yticks(range(len(titles)), [TITLES.get(name, name) for name in titles], color=INK)
    right.invert_yaxis()
    right.set_xlabel("points on dev, mean ± standard deviation of pre-trainings")
    right.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3)
    return figure


def rows_of(params: Params, of: list[str]) -> dict[str, str]:
    """A hash of each task's rows that are trained on or scored."""
    files = read_manifest(Path("build/tasks") / params.finetunings[MODEL].tasks)["files"]
    used = {task: (f"{task}/train", f"{task}/dev") for task in of}
    return {
        task: digest(
            sorted(
                (name, file["sha256"]) for name, file in files.items() if name.startswith(starts)
            )
        )
        for task, starts in used.items()
    }


def run_and_record(
    path: Path, chosen: argparse.Namespace, names: dict[str, tuple[str, int]]
) -> None:
    """Run the arms and seeds that are missing, and write the record."""
    params, folder = prepared(chosen.network), RUNS / chosen.network
    origin = provenance("torch", "scikit-learn", "scipy")
    prepare(params)
    runs: dict[str, list[dict[str, Any]]] = {}
    scores: dict[str, list[dict[str, list[float]]]] = {}
    for name, (arm, seed) in names.items():
        if arm == "scratch":
            model, state = any_electra(params, folder, chosen.steps), folder / "tasks" / name
        else:
            model, facts = pretrained(params, folder, arm, seed, chosen.steps)
            state = folder / "tasks" / model.parent.name
            runs.setdefault(arm, []).append(facts)
        scores.setdefault(arm, []).append(finetuned(params, model, state, arm, seed, chosen.tasks))
    if chosen.only:
        return
    found = {
        "settings": plain(params.models[MODEL].electra()),
        "recipe": params.recipe(MODEL),
        "pretraining": runs,
    }
    found |= {
        "finetunings": scores,
        "tasks": compared(scores),
        "task_rows": rows_of(params, chosen.tasks),
    }
    write_record(path, found, origin)
    with context():
        save(draw(found), path.parent, path.stem)
    print(*lines(found["tasks"]), sep="\n")


def main() -> int:
    asked = arguments(__doc__)
    asked.add_argument(
        "--steps", type=int, required=True, help="of ELECTRA; the other arm spends as many FLOPs"
    )
    asked.add_argument("--seeds", type=int, default=3, help="pre-trainings of each arm")
    asked.add_argument(
        "--network", default="", choices=NETWORKS, help="another encoder, for as many FLOPs"
    )
    asked.add_argument(
        "--arms", nargs="+", default=list(ARMS), choices=ARMS, help="those that are compared"
    )
    asked.add_argument(
        "--only", nargs="+", default=[], metavar="ARM-SEED", help="these, without a record"
    )
    asked.add_argument("--tasks", nargs="+", default=list(TASKS_HERE), choices=TASKS_HERE)
    chosen = asked.parse_args()
    names = {
        f"{arm}-{seed}": (arm, seed) for seed in range(1, chosen.seeds + 1) for arm in chosen.arms
    }
    if unknown := set(chosen.only) - set(names):
        asked.error(
            f"--only has {', '.join(sorted(unknown))}; expected some of {', '.join(names) or 'none'}"
        )
    path = RESULTS / (
        "-".join(filter(None, ("real-text", str(chosen.steps), chosen.network))) + ".json"
    )
    wanted = {name: run for name, run in names.items() if not chosen.only or name in chosen.only}
    try:
        run_and_record(path, chosen, wanted)
    except UserError as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
