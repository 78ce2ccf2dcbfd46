"""The same weights in transformers give the same logits and every gradient, for both kinds of
encoder.
"""

import pytest
import torch
import transformers

from electra.nn.config import BertConfig, EncoderConfig, ModernBertConfig
from electra.nn.encoder import initialise
from electra.nn.factory import make_encoder
from electra.nn.hf_names import config_json, transformers_class
from electra.nn.huggingface import network_tensors
from electra.pretraining.networks import Discriminator, Generator

SMALL_MODERN = {"kind": "modern", "layers": 3, "hidden": 64, "heads": 4, "ffn": 96}
SHAPES: dict[str, EncoderConfig] = {
    "small": BertConfig(layers=3, hidden=256, heads=4, ffn=1024, embedding=128),
    "one width": BertConfig(layers=2, hidden=192, heads=3, ffn=768, embedding=192),
    "modern": ModernBertConfig(
        kind="modern", layers=4, hidden=192, heads=3, ffn=288, embedding=192, window=8
    ),
    "factorised": ModernBertConfig(
        **SMALL_MODERN, embedding=128, window=64, global_every=2, global_theta=500.0
    ),
    "all global": ModernBertConfig(**SMALL_MODERN, embedding=64, global_every=1),
}
CLASSES = {
    ("bert", "discriminator"): transformers.ElectraForPreTraining,
    ("bert", "generator"): transformers.ElectraForMaskedLM,
    ("modern", "discriminator"): transformers.ModernBertForTokenClassification,
    ("modern", "generator"): transformers.ModernBertForMaskedLM,
}
VOCAB = 997
LENGTH = 160


def networks(kind, shape):
    torch.manual_seed(0)
    config = SHAPES[shape]
    network = (Discriminator if kind == "discriminator" else Generator)(make_encoder(config, VOCAB))
    name = transformers_class(network.head)
    initialise(network, config)
    with torch.no_grad():  # biases and norms too: a swapped zero would go unseen
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    theirs = CLASSES[config.kind, kind]
    peer = theirs(theirs.config_class(**config_json(config, VOCAB, name)))
    # without the second name of the word table
    peer.load_state_dict(network_tensors(network.encoder, network.head), strict=False)
    peer.tie_weights()
    return network.eval(), peer.eval()


def close(ours, theirs, name):
    """Within fp32 sums of different order, relative to the largest element."""
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max().clamp(min=1e-6) + 1e-8, name


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["discriminator", "generator"])
def test_outputs_and_gradients_equal_transformers(kind, shape, padded):
    network, peer = networks(kind, shape)
    lengths = torch.tensor([LENGTH, 27, 9] if padded else [LENGTH] * 3)
    real = torch.arange(LENGTH) < lengths[:, None]
    ids = torch.randint(5, VOCAB, (3, LENGTH)) * real
    segments = ((torch.arange(LENGTH) >= 8) & real).long()
    more = {"token_type_ids": segments} if SHAPES[shape].kind == "bert" else {}
    theirs = peer(ids, attention_mask=real.long(), **more).logits
    given = [ids, segments, lengths if padded else None]
    if kind == "discriminator":
        ours = network(*given)
    else:
        ours, _ = network(*given, torch.arange(LENGTH).expand(3, LENGTH))
    ours = ours.view_as(theirs)[real]
    torch.testing.assert_close(ours, theirs[real], atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(ours)
    for logits in (ours, theirs[real]):
        ((logits * weight).sum() / len(logits)).backward()
    compare_gradients(network, peer)


def compare_gradients(network, peer):
    """Of every parameter, under transformers' names; transformers gives [PAD] no lookup gradient."""
    block = network.encoder.embeddings
    with torch.no_grad():
        if block.factors():  # of the product, and no other part, the gradient is not of that name
            folded = peer.model.embeddings.tok_embeddings.weight.grad @ block.project.weight
            close(block.word.weight.grad[1:], folded[1:], "words")
        for parameter in network.parameters():
            parameter.copy_(parameter.grad)
    ours = network_tensors(network.encoder, network.head)
    words = ("word_embeddings.weight", "tok_embeddings.weight")
    for name, expected in peer.named_parameters():
        if not (name.endswith(words) and block.factors()):
            first = int(name.endswith(words))
            close(ours[name][first:], expected.grad[first:], name)
