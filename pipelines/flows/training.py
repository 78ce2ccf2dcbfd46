"""The flows of a model, `prefect deployment run pretrain/electra-tiny`: one body, and the stages
that each runs.

pretrain     the model, or a published one as it is
finetune     that, and its GLUE and SQuAD
ablations    every ablation of the model
workflow     all of it, and the report if params.yaml `run` names the model
part         some of these stages, for a run that several machines share (team.py)
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from prefect import Flow, flow
from pydantic import Field

from electra.errors import BadConfig, UserError
from pipelines import ROOT
from pipelines.config.settings_file import read
from pipelines.flows import steps
from pipelines.stages import STAGES
from pipelines.versioning.workspace import Request

Done = dict[str, str]  # stage -> `ran` or `cached`


def models() -> list[str]:
    """Return the models that Prefect's page offers. None where params.yaml is damaged, which
    the run itself reports.
    """
    try:
        values = read(ROOT / "params.yaml")
        return [*values["models"], *values["published"]]
    except (UserError, LookupError, TypeError):
        return []


# offered only: a run's commit may have others
Model = Annotated[str, Field(json_schema_extra={"enum": models()})]


def flow_stages(flow: str, model: str, params: Mapping[str, Any]) -> list[str]:
    """Return the stages of a flow in their order, as DVC names them. Raises BadConfig without an
    ablation to run.
    """
    first = [f"published@{model}" if model in params["published"] else f"pretrain@{model}"]
    tuned = list(first)
    for name, entry in params["finetunings"].items():
        if entry["model"] == model:
            tuned += [f"glue@{name}", f"squad@{name}"]
    compared = [
        f"ablation@{name}"
        for name, entry in params["ablations"].items()
        if entry["base"]["model"] == model
    ]
    if flow == "ablations" and not compared:
        raise BadConfig(f"ablations: has none of the model {model!r}")
    report = ["report"] if model in params["run"]["models"] else []
    stages = {
        "pretrain": first,
        "finetune": tuned,
        "ablations": compared,
        "workflow": tuned + compared + report,
    }
    return stages[flow]


def stage_inputs(stage: str, params: Any) -> tuple[str, ...]:
    """Return the stages that one part of a run reads, none if the part is not a stage."""
    kind, _, name = stage.partition("@")
    return STAGES[kind].inputs(params, name) if kind in STAGES else ()


def with_inputs(stages: Iterable[str], params: Any) -> list[str]:
    """Return stages and all that they rest on, each once, inputs first."""
    ordered = dict[str, None]()
    for stage in stages:
        ordered |= dict.fromkeys([*with_inputs(stage_inputs(stage, params), params), stage])
    return list(ordered)


def declare(name: str, purpose: str) -> Flow[..., Done]:
    """Return one of `FLOWS`."""

    @flow(name=name, flow_run_name=steps.run_title)
    def run(
        model: Model = "tiny",
        commit: str = "HEAD",
        settings: dict[str, Any] | None = None,
        hours: float | None = None,
        nproc_per_node: int = 1,
    ) -> Done:
        """`hours` limits each stage. Pre-training takes `nproc_per_node` processes, one for
        each GPU of the machine.

        A run is of a `commit` with `settings` of its own ({"models.base.pretrain.steps":
        1000}), in a folder of its own (docs/team.md). Without a commit it takes place in
        the checkout as it is.
        """
        if name == "ablations" and nproc_per_node != 1:
            raise BadConfig("nproc_per_node: each arm of an ablation is one process; leave it out")
        with steps.opened_run(
            name, Request.read(model, commit, settings), hours, nproc_per_node
        ) as running:
            stages = flow_stages(name, model, running.params)
            steps.check(model, running.checkout, stages)
            if f"pretrain@{model}" in stages:
                steps.require_gpu(model, running)
            done = steps.run_stages(with_inputs(stages, running.params), running)
            return {stage: done[stage] for stage in stages}

    run.description = f"{purpose} {run.description}"
    run.__name__ = name  # type: ignore[attr-defined]  # by which workers find it in this module
    return run


pretrain = declare(
    "pretrain", "Corpus, tokens and pre-training of a model, as far as they are out of date."
)
finetune = declare("finetune", "GLUE and SQuAD from the pre-trained model and from scratch.")
ablations = declare(
    "ablations", "All ablations of a model, one after the other; a failed one stops no other."
)
workflow = declare(
    "workflow",
    "Every stage of a model that is out of date, and the report if `run` names the model.",
)
FLOWS = (pretrain, finetune, ablations, workflow)


@flow(name="part", flow_run_name=steps.run_title)
def part(
    model: str, stages: list[str], part: str, parent: str | None, given: dict[str, Any]
) -> Done:
    """Run `stages` (["glue@base"]) one after the other. Outputs of other machines come from the
    store.

    `part` names it among the parts of a run, `parent` is the MLflow run of the whole, and
    `given` are the whole's commit, settings, hours and nproc_per_node. Without `part` its
    results are saved as an experiment, as those of a run on one machine are.
    """
    request = Request.read(model, given["commit"], given["settings"], part)
    with steps.opened_run(
        "part", request, given["hours"], given["nproc_per_node"], parent
    ) as running:
        return steps.run_stages(stages, running)
