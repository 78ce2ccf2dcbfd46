"""What a checkpoint holds is all that a run goes on from."""

import threading

import pytest
import torch

from electra.optim.adamw import build_optimizer
from electra.pretraining.distributed import World
from electra.pretraining.state import State
from electra.storage import checkpoint


def state_of(run, background):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.0)
    return model, State(run, {}, World(0, 1, torch.device("cpu")), names, optimizer, background=background)


def test_a_checkpoint_that_is_written_aside_holds_the_moment_it_was_asked_for(tmp_path, monkeypatch):
    """Training goes on before it lies on the disk: weights and history change under it."""
    go, save = threading.Event(), checkpoint.save

    def slow(*args, **options):
        assert go.wait(10)
        save(*args, **options)

    monkeypatch.setattr(checkpoint, "save", slow)
    found = []
    for background in (False, True):
        model, state = state_of(tmp_path / str(background), background)
        history = [{"step": 1}]
        if not background:
            go.set()
        state.save(1, {"history": history}, keep=2)
        if background:
            with torch.no_grad():
                model.weight.add_(1)
            history.append({"step": 2})
            assert not checkpoint.steps(state.run)
            go.set()
        state.written()
        go.clear()
        found.append(checkpoint.load(state.run / "step-1"))
    (_, plain, progress), (_, background, theirs) = found
    assert progress == theirs and progress["history"] == [{"step": 1}]
    assert all(torch.equal(plain["model"][name], background["model"][name]) for name in ("weight", "bias"))


def test_what_goes_wrong_in_the_background_is_raised_at_the_next_save(tmp_path, monkeypatch):
    _, state = state_of(tmp_path, background=True)
    monkeypatch.setattr(
        checkpoint, "save", lambda *args, **options: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    state.save(1, {}, keep=2)
    with pytest.raises(OSError, match="No space left"):
        state.save(2, {}, keep=2)
