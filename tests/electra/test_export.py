"""Exported folders load in transformers with nothing missing, nothing unexpected and equal outputs, and load here again."""

import json
import logging

import pytest
import torch
import transformers

from electra.errors import BadInput, CorruptFile
from electra.export import (
    config_json,
    discriminator_tensors,
    encoder_tensors,
    generator_tensors,
    load_encoder,
    load_networks,
    write_folder,
)
from electra.model.pretraining import Pretraining
from tests.electra.helpers import SPECIAL, VOCAB, config


@pytest.fixture
def exported(tmp_path):
    torch.manual_seed(0)
    settings = config()
    model = Pretraining(settings, VOCAB, SPECIAL).eval()
    parts = {
        "encoder": (encoder_tensors(model.discriminator.encoder, ""), settings.encoder, "ElectraModel"),
        "discriminator": (discriminator_tensors(model.discriminator), settings.encoder, "ElectraForPreTraining"),
        "generator": (generator_tensors(model.generator), model.generator.encoder.config, "ElectraForMaskedLM"),
    }
    for name, (tensors, encoder, architecture) in parts.items():
        write_folder(tmp_path / name, tensors, config_json(encoder, VOCAB, architecture), {}, "# card\n")
    return model, tmp_path


@pytest.mark.parametrize("name", ["encoder", "discriminator", "generator"])
def test_transformers_loads_it_whole_and_agrees(exported, name):
    model, folder = exported
    classes = {
        "encoder": transformers.AutoModel,
        "discriminator": transformers.ElectraForPreTraining,
        "generator": transformers.ElectraForMaskedLM,
    }
    logging.getLogger("transformers").setLevel(logging.ERROR)
    peer, report = classes[name].from_pretrained(folder / name, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    ids = torch.randint(5, VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))
    segments = torch.zeros_like(ids)
    with torch.no_grad():
        theirs = peer.eval()(ids)
        if name == "encoder":
            ours, theirs = model.discriminator.encoder(ids, segments), theirs.last_hidden_state
        elif name == "discriminator":
            ours, theirs = model.discriminator(ids, segments, None), theirs.logits
        else:
            positions = torch.arange(12).expand(2, 12)
            ours, theirs = model.generator(ids, segments, None, positions)[0].view(2, 12, -1), theirs.logits
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["encoder", "discriminator"])
def test_a_round_trip_is_bit_exact(exported, name):
    model, folder = exported
    loaded = load_encoder(folder / name)
    for (key, ours), theirs in zip(
        model.discriminator.encoder.state_dict().items(), loaded.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs), key


def test_continued_pretraining_starts_from_both_networks(exported):
    model, folder = exported
    torch.manual_seed(9)
    fresh = Pretraining(config(), VOCAB, SPECIAL)
    load_networks(fresh.discriminator, fresh.generator, folder)
    for (key, ours), theirs in zip(model.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), key


def test_equal_seeds_export_equal_bytes(exported, tmp_path):
    model, folder = exported
    write_folder(tmp_path / "again", discriminator_tensors(model.discriminator), {}, {}, "")
    assert (tmp_path / "again/model.safetensors").read_bytes() == (
        folder / "discriminator/model.safetensors"
    ).read_bytes()


def test_what_does_not_fit_is_one_sentence(exported, tmp_path):
    _, folder = exported
    values = json.loads((folder / "encoder/config.json").read_text())

    def rewrite(**changes):
        (folder / "encoder/config.json").write_text(json.dumps(values | changes))

    rewrite(hidden_size=64)
    with pytest.raises(BadInput, match="has shape"):
        load_encoder(folder / "encoder")
    rewrite(num_hidden_layers=5)
    with pytest.raises(BadInput, match=r"has no tensor encoder\.layer\.2"):
        load_encoder(folder / "encoder")
    rewrite(vocab_size=99)
    with pytest.raises(BadInput, match="has shape"):
        load_encoder(folder / "encoder")
    rewrite(model_type="bert")
    with pytest.raises(BadInput, match="bert"):
        load_encoder(folder / "encoder")
    rewrite()
    (folder / "encoder/model.safetensors").write_bytes(b"1234")
    with pytest.raises(CorruptFile):
        load_encoder(folder / "encoder")
    (folder / "encoder/model.safetensors").unlink()
    (folder / "encoder/pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadInput, match="pickle"):
        load_encoder(folder / "encoder")
