"""ELECTRA, a masked language model of equal FLOPs and no pre-training on real text, for as long as there is time:

    python benchmarks/real_text.py --steps 12000

1. corpus, tasks and rows, by the stages themselves: those of `mini_plus`, but no text is cut off
2. ELECTRA and a masked language model are pre-trained with each seed, at a flat rate, for two fifths of the steps:
   runs/real-text/<arm>-<seed>
3. from there, in a folder of its own, the rate falls, and rows of the last fifth are longer:
   runs/real-text/<arm>-<seed>-<steps>
4. minimal pairs are told apart by the encoders as they are, and tasks are fine-tuned, from fresh weights, too
5. benchmarks/results/real-text-<steps>.json and .svg

Stopped or killed at any time, the same command goes on where it was. With more steps the flat part goes on from where
it ended, and what comes out is, to the byte, what a run of so many steps would have been from the start. With --add the
seeds of the record that is there are kept, wherever they were run, and only further ones are run. With --network
another network takes the place of mini_plus's and spends as many FLOPs; its runs are in runs/real-text/<network>, and
the record's name ends in <network>.
"""

import argparse
import dataclasses
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frozen_probe import probe
from benchmarks.minimal_pairs import likelier, minimal_pairs, seen
from benchmarks.provenance import provenance
from benchmarks.sittings import sittings, train
from electra.config import build, digest, merge, plain
from electra.data import tokenizer as tokenizers
from electra.data.text import sentences
from electra.errors import BadInput, UserError
from electra.files import read_json, sha256_file, write_json
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.pool import run_all
from electra.finetuning.runs.summary import sd
from electra.finetuning.tasks import SQUAD, TASKS
from electra.nn.weights import load_encoder
from electra.pretraining.config import ElectraConfig, GeneratorConfig, ObjectiveConfig, of_config
from electra.pretraining.flops import step_flops
from electra.storage.manifest import MANIFEST, read_manifest
from pipelines.config.params import ModelConfig, Params, load
from pipelines.report.comparison import decided, difference
from pipelines.report.records import TITLES
from pipelines.report.style import BLUE, GREY, INK, ORANGE, context, new_figure, save
from pipelines.report.table import signed
from pipelines.stages import code_deps
from pipelines.stages.glue import configs_of
from pipelines.stages.pretrain import ModelRows, write_model
from pipelines.stages.tokens import make_rows, split_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE, MODEL = "mini_plus", "real_text"
RUNS, OUT = Path("runs/real-text"), Path("benchmarks/results")
FALLING, LONG = 0.6, 0.2  # of the steps, at the end: the rate falls; rows of 128, whose positions fine-tuning needs
NETWORKS: dict[str, dict[str, Any]] = {  # what takes the place of mini_plus's two layers of width 128
    "deep": {"layers": 4},
    "modern": {"kind": "modern", "ffn": 340},
}
# One network proposes and judges; with the judge's loss at the published 50, tasks of two texts gained less in trials.
GENERATOR, OBJECTIVE = {"width": 1.0}, {"sharing": "all", "discriminator_weight": 10.0}
PRETRAIN: dict[str, Any] = {
    "phases": [{"length": 32, "share": 1 - LONG}, {"length": 128, "share": LONG, "batch": 16}],
    **{"batch": 64, "steps": 10_000, "warmup": 200, "learning_rate": 1e-3, "bias_correction": True, "beta2": 0.98},
    **{"schedule": "warmup_stable_decay", "decay_share": FALLING, "threads": 1, "precision": "fp32"},
    **{"log_every": 100, "eval_every": 500, "save_every": 500},
}
# Fine-tuning: as mini_plus but for these. One text: the mean of its states; two texts: how their means differ in all
# layers, by a head that learns faster than the encoder, from fresh weights, too.
ONE: dict[str, Any] = {"pooling": "mean"}
TWO: dict[str, Any] = {
    "pooling": "pair",
    "head_layers": "all",
    "learning_rate": 2e-3,
    "layer_decay": 0.5,
    "scratch": {"layer_decay": 0.5},
}
STSB = {**TWO, "learning_rate": 5e-3, "layer_decay": 0.3, "scratch": {"layer_decay": 0.3}, "epochs": 4}
THREE = {"seeds": [1, 2, 3]}  # small tasks, whose fine-tunings differ by points
ALL_ROWS = {"max_train_rows": None}  # where mini_plus takes a part
RECIPE: dict[str, Any] = {
    "run": ["cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte", "mnli"],
    "defaults": {"seeds": [1]},
    "squad": {"max_train_rows": 1500},
    "tasks": {
        **{"cola": {**ONE, **THREE}, "sst2": {**ONE, **ALL_ROWS}, "mrpc": {**TWO, **THREE}, "stsb": {**STSB, **THREE}},
        **{"qqp": TWO, "qnli": {**TWO, **ALL_ROWS}, "rte": {**TWO, **THREE, "epochs": 3}, "mnli": TWO},
    },
}
SIX = ("cola", "sst2", "mrpc", "stsb", "qnli", "rte")  # those of mini_plus
TASKS_HERE = [*RECIPE["run"], *SQUAD.values()]
ARMS = {"electra": ("ELECTRA", BLUE), "mlm": ("masked language model", ORANGE), "scratch": ("from scratch", GREY)}
PAIRS = (("electra", "scratch"), ("mlm", "scratch"), ("electra", "mlm"))
MOST = {"cola": None, "sst2": 8000}  # training rows of the frozen probes
SENTENCES = 2000  # held out, of which minimal pairs are made


def config_of(params: Params, network: str = "") -> ElectraConfig:
    """ELECTRA's settings: mini_plus's sizes or another network's, all else this comparison's own."""
    encoder = plain(params.models[BASE].encoder) | {"init": "neighbours"} | NETWORKS.get(network, {})
    if encoder["kind"] == "modern":  # has no use for these
        encoder = {key: value for key, value in encoder.items() if key not in ("token_types", "layer_norm_eps")}
    parts = {"encoder": encoder, "generator": GENERATOR, "objective": OBJECTIVE, "pretrain": PRETRAIN}
    return build(ElectraConfig, parts, MODEL)


def prepared(network: str = "") -> Params:
    """params.yaml with the model, rows and fine-tuning of this comparison."""
    params = load()
    rows, config = params.tokens[params.models[BASE].tokens], config_of(params, network)
    rows = dataclasses.replace(rows, packing=dataclasses.replace(rows.packing, overflow="carry"))
    parts = {part: getattr(config, part) for part in ("encoder", "generator", "objective", "pretrain")}
    model = ModelConfig(tokens=MODEL, **parts)
    return dataclasses.replace(
        params,
        tokens=params.tokens | {MODEL: rows},
        models=params.models | {MODEL: model},
        recipes=params.recipes | {MODEL: merge(params.recipe(BASE), RECIPE)},
        finetunings=params.finetunings
        | {MODEL: dataclasses.replace(params.finetunings[BASE], model=MODEL, recipe=MODEL)},
    )


def prepare(params: Params) -> None:
    """Text, tasks and rows, where they are not there; rows of other text or settings are made anew."""
    rows, tasks = params.tokens[MODEL], params.finetunings[BASE].tasks
    for stage, name in (("corpus", rows.corpus), ("tasks", tasks)):
        if not (Path("build") / stage / name).is_dir():
            subprocess.run([sys.executable, "-m", "pipelines", stage, name], check=True)
    corpus, folder, known = Path("build/corpus") / rows.corpus, Path("build/tokens") / MODEL, RUNS / "rows.json"
    made_of = digest(rows, read_manifest(corpus)["files"], code_deps.code("tokens"))
    if not folder.is_dir() or not known.is_file() or read_json(known) != {made_of: sha256_file(folder / MANIFEST)}:
        make_rows(rows, f"tokens.{MODEL}", corpus, folder, RUNS / "rows")
        write_json(known, {made_of: sha256_file(folder / MANIFEST)})


# ── pre-training ──


def settings(model: ElectraConfig, arm: str, seed: int, flops: float, vocab_size: int) -> ElectraConfig:
    """An arm's pre-training of so many FLOPs (matrix products)."""
    config = model
    if arm == "mlm":  # of generator and discriminator it has nothing
        objective = ObjectiveConfig(name="mlm", mask_token_rate=0.85, random_token_rate=0.0)
        config = dataclasses.replace(model, objective=objective, generator=GeneratorConfig())
    steps = round(flops / step_flops(config, vocab_size, "matmul"))
    return dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, seed=seed, steps=steps))


def flops_of(params: Params, steps: int, vocab_size: int) -> float:
    """What every pre-training spends, in matrix products: so many steps of ELECTRA with mini_plus's sizes."""
    return steps * step_flops(config_of(params), vocab_size, "matmul")


def pretrained(params: Params, home: Path, arm: str, seed: int, steps: int) -> tuple[Path, dict[str, Any]]:
    """The model of one arm and seed; and what its pre-training was, cost and reached, which is kept beside it."""
    model = params.models[MODEL].electra()
    rows = ModelRows(params, MODEL, model)
    vocab_size = rows.tokenizer.vocab_size
    config = settings(model, arm, seed, flops_of(params, steps, vocab_size), vocab_size)
    branch = home.with_name(f"{home.name}-{config.pretrain.steps}")
    known = branch / "found.json"
    this = {"config": of_config(config), "rows_sha256": rows.digest}
    if known.is_file() and this.items() <= (before := dict(read_json(known))).items():
        return branch / "model", before
    trained = train(config, rows, home)
    facts = rows.facts(config, trained)
    write_model(branch / "model", MODEL, config, trained, rows, facts)
    pairs, judge = minimal_pairs(held_out(params), set(rows.tokenizer.pieces())), seen if arm == "electra" else likelier
    found = {
        "seed": seed,
        **this,
        **{key: facts[key] for key in ("steps", "phases", "flops", "flops_matmul_convention")},
        **{key: facts[key] for key in ("parameters", "precision")},
        **sittings(branch),
        "pairs": {kind: round(100 * judge(trained.model, each, rows.tokenizer), 1) for kind, each in pairs.items()},
        "curve": trained.history,
    }
    write_json(known, found)
    return branch / "model", found


def held_out(params: Params) -> list[str]:
    """Sentences of 5 to 20 words from documents that no row is made of."""
    tokens, found = params.tokens[MODEL], list[str]()
    for shard in sorted((Path("build/corpus") / tokens.corpus).glob("documents-*.jsonl")):
        for text in (json.loads(line)["text"] for line in shard.read_text(encoding="utf-8").splitlines()):
            if split_of(text, tokens.seed, tokens.valid_fraction) == "valid":
                every = (each for paragraph in text.splitlines() for each in sentences(paragraph))
                found += [each for each in every if 5 <= len(each.split()) <= 20]
        if len(found) >= SENTENCES:
            break
    return found[:SENTENCES]


# ── fine-tuning ──


def finetuned(
    params: Params, folder: Path, arm: str, state: Path, seed: int, tasks: list[str]
) -> dict[str, list[float]]:
    """Of each task the scores of its fine-tunings, whose seeds are those of this pre-training alone; points on dev."""
    rows, kind = Path("build/tasks") / params.finetunings[MODEL].tasks, "scratch" if arm == "scratch" else "pretrained"
    configs = dict(configs_of(MODEL, params))
    squad = params.finetune.resolve_squad(params.changes(MODEL))
    plans = {**configs, **{SQUAD[version]: squad for version in squad.versions}}
    found: dict[str, list[float]] = {}
    for task in tasks:
        config = plans[task]
        own = tuple(10 * seed + each for each in config.seeds)
        one = dataclasses.replace(config, seeds=own, arms=(kind,), keep="none")  # type: ignore[arg-type]
        jobs = Plan(
            task, one, rows=rows / task, model=folder / "encoder", state=state, code=code_deps.finetuning()
        ).jobs()
        found[task] = [done["metrics"][jobs[0].task.metrics[0]] for done in run_all(jobs, 1)]
        print(f"{state.name} {task}:", *(f"{score:.1f}" for score in found[task]), flush=True)
    return found


def compared(scores: dict[str, list[dict[str, list[float]]]], means: dict[str, list[str]]) -> dict[str, Any]:
    """Task -> mean and deviation of each arm over pre-trainings, and what the 95 % interval says of each difference.

    A pre-training's score is the mean of its fine-tunings. `means` has a title and the tasks of each mean of tasks.
    """
    known = next(iter(scores.values()))[0]
    tasks = {**means, **{task: [task] for task in TASKS_HERE if task in known}}  # a record's keys are in no order
    found: dict[str, Any] = {}
    for name, of in tasks.items():
        arms = {
            arm: [statistics.fmean(statistics.fmean(run[task]) for task in of) for run in runs]
            for arm, runs in scores.items()
        }
        found[name] = {
            arm: {
                "scores": [round(value, 2) for value in values],
                "mean": round(statistics.fmean(values), 2),
                "std": None if (spread := sd(values)) is None else round(spread, 2),
            }
            for arm, values in arms.items()
        }
        for first, second in PAIRS:
            if pair := difference(arms.get(first, ()), arms.get(second, ())):
                found[name][f"{first} - {second}"] = {**dataclasses.asdict(pair), "reading": decided(pair)}
    return found


# ── the record ──


def lines(tasks: dict[str, Any]) -> list[str]:
    """The table of docs/real-text.md: a task, the arms' means ± deviations, and ELECTRA's two differences."""
    found = []
    for name, task in tasks.items():
        title = f"{TITLES[name]}, {TASKS[name].metrics[0]}" if name in TASKS else name
        spread = [f"{task[arm]['mean']:.1f} ± {task[arm]['std'] or 0:.1f}" for arm in ARMS if arm in task]
        against = [task[pair] for pair in ("electra - scratch", "electra - mlm") if pair in task]
        cells = [title, *spread, *(f"{signed(each['points'])}, {_short(each['reading'])}" for each in against)]
        found.append(f"| {' | '.join(cells)} |")
    return found


def _short(reading: str) -> str:
    """Of a difference that is too close to call, how many seeds an arm would tell, in brackets."""
    return reading.replace(", would need ", " (").replace(" seeds an arm", ")")


def longer(steps: int, record: dict[str, Any]) -> str:
    """A line of the page's table of lengths: ELECTRA's steps and minutes, then each arm's mean of six and STS-B."""
    minutes = " and ".join(f"{run['seconds'] / 60:.0f}" for run in record["pretraining"]["electra"])
    found = (record["tasks"][task][arm] for task in ("mean of 6", "stsb") for arm in ("electra", "mlm"))
    cells = [f"{steps:,}", minutes, *(f"{each['mean']:.1f} ± {each['std']:.1f}" for each in found)]
    return f"| {' | '.join(cells)} |"


def network_line(title: str, arm: str, record: dict[str, Any]) -> str:
    """A line of the note's table of networks: what each pre-training of an arm cost, and what they reached (means)."""
    runs = record["pretraining"][arm]
    ends = [run["curve"][-1] for run in runs]
    cost = f"{runs[0]['steps']:,}", ", ".join(f"{run['seconds'] / 60:.0f}" for run in runs)
    loss = f"{statistics.fmean(end['mlm_loss'] for end in ends):.2f}"
    found = f"{statistics.fmean(end['disc_auc'] for end in ends):.3f}" if "disc_auc" in ends[0] else "–"
    kinds = ("swapped", "dropped", "inflected")
    pairs = (f"{statistics.fmean(run['pairs'][kind] for run in runs):.1f}" for kind in kinds)
    return f"| {' | '.join([title, *cost, loss, found, *pairs])} |"


def task_line(title: str, arm: str, record: dict[str, Any]) -> str:
    """A line of the note's table of networks by task: an arm's mean of six, and each of the six."""
    found = record["tasks"]
    return f"| {' | '.join([title, *(_spread(found[task][arm]) for task in ('mean of 6', *SIX))])} |"


def _spread(found: dict[str, Any]) -> str:
    """A mean, and its deviation where there are several runs."""
    return f"{found['mean']:.1f}" + ("" if found["std"] is None else f" ± {found['std']:.1f}")


def draw(record: dict[str, Any]) -> "Figure":
    """Left: the held-out AUC of each discriminator over tokens; right: each task, mean and deviation by arm."""
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
            if not (found := record["tasks"][title].get(arm)):
                continue
            named = {"label": label} if place == 0 else {}
            y = place + 0.2 * (i - 1)
            right.errorbar(found["mean"], y, xerr=found["std"] or 0, fmt="o", color=colour, markersize=4.5, **named)
    right.set_yticks(range(len(titles)), [TITLES.get(name, name) for name in titles], color=INK)
    right.invert_yaxis()
    right.set_xlabel("points on dev, mean ± standard deviation of pre-trainings")
    right.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3)
    return figure


def rows_of(params: Params, tasks: list[str]) -> dict[str, str]:
    """A hash of each task's rows that are learnt from or scored."""
    files = read_manifest(Path("build/tasks") / params.finetunings[MODEL].tasks)["files"]
    used = {task: (f"{task}/train", f"{task}/dev") for task in tasks}
    return {
        task: digest(sorted((name, file["sha256"]) for name, file in files.items() if name.startswith(of)))
        for task, of in used.items()
    }


def record_to_extend(path: Path, params: Params, tasks: list[str]) -> dict[str, Any]:
    """The record that seeds are added to; BadInput where it is not of the same settings, tasks and rows.

    The tasks' rows are compared where the record has their hashes: older ones have none.
    """
    record: dict[str, Any] = read_json(path)
    model = params.models[MODEL].electra()
    runs, own = [run for of_arm in record["pretraining"].values() for run in of_arm], rows_of(params, tasks)
    for part, there, here in (
        ("settings", record["settings"], plain(model)),
        ("a recipe", record["recipe"], params.recipe(MODEL)),
        ("tasks", {*next(iter(record["finetunings"].values()))[0]}, {*tasks}),
        ("rows", {run["rows_sha256"] for run in runs}, {ModelRows(params, MODEL, model).digest}),
        ("task rows", record.get("task_rows", own), own),
    ):
        if there != here:
            raise BadInput(path, f"has {part} other than those of the comparison here", "the same", "leave out --add")
    return record


def main() -> int:
    """Everything; a stop leaves what is done, and the same command goes on."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, required=True, help="of ELECTRA; the other arm spends as many FLOPs")
    asked.add_argument("--seeds", type=int, default=3, help="pre-trainings of each arm")
    asked.add_argument("--add", action="store_true", help="keep the seeds of the record that is there, run the others")
    asked.add_argument("--network", default="", choices=NETWORKS, help="in place of mini_plus's, for as many FLOPs")
    asked.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS, help="those that are compared")
    asked.add_argument("--only", nargs="+", default=[], metavar="ARM-SEED", help="these, without a record")
    asked.add_argument("--tasks", nargs="+", default=TASKS_HERE, choices=TASKS_HERE, help="those that are compared")
    chosen = asked.parse_args()
    names = {f"{arm}-{seed}": (arm, seed) for seed in range(1, chosen.seeds + 1) for arm in chosen.arms}
    if unknown := set(chosen.only) - set(names):
        asked.error(f"--only has {', '.join(sorted(unknown))}; expected some of {', '.join(names) or 'none'}")
    path = OUT / "-".join(filter(None, ("real-text", str(chosen.steps), chosen.network)))
    if chosen.add and (chosen.only or not path.with_suffix(".json").is_file()):
        asked.error("--add goes with a record that is there, and without --only, which writes none")
    try:
        run_and_record(
            path, chosen, {name: run for name, run in names.items() if not chosen.only or name in chosen.only}
        )
    except UserError as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code
    return 0


def run_and_record(path: Path, chosen: argparse.Namespace, names: dict[str, tuple[str, int]]) -> None:
    """Run the arms and seeds that are not there, and write the record; see the head of this file."""
    params, folder = prepared(chosen.network), RUNS / chosen.network
    prepare(params)
    earlier = record_to_extend(path.with_suffix(".json"), params, chosen.tasks) if chosen.add else {}
    runs, scores = (
        {arm: [*of] for arm, of in earlier.get(part, {}).items()} for part in ("pretraining", "finetunings")
    )
    kept = {arm: len(of) for arm, of in scores.items()}
    if earlier and all(seed <= kept.get(arm, 0) for arm, seed in names.values()):
        raise BadInput(path.with_suffix(".json"), "has all these seeds", "further ones", "ask for more --seeds")
    tasks = Path("build/tasks") / params.finetunings[MODEL].tasks
    for name, (arm, seed) in names.items():
        if seed <= kept.get(arm, 0):
            continue
        if arm == "scratch":  # takes pieces and sizes alone
            model, state = any_electra(params, folder, chosen.steps), folder / "tasks" / name
        else:
            model, facts = pretrained(params, folder / name, arm, seed, chosen.steps)
            state = folder / "tasks" / model.parent.name
        scores.setdefault(arm, []).append(finetuned(params, model, arm, state, seed, chosen.tasks))
        if arm != "scratch" and not chosen.only:
            encoder, pieces = load_encoder(model / "encoder", dropout=0.0), tokenizers.load(model / "encoder")
            runs.setdefault(arm, []).append({**facts, "frozen": probe(encoder, pieces, tasks, MOST)})
    if not chosen.only:
        record(path, chosen, {"pretraining": runs, "finetunings": scores}, earlier)


def any_electra(params: Params, folder: Path, steps: int) -> Path:
    """A model of ELECTRA of this network: one that is there, or the first one."""
    model = params.models[MODEL].electra()
    this = {"encoder": plain(model.encoder), "rows_sha256": ModelRows(params, MODEL, model).digest}
    for found in sorted(folder.glob("electra-*-*/found.json")):
        known = read_json(found)
        if {"encoder": known["config"]["encoder"], "rows_sha256": known["rows_sha256"]} == this:
            return found.with_name("model")
    return pretrained(params, folder / "electra-1", "electra", 1, steps)[0]


def record(path: Path, chosen: argparse.Namespace, found: dict[str, Any], earlier: dict[str, Any]) -> None:
    """Compare what was found, and write it with its provenance, and that of the record that seeds were added to."""
    params = prepared(chosen.network)
    means = ([*SIX], params.recipe(MODEL)["run"])
    here = provenance(("torch", "scikit-learn", "scipy"))
    whole = {
        "command": shlex.join(["python", *sys.argv]),
        "settings": plain(params.models[MODEL].electra()),
        "recipe": params.recipe(MODEL),
        **found,
        "tasks": compared(found["finetunings"], {f"mean of {len(of)}": of for of in means if {*of} <= {*chosen.tasks}}),
        **here,
    }
    if not earlier or "task_rows" in earlier:
        whole["task_rows"] = rows_of(params, chosen.tasks)
    if earlier:  # where its seeds were run
        whole["added to"] = {key: earlier[key] for key in ("command", *here, "added to") if key in earlier}
    write_json(path.with_suffix(".json"), whole)
    with context():
        save(draw(whole), OUT, path.name)
    print(*lines(whole["tasks"]), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
