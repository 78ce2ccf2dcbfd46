"""The rehearsal: which cases there are, what counts as a fault, and the sentence where there is no stand-in."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rehearsal, rehearsal_case
from benchmarks.rehearsal import MEMORY, MODES, PRESETS, Case
from electra.files import read_json
from electra.pretraining.step import WARM_UP


def counted(**changes: Any) -> dict[str, Any]:
    right = {"device": "cuda:0", "bytes elsewhere": 0, "wrong": 0, "illegal": 0, "compiled after the warm-up": 0}
    return right | {"graphs": [700, 27], "late step": {"graph": 2, "launch": 50}, "resumed at step": 0} | changes


RECORDED = Case("x", "pretrain", "small", "compiled recorded")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"wrong": 2}, "2 times work on another stream"),
        ({"illegal": 1}, "1 times work that a recording forbids"),
        ({"compiled after the warm-up": 1}, "a graph compiled after the warm-up"),
        ({"bytes elsewhere": 512}, "512 bytes on another GPU than cuda:0"),
        ({"graphs": []}, "nothing was recorded"),
        ({"graphs": [700, 0]}, "a graph without operations"),
        ({"late step": {"launch": 900}}, "no graph in a late step"),
        ({"late step": {"graph": 2, "sync": 1}}, "the host waits in a late step"),
        ({"late step": {"graph": 2, "d2h": 1}}, "the host waits in a late step"),
    ],
)
def test_each_thing_that_is_wrong_is_a_fault(changes: dict[str, Any], fault: str) -> None:
    found = rehearsal.faults(RECORDED, [counted(**changes)])
    assert len(found) == bool(fault) and fault in "".join(found)


def test_a_run_that_begins_anew_and_workers_on_one_gpu_are_faults() -> None:
    killed = Case("x", "killed", "small", "recorded")
    assert rehearsal.faults(killed, [counted()]) == ["the second start began anew"]
    assert rehearsal.faults(killed, [counted(**{"resumed at step": 4})]) == []
    arms = Case("x", "arms", "small", "recorded", gpus=2)
    assert rehearsal.faults(arms, [counted(), counted()]) == ["2 GPUs, and work on ['cuda:0']"]
    assert rehearsal.faults(arms, [counted(), counted(device="cuda:1")]) == []


@pytest.mark.slow
def test_every_preset_and_mode_is_a_case_on_all_memory_and_gpus() -> None:
    cases = list(rehearsal.cases())
    assert len({case.name for case in cases}) == len(cases)
    found = {(case.model, case.mode, case.memory, case.gpus) for case in cases if case.kind == "pretrain"}
    assert {(p, mode, memory, n) for p in PRESETS for mode in MODES for memory in MEMORY for n in (1, 2)} <= found
    for case in cases:
        if case.mode in rehearsal_case.MODES:
            settings = rehearsal_case.config(case.model, case.changes).pretrain
            assert isinstance(settings.steps, int) and settings.steps > 2 * WARM_UP
            assert (
                settings.steps > rehearsal_case.SEEN + 1
                and settings.min_save_interval_minutes == settings.min_eval_interval_minutes == 0
            )
            assert (rehearsal_case.SEEN + 1) % settings.log_every and (rehearsal_case.SEEN + 1) % settings.eval_every


def test_fine_tuning_that_is_never_all_replayed_is_a_fault() -> None:
    case = Case("x", "finetune", "small", "recorded", gpus=1)
    assert rehearsal.faults(case, [counted(**{"steps of replays alone": 40})]) == []
    assert rehearsal.faults(case, [counted(**{"steps of replays alone": 0})]) == ["process 0: no step was all replayed"]


@pytest.mark.slow
def test_a_start_does_what_is_missing_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in rehearsal.NEEDED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    begun: list[str] = []

    def run(case: Case, *_: object) -> dict[str, Any]:
        begun.append(case.name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return {"faults": []}

    monkeypatch.setattr(rehearsal, "run", run)
    monkeypatch.setattr(rehearsal, "version", lambda folder: "2.13.0")
    names, output = [case.name for case in rehearsal.cases()], tmp_path / "out.json"
    words = ["rehearsal.py", str(tmp_path), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(KeyboardInterrupt):
        rehearsal.main()
    assert begun == names[:3] and list(read_json(output)["cases"]) == sorted(names[:2])
    assert rehearsal.main() == 0
    assert begun == [*names[:3], *names[2:]] and set(read_json(output)["cases"]) == set(names)
    begun[:] = ["", "", ""]
    monkeypatch.setattr(sys, "argv", [*words, "--only", "two arms", "adversarial"])
    assert rehearsal.main() == 0
    expected = [[name for name in names if text in name] for text in ("two arms", "adversarial")]
    assert begun[3:] == [*expected[0], *expected[1]]


def test_without_a_stand_in_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rehearsal.py", str(tmp_path)])
    assert rehearsal.main() == 69
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "has no venv/bin/python" in told and "set-up script" in told
