"""Exported folders load in transformers with nothing missing or unexpected, and here again."""

import pytest
import torch
import transformers

from electra.errors import BadInput, CorruptFile
from electra.files import read_json, write_json
from electra.nn.hf_names import config_json, transformers_class
from electra.nn.huggingface import (
    encoder_tensors,
    extra_tensors,
    load_encoder,
    load_networks,
    network_tensors,
    verify_folder,
    write_folder,
)
from electra.pretraining.model import Pretraining
from electra.storage.tensors import read_tensors, write_tensors
from tests.support.pretraining import MODERN, SPECIAL, TWO_STAGES, VOCAB, config
from tests.support.project import files_of


def export(model, folder):
    """Write the encoder and each network with its head, as pre-training exports them."""
    encoder = model.discriminator.encoder
    values = config_json(encoder.config, VOCAB, "ElectraModel")
    fields = {"model": "test", "part": "encoder"}
    write_folder(folder / "encoder", encoder_tensors(encoder, ""), values, {}, "# card\n", **fields)
    extras = model.extras()
    for name, (part, head) in model.networks().items():
        write_folder(
            folder / name,
            network_tensors(part, head),
            config_json(part.config, VOCAB, transformers_class(head)),
            {},
            "# card\n",
            extra_files=extra_tensors(part, extras.get(name, {})),
        )


def export_new(folder, **changes):
    """Export a model whose biases and norms are not those of the start: a part that is left out
    would go unseen.
    """
    torch.manual_seed(0)
    model = Pretraining(config(**changes), VOCAB, SPECIAL, torch.ones(VOCAB)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    export(model, folder)
    return model


@pytest.fixture
def elsewhere(tmp_path):
    """The folder of an encoder that has no manifest."""
    export_new(tmp_path)
    (tmp_path / "encoder/MANIFEST.json").unlink()
    return tmp_path / "encoder"


TOKENS = {"encoder": MODERN, "objective__sharing": "tokens"}


@pytest.mark.parametrize("changes", [{}, TOKENS], ids=["bert", "modern"])
def test_an_exported_folder_loads_whole_in_transformers_and_here(changes, tmp_path):
    """The modern generator's words are a product here, and one table in its folder."""
    model = export_new(tmp_path, **changes)
    for name in ("encoder", "discriminator", "generator"):
        (architecture,) = read_json(tmp_path / name / "config.json")["architectures"]
        _, report = getattr(transformers, architecture).from_pretrained(
            tmp_path / name, output_loading_info=True
        )
        assert not any(report.values()), report
    for name in ("encoder", "discriminator"):
        loaded = load_encoder(tmp_path / name)
        assert loaded.config == model.discriminator.encoder.config
        torch.testing.assert_close(
            loaded.state_dict(), model.discriminator.encoder.state_dict(), rtol=0, atol=0
        )


FACTORS = {**MODERN, "embedding": 16}
VARIANTS = [
    {"objective__name": "replace_mlm"},
    {"objective__name": "all_tokens_mlm"},
    {"objective__name": "mlm"},
    {"objective__sharing": "none"},
    {"objective__sharing": "tokens"},
    {"objective__sharing": "gradient_disentangled"},
    {"objective__sharing": "all", "generator__width": 1.0},
    {"objective__training": "adversarial"},
    TWO_STAGES,
    {"generator": {"kind": "unigram"}},
    TOKENS,
    {"encoder": MODERN, "objective__sharing": "gradient_disentangled"},
    {"encoder": MODERN, "objective__sharing": "all", "generator__width": 1.0},
    {"encoder": MODERN, "objective__name": "mlm"},
    {"encoder": FACTORS, "objective__sharing": "gradient_disentangled"},
    {"encoder": FACTORS, "objective__sharing": "embeddings", "generator__width": 1.0},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_continued_pretraining_starts_where_the_exported_one_ended(tmp_path, changes):
    """To the bit: every trained part, and the next export."""
    model = export_new(tmp_path / "one", **changes)
    torch.manual_seed(9)
    fresh = Pretraining(config(**changes), VOCAB, SPECIAL, torch.ones(VOCAB)).eval()
    load_networks(fresh.networks(), tmp_path / "one", fresh.extras())
    export(fresh, tmp_path / "two")
    first = files_of(tmp_path / "one")
    assert first == files_of(tmp_path / "two") and len(first) > 4
    if changes.get("objective__sharing") != "gradient_disentangled":
        unused = "discriminator.head" if hasattr(model, "token_head") else "none"
        for key, value in model.state_dict().items():
            assert key.startswith(unused) or torch.equal(value, fresh.state_dict()[key]), key


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"hidden_size": 64}, "has shape"),
        ({"num_hidden_layers": 5}, r"has no tensor encoder\.layer\.2"),
        ({"num_hidden_layers": 1}, r"has encoder\.layer\.1\S+, \S+, \S+ and 13 more, which this"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_one_sentence(elsewhere, changes, sentence):
    path = elsewhere / "config.json"
    write_json(path, read_json(path) | changes)
    with pytest.raises(BadInput, match=sentence):
        load_encoder(elsewhere)


def test_files_and_tensors_of_another_kind_are_one_sentence(elsewhere):
    path = elsewhere / "model.safetensors"
    good = read_tensors(path, "")
    packed = torch.zeros(16, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    for changes, sentence in (
        ({"embeddings.LayerNorm.bias": packed}, "bias holds float4_e2m1fn_x2"),
        ({"embeddings.LayerNorm.bias": torch.zeros(16, dtype=torch.int32)}, "bias holds int32"),
    ):
        write_tensors(path, {**good, **changes})
        with pytest.raises(BadInput, match=sentence):
            load_encoder(elsewhere)
    write_tensors(path, {**good, "embeddings.position_ids": torch.arange(32)})
    load_encoder(elsewhere)
    path.unlink()
    (elsewhere / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadInput, match="pickle"):
        load_encoder(elsewhere)


def test_what_a_run_starts_from_must_be_what_it_was(tmp_path):
    networks = export_new(tmp_path).networks()
    hashes = {name: verify_folder(tmp_path / name) for name in networks}
    load_networks(networks, tmp_path, {}, hashes)
    adversarial = Pretraining(config(objective__training="adversarial"), VOCAB, SPECIAL)
    load_networks(adversarial.networks(), tmp_path, adversarial.extras())  # has no baseline
    (tmp_path / "discriminator/MANIFEST.json").unlink()
    path = tmp_path / "discriminator/config.json"
    path.write_text(path.read_text() + "\n")
    before = hashes["discriminator"]["config.json"]
    with pytest.raises(CorruptFile, match=rf"{path}: has sha256 \w+; it had {before}"):
        load_networks(networks, tmp_path, {}, hashes)
    write_json(path, read_json(path) | {"num_attention_heads": 4})
    with pytest.raises(BadInput, match="num_attention_heads is 4; the model's parameters say 2"):
        load_networks(networks, tmp_path)


def test_a_folder_of_ours_is_verified_and_reads_nothing_unlisted(tmp_path):
    export_new(tmp_path)
    encoder = tmp_path / "encoder"
    files = verify_folder(encoder, model="test", part="encoder")
    assert set(files) == {"config.json", "model.safetensors"}
    with pytest.raises(CorruptFile, match="says model 'test' instead of 'other'"):
        verify_folder(encoder, model="other")
    (encoder / "notes.txt").write_text("harmless")
    load_encoder(encoder)
    (encoder / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(CorruptFile, match=r"vocab\.txt: is not in MANIFEST\.json"):
        load_encoder(encoder)
    (encoder / "MANIFEST.json").unlink()
    load_encoder(encoder)  # as one from elsewhere
    with pytest.raises(CorruptFile, match=r"has no MANIFEST\.json"):
        verify_folder(encoder, model="test")


def test_factors_of_a_word_table_must_be_those_of_the_folder(tmp_path):
    networks = export_new(tmp_path, **TOKENS).networks()
    (tmp_path / "generator/MANIFEST.json").unlink()
    beside = tmp_path / "generator/extras.safetensors"
    factors = read_tensors(beside, "")
    write_tensors(beside, {**factors, "embeddings.word": factors["embeddings.word"] * 1.01})
    with pytest.raises(BadInput, match="holds factors of another word table"):
        load_networks(networks, tmp_path)
    beside.unlink()
    with pytest.raises(BadInput, match=r"has no tensor embeddings\.word, embeddings\.project"):
        load_networks(networks, tmp_path)


@pytest.mark.parametrize("layers, every", [(2, 3), (3, 3), (2, 1)])
def test_pretraining_goes_on_from_a_folder_that_transformers_has_saved_again(
    tmp_path, layers, every
):
    """It tells the layers' kinds alone: every third of two is every second of two."""
    shape = {**MODERN, "layers": layers, "global_every": every}
    export_new(tmp_path / "ours", encoder=shape, objective__name="mlm")
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours/masked_lm")
    peer.save_pretrained(tmp_path / "theirs/masked_lm")
    # of local layers, which there are none of
    unused = {"window": 32, "local_theta": 7.0} if every == 1 else {}
    again = config(encoder={**shape, **unused}, objective__name="mlm")
    load_networks(Pretraining(again, VOCAB, SPECIAL).networks(), tmp_path / "theirs")


def test_weights_that_compute_something_else_under_these_settings_are_refused(tmp_path):
    shape = {**MODERN, "global_every": 2, "window": 6, "global_theta": 500.0}
    export_new(tmp_path, encoder=shape, objective__name="mlm")
    for changes, sentence in (
        ({"window": 8}, "local_attention is 6; the model's parameters say 8"),
        ({"layer_norm_eps": 1e-3}, "norm_eps is 1e-05; the"),
        ({"local_theta": 7.0}, r"local_rope_theta is 10000\.0; the"),
        ({"global_every": 3}, "global_attn_every_n_layers is 2; the model's parameters say 3"),
        ({"global_theta": 9.0}, r"global_rope_theta is 500\.0; the model's parameters say 9\.0"),
    ):
        other = config(encoder={**shape, **changes}, objective__name="mlm")
        with pytest.raises(BadInput, match=sentence):
            load_networks(Pretraining(other, VOCAB, SPECIAL).networks(), tmp_path)
    bert = Pretraining(config(objective__name="mlm"), VOCAB, SPECIAL)
    with pytest.raises(BadInput, match="is of an encoder of the kind modern; the model's is bert"):
        load_networks(bert.networks(), tmp_path)
