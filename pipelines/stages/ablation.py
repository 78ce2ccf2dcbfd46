"""One experiment: the arms of `ablations.A`, each pre-trained and fine-tuned alike but for its named settings.

Arms spend equal FLOPs (authors' convention) unless the experiment says `equal_steps`, see the same rows and share seeds.
They train side by side, one thread each; an arm that fails is recorded as failed and does not stop the others.
Every arm resumes on its own from runs/ablation-A/<arm>-seed<k>.
"""

import dataclasses
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from electra.config import ElectraConfig, Flops
from electra.errors import Stopped, UserError
from electra.files import atomic_folder, write_json, write_jsonl, write_manifest
from electra.finetuning.job import Job
from electra.finetuning.jobs import plan
from electra.finetuning.pool import run_all
from electra.finetuning.tasks import GLUE
from electra.flops import step_flops
from electra.progress import Progress
from electra.workers import run_units
from pipelines.params import AblationConfig, Params
from pipelines.stages.pretrain import ModelRows, write_model

Result = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """One pre-training of one arm."""

    name: str
    seed: int
    config: ElectraConfig
    tokens: str
    run: Path

    @property
    def title(self) -> str:
        """`electra-seed1`."""
        return f"{self.name}-seed{self.seed}"


def run(name: str, params: Params, tracker: Any) -> None:
    """The stage."""
    ablation, state = params.ablations[name], Path("runs") / f"ablation-{name}"
    arms = list(plan_arms(name, params, state))
    workers = 1 if torch.cuda.is_available() else params.models[ablation.model].pretrain.threads
    trained = train_all(arms, params, workers, f"ablation {name}")
    scores, faults = finetune_all(ablation, params, arms, trained, workers, state, f"ablation {name} tasks")

    rows = ModelRows(params, ablation.tokens, arms[0].config)
    results: dict[str, Result] = {}
    for arm in ablation.arms:
        mine = [one for one in arms if one.name == arm]
        results[arm] = summarise(ablation, arm, mine, trained, scores, faults)
        with tracker.child(arm, {"arm": arm, **ablation.arms[arm]}) as child:
            for record in results[arm].get("curve", []):
                child.metrics(record["step"], {f"valid/{key}": value for key, value in record.items() if key != "step"})
            child.summary(
                {f"{task}": statistics.fmean(values) for task, values in results[arm].get("glue", {}).items() if values}
            )
            child.summary({"average": results[arm]["average"]["mean"]} if results[arm].get("average") else {})
            child.tags({"status": results[arm]["status"]})
    with atomic_folder(Path("build/ablation") / name) as folder:
        for arm, result in results.items():
            write_jsonl(folder / f"{arm}.jsonl", result.get("curve", []))
        write_manifest(folder, kind="ablation")
    record = {
        "name": name,
        "title": ablation.title,
        "model": ablation.model,
        "data": ablation.data,
        "data_label": rows.label,
        "budget": ablation.budget,
        "tasks": list(ablation.tasks),
        "rows_sha256": rows.digest,
        "arms": results,
    }
    write_json(Path("results/ablations") / f"{name}.json", record)


def plan_arms(name: str, params: Params, state: Path) -> Iterator[Arm]:
    """Every arm with every seed; the first arm's FLOPs are the others' budget."""
    ablation = params.ablations[name]
    vocab_size = ModelRows(params, ablation.tokens, params.models[ablation.model].electra()).tokenizer.vocab_size
    budget: float | None = None
    for arm in ablation.arms:
        config = params.arm(name, arm).electra()
        if ablation.steps is not None:
            config = with_steps(config, ablation.steps, vocab_size)
        each = step_flops(config, vocab_size)
        if budget is None:
            budget = (
                config.pretrain.steps * each if isinstance(config.pretrain.steps, int) else config.pretrain.steps.flops
            )
        elif ablation.budget == "equal_flops":
            config = with_steps(config, max(1, round(budget / each)), vocab_size)
        for seed in range(1, ablation.seeds + 1):
            pretrain = dataclasses.replace(config.pretrain, seed=seed, threads=1)
            yield Arm(
                arm, seed, dataclasses.replace(config, pretrain=pretrain), ablation.tokens, state / f"{arm}-seed{seed}"
            )


def with_steps(config: ElectraConfig, steps: int | Flops, vocab_size: int) -> ElectraConfig:
    """The same training cut to another length: warm-up keeps its share, evaluations and saves their number."""
    old = config.pretrain
    count = steps if isinstance(steps, int) else max(1, round(steps.flops / step_flops(config, vocab_size)))
    before = (
        old.steps if isinstance(old.steps, int) else max(1, round(old.steps.flops / step_flops(config, vocab_size)))
    )
    share = count / before

    def scaled(value: int) -> int:
        return max(1, round(value * share))

    pretrain = dataclasses.replace(
        old,
        steps=count,
        warmup=min(count, scaled(old.warmup)),
        log_every=scaled(old.log_every),
        eval_every=scaled(old.eval_every),
        save_every=scaled(old.save_every),
    )
    return dataclasses.replace(config, pretrain=pretrain)


def train_all(arms: list[Arm], params: Params, workers: int, title: str) -> dict[str, Result | str]:
    """Pre-train every arm; its history and size, or the sentence with which it failed."""
    results: dict[str, Result | str] = {}
    with Progress(title, len(arms), "arms") as progress:
        progress.update(0)
        for index, result in run_units(try_one, [(arm, params) for arm in arms], workers):
            results[arms[index].title] = result
            progress.update(len(results))
    return results


def try_one(unit: tuple[Arm, Params]) -> Result | str:
    """Pre-train one arm; a failure that concerns this arm alone becomes a sentence."""
    try:
        return train_one(*unit)
    except Stopped:
        raise
    except UserError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def train_one(arm: Arm, params: Params) -> Result:
    """Pre-train one arm here and export it; a finished arm is only read back."""
    rows = ModelRows(params, arm.tokens, arm.config)
    trained = rows.train(arm.config, arm.run, log=lambda step, numbers: None, title=arm.title)
    facts = rows.facts(arm.config, trained)
    write_model(arm.run / "model", arm.title, arm.config, trained, rows, facts)
    return {
        "history": trained.history,
        "steps": trained.steps,
        "flops": facts["flops"],
        "parameters": facts["parameters"],
    }


def finetune_all(
    ablation: AblationConfig,
    params: Params,
    arms: list[Arm],
    trained: dict[str, Result | str],
    workers: int,
    state: Path,
    title: str,
) -> tuple[dict[str, dict[str, float]], dict[str, list[str]]]:
    """Fine-tune every trained arm on every task: scores by arm and task in points, and what failed by arm."""
    jobs: dict[str, tuple[Arm, Job]] = {}
    for arm in arms:
        if isinstance(trained[arm.title], str):
            continue
        for task in ablation.tasks:
            settings = params.finetune.resolve(
                task,
                merged(params.models[ablation.model].finetune, ablation.finetune),
                f"ablations.{ablation.title}.finetune",
            )
            settings = dataclasses.replace(settings, seeds=(arm.seed,), arms=("pretrained",))
            rows = Path("build/tasks") / ablation.data / task
            settings = dataclasses.replace(settings, test=False, start=None, keep="none")  # dev scores are all it needs
            for job in plan(
                task, settings, rows=rows, model=arm.run / "model" / "encoder", state=state / "tasks" / arm.title
            ):
                jobs[str(job.folder)] = (arm, job)
    scores: dict[str, dict[str, float]] = {}
    faults: dict[str, list[str]] = {}
    with Progress(title, len(jobs), "runs") as progress:
        done = 0

        def count(job: Job, record: Result) -> None:
            nonlocal done
            done += 1
            progress.update(done)
            arm, _ = jobs[str(job.folder)]
            scores.setdefault(arm.title, {})[job.task] = record["metrics"][GLUE[job.task].metrics[0]]
            if record["failed"]:
                faults.setdefault(arm.name, []).append(f"{job.task}, seed {job.seed}: {record['failed']}")

        run_all([job for _, job in jobs.values()], workers, count)
    return scores, faults


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two layers of fine-tuning overrides, the second winning key by key."""
    result = dict(first)
    for key, value in second.items():
        result[key] = (
            merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
        )
    return result


def summarise(
    ablation: AblationConfig,
    name: str,
    arms: list[Arm],
    trained: dict[str, Result | str],
    scores: dict[str, dict[str, float]],
    faults: dict[str, list[str]],
) -> Result:
    """The record of one arm over its seeds."""
    found: Result = {"label": ablation.label(name), "settings": ablation.arms[name], "failed": faults.get(name, [])}
    outcomes = [trained[arm.title] for arm in arms]
    if broken := [outcome for outcome in outcomes if isinstance(outcome, str)]:
        return {**found, "status": f"failed: {broken[0]}"}
    first = outcomes[0]
    assert isinstance(first, dict)
    glue = {task: [scores[arm.title][task] for arm in arms] for task in ablation.tasks}
    means = [statistics.fmean(scores[arm.title].values()) for arm in arms if scores.get(arm.title)]
    average = (
        {"scores": means, "mean": statistics.fmean(means), "std": statistics.stdev(means) if len(means) > 1 else 0.0}
        if means
        else None
    )
    return {
        **found,
        "status": "ok",
        "steps": first["steps"],
        "flops": first["flops"],
        "parameters": first["parameters"],
        "pretrain": first["history"][-1],
        "curve": first["history"],
        "glue": glue,
        "average": average,
    }
