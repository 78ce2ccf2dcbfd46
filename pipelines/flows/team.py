"""All stages of one model on as many machines as there are: `prefect deployment run team/electra-base`.

    tokens, tasks (cpu) -> pre-training (gpu) -> each GLUE, each SQuAD (gpu) -> all results and the report (cpu)
                        -> each ablation (gpu)                               ->

Each is a flow run of its own (`part`), done by whichever worker of its queue is free; results go through the store.
One that fails stops only what needs it. This flow only waits, in a pool of its own, so that it takes no worker from its
parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Cancelling
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines.flows import shutdown, steps
from pipelines.flows.lease import POLL, WHOLE_CANCELLED
from pipelines.flows.training import Model, stages_of
from pipelines.runtime.dvc_runner import StageFailed
from pipelines.runtime.workspace import Request

PART = "part/electra"
WHOLE = "results"  # the last part
TRAINING = {"pretrain", "glue", "squad", "ablation"}  # stages for the queue that the run names
Future = PrefectFuture[None]


def server_gone(_task: Any, _run: Any, state: Any) -> bool:
    """Prefect's server did not answer: the part goes on without it, and this asks again."""
    return shutdown.unreachable(state.result(raise_on_failure=False))


WAITS = steps.ONCE | {"retries": 1_000_000, "retry_delay_seconds": POLL, "retry_condition_fn": server_gone}


@task(name="away", task_run_name="{part}", **WAITS)
def away(part: str, stages: Sequence[str], queue: str, given: dict[str, Any]) -> None:
    """Have a worker of a queue do some stages, and wait for it. Asked for again, it is the same flow run."""
    parameters = {**given, "stages": list(stages), "part": "" if part == WHOLE else part}
    title = Request(given["model"], given["commit"], tuple(given["settings"].items()), parameters["part"])
    done: Any = run_deployment(
        PART,
        parameters=parameters,
        flow_run_name=f"part {title}",  # while it waits; running, it gives itself the same name
        idempotency_key=f"{flow_run.id} {part}",
        work_queue_name=queue,
        tags=flow_run.tags,
        poll_interval=POLL,
    )
    if done.state is None or not done.state.is_completed():
        raise StageFailed(part, f"did not end well: {done.state and done.state.message}", 1)


@flow(name="team", flow_run_name=steps.run_title, task_runner=ThreadPoolTaskRunner(max_workers=1000))  # type: ignore[arg-type]
def team(
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
    queue: Literal["gpu", "cpu"] = "gpu",
) -> list[str]:
    """Every stage of a model in flow runs of their own; `hours` limits each stage.

    Training is done by workers of `queue`. `commit`, `settings`: docs/team.md.
    """
    request = Request.read(model, commit or "HEAD", settings, "team")
    with steps.begun("team", request, hours, {}) as running:
        given: dict[str, Any] = {"model": model, "hours": hours, "nproc_per_node": nproc_per_node}
        given |= {"commit": request.commit, "settings": dict(request.settings), "parent": running.parent}
        wanted, sent = stages_of("workflow", model, running.params), dict[str, Future]()

        def send(part: str, stages: Sequence[str] = ()) -> Future:
            if part not in sent:
                after = [send(each) for each in needs(part, wanted[0], running.params)]
                where = queue if part.partition("@")[0] in TRAINING else "cpu"
                sent[part] = away.submit(part, stages or [part], where, given, wait_for=after, return_state=False)
            return sent[part]

        for stage in wanted:
            if stage != "report":
                send(stage)
        failed = [stage for stage in wanted if stage != "report" and not well(send(stage))]
        whole = [stage for stage in wanted if stage not in {*failed, "report"}] if failed else wanted
        if whole and not well(send(WHOLE, whole)):
            raise StageFailed(WHOLE, "did not end well; the page of its flow run says why", 1)
        if failed:
            count = f"{len(failed)} of {len(failed) + len(whole)}"
            raise StageFailed(str(request), f"{count} parts failed: {', '.join(failed)}; start it again", 1)
        return whole


@team.on_cancellation  # type: ignore[arg-type]
def cancel_parts(_flow: Any, run: FlowRun, _state: Any) -> None:
    """A run that is cancelled cancels its parts: its worker calls this, for those that wait or run."""
    unfinished = {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING", "PAUSED"]}}
    own = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [run.id]}, "state": unfinished})
    with get_client(sync_client=True) as client:
        while parts := client.read_flow_runs(flow_run_filter=own):  # 200 at a time
            for part in parts:
                client.set_flow_run_state(part.id, Cancelling(message=WHOLE_CANCELLED))


def needs(stage: str, first: str, params: Mapping[str, Any]) -> list[str]:
    """The stages that a stage reads. `first` makes the model."""
    kind, _, name = stage.partition("@")
    if kind == "pretrain":
        return [f"tokens@{params['models'][name]['tokens']}"]
    if kind in {"glue", "squad"}:
        return [first, f"tasks@{params['finetunings'][name]['tasks']}"]
    if kind == "ablation":
        ablation = params["ablations"][name]
        return [f"tokens@{ablation['tokens']}", f"tasks@{ablation['data']}"]
    return []


def well(future: Future) -> bool:
    """Wait for a part; whether it has ended well."""
    future.wait()
    return future.state.is_completed()
