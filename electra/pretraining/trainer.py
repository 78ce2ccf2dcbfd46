"""The pre-training loop: rate, batch, forward, backward, clip, finite check, step, log, evaluate, save.

A step is a function of (weights, optimizer state, step number), since everything random is derived from the step. So a
run that was killed and resumed ends with the same bytes as one that was not, on the same machine and thread count.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from electra.config import plain
from electra.devices import default_device, same_bytes
from electra.errors import BadInput, Stopped
from electra.nn.huggingface import load_networks
from electra.optim.adamw import set_rate
from electra.optim.cuda_graphs import CudaRecorder, can_record
from electra.optim.precision import choose
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import Data, Feed, part
from electra.pretraining.distributed import World, join
from electra.pretraining.evaluation import PLATEAU, add_sums, evaluate, metrics, read_sums, weakness
from electra.pretraining.flops import phase_flops, training_steps
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.networks import Generator
from electra.pretraining.phases import Phase, phase_at, phases_of, rate, stage_of
from electra.pretraining.state import State, refuse_nonfinite
from electra.pretraining.step import SETTLED, Step, compile_parts, halves, keep_freed_memory, lacks_to_compile
from electra.progress import Bar
from electra.seeds import derive
from electra.stopping import StopRequest
from electra.storage import checkpoint, run_dir
from electra.storage.fingerprint import Code, Fingerprint


@dataclass(frozen=True)
class Trained:
    """A run at its launch's last step.

    `continued`: where settings changed (step, spent so far, keys' old and new); `code`: the versions of the code that
    it used, with the step from which each was used.
    """

    model: Pretraining
    history: list[dict[str, Any]]
    steps: int
    precision: str
    continued: list[dict[str, Any]]
    code: run_dir.Versions


Log = Callable[[int, dict[str, float]], None]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a run is started and shown; no number depends on it."""

    title: str = "pretrain"
    device: torch.device | None = None
    origin: Path | None = None  # the folder of a run to continue (storage/run_dir.py)
    code: Code = ""  # what is recorded as the code of this launch
    bar: type[Bar] = Bar
    announce: "Callable[[Trainer, int], None]" = lambda trainer, done: None  # called after each step
    until: int | None = None  # a step to end at, saved, so that another launch goes on from there


def pretrain(
    config: ElectraConfig, data: Data, run: Path, fingerprint: Fingerprint, *, log: Log, launch: Launch = Launch()
) -> Trained:
    """Train to the end, from the newest good checkpoint in `run`. `log` gets (step, numbers) as they come.

    Checkpoints of another fingerprint are renamed to `foreign-step-N`. Under torchrun every process calls this; only
    the main one touches `run` and logs.
    """
    settings, device = config.pretrain, launch.device or default_device()
    if device.type == "cpu":
        keep_freed_memory()
    trainer = Trainer(config, data, run, fingerprint, log, launch)
    with join(device, launch.title) as world, contextlib.ExitStack() as held:
        stop = held.enter_context(StopRequest())
        held.enter_context(same_bytes(settings.deterministic and device.type == "cuda"))
        folder = held.enter_context(run_dir.RunFolder(run)) if world.main else None
        trainer.setup(world)
        held.callback(trainer.state.writer.shutdown)
        trainer.resume(folder)
        return trainer.train(stop)


@dataclass
class Trainer:
    """One run in this process: `setup`, `resume`, `train`. `listener` gets (step, numbers) from the main process."""

    config: ElectraConfig
    data: Data
    run: Path
    fingerprint: Fingerprint
    listener: Log
    launch: Launch

    def __post_init__(self) -> None:
        config, data, self.title = self.config, self.data, self.launch.title
        self.steps = training_steps(config, data.vocab_size)
        self.end = self.steps if self.launch.until is None else min(self.steps, self.launch.until)
        self.phases = phases_of(config.pretrain, self.steps)
        self.flops = {phase: phase_flops(config, phase, data.vocab_size) for phase in self.phases}
        self.tokens: dict[Phase, float] = {}
        for phase in self.phases:
            rows = data.rows(phase.length, phase.batch)  # refused here, not in mid-run
            self.tokens[phase] = phase.batch * rows.tokens / len(rows)  # of a step, padding apart

    # ── setup ──

    def setup(self, world: World) -> None:
        """Networks with their first weights, the optimizer, and the batches."""
        config, data, settings = self.config, self.data, self.config.pretrain
        self.world, self.device = world, world.device
        if world.broadcast_object(self.fingerprint) != self.fingerprint:
            found = f"process {world.rank} finds other settings, data or code here than the main process"
            raise BadInput(self.run, found, "the same project folder on all machines", "share it between the machines")
        self.halved = halves(config, {phase.batch for phase in self.phases}, world)
        torch.set_num_threads(settings.threads // (1 + self.halved))
        for phase in self.phases:  # batches of any size have as many
            self.slices, self.mine = world.slices(phase.batch, settings.accumulate, 1 + self.halved)
        torch.manual_seed(derive(settings.seed, "init"))
        self.model = model = Pretraining(config, data.vocab_size, data.special, data.unigram_V)
        if start := settings.init_from:
            load_networks(model.networks(), Path(start), model.extras(), self.fingerprint.get("init_from"))
        model.to(self.device)
        names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        self.state = State(
            self.run, self.fingerprint, world, names, optimizer_of(model), background=self.device.type == "cuda"
        )
        self.held_out = Feed(data.valid, config, self.device, "valid noise", self.phases[-1].batch)

    # ── resume ──

    def resume(self, folder: run_dir.RunFolder | None) -> None:
        """Take up the newest checkpoint of this run, if there is one; then compile, and record, what is to be trained.

        `folder`: the run's, held by the main process.
        """
        world, settings, launch = self.world, self.config.pretrain, self.launch
        if folder:
            run_dir.prepare(folder, self.fingerprint, launch.code, self.steps)
            if of := launch.origin:
                run_dir.continue_from(self.run, of, self.fingerprint, self.require_fit, keep=settings.keep_checkpoints)
        self.first, self.precision = 0, world.broadcast_object(choose(settings.precision, self.device))
        progress = self.state.load() or {"history": [], "continued": []}
        if "step" in progress:
            self.first = progress["step"]
            self.precision = progress.get("precision", self.precision)  # a run keeps its own wherever it goes on
            self.notify(f"resuming at step {self.first:,} of {self.steps:,}")
        self.state.require_room(settings.keep_checkpoints)
        self.state.begin_history(progress["history"])
        self.continued, self.code = progress["continued"], run_dir.versions(progress)
        if self.code and launch.code and self.code[-1][1] != launch.code:
            self.notify(f"the code has changed at step {self.first:,}; `--restart` would start over")
        if launch.code and (not self.code or self.code[-1][1] != launch.code):
            self.code = [*self.code, [self.first, launch.code]]
        if self.stage(self.first) == "discriminator" and isinstance(self.model.generator, Generator):
            self.model.generator.requires_grad_(False)
        on_gpu = self.device.type == "cuda"
        if on_gpu and settings.compile == "auto" and not lacks_to_compile():
            self.notify("compiling: the first steps take a minute or two, and again for rows of another length")
            compile_parts(self.model)
        record = CudaRecorder(self.device) if on_gpu and settings.compile != "off" and can_record() else None
        how = {"precision": self.precision, "record": record, "halved": self.halved}
        self.step = Step(self.model, self.state.optimizer, world, **how)

    def require_fit(self, groups: checkpoint.Groups, progress: checkpoint.Progress) -> None:
        """Refuse a checkpoint that these settings cannot go on from."""
        self.state.check_shapes(groups)
        at, stage = progress["step"], progress["stage"]
        if at >= self.steps or stage != self.stage(at):
            found = f"cannot go on at step {at:,} ({stage}) of {self.steps:,}"
            raise BadInput(self.run, found, f"more steps than that, or a {stage} stage there", "change the steps")

    # ── train ──

    def train(self, stop: StopRequest) -> Trained:
        """From where the run stands to its end, or to the first signal."""
        settings, world, steps = self.config.pretrain, self.world, self.steps
        self.saved = self.evaluated = self.clock = time.monotonic()
        self.logged, self.warned = self.first, False
        self.model.train()
        if self.first == 0:
            self.evaluate(0)
        with (self.launch.bar if world.main else Bar)(self.title, self.end, "steps") as bar:
            for step in range(self.first, self.end):
                if step in {self.first, *(phase.first for phase in self.phases)}:
                    self.begin_phase(step)
                sums, norm = self.train_step(step)
                done = step + 1
                due = done == self.end or self.is_due(done, "save", self.saved)
                looked_at = done % settings.log_every == 0
                if done - self.begun == SETTLED:  # once all is compiled and recorded
                    self.feed.cache_on_gpu_if_room()
                if world.main:
                    self.launch.announce(self, done)
                if due or looked_at or self.device.type == "cpu":
                    self.require_finite(done, sums, norm)
                shown = {"loss": self.log(done)} if looked_at or done == steps else {}
                bar.update(done, **shown)
                if self.is_due(done, "eval", self.evaluated):
                    self.evaluate(done)
                stopping = world.any_rank(bool(stop))  # asked once: a signal may come at any line
                if stopping:
                    self.require_finite(done, sums, norm)
                if due or stopping:
                    self.save(done)
                if stopping or done == self.end:
                    self.state.written()
                if stopping:
                    by = f"signal {stop.signal}" if stop else "a signal to another process"
                    found = f"stopped by {by} after step {done:,} of {steps:,}"
                    raise Stopped(self.title, found, "", "everything is saved; run the same command to go on")
        done = max(self.first, self.end)
        return Trained(self.model.eval(), self.state.history, done, self.precision, self.continued, self.code)

    def begin_phase(self, step: int) -> None:
        """Read rows of the phase's length from here on; the first steps of a new shape compile and record it anew."""
        self.phase, self.begun = phase_at(self.phases, step), step
        rows = self.data.rows(self.phase.length, self.phase.batch)
        self.feed = Feed(rows, self.config, self.device, "noise", self.phase.batch)

    def train_step(self, step: int) -> tuple[dict[str, Tensor], Tensor]:
        """One update, of the step counted from 0; (sums over this process's slices, gradient norm before clipping)."""
        seed, stage = self.config.pretrain.seed, self.stage(step)
        if stage == "discriminator" and step == self.steps // 2:
            self.model.start_second_stage()
        set_rate(self.state.optimizer, rate(self.config, step, self.steps))
        batch = self.feed.batch(step)
        parts = [part(batch, index, self.slices) for index in self.mine]
        sums, norm = self.step(parts, [derive(seed, "dropout", step, index) for index in self.mine], stage)
        add_sums(self.state.sums["log"], {**sums, "grad_norm": norm * self.step.once})
        add_sums(self.state.sums["eval"], sums)
        return sums, norm

    def stage(self, step: int) -> str:
        """Which networks learn at a step; after the last one, as at it."""
        return stage_of(self.config, min(step, self.steps - 1), self.steps)

    def is_due(self, done: int, what: Literal["save", "eval"], last: float) -> bool:
        """Whether to save or evaluate: every so many steps, but no sooner than its interval after `last`."""
        settings = self.config.pretrain
        every, minutes = getattr(settings, f"{what}_every"), getattr(settings, f"min_{what}_interval_minutes")
        late = time.monotonic() - last >= minutes * 60
        return done == self.steps or (done % every == 0 and self.world.any_rank(late))

    def notify(self, sentence: str) -> None:
        """Print a line from the main process alone."""
        if self.world.main:
            print(f"{self.title}: {sentence}", file=sys.stderr, flush=True)

    # ── log, evaluate ──

    def log(self, done: int) -> float:
        """Means since the last time this was asked; returns the loss."""
        sums = read_sums(self.world.all_reduce_sum(self.state.sums["log"]))
        seconds, self.clock = time.monotonic() - self.clock, time.monotonic()
        shown = {"loss": sums["loss"] / sums["count"], "grad_norm": sums["grad_norm"] / sums["count"], **metrics(sums)}
        shown["learning_rate"] = rate(self.config, done - 1, self.steps)
        shown["tokens_per_second"] = (self.spent(done)["tokens"] - self.spent(self.logged)["tokens"]) / seconds
        self.send(done, {f"train/{name}": value for name, value in shown.items()})
        self.state.sums["log"], self.logged = {}, done
        return shown["loss"]

    def evaluate(self, done: int) -> None:
        """Add the metrics of held-out rows, and the mean training loss since the last evaluation, to the history."""
        count, stage = self.config.pretrain.eval_batches, self.stage(done)
        slices = (part(self.held_out.batch(i), k, self.slices) for i in range(count) for k in self.mine)
        numbers = evaluate(self.model, ((batch, stage) for batch in slices), count, self.world, self.step.map)
        record = {**self.spent(done), **numbers}
        if self.state.sums["eval"]:
            sums = read_sums(self.world.all_reduce_sum(self.state.sums["eval"]))
            record["train_loss"] = sums["loss"] / sums["count"]
        self.state.record(record)
        self.send(done, {f"valid/{name}": value for name, value in numbers.items()})
        self.warn_of_weakness(done, record)
        if done:
            self.evaluated = self.clock = time.monotonic()
            self.state.sums["eval"], self.logged = {}, done

    def send(self, done: int, numbers: dict[str, float]) -> None:
        """Hand numbers to the listener of the main process."""
        if self.world.main:
            self.listener(done, numbers)

    def spent(self, done: int) -> dict[str, Any]:
        """Steps, tokens (padding apart, by the rows' mean) and FLOPs so far, across a change of settings in mid-run."""
        since: dict[str, Any] = self.continued[-1] if self.continued else {"step": 0, "tokens": 0, "flops": 0.0}
        steps = {phase: phase.steps(since["step"], done) for phase in self.phases}
        tokens = since["tokens"] + round(sum(count * self.tokens[phase] for phase, count in steps.items()))
        flops = since["flops"] + sum(count * self.flops[phase] for phase, count in steps.items())
        return {"step": done, "tokens": tokens, "flops": flops}

    def warn_of_weakness(self, done: int, record: dict[str, Any]) -> None:
        """Say once, not at every look, and not before it can have learnt, that the discriminator has not."""
        stage = self.stage(done)
        warm = self.config.pretrain.warmup + (self.steps // 2 if stage == "discriminator" else 0)
        due = done == self.steps or (done > warm and record["tokens"] > PLATEAU)
        found = weakness(record, self.data.train.tokens) if stage != "generator" and due else ""
        if found and not self.warned:
            self.notify(f"WARNING at step {done:,}: {found}")
        self.warned = bool(found)

    # ── save, refuse ──

    def save(self, done: int) -> None:
        """Write a checkpoint."""
        progress = {
            **self.spent(done),
            "precision": self.precision,
            "config": plain(self.config),
            "processes": self.world.size,
            "stage": self.stage(done),
            "history": self.state.history,
            "continued": self.continued,
            "code": self.code,
        }
        self.state.save(done, progress, self.config.pretrain.keep_checkpoints)
        self.saved = time.monotonic()

    def require_finite(self, done: int, sums: dict[str, Tensor], norm: Tensor) -> None:
        """Stop at a step whose loss or gradient is not finite; what replays it is left beside the last checkpoint."""
        if not self.step.bad.item():
            return
        bundle = {
            "step": done,
            "finite_until": self.logged,
            "slices": self.slices,
            "precision": self.precision,
            "fingerprint": self.fingerprint,
            "seed": self.config.pretrain.seed,
            "config": plain(self.config),
            "loss": str(read_sums(self.world.all_reduce_sum(sums)).get("loss")),
            "gradient_norm": str(norm.item()),
        }
        refuse_nonfinite(self.run, bundle, write=self.world.main)
