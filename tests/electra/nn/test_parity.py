"""The same weights in transformers give the same logits, losses and every gradient."""

import pytest
import torch
import transformers

from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder, initialise
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, load_encoder_tensors, network_tensors
from electra.pretraining.networks import Discriminator, Generator
from electra.pretraining.objectives import masked_token_loss, replaced_token_losses

SHAPES = {
    "small": EncoderConfig(layers=3, hidden=256, heads=4, ffn=1024, embedding=128),
    "base": EncoderConfig(layers=2, hidden=768, heads=12, ffn=3072, embedding=768),
}
VOCAB = 997


def networks(kind, shape):
    torch.manual_seed(0)
    config = SHAPES[shape]
    network = (Discriminator if kind == "discriminator" else Generator)(Encoder(config, VOCAB))
    initialise(network, config)
    with torch.no_grad():  # biases and norms too: a swapped zero would go unseen
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    architecture = transformers.ElectraForPreTraining if kind == "discriminator" else transformers.ElectraForMaskedLM
    peer = architecture(transformers.ElectraConfig(**config_json(config, VOCAB, "x")))
    tensors = network_tensors(network.encoder, network.head)
    missing, unexpected = peer.load_state_dict(tensors, strict=False)
    assert not unexpected and set(missing) <= {"generator_lm_head.weight", "electra.embeddings.position_ids"}
    peer.tie_weights()
    return network.eval(), peer.eval()


def rows(padded):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, VOCAB, (3, 24), generator=generator)
    lengths = torch.tensor([24, 17, 9]) if padded else torch.tensor([24, 24, 24])
    real = torch.arange(24) < lengths[:, None]
    segments = ((torch.arange(24) >= 8) & real).long()
    return ids * real, segments, lengths, real


def gradients(network, kind):
    """Our gradients under transformers' names."""
    for parameter in network.parameters():
        parameter.data = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return network_tensors(network.encoder, network.head)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_discriminator_equals_transformers(shape, padded):
    network, peer = networks("discriminator", shape)
    ids, segments, lengths, real = rows(padded)
    labels = (ids % 7 == 0).long()
    logits = network(ids, segments, lengths if padded else None)
    loss = (replaced_token_losses(logits, labels) * real).sum() / real.sum()
    theirs = peer(ids, attention_mask=real.long(), token_type_ids=segments, labels=labels)
    torch.testing.assert_close(logits[real], theirs.logits[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, theirs.loss, atol=1e-6, rtol=1e-6)
    compare_gradients(network, peer, "discriminator", loss, theirs.loss)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_generator_equals_transformers_at_the_chosen_positions(shape, padded):
    network, peer = networks("generator", shape)
    ids, segments, lengths, real = rows(padded)
    positions = torch.tensor([[1, 5, 7], [2, 3, 16], [1, 8, 0]])
    weights = torch.tensor([[1.0, 1, 1], [1, 1, 1], [1, 1, 0]])
    targets = (ids.gather(1, positions) * 3 + 5) % VOCAB
    logits, _ = network(ids, segments, lengths if padded else None, positions)
    loss = masked_token_loss(logits, targets.view(-1), weights.view(-1)) / weights.sum()
    labels = torch.full_like(ids, -100)
    labels.scatter_(1, positions, targets)
    labels[2, 0] = -100  # the unused slot
    theirs = peer(ids, attention_mask=real.long(), token_type_ids=segments, labels=labels)
    at = positions + 24 * torch.arange(3)[:, None]
    torch.testing.assert_close(logits, theirs.logits.view(-1, VOCAB)[at.view(-1)], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, theirs.loss, atol=1e-6, rtol=1e-6)
    compare_gradients(network, peer, "generator", loss, theirs.loss)


def compare_gradients(network, peer, kind, loss, their_loss):
    """Tolerance: fp32 sums of different order, relative to the largest element of each gradient."""
    loss.backward()
    their_loss.backward()
    ours = gradients(network, kind)
    found = dict(peer.named_parameters())
    for name, gradient in ours.items():
        expected = found[name].grad
        if name == "electra.embeddings.word_embeddings.weight":  # transformers gives [PAD] no lookup gradient
            gradient, expected = gradient[1:], expected[1:]
        scale = expected.abs().max().clamp(min=1e-6)
        assert (gradient - expected).abs().max() <= 1e-4 * scale + 1e-8, name


def test_encoder_tensors_round_trip_bit_exactly():
    config = SHAPES["small"]
    torch.manual_seed(3)
    source, target = Encoder(config, VOCAB), Encoder(config, VOCAB)
    load_encoder_tensors(target, encoder_tensors(source), "memory")
    for (name, ours), theirs in zip(source.state_dict().items(), target.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
