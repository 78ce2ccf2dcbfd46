"""The pre-training loop: rate, batch, forward, backward, clip, finite check, step, log, evaluate, save.

A step is a function of (weights, optimizer state, step number), since everything random is derived from the step. So a
run that was killed and resumed ends with the same bytes as one that was not, on the same machine and thread count.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electra.config import ElectraConfig, plain
from electra.errors import BadInput, NonFinite, Stopped
from electra.export import load_networks
from electra.files import dump_json, lock_folder, read_json, remove, write_atomic, write_json
from electra.flops import step_flops, training_steps
from electra.model.corruption import SpecialIds
from electra.model.generator import Generator
from electra.model.pretraining import Pretraining
from electra.progress import Progress
from electra.seeds import derive
from electra.stopping import StopRequest
from electra.training import checkpoint
from electra.training.evaluation import add_sums, collapsed, evaluate, metrics, read_sums
from electra.training.feed import Feed, RowSet, part
from electra.training.history import History
from electra.training.optimizer import build_optimizer, clip_gradients, load_state_tensors, set_rate, state_tensors
from electra.training.precision import autocast, choose
from electra.training.schedule import learning_rate


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


Log = Callable[[int, dict[str, float]], None]


def stage_of(config: ElectraConfig, step: int, steps: int) -> str:
    """Which networks learn at a step: both, or in two-stage training first the generator, then the discriminator."""
    if config.objective.training != "two_stage":
        return "joint"
    return "generator" if step < steps // 2 else "discriminator"


def claim(run: Path, fingerprint: dict[str, Any]) -> None:
    """Make `run` belong to this fingerprint: what another one left there is removed, and said so."""
    known = run / "fingerprint.json"
    if known.exists() and read_json(known) != fingerprint:
        print(f"{run}: settings, data or code have changed; starting afresh", file=sys.stderr, flush=True)
        for path in sorted(run.iterdir()):
            if path.name != ".lock":
                remove(path)
    write_json(known, fingerprint)


def pretrain(
    config: ElectraConfig,
    data: Data,
    run: Path,
    fingerprint: dict[str, Any],
    *,
    log: Log,
    title: str = "pretrain",
    device: torch.device | None = None,
) -> Trained:
    """Train to the end, from the newest good checkpoint in `run` if there is one. `log` gets (step, numbers) as they come."""
    settings = config.pretrain
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(settings.threads)
    if len(data.train) < settings.batch or len(data.valid) == 0:
        raise BadInput(
            "rows",
            f"{len(data.train)} for training and {len(data.valid)} held out",
            f"at least one batch of {settings.batch} and one held out",
            "use more text, shorter rows or a smaller pretrain.batch",
        )
    steps = training_steps(config, data.vocab_size)

    with lock_folder(run), StopRequest() as stop:
        claim(run, fingerprint)
        # ── networks and optimizer ──
        torch.manual_seed(derive(settings.seed, "init"))
        model = Pretraining(config, data.vocab_size, data.special, data.unigram_V)
        if settings.init_from:
            generator = model.generator if isinstance(model.generator, Generator) else None
            load_networks(model.discriminator, generator, Path(settings.init_from))
        model.to(device)
        names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        optimizer = build_optimizer(
            model.named_parameters(),
            weight_decay=settings.weight_decay,
            beta1=settings.beta1,
            beta2=settings.beta2,
            eps=settings.eps,
            bias_correction=settings.bias_correction,
        )

        # ── resume ──
        since_eval: dict[str, Tensor] = {}  # sums since the last evaluation and the last log line
        since_log: dict[str, Tensor] = {}
        first, precision, history = 0, choose(settings.precision, device), History(run / "metrics.jsonl")
        if found := checkpoint.load_newest(run):
            first, groups, progress = found
            precision = progress["precision"]  # a probe's answer must not change in the middle of a run
            with torch.no_grad():
                for parameter, name in names.items():
                    parameter.copy_(groups["model"][name])
            load_state_tensors(optimizer, names, groups["optimizer"])
            for name, value in groups["running"].items():
                (since_eval if name.startswith("eval/") else since_log)[name.partition("/")[2]] = value.to(device)
            print(f"{title}: resuming at step {first:,} of {steps:,}", file=sys.stderr, flush=True)
        history.rewind(first if found else -1)
        if stage_of(config, first, steps) == "discriminator" and isinstance(model.generator, Generator):
            model.generator.requires_grad_(False)

        def save(step: int) -> None:
            groups = {
                "model": {name: p.detach() for p, name in names.items()},
                "optimizer": state_tensors(optimizer, names),
                "running": {
                    f"{kind}/{name}": value
                    for kind, sums in (("eval", since_eval), ("log", since_log))
                    for name, value in sums.items()
                },
            }
            checkpoint.save(
                run, step, groups, {"step": step, "precision": precision, "config": plain(config)}, keep=settings.keep
            )

        collapse_told = False

        def measure(step: int, running: dict[str, Tensor]) -> None:
            nonlocal collapse_told
            stage = stage_of(config, min(step, steps - 1), steps)
            with autocast(precision, device):
                numbers = evaluate(model, ((held_out.batch(i), stage) for i in range(settings.eval_batches)))
            record = {"step": step, "tokens": step * settings.batch * settings.length, "flops": step * flops, **numbers}
            if running:
                sums = read_sums(running)
                record["train_loss"] = sums["loss"] / sums["count"]
            history.append(record)
            log(step, {f"valid/{name}": value for name, value in numbers.items()})
            given_up = stage != "generator" and step > settings.warmup and collapsed(numbers)
            told, collapse_told = collapse_told, given_up
            if given_up and not told:  # once, not at every look
                print(
                    f"{title}: WARNING at step {step:,}: the discriminator does not tell replaced tokens from original ones (recall {numbers['disc_recall']:.3f}, AUC {numbers['disc_auc']:.3f}); if this stays, a lower pretrain.learning_rate or a smaller generator usually cures it",
                    file=sys.stderr,
                    flush=True,
                )

        # ── train ──
        compiled = settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda")
        forward = torch.compile(model) if compiled else model
        feed, held_out = Feed(data.train, config, device, "noise"), Feed(data.valid, config, device, "valid noise")
        flops = step_flops(config, data.vocab_size)
        parameters = list(model.parameters())
        bad = torch.zeros(
            (), device=device
        )  # latches to 1 at the first non-finite step; the fused kernel then skips updates
        optimizer.found_inf = bad
        clock, logged = time.monotonic(), first
        model.train()
        if first == 0:
            measure(0, {})
        with Progress(title, total=steps, unit="steps") as progress_bar:
            for step in range(first, steps):
                stage = stage_of(config, step, steps)
                if stage == "discriminator" and step == steps // 2:
                    model.start_second_stage()
                set_rate(
                    optimizer,
                    learning_rate(
                        step, peak=settings.learning_rate, warmup=settings.warmup, steps=steps, form=settings.schedule
                    ),
                )
                batch = feed.batch(step)
                torch.manual_seed(derive(settings.seed, "dropout", step))
                sums: dict[str, Tensor] = {"count": torch.ones((), device=device)}
                for index in range(settings.accumulate):
                    with autocast(precision, device):
                        outputs = forward(part(batch, index, settings.accumulate), stage)
                    outputs.loss.backward()
                    add_sums(sums, {**outputs.sums, "loss": outputs.loss.detach()})
                norm = clip_gradients(parameters, settings.clip)
                bad.copy_(torch.maximum(bad, (~(torch.isfinite(norm) & torch.isfinite(sums["loss"]))).float()))
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                add_sums(since_log, {**sums, "grad_norm": norm})
                add_sums(since_eval, sums)

                done = step + 1
                due = done % settings.save_every == 0 or done == steps
                if (device.type == "cpu" or due or stop or done % settings.log_every == 0) and bad.item():
                    _refuse(run, config, done, logged, read_sums(sums), norm)
                if done % settings.log_every == 0 or done == steps:
                    numbers = read_sums(since_log)
                    count = numbers["count"]
                    seconds, clock = time.monotonic() - clock, time.monotonic()
                    rate = (done - logged) * settings.batch * settings.length / seconds
                    shown = {
                        "loss": numbers["loss"] / count,
                        "grad_norm": numbers["grad_norm"] / count,
                        **metrics(numbers),
                    }
                    log(
                        done,
                        {
                            **{f"train/{name}": value for name, value in shown.items()},
                            "train/learning_rate": optimizer.param_groups[0]["lr"],
                            "train/tokens_per_second": rate,
                        },
                    )
                    since_log, logged = {}, done
                    progress_bar.update(done, loss=shown["loss"])
                else:
                    progress_bar.update(done)
                if done % settings.eval_every == 0 or done == steps:
                    measure(done, since_eval)
                    since_eval, clock, logged = {}, time.monotonic(), done
                stopping = bool(stop) and done < steps  # read once: a signal may come at any line
                if due or stopping:
                    save(done)
                if stopping:
                    raise Stopped(
                        title,
                        f"stopped by signal {stop.signal} after step {done:,} of {steps:,}",
                        "",
                        "everything is saved; run the same command to go on",
                    )
        return Trained(model.eval(), history.records, steps, precision)


def _refuse(run: Path, config: ElectraConfig, step: int, logged: int, sums: dict[str, float], norm: Tensor) -> None:
    """Stop before a non-finite update: leave what replays the step beside the last good checkpoint."""
    bundle = run / f"nonfinite-step-{step}.json"
    facts = {
        "step": step,
        "finite_until": logged,
        "seed": config.pretrain.seed,
        "config": plain(config),
        "loss": str(sums.get("loss")),
        "gradient_norm": str(norm.item()),
    }
    write_atomic(bundle, dump_json(facts))
    raise NonFinite(
        f"step {step}",
        f"loss {sums.get('loss')}, gradient norm {norm.item()}",
        "finite numbers",
        f"no update was made with them; {bundle} holds what replays the step from the last checkpoint; a lower pretrain.learning_rate usually helps",
    )
