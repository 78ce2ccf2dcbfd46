"""`make deploy`: the pools, automations and deployments of a Prefect server, from params.yaml and
deploy/automations.

    <flow>/electra-<model>    every flow and model       tags flow:<flow>, model:<model>
    team/electra-<model>      with --team (`make lead`)
    part/electra              with --team: the parts of `team` for workers

Existing deployments get this code's flow and queue, and keep what users have set: schedules,
whether it is paused, parameters and tags. A tag `clone:<id>` names each clone of the project that
has deployed it. Deployments of models that params.yaml no longer has are deleted, unless another
clone has also deployed them.

The pool `electra` has the queues `gpu` and `cpu`; a worker (`make worker`) takes one run at a time,
of both or of one of them: one GPU. Runs of `team` only wait for their parts, so they have a pool of
their own, `electra-lead`, which a single machine does without. Whoever deploys, a worker's own
installed code runs the flow, and the stages run the code of the run's commit (docs/team.md).
"""

import sys
import uuid
from collections.abc import Iterator
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.deployments.runner import RunnerDeployment
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType
from prefect.utilities.callables import parameter_schema

from electra.errors import SourceUnreachable, UserError
from electra.files import write_atomic
from pipelines import ROOT
from pipelines.config.params import Params, load
from pipelines.config.settings_file import read
from pipelines.flows import server
from pipelines.flows.team import team
from pipelines.flows.training import FLOWS, ablations, part

POOL = "electra"
LEAD = "electra-lead"
SHARE = 4  # runs of one deployment at a time: none takes all workers from the others
BY_NAME: dict[str, Flow[..., Any]] = {flow.name: flow for flow in (*FLOWS, team, part)}
RENEWED = ("description", "entrypoint", "work_pool_name", "work_queue_name", "concurrency_limit")


def deployments(params: Params, *, with_team: bool) -> Iterator[RunnerDeployment]:
    """Yield every flow of every model, on the queue `cpu` for models in fp32: they are made for
    processors.
    """
    for model, config in params.models.items():
        queue = "cpu" if config.pretrain.precision == "fp32" else "gpu"
        for flow in FLOWS:
            if flow is not ablations or any(
                ablation.base.model == model for ablation in params.ablations.values()
            ):
                yield deployment(
                    flow, model, work_pool_name=POOL, work_queue_name=queue, concurrency_limit=SHARE
                )
        if with_team:
            yield deployment(team, model, work_pool_name=LEAD)
    if with_team:
        module = EntrypointType.MODULE_PATH
        yield RunnerDeployment.from_flow(
            part, "electra", work_pool_name=POOL, work_queue_name="gpu", entrypoint_type=module
        )


def deployment(flow: Flow[..., Any], model: str, **options: Any) -> RunnerDeployment:
    """Return one of a model. The schema of its parameters is not enforced: a run's commit may have
    other models.
    """
    return RunnerDeployment.from_flow(
        flow,
        f"electra-{model}",
        parameters={"model": model},
        tags=[f"flow:{flow.name}", f"model:{model}", clone_tag()],
        enforce_parameter_schema=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
        **options,
    )


def clone_tag() -> str:
    """Return the tag of this clone, by an id that it gets the first time."""
    file = ROOT / "runs" / "clone-id"
    if not file.is_file():
        write_atomic(file, uuid.uuid4().hex[:8])
    return f"clone:{file.read_text(encoding='utf-8').strip()}"


def deploy(*, with_team: bool) -> None:
    """Create missing deployments, renew the others, and delete those of models that no longer
    exist.
    """
    params = load(ROOT / "params.yaml")
    print(f"Prefect's server: {PREFECT_API_URL.value()}")
    with get_client(sync_client=True) as client:
        for pool in (POOL, LEAD) if with_team else (POOL,):
            try:
                client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
            except ObjectAlreadyExists:
                continue
        for file in sorted((ROOT / "deploy" / "automations").glob("*.yaml")):
            automate(client, AutomationCore.model_validate(read(file)))
        for planned in deployments(params, with_team=with_team):
            print(register(client, planned))
        delete_old(
            client, {str(planned.full_name) for planned in deployments(params, with_team=True)}
        )


def automate(client: SyncPrefectClient, automation: AutomationCore) -> None:
    """Create an automation, or renew the one of this name if it differs. It stays off if a user has
    turned it off.

    A renewed trigger forgets the runs that it watches: a run that died before would stay RUNNING.
    """
    known = client.read_automations_by_name(automation.name)
    if not known:
        client.create_automation(automation)
    for old in known:
        renewed = automation.model_copy(update={"enabled": old.enabled})
        if AutomationCore.model_validate(old.model_dump()) != renewed:
            client.update_automation(old.id, renewed)


def register(client: SyncPrefectClient, planned: RunnerDeployment) -> str:
    """Create or renew a deployment, and return its name and the user's settings that it keeps."""
    name = f"{planned.flow_name}/{planned.name}"
    try:
        known = client.read_deployment_by_name(name)
    except ObjectNotFound:
        planned.apply()
        return name
    values = {key: getattr(planned, key) for key in RENEWED}
    values["tags"] = [*known.tags, *(tag for tag in planned.tags if tag not in known.tags)]
    schema = parameter_schema(BY_NAME[planned.flow_name or ""]).model_dump(exclude_unset=True)
    client.update_deployment(known.id, DeploymentUpdate(**values, parameter_openapi_schema=schema))
    kept = ["paused"] if known.paused else []
    kept += [f"schedule {schedule.slug or schedule.id}" for schedule in known.schedules]
    kept += [
        f"{key}={value}"
        for key, value in known.parameters.items()
        if planned.parameters.get(key) != value
    ]
    kept += [
        f"tag {tag}"
        for tag in known.tags
        if tag not in planned.tags and not tag.startswith("clone:")
    ]
    return f"{name} (kept: {', '.join(kept)})" if kept else name


def delete_old(client: SyncPrefectClient, planned: set[str]) -> None:
    """Delete this clone's deployments of models that params.yaml no longer has. If another clone
    has also deployed one, only remove this clone's tag.
    """
    flows = {flow.id: flow.name for flow in client.read_flows(limit=200)}
    of_clone = DeploymentFilter(tags=DeploymentFilterTags(all_=[clone_tag()]))
    deployed: list[Any] = []
    while page := client.read_deployments(
        deployment_filter=of_clone, limit=200, offset=len(deployed)
    ):
        deployed += page
    for known in deployed:
        name = f"{flows.get(known.flow_id)}/{known.name}"
        others = [tag for tag in known.tags if tag != clone_tag()]
        if name in planned:
            continue
        if any(tag.startswith("clone:") for tag in others):
            client.update_deployment(known.id, DeploymentUpdate(tags=others))
            print(f"{name} stays: another clone has this model")
        else:
            client.delete_deployment(known.id)
            print(f"{name} is deleted: params.yaml has no such model")


def main() -> int:
    """Run `python -m pipelines.flows.deployments [--team]`."""
    refused: UserError
    try:
        deploy(with_team="--team" in sys.argv)
        return 0
    except UserError as error:
        refused = error
    except Exception as error:
        if not server.is_unreachable(error):
            raise
        url = PREFECT_API_URL.value()
        refused = SourceUnreachable(
            f"{url}: no Prefect server answers; start it (`make server`), or set PREFECT_API_URL"
        )
    print(f"error: {refused}", file=sys.stderr)
    return refused.exit_code


if __name__ == "__main__":
    sys.exit(main())
