"""Fine-tune a model on GLUE and SQuAD, pre-training it first if it is not there."""

from typing import Any

from prefect import flow

from pipelines.flows import steps
from pipelines.flows.choice import Model
from pipelines.runtime.processes import Layout
from pipelines.runtime.workspace import Request


@flow(name="finetune", flow_run_name=steps.named)
def finetune(
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
) -> dict[str, str]:
    """GLUE and SQuAD from the pre-trained model and from scratch; `nproc_per_node` is the pre-training's.

    `commit`, `settings`: docs/team.md.
    """
    with steps.begun("finetune", Request.read(model, commit, settings), hours) as running:
        return steps.run_finetunings(model, running, Layout(nproc_per_node))
