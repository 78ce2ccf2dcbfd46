"""Exported folders load in transformers with nothing missing or unexpected and equal outputs, and
here again.
"""

import json
import logging

import pytest
import torch
import transformers

from electra.errors import BadInput, CorruptFile
from electra.files import sha256_file
from electra.nn.hf_names import architecture_of, config_json
from electra.nn.huggingface import (
    encoder_tensors,
    extra_tensors,
    load_encoder,
    load_networks,
    network_tensors,
    verify_folder,
    write_folder,
)
from electra.nn.token_heads import ReplacedTokenHead
from electra.pretraining.model import Pretraining
from electra.storage.tensors import read_tensors, write_tensors
from tests.electra.helpers import MODERN, SPECIAL, VOCAB, config


def export(model, folder):
    encoder, extras = model.discriminator.encoder, model.extras()
    parts = {
        "encoder": (
            encoder_tensors(encoder, ""),
            config_json(encoder.config, VOCAB, "ElectraModel"),
        )
    }
    for name, (part, head) in model.networks().items():
        parts[name] = (
            network_tensors(part, head),
            config_json(part.config, VOCAB, architecture_of(head)),
        )
    for name, (tensors, settings) in parts.items():
        beside = (
            extra_tensors(model.networks()[name][0], extras.get(name, {}))
            if name != "encoder"
            else {}
        )
        write_folder(
            folder / name, tensors, settings, {}, "# card\n", beside=beside, model="test", part=name
        )


def moved(settings):
    """A model whose biases and norms are not those of the start: a part that is left out would go
    unseen.
    """
    torch.manual_seed(0)
    model = Pretraining(settings, VOCAB, SPECIAL, torch.ones(VOCAB)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


@pytest.fixture
def exported(tmp_path):
    model = moved(config())
    export(model, tmp_path)
    return model, tmp_path


@pytest.fixture
def elsewhere(exported):
    """The folder of an encoder that no manifest watches over."""
    (exported[1] / "encoder/MANIFEST.json").unlink()
    return exported[1] / "encoder"


CLASSES = {
    "bert": (
        transformers.ElectraModel,
        transformers.ElectraForPreTraining,
        transformers.ElectraForMaskedLM,
    ),
    "modern": (
        transformers.ModernBertModel,
        transformers.ModernBertForTokenClassification,
        transformers.ModernBertForMaskedLM,
    ),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_transformers_loads_it_whole_and_agrees_and_so_does_it_here(kind, tmp_path):
    """Encoders to the bit; the modern generator's words are a product here, and one table in its
    folder.
    """
    model = moved(
        config(
            **({"encoder": MODERN, "objective": {"sharing": "tokens"}} if kind == "modern" else {})
        )
    )
    export(model, tmp_path)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    ids = torch.randint(5, VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))
    segments, places = torch.zeros_like(ids), torch.arange(12).expand(2, 12)
    with torch.no_grad():
        ours = {
            "encoder": model.discriminator.encoder(ids, segments),
            "discriminator": model.discriminator(ids, segments, None).view(2, 12, -1),
            "generator": model.generator(ids, segments, None, places)[0].view(2, 12, -1),
        }
        for each, (name, expected) in zip(CLASSES[kind], ours.items(), strict=True):
            peer, report = each.from_pretrained(tmp_path / name, output_loading_info=True)
            assert (
                not report["missing_keys"]
                and not report["unexpected_keys"]
                and not report["mismatched_keys"]
            )
            theirs = peer.eval()(ids)
            found = theirs.last_hidden_state if name == "encoder" else theirs.logits.view(2, 12, -1)
            torch.testing.assert_close(expected, found, atol=1e-5, rtol=1e-5)
    for name in ("encoder", "discriminator"):
        loaded = load_encoder(tmp_path / name)
        assert loaded.config == model.discriminator.encoder.config
        for (key, value), again in zip(
            model.discriminator.encoder.state_dict().items(),
            loaded.state_dict().values(),
            strict=True,
        ):
            assert torch.equal(value, again), key


WHOLE = {"width": 1.0}
VARIANTS = [
    *(
        {"objective": {"name": name}}
        for name in ("electra", "electra_15", "replace_mlm", "all_tokens_mlm", "mlm")
    ),
    *(
        {"objective": {"sharing": sharing}}
        for sharing in ("none", "tokens", "embeddings", "gradient_disentangled")
    ),
    {"objective": {"sharing": "all"}, "generator": WHOLE},
    {"objective": {"name": "all_tokens_mlm", "sharing": "gradient_disentangled"}},
    {
        "objective": {"name": "replace_mlm", "sharing": "gradient_disentangled"},
        "encoder__embedding": 32,
    },
    *(
        {"objective": {"training": "adversarial", "sharing": sharing}}
        for sharing in ("none", "gradient_disentangled")
    ),
    {"objective": {"training": "two_stage", "sharing": "none"}, "generator": WHOLE},
    {"generator": {"kind": "unigram"}},
    *(
        {"encoder": MODERN, "objective": {"sharing": sharing}}
        for sharing in ("none", "tokens", "gradient_disentangled")
    ),
    *(
        {"encoder": MODERN, "objective": {"sharing": each}, "generator": WHOLE}
        for each in ("embeddings", "all")
    ),
    {"encoder": MODERN, "objective": {"name": "mlm"}},
    {"encoder": {**MODERN, "embedding": 16}, "objective": {"sharing": "gradient_disentangled"}},
    {
        "encoder": {**MODERN, "embedding": 16},
        "objective": {"sharing": "embeddings"},
        "generator": WHOLE,
    },
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_continued_pretraining_starts_where_the_exported_one_ended(tmp_path, changes):
    """To the bit: every part that is trained, what it answers, and what is exported again."""
    model = moved(config(**changes))
    export(model, tmp_path / "one")
    torch.manual_seed(9)
    fresh = Pretraining(config(**changes), VOCAB, SPECIAL, torch.ones(VOCAB)).eval()
    load_networks(fresh.networks(), tmp_path / "one", fresh.extras())
    ids = torch.randint(5, VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))
    segments = torch.zeros_like(ids)
    for (ours, head), (theirs, other) in zip(
        model.networks().values(), fresh.networks().values(), strict=True
    ):
        with torch.no_grad():
            hidden, again = ours(ids, segments), theirs(ids, segments)
            words = [(encoder.embeddings.tables()[0],) for encoder in (ours, theirs)]
            if isinstance(head, ReplacedTokenHead):
                words = [(), ()]
            assert torch.equal(head(hidden, *words[0]), other(again, *words[1]))
    export(fresh, tmp_path / "two")
    first, second = (
        {
            str(file.relative_to(folder)): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
        }
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert first == second and len(first) > 4
    if (
        changes["objective"].get("sharing") != "gradient_disentangled"
        if "objective" in changes
        else True
    ):
        unused = "discriminator.head" if hasattr(model, "token_head") else "none"
        for key, value in model.state_dict().items():
            assert key.startswith(unused) or torch.equal(value, fresh.state_dict()[key]), key


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hidden_size": 64}, "has shape"),
        ({"num_hidden_layers": 5}, r"has no tensor encoder\.layer\.2"),
        ({"num_hidden_layers": 1}, r"has encoder\.layer\.1.* and 13 more, which this network"),
        ({"model_type": "bert"}, "'bert'; expected electra"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers: is 'two', should be a valid integer"),
        ({"num_attention_heads": 3}, "num_attention_heads: is 3, should divide hidden"),
        ({"vocab_size": None}, "vocab_size: is None, should be a number from 1 to 10,000,000"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_one_sentence(elsewhere, changes, told):
    path = elsewhere / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(BadInput, match=told):
        load_encoder(elsewhere)


def test_files_and_tensors_of_another_kind_are_one_sentence(elsewhere):
    path = elsewhere / "model.safetensors"
    good = read_tensors(path, "")
    for changed, told in (
        (
            {**good, "embeddings.LayerNorm.bias": torch.zeros(16, dtype=torch.int32)},
            "LayerNorm.bias holds int32",
        ),
        (
            {**good, "encoder.layer.9.x": torch.zeros(1)},
            r"has encoder\.layer\.9\.x, which this network does not",
        ),
        ({}, r"has no tensor embeddings\.word_embeddings\.weight"),
    ):
        write_tensors(path, changed)
        with pytest.raises(BadInput, match=told):
            load_encoder(elsewhere)
    write_tensors(path, {**good, "embeddings.position_ids": torch.arange(32)})
    load_encoder(elsewhere)
    path.unlink()
    (elsewhere / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadInput, match="pickle"):
        load_encoder(elsewhere)


def test_what_a_run_starts_from_must_be_what_it_says_and_was(exported):
    model, folder = exported
    networks, hashes = (
        model.networks(),
        {name: verify_folder(folder / name) for name in model.networks()},
    )
    load_networks(networks, folder, {}, hashes)
    for name in networks:
        (folder / name / "MANIFEST.json").unlink()
    path = folder / "discriminator/config.json"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(
        CorruptFile,
        match=rf"{path}: has sha256 {sha256_file(path)}; it had {hashes['discriminator']['config.json']}",
    ):
        load_networks(networks, folder, {}, hashes)
    path.write_text(
        path.read_text().replace('"num_attention_heads": 2', '"num_attention_heads": 4')
    )
    with pytest.raises(BadInput, match="num_attention_heads is 4; the model's parameters say 2"):
        load_networks(networks, folder)


def test_a_folder_of_ours_is_verified_and_reads_nothing_unlisted(exported):
    encoder = exported[1] / "encoder"
    assert set(verify_folder(encoder, model="test", part="encoder")) == {
        "config.json",
        "model.safetensors",
    }
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
