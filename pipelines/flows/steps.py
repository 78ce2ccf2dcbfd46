"""The steps of flows: a run's checkout, a check, a stage, a parent run in MLflow.

Results are never cached or persisted by Prefect: DVC is the cache, and a task that runs twice finds
nothing to do.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from electra.errors import BadConfig, Refused, SourceUnreachable, Stopped, UserError, mask_secrets
from electra.files import read_json, write_json
from pipelines import ROOT, tracking
from pipelines.config.params import UNREAD
from pipelines.flows import artifacts, server
from pipelines.stages import STAGES
from pipelines.stages.summarize import WITH_SCORES
from pipelines.tracking import lineage
from pipelines.versioning import dvc_store, workspace
from pipelines.versioning.dvc_runner import Checkout, StageFailed, repro, would_run
from pipelines.versioning.workspace import Request

LIVES = 5  # times that a run whose process died is started again (deploy/automations)
# MLflow's address for browsers, where it is not MLFLOW_TRACKING_URI
MLFLOW_PAGE = "ELECTRA_MLFLOW_PAGE"


def is_worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """Return whether a stage was killed or stopped. An error that only the user can correct is
    not tried again.
    """
    error = state.result(raise_on_failure=False)
    return not (
        error.for_the_user if isinstance(error, StageFailed) else isinstance(error, UserError)
    )


ONCE: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
RESUMED = ONCE | {"retries": 2, "retry_delay_seconds": 5, "retry_condition_fn": is_worth_a_retry}
STORED_AGAIN: list[float] = [10, 30, 60, 300, 900]  # seconds until the store is tried again


_printed: set[str] = set()


def keep_sentence(record: logging.LogRecord) -> bool:
    """Cut an error for the user in Prefect's logs to its sentence, and return whether that is
    new.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UserError):
        is_new = str(error) not in _printed
        _printed.add(str(error))
        record.exc_info = None
        record.msg = str(error)
        record.args = ()
        return is_new
    if _printed and str(record.msg).startswith("Finished in state Failed("):
        record.msg = "Finished in state Failed"
    return True


for _logger in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
    logging.getLogger(_logger).addFilter(keep_sentence)


@dataclass
class Run:
    """A run as its stages see it. `params` are those of its commit and settings, as its own code
    reads them.
    """

    request: Request
    checkout: Checkout
    params: dict[str, Any]
    seconds: float | None = None  # the time limit of each stage
    parent: str | None = None  # the MLflow run above those of the stages
    ran: list[str] = field(default_factory=list)

    @property
    def origin(self) -> list[str]:
        """Return where results come from, as lines of a page."""
        lines = []
        if self.request.commit:
            name = self.request.name
            lines = [f"- commit `{self.request.commit}`"]
            lines += [f"- `{key}={value}`" for key, value in self.request.settings.items()]
            lines += [f"- experiment `{name}`: `dvc exp branch {name} BRANCH` makes a branch of it"]
        if self.parent:
            lines.append(f"- [its run in MLflow]({mlflow_page()}/#/runs/{self.parent})")
        return lines


def mlflow_page() -> str:
    """Return the address of MLflow that a browser opens: the one the user has set, else that of
    `mlflow ui`.
    """
    uri = os.environ.get(MLFLOW_PAGE) or tracking.uri()
    return mask_secrets(uri).rstrip("/") if uri.startswith("http") else "http://127.0.0.1:5000"


@task(name="check", task_run_name="check {model}", **ONCE)
def check(model: str, checkout: Checkout, stages: Sequence[str]) -> None:
    """Fail now, with one sentence, for a data source that cannot be reached and for a model that
    needs a GPU.

    Only inputs of the `stages` are checked. The sentence says how long pre-training would take on
    this machine.
    """
    options = [f"--stage={stage.partition('@')[0]}" for stage in stages if stage != "report"]
    try:
        workspace.ask(checkout, "check", model, *options)
    except StageFailed as error:
        if error.exit_code != SourceUnreachable.exit_code:
            raise
        raise StageFailed(f"{error}{time_here(model, checkout)}", error.exit_code) from None
    get_run_logger().info("every data source of %s can be reached", model)


def require_gpu(model: str, running: Run) -> None:
    """Raise StageFailed where a model that is made for GPUs would be pre-trained on a machine
    without one.
    """
    target = f"pipelines/dvc.yaml:pretrain@{model}"
    config = running.params["models"].get(model)
    if config is None or config["pretrain"].get("precision") == "fp32" or lineage.gpus():
        return
    try:
        runs = f"pretrain@{model}" in would_run(target, running.checkout)
    except StageFailed:  # in a new clone DVC cannot tell, since its inputs are missing
        runs = True
    if runs:
        raise StageFailed(
            f"{model}: this machine has no GPU; start a worker on a machine with one, or set "
            f"models.{model}.pretrain.precision: fp32 to train on a CPU"
            f"{time_here(model, running.checkout)}",
            69,
        )


def time_here(model: str, checkout: Checkout) -> str:
    """Return how long a model's pre-training would take here, as the end of a sentence."""
    with contextlib.suppress(UserError):
        for line in workspace.ask(checkout, "estimate", model):
            machine, _, time = line.partition(": ")
            if machine.startswith("on this machine"):
                return f"; pre-training {machine} would take {time.partition(',')[0]}"
    return ""


def run_stages(stages: Sequence[str], running: Run) -> dict[str, str]:
    """Run one stage after the other. An ablation that fails does not stop the others, but it fails
    the flow.
    """
    done = dict[str, str]()
    failure = None
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
def run_stage(stage: str, running: Run) -> str:
    """Bring one stage (`glue@base`) up to date by `dvc repro`, and return `ran` or `cached`.

    Its output is the task's log. A retry resumes: the stage finds its checkpoints, and its run
    in MLflow.
    """
    checkout = running.checkout
    if running.parent:
        checkout = checkout.with_variables({tracking.PARENT: running.parent})
    target = f"pipelines/dvc.yaml:{stage}" if "@" in stage else f"dvc.yaml:{stage}"
    log = artifacts.show_progress(get_run_logger().info)
    outcome = repro(target, checkout, log, running.seconds)
    running.ran += outcome.ran
    if checkout.pull:
        store(target, checkout)
    word = "ran" if stage in outcome.ran else "cached"
    record_numbers(stage, word, running)
    return word


def record_numbers(stage: str, word: str, running: Run) -> None:
    """Show the numbers of a stage, if it has any, and copy them to results/ for the run's
    experiment, as `summarize` does for whole models.
    """
    kind, _, name = stage.partition("@")
    folder = running.checkout.folder
    source = folder / STAGES[kind].results(name)
    if kind in WITH_SCORES and source.exists():
        values = read_json(source)
        artifacts.show_numbers(stage, word, values, running.origin)
        if running.request.commit:
            write_json(folder / "results" / name / f"{kind}.json", values)


@task(
    name="store",
    task_run_name="store {target}",
    retries=len(STORED_AGAIN),
    retry_delay_seconds=STORED_AGAIN,
    **ONCE,
)
def store(target: str, checkout: Checkout) -> None:
    """Bring a stage's outputs into the store that machines share."""
    try:
        dvc_store.push(target, checkout, get_run_logger().info)
    except StageFailed as error:
        raise StageFailed(
            f"{error}; everything is in this machine's cache: "
            "repair the store and start the same run again",
            error.exit_code,
        ) from None


@contextlib.contextmanager
def opened_run(
    flow: str, request: Request, hours: float | None, nproc_per_node: int, parent: str | None = None
) -> Iterator[Run]:
    """Open a flow's run: its folder, its settings checked, its run in MLflow. At the end its
    results are saved.

    Settings that do not fit an ablation's arms are fine in a flow without ablations. A
    part of a run hangs below the `parent` of the whole and saves its results to the store
    alone.
    """
    log = get_run_logger().info
    if hours is not None and not hours > 0:
        raise BadConfig(f"hours: is {hours:g}, should be more than 0; leave it out for no limit")
    if nproc_per_node < 1:
        raise BadConfig(f"nproc_per_node: is {nproc_per_node}, should be 1 or more")
    if flow_run.run_count > LIVES:
        raise Refused(
            f"{request}: its process has died {LIVES} times; see the log, and start another run"
        )
    variables = {"PET_NPROC_PER_NODE": str(nproc_per_node)}
    if flow in {"pretrain", "finetune"}:
        variables[UNREAD] = "1"
    try:
        with (
            server.stopped_when_unwanted(log),
            workspace.opened(request, log, variables) as checkout,
        ):
            params = workspace.params(checkout)
            if checkout.folder != ROOT:
                for section in ("corpora", "tokens", "tasks", "published"):
                    workspace.link_untracked_files(params[section], checkout.folder)
            if checkout.pull:
                dvc_store.forget_missing(checkout, log)
            checkout = checkout.with_variables({lineage.TAGS: json.dumps(tags(request))})
            running = Run(request, checkout, params, hours * 3600 if hours else None, parent)
            with parent_run(flow, running):
                yield running
                if request.commit and not request.part:
                    workspace.save_experiment(checkout, request, log)
    finally:
        server.end_if_unreachable()


@contextlib.contextmanager
def parent_run(flow: str, running: Run) -> Iterator[None]:
    """Open the MLflow run of this flow run: made at the first try, found again at a retry. None
    where tracking is off.

    That of a part is its parent's, which another process ends.
    """
    status = "KILLED"
    is_part = running.parent is not None
    if running.params["tracking"] == "mlflow" and not is_part:
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
        if running.parent:
            stages = running.ran if running.request.part or is_part else None
            try:
                tracking.end_workflow(
                    running.parent, "" if is_part else status, running.checkout.folder, stages
                )
            except Exception as error:  # must not decide the flow's outcome
                tracking.warn(error)


def open_parent(flow: str, request: Request) -> str:
    """Return the id of this flow run's run in MLflow."""
    from pipelines.tracking import recorder

    params = {"flow": flow, "model": request.model, **tracking.flatten(request.settings)}
    facts = lineage.common_tags() | tags(request)
    title = " ".join([flow, request.model, *request.changes])
    return recorder.open_parent(title, params, f"prefect-{flow_run.id}", facts)


def tags(request: Request) -> dict[str, str]:
    """Return tags of each MLflow run of a flow run: its page in Prefect, its user (tag
    `user:NAME`), its experiment.
    """
    users = (tag.partition(":")[2] for tag in flow_run.tags or [] if tag.startswith("user:"))
    values = {
        "prefect.url": mask_secrets(flow_run.ui_url or ""),
        "mlflow.source.type": "JOB",
        "mlflow.user": next(users, ""),
    }
    if request.commit:  # commit and settings together are the whole code
        values |= {
            "mlflow.source.git.commit": request.commit,
            "git.dirty": "false",
            "dvc.experiment": request.name,
            "settings": json.dumps(request.settings),
        }
    return {key: value for key, value in values.items() if value}


def run_title() -> str:
    """Return the name of a flow run: flow, model, commit, settings."""
    given = {"model": "", "commit": "", **flow_run.parameters}
    given |= given.get("given", {})  # of a part: the parameters of the whole
    with contextlib.suppress(UserError):
        request = Request.read(
            given["model"], given["commit"], given.get("settings"), given.get("part", "")
        )
        return f"{flow_run.flow_name} {request}"
    return f"{flow_run.flow_name} {given['model']}"
