"""The flows of a model, `prefect deployment run pretrain/electra-tiny`: one body, and the stages that each runs.

pretrain     the model, or a published one as it is
finetune     that, and its GLUE and SQuAD
ablations    every ablation of the model
workflow     all of it, and the report if params.yaml `run` names the model
part         some of these stages, for a run that several machines share (team.py)
"""

from collections.abc import Mapping
from typing import Annotated, Any

from prefect import Flow, flow
from pydantic import Field

from electra.errors import BadConfig, UserError
from pipelines import ROOT
from pipelines.config.settings_file import read
from pipelines.flows import steps
from pipelines.runtime.processes import torchrun_variables
from pipelines.runtime.workspace import Request

Done = dict[str, str]  # stage -> `ran` or `cached`


def models() -> list[str]:
    """The models that Prefect's page offers; none where params.yaml cannot be read, which the run itself reports."""
    try:
        values = read(ROOT / "params.yaml")
        return [*values["models"], *values["published"]]
    except (UserError, LookupError, TypeError):
        return []


Model = Annotated[str, Field(json_schema_extra={"enum": models()})]  # offered only: a run's commit may have others


def stages_of(flow: str, model: str, params: Mapping[str, Any]) -> list[str]:
    """The stages of a flow in their order, as DVC names them. Raises BadConfig if the model has no ablation to run."""
    finetunings, own = (
        [name for name, each in params[section].items() if each["model"] == model]
        for section in ("finetunings", "ablations")
    )
    first = [f"published@{model}" if model in params["published"] else f"pretrain@{model}"]
    tuned = first + [f"{stage}@{name}" for name in finetunings for stage in ("glue", "squad")]
    ablations = [f"ablation@{name}" for name in own]
    if flow == "ablations" and not ablations:
        raise BadConfig("ablations", f"has none of the model {model!r}", f"one with `model: {model}`")
    report = ["report"] if model in params["run"]["models"] else []
    stages = {"pretrain": first, "finetune": tuned, "ablations": ablations, "workflow": tuned + ablations + report}
    return stages[flow]


def declare(name: str, purpose: str) -> Flow[..., Done]:
    """One of `FLOWS`."""

    @flow(name=name, flow_run_name=steps.run_title)
    def run(
        model: Model = "tiny",
        hours: float | None = None,
        nproc_per_node: int = 1,
        nnodes: int = 1,
        rdzv_endpoint: str = "",
        max_restarts: int = 0,
        joins: bool = False,
        commit: str = "HEAD",
        settings: dict[str, Any] | None = None,
    ) -> Done:
        """`hours` limits each stage.

        A run is of a `commit` with `settings` of its own ({"models.base.pretrain.steps": 1000}), in a folder of its own
        (docs/team.md); without a commit it takes place in the checkout as it is.

        Pre-training may take several processes (docs/many-gpus.md): `nproc_per_node`, one for each GPU of the machine;
        `nnodes` machines that meet at `rdzv_endpoint`, in a checkout that they share and with a flow run for each: one
        brings the stages up to date, the others have `joins`. After a death all start again `max_restarts` times.
        """
        if name == "ablations" and (nproc_per_node, nnodes, joins) != (1, 1, False):
            raise BadConfig("nproc_per_node, nnodes, joins", "are given", "one process: each arm of an ablation is one")
        given = {"nproc_per_node": nproc_per_node, "nnodes": nnodes, "max_restarts": max_restarts}
        variables = torchrun_variables(given | {"rdzv_endpoint": rdzv_endpoint})
        if joins:
            return {f"pretrain@{model}": steps.join_pretraining(model, hours, variables)}
        request = Request.read(model, "" if nnodes > 1 else commit, settings)
        with steps.begun(name, request, hours, variables) as running:
            return steps.run_stages(stages_of(name, model, running.params), running)

    run.description = f"{purpose} {run.description}"
    run.__name__ = name  # type: ignore[attr-defined]  # by which workers find it in this module
    return run


pretrain = declare("pretrain", "Corpus, tokens and pre-training of a model, as far as they are out of date.")
finetune = declare("finetune", "GLUE and SQuAD from the pre-trained model and from scratch.")
ablations = declare("ablations", "All ablations of a model, one after the other; a failed one stops no other.")
workflow = declare("workflow", "Every stage of a model that is out of date, and the report if `run` names the model.")
FLOWS = (pretrain, finetune, ablations, workflow)


@flow(name="part", flow_run_name=steps.run_title)
def part(
    stages: list[str],
    model: Model = "tiny",
    hours: float | None = None,
    nproc_per_node: int = 1,
    commit: str = "HEAD",
    settings: dict[str, Any] | None = None,
    part: str = "",
    parent: str | None = None,
) -> Done:
    """`stages` (["glue@base"]) one after the other; what other machines have made comes from the store.

    `part` names it among the parts of a run, `parent` is the MLflow run of the whole. Without `part` its results are
    saved as an experiment, as those of a run on one machine are.
    """
    variables = torchrun_variables({"nproc_per_node": nproc_per_node})
    with steps.begun("part", Request.read(model, commit, settings, part), hours, variables, parent) as running:
        return steps.run_stages(stages, running)
