"""Fine-tune a model on GLUE and SQuAD, pre-training it first if it is not there."""

from prefect import flow

from pipelines.flows import steps
from pipelines.processes import Layout


@flow(name="finetune", flow_run_name="finetune {model}")
def finetune(model: str = "tiny", hours: float | None = None, nproc_per_node: int = 1) -> dict[str, str]:
    """GLUE and SQuAD from the pre-trained model and from scratch; `nproc_per_node` is the pre-training's."""
    steps.check(model)
    with steps.parent_run("finetune", model) as parent:
        done = {"pretrain": steps.run_stage("pretrain", model, parent, hours, layout=Layout(nproc_per_node))}
        return done | {stage: steps.run_stage(stage, model, parent, hours) for stage in ("glue", "squad")}
