"""The modern encoder's residual stream, first weights and settings."""

import pytest
import torch
import transformers

from electra.errors import BadConfig
from electra.nn.config import ModernBertConfig
from electra.nn.encoder import initialise
from electra.nn.factory import make_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import network_tensors
from electra.pretraining.networks import Discriminator
from tests.support.pretraining import MODERN, config

PIECES = 997


def test_the_residual_stream_is_fp32_in_bf16_too():
    settings = ModernBertConfig(kind="modern", layers=3, hidden=64, heads=2, ffn=96, embedding=32)
    encoder = make_encoder(settings, PIECES)
    ids = torch.randint(5, PIECES, (2, 8))
    dtypes = []
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda _, inputs: dtypes.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder(ids, ids)
    assert [*dtypes, states.dtype] == [torch.float32] * 4
    assert encoder.to(torch.float64)(ids, ids).dtype == torch.float64


def test_first_weights_are_spread_as_in_transformers():
    settings = ModernBertConfig(
        kind="modern", layers=4, hidden=256, heads=4, ffn=384, embedding=256, window=16
    )
    network = Discriminator(make_encoder(settings, PIECES))
    torch.manual_seed(0)
    initialise(network, settings)
    torch.manual_seed(1)
    peer = transformers.ModernBertForTokenClassification(
        transformers.ModernBertConfig(**config_json(settings, PIECES, "ElectraForPreTraining"))
    )
    tensors = network_tensors(network.encoder, network.head)
    for name, theirs in peer.state_dict().items():
        ours = tensors[name]
        if theirs.numel() > 10_000:
            assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.03), name
        elif theirs.numel() == 1 or theirs.std() == 0:
            assert torch.equal(ours, theirs), name
    # 0.88: what is cut off; 1 / √256
    assert network.head.logit.weight.std().item() == pytest.approx(0.88 / 16, rel=0.15)
    shape = ModernBertConfig(kind="modern", layers=3, hidden=64, heads=4, ffn=96, embedding=128)
    narrow = make_encoder(shape, PIECES)
    initialise(narrow, shape)
    assert narrow.embeddings.tables()[0].std().item() == pytest.approx(0.02 * 0.88**2, rel=0.1)


def test_settings_of_a_modern_encoder_that_do_not_fit_are_refused():
    with pytest.raises(BadConfig, match=r"objective\.sharing: is embeddings, should be tokens"):
        config(encoder=MODERN)
    config(encoder=MODERN, generator__width=1.0)
    config(encoder=MODERN, objective__name="mlm")
    for changes, sentence in (
        ({"heads": 32}, r"encoder\.heads: is 32, should divide half of hidden \(32\)"),
        ({"window": 7}, r"encoder\.window: is 7, should be even"),
        ({"token_types": 2}, r"encoder\.token_types: no such setting; it belongs"),
        ({"kind": "moderm"}, r"encoder\.kind: is 'moderm', should be one of 'bert', 'modern'"),
    ):
        with pytest.raises(BadConfig, match=sentence):
            config(encoder={**MODERN, **changes}, objective__sharing="tokens")
