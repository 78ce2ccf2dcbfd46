"""ELECTRA, a masked language model of equal FLOPs and no pre-training on real text, for as long as there is time:

    python benchmarks/real_text.py --steps 4000

1. corpus, tasks and rows, by the stages themselves: those of `mini_plus`, but no text is cut off
2. ELECTRA and a masked language model are pre-trained with each seed, at a flat rate, for four fifths of the steps:
   runs/real-text/<arm>-<seed>
3. from there, in a folder of its own, the rate falls and rows grow longer: runs/real-text/<arm>-<seed>-<steps>
4. minimal pairs are told apart by the encoders as they are, and tasks are fine-tuned, from fresh weights, too
5. benchmarks/results/real-text-<steps>.json and .svg

Stopped or killed at any time, the same command goes on where it was. With more steps the flat part goes on from where
it ended, and what comes out is, to the byte, what a run of so many steps would have been from the start.
"""

import argparse
import dataclasses
import json
import shlex
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frozen_probe import probe
from benchmarks.modern import minimal_pairs, seen
from benchmarks.provenance import provenance
from electra.config import build, plain
from electra.data import tokenizer as tokenizers
from electra.data.text import sentences
from electra.errors import BadInput, Stopped
from electra.files import read_json, write_json
from electra.finetuning.runs.plan import Plan
from electra.finetuning.runs.pool import run_all
from electra.finetuning.runs.summary import sd
from electra.finetuning.tasks import GLUE, SQUAD
from electra.nn.config import EncoderConfig
from electra.nn.weights import load_encoder
from electra.pretraining.config import ElectraConfig, PretrainConfig, of_config
from electra.pretraining.flops import step_flops
from electra.pretraining.phases import phases_of
from electra.pretraining.trainer import Trained
from electra.storage import checkpoint
from pipelines.params import ModelConfig, Params, load
from pipelines.report.comparison import decided, difference
from pipelines.report.style import BLUE, GREY, INK, ORANGE, context, new_figure, save
from pipelines.stages.glue import configs_of
from pipelines.stages.pretrain import ModelRows, write_model
from pipelines.stages.tokens import make_rows, split_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE, MODEL = "mini_plus", "real_text"
RUNS, OUT = Path("runs/real-text"), Path("benchmarks/results")
DECAY = 0.2  # of the steps: rows of 128, whose positions fine-tuning needs; before it, rows of 32 at the whole rate
PRETRAIN: dict[str, Any] = {
    "phases": [{"length": 32, "share": 1 - DECAY}, {"length": 128, "share": DECAY, "batch": 16}],
    **{"batch": 64, "steps": 10_000, "warmup": 200, "learning_rate": 1e-3, "bias_correction": True, "beta2": 0.98},
    **{"schedule": "warmup_stable_decay", "decay_share": DECAY, "threads": 1, "precision": "fp32"},
    **{"log_every": 100, "eval_every": 500, "save_every": 500},
}
ARMS = {"electra": ("ELECTRA", BLUE), "mlm": ("masked language model", ORANGE), "scratch": ("from scratch", GREY)}
PAIRS = (("electra", "scratch"), ("mlm", "scratch"), ("electra", "mlm"))
MOST = {"cola": None, "sst2": 8000}  # training rows of the frozen probes
SENTENCES = 2000  # held out, of which minimal pairs are made
FOREVER = 10**7  # steps: of the flat run, which is never brought to its end


def prepared() -> Params:
    """params.yaml with the model of this comparison: mini_plus with other rows, first weights and schedule."""
    params = load()
    base = params.models[BASE]
    rows = params.tokens[base.tokens]
    rows = dataclasses.replace(rows, packing=dataclasses.replace(rows.packing, overflow="carry"))
    encoder = build(EncoderConfig, plain(base.encoder) | {"init": "neighbours"}, MODEL)
    model = ModelConfig(tokens=MODEL, encoder=encoder, pretrain=build(PretrainConfig, PRETRAIN, MODEL))
    return dataclasses.replace(params, tokens=params.tokens | {MODEL: rows}, models=params.models | {MODEL: model})


def prepare(params: Params) -> None:
    """Text, tasks and rows, where they are not there."""
    rows, tasks = params.tokens[MODEL], params.finetunings[BASE].tasks
    for stage, name in (("corpus", rows.corpus), ("tasks", tasks)):
        if not (Path("build") / stage / name).is_dir():
            subprocess.run([sys.executable, "-m", "pipelines", stage, name], check=True)
    if not (folder := Path("build/tokens") / MODEL).is_dir():
        make_rows(rows, f"tokens.{MODEL}", Path("build/corpus") / rows.corpus, folder, RUNS / "rows")


# ── pre-training ──


def settings(model: ElectraConfig, arm: str, seed: int, steps: int, vocab_size: int) -> ElectraConfig:
    """An arm's pre-training of as many FLOPs (matrix products) as `steps` of ELECTRA."""
    objective = model.objective
    if arm == "mlm":
        objective = dataclasses.replace(objective, name="mlm", mask_token_rate=0.85, random_token_rate=0.0)
    config = dataclasses.replace(model, objective=objective)
    steps = round(steps * step_flops(model, vocab_size, "matmul") / step_flops(config, vocab_size, "matmul"))
    return dataclasses.replace(config, pretrain=dataclasses.replace(config.pretrain, seed=seed, steps=steps))


def flat_steps(config: ElectraConfig) -> int:
    """The steps before the rate falls, and before the length of rows changes: those that a longer run has, too."""
    settings, steps = config.pretrain, config.pretrain.steps
    assert isinstance(steps, int) and settings.schedule == "warmup_stable_decay"
    return min(phases_of(settings, steps)[0].last, steps - max(1, round(steps * settings.decay_share)))


def train(config: ElectraConfig, rows: ModelRows, home: Path) -> Trained:
    """Pre-train to the end; the flat part, in `home`, is that of longer runs, too, and goes on where it ended."""
    steps, flat = config.pretrain.steps, flat_steps(config)
    branch, start = home.with_name(f"{home.name}-{steps}"), home / f"step-{flat}"
    owner = fingerprint(config, rows)
    if not checkpoint.steps(branch):
        if not start.is_dir():
            extend(config, rows, home, flat)
        write_json(notes(branch), sittings(home))
        _, groups, progress = checkpoint.load(start)
        checkpoint.save(branch, flat, groups, progress | {"fingerprint": owner}, keep=2)
    with Clock(branch):
        return rows.train(config, branch, log=_quiet, title=branch.name, owner=owner)


def extend(config: ElectraConfig, rows: ModelRows, home: Path, flat: int) -> None:
    """Let the flat run go on to a step, and leave a checkpoint there."""
    endless = dataclasses.replace(config.pretrain, steps=FOREVER, log_every=flat, keep=3)
    config = dataclasses.replace(config, pretrain=endless)
    if (there := max(checkpoint.steps(home), default=0)) > flat:
        raise BadInput(home, f"is at step {there:,}", f"at most {flat:,}", "ask for more steps")

    def enough(step: int, numbers: dict[str, float]) -> None:
        if step == flat:
            signal.raise_signal(signal.SIGTERM)  # the loop ends its step, saves it and leaves

    try:
        with Clock(home):
            rows.train(config, home, log=enough, title=home.name, owner=fingerprint(config, rows))
    except Stopped:
        if not (home / f"step-{flat}").is_dir():
            raise


def fingerprint(config: ElectraConfig, rows: ModelRows) -> dict[str, Any]:
    """Settings and rows. No code: sittings lie weeks apart, and the record names the commit of each."""
    return {"config": of_config(config), "train": rows.digest, "tokenizer": rows.tokenizer.identity}


class Clock:
    """Adds up a run's processor seconds over its sittings, and notes the commit of each."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def __enter__(self) -> None:
        self.started = time.process_time()

    def __exit__(self, *_: object) -> None:
        known, commit = sittings(self.run), provenance()["commit"]
        seconds = known["seconds"] + time.process_time() - self.started
        write_json(notes(self.run), {"seconds": round(seconds, 1), "commits": sorted({*known["commits"], commit})})


def notes(run: Path) -> Path:
    """Beside a run, what its sittings were."""
    return run.with_name(f"{run.name}.json")


def sittings(run: Path) -> dict[str, Any]:
    """Processor seconds and commits of a run so far, those of the flat run that it began with among them."""
    return dict(read_json(notes(run))) if notes(run).is_file() else {"seconds": 0.0, "commits": []}


def _quiet(step: int, numbers: dict[str, float]) -> None:
    """The bar says enough."""


def pretrained(params: Params, arm: str, seed: int, steps: int) -> tuple[Path, dict[str, Any]]:
    """The folders of one arm and seed; and what its pre-training was, cost and reached."""
    model = params.models[MODEL].electra()
    rows = ModelRows(params, MODEL, model)
    config, home = settings(model, arm, seed, steps, rows.tokenizer.vocab_size), RUNS / f"{arm}-{seed}"
    trained = train(config, rows, home)
    facts, branch = rows.facts(config, trained), home.with_name(f"{home.name}-{trained.steps}")
    write_model(branch / "model", MODEL, config, trained, rows, facts)
    pairs = minimal_pairs(held_out(params), set(rows.tokenizer.pieces())) if arm == "electra" else {}
    found = {
        "seed": seed,
        **{key: facts[key] for key in ("steps", "phases", "flops", "flops_matmul_convention", "rows_sha256")},
        **{key: facts[key] for key in ("parameters", "precision")},
        **sittings(branch),
        "pairs": {kind: round(100 * seen(trained.model, each, rows.tokenizer), 1) for kind, each in pairs.items()},
        "curve": trained.history,
    }
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


def finetuned(params: Params, folder: Path, arm: str, state: Path, seed: int) -> dict[str, float]:
    """Of each task the score of one fine-tuning, with the seed of the pre-training; points on dev."""
    rows, kind = Path("build/tasks") / params.finetunings[BASE].tasks, "scratch" if arm == "scratch" else "pretrained"
    configs = dict(configs_of(BASE, params))
    squad = params.finetune.resolve_squad(params.changes(BASE))
    plans = [*configs.items(), *((SQUAD[version], squad) for version in squad.versions)]
    found: dict[str, float] = {}
    for task, config in plans:
        one = dataclasses.replace(config, seeds=(seed,), arms=(kind,), keep="none")  # type: ignore[arg-type]
        (job,) = Plan(task, one, rows=rows / task, model=folder / "encoder", state=state).jobs()
        (done,) = run_all([job], 1)
        found[task] = done["metrics"][job.task.metrics[0]]
        print(f"{state.name} {task}: {found[task]:.1f}", flush=True)
    return found


def compared(scores: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Task -> mean and deviation of each arm over pre-trainings, and what the 95 % interval says of each difference."""
    tasks = list(scores["scratch"][0])
    by_task = {task: {arm: [run[task] for run in scores[arm]] for arm in scores} for task in tasks}
    glue = [task for task in tasks if task in GLUE]
    means = {
        arm: [statistics.fmean(each) for each in zip(*(by_task[task][arm] for task in glue), strict=True)]
        for arm in scores
    }
    found: dict[str, Any] = {}
    for name, arms in {f"mean of {len(glue)}": means, **by_task}.items():
        found[name] = {
            arm: {
                "scores": [round(value, 2) for value in values],
                "mean": round(statistics.fmean(values), 2),
                "std": None if (spread := sd(values)) is None else round(spread, 2),
            }
            for arm, values in arms.items()
        }
        for first, second in PAIRS:
            pair = difference(arms[first], arms[second])
            assert pair is not None
            found[name][f"{first} - {second}"] = {**dataclasses.asdict(pair), "reading": decided(pair)}
    return found


# ── the record ──


def draw(record: dict[str, Any]) -> "Figure":
    """Left: the held-out AUC of each discriminator over tokens; right: each task, mean and deviation by arm."""
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for run in record["pretraining"]["electra"]:
        points = [point for point in run["curve"] if "disc_auc" in point]
        label = {"label": "AUC"} if run is record["pretraining"]["electra"][0] else {}
        left.plot([p["tokens"] / 1e6 for p in points], [p["disc_auc"] for p in points], color=BLUE, **label)
    left.set_xlabel("million tokens read")
    left.set_title("Replaced tokens found, held-out text")
    titles = list(record["tasks"])
    for place, title in enumerate(titles):
        for i, (arm, (label, colour)) in enumerate(ARMS.items()):
            found = record["tasks"][title][arm]
            named = {"label": label} if place == 0 else {}
            y = place + 0.2 * (i - 1)
            right.errorbar(found["mean"], y, xerr=found["std"] or 0, fmt="o", color=colour, markersize=4.5, **named)
    right.set_yticks(range(len(titles)), titles, color=INK)
    right.invert_yaxis()
    right.set_xlabel("points on dev, mean ± standard deviation of pre-trainings")
    right.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3)
    return figure


def main() -> int:
    """Everything; a stop leaves what is done, and the same command goes on."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, required=True, help="of ELECTRA; the other arm spends as many FLOPs")
    asked.add_argument("--seeds", type=int, default=2, help="pre-trainings of each arm")
    asked.add_argument("--only", choices=("pretrain",), help="leave out what follows pre-training")
    chosen = asked.parse_args()
    params, seeds = prepared(), range(1, chosen.seeds + 1)
    runs, scores = dict[str, list[Any]](), dict[str, list[Any]]()
    prepare(params)
    try:
        trained = {(arm, k): pretrained(params, arm, k, chosen.steps) for k in seeds for arm in ("electra", "mlm")}
    except Stopped as stopped:
        sys.stderr.write(f"{stopped}\n")
        return stopped.exit_code
    if chosen.only:
        return 0
    tasks = Path("build/tasks") / params.finetunings[BASE].tasks
    for (arm, _), (folder, facts) in trained.items():
        frozen = probe(load_encoder(folder / "encoder", dropout=0.0), tokenizers.load(folder / "encoder"), tasks, MOST)
        runs.setdefault(arm, []).append({**facts, "frozen": frozen})
    for k in seeds:
        for arm in ARMS:
            folder = trained["electra" if arm == "scratch" else arm, k][0]
            state = RUNS / "tasks" / (f"scratch-{k}" if arm == "scratch" else folder.parent.name)
            scores.setdefault(arm, []).append(finetuned(params, folder, arm, state, k))
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "settings": plain(params.models[MODEL].electra()),
        "recipe": params.recipe(params.finetunings[BASE].recipe),
        "pretraining": runs,
        "tasks": compared(scores),
        **provenance(("torch", "scikit-learn", "scipy")),
    }
    write_json(OUT / f"real-text-{chosen.steps}.json", record)
    with context():
        save(draw(record), OUT, f"real-text-{chosen.steps}")
    for title, found in record["tasks"].items():
        print(title, {arm: (found[arm]["mean"], found[arm]["std"]) for arm in ARMS})
    return 0


if __name__ == "__main__":
    sys.exit(main())
