"""What the flows are made of: a run's folder, a check, a stage, a parent run in MLflow.

Results are never cached or persisted by Prefect: DVC is the cache, and a task that runs twice finds nothing to do.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from electra.errors import Refused, Stopped, UserError, hidden
from pipelines import ROOT, tracking
from pipelines.flows import artifacts, lease, shutdown
from pipelines.runtime import workspace
from pipelines.runtime.dvc_runner import Place, StageFailed, repro, run
from pipelines.runtime.workspace import Request
from pipelines.tracking import lineage

LIVES = 5  # times that a run whose process died is started again (deploy/automations)


def worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """Whether a stage was killed or stopped; an error that only the user can correct is not tried again."""
    error = state.result(raise_on_failure=False)
    return not (error.for_the_user if isinstance(error, StageFailed) else isinstance(error, UserError))


ONCE: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
RESUMED = ONCE | {"retries": 2, "retry_delay_seconds": 5, "retry_condition_fn": worth_a_retry}
STORED = ONCE | {"retries": 5, "retry_delay_seconds": [10, 30, 60, 300, 900]}


@dataclass
class Running:
    """A run as its stages see it. `params` are those of its commit and settings, as its own code reads them."""

    request: Request
    place: Place
    params: dict[str, Any]
    seconds: float | None = None  # the time limit of each stage
    parent: str | None = None  # the MLflow run above those of the stages
    ran: list[str] = field(default_factory=list)

    @property
    def origin(self) -> list[str]:
        """Where results come from, as lines of a page."""
        request, lines = self.request, []
        if request.commit:
            lines = [f"- commit `{request.commit}`", *(f"- `{key}={value}`" for key, value in request.settings)]
            lines += [f"- experiment `{request.name}`: `dvc exp branch {request.name} BRANCH` makes a branch of it"]
        return lines + [f"- MLflow run `{self.parent}`"] * bool(self.parent)


@task(name="check", task_run_name="check {model}", **ONCE)
def check(model: str, place: Place, sources: bool) -> dict[str, Any]:
    """Fail now, with the sentence that says what to set, for a wrong setting or an unreachable data source.

    Returns the parameters.
    """
    params = workspace.params(place)
    if place.folder != ROOT:
        for section in ("corpora", "tokens", "tasks", "published"):
            workspace.link_own_files(params[section], place.folder)
    if sources:
        workspace.ask(place, "check", model)
        get_run_logger().info("every data source of %s can be reached", model)
    return params


def run_stages(stages: Sequence[str], running: Running) -> dict[str, str]:
    """One after the other. An ablation that fails does not stop the other ablations, but it fails the flow."""
    done, failure = dict[str, str](), None
    for stage in stages:
        independent = stage.startswith("ablation@")
        if failure and not independent:
            break
        try:
            done[stage] = run_stage(stage, running)
        except StageFailed as error:
            if not independent:
                raise
            failure = failure or error
    if failure:
        raise failure
    return done


@task(name="stage", task_run_name="{stage}", **RESUMED)
def run_stage(stage: str, running: Running) -> str:
    """`dvc repro` of one stage (`glue@base`) with all that it depends on. Returns `ran` or `cached`.

    Its output is the task's log. A retry resumes: the stage finds its checkpoints, and its run in MLflow.
    """
    place, log = running.place, get_run_logger().info
    if running.parent:
        place = place.also({tracking.PARENT: running.parent})
    target = f"pipelines/dvc.yaml:{stage}" if "@" in stage else f"dvc.yaml:{stage}"
    outcome = repro(target, place, artifacts.show_progress(stage, log, place.folder), running.seconds)
    running.ran += outcome.ran
    if running.request.commit:
        store(target, place)
    word = "ran" if stage in outcome.ran else "cached"
    artifacts.show_numbers(stage, word, place.folder, running.origin)
    return word


@task(name="store", task_run_name="store {target}", **STORED)
def store(target: str, place: Place) -> None:
    """Bring a stage's outputs into the store that machines share or, without one, into this machine's cache.

    Without a target: make DVC rebuild what its lock files promise and neither cache nor store has.
    """
    command = [sys.executable, "-m", "pipelines.runtime.dvc_store", str(place.folder), target]
    own = Place(ROOT, {"DVC_SITE_CACHE_DIR": str(place.folder / ".dvc-site")})  # the worker's code, the run's folder
    run(command, f"store {target}", own, get_run_logger().info)


@task(name="join", task_run_name="join pretrain@{model}", **RESUMED)
def join_pretraining(model: str, hours: float | None, variables: Mapping[str, str]) -> str:
    """Take part in pre-training that DVC runs, and locks, on another machine. Returns `joined`."""
    command, seconds = [sys.executable, "-m", "pipelines", "pretrain", model], hours * 3600 if hours else None
    run(command, f"pretrain@{model}", Place(ROOT, variables), get_run_logger().info, seconds)
    return "joined"


@contextlib.contextmanager
def begun(
    flow: str, request: Request, hours: float | None, variables: Mapping[str, str], parent: str | None = None
) -> Iterator[Running]:
    """A flow's run: its folder, everything checked before anything starts, its run in MLflow, its results saved.

    `variables` are for its stages. A part of a run hangs below the `parent` of the whole and saves its results to the
    store alone. The stages of parts ask for their sources themselves.
    """
    log = get_run_logger().info
    try:
        with lease.held(log) as died, workspace.opened(request, log) as place:
            if died >= LIVES:
                raise Refused(str(request), f"has died {died} times", "", "see the log, and start another")
            params = check(request.model, place, sources=flow not in {"team", "part"})
            if place.pull:
                store("", place)
            place = place.also({**variables, lineage.TAGS: json.dumps(tags(request))})
            running = Running(request, place, params, hours * 3600 if hours else None, parent)
            with parent_run(flow, running):
                yield running
                if request.commit and not request.part:
                    workspace.save_experiment(place, request, log)
    finally:
        shutdown.limit()


@contextlib.contextmanager
def parent_run(flow: str, running: Running) -> Iterator[None]:
    """The MLflow run of this flow run: made at the first try, found again at a retry. None where tracking is off.

    That of a part is its parent's, which another process ends.
    """
    status, others = "KILLED", running.parent is not None
    if running.params["tracking"] == "mlflow" and not others:
        try:
            running.parent = open_parent(flow, running.request)
        except Exception as error:
            tracking.warn(error)
    try:
        yield
        status = "FINISHED"
    except Exception as error:
        if getattr(error, "exit_code", 0) != Stopped.exit_code:
            status = "FAILED"
        raise
    finally:
        shutdown.limit()  # first: MLflow's answer takes a part of it
        if running.parent:
            stages = running.ran if running.request.part or others else None
            try:
                tracking.end_workflow(running.parent, "" if others else status, running.place.folder, stages)
            except Exception as error:  # which is not the flow's outcome
                tracking.warn(error)


def open_parent(flow: str, request: Request) -> str:
    """The id of this flow run's run in MLflow."""
    from pipelines.tracking import recorder

    params = {"flow": flow, "model": request.model, **dict(request.settings)}
    facts = lineage.about() | tags(request)
    if request.commit:
        facts |= {"mlflow.source.git.commit": request.commit}
    title = " ".join([flow, request.model, *request.changes])
    return recorder.open_parent(title, params, f"prefect-{flow_run.id}", facts=facts)


def tags(request: Request) -> dict[str, str]:
    """Of each MLflow run of a flow run: its page in Prefect, its user (tag `user:NAME`), its experiment."""
    users = [tag.partition(":")[2] for tag in flow_run.tags or [] if tag.startswith("user:")] or [""]
    values = {"prefect.url": hidden(flow_run.ui_url or ""), "mlflow.source.type": "JOB", "mlflow.user": users[0]}
    if request.commit:  # commit and settings together are the whole code
        values |= {"git.dirty": "false", "dvc.experiment": request.name, "settings": json.dumps(dict(request.settings))}
    return {key: value for key, value in values.items() if value}


def run_title() -> str:
    """The name of a flow run: flow, model, commit, settings."""
    given = flow_run.parameters
    with contextlib.suppress(UserError):
        request = Request.read(given["model"], given.get("commit", ""), given.get("settings"), given.get("part", ""))
        return f"{flow_run.flow_name} {request}"
    return f"{flow_run.flow_name} {given['model']}"
