"""The pre-training loop: rate, batch, forward, backward, clip, finite check, step, log, evaluate,
save.

A step is a function of (weights, optimizer state, step number), since everything random is derived
from the step. So a run that was killed and resumed ends with the same bytes as one that was not, on
the same machine and thread count.
"""

import contextlib
import itertools
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electra.config import to_jsonable
from electra.devices import default_device, deterministic_gpu
from electra.errors import BadInput, NonFinite, Stopped
from electra.nn.huggingface import load_networks
from electra.optim.adamw import set_learning_rate
from electra.optim.precision import Precision, choose
from electra.pretraining.compiling import compile_parts, missing_for_compile
from electra.pretraining.config import ElectraConfig, PretrainConfig
from electra.pretraining.dataloader import BatchLoader, PretrainData, slice_batch
from electra.pretraining.distributed import World, join
from electra.pretraining.evaluation import PLATEAU, add_sums, evaluate, metrics, read_sums, weakness
from electra.pretraining.flops import phase_flops, training_steps
from electra.pretraining.model import Batch, Pretraining, pretraining_optimizer
from electra.pretraining.phases import Phase, learning_rate_at, make_phases, phase_at, stage_at
from electra.pretraining.state import State
from electra.pretraining.step import CudaGraphs, Step, can_use_two_threads, keep_freed_memory
from electra.progress import Bar
from electra.seeds import derive
from electra.stopping import StopRequest
from electra.storage import checkpoint, run_dir
from electra.storage.fingerprint import Code, Fingerprint


@dataclass(frozen=True)
class PretrainResult:
    """The outcome of a run at the last step of this process.

    `continued`: where settings changed (step, spent so far, keys' old and new); `code`: the
    versions of the code that it used, with the step from which each was used.
    """

    model: Pretraining
    history: list[dict[str, Any]]
    steps: int
    precision: str
    continued: list[dict[str, Any]]
    code: run_dir.Versions


@dataclass(frozen=True, kw_only=True)
class StepDone:
    """The progress of this process after a step, to be shown."""

    title: str
    settings: PretrainConfig
    world: World
    precision: Precision
    captured: bool  # in CUDA graphs, or about to be
    phases: tuple[Phase, ...]
    phase: Phase
    phase_start: int  # steps done when this process started the phase
    done: int


Log = Callable[[int, dict[str, float]], None]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options by which a run is started and shown. No number depends on them."""

    title: str = "pretrain"
    device: torch.device | None = None
    origin: Path | None = None  # the folder of a run to continue (storage/run_dir.py)
    code: Code = ""  # recorded as this run's code
    bar: type[Bar] = Bar
    on_step: Callable[[StepDone], None] = lambda step: None  # called in the main process
    # a step to end at and save, so that another process continues from there
    stop_at: int | None = None


def pretrain(
    config: ElectraConfig,
    data: PretrainData,
    run: Path,
    fingerprint: Fingerprint,
    *,
    log: Log,
    options: RunOptions = RunOptions(),
) -> PretrainResult:
    """Train in the folder `run`, or resume there, to the last step.

    `log` gets (step, numbers). Raises Stopped after a signal, once all is saved, and NonFinite for
    a step that is not finite. Called by every process of several; only the main one touches `run`
    and logs.
    """
    settings = config.pretrain
    device = options.device or default_device()
    steps = training_steps(config, data.vocab_size)
    last_step = steps if options.stop_at is None else min(steps, options.stop_at)
    phases = make_phases(settings, steps)
    flops = {phase: phase_flops(config, phase, data.vocab_size) for phase in phases}  # of a step
    tokens: dict[Phase, float] = {}  # of a step, padding apart
    for phase in phases:
        rows = data.rows(phase.length, phase.batch)  # too few are refused here, not in mid-run
        tokens[phase] = phase.batch * rows.tokens / len(rows)

    with contextlib.ExitStack() as stack:
        world = stack.enter_context(join(device, options.title))
        stop = stack.enter_context(StopRequest())
        stack.enter_context(deterministic_gpu(settings.deterministic and device.type == "cuda"))
        folder = stack.enter_context(run_dir.RunFolder(run)) if world.main else None

        def notify(sentence: str) -> None:
            if world.main:
                print(f"{options.title}: {sentence}", file=sys.stderr, flush=True)

        # ── networks with their first weights, optimizer, slices of a batch ──

        if world.broadcast_object(fingerprint) != fingerprint:
            raise BadInput(
                f"{run}: process {world.rank} finds other settings, data or code here than the "
                "main process: share the project folder between the machines"
            )
        batches = {phase.batch for phase in phases}
        two_threads = can_use_two_threads(config, batches, world)
        threads = stack.enter_context(ThreadPoolExecutor(2)) if two_threads else None
        if device.type == "cpu":
            keep_freed_memory()
        at_once = 2 if two_threads else 1
        torch.set_num_threads(settings.threads // at_once)
        slice_count, own_slices = world.slices(batches, settings.accumulate, at_once)

        torch.manual_seed(derive(settings.seed, "init"))
        model = Pretraining(config, data.vocab_size, data.special, data.unigram_V)
        if settings.init_from:
            hashes = fingerprint.get("init_from")
            load_networks(model.networks(), Path(settings.init_from), model.extras(), hashes)
        model.to(device).train()
        names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        state = State(run, fingerprint, world, names, pretraining_optimizer(model))

        # ── resume ──

        def require_fit(groups: checkpoint.Groups, progress: checkpoint.Progress) -> None:
            state.require_fit(groups)
            step: int = progress["step"]
            stage: str = progress["stage"]
            if step >= steps or stage != stage_at(config, step, steps):
                raise BadInput(
                    f"{run}: cannot go on at step {step:,} ({stage}) of {steps:,}: change the steps"
                )

        if folder:
            run_dir.prepare(folder, fingerprint, options.code, steps)
            if options.origin:
                keep = settings.keep_checkpoints
                run_dir.continue_from(run, options.origin, fingerprint, require_fit, keep=keep)
        precision: Precision = world.broadcast_object(choose(settings.precision, device))
        progress = state.load()
        if progress:
            # a run keeps its precision wherever it continues
            precision = progress.get("precision", precision)
            notify(f"resuming at step {progress['step']:,} of {steps:,}")
        else:
            progress = {"step": 0, "history": [], "continued": [], "code": []}
        first_step: int = progress["step"]
        state.require_room(settings.keep_checkpoints)
        state.begin_history(progress["history"])
        continued = progress["continued"]
        # what the steps before the last change of settings took
        start: dict[str, Any] = {"step": 0, "tokens": 0, "flops": 0.0}
        if continued:
            start = continued[-1]
        code: run_dir.Versions = progress["code"]
        code_before = code[-1][1] if code else ""
        if options.code and options.code != code_before:
            code = [*code, [first_step, options.code]]
            if code_before:
                notify(f"the code has changed at step {first_step:,}; `--restart` would start over")

        # ── the step ──

        graphs = None
        if device.type == "cuda" and settings.compile == "auto":
            if not missing_for_compile():
                notify("compiling: the first steps on rows of one length take a minute or two")
                compile_parts(model)
            if torch.version.hip is None:  # on ROCm a capture may pass over illegal work in silence
                graphs = CudaGraphs(device)
        train_step = Step(
            model, state.optimizer, world, precision=precision, graphs=graphs, threads=threads
        )
        held_out = BatchLoader(data.valid, config, device, "valid noise", phases[-1].batch)
        # all processes have the same norm and step, so only one adds them
        main_only = torch.tensor(float(world.main), device=device)

        # ── logging, evaluation, saving ──

        saved_at = evaluated_at = logged_at = time.monotonic()  # seconds
        logged_step = first_step
        warned = False

        def spent(done: int) -> dict[str, Any]:
            """Return steps, tokens and FLOPs so far, across a change of settings in mid-run."""
            count = {phase: phase.steps(start["step"], done) for phase in phases}
            read = round(sum(count[phase] * tokens[phase] for phase in phases))
            computed = sum(count[phase] * flops[phase] for phase in phases)
            return {
                "step": done,
                "tokens": start["tokens"] + read,
                "flops": start["flops"] + computed,
            }

        def is_due(done: int, every: int, minutes: float, before: float) -> bool:
            """Return whether something is due: `every` so many steps, but no sooner than `minutes`
            after the time `before`, and at the end.
            """
            late_enough = time.monotonic() - before >= minutes * 60
            return done == steps or (done % every == 0 and world.any_rank(late_enough))

        def slices_of(batch: Batch) -> list[Batch]:
            return [slice_batch(batch, index, slice_count) for index in own_slices]

        def send(done: int, kind: str, numbers: dict[str, float]) -> None:
            if world.main:
                log(done, {f"{kind}/{name}": value for name, value in numbers.items()})

        def log_training(done: int) -> float:
            """Send the means since the last call to the log, and return the mean loss."""
            nonlocal logged_step, logged_at
            sums = read_sums(state.sums["log"], world)
            state.sums["log"] = {}
            read = spent(done)["tokens"] - spent(logged_step)["tokens"]
            numbers = {name: sums[name] / sums["count"] for name in ("loss", "grad_norm")}
            numbers |= metrics(sums)
            numbers["learning_rate"] = learning_rate_at(config, done - 1, steps)
            numbers["tokens_per_second"] = read / (time.monotonic() - logged_at)
            send(done, "train", numbers)
            logged_step = done
            logged_at = time.monotonic()
            return numbers["loss"]

        def evaluate_held_out(done: int) -> None:
            """Add the metrics of held-out rows, and the mean training loss since the last call, to
            the history.
            """
            nonlocal logged_step, logged_at, evaluated_at, warned
            stage = stage_at(config, done, steps)
            count = settings.eval_batches
            batches = map(held_out.batch, range(count))
            slices = itertools.chain.from_iterable(map(slices_of, batches))
            numbers = evaluate(model, slices, stage, count, world, precision, threads)
            record = {**spent(done), **numbers}
            if state.sums["eval"]:
                sums = read_sums(state.sums["eval"], world)
                record["train_loss"] = sums["loss"] / sums["count"]
                state.sums["eval"] = {}
            state.record(record)
            send(done, "valid", numbers)
            # warn of a weak discriminator once, and not before it can have learnt
            warm = settings.warmup + (steps // 2 if stage == "discriminator" else 0)
            ready = done == steps or (done > warm and record["tokens"] > PLATEAU)
            warning = ""
            if ready and stage != "generator":
                warning = weakness(record, data.train.tokens)
            if warning and not warned:
                notify(f"WARNING at step {done:,}: {warning}")
            warned = bool(warning)
            logged_step = done
            logged_at = evaluated_at = time.monotonic()

        def save(done: int) -> None:
            nonlocal saved_at
            progress = {
                **spent(done),
                "precision": precision,
                "config": to_jsonable(config),
                "processes": world.size,
                "stage": stage_at(config, done, steps),
                "history": state.history,
                "continued": continued,
                "code": code,
            }
            state.save(done, progress, settings.keep_checkpoints)
            saved_at = time.monotonic()

        def require_finite(done: int, sums: dict[str, Tensor], norm: Tensor) -> None:
            """Raise NonFinite after a step that is not finite. Nothing has changed since then."""
            if train_step.nonfinite.item():
                loss = read_sums(sums, world)["loss"]
                raise NonFinite(
                    f"step {done}: loss {loss} and gradient norm {norm.item()} are not finite, so "
                    "no update was made with them: lower pretrain.learning_rate"
                )

        # ── train ──

        if first_step == 0:
            evaluate_held_out(0)
        bar = stack.enter_context(
            (options.bar if world.main else Bar)(options.title, last_step, "steps")
        )
        for step in range(first_step, last_step):
            done = step + 1
            stage = stage_at(config, step, steps)
            if step == first_step or step in {phase.first for phase in phases}:
                phase = phase_at(phases, step)
                phase_start = step
                loader = BatchLoader(
                    data.rows(phase.length, phase.batch), config, device, "noise", phase.batch
                )
            if stage != "joint" and step in {first_step, steps // 2}:
                model.begin_stage(stage, copy=step == steps // 2)

            set_learning_rate(state.optimizer, learning_rate_at(config, step, steps))
            seeds = [derive(settings.seed, "dropout", step, index) for index in own_slices]
            sums, norm = train_step(slices_of(loader.batch(step)), seeds, stage)
            sums["count"] = main_only
            add_sums(state.sums["log"], {**sums, "grad_norm": norm * main_only})
            add_sums(state.sums["eval"], sums)

            save_due = done == last_step or is_due(
                done, settings.save_every, settings.min_save_interval_minutes, saved_at
            )
            log_due = done % settings.log_every == 0
            if world.main:
                options.on_step(
                    StepDone(
                        title=options.title,
                        settings=settings,
                        world=world,
                        precision=precision,
                        captured=graphs is not None and not graphs.failed,
                        phases=phases,
                        phase=phase,
                        phase_start=phase_start,
                        done=done,
                    )
                )
            if save_due or log_due or device.type == "cpu":
                require_finite(done, sums, norm)
            if log_due or done == steps:
                bar.update(done, loss=log_training(done))
            else:
                bar.update(done)
            if is_due(done, settings.eval_every, settings.min_eval_interval_minutes, evaluated_at):
                evaluate_held_out(done)
            stopping = world.any_rank(bool(stop))  # read once: a signal may come at any line
            if stopping:
                require_finite(done, sums, norm)
            if save_due or stopping:
                save(done)
            if stopping:
                cause = f"signal {stop.signal}" if stop else "a signal to another process"
                raise Stopped(
                    f"{options.title}: stopped by {cause} after step {done:,} of {steps:,}; "
                    "everything is saved, and the same command continues"
                )
        return PretrainResult(
            model.eval(), state.history, max(first_step, last_step), precision, continued, code
        )
