"""What a job is: one arm of one task with one seed, everything that its result depends on, and where it goes."""

from dataclasses import dataclass
from pathlib import Path

from electra.finetuning.tasks import DIAGNOSTIC, FinetuneConfig, Task


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to compute and where to leave it."""

    task: Task
    arm: str
    seed: int
    rows: Path  # folder of the task's splits
    model: Path  # Hugging Face folder: weights, config.json, tokenizer; the scratch arm takes all but the weights
    config: FinetuneConfig  # of this arm
    folder: Path
    fingerprint: str
    start: Path | None = None  # folder of the fine-tuned model to start from instead of `model`'s weights
    keep: bool = False  # leave the fine-tuned model, too
    candidates: bool = False  # leave what seeds that answer together need beside predictions, too
    data: str = ""  # digest of the rows
    tokenizer: str = ""  # sha256 of its file
    inputs: tuple[tuple[Path, str], ...] = ()  # every file that is read, with its sha256 when planned
    cost: float = 0.0  # estimate for the order of jobs, in bytes of training rows read
    device: str = "cpu"
    together: tuple[int, ...] = ()  # seeds that are trained with it in one stack of weights; empty: it is trained alone

    @property
    def name(self) -> str:
        """`cola-pretrained-seed1`."""
        return f"{self.task.name}-{self.arm}-seed{self.seed}"


def splits_of(task: Task, config: FinetuneConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that are scored, of which the first counts, and those that are predicted only."""
    tests = *(split.replace("dev", "test") for split in task.evaluation), *DIAGNOSTIC.get(task.name, ())
    return task.evaluation, tests if config.test else ()
