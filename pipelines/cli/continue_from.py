"""Networks, tokenizer and learning rate that match published weights: for `electra new --from`.

The folder holds `discriminator` and, for the generator that proposes words, `generator`, as
transformers saves them. Both are loaded as pre-training will load them, so weights that do not fit
are an error of the command and not of the run.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from electra.config import build, without_defaults
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.finetuning.folder import load_tokenizer
from electra.nn.config import EncoderConfig
from electra.nn.huggingface import ModelFolder, load_networks, open_folder
from electra.pretraining.config import ElectraConfig, GeneratorConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.model import Pretraining
from pipelines.config.params import Params

Entries = dict[str, dict[str, Any]]
SIZES = ("small", "base", "large")  # google's, as entries of `encoders` and `models`
LEARNING_RATE = 2.0e-4  # where these entries are gone: of base and large, Table 6
# fetched with AutoModelForPreTraining, AutoModelForMaskedLM and AutoTokenizer
FETCH = "docs/continue.md shows how to fetch both"


def continue_from(folder: Path, name: str, params: Params) -> tuple[Entries, EncoderConfig, str]:
    """Return the entries of a model that starts from the weights in a folder, its encoder, and a
    note for the user.

    Raises BadInput for a folder from which pre-training could not start.
    """
    if not (folder / "discriminator" / "config.json").is_file():
        raise BadInput(
            f"--from: {folder} should hold the folders `discriminator` and `generator`; {FETCH}"
        )
    discriminator = open_folder(folder / "discriminator")
    encoder = discriminator.encoder_settings[0]
    tokenizer = load_tokenizer(discriminator)
    sizes = {size: params.models[size] for size in SIZES if size in params.models}
    like = min(sizes, key=lambda size: abs(sizes[size].encoder.hidden - encoder.hidden), default="")
    same = like and encoder_shape(sizes[like].encoder) == encoder_shape(encoder)
    entries: Entries = {
        "tokenizers": {name: tokenizer_settings(tokenizer, discriminator.path)},
        "published": {f"{name}-before": {"folder": str(discriminator.path)}},
    }
    if not same:
        entries["encoders"] = {name: without_defaults(encoder)}
    objective = without_defaults(sizes[like].objective) if like else {}
    pretrain: dict[str, Any] = {
        "learning_rate": sizes[like].pretrain.learning_rate if like else LEARNING_RATE,
        "bias_correction": True,  # the moments of Adam start at zero again
        "init_from": str(folder),
    }
    if not torch.cuda.is_available():
        pretrain |= {"batch": 32, "precision": "fp32"}
    if (folder / "generator").is_dir():
        network = open_folder(folder / "generator")
        load_tokenizer(network)
        generator = infer_generator(network, encoder)
        note = f"its generator starts from {network.path}"
        if not share_embeddings(discriminator, network):
            objective["sharing"] = "none"
            note += ", with embeddings of its own"
    else:
        generator = {"kind": "unigram"}
        note = (
            f"there is no {folder}/generator, so words are replaced by frequency "
            f"(generator.kind: unigram), which teaches less; {FETCH}"
        )
    model: dict[str, Any] = {"encoder": like if same else name, "generator": generator}
    if objective:
        model["objective"] = objective
    check_weights(
        folder, {**model, "encoder": without_defaults(encoder)}, tokenizer.vocab_size, name
    )
    shape = f"{encoder.layers} layers of {encoder.hidden} units"
    kind = f"the published {like}" if same else "no published size"
    entries["models"] = {name: {**model, "pretrain": pretrain}}
    return entries, encoder, f"{discriminator.path}: {kind}, {shape}; {note}"


def encoder_shape(encoder: EncoderConfig) -> EncoderConfig:
    """Return an encoder's settings without those of dropout and initial weights."""
    return dataclasses.replace(
        encoder, dropout=0.0, attention_dropout=0.0, init="published", init_std=0.02
    )


def infer_generator(folder: ModelFolder, discriminator: EncoderConfig) -> dict[str, Any]:
    """Return the generator settings that give the shapes of a folder's weights."""
    theirs = folder.encoder_settings[0]
    settings = {"width": round(theirs.hidden / discriminator.hidden, 5)}
    if theirs.layers != discriminator.layers:
        settings["depth"] = round(theirs.layers / discriminator.layers, 5)
    ours = build(GeneratorConfig, settings, "generator").encoder(discriminator)
    if encoder_shape(ours) != encoder_shape(theirs):
        raise BadInput(f"{folder.path}: no generator.width gives its shapes; leave it out")
    return settings


def share_embeddings(discriminator: ModelFolder, generator: ModelFolder) -> bool:
    """Return whether two networks have the same embeddings, as those that were trained together."""
    ours, theirs = (
        {key: value for key, value in folder.tensors.items() if key.startswith("embeddings.")}
        for folder in (discriminator, generator)
    )
    return ours.keys() == theirs.keys() and all(
        torch.equal(value, theirs[key]) for key, value in ours.items()
    )


def tokenizer_settings(tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Return the settings of a folder's tokenizer."""
    if (folder / "tokenizer.json").is_file():
        return {"kind": "vocab", "file": str(folder / "tokenizer.json")}
    rules = tokenizer.raw.normalizer
    case = {"lowercase": rules.lowercase, "strip_accents": rules.strip_accents}
    return {"kind": "vocab", "file": str(folder / "vocab.txt"), **case}


def check_weights(folder: Path, model: dict[str, Any], vocab_size: int, name: str) -> None:
    """Load the weights as pre-training does. Raises BadInput where they do not fit."""
    pretrain = {"length": 3, "batch": 1, "steps": 1, "warmup": 0, "learning_rate": 1e-4}
    config = build(ElectraConfig, {**model, "pretrain": pretrain}, f"models.{name}")
    special = SpecialIds(pad=0, cls=1, sep=2, mask=3)
    with torch.device("meta"):
        networks = Pretraining(config, vocab_size, special, torch.ones(vocab_size))
    load_networks(networks.networks(), folder, networks.extras())
