"""The whole road for one model on as many machines as there are: `prefect deployment run team/electra-base`.

    tokens, tasks (cpu) -> pre-training (gpu) -> each GLUE, each SQuAD (gpu)        -> all results and the report (cpu)
                        -> each arm and seed of each ablation (gpu) -> ablation (gpu) ->

Each is a flow run of its own (`part`), done by whichever worker of its queue is free; results go by the store.
One that fails stops only what needs it. This flow only waits, in a pool of its own, so that it takes no worker from its
parts.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Cancelling
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines.flows import shutdown, steps
from pipelines.flows.choice import Model
from pipelines.flows.lease import POLL, WHOLE_CANCELLED
from pipelines.runtime import workspace
from pipelines.runtime.dvc_runner import StageFailed
from pipelines.runtime.workspace import Request

PART = "part/electra"
WHOLE = "results"  # the last part
PAGE = 200  # runs that Prefect's server tells at once
Future = PrefectFuture[str]
Send = Callable[..., Future]
Arm = tuple[str, Future]  # its stage, arm@table5/electra-seed1, and what becomes of it


def server_gone(_task: Any, _run: Any, state: Any) -> bool:
    """Prefect's server did not answer: the part goes on without it, and is asked for again."""
    return shutdown.unreachable(state.result(raise_on_failure=False))


@task(
    name="away",
    task_run_name="{part}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=1_000_000,
    retry_delay_seconds=POLL,
    retry_condition_fn=server_gone,
)
def away(part: str, stages: Sequence[str], queue: str, given: dict[str, Any]) -> str:
    """Have a worker of a queue do some stages, and wait for it. What this flow run has asked for before is the same."""
    asked = {**given, "stages": list(stages), "part": "" if part == WHOLE else part}
    title = Request(given["model"], given["commit"], tuple(given["settings"].items()), asked["part"])
    done: Any = run_deployment(
        PART,
        parameters=asked,
        flow_run_name=f"part {title}",  # while it waits: then it names itself, alike
        idempotency_key=f"{flow_run.id} {part}",
        work_queue_name=queue,
        tags=flow_run.tags,
        poll_interval=POLL,
    )
    if done.state is None or not done.state.is_completed():
        raise StageFailed(part, f"did not end well: {done.state and done.state.message}", 1)
    return part


@flow(name="team", flow_run_name=steps.named, task_runner=ThreadPoolTaskRunner(max_workers=1000))  # type: ignore[arg-type]
def team(
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
    queue: Literal["gpu", "cpu"] = "gpu",
) -> list[str]:
    """Every stage of a model in flow runs of their own; `hours` limits each stage.

    What trains is done by workers of `queue`. `commit`, `settings`: docs/team.md.
    """
    request = Request.read(model, commit or "HEAD", settings, "team")
    with steps.begun("team", request, hours, sources=False) as running:
        given: dict[str, Any] = {"model": model, "hours": hours, "nproc_per_node": nproc_per_node}
        given |= {"commit": request.commit, "settings": dict(request.settings), "parent": running.parent}

        def send(part: str, kind: str, after: Iterable[Future] = (), stages: Sequence[str] = ()) -> Future:
            where = queue if kind == "gpu" else kind
            return away.submit(part, stages or [part], where, given, return_state=False, wait_for=list(after))

        sent = send_all(model, running, send)
        ended = [part for part, future in sent.items() if well(future)]
        whole = [*ended, "report"] if len(ended) == len(sent) and model in running.params["run"]["models"] else ended
        if ended and not well(send(WHOLE, "cpu", stages=whole)):
            raise StageFailed(WHOLE, "did not end well; the page of its flow run says why", 1)
        if failed := [part for part in sent if part not in ended]:
            told = f"{len(failed)} of {len(sent)} parts failed: {', '.join(failed)}; start it again"
            raise StageFailed(str(request), told, 1)
        return whole


@team.on_cancellation  # type: ignore[arg-type]
def cancel_parts(_flow: Any, run: FlowRun, _state: Any) -> None:
    """A run that is cancelled takes its parts with it: its worker calls this, and asks for those that wait or run."""
    mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        for start in itertools.count(0, PAGE):
            parts = client.read_flow_runs(flow_run_filter=mine, limit=PAGE, offset=start)
            for part in parts:
                if part.state and not part.state.is_final():
                    client.set_flow_run_state(part.id, Cancelling(message=WHOLE_CANCELLED))
            if len(parts) < PAGE:
                return


def send_all(model: str, running: steps.Running, send: Send) -> dict[str, Future]:
    """Ask for every part whose results are the model's, each after what it reads."""
    params, read = running.params, dict[str, Future]()

    def data(*stages: str) -> list[Future]:
        for stage in stages:
            if stage not in read:
                read[stage] = send(stage, "cpu")
        return [read[stage] for stage in stages]

    if model in params["published"]:
        first = send(stage := f"published@{model}", "cpu")
    else:
        first = send(stage := f"pretrain@{model}", "gpu", data(f"tokens@{params['models'][model]['tokens']}"))
    sent = {stage: first}
    every, known = {}, dict[str, Arm]()
    for name, ablation in params["ablations"].items():
        if ablation["model"] == model:
            before = data(f"tokens@{ablation['tokens']}", f"tasks@{ablation['data']}")
            every[name] = before, send_arms(name, ablation, before, known, running, send)
    for name, each in params["finetunings"].items():
        if each["model"] == model:
            for stage in (f"glue@{name}", f"squad@{name}"):
                sent[stage] = send(stage, "gpu", [first, *data(f"tasks@{each['tasks']}")])
    for name, (before, arms) in every.items():  # an arm that failed is tried once more by the ablation, which notes it
        done: dict[str, list[str]] = {}
        for arm, future in arms:
            if well(future):
                ablation, _, title = arm.partition("/")
                done.setdefault(ablation, []).append(title)
        together = [f"{ablation}/{','.join(titles)}" for ablation, titles in done.items()]
        sent[f"ablation@{name}"] = send(f"ablation@{name}", "gpu", before, [*together, f"ablation@{name}"])
    return sent


def send_arms(
    name: str, ablation: Any, before: list[Future], known: dict[str, Arm], running: steps.Running, send: Send
) -> list[Arm]:
    """Ask for every arm and seed of an ablation, but those that an earlier one has asked for: it is the same training.

    `known`: all that were asked for, by what their training depends on. Returns those of this ablation.
    """
    arms, found = workspace.params(running.place, name), []
    for seed in range(1, ablation["seeds"] + 1):
        for arm, settings in arms.items():
            training = [ablation[key] for key in ("tokens", "steps", "budget")]
            key = json.dumps([*training, settings, seed], sort_keys=True)
            if key not in known:
                known[key] = (stage := f"arm@{name}/{arm}-seed{seed}"), send(stage, "gpu", before)
            found.append(known[key])
    return found


def well(future: Future) -> bool:
    """Wait for a part; whether it has ended well."""
    future.wait()
    return future.state.is_completed()
