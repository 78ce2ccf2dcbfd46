"""Each objective's equation, computed by hand; each variant trains."""

import dataclasses
import math

import pytest
import torch

from electra.errors import BadConfig, BadInput
from electra.nn.config import BertConfig, ModernBertConfig
from electra.pretraining.config import GeneratorConfig
from electra.pretraining.corruption import mask
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.model import Pretraining, reinforce_losses
from electra.seeds import derive
from tests.electra.helpers import SPECIAL, TWO_STAGES, VOCAB, config, data, train


def test_reinforce_pushes_samples_with_a_reward_above_the_baseline():
    logits = torch.zeros(2, 3, requires_grad=True)
    rewards = torch.tensor([2.0, 0.1])
    baseline = torch.tensor([0.0, 0.0], requires_grad=True)
    policy, regression = reinforce_losses(logits, torch.tensor([1, 1]), rewards, baseline)
    advantage = [2.0 - math.log(2), 0.1 - math.log(2)]
    assert policy.tolist() == pytest.approx([a * math.log(3) for a in advantage], rel=1e-5)
    expected = [
        -math.exp(-r) * math.log(0.5) - (1 - math.exp(-r)) * math.log(0.5) for r in (2.0, 0.1)
    ]
    assert regression.tolist() == pytest.approx(expected, rel=1e-5)
    policy.sum().backward()
    # descent raises the first sample's logit and lowers the second's
    assert logits.grad[0, 1] < 0 < logits.grad[1, 1]
    assert baseline.grad is None or not baseline.grad.any()  # the policy does not move the baseline


def model_and_batch(settings):
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL).eval()
    return model, BatchLoader(data().train, settings, torch.device("cpu"), "noise").batch(0)


def test_no_gradient_passes_from_the_discriminator_through_the_samples():
    settings = config(objective__sharing="none", objective__generator_weight=0.0)
    model, batch = model_and_batch(settings)
    model(batch).loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.generator.parameters())
    assert all(p.grad is not None for p in model.discriminator.parameters())


def test_disentangled_tables_start_equal_and_keep_the_gradients_apart():
    settings = config(objective__sharing="gradient_disentangled", objective__generator_weight=0.0)
    model, batch = model_and_batch(settings)
    ours = model.discriminator.encoder.embeddings
    theirs = model.generator.encoder.embeddings
    assert torch.equal(ours.tables()[0], theirs.tables()[0])
    model(batch).loss.backward()
    assert ours.word.weight.grad.any() and (
        theirs.word.weight.grad is None or not theirs.word.weight.grad.any()
    )


def by_hand(settings):
    """A model, a batch, and its networks' outputs in float64, computed without its forward pass."""
    model, batch = model_and_batch(settings)
    model.double()
    masked = mask(batch.ids_BT, batch.lengths_B, SPECIAL, settings.objective, batch.noise, VOCAB)
    chosen = [
        (row, masked.positions_BN[row, slot].item())
        for row, slot in masked.weights_BN.nonzero().tolist()
    ]
    outputs = model(batch)
    with torch.no_grad():
        read = outputs.corrupted_BT
        hidden = model.discriminator.encoder(read, batch.segments_BT, batch.lengths_B)
        verdicts = model.discriminator.head(hidden).sigmoid()
        words = model.discriminator.encoder.embeddings.tables()[0]
        tokens = copies = None
        if hasattr(model, "token_head"):
            tokens = model.token_head(hidden, words).softmax(-1)
        if hasattr(model, "copy_gate"):
            copies = model.copy_gate(hidden).squeeze(-1).sigmoid()
        mlm = 0.0
        if model.generator is not None:
            every = torch.arange(batch.ids_BT.shape[1]).expand_as(batch.ids_BT)
            proposed, _ = model.generator(masked.ids_BT, batch.segments_BT, batch.lengths_B, every)
            proposed = proposed.view(*batch.ids_BT.shape, VOCAB).softmax(-1)
            mlm = sum(-proposed[r, p, batch.ids_BT[r, p]].log() for r, p in chosen) / len(chosen)
    return outputs, batch, chosen, mlm, verdicts, tokens, copies


@pytest.mark.parametrize("name", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm"])
def test_each_objective_asks_what_the_paper_says_where_it_says(name):
    outputs, batch, chosen, mlm, verdicts, tokens, copies = by_hand(config(objective__name=name))
    real = [(r, p) for r, length in enumerate(batch.lengths_B.tolist()) for p in range(length)]
    ids = batch.ids_BT
    fake = outputs.corrupted_BT != batch.ids_BT
    assert (outputs.corrupted_BT == SPECIAL.mask).any() if name == "mlm" else fake.any()

    def right(r, p):
        """The probability of the right answer at a position."""
        if name in {"electra", "electra_15"}:
            return verdicts[r, p] if fake[r, p] else 1 - verdicts[r, p]
        if name == "all_tokens_mlm":
            return copies[r, p] * ~fake[r, p] + (1 - copies[r, p]) * tokens[r, p, ids[r, p]]
        return tokens[r, p, ids[r, p]]

    asked = real if name in {"electra", "all_tokens_mlm"} else chosen
    main = sum(-right(r, p).log() for r, p in asked) / len(asked)
    weight = 50 if name in {"electra", "electra_15"} else 1
    assert outputs.loss.item() == pytest.approx((mlm + weight * main).item(), rel=1e-5)


def test_a_unigram_generator_proposes_by_its_frequencies_and_learns_nothing():
    counts = torch.arange(1.0, VOCAB + 1)
    model = Pretraining(config(generator__kind="unigram"), VOCAB, SPECIAL, counts)
    logits, _ = model.get_submodule("generator")(
        None, None, None, torch.zeros(2, 3, dtype=torch.long)
    )
    torch.testing.assert_close(
        logits.softmax(-1), (counts / counts.sum()).expand(6, VOCAB), atol=1e-6, rtol=1e-5
    )
    assert not list(model.generator.parameters())
    with pytest.raises(BadInput, match="unigram needs how often each token occurs"):
        Pretraining(config(generator__kind="unigram"), VOCAB, SPECIAL)


def test_the_generators_size_is_a_fraction_of_the_discriminators():
    small = BertConfig(layers=12, hidden=256, heads=4, ffn=1024, embedding=128)
    for width, depth, *shape in (
        (0.125, 1.0, 32, 1, 128, 12),
        (0.25, 0.5, 64, 1, 256, 6),
        (1.0, 1.0, 256, 4, 1024, 12),
    ):
        ours = GeneratorConfig(width=width, depth=depth).encoder(small)
        assert [ours.hidden, ours.heads, ours.ffn, ours.layers] == shape and ours.embedding == 128
    # a modern one's FFN comes in eights where the discriminator's does
    modern = ModernBertConfig(
        kind="modern", layers=2, hidden=768, heads=12, ffn=1280, embedding=768
    )
    for ffn, expected in ((1280, 424), (448, 152), (340, 113)):
        discriminator = dataclasses.replace(modern, ffn=ffn)
        assert GeneratorConfig(width=0.33333).encoder(discriminator).ffn == expected


TWIN = {"generator__width": 1.0}


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"objective__random_token_rate": 0.2}, "objective.random_token_rate: is 0.2, should"),
        (
            {"objective__name": "mlm", "objective__training": "adversarial"},
            "objective.training: is adversarial, should be joint",
        ),
        ({"pretrain__decay_share": 0.2}, "pretrain.decay_share: is 0.2, which needs schedule"),
        ({"objective__sharing": "all"}, "sharing: is all, which needs generator.width 1"),
        ({**TWO_STAGES, "generator__width": 0.5}, "is two_stage, which needs generator.width 1"),
        (
            {"generator__kind": "unigram", "objective__sharing": "tokens"},
            "generator.kind: is unigram, which has no weights to share",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes, sentence):
    with pytest.raises(BadConfig, match=sentence):
        config(**changes)


@pytest.mark.parametrize(
    "changes, shared",
    [
        ({"objective__sharing": "none"}, ()),
        ({"objective__sharing": "tokens"}, ("encoder.embeddings.word.",)),
        ({"objective__sharing": "embeddings"}, ("encoder.embeddings.",)),
        # the discriminator has deltas, the generator the tables
        ({"objective__sharing": "gradient_disentangled"}, ()),
        ({"objective__sharing": "all", **TWIN}, ("encoder.",)),
        (TWO_STAGES, ()),
    ],
)
def test_what_both_networks_learn_is_not_the_generators_own(changes, shared):
    model = Pretraining(config(**changes), VOCAB, SPECIAL)
    own = model.generator_parameters()
    given = dict(model.generator.named_parameters())
    assert {name for name, parameter in given.items() if parameter not in own} == {
        name for name in given if shared and name.startswith(shared)
    }
    assert all(parameter not in own for parameter in model.discriminator.parameters())
    assert (
        Pretraining(config(objective__name="mlm"), VOCAB, SPECIAL).generator_parameters() == set()
    )


@pytest.mark.parametrize(
    "changes, start",
    [
        ({}, "discriminator"),
        ({"objective__name": "mlm"}, "discriminator"),
        ({"objective__sharing": "all", **TWIN}, "discriminator"),
        ({"objective__sharing": "gradient_disentangled"}, "discriminator"),
        (TWO_STAGES, "generator"),
    ],
)
def test_initial_attention_is_of_the_network_that_the_discriminator_begins_as(changes, start):
    for init in ("mimetic", "neighbours"):
        settings = config(encoder__init=init, encoder__embedding=32, **changes)
        model = Pretraining(settings, VOCAB, SPECIAL)
        for name, (encoder, _) in model.networks().items():
            if name == "generator" != start and encoder is model.discriminator.encoder:
                continue
            is_start = (name == "generator") == (start == "generator")
            query, key, _ = encoder.get_parameter("layers.0.attention.qkv.weight").detach().chunk(3)
            if init == "mimetic":
                products = (query.T @ key).diagonal().mean() / len(query) * encoder.config.heads
                assert (products > 0.005) == is_start, name
            else:
                assert bool(key[:, :16].any()) != is_start, name
    word, position = getattr(model, start).encoder.embeddings.tables()
    assert not word[:, 16:].any() and not position[:, :16].any() and position[:, 16:].any(1).all()


def test_two_stage_begins_the_discriminator_with_the_generators_weights():
    torch.manual_seed(0)
    model = Pretraining(config(**TWO_STAGES), VOCAB, SPECIAL)
    learning = {"generator": model.generator, "discriminator": model.discriminator}
    for stage in learning:
        model.begin_stage(stage, copy=stage == "discriminator")
        assert {
            name: {p.requires_grad for p in of.parameters()} for name, of in learning.items()
        } == {name: {name == stage} for name in learning}
    for ours, theirs in zip(
        model.discriminator.encoder.parameters(), model.generator.encoder.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs) and ours is not theirs


def test_a_stage_leaves_the_other_network_as_it_is(tmp_path):
    """Weight decay also changes only the network that learns."""
    settings = config(**TWO_STAGES, pretrain__weight_decay=0.5, pretrain__warmup=1)
    torch.manual_seed(derive(settings.pretrain.seed, "init"))
    first = Pretraining(settings, VOCAB, SPECIAL).state_dict()
    runs = {}
    for stop_at in (10, 15, 20):
        runs[stop_at] = train(tmp_path / "cut", settings, stop_at=stop_at).model.state_dict()
    whole = train(tmp_path / "whole", settings).model.state_dict()
    for name, value in first.items():
        assert torch.equal(runs[20][name], whole[name]), name
        if name.startswith("discriminator"):
            assert torch.equal(runs[10][name], value), name
            assert not torch.equal(runs[20][name], value), name
        else:
            assert torch.equal(runs[20][name], runs[10][name]), name
            assert not torch.equal(runs[10][name], value), name
