"""Pre-train and fine-tune every arm of the ablations of a model."""

from typing import Any

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines.flows import steps
from pipelines.flows.choice import Model
from pipelines.runtime.workspace import Request


@flow(name="ablations", flow_run_name=steps.named, task_runner=ThreadPoolTaskRunner(max_workers=1))  # type: ignore[arg-type]
def ablations(
    model: Model = "tiny", hours: float | None = None, commit: str = "HEAD", settings: dict[str, Any] | None = None
) -> dict[str, str]:
    """All ablations of a model. What they share runs first and once; then each runs alone.

    `max_workers` of the task runner is how many run at the same time: one for each GPU.
    `commit`, `settings`: docs/team.md.
    """
    with steps.begun("ablations", Request.read(model, commit, settings), hours) as running:
        names = steps.ablations_of(model, running.params)
        for stage, name in shared(running.params, model):
            steps.run_stage(stage, name, running)
        runs = {name: steps.run_stage.submit("ablation", name, running, single=True) for name in names}
        for run in runs.values():
            run.wait()  # one that fails does not take the others with it
        return {name: run.result() for name, run in runs.items()}


def shared(params: dict[str, Any], model: str) -> list[tuple[str, str]]:
    """The stages that every ablation of a model reads from: two that both had to make them would block each other."""
    used = [each for each in params["ablations"].values() if each["model"] == model]
    return list(dict.fromkeys(pair for each in used for pair in (("tokens", each["tokens"]), ("tasks", each["data"]))))
