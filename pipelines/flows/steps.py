"""What the flows are made of: a check, a stage, a parent run in MLflow, a result page.

Results are never cached or persisted here: DVC is the cache, and a task that runs twice finds nothing to do.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from electra.errors import BadConfig, UserError
from electra.files import read_json
from pipelines import ROOT, sources, tracking
from pipelines.flows import ALONE, ending
from pipelines.flows.watch import watching
from pipelines.needed import check_tasks
from pipelines.params import Params, load
from pipelines.processes import Layout
from pipelines.repro import Outcome, StageFailed, join, repro

ALONE_HERE = Layout()
DETAILS = {
    "pretrain": "results/{}/pretrain.json",
    "glue": "results/{}/glue.json",
    "squad": "results/{}/squad.json",
    "ablation": "results/ablations/{}.json",
}


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


@task(name="check", task_run_name="check {model}", cache_policy=NO_CACHE, persist_result=False)
def check(model: str) -> None:
    """Fail now, with the sentence that says what to set, if a data source of the model is out of reach."""
    params = read_params()
    params.require("models", model)
    config = params.models[model]
    for source in params.corpora[params.tokens[config.tokens].corpus].sources:
        sources.check(source)
    check_tasks(params, model)
    get_run_logger().info("every data source of %s can be reached", model)


RESUMED: dict[str, Any] = {  # a stage goes on from its checkpoints, and its results are DVC's to keep
    "retries": 2,
    "retry_delay_seconds": 5,
    "retry_condition_fn": worth_a_retry,
    "cache_policy": NO_CACHE,
    "persist_result": False,
}


@task(name="stage", task_run_name="{stage}@{name}", **RESUMED)
def run_stage(
    stage: str,
    name: str,
    parent: str | None,
    hours: float | None = None,
    single: bool = False,
    layout: Layout = ALONE_HERE,
) -> str:
    """`dvc repro` of one stage with what it depends on; its lines are the task's log. Returns `ran` or `cached`.

    A retry resumes: the stage finds its checkpoints, and its run in MLflow. `layout` is pre-training's.
    """
    environment = ({tracking.PARENT: parent} if parent else {}) | layout.variables()
    target = f"pipelines/dvc.yaml:{stage}@{name}" if stage != "report" else "dvc.yaml:report"
    log = get_run_logger().info
    outcome = repro(
        target,
        single=single,
        log=watching(name, log) if stage == "ablation" else log,
        seconds=hours * 3600 if hours else None,
        environment=environment,
    )
    return show(stage, name, outcome)


@task(name="join", task_run_name="join {stage}@{name}", **RESUMED)
def join_stage(stage: str, name: str, hours: float | None, layout: Layout) -> str:
    """Take part, as one of several machines, in a stage that DVC runs on the first of them; returns `joined`."""
    seconds = hours * 3600 if hours else None
    join(stage, name, log=get_run_logger().info, seconds=seconds, environment=layout.variables())
    return "joined"


def show(stage: str, name: str, outcome: Outcome) -> str:
    """Make the result page of a stage and say whether it ran."""
    word = "ran" if f"{stage}@{name}" in outcome.ran or (stage == "report" and "report" in outcome.ran) else "cached"
    pattern = DETAILS.get(stage)
    if pattern is None:
        return word
    ending.tell(leave_pages, stage, name, word, pattern.format(name))
    return word


def leave_pages(stage: str, name: str, word: str, path: str) -> None:
    """A table and a page of a stage's numbers."""
    rows = table(read_json(ROOT / path))
    key = f"{stage}-{name}".lower().replace("+", "p").replace("_", "-")
    create_table_artifact(key=f"{key}-numbers", table=rows, description=f"`{path}`")
    lines = [f"# {stage}@{name}", "", f"{word} · numbers from `{path}`", "", "| | |", "|-|-|"]
    lines += [f"| {row['number']} | {row['value']} |" for row in rows[:60]]
    create_markdown_artifact(key=key, markdown="\n".join(lines), description=f"{stage} of {name}")


def table(values: Any, prefix: str = "") -> list[dict[str, Any]]:
    """The scalars of a result file as rows, dotted; lists (seeds, curves) are left to the file."""
    rows: list[dict[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            rows.extend(table(value, f"{prefix}{key}."))
        elif isinstance(value, float):
            rows.append({"number": f"{prefix}{key}", "value": f"{value:.4g}"})
        elif isinstance(value, int | str):
            rows.append({"number": f"{prefix}{key}", "value": str(value)})
    return rows


@contextlib.contextmanager
def parent_run(flow: str, model: str) -> Iterator[str | None]:
    """The MLflow run of this flow run: made at the first try, found again at a retry. None where tracking is off."""
    parent = None
    if read_params().tracking == "mlflow":
        try:
            from pipelines.tracking import recorder

            parent = recorder.open_parent(f"{flow} {model}", {"flow": flow, "model": model}, f"prefect-{flow_run.id}")
        except Exception as error:
            tracking.warn(error)
    status = "FAILED"
    try:
        yield parent
        status = "FINISHED"
    finally:
        if ALONE in os.environ or "PREFECT__FLOW_RUN_ID" in os.environ:  # here, or a worker's process for this run
            ending.limit()  # first: telling MLflow is part of it
        if parent:
            tell_end(parent, status)


def tell_end(parent: str, status: str) -> None:
    """End the run in MLflow; whatever comes of it is not the flow's outcome."""
    try:
        tracking.end_workflow(parent, status)
    except Exception as error:
        tracking.warn(error)


def read_params() -> Params:
    """params.yaml, with the checkout as the working folder: sources and results are named relative to it."""
    os.chdir(ROOT)
    return load(Path("params.yaml"))


def ablations_of(model: str) -> list[str]:
    """The ablations whose arms are variants of a model."""
    names = [name for name, ablation in read_params().ablations.items() if ablation.model == model]
    if not names:
        raise BadConfig("ablations", f"has none of the model {model!r}", "one with `model: " + model + "`")
    return names
