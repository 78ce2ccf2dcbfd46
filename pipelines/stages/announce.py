"""The line that a run prints after its first steps: its device, precision and speed."""

import math
import sys

import torch

from electra.devices import driver_version
from electra.errors import pluralize
from electra.pretraining.compiling import missing_for_compile
from electra.pretraining.config import PretrainConfig
from electra.pretraining.step import WARM_UP
from electra.pretraining.trainer import StepDone

SETTLED = WARM_UP + 2  # steps of a GPU after which nothing is compiled or captured any more
UNITS = (
    ("minutes", 60.0, 90),
    ("hours", 3600.0, 72),
    ("days", 86400.0, 1000),
    ("years", 365 * 86400.0, math.inf),
)


def announce(step: StepDone) -> None:
    """Print the line once in each phase, when a GPU has compiled and captured its step."""
    settled = SETTLED if step.world.device.type == "cuda" else 1
    if step.done - step.phase_start == settled:
        print(describe(step), file=sys.stderr, flush=True)


def describe(step: StepDone) -> str:
    """Return that line."""
    settings = step.settings
    title = step.title
    if len(step.phases) > 1:
        number = step.phases.index(step.phase) + 1
        title += f", phase {number} of {len(step.phases)} (rows of {step.phase.length})"
    parts = [_device(step), f"torch {torch.__version__}", step.precision]
    if step.world.device.type == "cuda":
        parts += [_compiled(settings), _captured(step)]
        parts += ["deterministic"] if settings.deterministic else []
    return f"{title}: {', '.join(parts)}"


def duration(seconds: float) -> str:
    """Return a duration to plan with: `3.5 hours`."""
    if seconds < 90:
        return "1 minute"
    unit, size = next((unit, size) for unit, size, most in UNITS if seconds < most * size)
    count = seconds / size
    return f"{count:.0f} {unit}" if count >= 10 or unit == "minutes" else f"{count:.1f} {unit}"


def _device(step: StepDone) -> str:
    world = step.world
    threads = pluralize(step.settings.threads, "thread")
    if world.device.type != "cuda":
        return f"{world.size} processes of {threads}" if world.size > 1 else f"CPU with {threads}"
    version = driver_version()
    driver = f" (driver {version})" if version else ""
    count = f"{world.size} × " if world.size > 1 else ""
    return f"{count}{torch.cuda.get_device_name(world.device)}{driver}"


def _compiled(settings: PretrainConfig) -> str:
    if settings.compile == "off":
        return "not compiled (pretrain.compile: off)"
    lacking = missing_for_compile()
    return f"not compiled (no {lacking})" if lacking else "compiled"


def _captured(step: StepDone) -> str:
    if step.captured:
        return "CUDA graphs"
    if step.settings.compile == "off":
        return "no CUDA graphs (pretrain.compile: off)"
    return f"no CUDA graphs ({'ROCm' if torch.version.hip else 'the capture failed'})"
