"""Published initial values, also in a folder, and one forward pass of ordinary modules."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch

from electra.files import write_json
from electra.nn.config import BertConfig, ModernBertConfig
from electra.nn.encoder import Encoder, initialise
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import read_config
from electra.pretraining.networks import Discriminator

KINDS: Any = (BertConfig, partial(ModernBertConfig, kind="modern", window=4))
SHAPE = {"layers": 1, "hidden": 256, "heads": 4, "ffn": 1024, "embedding": 128}


def test_published_is_a_normal_cut_at_two_sigma_and_glorot_where_the_original_gave_no_initializer():
    config = BertConfig(**SHAPE)
    network = Discriminator(Encoder(config, 500))
    torch.manual_seed(0)
    initialise(network, config)
    parameters = dict(network.named_parameters())
    for part in ("encoder.embeddings.word", "encoder.layers.0.attention.qkv", "head.dense"):
        weight = parameters[f"{part}.weight"]
        assert 0.039 < weight.abs().max() <= 0.04
        assert weight.std().item() == pytest.approx(0.0176, rel=0.03)  # nominal 0.02
    for part, fans in (("encoder.project", 128 + 256), ("head.logit", 256 + 1)):
        weight = parameters[f"{part}.weight"]
        bound = (6 / fans) ** 0.5
        assert 0.95 * bound < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    for name, value in parameters.items():
        if name.endswith("bias"):
            assert not value.any(), name
        elif "norm" in name:
            assert (value == 1).all(), name


def test_a_folder_tells_what_a_fresh_network_of_its_shape_begins_with(tmp_path):
    for kind, init in itertools.product(KINDS, ("published", "mimetic", "neighbours")):
        config = kind(**SHAPE | {"embedding": 256}, init=init, dropout=0.2)
        values = config_json(config, 500, "ElectraModel")
        assert ("init" in values) == (init != "published")
        write_json(tmp_path / "config.json", values)
        assert read_config(tmp_path) == (config, 500)


SMALL = {"layers": 3, "hidden": 32, "heads": 2, "ffn": 48, "embedding": 32}


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_takes_embeddings_probabilities_and_what_each_part_adds(kind):
    """At a rate of one, what is dropped is zero."""
    encoder = fresh_encoder(kind(**SMALL), 50, 1).train()
    layer: Any = encoder.layers[1]
    hidden = torch.randn(2, 12, 32)
    ids = torch.zeros_like(hidden[..., 0], dtype=torch.long)
    layer.attention.dropout = 1.0
    assert not layer.attention(hidden, None).any() and layer.attention.eval()(hidden, None).any()
    for part in encoder.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 1.0
    assert not encoder.embeddings(ids, ids).any()
    nothing_added = hidden
    if kind is BertConfig:
        nothing_added = layer.ffn_norm(layer.attention_norm(hidden))
    assert torch.equal(layer(hidden, None), nothing_added)
    assert not torch.equal(layer.eval()(hidden, None), nothing_added)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_compiles_as_one_graph(kind):
    encoder = fresh_encoder(kind(**SMALL), 50, 1).eval()
    ids = torch.randint(0, 50, (2, 12))
    inputs = (ids, torch.zeros_like(ids), torch.tensor([12, 7]))
    expected = encoder(*inputs)
    for layer in encoder.layers:
        layer.compile(backend="eager", fullgraph=True)
    torch.testing.assert_close(encoder(*inputs), expected)
