"""What a job is: one arm of one task with one seed, everything that its result depends on, and where it goes."""

from dataclasses import dataclass
from pathlib import Path

from electra.finetuning.tasks import DIAGNOSTIC, SQUAD, FinetuneConfig, Task


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to compute and where to leave it."""

    task: str  # a name in GLUE, or squad1, squad2
    facts: Task | None  # of every task but SQuAD
    arm: str
    seed: int
    rows: Path  # folder of the task's splits
    model: Path  # Hugging Face folder: weights, config.json, tokenizer; the scratch arm takes all but the weights
    config: FinetuneConfig  # of this arm
    folder: Path
    fingerprint: str
    start: Path | None = None  # folder of the fine-tuned model to start from instead of `model`'s weights
    keep: bool = False  # leave the fine-tuned model, too
    candidates: bool = False  # SQuAD: leave what an ensemble of seeds needs, too
    data: str = ""  # digest of the rows
    tokenizer: str = ""  # sha256 of its file
    inputs: tuple[tuple[Path, str], ...] = ()  # every file that is read, with its sha256 when planned
    cost: float = 0.0  # estimate for the order of jobs, in bytes of training rows read
    device: str = "cpu"
    together: tuple[int, ...] = ()  # seeds that are trained with it in one stack of weights; empty: it is trained alone

    @property
    def place(self) -> str:
        """The folder of its predictions within a stage's: the task's name, or SQuAD's version."""
        return next((version for version, task in SQUAD.items() if task == self.task), self.task)

    @property
    def name(self) -> str:
        """`cola-pretrained-seed1`."""
        return f"{self.task}-{self.arm}-seed{self.seed}"


def splits_of(facts: Task | None, config: FinetuneConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that are scored, of which the first counts, and those that are predicted only."""
    if facts is None:
        return ("dev",), ()
    tests = *(split.replace("dev", "test") for split in facts.evaluation), *DIAGNOSTIC.get(facts.name, ())
    return facts.evaluation, tests if config.test else ()
