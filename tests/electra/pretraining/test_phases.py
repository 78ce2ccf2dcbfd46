"""Rows of one length, then of another, within one run: rates, counts, and the same bytes after a
stop at the change.
"""

import dataclasses
import os
import signal

import pytest

from electra.config import build, to_jsonable
from electra.errors import BadConfig, BadInput, Stopped
from electra.pretraining.config import ElectraConfig
from electra.pretraining.flops import phase_flops, step_flops, training_flops, training_steps
from electra.pretraining.phases import (
    Phase,
    learning_rate_at,
    longest_row_read,
    make_phases,
)
from electra.storage import checkpoint
from pipelines.stages.announce import announce
from tests.support.pretraining import TWO_STAGES, VOCAB, MadeUpRows, config, data, state, train

SHORT = {"length": 12, "steps": 7, "batch": 16}
LONG = {"length": 24, "steps": 5}
HALF = {"length": 24, "share": 0.5}
HALF_WAY = 1 - 0.5**0.5  # of a decay from 1
SHORT_ROWS = MadeUpRows(64, length=12, seed=2)


def phased(phases=(SHORT, LONG), base=(), **pretrain):
    """The small network with phases in place of one length and a number of steps."""
    values = to_jsonable(config(**dict(base)))
    del values["pretrain"]["length"], values["pretrain"]["steps"]
    values["pretrain"] |= {"phases": phases, "eval_every": 4, "save_every": 3, "log_every": 1}
    values["pretrain"] |= pretrain
    return build(ElectraConfig, values, "test")


def train_phases(run, settings=None, **options):
    rows = dataclasses.replace(data(), others={12: SHORT_ROWS})
    return train(run, settings or phased(), rows=rows, **options)


def test_a_phase_has_batches_of_its_own(tmp_path):
    wider, narrower = ({**SHORT, "batch": batch} for batch in (16, 8))
    losses = [
        train_phases(tmp_path / str(short["batch"]), phased((short, LONG))).history[-1]["loss"]
        for short in (wider, narrower)
    ]
    assert losses[0] != losses[1]


def test_a_run_reads_short_rows_and_then_long_ones_and_counts_both(tmp_path, capsys):
    settings = phased()
    pretrain = settings.pretrain
    assert (pretrain.length, pretrain.steps, pretrain.lengths) == (24, 12, (12, 24))
    phases = make_phases(pretrain, 12)
    assert phases == (Phase(0, 7, 12, 16), Phase(7, 12, 24, 8))
    history = train_phases(tmp_path, on_step=announce).history
    assert [record["step"] for record in history] == [0, 4, 8, 12]

    def spent(short, long):
        return [0, 4 * short, 7 * short + long, 7 * short + 5 * long]

    flops = spent(*(phase_flops(settings, phase, VOCAB) for phase in phases))
    assert [record["flops"] for record in history] == flops
    assert training_flops(settings, VOCAB) == flops[-1]
    assert step_flops(settings, VOCAB) == pytest.approx(flops[-1] / 12, rel=1e-12)
    # padding does not count
    tokens = spent(SHORT_ROWS.tokens / 64 * 16, data().train.tokens / 64 * 8)
    assert [record["tokens"] for record in history] == [round(count) for count in tokens]
    output = capsys.readouterr().err
    assert "phase 1 of 2 (rows of 12)" in output and "phase 2 of 2 (rows of 24)" in output


def test_a_budget_is_spent_over_all_phases():
    shares = [{"length": 12, "share": 0.75, "batch": 16}, {"length": 24, "share": 0.25}]
    budget = 400 * step_flops(phased(shares, steps=100), VOCAB)
    settings = phased(shares, steps={"flops": budget})
    assert training_steps(settings, VOCAB) == 400
    assert [phase.last for phase in make_phases(settings.pretrain, 400)] == [300, 400]


@pytest.mark.parametrize("stop", [6, 7, 8])
def test_stopped_before_at_and_after_the_change_it_ends_with_the_same_bytes(tmp_path, stop):
    def end(step, numbers):
        if step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    train_phases(tmp_path / "whole")
    with pytest.raises(Stopped):
        train_phases(tmp_path / "cut", log=end)
    assert checkpoint.steps(tmp_path / "cut")[-1] == stop
    train_phases(tmp_path / "cut")
    assert state(tmp_path / "cut") == state(tmp_path / "whole")


def test_positions_are_those_that_were_read_so_far():
    lengths = [longest_row_read(phased().pretrain, step, 12) for step in (7, 8, 12)]
    assert lengths == [12, 24, 24]


@pytest.mark.parametrize(
    "phases, changes, sentence",
    [
        ([SHORT, HALF], {}, "phases: should all have a share, or all have steps"),
        ([{**HALF, "steps": 7}], {}, r"phases\[0\].share: should be set, or `steps` instead"),
        ([HALF, {"length": 24, "share": 0.4}], {"steps": 9}, "which should sum to 1"),
        ([HALF, HALF], {}, "pretrain.steps: is missing"),
        ([], {"steps": 9}, "pretrain.length: is missing"),
        ([SHORT, LONG], {"steps": 13}, r"steps: is 13, should be the sum of the phases' steps \(12\)"),
        ([SHORT, LONG], {"length": 12}, r"length: is 12, should be the last phase's \(24\)"),
        ([SHORT, {**LONG, "length": 64}], {}, r"length: is 64, should be at most encoder.positions \(32\)"),
        ([SHORT, {**LONG, "batch": 6}], {"accumulate": 4}, r"accumulate: is 4, should divide batch \(6\)"),
        ([SHORT, LONG], {"base": TWO_STAGES}, "is two_stage, should be joint with pretrain.phases"),
    ],
)  # fmt: skip
def test_phases_that_do_not_fit_together_are_refused(phases, changes, sentence):
    with pytest.raises(BadConfig, match=sentence):
        phased(phases, **changes)


def test_a_phase_without_a_batch_of_rows_is_refused_before_the_first_step(tmp_path):
    too_few = dataclasses.replace(data(), others={12: MadeUpRows(8, length=12)})
    with pytest.raises(BadInput, match="there are 8 rows for training, and a batch takes 16"):
        train(tmp_path, phased(), rows=too_few)
    assert not checkpoint.steps(tmp_path)
    assert len(too_few.rows(12, 8)) == 8


@pytest.mark.parametrize(
    "form, share, expected",
    [
        ("product", 0.1, [0, 0.375, 0.5, 0.25, 0, 0.4, 0.6, 0.4, 0.2]),
        # the half of four steps and of five
        ("warmup_stable_decay", 0.5, [0.5, 1, 1, HALF_WAY, 0.5, 1, 1, 1, HALF_WAY]),
    ],
)
def test_each_of_two_stages_has_a_warm_up_and_a_decay_of_its_own(form, share, expected):
    settings = config(
        **TWO_STAGES,
        pretrain__steps=9,
        pretrain__learning_rate=1.0,
        pretrain__schedule=form,
        pretrain__decay_share=share,
    )
    rates = [learning_rate_at(settings, step, 9) for step in range(9)]
    assert rates == pytest.approx(expected)
