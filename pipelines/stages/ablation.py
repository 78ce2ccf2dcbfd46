"""One ablation: pre-train and fine-tune the arms of `ablations.A`, which differ only in their
named settings.

Arms spend equal FLOPs (authors' convention) unless the ablation says otherwise, see the same rows
and share seeds. They run side by side (one for each GPU, or one for each core with one thread). An
arm that fails is recorded as failed and stops no other.

An arm's folder is named after its settings and data, so ablations that share an arm share its
training. Once the arm is trained, the folder holds the encoders of its points (the end is 1) and
arm.json, and the checkpoints are deleted.

    runs/arm/<fingerprint>/run-50/    checkpoints, while it trains, every 50 steps
    runs/arm/<fingerprint>/point-1/   a Hugging Face folder
    runs/arm/<fingerprint>/tasks/     fine-tunings (pipelines/finetuning_runs/plan.py)
"""

import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from electra.card import model_card
from electra.config import digest, to_jsonable
from electra.data.tokenizer import read_files
from electra.devices import default_device, use_own_gpu
from electra.errors import BadConfig, NonFinite, UserError
from electra.files import atomic_folder, remove, write_atomic, write_json
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, verify_folder, write_folder
from electra.pretraining.config import ElectraConfig, Flops, fingerprinted_settings
from electra.pretraining.flops import step_flops, training_flops, training_steps
from electra.pretraining.phases import longest_row_read
from electra.pretraining.trainer import PretrainResult
from electra.storage import run_dir
from electra.storage.manifest import (
    read_checksummed,
    verify_manifest,
    write_checksummed,
    write_manifest,
)
from electra.storage.tensors import read_tensors, require_fit
from electra.workers import run_units, worker_count
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import Params, settings_digest
from pipelines.finetuning_runs.plan import plan_jobs, run_all
from pipelines.finetuning_runs.summary import sd
from pipelines.stages import BUILD, FINETUNING, PRETRAINING, RESULTS, STAGES, data_label, inputs
from pipelines.stages.pretrain import ModelRows, curve_csv
from pipelines.stages.progress_bar import ProgressBar
from pipelines.stages.summarize import arm_numbers
from pipelines.versioning.code import code_digest

Result = dict[str, Any]
Outcomes = dict[str, Result | str]  # by the arm's key; a sentence where it failed
END = 1.0
RERUN_ADVICE = "run the ablation again"


@dataclass(frozen=True)
class Arm:
    """One pre-training. `points` are fractions of the run at which encoders are kept, too."""

    name: str
    seed: int
    config: ElectraConfig
    tokens: str
    points: tuple[float, ...]

    @property
    def key(self) -> str:
        """A hash of the settings that affect the result."""
        return digest(
            fingerprinted_settings(self.config), self.config.pretrain.init_from, self.tokens
        )

    @property
    def run(self) -> str:
        """The name of the run's folder while it trains: another ablation may ask for checkpoints at
        other steps.
        """
        return f"run-{self.config.pretrain.save_every}"

    @property
    def title(self) -> str:
        """`electra-seed1`."""
        return f"{self.name}-seed{self.seed}"

    def step(self, point: float) -> int:
        """Return the step at which a point is taken: of those with a checkpoint the nearest."""
        steps = self.config.pretrain.steps
        assert isinstance(steps, int)
        if point == END:
            return steps
        every = self.config.pretrain.save_every
        return max(1, round(steps * point / every)) * every


@dataclass(frozen=True)
class Scoring:
    """The fine-tunings that follow the pre-training of every arm: tasks with their settings, the
    folder of their rows, and the fractions of the run at which they start.
    """

    tasks: dict[str, FinetuneConfig]
    rows: Path
    points: tuple[float, ...]


def run(name: str, params: Params, tracker: Any) -> None:
    """Run the stage."""
    ablation = params.ablations[name]
    base = ablation.base
    rows = ModelRows(params, base.tokens, params.models[base.model].electra())
    tracker.dataset(f"tokens/{base.tokens}", rows.digest, "pretrain")
    arms = plan_arms(name, params, rows.tokenizer.vocab_size)
    outcomes = run_arms(name, params, arms)
    finished = {key: result for key, result in outcomes.items() if isinstance(result, dict)}
    results: dict[str, Result] = {}
    for arm in ablation.settings:
        of_arm = [planned for planned in arms if planned.name == arm]
        by_seed = {
            planned.seed: finished[planned.key] for planned in of_arm if planned.key in finished
        }
        results[arm] = summarize_arm(ablation, of_arm, by_seed, outcomes)
        settings = {**to_jsonable(of_arm[0].config), "tokens": base.tokens, "seeds": list(by_seed)}
        del settings["pretrain"]["seed"]
        track(tracker, arm, by_seed, results[arm], settings)
    record = {
        "title": ablation.title,
        "model": base.model,
        "data": base.data,
        "budget": ablation.protocol.budget,
        "tasks": ablation.protocol.tasks,
        "seeds": ablation.protocol.seeds,
        "name": name,
        "data_label": data_label(f"ablation@{name}", params),
        "reference": ablation.compared,
        "train_rows": next(iter(finished.values()), {}).get("train_rows", {}),  # of every arm
        "rows_sha256": rows.digest,
        "provenance": {
            "settings_digest": settings_digest(name, params),
            "tokenizer_sha256": rows.tokenizer.identity,
            "code": STAGES["ablation"].digest,
        },
        "arms": results,
    }
    with atomic_folder(BUILD / "ablation" / name) as folder:
        for arm, result in results.items():
            write_atomic(folder / f"{arm}.csv", curve_csv(result.get("curve", [])))
        write_json(folder / RESULTS, record)
        write_manifest(folder, kind="ablation", name=name)


def plan_arms(name: str, params: Params, vocab_size: int) -> list[Arm]:
    """Return every arm with every seed. The FLOPs of the unchanged model are the budget of each
    arm.
    """
    ablation = params.ablations[name]
    protocol = ablation.protocol
    base = params.models[ablation.base.model].electra()
    if protocol.steps is not None:
        base = with_steps(base, protocol.steps, vocab_size)
    # Saved by every arm of the model, so that an ablation with points finds them in the arms of
    # another.
    all_points: set[float] = set()
    for other in params.ablations.values():
        if other.base.model == ablation.base.model:
            all_points.update(other.protocol.points)
    points = tuple(sorted(all_points))
    arms = []
    for arm in ablation.settings:
        config = params.arm(name, arm).electra()
        steps = config.pretrain.steps
        if protocol.budget == "equal_steps":
            steps = training_steps(base, vocab_size)
        elif protocol.budget == "equal_flops":
            steps = Flops(flops=training_flops(base, vocab_size))
        config = with_checkpoints(with_steps(config, steps, vocab_size), points)
        for seed in range(1, protocol.seeds + 1):
            seeded = replace(config, pretrain=replace(config.pretrain, seed=seed, threads=1))
            arms.append(Arm(arm, seed, seeded, ablation.base.tokens, points))
    return arms


def with_steps(config: ElectraConfig, steps: int | Flops, vocab_size: int) -> ElectraConfig:
    """Return the same training cut to another length: warm-up keeps its share, evaluations and
    saves their number.
    """
    old = config.pretrain
    if isinstance(steps, Flops):
        steps = max(1, round(steps.flops / step_flops(config, vocab_size)))
    share = steps / training_steps(config, vocab_size)

    def scaled(value: int) -> int:
        return max(1, round(value * share))

    total = sum(phase.weight for phase in old.phases)
    phases = [replace(phase, steps=None, share=phase.weight / total) for phase in old.phases]
    pretrain = replace(
        old,
        steps=steps,
        phases=tuple(phases),
        warmup=min(config.stage_steps(steps), round(old.warmup * share)),
        log_every=scaled(old.log_every),
        eval_every=scaled(old.eval_every),
        save_every=scaled(old.save_every),
        # curves that are drawn together have points at the same steps
        min_eval_interval_minutes=0.0,
    )
    return replace(config, pretrain=pretrain)


def with_checkpoints(config: ElectraConfig, points: Sequence[float]) -> ElectraConfig:
    """Return the same training with checkpoints at (the nearest step to) every point, all of them
    kept.
    """
    steps = config.pretrain.steps
    if not points or not isinstance(steps, int):
        return config
    every = max(1, round(steps * min(points)))
    kept = math.ceil(steps / every) + 1
    pretrain = replace(config.pretrain, save_every=every, keep_checkpoints=kept)
    return replace(config, pretrain=pretrain)


def plan_scoring(name: str, params: Params) -> Scoring:
    """Return the tasks of an ablation with their settings: the model's, changed by the ablation's.
    Settings for several runs of a task get their defaults.
    """
    ablation = params.ablations[name]
    recipe = params.ablation_recipe(name)
    off: dict[str, Any] = {
        "predict_test": False,
        "init_from_task": None,
        "keep_models": "none",
        "arms": ("pretrained",),
    }
    tasks = {task: replace(recipe.resolve(task), **off) for task in ablation.protocol.tasks}
    rows = inputs.task_rows(ablation.base.data)
    return Scoring(tasks, rows, (*ablation.protocol.points, END))


def run_arms(name: str, params: Params, arms: Sequence[Arm]) -> Outcomes:
    """Pre-train and fine-tune every arm, those with the same settings once, one seed after the
    other.
    """
    by_key = {arm.key: arm for arm in sorted(arms, key=lambda arm: arm.seed)}
    unique = list(by_key.values())
    outcomes: Outcomes = {}
    scoring = plan_scoring(name, params)
    work = [(arm, scoring, params) for arm in unique]
    # one arm for each GPU, or one for each core
    workers = torch.cuda.device_count() if torch.cuda.is_available() else worker_count()
    with ProgressBar(f"ablation {name}", len(unique), "arms") as progress:
        progress.update(0)
        preload = ("pipelines.finetuning_runs.plan",)
        for index, outcome in run_units(run_arm_safely, work, workers, preload=preload):
            arm = unique[index]
            outcomes[arm.key] = outcome
            ended = f"{arm.title} {'failed' if isinstance(outcome, str) else 'done'}"
            progress.update(len(outcomes), last=ended)
    return outcomes


def run_arm_safely(unit: tuple[Arm, Scoring, Params]) -> Result | str:
    """Run one arm. Its own failures (bad settings, NaN, out of memory) are returned as a sentence.

    Interruptions, damaged or missing files and a full disk end the stage.
    """
    started = time.time()
    try:
        use_own_gpu()
        return run_arm(*unit) | {"started": started, "ended": time.time()}
    except (BadConfig, NonFinite) as error:
        return str(error)
    except (UserError, OSError):
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run_arm(arm: Arm, scoring: Scoring, params: Params) -> Result:
    """Train and fine-tune an arm as far as it is unfinished, and return its scores by point and
    task, from 0 to 100.
    """
    rows = ModelRows(params, arm.tokens, arm.config)
    scores: dict[str, dict[str, float]] = {}
    faults = []
    train_rows = {}
    home = run_dir.run_path("arm", rows.fingerprint(arm.config))
    with run_dir.RunFolder(home, patience=math.inf) as folder:
        record = train(arm, rows, folder)
        for task, config in scoring.tasks.items():
            for point in scoring.points:
                (job,) = plan_jobs(
                    task,
                    replace(config, seeds=(arm.seed,)),
                    rows=scoring.rows / task,
                    model=folder.path / f"point-{point:g}",
                    runs=folder.path / "tasks" / f"{point:g}",
                    device=default_device().type,
                    code=code_digest(FINETUNING),
                )
                (result,) = run_all([job], 1)
                score = result["metrics"][job.task.metrics[0]]
                scores.setdefault(f"{point:g}", {})[task] = score
                train_rows[task] = result["train_rows"]
                # before the end it need not have learnt anything
                if result["failed"] and point == END:
                    faults.append(f"{task}, seed {arm.seed}: {result['failed']}")
    return {**record, "scores": scores, "faults": faults, "train_rows": train_rows}


def train(arm: Arm, rows: ModelRows, folder: run_dir.RunFolder) -> Result:
    """Pre-train an arm and keep its encoders, or read them if they exist. Runs that other code has
    finished are archived.
    """
    home = folder.path
    if record := read_finished(arm, home):
        return record
    if (home / "arm.json").exists():
        print(
            f"{arm.title}: finished by other code, or damaged, so it is trained again; "
            f"the old run is {folder.archive()}",
            file=sys.stderr,
            flush=True,
        )
    run_dir.name_run(home, arm.title, rows.fingerprint(arm.config))
    trained = rows.train(arm.config, home / arm.run, arm.title)
    for point in (END, *arm.points):
        export(arm, home, trained, rows, point)
    facts = rows.facts(arm.config, trained)
    record = {
        **{key: facts[key] for key in ("steps", "flops", "parameters", "inference_flops")},
        "code": trained.code,
        "history": trained.history,
        "points": {f"{point:g}": arm.step(point) for point in (*arm.points, END)},
    }
    write_checksummed(home / "arm.json", record)
    for run in home.glob("run-*"):
        remove(run)
    return read_checksummed(home / "arm.json")  # in the file's order, as a second start finds it


def read_finished(arm: Arm, home: Path) -> Result | None:
    """Return the record of an arm that is trained by this code, with every point that it should
    have, or None.
    """
    try:
        record = read_checksummed(home / "arm.json")
        if record["code"][-1][1] != code_digest(PRETRAINING):
            return None
        for point in (*arm.points, END):
            verify_folder(home / f"point-{point:g}", model=arm.key, part=f"point-{point:g}")
    except UserError as error:
        if (home / "arm.json").exists():
            print(f"warning: {error}; the arm is trained again", file=sys.stderr, flush=True)
        return None
    return record


@torch.no_grad()
def export(arm: Arm, home: Path, trained: PretrainResult, rows: ModelRows, point: float) -> None:
    """Write the encoder of one point. For one before the end, its checkpoint is loaded into the
    trained network.
    """
    step = arm.step(point)
    if point != END:
        folder = home / arm.run / f"step-{step}"
        verify_manifest(folder)
        tensors = read_tensors(folder / "model.safetensors", RERUN_ADVICE)
        weights = {name: weight.data for name, weight in trained.model.named_parameters()}
        require_fit(weights, tensors, folder, RERUN_ADVICE)
        for name, weight in weights.items():
            weight.copy_(tensors[name])
    part = f"point-{point:g}"
    trained_positions = longest_row_read(arm.config.pretrain, step, trained.steps)
    config = config_json(
        arm.config.encoder,
        rows.tokenizer.vocab_size,
        "ElectraModel",
        pad_token_id=rows.tokenizer.pad_id,
        trained_positions=trained_positions,
    )
    facts = {"data": rows.label, "recipe": to_jsonable(arm.config), "step": step}
    card = model_card(f"{arm.title}: encoder", "embed", facts)
    tensors = encoder_tensors(trained.model.discriminator.encoder, "")
    files = read_files(rows.folder, trained_positions)
    write_folder(home / part, tensors, config, files, card, model=arm.key, part=part)


def summarize_arm(
    ablation: AblationConfig,
    arms: Sequence[Arm],
    by_seed: dict[int, Result],
    outcomes: Outcomes,
) -> Result:
    """Return the record of one arm over its seeds. Seeds that failed are named and left out."""
    name = arms[0].name
    failed = [f"seed {arm.seed}: {outcomes[arm.key]}" for arm in arms if arm.seed not in by_seed]
    for result in by_seed.values():
        failed += result["faults"]
    record: Result = {
        "label": ablation.label(name),
        "settings": ablation.settings[name],
        "failed": failed,
        "values": list(ablation.values(name)),
    }
    if not by_seed:
        return {**record, "status": f"failed: {outcomes[arms[0].key]}"}
    results = list(by_seed.values())
    first = results[0]
    points = []
    for point in (*ablation.protocol.points, END):
        scored = [result["scores"].get(f"{point:g}") for result in results]  # none without tasks
        scores = [statistics.fmean(by_task.values()) for by_task in scored if by_task]
        step = first["points"][f"{point:g}"]
        flops = step * first["flops"] / first["steps"]
        points.append({"fraction": point, "step": step, "flops": flops, "scores": scores})
    glue = {
        task: [result["scores"]["1"][task] for result in results]
        for task in ablation.protocol.tasks
    }
    ends = points[-1]["scores"]
    average = {"scores": ends, "mean": statistics.fmean(ends), "std": sd(ends)} if ends else None
    return {
        **record,
        **{key: first[key] for key in ("steps", "flops", "inference_flops", "parameters")},
        "status": "ok",
        "seeds": list(by_seed),
        "pretrain": first["history"][-1],
        "curve": first["history"],
        "glue": glue,
        "points": points if ablation.protocol.points else [],
        "average": average,
    }


def track(
    tracker: Any, name: str, by_seed: dict[int, Result], record: Result, settings: dict[str, Any]
) -> None:
    """Record an arm as one child run: all of its settings, the curves of its seeds, its scores."""
    started = min((result["started"] for result in by_seed.values()), default=None)
    ended = max((result["ended"] for result in by_seed.values()), default=None)
    with tracker.child(name, {"arm": name, **settings}, started, ended) as child:
        for seed, result in by_seed.items():
            for point in result["history"]:
                curve = {
                    f"valid/{key}/seed{seed}": value
                    for key, value in point.items()
                    if key != "step"
                }
                child.metrics(point["step"], curve)
        if record.get("average"):
            child.summary(arm_numbers(record))
        child.tags({"status": record["status"]})
