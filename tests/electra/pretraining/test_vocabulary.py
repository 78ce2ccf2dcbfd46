"""The chunked vocabulary against the plain losses, forward and gradient."""

import pytest
import torch
import torch.nn.functional as F

from electra.pretraining import vocabulary
from electra.pretraining.config import ObjectiveConfig
from electra.pretraining.corruption import draw, sample
from electra.pretraining.objectives import masked_token_loss
from electra.pretraining.vocabulary import Chosen

M, E, V = 23, 8, 700


def numbers():
    generator = torch.Generator().manual_seed(0)
    features, word, bias = (torch.randn(*shape, generator=generator) for shape in ((M, E), (V, E), (V,)))
    targets = torch.randint(0, V, (M,), generator=generator)
    weights = (torch.rand(M, generator=generator) > 0.2).float()
    return [features, word, bias], targets, weights, torch.rand(M, generator=generator)


def both(config=None, bf16=False, learns=(True, True, True)):
    """(loss, samples, gradients) of the plain way and of the chunked one, both at a tenth of the loss."""
    tensors, targets, weights, uniform = numbers()
    config = config or ObjectiveConfig()
    found = []
    for chunked in (False, True):
        leaves = [t.clone().requires_grad_(flag) for t, flag in zip(tensors, learns, strict=True)]
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            if chunked:
                loss, sampled = vocabulary.propose(*leaves, Chosen(targets, weights, uniform), config)
            else:
                logits = F.linear(*leaves)
                loss = masked_token_loss(logits, targets, weights)
                sampled = sample(logits, uniform, config, targets)
        if any(learns):
            (loss * 0.1).backward()
        found.append((loss.detach(), sampled, [leaf.grad for leaf in leaves]))
    return found


def agree(plain, chunked):
    torch.testing.assert_close(chunked[0], plain[0], rtol=1e-6, atol=0)
    assert torch.equal(chunked[1], plain[1])
    for ours, theirs in zip(chunked[2], plain[2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunk", [5, 23, 64])
@pytest.mark.parametrize("changes", [{}, {"temperature": 0.5}, {"disallow_correct": True}])
def test_chunks_give_the_plain_loss_samples_and_gradients(monkeypatch, chunk, changes):
    monkeypatch.setattr(vocabulary, "CHUNK", chunk)
    agree(*both(ObjectiveConfig(**changes)))


def test_pieces_that_fill_a_gpus_tiles_change_nothing(monkeypatch):
    """At 700 pieces there are 4 more, with no probability and no gradient."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    widths, linear = [], F.linear
    monkeypatch.setattr(vocabulary.F, "linear", lambda *args: widths.append(len(args[1])) or linear(*args))
    agree(*both(ObjectiveConfig(disallow_correct=True)))
    assert widths == [V, 704]


def test_in_bfloat16_the_products_alone_are_rounded():
    exact, chunked = both()[0], both(bf16=True)[1]
    assert chunked[0].dtype == torch.float32
    torch.testing.assert_close(chunked[0], exact[0], rtol=3e-3, atol=0)
    for ours, theirs in zip(chunked[2], exact[2], strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() < 0.02 * theirs.abs().max()


def test_a_frozen_head_gets_no_gradient_and_a_frozen_word_table_no_work():
    assert both(learns=(False, False, False))[1][2] == [None, None, None]
    assert [grad is not None for grad in both(learns=(True, False, False))[1][2]] == [True, False, False]


def test_a_hopeless_target_costs_its_distance_not_infinity():
    """exp(-200) is 0 in fp32; its negative logarithm must still be 200."""
    features, word = torch.ones(1, 1), torch.zeros(5, 1)
    bias = torch.tensor([200.0, 0, 0, 0, 0])
    chosen = Chosen(torch.tensor([3]), torch.ones(1), None)
    loss, _ = vocabulary.propose(features, word, bias, chosen, ObjectiveConfig())
    assert loss.item() == pytest.approx(200)


@pytest.mark.parametrize("size", [3, 256, 257, 700])
def test_draw_inverts_the_cumulative_distribution(size):
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(1, size, generator=generator).softmax(-1)
    uniform = torch.rand(4000, generator=generator)
    expected = torch.searchsorted(p[0].double().cumsum(0), uniform.double(), right=True).clamp(max=size - 1)
    assert (draw(p.expand(4000, -1), uniform) == expected).float().mean() > 0.995  # the rest lies on a rounded border


def test_draw_never_takes_what_has_no_probability():
    p = torch.zeros(3, 600)
    p[:, [0, 255, 300]] = torch.tensor([0.25, 0.25, 0.5])
    uniform = torch.tensor([1 - 2**-24, 0.0, 0.5 - 2**-25])
    assert draw(p, uniform).tolist() == [300, 0, 255]
