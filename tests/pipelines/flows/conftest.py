"""Flows in a folder of their own. DVC and the commands of a run's own code are played by a list."""

import json
import logging
from types import SimpleNamespace

import pytest

from electra.config import to_jsonable
from electra.files import write_json
from pipelines.config.params import load
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import Outcome, StageFailed
from tests.support.project import SMOKE, copy_text

BASE = "base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}"
ABLATION = SMOKE.replace("published: {}", "published: {theirs: {folder: x}}").replace(
    "ablations: {}\n",
    f"ablations:\n  a: {{title: t, {BASE}, arms: {{one: {{}}}}}}\n"
    f"  b: {{title: t, {BASE}, arms: {{same: {{}}, two: {{generator.width: 1.0}}}}}}\n",
)


class Played:
    """Record what flows start and show. `failures` has the next errors of a call, by its name."""

    def __init__(self):
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.pages: dict[str, dict[str, object]] = {}
        self.failures: dict[str, list[StageFailed]] = {}
        self.is_stale = False

    def fail(self, name):
        if left := self.failures.get(name):
            raise left.pop(0)

    def repro(self, target, checkout, log, seconds):
        name = target.rpartition(":")[2]
        self.calls.append(name)
        self.target = target
        self.checkout = checkout
        self.seconds = seconds
        log(f"Running stage '{name}':")
        self.fail(name)
        return Outcome(ran=[name])

    def would_run(self, target, checkout):
        self.fail("would_run")
        return [target.rpartition(":")[2]] if self.is_stale else []

    def ask(self, checkout, command, *words):
        self.asked.append(" ".join([command, *words]))
        self.fail(command)
        if command == "params":
            params = load(checkout.folder / "params.yaml")
            return json.dumps(to_jsonable(params), indent=2).splitlines()
        return ["memory: 1 GB", "on this machine: 3 h, more or less"]

    def send(self, create, *, key, **values):
        self.pages[key] = values


@pytest.fixture
def dvc(tmp_path, monkeypatch):
    """Flows in a folder of their own, whose stages leave numbers and nothing else."""
    from pipelines.flows import steps

    (tmp_path / "params.yaml").write_text(ABLATION)
    copy_text(tmp_path)
    for path in ("models/smoke", "glue/smoke", "squad/smoke", "ablation/a", "ablation/b"):
        numbers = {
            "average": {"pretrained": {"mean": 91.25}},
            "arms": {"one": {"average": {"mean": 90.5}}},
            "mlm_accuracy": 0.625,
            "tasks": {},
        }
        write_json(tmp_path / "build" / path / "results.json", numbers)
    monkeypatch.chdir(tmp_path)
    for module in (steps, workspace):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    played = Played()
    for name in ("repro", "would_run"):
        monkeypatch.setattr(steps, name, getattr(played, name))
    return played


@pytest.fixture
def alone(dvc, monkeypatch):
    """The same without a server: tasks are plain functions, and pages are kept."""
    from pipelines.flows import server, steps

    for task in ("check", "run_stage", "store"):
        monkeypatch.setattr(steps, task, getattr(steps, task).fn)
    monkeypatch.setattr(steps, "get_run_logger", lambda: logging.getLogger("a run"))
    monkeypatch.setattr(server, "send", dvc.send)
    monkeypatch.setattr(workspace, "ask", dvc.ask)
    url = "http://me:s3cret@host/runs/7"
    dvc.flow_run = SimpleNamespace(id="7", run_count=5, tags=[], ui_url=url)
    monkeypatch.setattr(steps, "flow_run", dvc.flow_run)
    return dvc
