"""What a job is: one arm of one task with one seed, everything that its result depends on, and where it goes."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from electra.config import digest
from electra.finetuning.tasks import DIAGNOSTIC, FinetuneConfig, Task
from electra.nn.config import AnyEncoderConfig
from electra.storage.fingerprint import Code

MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to compute and where to leave it."""

    task: Task
    arm: str
    seed: int
    config: FinetuneConfig  # of this arm
    rows: Path  # folder of the task's splits
    splits: dict[str, str]  # sha256 of each, when planned
    model: Path  # Hugging Face folder: weights, config.json, tokenizer; the scratch arm takes all but the weights
    files: dict[str, str]  # sha256 of each of its files, when planned
    encoder: AnyEncoderConfig
    vocab_size: int
    state: Path
    cost: float  # estimate for the order of jobs, in bytes of training rows read
    code: Code = field(default_factory=dict)  # of the files that a result depends on
    device: str = "cpu"
    start: "Job | None" = None  # whose fine-tuned encoder to start from instead of `model`'s weights
    keep: bool = False  # leave the fine-tuned model, too
    candidates: bool = False  # leave what seeds that answer together need beside predictions, too

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that its result is a function of, code and torch apart (`made_by`)."""
        weights = self.files.get("model.safetensors") if self.arm == "pretrained" else None
        start = self.start.fingerprint if self.start else None
        run = (self.task, self.arm, self.seed, self.config, self.keep, self.candidates, self.device)
        model = (weights, start, self.tokenizer, self.encoder, self.vocab_size)
        return digest(*run, *model, self.splits)

    @property
    def made_by(self) -> str:
        """The version of the code and of torch: what is finished by another one is done anew."""
        return digest(self.code, torch.__version__)

    @property
    def tokenizer(self) -> str:
        """The sha256 of the tokenizer's file."""
        return self.files.get("tokenizer.json", "")

    @property
    def data(self) -> str:
        """A hash of the rows."""
        return digest(self.splits)

    @property
    def name(self) -> str:
        """`cola-pretrained-seed1`."""
        return f"{self.task.name}-{self.arm}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """Where its results go, by its settings and data alone."""
        return self.state / self.fingerprint[:8]

    @property
    def weights(self) -> Path:
        """The folder whose encoder it starts from."""
        return self.start.folder / MODEL if self.start else self.model


def splits_of(task: Task, config: FinetuneConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that are scored, of which the first counts, and those that are predicted only."""
    tests = *(split.replace("dev", "test") for split in task.evaluation), *DIAGNOSTIC.get(task.name, ())
    return task.evaluation, tests if config.test else ()
