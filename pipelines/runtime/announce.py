"""The line that a run says once its first steps are done: what it runs on, in which way, and how long it will take."""

import sys
import time

import torch

from electra.devices import driver_version
from electra.optim.cuda_graphs import can_record
from electra.pretraining.config import PretrainConfig
from electra.pretraining.dataloader import Feed
from electra.pretraining.distributed import World
from electra.pretraining.step import SETTLED, Step, lacks_to_compile
from electra.pretraining.trainer import Trainer
from pipelines.runtime.cost import duration

TIMED = 5  # steps that the estimate is made from


class Announcer:
    """Prints the line in each phase of a run, once its pace is known: the mean over `TIMED` steps by the clock."""

    def __init__(self) -> None:
        self._clock = 0.0

    def __call__(self, trainer: Trainer, done: int) -> None:
        """After the step `done` of this process."""
        count, settled = done - trainer.begun, SETTLED if trainer.device.type == "cuda" else 1
        if count not in {settled, settled + TIMED}:
            return
        if trainer.device.type == "cuda":  # the host runs ahead of it
            torch.cuda.synchronize(trainer.device)
        if count == settled:
            self._clock = time.monotonic()
            return
        pace, phase, of = (time.monotonic() - self._clock) / TIMED, trainer.phase, len(trainer.phases)
        number, left = trainer.phases.index(phase) + 1, min(phase.last, trainer.end) - done
        title = f"{trainer.title}, phase {number} of {of} (rows of {phase.length})" if of > 1 else trainer.title
        line = announce(trainer.config.pretrain, trainer.world, trainer.step, trainer.feed, pace, left)
        print(f"{title}: {line}", file=sys.stderr, flush=True)


def announce(settings: PretrainConfig, world: World, step: Step, feed: Feed, pace: float, left: int) -> str:
    """`pace` is seconds a step, `left` the steps to go."""
    parts = [_device(world, settings), f"torch {torch.__version__}", step.precision]
    if world.device.type == "cuda":
        gigabytes = feed.nbytes / 1e9
        parts += [_compiled(settings), _recorded(settings, step)]
        parts += [f"rows {'on the GPU' if feed.resident else 'streamed from the disk'} ({gigabytes:.2g} GB)"]
        parts += ["deterministic"] if settings.deterministic else []
    return f"{', '.join(parts)}; {feed.tokens / pace:,.0f} tokens/s, {left:,} steps in about {duration(pace * left)}"


def _device(world: World, settings: PretrainConfig) -> str:
    if world.device.type != "cuda":
        return f"{world.size} processes of {_threads(settings)}" if world.size > 1 else f"CPU with {_threads(settings)}"
    version = driver_version()
    driver = f" (driver {version})" if version else ""
    count = f"{world.size} × " if world.size > 1 else ""
    return f"{count}{torch.cuda.get_device_name(world.device)}{driver}"


def _threads(settings: PretrainConfig) -> str:
    return f"{settings.threads} thread{'s' * (settings.threads > 1)}"


def _compiled(settings: PretrainConfig) -> str:
    if settings.compile == "off":
        return "not compiled (pretrain.compile: off)"
    return f"not compiled (no {lacking})" if (lacking := lacks_to_compile()) else "compiled"


def _recorded(settings: PretrainConfig, step: Step) -> str:
    if step.record:
        return "recorded"
    reason = "pretrain.compile: off" if settings.compile == "off" else "it failed" if can_record() else "ROCm"
    return f"not recorded ({reason})"
