"""One ablation: the arms of `ablations.A`, each pre-trained and fine-tuned alike but for its named
settings.

Arms spend equal FLOPs (authors' convention) unless the ablation says otherwise, see the same rows
and share seeds. They run side by side (one for each GPU, or one for each core with one thread), and
an arm that fails is recorded as failed and stops no other. What an arm leaves
(pipelines/stages/arms.py) is found by its settings: a second start, or another ablation with the
same arm, reads it back.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.config import merge, plain
from electra.files import atomic_folder, write_atomic, write_json
from electra.finetuning.tasks import SQUAD, FinetuneConfig
from electra.pretraining.config import ElectraConfig, Flops
from electra.pretraining.flops import step_flops, training_flops, training_steps
from electra.storage.manifest import write_manifest
from electra.workers import run_units, worker_count
from pipelines.config.ablation_config import AblationConfig
from pipelines.config.params import Params, settings_digest
from pipelines.finetuning_runs.summary import sd
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages import RESULTS, STAGES, data_label, verified_inputs
from pipelines.stages.arms import END, Arm, ArmTask, Result, keeping, slots, try_one
from pipelines.stages.pretrain import ModelRows, curve_csv
from pipelines.stages.summarize import arm_numbers

Outcomes = dict[str, Result | str]  # by the arm's key; a sentence where it failed


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage."""
    ablation = params.ablations[name]
    rows = ModelRows(params, ablation.tokens, params.models[ablation.model].electra())
    tracker.dataset(f"tokens/{ablation.tokens}", rows.digest, "pretrain")
    arms = plan_arms(name, params, rows.tokenizer.vocab_size)
    outcomes = do_all(name, params, arms)
    results: dict[str, Result] = {}
    for arm in ablation.settings:
        runs = [each for each in arms if each.name == arm]
        results[arm] = summarise(ablation, runs, outcomes)
        track(tracker, runs, outcomes, results[arm], plain(params.arm(name, arm)))
    record = {
        **{
            key: getattr(ablation, key)
            for key in ("title", "model", "data", "budget", "tasks", "seeds")
        },
        "name": name,
        "data_label": data_label(f"ablation@{name}", params),
        "reference": ablation.compared,
        "train_rows": next(
            (of["train_rows"] for of in outcomes.values() if not isinstance(of, str)), {}
        ),
        "rows_sha256": rows.digest,
        "provenance": {
            "settings_digest": settings_digest(name, params),
            "tokenizer_sha256": rows.tokenizer.identity,
            "code": STAGES["ablation"].digest,
        },
        "arms": results,
    }
    with atomic_folder(Path("build/ablation") / name) as folder:
        for arm, result in results.items():
            write_atomic(folder / f"{arm}.csv", curve_csv(result.get("curve", [])))
        write_json(folder / RESULTS, record)
        write_manifest(folder, kind="ablation", name=name)


def plan_arms(name: str, params: Params, vocab_size: int) -> list[Arm]:
    """Every arm with every seed; what the unchanged model spends is everyone's budget."""
    ablation = params.ablations[name]
    base = params.models[ablation.model].electra()
    if ablation.steps is not None:
        base = with_steps(base, ablation.steps, vocab_size)
    # Saved by every arm of the model, so that an ablation with points finds them in the arms of
    # another.
    others = (other for other in params.ablations.values() if other.model == ablation.model)
    points = tuple(sorted({point for other in others for point in other.points}))
    arms = []
    for arm in ablation.settings:
        config = params.arm(name, arm).electra()
        if ablation.budget == "equal_steps":
            config = with_steps(config, training_steps(base, vocab_size), vocab_size)
        elif ablation.budget == "equal_flops":
            steps = round(training_flops(base, vocab_size) / step_flops(config, vocab_size))
            config = with_steps(config, max(1, steps), vocab_size)
        else:
            config = with_steps(config, training_steps(config, vocab_size), vocab_size)
        for seed in range(1, ablation.seeds + 1):
            mine = keeping(
                replace(config, pretrain=replace(config.pretrain, seed=seed, threads=1)), points
            )
            arms.append(Arm(arm, seed, mine, ablation.tokens, points))
    return arms


def with_steps(config: ElectraConfig, steps: int | Flops, vocab_size: int) -> ElectraConfig:
    """The same training cut to another length: warm-up keeps its share, evaluations and saves their
    number.
    """
    old = config.pretrain
    count = (
        steps
        if isinstance(steps, int)
        else max(1, round(steps.flops / step_flops(config, vocab_size)))
    )
    share = count / training_steps(config, vocab_size)

    def scaled(value: int) -> int:
        return max(1, round(value * share))

    whole = sum(phase.weight for phase in old.phases)
    phases = [replace(phase, steps=None, share=phase.weight / whole) for phase in old.phases]
    changes: dict[str, Any] = {
        key: scaled(getattr(old, key)) for key in ("log_every", "eval_every", "save_every")
    }
    # curves that are drawn together have points at the same steps
    changes |= {"min_eval_interval_minutes": 0.0}
    warmup = min(config.stage_steps(count), scaled(old.warmup))
    return replace(
        config, pretrain=replace(old, steps=count, phases=tuple(phases), warmup=warmup, **changes)
    )


def plan_tasks(name: str, params: Params) -> tuple[ArmTask, ...]:
    """The tasks of an ablation with their settings: the model's, changed by the ablation's."""
    ablation = params.ablations[name]
    changes = merge(params.recipe(ablation.recipe), ablation.finetune)
    rows = verified_inputs.task_rows(ablation.data)
    tasks = []
    for task in ablation.tasks:
        where = f"ablations.{name}.finetune"
        config: FinetuneConfig
        if task in SQUAD.values():
            config = params.finetune.resolve_squad(changes, where)
        else:
            config = params.finetune.resolve(task, changes, where, params.own_tasks(ablation.data))
        tasks.append(ArmTask(task, config, rows / task, (*ablation.points, END)))
    return tuple(tasks)


def do_all(name: str, params: Params, arms: Sequence[Arm]) -> Outcomes:
    """Pre-train and fine-tune every arm, those with the same settings once, one seed after the
    other.
    """
    units = {arm.key: arm for arm in sorted(arms, key=lambda arm: arm.seed)}
    tasks, outcomes = plan_tasks(name, params), dict[str, Result | str]()
    state = Path("runs") / f"ablation-{name}" / "progress.json"
    ordered = list(units.values())

    def note() -> None:
        """What is done so far, for whoever watches (the Prefect flow makes a table of it)."""
        rows = []
        for arm in arms:
            outcome = outcomes.get(arm.key)
            score = (
                None if outcome is None or isinstance(outcome, str) else average(outcome["scores"])
            )
            status = "waiting or running" if outcome is None else "done"
            status = f"failed: {outcome}" if isinstance(outcome, str) else status
            label = params.ablations[name].label(arm.name)
            rows.append({"arm": label, "seed": arm.seed, "status": status, "score": score})
        write_json(state, rows)

    with ProgressBar(f"ablation {name}", len(ordered), "arms") as progress:
        progress.update(0)
        note()
        work = [(arm, tasks, params) for arm in ordered]
        preload = ("pipelines.finetuning_runs.plan",)
        for index, outcome in run_units(try_one, work, slots(worker_count()), preload=preload):
            outcomes[ordered[index].key] = outcome
            note()
            last = (
                "failed" if isinstance(outcome, str) else f"{average(outcome['scores']) or 0:.1f}"
            )
            progress.update(len(outcomes), last=f"{ordered[index].title} {last}")
    return outcomes


def average(scores: dict[str, dict[str, float]], point: float = END) -> float | None:
    """The mean over the tasks at a point of the run."""
    by_task = scores.get(f"{point:g}")
    return statistics.fmean(by_task.values()) if by_task else None


def summarise(ablation: AblationConfig, arms: Sequence[Arm], outcomes: Outcomes) -> Result:
    """The record of one arm over its seeds; seeds that failed are named and left out."""
    name = arms[0].name
    all_seeds = [(arm, outcomes[arm.key]) for arm in arms]
    broken = [
        f"seed {arm.seed}: {outcome}" for arm, outcome in all_seeds if isinstance(outcome, str)
    ]
    good = [(arm, outcome) for arm, outcome in all_seeds if not isinstance(outcome, str)]
    faults = [fault for _, outcome in good for fault in outcome["faults"]]
    record: Result = {
        "label": ablation.label(name),
        "settings": ablation.settings[name],
        "failed": broken + faults,
    }
    record["values"] = list(ablation.values(name))
    if not good:
        return {**record, "status": f"failed: {outcomes[arms[0].key]}"}
    first = good[0][1]
    glue = {task: [outcome["scores"]["1"][task] for _, outcome in good] for task in ablation.tasks}
    points = []
    for point in (*ablation.points, END):
        scores = [
            mean for _, outcome in good if (mean := average(outcome["scores"], point)) is not None
        ]
        step = first["points"][f"{point:g}"]
        flops = step * first["flops"] / first["steps"]
        points.append({"fraction": point, "step": step, "flops": flops, "scores": scores})
    return {
        **record,
        **{key: first[key] for key in ("steps", "flops", "inference_flops", "parameters")},
        "status": "ok",
        "seeds": [arm.seed for arm, _ in good],
        "pretrain": first["history"][-1],
        "curve": first["history"],
        "glue": glue,
        "points": points if ablation.points else [],
        "average": spread(points[-1]["scores"]),
    }


def spread(scores: list[float]) -> Result | None:
    """Mean and standard deviation over seeds, unrounded; the latter is null from one seed."""
    return (
        {"scores": scores, "mean": statistics.fmean(scores), "std": sd(scores)} if scores else None
    )


def track(
    tracker: Any, arms: Sequence[Arm], outcomes: Outcomes, result: Result, settings: dict[str, Any]
) -> None:
    """Record an arm as one child run: all of its settings, the curves of its seeds, its scores."""
    good: dict[int, Result] = {}
    for arm in arms:
        outcome = outcomes[arm.key]
        if not isinstance(outcome, str):
            good[arm.seed] = outcome
    started = min((outcome["started"] for outcome in good.values()), default=None)
    ended = max((outcome["ended"] for outcome in good.values()), default=None)
    name = arms[0].name
    with tracker.child(name, {"arm": name, **settings}, started, ended) as child:
        for seed, outcome in good.items():
            for record in outcome["history"]:
                curve = {
                    f"valid/{key}/seed{seed}": of for key, of in record.items() if key != "step"
                }
                child.metrics(record["step"], curve)
        if good:
            child.summary(arm_numbers(result))
        child.tags({"status": result["status"]})
