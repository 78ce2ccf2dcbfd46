"""`make deploy`: the pools, automations and deployments of a Prefect server, created or renewed from params.yaml.

    <flow>/electra-<model>    every flow and model       tags flow:<flow>, model:<model>
    team/electra-<model>      with --team (`make lead`)
    part/electra              with --team: what `team` hands to workers

The pool `electra` has the queues `gpu` and `cpu`; a worker (`make worker`) takes one run at a time, of both or of one
of them: one GPU. Runs of `team` only wait for their parts, so they have a pool of their own, `electra-lead`, which a
single machine does without. Whoever deploys, a worker's own installed code runs the flow, and the stages run the code
of the run's commit (docs/team.md).
"""

import sys
from collections.abc import Iterator
from typing import Any

import prefect
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists
from prefect.types.entrypoint import EntrypointType

from electra.errors import SourceUnreachable
from pipelines import ROOT
from pipelines.config.params import Params, load
from pipelines.config.settings_file import read
from pipelines.flows import shutdown
from pipelines.flows.team import team
from pipelines.flows.training import FLOWS, ablations, part

POOL, LEAD = "electra", "electra-lead"
MODULE = EntrypointType.MODULE_PATH
SHARE = 4  # runs of one deployment at a time: none takes all workers from the others


def deployments(params: Params, *, with_team: bool) -> Iterator[RunnerDeployment]:
    """Every flow of every model, on the queue `cpu` for models in fp32: they are made for processors."""
    for model, config in params.models.items():
        queue = "cpu" if config.pretrain.precision == "fp32" else "gpu"
        own = {"model": model}
        for flow in FLOWS:
            if flow is not ablations or any(each.model == model for each in params.ablations.values()):
                yield deployment(flow, own, work_pool_name=POOL, work_queue_name=queue, concurrency_limit=SHARE)
        if with_team:
            yield deployment(team, {**own, "queue": queue}, work_pool_name=LEAD)
    if with_team:
        yield RunnerDeployment.from_flow(
            part, "electra", work_pool_name=POOL, work_queue_name="gpu", entrypoint_type=MODULE
        )


def deployment(flow: Flow[..., Any], own: dict[str, str], **more: Any) -> RunnerDeployment:
    """One of a model. The schema of its parameters is not enforced: a run's commit may have other models."""
    name, tags = f"electra-{own['model']}", [f"flow:{flow.name}", f"model:{own['model']}"]
    more |= {"parameters": own, "tags": tags, "enforce_parameter_schema": False, "entrypoint_type": MODULE}
    return RunnerDeployment.from_flow(flow, name, **more)


def deploy(*, with_team: bool) -> None:
    """Create what is missing, and renew the deployments."""
    with get_client(sync_client=True) as client:
        for pool in (POOL, LEAD) if with_team else (POOL,):
            try:
                client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
            except ObjectAlreadyExists:
                continue
        for file in sorted((ROOT / "deploy" / "automations").glob("*.yaml")):
            automation = AutomationCore.model_validate(read(file))
            if not client.read_automations_by_name(automation.name):
                client.create_automation(automation)
    for each in deployments(load(ROOT / "params.yaml"), with_team=with_team):
        each.apply()
        print(f"{each.flow_name}/{each.name}")


def main() -> int:
    """`python -m pipelines.flows.deployments [--team]`."""
    try:
        deploy(with_team="--team" in sys.argv)
    except Exception as error:
        if not shutdown.unreachable(error):
            raise
        url = str(prefect.settings.PREFECT_API_URL.value())
        refused = SourceUnreachable(
            url, "no Prefect server answers", "", "start it (`make server`), or set PREFECT_API_URL"
        )
        print(f"error: {refused}", file=sys.stderr)
        return refused.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
