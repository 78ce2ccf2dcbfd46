"""Fine-tune a model on GLUE and SQuAD, pre-training it first if it is not there."""

from prefect import flow

from pipelines.flows import steps


@flow(name="finetune", flow_run_name="finetune {model}")
def finetune(model: str = "tiny", hours: float | None = None) -> dict[str, str]:
    """GLUE and SQuAD from the pre-trained model and from scratch."""
    steps.check(model)
    with steps.parent_run("finetune", model) as parent:
        return {stage: steps.run_stage(stage, model, parent, hours) for stage in ("pretrain", "glue", "squad")}
