"""Some stages of a run that several machines share, in a checkout of their own: what `team` hands to a free worker."""

from typing import Any

from prefect import flow

from pipelines.flows import steps
from pipelines.flows.choice import Model
from pipelines.runtime.processes import Layout
from pipelines.runtime.workspace import Request


@flow(name="part", flow_run_name=steps.named)
def part(
    stages: list[str],
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
    part: str = "",
    parent: str | None = None,
) -> dict[str, str]:
    """`stages` (["glue@base"]) one after the other; what others have made comes from the store.

    `part` names it among the parts of a run, `parent` is the run in MLflow of the whole. Without `part` its results are
    saved as an experiment, as those of a run on one machine are.
    """
    with steps.begun("part", Request.read(model, commit, settings, part), hours, parent, sources=False) as running:
        layout = Layout(nproc_per_node)
        return {each: steps.run_stage(*each.partition("@")[::2], running, layout=layout) for each in stages}
