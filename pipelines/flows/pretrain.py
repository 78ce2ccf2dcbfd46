"""Pre-train a model: `prefect deployment run pretrain/electra-tiny`, or here: `python -m pipelines flow pretrain tiny`."""

from prefect import flow

from pipelines.flows import steps


@flow(name="pretrain", flow_run_name="pretrain {model}")
def pretrain(model: str = "tiny", hours: float | None = None, nproc_per_node: int = 1) -> str:
    """Corpus, tokens and pre-training of a model, as far as they are out of date; `hours` limits each stage.

    `nproc_per_node`: processes that pre-train together, one for each GPU of the machine.
    """
    steps.check(model)
    with steps.parent_run("pretrain", model) as parent:
        return steps.run_stage("pretrain", model, parent, hours, nproc_per_node=nproc_per_node)
