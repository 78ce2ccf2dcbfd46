"""The whole road for one model: pre-training, GLUE, SQuAD, its ablations, the report."""

from prefect import flow

from pipelines.flows import steps
from pipelines.processes import Layout


@flow(name="workflow", flow_run_name="workflow {model}")
def workflow(model: str = "tiny", hours: float | None = None, nproc_per_node: int = 1) -> dict[str, str]:
    """Every stage of a model, as far as it is out of date; the report if params.yaml `run` names the model.

    `nproc_per_node` is the pre-training's.
    """
    steps.check(model)
    params = steps.read_params()
    selected = params.run
    with steps.parent_run("workflow", model) as parent:
        done = {"pretrain": steps.run_stage("pretrain", model, parent, hours, layout=Layout(nproc_per_node))}
        done |= {stage: steps.run_stage(stage, model, parent, hours) for stage in ("glue", "squad")}
        for name, ablation in params.ablations.items():
            if ablation.model == model:
                done[name] = steps.run_stage("ablation", name, parent, hours)
        if model in selected.models:
            done["report"] = steps.run_stage("report", "", parent, hours)
    return done
