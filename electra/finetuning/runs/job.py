"""What a job is: one arm of one task with one seed, everything that its result depends on, and where it goes."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from electra.config import digest
from electra.finetuning.tasks import DIAGNOSTIC, FinetuneConfig, Task
from electra.nn.config import AnyEncoderConfig

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
    code: str = ""  # hash of the source files that a result depends on
    device: str = "cpu"
    start: "Job | None" = None  # whose fine-tuned encoder to start from instead of `model`'s weights
    keep: bool = False  # leave the fine-tuned model, too
    candidates: bool = False  # leave what seeds that answer together need beside predictions, too

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that its result is a function of."""
        weights = self.files.get("model.safetensors") if self.arm == "pretrained" else None
        start = self.start.fingerprint if self.start else None
        run = (self.task, self.arm, self.seed, self.config, self.keep, self.candidates, self.device)
        model = (weights, start, self.tokenizer, self.encoder, self.vocab_size)
        return digest(*run, *model, self.splits, self.code, torch.__version__)

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
        """Where its results go. What was made of other settings, data or code stays for the day when they come back."""
        return self.state / self.task.name / f"{self.arm}-seed{self.seed}-{self.fingerprint[:8]}"

    @property
    def weights(self) -> Path:
        """The folder whose encoder it starts from."""
        return self.start.folder / MODEL if self.start else self.model


def splits_of(task: Task, config: FinetuneConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that are scored, of which the first counts, and those that are predicted only."""
    tests = *(split.replace("dev", "test") for split in task.evaluation), *DIAGNOSTIC.get(task.name, ())
    return task.evaluation, tests if config.test else ()
