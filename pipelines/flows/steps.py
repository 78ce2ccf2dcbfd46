"""What the flows are made of: a checkout, a check, a stage, a parent run in MLflow, a result page.

Results are never cached or persisted here: DVC is the cache, and a task that runs twice finds nothing to do.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from electra.errors import BadConfig, Refused, Stopped, UserError
from pipelines import ROOT, tracking
from pipelines.flows import ALONE, lease, pages, shutdown
from pipelines.flows.watch import bars, watching
from pipelines.runtime import workspace
from pipelines.runtime.dvc_runner import Place, StageFailed, join, repro, run
from pipelines.runtime.processes import Layout
from pipelines.runtime.workspace import Request
from pipelines.stages import arm_stages

ALONE_HERE = Layout()
LIVES = 5  # times that a run whose process died is started again (deploy/automations), and no more


def worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """A killed or stopped stage is; a setting, an input or a source that only the user can mend is not."""
    try:
        state.result()
    except StageFailed as error:
        return not error.mendable
    except UserError:
        return False
    except Exception:
        return True
    return False


@dataclass
class Running:
    """A run as its stages see it: what it is of, where, below which run of MLflow, and the targets that it has reached.

    `params` are those of its commit, with its settings, as its own code reads them.
    """

    request: Request
    place: Place
    hours: float | None
    params: dict[str, Any]
    parent: str | None = None
    ran: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """The time limit of each stage."""
        return self.hours * 3600 if self.hours else None


@task(name="check", task_run_name="check {model}", cache_policy=NO_CACHE, persist_result=False)
def check(model: str, place: Place, sources: bool = True) -> dict[str, Any]:
    """Fail now, with the sentence that says what to set, if a setting is wrong or one of the data sources out of reach.

    Returns the parameters.
    """
    params = workspace.params(place)
    if place.folder != ROOT:
        for section in ("corpora", "tokens", "tasks", "published"):
            workspace.own_files(params[section], place.folder)
    if sources:
        workspace.ask(place, "check", model)
        get_run_logger().info("every data source of %s can be reached", model)
    return params


RESUMED: dict[str, Any] = {  # a stage goes on from its checkpoints, and its results are DVC's to keep
    "retries": 2,
    "retry_delay_seconds": 5,
    "retry_condition_fn": worth_a_retry,
    "cache_policy": NO_CACHE,
    "persist_result": False,
}


@task(name="stage", task_run_name="{stage}@{name}", **RESUMED)
def run_stage(stage: str, name: str, running: Running, single: bool = False, layout: Layout = ALONE_HERE) -> str:
    """`dvc repro` of one stage with what it depends on; its lines are the task's log. Returns `ran` or `cached`.

    A retry resumes: the stage finds its checkpoints, and its run in MLflow. `layout` is pre-training's.
    """
    place = running.place.also(({tracking.PARENT: running.parent} if running.parent else {}) | layout.variables())
    target = target_of(stage, name, place)
    log = get_run_logger().info
    outcome = repro(
        target,
        place=place,
        single=single,
        pull=workspace.pulls(place),
        log=bars(watching(name, log, place.folder) if stage == "ablation" else log),
        seconds=running.seconds,
    )
    running.targets.append(target)
    running.ran += outcome.ran
    if running.request.commit:
        keep(target, place)
    return pages.show(stage, name, outcome, running)


def target_of(stage: str, name: str, place: Place) -> str:
    """What DVC calls a stage; arms of an ablation (`arm`, `table5/electra-seed1,…`) it is told of first."""
    if stage == "arm":
        ablation, _, some = name.partition("/")
        return arm_stages.write_stages(place.folder, ablation, some.split(","))
    return f"pipelines/dvc.yaml:{stage}@{name}" if stage != "report" else "dvc.yaml:report"


@task(
    name="keep",
    task_run_name="keep {target}",
    **RESUMED | {"retries": 5, "retry_delay_seconds": [10, 30, 60, 300, 900], "retry_condition_fn": None},
)
def keep(target: str, place: Place) -> None:
    """Bring what a stage has made into the store that machines share or, without one, into this machine's cache."""
    command = [sys.executable, "-m", "pipelines.runtime.dvc_store", str(place.folder), target]
    own = Place(ROOT, {"DVC_SITE_CACHE_DIR": str(place.folder / ".dvc-site")})  # the worker's code, the run's checkout
    run(command, f"store {target}", own, get_run_logger().info)


@task(name="join", task_run_name="join {stage}@{name}", **RESUMED)
def join_stage(stage: str, name: str, hours: float | None, layout: Layout) -> str:
    """Take part, as one of several machines, in a stage that DVC runs on the first of them; returns `joined`."""
    seconds = hours * 3600 if hours else None
    join(stage, name, Place(ROOT, layout.variables()), log=get_run_logger().info, seconds=seconds)
    return "joined"


def run_finetunings(model: str, running: Running, layout: Layout) -> dict[str, str]:
    """Pre-training, or the reading of a published folder, and every fine-tuning of a model."""
    first = "published" if model in running.params["published"] else "pretrain"
    done = {first: run_stage(first, model, running, layout=layout)}
    for name in [name for name, each in running.params["finetunings"].items() if each["model"] == model]:
        for stage in ("glue", "squad"):
            done[stage if name == model else f"{stage}@{name}"] = run_stage(stage, name, running)
    return done


@contextlib.contextmanager
def begun(
    flow: str, request: Request, hours: float | None, parent: str | None = None, sources: bool = True
) -> Iterator[Running]:
    """A flow's run: its checkout, everything checked before anything starts, its run in MLflow, its results saved.

    A part of a run hangs below the `parent` of the whole and saves no results but to the store: the whole does.
    """
    log = get_run_logger().info
    try:
        with lease.held(log) as died, workspace.opened(request, log) as place:
            if died >= LIVES:
                do = "the log says what it died of; start another when that is mended"
                raise Refused(str(request), f"has died {died} times", "", do)
            running = Running(request, place, hours, check(request.model, place, sources), parent)
            with part_run(running) if parent else parent_run(flow, running):
                yield running
                if request.commit and not request.part:
                    workspace.settle(place, request, running.targets, log)
                    log(f"experiment {request.name}: `dvc exp branch {request.name} BRANCH` makes a branch of it")
    finally:
        limit()


@contextlib.contextmanager
def parent_run(flow: str, running: Running) -> Iterator[None]:
    """The MLflow run of this flow run: made at the first try, found again at a retry. None where tracking is off."""
    if running.params["tracking"] == "mlflow":
        try:
            from pipelines.tracking import recorder

            request, facts = running.request, recorder.about() | tags(running.request)
            params = {"flow": flow, "model": request.model, **dict(request.settings)}
            running.place = running.place.also({tracking.TAGS: json.dumps(tags(request))})
            if request.commit:
                facts |= {"mlflow.source.git.commit": request.commit}
            title = " ".join([flow, request.model, *request.changes])
            running.parent = recorder.open_parent(title, params, f"prefect-{flow_run.id}", facts=facts)
        except Exception as error:
            tracking.warn(error)
    status = "KILLED"
    try:
        yield
        status = "FINISHED"
    except Exception as error:
        if getattr(error, "exit_code", 0) != Stopped.exit_code:
            status = "FAILED"
        raise
    finally:
        limit()  # first: telling MLflow is part of it
        if running.parent:
            tell_end(running.parent, status, running.place, running.ran if running.request.part else None)


@contextlib.contextmanager
def part_run(running: Running) -> Iterator[None]:
    """Stages below the run of the whole, which is another's to end."""
    running.place = running.place.also({tracking.TAGS: json.dumps(tags(running.request))})
    try:
        yield
    finally:
        limit()
        assert running.parent is not None
        tell_end(running.parent, "", running.place, running.ran)


def limit() -> None:
    """Where a process runs this flow and nothing else, here or for a worker: it ends within seconds."""
    if ALONE in os.environ or "PREFECT__FLOW_RUN_ID" in os.environ:
        shutdown.limit()


def tell_end(parent: str, status: str, place: Place, stages: list[str] | None = None) -> None:
    """End the run in MLflow; whatever comes of it is not the flow's outcome."""
    try:
        tracking.end_workflow(parent, status, place.folder, stages)
    except Exception as error:
        tracking.warn(error)


def tags(request: Request) -> dict[str, str]:
    """What each MLflow run of a flow run says: where to look, whose it is (tag `user:NAME`), of which experiment."""
    users = [tag.partition(":")[2] for tag in flow_run.tags or [] if tag.startswith("user:")]
    found = {"prefect.url": flow_run.ui_url or "", "mlflow.source.type": "JOB", "mlflow.user": (users or [""])[0]}
    if request.commit:  # whole with its settings: what differs from the commit is named
        found |= {"git.dirty": "false", "dvc.experiment": request.name, "settings": json.dumps(dict(request.settings))}
    return {key: value for key, value in found.items() if value}


def named() -> str:
    """The name of a flow run: the flow, the model, the commit, what was set."""
    given = flow_run.parameters
    with contextlib.suppress(UserError):
        request = Request.read(given["model"], given.get("commit", ""), given.get("settings"), given.get("part", ""))
        return f"{flow_run.flow_name} {request}"
    return f"{flow_run.flow_name} {given['model']}"


def ablations_of(model: str, params: Mapping[str, Any]) -> list[str]:
    """The ablations whose arms are variants of a model."""
    names = [name for name, ablation in params["ablations"].items() if ablation["model"] == model]
    if not names:
        raise BadConfig("ablations", f"has none of the model {model!r}", "one with `model: " + model + "`")
    return names
