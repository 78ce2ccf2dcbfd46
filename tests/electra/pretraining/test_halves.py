"""Two slices at once leave the bytes of one after the other."""

import threading

import pytest
import torch

from electra.optim.adamw import set_rate
from electra.pretraining.dataloader import Feed, part
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.step import Step, halves
from electra.pretraining.trainer import pretrain
from tests.electra.helpers import SPECIAL, VOCAB, config, data

CPU = torch.device("cpu")
QUIET = {"encoder__dropout": 0.0, "encoder__attention_dropout": 0.0}


def train(halved, settings, slices, precision, watch=lambda model: None):
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL).train()
    watch(model)
    step = Step(model, optimizer_of(model), World(0, 1, CPU), precision=precision, halved=halved)
    feed, numbers = Feed(data().train, settings, CPU, "noise"), []
    for number in range(4):
        set_rate(step.optimizer, 1e-3 * (number + 1))
        parts = [part(feed.batch(number), index, slices) for index in range(slices)]
        sums, norm = step(parts, [0] * slices, "joint")
        numbers.append((norm.item(), *(value.item() for value in sums.values())))
    return numbers, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("changes", [{}, {"objective__name": "replace_mlm"}, {"objective__sharing": "tokens"}])
@pytest.mark.parametrize("slices", [2, 4])
def test_two_slices_at_once_do_what_one_after_the_other_does(slices, changes, precision):
    met = threading.Barrier(2)  # a slice that no other joins is an error here

    def watch(model):
        model.discriminator.encoder.register_forward_pre_hook(lambda *_: (met.wait(60), None)[1])

    settings = config(**QUIET, **changes)
    ours, weights = train(True, settings, slices, precision, watch)
    theirs, expected = train(False, settings, slices, precision)
    assert ours == theirs
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))


def test_a_run_of_two_threads_leaves_what_two_slices_one_after_the_other_do(tmp_path):
    found = {}
    for name, changes in {"threads": {"pretrain__threads": 2}, "slices": {"pretrain__accumulate": 2}}.items():
        settings = config(**QUIET | changes)
        found[name] = pretrain(settings, data(), tmp_path / name, {"run": name}, log=lambda step, numbers: None)
    assert found["threads"].history == found["slices"].history
    ours, expected = (run.model.state_dict() for run in found.values())
    assert all(torch.equal(ours[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"pretrain__threads": 1}, False),
        ({"pretrain__threads": 3}, False),
        ({"pretrain__batch": 7}, False),
        ({"pretrain__batch": 6, "pretrain__accumulate": 3}, True),
        ({"pretrain__batch": 9, "pretrain__accumulate": 3}, False),
        ({"encoder__dropout": 0.1}, False),
        ({"encoder__attention_dropout": 0.1}, False),
    ],
)
def test_when_a_step_goes_in_two_halves(changes, expected):
    settings = config(**QUIET | {"pretrain__threads": 2} | changes)
    assert halves(settings, {settings.pretrain.batch}, World(0, 1, CPU)) is expected
    assert not halves(settings, {8}, World(0, 1, torch.device("cuda")))
    assert not halves(settings, {8}, World(0, 2, CPU))
