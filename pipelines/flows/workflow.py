"""The whole road for one model: pre-training, GLUE, SQuAD, its ablations, the report."""

from typing import Any

from prefect import flow

from pipelines.flows import steps
from pipelines.flows.choice import Model
from pipelines.runtime.processes import Layout
from pipelines.runtime.workspace import Request


@flow(name="workflow", flow_run_name=steps.named)
def workflow(
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
) -> dict[str, str]:
    """Every stage of a model, as far as it is out of date; the report if params.yaml `run` names the model.

    `nproc_per_node` is the pre-training's. `commit`, `settings`: docs/team.md.
    """
    with steps.begun("workflow", Request.read(model, commit, settings), hours) as running:
        done = steps.run_finetunings(model, running, Layout(nproc_per_node))
        for name, ablation in running.params["ablations"].items():
            if ablation["model"] == model:
                done[name] = steps.run_stage("ablation", name, running)
        if model in running.params["run"]["models"]:
            done["report"] = steps.run_stage("report", "", running)
    return done
