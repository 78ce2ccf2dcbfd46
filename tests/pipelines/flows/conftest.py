"""Flows in a folder of their own, on one temporary server. DVC is played by a list."""

import pytest

from electra.files import write_json
from pipelines import tracking
from pipelines.versioning import workspace
from pipelines.versioning.dvc_runner import Outcome, StageFailed
from tests.conftest import SMOKE, copy_text

ABLATION = SMOKE.replace("ablations: {}\n", "", 1).replace(
    "ablations: []", "ablations: [a]"
).removesuffix("ablations: {}\n") + (
    "ablations:\n  a: {title: t, base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke}, arms: {one: {}}}\n"
    "  b: {title: t, base: {model: smoke, tokens: smoke, data: smoke, recipe: smoke},"
    " arms: {same: {}, two: {generator.width: 1.0}}}\n"
)


class Dvc:
    """In place of DVC: records targets, answers, and fails as it is set to: stage -> its next
    failures.
    """

    def __init__(self):
        self.calls: list[str] = []
        self.parents: list[str | None] = []
        self.failures: dict[str, list[StageFailed]] = {}
        self.would_run: list[str] = []

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
    for path in ("models/smoke", "glue/smoke", "squad/smoke", "ablation/a", "ablation/b"):
        (tmp_path / "build" / path).mkdir(parents=True)
        numbers = {
            "average": {"pretrained": {"mean": 91.25}},
            "arms": {"one": {"average": {"mean": 90.5}}},
            "label": "smoke",
            "loss": 1.23456,
            "mlm_accuracy": 0.625,
            "tasks": {"cola": {"mean": 0.5, "scores": [0.4, 0.6]}},
        }
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
    return {
        str(page.key): str(page.data) for page in sorted(pages, key=lambda page: str(page.created))
    }
