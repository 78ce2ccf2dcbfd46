"""A run killed in its middle (SIGKILL) and started again, beside an undisturbed one, each in its own process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from electra.files import read_json, sha256_file, write_json
from electra.nn.huggingface import network_tensors
from electra.pretraining.config import PhaseConfig
from electra.pretraining.dataloader import Data
from electra.pretraining.model import Pretraining
from electra.pretraining.trainer import Launch, pretrain
from pipelines.commands.gpu_check.sample import SPECIAL, MadeUpRows, networks, record, size

SAVED, KILLED, CLOSE = 20, 30, 0.02  # steps; and by how much losses may differ where sums have no fixed order


def train(folder: Path, device: torch.device, *, deterministic: bool = False, die: bool = False) -> None:
    """The run, to its end or until it kills itself."""
    shape = networks(device)["modern, all"] if device.type == "cuda" and not deterministic else size(device)
    often: dict[str, Any] = {"save_every": SAVED, "log_every": KILLED - SAVED, "eval_every": KILLED, "eval_batches": 2}
    lengths = shape.config.pretrain.length // 2, shape.config.pretrain.length
    phases = tuple(PhaseConfig(length=length, share=0.5) for length in lengths)
    changes = often | {"deterministic": deterministic, "phases": phases, "accumulate": 2}
    config = replace(shape.config, pretrain=replace(shape.config.pretrain, **changes))

    def log(step: int, numbers: dict[str, float]) -> None:
        if die and step == KILLED:
            wait_for(folder / f"step-{SAVED}")
            os.kill(os.getpid(), signal.SIGKILL)

    counts = zip((512, 512, 64), (*lengths, lengths[1]), strict=True)
    short, train, valid = (MadeUpRows(count, length, shape.vocab_size) for count, length in counts)
    data = Data(train, valid, SPECIAL, shape.vocab_size, others={lengths[0]: short})
    trained = pretrain(config, data, folder, {}, log=log, launch=Launch(device=device))
    newest = folder / f"step-{config.pretrain.steps}"
    write_json(folder / "export.json", exports_what_is_saved(trained.model, newest))


def exports_what_is_saved(model: Pretraining, step: Path) -> bool:
    """Whether every tensor of the exported networks is that of a checkpoint, bit for bit."""
    saved = Pretraining(model.config, model.vocab_size, model.special)
    weights = load_file(step / "model.safetensors")
    for name, parameter in saved.named_parameters():
        parameter.data = weights[name]
    ours, theirs = ({name: network_tensors(*of) for name, of in one.networks().items()} for one in (model, saved))
    pairs = [(tensor, theirs[name][key]) for name, tensors in ours.items() for key, tensor in tensors.items()]
    return all(one.dtype == other.dtype and torch.equal(one.cpu(), other) for one, other in pairs)


def wait_for(path: Path, seconds: float = 60) -> None:
    """On a GPU checkpoints are written by another thread."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def check(device: torch.device, folder: Path) -> list[dict[str, Any]]:
    """A record for each kind of run that the device has."""
    gpu = device.type == "cuda"
    kinds = {"deterministic": True, "default": False} if gpu else {"default": False}
    return [compare(device, folder / name, deterministic=kind, exact=kind or not gpu) for name, kind in kinds.items()]


def compare(device: torch.device, folder: Path, *, deterministic: bool, exact: bool) -> dict[str, Any]:
    """Kill and resume beside an undisturbed run; `exact`: bytes must be equal."""
    more = ["deterministic"] if deterministic else []
    start(device, folder / "whole", more)
    start(device, folder / "killed", [*more, "die"], code=-signal.SIGKILL)
    reached = max((int(path.name.removeprefix("step-")) for path in (folder / "killed").glob("step-*")), default=0)
    start(device, folder / "killed", more)
    newest = f"step-{size(device).config.pretrain.steps}"
    ends = [folder / kind / newest for kind in ("whole", "killed")]
    files = ("model.safetensors", "optimizer.safetensors")
    equal = all(len({sha256_file(end / file) for end in ends}) == 1 for file in files)
    whole, killed = (read_json(end / "progress.json")["history"][-1]["loss"] for end in ends)
    apart = abs(whole - killed) / max(abs(whole), 1e-9)
    exported = all(read_json(folder / kind / "export.json") for kind in ("whole", "killed"))
    found = f"resumed at step {reached}; {'the same bytes' if equal else f'held-out loss differs by {apart:.1e}'}"
    found += "; exports what it saved" if exported else "; exports other weights than it saved"
    expected = f"step {SAVED}; {'the same bytes' if exact else f'at most {CLOSE:.0e}'}; what it saved"
    right = reached == SAVED and (equal if exact else apart <= CLOSE) and exported
    return record(" ".join(["resume:", device.type, *more]), found, expected, right, losses=[whole, killed])


def start(device: torch.device, folder: Path, more: Sequence[str], code: int = 0) -> None:
    """One process of the run, which must end with this code."""
    command = [sys.executable, "-m", "pipelines.commands.gpu_check", "train", device.type, str(folder), *more]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != code:
        raise RuntimeError(f"a run ended with {done.returncode}, not {code}: {done.stderr.strip()[-500:]}")
