"""The cost of saves and evaluations: what the figures in the record are made of."""

from dataclasses import replace

import pytest

from benchmarks import saving
from electra.files import read_json
from pipelines import ROOT
from tests.electra.helpers import config

MEASURED = {"checkpoint_bytes": 8e9, "write_aside_seconds_here": 5.6, "evaluation_host_seconds_here": 0.2}
ASSUMED = {"tokens_per_second": 192.0, "copy_bytes_per_second": 2e10} | dict.fromkeys(
    ("launches_per_evaluated_batch", "seconds_per_launch"), 1.0
)


def test_a_save_costs_its_copy_and_an_evaluation_its_passes():
    # a step takes a second
    settings = replace(config().pretrain, min_save_interval_minutes=1.0, eval_every=10, save_every=20)
    found = saving.shares(settings, MEASURED, ASSUMED)
    assert found["copy_seconds"] == 0.4 and found["seconds_between_saves"] == 60
    assert found["evaluation_seconds"] == pytest.approx(2 * 1.0 + 0.2) and found["seconds_between_evaluations"] == 10
    assert found["share"] == pytest.approx(0.4 / 60 + 0.22)
    assert found["share_at_worst"] == pytest.approx(6.0 / 60 + 0.22)
    assert found["share_at_worst_by_steps_alone"] == pytest.approx(6.0 / 20 + 0.22)


def test_the_record_keeps_to_two_hundredths_and_is_what_its_own_figures_give():
    record = read_json(ROOT / saving.RESULT)
    settings = saving.load().models["small"].electra().pretrain
    assert saving.shares(settings, record["measured"], record["assumed"]) == record["estimated"]
    assert record["estimated"]["share"] < 0.02 and record["estimated"]["share_at_worst"] < 0.02
