"""Pre-train a model: `prefect deployment run pretrain/electra-tiny`, or here: `python -m pipelines flow pretrain tiny`."""

from prefect import flow

from pipelines.flows import steps


@flow(name="pretrain", flow_run_name="pretrain {model}")
def pretrain(model: str = "tiny", hours: float | None = None) -> str:
    """Corpus, tokens and pre-training of a model, as far as they are out of date; `hours` limits each stage."""
    steps.check(model)
    with steps.parent_run("pretrain", model) as parent:
        return steps.run_stage("pretrain", model, parent, hours)
