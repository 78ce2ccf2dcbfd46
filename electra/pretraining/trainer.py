"""The pre-training loop: rate, batch, forward, backward, clip, finite check, step, log, evaluate, save.

A step is a function of (weights, optimizer state, step number), since everything random is derived from the step. So a
run that was killed and resumed ends with the same bytes as one that was not, on the same machine and thread count.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electra.config import plain
from electra.devices import default_device, same_bytes
from electra.errors import BadInput, NonFinite, Stopped
from electra.files import dump_json, write_atomic
from electra.nn.pretrained import load_networks
from electra.optim.optimizer import build_optimizer, network_scale, set_rate
from electra.optim.precision import autocast, choose
from electra.optim.schedule import learning_rate
from electra.pretraining.announce import SETTLED, Pace, announce
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.distributed import World, join
from electra.pretraining.evaluation import add_sums, collapsed, evaluate, metrics, read_sums
from electra.pretraining.feed import Feed, RowSet, part
from electra.pretraining.flops import step_flops, training_steps
from electra.pretraining.generator import Generator
from electra.pretraining.memory import enough_memory
from electra.pretraining.model import Pretraining
from electra.pretraining.state import State
from electra.pretraining.step import CudaRecorder, Step, can_compile, compile_parts, keep_freed_memory
from electra.progress import Progress
from electra.seeds import derive
from electra.stopping import StopRequest
from electra.storage import checkpoint, runs
from electra.storage.fingerprint import Fingerprint
from electra.storage.history import History


@dataclass(frozen=True)
class Data:
    """Rows and what must be known of their tokenizer."""

    train: RowSet
    valid: RowSet
    special: SpecialIds
    vocab_size: int
    unigram_V: Tensor | None = None


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    model: Pretraining
    history: list[dict[str, Any]]
    steps: int
    precision: str
    continued: list[
        dict[str, Any]
    ]  # where settings were changed in mid-run: step, what was spent, keys with old and new


Log = Callable[[int, dict[str, float]], None]


def stage_of(config: ElectraConfig, step: int, steps: int) -> str:
    """Which networks learn at a step: both, or in two-stage training first the generator, then the discriminator."""
    if config.objective.training != "two_stage":
        return "joint"
    return "generator" if step < steps // 2 else "discriminator"


def rate(config: ElectraConfig, step: int, steps: int) -> float:
    """Learning rate of a step; each stage of two-stage training has a warm-up and a decay of its own."""
    settings, stage = config.pretrain, stage_of(config, step, steps)
    first = steps // 2 if stage == "discriminator" else 0
    length = steps // 2 if stage == "generator" else steps - first
    peak, form = settings.learning_rate, settings.schedule
    return learning_rate(step - first, peak=peak, warmup=settings.warmup, steps=length, form=form)


def pretrain(
    config: ElectraConfig,
    data: Data,
    run: Path,
    fingerprint: Fingerprint,
    *,
    log: Log,
    title: str = "pretrain",
    device: torch.device | None = None,
    origin: str = "",
) -> Trained:
    """Train to the end, from the newest good checkpoint of this fingerprint. `log` gets (step, numbers) as they come.

    A run of another fingerprint that is found in `run` is set aside; `origin` names one to continue (runs.py). Under
    torchrun every process calls this; only the main one touches `run` and logs.
    """
    settings = config.pretrain
    device = device or default_device()
    torch.set_num_threads(settings.threads)
    if device.type == "cpu":
        keep_freed_memory()
    if len(data.train) < settings.batch or len(data.valid) == 0:
        raise BadInput(
            "rows",
            f"{len(data.train)} for training and {len(data.valid)} held out",
            f"at least one batch of {settings.batch} and one held out",
            "use more text, shorter rows or a smaller pretrain.batch",
        )
    steps = training_steps(config, data.vocab_size)

    with join(device, settings.parallel, title) as world, contextlib.ExitStack() as held:
        stop = held.enter_context(StopRequest())
        held.enter_context(enough_memory(settings))
        held.enter_context(same_bytes(settings.deterministic and device.type == "cuda"))
        folder = held.enter_context(runs.Held(run)) if world.main else None
        if world.tell(fingerprint) != fingerprint:
            raise BadInput(
                run,
                f"process {world.rank} finds other settings, data or code here than the main process",
                "the same project folder on all machines",
                "share the folder between the machines",
            )
        slices, mine = world.slices(settings.batch, settings.accumulate)
        say = log if world.main else _nothing
        # ── networks and optimizer ──
        torch.manual_seed(derive(settings.seed, "init"))

        def build() -> Pretraining:
            return Pretraining(config, data.vocab_size, data.special, data.unigram_V)

        model = build()
        if settings.init_from:
            start = Path(settings.init_from)
            load_networks(model.networks(), start, model.extras(), fingerprint.get("init_from"))
        model.to(device)
        world.shard(model)
        optimizer = build_optimizer(
            model.named_parameters(),
            weight_decay=settings.weight_decay,
            beta1=settings.beta1,
            beta2=settings.beta2,
            eps=settings.eps,
            bias_correction=settings.bias_correction,
            scale=network_scale(model.named_parameters(), model.own_to_generator(), settings.generator_rate),
        )

        # ── resume ──
        names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        state = State(run, fingerprint, world, names, optimizer, aside=device.type == "cuda")
        held.callback(state.writer.shutdown)

        def fits(groups: checkpoint.Groups, progress: checkpoint.Progress) -> None:
            state.check_shapes(groups)
            at, stage = progress["step"], progress["stage"]
            if at >= steps or stage != stage_of(config, at, steps):
                expected = f"more steps than that, or a {stage} stage there"
                raise BadInput(run, f"cannot go on at step {at:,} ({stage}) of {steps:,}", expected, "change the steps")

        if folder:
            runs.claim(folder, fingerprint, origin, fits, keep=settings.keep)
        first, precision = 0, world.tell(choose(settings.precision, device))
        progress = state.load() or {"history": [], "continued": []}
        if "step" in progress:
            first = progress["step"]
            precision = progress.get("precision", precision)  # a run keeps its own wherever it goes on
            if world.main:
                print(f"{title}: resuming at step {first:,} of {steps:,}", file=sys.stderr, flush=True)
        state.require_room(settings.keep)
        history = History(run / "metrics.jsonl" if world.main else None, progress["history"])
        continued = progress["continued"]
        since = continued[-1] if continued else {"step": 0, "tokens": 0, "flops": 0.0}

        def spent(step: int) -> dict[str, Any]:
            here = step - since["step"]
            tokens = since["tokens"] + here * settings.batch * settings.length
            return {"step": step, "tokens": tokens, "flops": since["flops"] + here * flops}

        if stage_of(config, first, steps) == "discriminator" and isinstance(model.generator, Generator):
            model.generator.requires_grad_(False)

        collapse_told = False

        def measure(step: int, running: dict[str, Tensor]) -> None:
            nonlocal collapse_told
            stage = stage_of(config, min(step, steps - 1), steps)
            held = (part(held_out.batch(i), k, slices) for i in range(settings.eval_batches) for k in mine)
            with autocast(precision, device):
                numbers = evaluate(model, ((batch, stage) for batch in held), settings.eval_batches, world)
            record = {**spent(step), **numbers}
            if running:
                sums = read_sums(world.total(running))
                record["train_loss"] = sums["loss"] / sums["count"]
            history.append(record)
            say(step, {f"valid/{name}": value for name, value in numbers.items()})
            warm = settings.warmup + (steps // 2 if stage == "discriminator" else 0)
            given_up = stage != "generator" and step > warm and collapsed(numbers)
            told, collapse_told = collapse_told, given_up
            if world.main and given_up and not told:  # once, not at every look
                print(
                    f"{title}: WARNING at step {step:,}: the discriminator does not tell replaced tokens from original ones (recall {numbers['disc_recall']:.3f}, AUC {numbers['disc_auc']:.3f}); if this stays, a lower pretrain.learning_rate or a smaller generator usually cures it",
                    file=sys.stderr,
                    flush=True,
                )

        # ── train ──
        compiled = settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda" and can_compile())
        if compiled:
            compile_parts(model)
        feed, held_out = Feed(data.train, config, device, "noise"), Feed(data.valid, config, device, "valid noise")
        flops = step_flops(config, data.vocab_size)
        recorded = device.type == "cuda" and not world.sharded and settings.compile != "off"
        update = Step(
            model,
            optimizer,
            world,
            clip=settings.clip,
            precision=precision,
            record=CudaRecorder(device) if recorded else None,
        )
        clock, logged = time.monotonic(), first
        saved, pace = clock, Pace(device)
        model.train()
        if first == 0:
            measure(0, {})

        def refuse(step: int, sums: dict[str, Tensor], norm: Tensor) -> None:
            if update.bad.item():
                bundle = {"step": step, "finite_until": logged, "slices": slices, "precision": precision}
                bundle["fingerprint"] = fingerprint
                _refuse(run, world, config, bundle, read_sums(world.total(sums)), norm)

        with Progress(title, total=steps, unit="steps", stream=None if world.main else io.StringIO()) as progress_bar:
            for step in range(first, steps):
                stage = stage_of(config, step, steps)
                if stage == "discriminator" and step == steps // 2:
                    model.start_second_stage()
                set_rate(optimizer, rate(config, step, steps))
                batch = feed.batch(step)
                parts = [part(batch, index, slices) for index in mine]
                sums, norm = update(parts, [derive(settings.seed, "dropout", step, index) for index in mine], stage)
                add_sums(state.sums["log"], {**sums, "grad_norm": norm * update.once})
                add_sums(state.sums["eval"], sums)

                done = step + 1
                late = time.monotonic() - saved >= settings.save_minutes * 60
                due = done == steps or (done % settings.save_every == 0 and world.any(late))
                if done - first == SETTLED:
                    feed.hold_if_room()
                if (known := pace.at(done - first)) is not None and world.main:
                    line = announce(title, settings, world, precision, update, feed, known, steps - done)
                    print(line, file=sys.stderr, flush=True)
                if device.type == "cpu" or due or done % settings.log_every == 0:
                    refuse(done, sums, norm)
                if done % settings.log_every == 0 or done == steps:
                    numbers = read_sums(world.total(state.sums["log"]))
                    count = numbers["count"]
                    seconds, clock = time.monotonic() - clock, time.monotonic()
                    speed = (done - logged) * settings.batch * settings.length / seconds
                    shown = {
                        "loss": numbers["loss"] / count,
                        "grad_norm": numbers["grad_norm"] / count,
                        **metrics(numbers),
                    }
                    say(
                        done,
                        {
                            **{f"train/{name}": value for name, value in shown.items()},
                            "train/learning_rate": rate(config, step, steps),
                            "train/tokens_per_second": speed,
                        },
                    )
                    state.sums["log"], logged = {}, done
                    progress_bar.update(done, loss=shown["loss"])
                else:
                    progress_bar.update(done)
                if done % settings.eval_every == 0 or done == steps:
                    measure(done, state.sums["eval"])
                    state.sums["eval"], clock, logged = {}, time.monotonic(), done
                stopping = world.any(bool(stop))  # asked once: a signal may come at any line
                if stopping:
                    refuse(done, sums, norm)
                if due or stopping:
                    facts = {"precision": precision, "config": plain(config), "processes": world.size}
                    facts |= {
                        "stage": stage_of(config, done, steps),
                        "history": history.records,
                        "continued": continued,
                    }
                    state.save(done, spent(done) | facts, settings.keep)
                    saved = time.monotonic()
                if stopping or done == steps:
                    state.written()
                if stopping:
                    raise Stopped(
                        title,
                        f"stopped by {f'signal {stop.signal}' if stop else 'a signal to another process'} after step {done:,} of {steps:,}",
                        "",
                        "everything is saved; run the same command to go on",
                    )
        return Trained(world.whole(model, build).eval(), history.records, steps, precision, continued)


def _nothing(step: int, numbers: dict[str, float]) -> None:
    """What the other processes log."""


def _refuse(
    run: Path, world: World, config: ElectraConfig, where: dict[str, Any], sums: dict[str, float], norm: Tensor
) -> None:
    """Stop before a non-finite update: leave what replays the step beside the last good checkpoint."""
    bundle = run / f"nonfinite-step-{where['step']}.json"
    facts = where | {
        "checkpoint": max(checkpoint.steps(run), default=0),
        "seed": config.pretrain.seed,
        "config": plain(config),
        "loss": str(sums.get("loss")),
        "gradient_norm": str(norm.item()),
    }
    if world.main:
        write_atomic(bundle, dump_json(facts))
    raise NonFinite(
        f"step {where['step']}",
        f"loss {sums.get('loss')}, gradient norm {norm.item()}",
        "finite numbers",
        f"no update was made with them; {bundle} holds what replays the step from the last checkpoint; a lower pretrain.learning_rate usually helps",
    )
