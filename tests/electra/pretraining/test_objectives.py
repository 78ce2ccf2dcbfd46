"""Each objective's equation, computed by hand; each variant trains."""

import dataclasses
import math

import pytest
import torch

from electra.errors import BadConfig, BadInput
from electra.nn.config import BertConfig, ModernBertConfig
from electra.pretraining.config import GeneratorConfig
from electra.pretraining.corruption import mask
from electra.pretraining.dataloader import BatchLoader, slice_batch
from electra.pretraining.model import Pretraining, pretraining_optimizer, reinforce_losses
from electra.seeds import derive
from tests.support.pretraining import MODERN, SPECIAL, TWO_STAGES, VOCAB, config, data, train
from tests.support.steps import CPU, TWIN


def test_reinforce_pushes_samples_with_a_reward_above_the_baseline():
    """Compare with values by hand: two samples of probability 1/3, the baseline -log σ(logit), and
    exp(-reward) as its target.
    """
    logits = torch.zeros(2, 3, requires_grad=True)
    baseline = torch.tensor([0.5, -1.0], requires_grad=True)
    rewards = torch.tensor([2.0, 0.1], requires_grad=True)
    policy, regression = reinforce_losses(logits, torch.tensor([1, 1]), rewards, baseline)
    expected = [(2 - 0.474077) * math.log(3), (0.1 - 1.313262) * math.log(3)]
    assert policy.tolist() == pytest.approx(expected, rel=1e-5)
    assert regression.tolist() == pytest.approx([0.906409, 1.218099], rel=1e-5)
    policy.sum().backward()
    # descent raises the first sample's logit and lowers the second's
    assert logits.grad[0, 1] < 0 < logits.grad[1, 1]
    # the policy moves neither the baseline nor the discriminator
    assert baseline.grad is None and rewards.grad is None


def model_and_batch(settings):
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL).eval()
    return model, BatchLoader(data().train, settings, CPU, "noise").batch(0)


@pytest.mark.parametrize("sharing", ["none", "gradient_disentangled"])
def test_no_gradient_passes_from_the_discriminator_to_the_generator(sharing):
    settings = config(objective__sharing=sharing, objective__generator_weight=0.0)
    model, batch = model_and_batch(settings)
    model(batch).loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.generator.parameters())
    assert all(p.grad is not None for p in model.discriminator.parameters())


@pytest.mark.parametrize("name", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm"])
def test_each_objective_asks_what_the_paper_says_where_it_says(name):
    """Computed position by position from the probability of the right answer, in float64."""
    masks_all = {"objective__mask_token_rate": 1.0, "objective__random_token_rate": 0.0}
    settings = config(objective__name=name, **masks_all)
    model, batch = model_and_batch(settings)
    model.double()
    outputs = model(batch)
    halves = [model(slice_batch(batch, index, 2)).loss.item() for index in range(2)]
    assert sum(halves) == pytest.approx(outputs.loss.item()), "of one global batch"
    ids_BT, segments_BT, lengths_B, noise, *_ = batch
    masked = mask(ids_BT, lengths_B, SPECIAL, settings.objective, noise, VOCAB)
    chosen_BT = masked.ids_BT == SPECIAL.mask
    fake_BT = outputs.corrupted_BT != ids_BT
    assert fake_BT.any()

    def mean_loss(probability_BT, asked_BT):
        return -probability_BT[asked_BT].log().mean()

    hidden_BTH = model.discriminator.encoder(outputs.corrupted_BT, segments_BT, lengths_B)
    if name in {"electra", "electra_15"}:
        verdict_BT = model.discriminator.head(hidden_BTH).sigmoid()
        right_BT = torch.where(fake_BT, verdict_BT, 1 - verdict_BT)
    else:
        words = model.discriminator.encoder.embeddings.tables()[0]
        tokens_BTV = model.token_head(hidden_BTH, words).softmax(-1)
        right_BT = tokens_BTV.gather(2, ids_BT[:, :, None]).squeeze(2)
    if name == "all_tokens_mlm":
        copy_BT = model.copy_gate(hidden_BTH).squeeze(2).sigmoid()
        right_BT = copy_BT * ~fake_BT + (1 - copy_BT) * right_BT
    real_BT = torch.arange(24) < lengths_B[:, None]
    loss = mean_loss(right_BT, real_BT if name in {"electra", "all_tokens_mlm"} else chosen_BT)
    if name in {"electra", "electra_15"}:
        loss *= 50
    if name != "mlm":
        every_BT = torch.arange(24).expand_as(ids_BT)
        logits_XV, _ = model.generator(masked.ids_BT, segments_BT, lengths_B, every_BT)
        proposed_X = logits_XV.softmax(-1).gather(1, ids_BT.view(-1, 1))
        loss += mean_loss(proposed_X.view_as(ids_BT), chosen_BT)
    assert outputs.loss.item() == pytest.approx(loss.item(), rel=1e-5)


def test_a_unigram_generator_proposes_by_its_frequencies_and_learns_nothing():
    counts = torch.arange(1.0, VOCAB + 1)
    settings = config(generator__kind="unigram")
    generator = Pretraining(settings, VOCAB, SPECIAL, counts).get_submodule("generator")
    logits, _ = generator(None, None, None, torch.zeros(2, 3))
    expected = (counts / counts.sum()).expand(6, VOCAB)
    torch.testing.assert_close(logits.softmax(-1), expected, atol=1e-6, rtol=1e-5)
    assert not list(generator.parameters())
    with pytest.raises(BadInput, match="unigram needs how often each token occurs"):
        Pretraining(settings, VOCAB, SPECIAL)


BERT = BertConfig(layers=12, hidden=256, heads=4, ffn=1024, embedding=128)
WIDE_MODERN = ModernBertConfig(
    kind="modern", layers=2, hidden=768, heads=12, ffn=1280, embedding=768
)


@pytest.mark.parametrize(
    "encoder, width, depth, hidden, heads, ffn, layers",
    [
        (BERT, 0.125, 1.0, 32, 1, 128, 12),
        (dataclasses.replace(BERT, heads=2, ffn=5), 1.0, 1.0, 256, 2, 5, 12),
        (BERT, 0.25, 0.5, 64, 1, 256, 6),
        # a modern one's FFN comes in eights where the discriminator's does
        (WIDE_MODERN, 1 / 3, 1.0, 256, 4, 424, 2),
        (dataclasses.replace(WIDE_MODERN, ffn=340), 1 / 3, 1.0, 256, 4, 113, 2),
    ],
)
def test_the_generators_size_is_a_fraction_of_the_discriminators(
    encoder, width, depth, hidden, heads, ffn, layers
):
    expected = dataclasses.replace(encoder, hidden=hidden, heads=heads, ffn=ffn, layers=layers)
    assert GeneratorConfig(width=width, depth=depth).encoder(encoder) == expected


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"objective__random_token_rate": 0.2}, "objective.random_token_rate: is 0.2, should"),
        (
            {"objective__name": "mlm", "objective__training": "adversarial"},
            "objective.training: is adversarial, should be joint",
        ),
        ({"pretrain__decay_share": 0.2}, "pretrain.decay_share: is 0.2, which needs schedule"),
        (
            {"encoder__hidden": 400},
            r"generator.width: 0.5 makes a generator with .*heads: is 3, should divide hidden",
        ),
        ({"objective__sharing": "all"}, "sharing: is all, which needs generator.width 1"),
        ({**TWO_STAGES, "generator__width": 0.5}, "is two_stage, which needs generator.width 1"),
        (
            {"generator__kind": "unigram", "objective__sharing": "tokens"},
            "generator.kind: is unigram, which has no weights to share",
        ),
        (
            {"generator__kind": "unigram", "objective__training": "adversarial"},
            "generator.kind: is unigram, which has",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes, sentence):
    with pytest.raises(BadConfig, match=sentence):
        config(**changes)


@pytest.mark.parametrize(
    "sharing, shared",
    [
        ("none", ()),
        ("tokens", "encoder.embeddings.word."),
        ("embeddings", "encoder.embeddings."),
        ("gradient_disentangled", ()),  # the discriminator has deltas, the generator the tables
        ("all", "encoder."),
    ],
)
def test_what_both_networks_learn_is_not_the_generators_own(sharing, shared):
    model = Pretraining(config(generator__width=1.0, objective__sharing=sharing), VOCAB, SPECIAL)
    own = model.generator_parameters()
    for name, parameter in model.generator.named_parameters():
        assert (parameter not in own) == name.startswith(shared), name
    assert own.isdisjoint(model.discriminator.parameters())
    ours, theirs = (encoder.embeddings.tables() for encoder, _ in model.networks().values())
    words, positions = map(torch.equal, ours, theirs)
    assert words == (sharing != "none") and positions == (words and sharing != "tokens")


@pytest.mark.parametrize(
    "changes, start",
    [
        ({}, "discriminator"),
        ({"objective__name": "mlm"}, "discriminator"),
        (TWIN, "discriminator"),
        (TWO_STAGES, "generator"),
    ],
)
def test_initial_attention_is_of_the_network_that_the_discriminator_begins_as(changes, start):
    model = Pretraining(config(encoder__init="mimetic", **changes), VOCAB, SPECIAL)
    for encoder, _ in model.networks().values():
        query, key, _ = encoder.get_parameter("layers.0.attention.qkv.weight").chunk(3)
        finds_itself = torch.trace(query.T @ key) > 1
        assert finds_itself == (encoder is getattr(model, start).encoder)


def test_the_optimizer_has_the_settings_of_the_run():
    changes = {"beta1": 0.8, "beta2": 0.9, "eps": 1e-4, "weight_decay": 0.5}
    settings = config(**{f"pretrain__{key}": value for key, value in changes.items()})
    group, *_ = pretraining_optimizer(Pretraining(settings, VOCAB, SPECIAL)).param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.9), 1e-4, 0.5)


def test_two_stage_begins_the_discriminator_with_the_generators_weights():
    model = Pretraining(config(**TWO_STAGES), VOCAB, SPECIAL)
    model.begin_stage("discriminator", copy=True)
    for ours, theirs in zip(
        model.discriminator.encoder.parameters(), model.generator.encoder.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs) and ours is not theirs


def test_a_stage_leaves_the_other_network_as_it_is(tmp_path):
    """Weight decay also changes only the network that learns."""
    settings = config(**TWO_STAGES, pretrain__weight_decay=0.5, pretrain__warmup=1)
    torch.manual_seed(derive(settings.pretrain.seed, "init"))
    first = Pretraining(settings, VOCAB, SPECIAL).state_dict()
    middle = train(tmp_path / "cut", settings, stop_at=10).model.state_dict()
    train(tmp_path / "cut", settings, stop_at=15)
    last = train(tmp_path / "cut", settings).model.state_dict()
    whole = train(tmp_path / "whole", settings).model.state_dict()
    for name in first:
        is_generator = name.startswith("generator")
        assert torch.equal(middle[name], first[name]) != is_generator, name
        assert torch.equal(last[name], middle[name]) == is_generator, name
        assert torch.equal(last[name], whole[name]), name


TOKENS = {"objective__sharing": "tokens"}


@pytest.mark.parametrize(
    "changes",
    [
        {**TOKENS, "encoder__embedding": 16},
        {**TOKENS, "objective__name": "all_tokens_mlm"},
        {**TOKENS, "objective__name": "mlm"},
        {**TOKENS, "objective__training": "adversarial"},
        {**TOKENS, "encoder__dropout": 0.1, "encoder__attention_dropout": 0.1},
        {**TOKENS, "encoder__init": "mimetic", "pretrain__generator_lr_scale": 4.0},
        {**TOKENS, "encoder__init": "neighbours", "encoder__heads": 1},
        {"objective__sharing": "embeddings", "generator__width": 1.0},
        {"objective__sharing": "gradient_disentangled"},
        TWIN,
        TWO_STAGES,
    ],
)
def test_a_modern_encoder_learns_and_every_parameter_has_a_part_in_it(changes, tmp_path):
    settings = config(encoder=dict(MODERN), **changes, pretrain__learning_rate=2e-3)
    torch.manual_seed(derive(1, "init"))
    before = dict(Pretraining(settings, VOCAB, SPECIAL).named_parameters())
    trained = train(tmp_path, settings)
    first, *_, last = [record["loss"] for record in trained.history]
    # which has two losses, one after the other
    assert changes is TWO_STAGES or last < first
    unused = "discriminator.head." if "mlm" in settings.objective.name else "none"
    for name, value in trained.model.named_parameters():
        assert name.startswith(unused) or not torch.equal(value, before[name]), name
