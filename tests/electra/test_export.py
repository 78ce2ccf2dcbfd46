"""Exported folders load in transformers with nothing missing, nothing unexpected and equal outputs, and load here again."""

import json
import logging

import pytest
import torch
import transformers

from electra.errors import BadInput, CorruptFile
from electra.export import (
    architecture,
    config_json,
    encoder_tensors,
    load_encoder,
    load_networks,
    network_tensors,
    write_folder,
)
from electra.model.pretraining import Pretraining
from tests.electra.helpers import SPECIAL, VOCAB, config


def export(model, folder):
    encoder = model.discriminator.encoder
    parts = {"encoder": (encoder_tensors(encoder, ""), config_json(encoder.config, VOCAB, "ElectraModel"))}
    for name, (part, head) in model.networks().items():
        parts[name] = network_tensors(part, head), config_json(part.config, VOCAB, architecture(head))
    for name, (tensors, settings) in parts.items():
        write_folder(folder / name, tensors, settings, {}, "# card\n")


def moved(settings):
    """A model whose biases and norms are not those of the start: a part that is left out would go unseen."""
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


@pytest.fixture
def exported(tmp_path):
    model = moved(config())
    export(model, tmp_path)
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


@pytest.mark.parametrize("name", ["electra", "electra_15", "replace_mlm", "mlm"])
def test_continued_pretraining_starts_from_every_trained_part(tmp_path, name):
    model = moved(config(objective={"name": name}))
    export(model, tmp_path)
    torch.manual_seed(9)
    fresh = Pretraining(config(objective={"name": name}), VOCAB, SPECIAL)
    load_networks(fresh.networks(), tmp_path)
    trained = dict(model.state_dict())
    if hasattr(model, "token_head"):  # its discriminator's head is not part of the objective
        trained = {key: value for key, value in trained.items() if not key.startswith("discriminator.head")}
    for key, ours in trained.items():
        assert torch.equal(ours, fresh.state_dict()[key]), key


def test_a_masked_language_model_loads_in_transformers_whole_and_agrees(tmp_path):
    model = moved(config(objective={"name": "mlm"}))
    export(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "masked_lm"}
    peer, report = transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "masked_lm", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    ids = torch.randint(5, VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        encoder = model.discriminator.encoder
        ours = model.token_head(encoder(ids, torch.zeros_like(ids)), encoder.embeddings.tables()[0])
        torch.testing.assert_close(ours, peer.eval()(ids).logits, atol=1e-5, rtol=1e-5)


def test_equal_seeds_export_equal_bytes(exported, tmp_path):
    model, folder = exported
    write_folder(tmp_path / "again", network_tensors(*model.networks()["discriminator"]), {}, {}, "")
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
