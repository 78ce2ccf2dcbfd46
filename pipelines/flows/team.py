"""All stages of one model on as many machines as there are: `prefect deployment run
team/electra-base`.

    tokens, tasks (cpu) -> pre-training (gpu) -> each GLUE, each SQuAD (gpu) -> the report (cpu)
                        -> each ablation (gpu)                               ->

Each is a flow run of its own (`part`), done by whichever worker of its queue is free; results go
through the store. One that fails stops only those that need it. One whose worker dies continues on
another. This flow only waits, in a pool of its own, so that it takes no worker from its parts.
Prefect's server cancels the parts of a run that is cancelled.
"""

import time
from collections.abc import Sequence
from typing import Any

from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.types._datetime import now

from pipelines.flows import server, steps
from pipelines.flows.training import Model, flow_stages, stage_inputs
from pipelines.stages.summarize import WITH_SCORES
from pipelines.versioning.dvc_runner import StageFailed
from pipelines.versioning.workspace import Request

PART = "part/electra"
WHOLE = "results"  # the last part
# seconds that a part may be crashed: deploy/automations gives it to another worker within a minute
CRASHED = 1200.0
Future = PrefectFuture[None]


def is_server_gone(_task: Any, _run: Any, state: Any) -> bool:
    """Return whether Prefect's server or its database did not answer: the part continues, and this
    asks again.
    """
    return server.has_failed(state.result(raise_on_failure=False))


WAITS = steps.ONCE | {
    "retries": 1_000_000,
    "retry_delay_seconds": server.POLL,
    "retry_condition_fn": is_server_gone,
}


@task(name="hand out", task_run_name="{part}", **WAITS)
def hand_out(
    part: str, stages: Sequence[str], queue: str, parent: str | None, model: str, given: Any
) -> None:
    """Run stages on a worker of a queue, and wait for it. A repeated request finds the same flow
    run.
    """
    name = "" if part == WHOLE else part
    run: Any = run_deployment(
        PART,
        parameters={
            "model": model,
            "stages": list(stages),
            "part": name,
            "parent": parent,
            "given": given,
        },
        flow_run_name=f"part {Request(model, given['commit'], given['settings'], name)}",
        idempotency_key=f"{flow_run.id} {part}",
        work_queue_name=queue,
        tags=flow_run.tags,
        timeout=0,
    )
    with get_client(sync_client=True) as client:
        while not has_ended(run):
            time.sleep(server.POLL)
            try:
                run = client.read_flow_run(run.id)
            except ObjectNotFound:
                raise StageFailed(f"{part}: its flow run was deleted") from None
    if not run.state.is_completed():
        raise StageFailed(f"{part}: did not end well: {run.state.message}")


def has_ended(run: FlowRun) -> bool:
    """Return whether a part is over: a crashed one continues on another worker unless it has died
    too often.
    """
    state = run.state
    if state is None or not state.is_final():
        return False
    waits = state.is_crashed() and run.run_count <= steps.LIVES
    return not waits or (now("UTC") - state.timestamp).total_seconds() > CRASHED


@flow(
    name="team",
    flow_run_name=steps.run_title,
    task_runner=ThreadPoolTaskRunner(max_workers=1000),  # type: ignore[arg-type]
)
def team(
    model: Model = "tiny",
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
    hours: float | None = None,
    nproc_per_node: int = 1,
) -> list[str]:
    """Run every stage of a model in flow runs of their own. `hours` limits each stage.

    Models in fp32 are trained by workers of the queue `cpu`, others by those of `gpu`.
    """
    request = Request.read(model, commit or "HEAD", settings, "team")
    with steps.opened_run("team", request, hours, nproc_per_node) as running:
        given = {"commit": request.commit, "settings": request.settings, "hours": hours}
        given["nproc_per_node"] = nproc_per_node
        pretraining = running.params["models"].get(model, {}).get("pretrain", {})
        queue = "cpu" if pretraining.get("precision") == "fp32" else "gpu"
        workflow = flow_stages("workflow", model, running.params)
        sent = dict[str, Future]()

        def send(part: str, stages: Sequence[str] = ()) -> Future:
            if part not in sent:
                after = [
                    send(stage)
                    for stage in stage_inputs(part, running.params)
                    if not stage.startswith("corpus@")
                ]
                where = queue if part.partition("@")[0] in WITH_SCORES else "cpu"
                work = (part, stages or [part], where, running.parent, model, given)
                sent[part] = hand_out.submit(*work, wait_for=after, return_state=False)
            return sent[part]

        stages = [stage for stage in workflow if stage != "report"]
        for stage in stages:
            send(stage)
        failed = [stage for stage in stages if not has_succeeded(send(stage))]
        done = [stage for stage in stages if stage not in failed] if failed else workflow
        if done and not has_succeeded(send(WHOLE, done)):
            raise StageFailed(f"{WHOLE}: did not end well; the page of its flow run says why")
        if failed:
            raise StageFailed(
                f"{request}: {len(failed)} of {len(stages)} parts failed: {', '.join(failed)}; "
                "start it again"
            )
        return done


def has_succeeded(future: Future) -> bool:
    """Wait for a part, and return whether it has succeeded."""
    future.wait()
    return future.state.is_completed()
