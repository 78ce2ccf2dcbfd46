"""The flows of a model: their stages, their order, and their retries. DVC is a stand-in."""

import pytest

from electra.errors import BadConfig, UserError
from pipelines.flows import steps, training
from pipelines.tracking import lineage
from pipelines.versioning.dvc_runner import StageFailed

TUNED = ["pretrain@smoke", "glue@smoke", "squad@smoke"]
ABLATIONS = ["ablation@a", "ablation@b"]
WHOLE = [*TUNED, *ABLATIONS, "report"]
ORDER = ["corpus@smoke", "tokens@smoke", "pretrain@smoke", "tasks@smoke", *WHOLE[1:]]


def test_the_models_of_the_checkout_are_offered(dvc, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "ROOT", tmp_path)
    assert training.models() == ["smoke", "base", "theirs"]
    (tmp_path / "params.yaml").write_text("models: [")
    assert training.models() == []  # the run itself says what is wrong with params.yaml


def test_each_flow_runs_its_stages_and_before_them_their_inputs(alone):
    for flow, model, stages in (
        (training.pretrain, "smoke", TUNED[:1]),
        (training.finetune, "smoke", TUNED),
        (training.ablations, "smoke", ABLATIONS),
        (training.finetune, "theirs", ["published@theirs"]),
        (training.workflow, "base", ["pretrain@base", "glue@base", "squad@base"]),
        (training.workflow, "smoke", WHOLE),
    ):
        alone.calls.clear()
        alone.asked.clear()
        assert flow.fn(model) == dict.fromkeys(stages, "ran")
        options = [f"--stage={stage.partition('@')[0]}" for stage in stages if stage != "report"]
        assert alone.asked == ["params", " ".join(["check", model, *options])]
    assert alone.calls == ORDER, "a task for each stage of DVC, inputs first"
    assert alone.target == "dvc.yaml:report", "which is not one of pipelines/dvc.yaml"
    with pytest.raises(BadConfig, match="none of the model 'base'"):
        training.ablations.fn("base")


def test_an_ablation_that_fails_stops_no_other_but_the_flow(alone):
    for failing, ran in (("ablation@a", ORDER[:-1]), ("squad@smoke", ORDER[:6])):
        alone.calls.clear()
        alone.failures = {failing: [StageFailed("x: no arm", 65)]}
        alone.failures.setdefault("ablation@b", [StageFailed("x: nor here", 65)])
        with pytest.raises(StageFailed, match="no arm"):
            training.workflow.fn("smoke")
        assert alone.calls == ran, "no report of what is not complete"


def test_a_model_for_gpus_is_refused_without_one_unless_it_is_there(alone, monkeypatch):
    gpus = []
    monkeypatch.setattr(lineage, "gpus", lambda: gpus)
    training.pretrain.fn("base")
    alone.is_stale = True
    for model in ("smoke", "theirs"):
        training.pretrain.fn(model)
    words = r"base: this machine has no GPU; .*models\.base\.pretrain\.precision: fp32 .* take 3 h$"
    with pytest.raises(StageFailed, match=words) as refused:
        training.pretrain.fn("base")
    assert refused.value.exit_code == 69
    alone.failures = {"would_run": [StageFailed("no data")]}  # in a new clone DVC cannot tell
    alone.is_stale = False
    with pytest.raises(StageFailed, match="no GPU"):
        training.pretrain.fn("base")
    gpus.append("H100")
    training.pretrain.fn("base")


def test_limits_and_counts_are_positive_and_a_run_may_die_five_times(alone):
    training.pretrain.fn("smoke", hours=1.5, nproc_per_node=2)
    assert alone.seconds == 5400 and alone.checkout.variables["PET_NPROC_PER_NODE"] == "2"
    alone.calls.clear()
    for flow, given, words in (
        (training.pretrain, {"hours": -1}, "hours: is -1"),
        (training.pretrain, {"hours": 0}, "hours: is 0"),
        (training.pretrain, {"nproc_per_node": 0}, "is 0"),
        (training.ablations, {"nproc_per_node": 2}, "one process"),
    ):
        with pytest.raises(BadConfig, match=words):
            flow.fn("smoke", **given)
    alone.flow_run.run_count = 6
    with pytest.raises(UserError, match="has died 5 times"):
        training.pretrain.fn("smoke")
    assert not alone.calls


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_a_mistake_or_an_unreachable_source_is_not(
    dvc, prefect_server, monkeypatch
):
    monkeypatch.setattr(steps.run_stage, "retry_delay_seconds", 0)
    dvc.failures = {
        "pretrain@smoke": [StageFailed("x: killed", 137), StageFailed("x: stopped", 75)]
    }
    training.finetune("smoke")
    assert dvc.calls == [*ORDER[:2], *["pretrain@smoke"] * 3, *ORDER[3:6]]
    dvc.calls.clear()
    dvc.failures = {
        "pretrain@smoke": [StageFailed("pretrain@smoke: models.smoke.x: is not a parameter", 64)]
    }
    with pytest.raises(StageFailed, match="is not a parameter"):
        training.finetune("smoke")
    with pytest.raises(StageFailed, match=r"nowhere/\*\.jsonl"):
        training.workflow("base")
    assert dvc.calls == ORDER[:3], "DVC was not asked"
