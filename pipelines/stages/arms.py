"""One arm of an ablation with one seed: pre-train it, keep its encoder, fine-tune it on the tasks.

An arm's folder is named after its settings and data, so that ablations which share an arm share its
training. Once trained it holds `point-<fraction>/` (encoders: the end is 1) and arm.json;
checkpoints are removed.

    runs/arm/<fingerprint>/run-50/    checkpoints, while it trains, every 50 steps
    runs/arm/<fingerprint>/point-1/   a Hugging Face folder
    runs/arm/<fingerprint>/tasks/     fine-tunings, each a finished folder (pipelines/finetuning_runs/plan.py)
"""

import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from electra.card import model_card
from electra.config import digest, plain
from electra.data.tokenizer import read_files
from electra.devices import default_device, use_own_gpu
from electra.errors import BadConfig, NonFinite, UserError
from electra.files import remove
from electra.finetuning.tasks import FinetuneConfig
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, verify_folder, write_folder
from electra.pretraining.config import ElectraConfig, of_config
from electra.pretraining.phases import positions
from electra.pretraining.trainer import Launch, Trained
from electra.storage import run_dir
from electra.storage.manifest import read_sealed, verify_manifest, write_sealed
from electra.storage.tensors import read_tensors, require_fit
from pipelines.config.params import Params
from pipelines.finetuning_runs.plan import Plan, run_all
from pipelines.runtime.announce import Announcer
from pipelines.runtime.progress_bar import ProgressBar
from pipelines.stages import FINETUNING, PRETRAINING
from pipelines.stages.pretrain import ModelRows
from pipelines.versioning.code import digest_of

Result = dict[str, Any]
END = 1.0


@dataclass(frozen=True)
class Arm:
    """One pre-training and what follows it. `points`: fractions of the run whose encoders are kept
    besides the end.
    """

    name: str
    seed: int
    config: ElectraConfig
    tokens: str
    points: tuple[float, ...] = ()

    @property
    def key(self) -> str:
        """A hash of the settings that bear on the result."""
        return digest(of_config(self.config), self.config.pretrain.init_from, self.tokens)

    @property
    def run(self) -> str:
        """The name of the run's folder while it trains: another ablation may ask for checkpoints at
        other steps.
        """
        return f"run-{self.config.pretrain.save_every}"

    @property
    def title(self) -> str:
        """`electra-seed1`."""
        return f"{self.name}-seed{self.seed}"

    def step(self, point: float) -> int:
        """The step at which a point is taken: of those with a checkpoint the nearest."""
        steps, every = self.config.pretrain.steps, self.config.pretrain.save_every
        assert isinstance(steps, int)
        return steps if point == END else max(1, round(steps * point / every)) * every


@dataclass(frozen=True)
class ArmTask:
    """One task's settings and rows, for every arm alike; `points`: fractions of the run at which it
    is measured.
    """

    name: str
    config: FinetuneConfig
    rows: Path
    points: tuple[float, ...] = (END,)


Unit = tuple[Arm, tuple[ArmTask, ...], Params]


def keeping(config: ElectraConfig, points: tuple[float, ...]) -> ElectraConfig:
    """The same training with checkpoints at (the nearest step to) every point, all of them kept."""
    steps = config.pretrain.steps
    if not points or not isinstance(steps, int):
        return config
    every = max(1, round(steps * min(points)))
    kept = max(2, math.ceil(steps / every) + 1)
    return replace(
        config, pretrain=replace(config.pretrain, save_every=every, keep_checkpoints=kept)
    )


def try_one(unit: Unit) -> Result | str:
    """Do one arm; a failure of its own (its settings, its numbers, its memory) becomes a sentence.

    A stop, damage, a full disk or an absent input is no result of the ablation, and ends the stage.
    """
    started = time.time()
    try:
        use_own_gpu()
        return {**do(*unit), "started": started, "ended": time.time()}
    except (BadConfig, NonFinite) as error:
        return str(error)
    except (UserError, OSError):
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def slots(workers: int) -> int:
    """Arms that run at the same time: one for each GPU, or one for each core that this process may
    use.
    """
    return torch.cuda.device_count() if torch.cuda.is_available() else workers


def do(arm: Arm, tasks: tuple[ArmTask, ...], params: Params) -> Result:
    """Train and fine-tune here whatever of it is not finished; scores by point and task, in points
    of 100.
    """
    rows = ModelRows(params, arm.tokens, arm.config)
    folder = run_dir.folder_of("arm", rows.fingerprint(arm.config))
    with run_dir.RunFolder(folder, patience=math.inf) as held:
        home, record = held.path, train(arm, rows, held)
        scores: dict[str, dict[str, float]] = {}
        faults, seen = [], {}
        device, code = default_device().type, digest_of(FINETUNING)
        for task in tasks:
            config = scored_only(task.config, arm.seed)
            for point in task.points:
                state = home / "tasks" / f"{point:g}"
                model = home / f"point-{point:g}"
                plan = Plan(
                    task.name,
                    config,
                    rows=task.rows,
                    model=model,
                    state=state,
                    device=device,
                    code=code,
                )
                (job,) = plan.jobs()
                (done,) = run_all([job], 1)
                scores.setdefault(f"{point:g}", {})[task.name] = done["metrics"][
                    job.task.metrics[0]
                ]
                seen[task.name] = done["train_rows"]
                if done["failed"] and point == END:  # before that it need not have learnt anything
                    faults.append(f"{task.name}, seed {arm.seed}: {done['failed']}")
    return {**record, "scores": scores, "faults": faults, "train_rows": seen}


def scored_only(config: FinetuneConfig, seed: int) -> FinetuneConfig:
    """A task's settings for one run of which only the dev scores count: no test sets, no model
    kept.
    """
    alike = {
        "test": False,
        "start": None,
        "keep": "none",
        "ensemble": False,
        "arms": ("pretrained",),
    }
    return replace(config, seeds=(seed,), **alike)  # type: ignore[arg-type]


def arm_folder(arm: Arm, params: Params) -> Path:
    """The folder of the run of an arm's settings and data."""
    return run_dir.folder_of(
        "arm", ModelRows(params, arm.tokens, arm.config).fingerprint(arm.config)
    )


def finished(arm: Arm, home: Path) -> Result | None:
    """The record of an arm that is trained by this code, with every point that it should have; else
    None.
    """
    try:
        record = read_sealed(home / "arm.json")
        if record["code"][-1][1] != digest_of(PRETRAINING):
            return None
        for point in (*arm.points, END):
            verify_folder(home / f"point-{point:g}", model=arm.key, part=f"point-{point:g}")
    except UserError as error:
        if (home / "arm.json").exists():
            print(f"warning: {error}; the arm is trained again", file=sys.stderr, flush=True)
        return None
    return record


def train(arm: Arm, rows: ModelRows, held: run_dir.RunFolder) -> Result:
    """Pre-train an arm and keep its encoders, or read what is there; what other code has finished
    is archived.
    """
    if record := finished(arm, held.path):
        return record
    if (held.path / "arm.json").exists():
        why = "finished by other code, or damaged"
        print(
            f"{arm.title}: {why}, so trained again; the old one is {held.archive()}",
            file=sys.stderr,
            flush=True,
        )
    home, fingerprint = held.path, rows.fingerprint(arm.config)
    run_dir.name_run(home, arm.title, fingerprint)
    launch = Launch(title=arm.title, bar=ProgressBar, announce=Announcer())
    trained = rows.train(arm.config, home / arm.run, log=lambda step, numbers: None, launch=launch)
    facts = rows.facts(arm.config, trained)
    export(arm, home, trained, rows, END)
    for point in arm.points:
        export(arm, home, trained, rows, point)
    record = {key: facts[key] for key in ("steps", "flops", "parameters", "inference_flops")}
    record |= {"code": trained.code, "history": trained.history}
    record["points"] = {f"{point:g}": arm.step(point) for point in (*arm.points, END)}
    write_sealed(home / "arm.json", record)
    for run in home.glob("run-*"):
        remove(run)
    return read_sealed(home / "arm.json")  # in the file's order, as a second start finds it


@torch.no_grad()
def export(arm: Arm, home: Path, trained: Trained, rows: ModelRows, point: float) -> None:
    """Write the encoder of one point; for one before the end, its checkpoint is loaded into the
    trained network.
    """
    model = trained.model
    if point != END:
        folder = home / arm.run / f"step-{arm.step(point)}"
        verify_manifest(folder)
        tensors = read_tensors(folder / "model.safetensors", "run the ablation again")
        places = {name: parameter.detach() for name, parameter in model.named_parameters()}
        require_fit(places, tensors, folder, "run the ablation again")
        for name, place in places.items():
            place.copy_(tensors[name])
    seen = positions(arm.config.pretrain, arm.step(point), trained.steps)
    more = {"pad_token_id": rows.tokenizer.pad_id, "trained_positions": seen}
    settings = config_json(arm.config.encoder, rows.tokenizer.vocab_size, "ElectraModel", **more)
    card = {"data": rows.label, "recipe": plain(arm.config), "step": arm.step(point)}
    part, title = f"point-{point:g}", model_card(f"{arm.title}: encoder", "embed", card)
    tensors = encoder_tensors(model.discriminator.encoder, "")
    files = read_files(rows.folder, seen)
    write_folder(home / part, tensors, settings, files, title, model=arm.key, part=part)
