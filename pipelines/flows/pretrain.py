"""Pre-train a model: `prefect deployment run pretrain/electra-tiny`, or here `python -m pipelines flow pretrain X`."""

from typing import Any

from prefect import flow

from pipelines.flows import steps
from pipelines.flows.choice import Model
from pipelines.runtime.processes import Layout
from pipelines.runtime.workspace import Request


@flow(name="pretrain", flow_run_name=steps.named)
def pretrain(
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    nnodes: int = 1,
    rdzv_endpoint: str = "",
    max_restarts: int = 0,
    joins: bool = False,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
) -> str:
    """Corpus, tokens and pre-training of a model, as far as they are out of date; `hours` limits each stage.

    `nproc_per_node`: processes that pre-train together, one for each GPU of the machine. `nnodes` machines meet at
    `rdzv_endpoint`, each with a flow run of its own: one brings the stages up to date, the others have `joins`.
    `max_restarts`: times that all processes begin again when one dies.

    A run is of a `commit` with `settings` of its own ({"models.base.pretrain.steps": 1000}), in a checkout of its own
    (docs/team.md); without a commit, and on several machines, it takes place in the checkout
    that they share, as it stands.
    """
    given = {"nproc_per_node": nproc_per_node, "nnodes": nnodes, "max_restarts": max_restarts}
    layout = Layout.read(given | {"rdzv_endpoint": rdzv_endpoint})
    if joins:
        return steps.join_stage("pretrain", model, hours, layout)
    with steps.begun("pretrain", Request.read(model, "" if nnodes > 1 else commit, settings), hours) as running:
        return steps.run_stage("pretrain", model, running, layout=layout)
