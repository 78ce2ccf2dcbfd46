"""Flows in a folder of their own, on one temporary server. DVC is played by a list."""

import pytest

from electra.files import write_json
from pipelines import tracking
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import Outcome
from tests.conftest import SMOKE, copy_text

BASE = "{model: smoke, tokens: smoke, data: smoke, recipe: smoke}"
ABLATION = SMOKE.replace("ablations: []", "ablations: [a]").replace(
    "ablations: {}\n",
    f"""ablations:
  a: {{title: t, base: {BASE}, arms: {{one: {{}}}}}}
  b: {{title: t, base: {BASE}, arms: {{same: {{}}, two: {{generator.width: 1.0}}}}}}
""",
)


class Dvc:
    """In place of DVC: records targets, answers, and fails as it is set to: stage -> its next
    failures.
    """

    def __init__(self):
        self.calls = []
        self.parents = []
        self.failures = {}
        self.would_run = []

    def repro(self, target, place, log, seconds):
        name = target.rpartition(":")[2]
        self.calls.append(name)
        self.parents.append(place.variables.get(tracking.PARENT))
        log(f"Running stage '{name}':")
        if left := self.failures.get(name):
            raise left.pop(0)
        return Outcome(ran=[name])


@pytest.fixture
def dvc(prefect_server, tmp_path, monkeypatch):
    """Flows in a folder of their own, on one temporary server."""
    from pipelines.flows import steps

    (tmp_path / "params.yaml").write_text(ABLATION)
    copy_text(tmp_path)
    numbers = {"average": {"pretrained": {"mean": 91.25}}, "tasks": {}}
    numbers["arms"] = {"one": {"average": {"mean": 90.5}}}
    for path in ("models/smoke", "glue/smoke", "squad/smoke", "ablation/a", "ablation/b"):
        write_json(tmp_path / "build" / path / "results.json", numbers)
    monkeypatch.chdir(tmp_path)
    for module in (steps, workspace):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    played = Dvc()
    monkeypatch.setattr(steps, "repro", played.repro)
    monkeypatch.setattr(steps, "would_run", lambda *_: played.would_run)
    monkeypatch.setattr(steps.run_stage, "retry_delay_seconds", 0)
    return played


def artifacts():
    """The newest page of each key: other tests' runs leave theirs on the same server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        pages = client.read_artifacts()
    return {page.key: page.data for page in sorted(pages, key=lambda page: page.created)}
