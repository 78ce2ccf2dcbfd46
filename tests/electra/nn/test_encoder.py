"""Initial values: the published ones, and transformers' and mimetic attention as the alternatives."""

import pytest
import torch

from electra.errors import BadInput
from electra.files import write_json
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder, initialise
from electra.nn.hf_names import config_json
from electra.nn.huggingface import read_config
from electra.pretraining.networks import Discriminator, Generator

SHAPE = {"layers": 1, "hidden": 256, "heads": 4, "ffn": 1024, "embedding": 128}


def networks(**changes):
    torch.manual_seed(0)
    config = EncoderConfig(**SHAPE | changes)
    discriminator, generator = Discriminator(Encoder(config, 500)), Generator(Encoder(config, 500))
    for network in (discriminator, generator):
        initialise(network, config)
    return discriminator, generator


def test_published_is_a_normal_cut_at_two_sigma_and_glorot_where_the_original_gave_no_initializer():
    discriminator, generator = networks()
    layer = discriminator.encoder.layers[0]
    cut = [discriminator.encoder.embeddings.word, layer.attention.qkv, layer.expand, discriminator.head.dense]
    for part in [*cut, generator.head.dense]:
        assert part.weight.abs().max() <= 0.04 and part.weight.abs().max() > 0.039
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


def test_normal_is_the_same_everywhere():
    discriminator, _ = networks(init="normal")
    for part in (discriminator.encoder.project, discriminator.encoder.layers[0].expand, discriminator.head.logit):
        assert part.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert discriminator.encoder.layers[0].expand.weight.abs().max() > 0.04  # not cut


def test_a_folder_tells_what_a_fresh_network_of_its_shape_begins_with(tmp_path):
    for init in ("published", "normal", "mimetic", "neighbours"):
        config = EncoderConfig(**SHAPE | {"embedding": 256}, init=init)
        write_json(tmp_path / "config.json", config_json(config, 500, "ElectraModel"))
        assert read_config(tmp_path) == (config, 500)
    write_json(tmp_path / "config.json", {**config_json(config, 500, "ElectraModel"), "init": "magic"})
    with pytest.raises(BadInput, match="init: is 'magic'; expected one of published, normal, mimetic, neighbours"):
        read_config(tmp_path)
