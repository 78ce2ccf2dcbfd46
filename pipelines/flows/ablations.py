"""Pre-train and fine-tune every arm of the ablations of a model."""

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines.flows import steps
from pipelines.params import Params


@flow(name="ablations", flow_run_name="ablations {model}", task_runner=ThreadPoolTaskRunner(max_workers=1))
def ablations(model: str = "tiny", hours: float | None = None) -> dict[str, str]:
    """All ablations of a model. What they share runs first and once; then each runs alone.

    `max_workers` of the task runner is how many run at the same time: one for each GPU.
    """
    names = steps.ablations_of(model)
    steps.check(model)
    with steps.parent_run("ablations", model) as parent:
        for stage, name in shared(steps.read_params(), model):
            steps.run_stage(stage, name, parent, hours)
        runs = {name: steps.run_stage.submit("ablation", name, parent, hours, single=True) for name in names}
        for run in runs.values():
            run.wait()  # one that fails does not take the others with it
        return {name: run.result() for name, run in runs.items()}


def shared(params: Params, model: str) -> list[tuple[str, str]]:
    """The stages that every ablation of a model reads from: two that both had to make them would block each other."""
    return [("tokens", params.models[model].tokens), ("tasks", params.models[model].tasks)]
