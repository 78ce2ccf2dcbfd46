"""The kinds of task there are, and which one a task is of."""

from electra.finetuning.classification import Classification
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.tagging import Tagging
from electra.finetuning.task_kind import TaskKind
from electra.finetuning.tasks import SquadTask, Task

CLASSIFICATION, TAGGING, SQUAD = Classification(), Tagging(), QuestionAnswering()
ARCHITECTURES: dict[str, TaskKind] = {kind.architecture: kind for kind in (CLASSIFICATION, TAGGING, SQUAD)}


def kind_of(task: Task) -> TaskKind:
    """The kind of a task."""
    if isinstance(task, SquadTask):
        return SQUAD
    return TAGGING if task.tagging else CLASSIFICATION
