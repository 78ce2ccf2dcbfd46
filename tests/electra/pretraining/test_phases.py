"""Rows of one length, then of another, within one run: rates, counts, and the same bytes after a
stop at the change.
"""

import dataclasses
import os
import signal

import pytest

from electra.config import build, to_jsonable
from electra.errors import BadConfig, BadInput, Stopped
from electra.pretraining import trainer
from electra.pretraining.config import ElectraConfig
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.flops import phase_flops, step_flops, training_flops, training_steps
from electra.pretraining.phases import (
    learning_rate_at,
    longest_row_read,
    make_phases,
    phase_at,
    stage_at,
)
from electra.storage import checkpoint
from pipelines.stages.announce import announce
from tests.electra.helpers import TWO_STAGES, VOCAB, MadeUpRows, config, data, state, train

SHORT = {"length": 12, "steps": 7, "batch": 16}
LONG = {"length": 24, "steps": 5}


def phased(*phases, steps=None, **changes):
    """The small network with phases in place of one length and a number of steps."""
    values = to_jsonable(config(**changes))
    values["pretrain"] |= {
        "phases": list(phases or (SHORT, LONG)),
        "eval_every": 4,
        "save_every": 3,
        "log_every": 2,
    }
    del values["pretrain"]["length"], values["pretrain"]["steps"]
    values["pretrain"] |= {"steps": steps} if steps else {}
    return build(ElectraConfig, values, "test")


def rows():
    return dataclasses.replace(data(), others={12: MadeUpRows(64, length=12, seed=2)})


def train_phases(run, settings=None, **options):
    return train(run, settings or phased(), rows=rows(), **options)


def test_a_run_reads_short_rows_and_then_long_ones_and_counts_both(tmp_path, capsys, monkeypatch):
    settings = phased()
    streams = []
    load = lambda *options: streams.append(options[3]) or BatchLoader(*options)  # noqa: E731
    monkeypatch.setattr(trainer, "BatchLoader", load)
    pretraining = settings.pretrain
    assert (pretraining.length, pretraining.steps, pretraining.lengths) == (24, 12, (12, 24))
    phases = make_phases(pretraining, 12)
    assert [dataclasses.astuple(phase) for phase in phases] == [(0, 7, 12, 16), (7, 12, 24, 8)]
    assert [phases.index(phase_at(phases, step)) for step in (0, 6, 7, 11)] == [0, 0, 1, 1]
    history = train_phases(tmp_path, settings, on_step=announce).history
    assert streams == ["valid noise", "noise", "noise"]
    costs = [phase_flops(settings, phase, VOCAB) for phase in phases]
    short, long = (
        phase.batch * read.tokens / len(read)
        for phase in phases
        for read in [rows().rows(phase.length, phase.batch)]
    )
    assert long < 8 * 24  # padding does not count
    tokens = {
        0: 0,
        4: round(4 * short),
        8: round(7 * short + long),
        12: round(7 * short + 5 * long),
    }
    assert {record["step"]: record["tokens"] for record in history} == tokens
    assert history[2]["flops"] == 7 * costs[0] + costs[1]
    total = 7 * costs[0] + 5 * costs[1]
    assert history[-1]["flops"] == training_flops(settings, VOCAB) == total
    assert step_flops(settings, VOCAB) == pytest.approx(total / 12, rel=1e-12)
    output = capsys.readouterr().err
    assert "phase 1 of 2 (rows of 12)" in output and "phase 2 of 2 (rows of 24)" in output


def test_a_budget_is_spent_over_all_phases():
    shares = ({"length": 12, "share": 0.75, "batch": 16}, {"length": 24, "share": 0.25})
    budget = 400 * step_flops(phased(*shares, steps=100), VOCAB)
    settings = phased(*shares, steps={"flops": budget})
    assert training_steps(settings, VOCAB) == 400
    assert [p.last for p in make_phases(settings.pretrain, 400)] == [300, 400]
    assert training_flops(settings, VOCAB) == pytest.approx(budget, rel=1e-9)


@pytest.mark.parametrize("stop", [6, 7, 8])
def test_stopped_before_at_and_after_the_change_it_ends_with_the_same_bytes(tmp_path, stop):
    settings = phased()
    settings = dataclasses.replace(
        settings, pretrain=dataclasses.replace(settings.pretrain, log_every=1)
    )

    def end(step, numbers):
        if step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    train_phases(tmp_path / "whole", settings)
    with pytest.raises(Stopped):
        train_phases(tmp_path / "cut", settings, log=end)
    assert checkpoint.steps(tmp_path / "cut")[-1] == stop
    train_phases(tmp_path / "cut", settings)
    assert state(tmp_path / "cut") == state(tmp_path / "whole")


def test_positions_are_those_that_were_read_so_far():
    assert [longest_row_read(phased().pretrain, step, 12) for step in (1, 7, 8, 12)] == [
        12,
        12,
        24,
        24,
    ]


@pytest.mark.parametrize(
    "phases, changes, sentence",
    [
        ((SHORT, {"length": 24, "share": 0.5}), {}, "phases: should all have a share, or all have steps"),
        (({"length": 12},), {}, r"phases\[0\].share: should be set, or `steps` instead"),
        (({**SHORT, "share": 0.5},), {}, r"phases\[0\].share: should be set, or `steps` instead"),
        (({"length": 12, "share": 0.5}, {"length": 24, "share": 0.4}), {"steps": 9}, "which should sum to 1"),
        (({"length": 12, "share": 0.5}, {"length": 24, "share": 0.5}), {}, "pretrain.steps: is missing"),
        ((SHORT, LONG), {"steps": 13}, r"pretrain.steps: is 13, should be the sum of the phases' steps \(12\)"),
        ((SHORT, {**LONG, "length": 64}), {}, r"length: is 64, should be at most encoder.positions \(32\)"),
        ((SHORT, {**LONG, "batch": 6}), {"pretrain__accumulate": 4}, r"accumulate: is 4, should divide batch \(6\)"),
        (
            (SHORT, LONG), TWO_STAGES,
            "objective.training: is two_stage, should be joint with pretrain.phases",
        ),
    ],
)  # fmt: skip
def test_phases_that_do_not_fit_together_are_refused(phases, changes, sentence):
    with pytest.raises(BadConfig, match=sentence):
        phased(*phases, **changes)


def test_a_length_beside_phases_is_that_of_the_last():
    values = to_jsonable(phased())
    values["pretrain"]["length"] = 12
    with pytest.raises(BadConfig, match=r"length: is 12, should be the last phase's \(24\)"):
        build(ElectraConfig, values, "test")
    del values["pretrain"]["length"], values["pretrain"]["phases"]
    with pytest.raises(BadConfig, match=r"pretrain.length: is missing"):
        build(ElectraConfig, values, "test")


def test_a_phase_without_a_batch_of_rows_is_refused_before_the_first_step(tmp_path):
    too_few = dataclasses.replace(data(), others={12: MadeUpRows(8, length=12)})
    with pytest.raises(BadInput, match="there are 8 rows for training, and a batch takes 16"):
        train(tmp_path, phased(), rows=too_few)
    assert not checkpoint.steps(tmp_path)


def test_the_generator_learns_in_the_first_half_of_two_stages():
    stages = [stage_at(config(**TWO_STAGES), step, 5) for step in range(6)]
    assert stages == ["generator"] * 2 + ["discriminator"] * 4
    assert stage_at(config(), 0, 5) == "joint"


@pytest.mark.parametrize(
    "steps, form, expected",
    [
        (8, "product", [0, 0.375, 0.5, 0.25] * 2),
        (9, "product", [0, 0.375, 0.5, 0.25, 0, 0.4, 0.6, 0.4, 0.2]),
        (8, "warmup_stable_decay", [0.5, 1, 1, 1] * 2),
    ],
)
def test_each_of_two_stages_has_a_warm_up_and_a_decay_of_its_own(steps, form, expected):
    settings = config(
        **TWO_STAGES,
        pretrain__steps=steps,
        pretrain__warmup=2,
        pretrain__learning_rate=1.0,
        pretrain__schedule=form,
    )
    assert [learning_rate_at(settings, step, steps) for step in range(steps)] == pytest.approx(
        expected
    )
