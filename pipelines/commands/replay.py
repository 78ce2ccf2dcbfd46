"""Replay a step that ended in NaN or infinity: from the last good checkpoint, step by step, in a temporary folder.

The record `runs/pretrain/<run>/nonfinite-step-N.json` holds the settings, the slices and the rows; everything random is
a function of the step. The run itself is not changed.
"""

import dataclasses
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from electra.config import build
from electra.data.order import row_indices
from electra.errors import BadInput, NonFinite
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import training_steps
from electra.pretraining.phases import phase_at, phases_of
from electra.pretraining.trainer import Launch
from electra.storage import checkpoint
from electra.storage.manifest import read_sealed
from electra.storage.run_dir import identity, intact
from pipelines.config.params import Params
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages import pretrain
from pipelines.stages.pretrain import ModelRows

NEVER = 10**9


def replay(name: str, params: Params) -> dict[str, Any]:
    """Replay the newest bundle of a model: the exact step, its loss, gradient norm and rows, and the losses before it.

    Raises NonFinite if it does not recur, and BadInput where there is nothing to replay or the run has changed since.
    """
    params.require("models", name)
    run = pretrain.run_folder(name, params)
    bundles = {int(re.findall(r"\d+", path.stem)[-1]): path for path in run.glob("nonfinite-step-[0-9]*.json")}
    if not bundles:
        raise BadInput(run, "holds no nonfinite-step-*.json", "a run that was stopped by NaN or infinity")
    path = bundles[max(bundles)]
    bundle = read_sealed(path, "remove it, or run the training again")
    config = build(ElectraConfig, bundle["config"], path.name)
    rows = ModelRows(params, params.models[name].tokens, config)
    owner = rows.fingerprint(config)
    if any(identity(of) != owner for of in (bundle, *intact(run).values())):
        raise BadInput(path, "is of other settings or data than those here", "the ones that it was made with")
    every: dict[str, Any] = {"log_every": 1, "eval_every": NEVER, "save_every": NEVER}
    alone = dataclasses.replace(config.pretrain, accumulate=bundle["slices"], **every)
    losses: dict[int, float] = {}

    def log(step: int, numbers: dict[str, float]) -> None:
        if "train/loss" in numbers:
            losses[step] = numbers["train/loss"]

    with tempfile.TemporaryDirectory(prefix="electra-replay-") as folder:
        copy = Path(folder) / "run"
        for step in checkpoint.steps(run):
            shutil.copytree(run / f"step-{step}", copy / f"step-{step}")
        settings = dataclasses.replace(config, pretrain=alone)
        try:
            rows.train(settings, copy, log=log, launch=Launch(title=f"replay {name}", bar=ProgressBar), owner=owner)
        except NonFinite:
            (again,) = copy.glob("nonfinite-step-*.json")
            found = read_sealed(again)
        else:
            raise NonFinite(path, "did not come again", f"step {bundle['step']}", "suspect the machine, or torch")
    step = found["step"]
    steps = training_steps(config, rows.tokenizer.vocab_size)
    phase = phase_at(phases_of(config.pretrain, steps), step - 1)
    read = rows.others.get(phase.length, rows.train_rows)
    chosen = row_indices(config.pretrain.seed, step - 1, phase.batch, len(read))
    seen = {key: found[key] for key in ("checkpoint", "step", "loss", "gradient_norm")}
    before = {step: losses[step] for step in sorted(losses)[-5:]}
    return {"bundle": str(path), **seen, "losses_before": before, "rows": chosen.tolist()}
