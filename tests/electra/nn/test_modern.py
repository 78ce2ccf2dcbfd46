"""The modern encoder is ModernBERT: with its weights transformers gives the same outputs, losses
and gradients.
"""

import json

import pytest
import torch
import transformers

from electra.errors import BadConfig, BadInput
from electra.nn.config import ModernConfig
from electra.nn.encoder import initialise
from electra.nn.factory import make_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import load_encoder, load_networks, network_tensors
from electra.pretraining.model import Pretraining
from electra.pretraining.networks import Discriminator
from electra.storage.tensors import read_tensors, write_tensors
from tests.electra.helpers import MODERN, SPECIAL, VOCAB, config
from tests.electra.nn.test_weights import export, moved

PIECES, LENGTH = 997, 40


@pytest.mark.parametrize("embedding", [32, 64])
def test_the_residual_stream_is_fp32_in_bf16_too(embedding):
    settings = ModernConfig(
        kind="modern", layers=3, hidden=64, heads=2, ffn=96, embedding=embedding
    )
    encoder, ids = make_encoder(settings, PIECES), torch.randint(5, PIECES, (2, 8))
    seen = list[torch.dtype]()
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder(ids, ids)
    assert [*seen, states.dtype] == [torch.float32] * 4
    assert encoder.to(torch.float64)(ids, ids).dtype == torch.float64


def test_first_weights_are_spread_as_in_transformers():
    settings = ModernConfig(
        kind="modern", layers=4, hidden=256, heads=4, ffn=384, embedding=256, window=16
    )
    ours = Discriminator(make_encoder(settings, PIECES))
    torch.manual_seed(0)
    initialise(ours, settings)
    torch.manual_seed(1)
    peer = transformers.ModernBertForTokenClassification(
        transformers.ModernBertConfig(**config_json(settings, PIECES, "ElectraForPreTraining"))
    )
    mine = network_tensors(ours.encoder, ours.head)
    for name, theirs in peer.state_dict().items():
        if theirs.numel() > 10_000:
            assert float(mine[name].std()) == pytest.approx(float(theirs.std()), rel=0.03), name
            assert float(mine[name].abs().max()) == pytest.approx(
                float(theirs.abs().max()), rel=0.02
            ), name
        elif theirs.numel() == 1 or theirs.std() == 0:
            assert torch.equal(mine[name], theirs), name
    shape = ModernConfig(kind="modern", layers=3, hidden=64, heads=4, ffn=96, embedding=128)
    narrow = make_encoder(shape, PIECES)
    initialise(narrow, shape)
    # 0.88: what is cut off
    assert narrow.embeddings.tables()[0].std().item() == pytest.approx(0.02 * 0.88**2, rel=0.1)


TOKENS = {"encoder": MODERN, "objective": {"sharing": "tokens"}}


def test_a_generators_folder_that_lacks_the_factors_of_its_words_is_refused(tmp_path):
    model = moved(config(**TOKENS))
    export(model, tmp_path)
    (tmp_path / "generator/MANIFEST.json").unlink()
    beside = tmp_path / "generator/extras.safetensors"
    factors = read_tensors(beside, "")
    write_tensors(beside, {**factors, "embeddings.word": factors["embeddings.word"] * 1.01})
    with pytest.raises(BadInput, match="holds factors of another word table"):
        load_networks(model.networks(), tmp_path)
    beside.unlink()
    with pytest.raises(
        BadInput, match=r"extras\.safetensors: has no tensor embeddings\.word, embeddings\.project"
    ):
        load_networks(model.networks(), tmp_path)


def test_what_a_modern_encoder_cannot_share_is_a_sentence():
    with pytest.raises(
        BadConfig, match=r"objective\.sharing: is embeddings, should be tokens: a modern encoder's"
    ):
        config(encoder=MODERN)
    config(encoder=MODERN, generator={"width": 1.0})
    config(encoder=MODERN, objective={"name": "mlm"})
    for changes, told in (
        ({"heads": 32}, r"encoder\.heads: is 32, should divide half of hidden \(32\)"),
        ({"window": 7}, r"encoder\.window: is 7, should be even"),
        ({"token_types": 2}, r"encoder\.token_types: no such setting; it belongs"),
        ({"kind": "moderm"}, r"encoder\.kind: is 'moderm', should be one of 'bert', 'modern'"),
    ):
        with pytest.raises(BadConfig, match=told):
            config(encoder={**MODERN, **changes}, objective={"sharing": "tokens"})
    assert config().encoder.kind == "bert"


def published(folder, **changes):
    """A folder as ModernBERT's authors stored it: the old spelling of kinds and thetas, no table in
    the decoder.
    """
    torch.manual_seed(0)
    old = {
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
    }
    ends = dict.fromkeys(
        ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0
    )
    peer = transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(vocab_size=VOCAB, local_attention=6, **old, **sizes, **ends)
    ).eval()
    peer.save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    if changes.pop("old", False):
        values = {
            key: value
            for key, value in values.items()
            if key not in {"layer_types", "rope_parameters"}
        } | old
    (folder / "config.json").write_text(json.dumps(values | changes))
    return peer


@pytest.mark.parametrize("old", [False, True])
def test_a_published_folder_is_read_for_fine_tuning_and_continued_pre_training(tmp_path, old):
    peer = published(tmp_path / "masked_lm", old=old)
    ids = torch.randint(5, VOCAB, (2, 24))
    encoder = load_encoder(tmp_path / "masked_lm")
    assert encoder.config.global_theta == 160_000 and encoder.config.global_every == 2
    model = Pretraining(
        config(
            encoder={**MODERN, "global_every": 2, "global_theta": 160_000.0},
            objective={"name": "mlm", "sharing": "tokens"},
        ),
        VOCAB,
        SPECIAL,
    ).eval()
    load_networks(model.networks(), tmp_path)
    with torch.no_grad():
        states = encoder.eval()(ids, ids)
        assert torch.allclose(states, peer.model(ids).last_hidden_state, atol=1e-5)
        ours = model.token_head(
            model.discriminator.encoder(ids, ids),
            model.discriminator.encoder.embeddings.tables()[0],
        )
        assert torch.allclose(ours, peer(ids).logits, atol=1e-5)


def test_the_first_releases_of_transformers_meant_the_global_theta_by_none(tmp_path):
    published(tmp_path, old=True, local_rope_theta=None)
    assert load_encoder(tmp_path).config.local_theta == 160_000.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mlp_bias": True}, "has mlp_bias True; expected False"),
        ({"hidden_activation": "silu"}, "has hidden_activation 'silu'; expected 'gelu'"),
        (
            {"layer_types": ["sliding_attention", "full_attention", "full_attention"]},
            "has layer_types in another order",
        ),
        ({"embedding_dropout": 0.1}, r"has embedding_dropout 0\.1; expected 0\.0, as mlp_dropout"),
        ({"local_attention": 7}, "local_attention: is 7, should be even"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "has rope_type 'yarn'; expected default",
        ),
        (
            {"rope_parameters": {"full_attention": {"type": "linear"}}},
            "has rope_type 'linear'; expected default",
        ),
        (
            {"old": True, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
            "has rope_scaling .*; expected none",
        ),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
            "expected those of full_attention and sli",
        ),
        (
            {"rope_parameters": {"full_attention": "x"}},
            "has rope_parameters .*; expected those of full_attention",
        ),
        ({"rope_parameters": [1]}, r"has rope_parameters \[1\]; expected those of full_attention"),
        ({"layer_types": 5}, "has layer_types 5; expected the kinds of 3 layers"),
        (
            {"layer_types": ["full_attention"]},
            r"has layer_types \['full_attention'\]; expected the kinds of 3 layers",
        ),
        ({"hidden_size": "x"}, "hidden_size: is 'x', should be a valid integer"),
    ],
)
def test_what_this_encoder_has_not_is_refused(tmp_path, changes, told):
    published(tmp_path, **changes)
    with pytest.raises(BadInput, match=told):
        load_encoder(tmp_path)


@pytest.mark.parametrize(("layers", "every"), [(2, 3), (3, 3), (2, 1)])
def test_a_folder_that_transformers_has_saved_again_is_gone_on_with(tmp_path, layers, every):
    """It tells the layers' kinds alone: every third of two is every second of two."""
    shape = {**MODERN, "layers": layers, "global_every": every}
    settings = config(encoder=shape, objective={"name": "mlm"})
    export(moved(settings), tmp_path / "ours")
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours/masked_lm")
    peer.save_pretrained(tmp_path / "theirs/masked_lm")
    # of local layers, which there are none of
    other = {"window": 32, "local_theta": 7.0} if every == 1 else {}
    again = config(encoder={**shape, **other}, objective={"name": "mlm"})
    load_networks(Pretraining(again, VOCAB, SPECIAL).networks(), tmp_path / "theirs")


def test_weights_that_compute_something_else_under_these_settings_are_refused(tmp_path):
    published(tmp_path / "masked_lm")
    for changes, told in (
        ({"window": 8, "global_every": 2}, "local_attention is 6; the model's parameters say 8"),
        ({"global_every": 3}, "global_attn_every_n_layers is 2; the model's parameters say 3"),
        (
            {"global_every": 2},
            r"global_rope_theta is 160000\.0; the model's parameters say 10000\.0",
        ),
    ):
        settings = config(encoder={**MODERN, **changes}, objective={"name": "mlm"})
        with pytest.raises(BadInput, match=told):
            load_networks(Pretraining(settings, VOCAB, SPECIAL).networks(), tmp_path)
    with pytest.raises(BadInput, match="is of an encoder of the kind modern; the model's is bert"):
        load_networks(
            Pretraining(config(objective={"name": "mlm"}), VOCAB, SPECIAL).networks(), tmp_path
        )
