"""Published initial values, also in a folder, and one forward pass of ordinary modules."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from electra.errors import BadInput
from electra.files import write_json
from electra.nn.config import BertConfig, ModernBertConfig
from electra.nn.encoder import Encoder, initialise
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import read_config
from electra.pretraining.networks import Discriminator, Generator

SHAPE = {"layers": 1, "hidden": 256, "heads": 4, "ffn": 1024, "embedding": 128}


def test_published_is_a_normal_cut_at_two_sigma_and_glorot_where_the_original_gave_no_initializer():
    torch.manual_seed(0)
    config = BertConfig(**SHAPE)
    discriminator = Discriminator(Encoder(config, 500))
    generator = Generator(Encoder(config, 500))
    for network in (discriminator, generator):
        initialise(network, config)
    layer = discriminator.encoder.layers[0]
    cut = [
        discriminator.encoder.embeddings.word,
        layer.attention.qkv,
        layer.expand,
        discriminator.head.dense,
    ]
    for part in [*cut, generator.head.dense]:
        assert 0.039 < part.weight.abs().max() <= 0.04
        assert part.weight.std().item() == pytest.approx(0.0176, rel=0.03)  # nominal 0.02
    glorot = {discriminator.encoder.project: (128, 256), discriminator.head.logit: (256, 1)}
    for part, (fan_in, fan_out) in glorot.items():
        bound = (6 / (fan_in + fan_out)) ** 0.5
        assert 0.95 * bound < part.weight.abs().max() <= bound
        assert part.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    for network in (discriminator, generator):
        for name, value in network.named_parameters():
            if name.endswith("bias"):
                assert not value.any(), name
            elif "norm" in name:
                assert (value == 1).all(), name


def test_a_folder_tells_what_a_fresh_network_of_its_shape_begins_with(tmp_path):
    for init in ("published", "mimetic", "neighbours"):
        config = BertConfig(**SHAPE | {"embedding": 256}, init=init)
        values = config_json(config, 500, "ElectraModel")
        assert ("init" in values) == (init != "published")
        write_json(tmp_path / "config.json", values)
        assert read_config(tmp_path) == (config, 500)
    write_json(tmp_path / "config.json", {**values, "init": "magic"})
    with pytest.raises(
        BadInput, match="init: is 'magic', should be 'published', 'mimetic' or 'neighbours'"
    ):
        read_config(tmp_path)


KINDS = {
    "bert": BertConfig(
        layers=3, hidden=32, heads=2, ffn=64, embedding=16, dropout=0.0, attention_dropout=0.0
    ),
    "modern": ModernBertConfig(
        kind="modern", layers=3, hidden=32, heads=2, ffn=48, embedding=32, window=4
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_activation_checkpointing_and_compile_work_on_layers(kind):
    """The same states and gradients, with another implementation of each layer's call."""
    ids = torch.randint(0, 50, (2, 12))
    lengths = torch.tensor([12, 7])
    results = []
    for change in ("none", "checkpoint", "compile"):
        encoder = fresh_encoder(KINDS[kind], 50, 1)
        for layer in encoder.layers:
            if change == "checkpoint":
                layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
            elif change == "compile":
                layer.compile(backend="eager", fullgraph=True)
        states = encoder(ids, torch.zeros_like(ids), lengths)
        states.square().sum().backward()
        results.append([states, *(parameter.grad for parameter in encoder.parameters())])
    for changed in results[1:]:
        torch.testing.assert_close(changed, results[0], rtol=1e-5, atol=1e-5)
