"""Encoders with the heads of their pre-training, as Hugging Face folders under transformers' names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from electra.errors import BadInput, CorruptFile
from electra.nn import modernbert
from electra.nn.config import AnyEncoderConfig, ModernConfig
from electra.nn.encoder import Encoder
from electra.nn.token_heads import MaskedTokenHead, ReplacedTokenHead
from electra.nn.weights import (
    CONFIG,
    EXTRAS,
    FILES,
    encoder_tensors,
    head_tensors,
    load_encoder_tensors,
    read_config,
    read_tensors,
    verify_folder,
)
from electra.storage.tensors import Tensors, fill, require_fit
from electra.storage.tensors import read_tensors as read_file

_DECODERS = ("generator_lm_head.weight", "decoder.weight")  # the word table once more, where it is stored twice
_D, _G = "discriminator_predictions", "generator_predictions"
Head = ReplacedTokenHead | MaskedTokenHead
_HEADS: dict[type[Head], dict[str, str]] = {
    ReplacedTokenHead: {"dense": f"{_D}.dense", "logit": f"{_D}.dense_prediction"},
    MaskedTokenHead: {"dense": f"{_G}.dense", "norm": f"{_G}.LayerNorm", "": "generator_lm_head"},
}
_MODERN = {"dense": "head.dense", "norm": "head.norm", "logit": "classifier", "": "decoder"}
# All else shows in the shapes.
_ALIKE = ("heads", "layer_norm_eps", "global_every", "window", "global_theta", "local_theta")


def load_networks(
    networks: Mapping[str, tuple[Encoder, Head]],
    folder: Path,
    extras: Mapping[str, Mapping[str, nn.Module]] = {},
    hashes: Mapping[str, Mapping[str, str]] | None = None,
    do: str = "check pretrain.init_from",
) -> None:
    """Start from the exported folders of these names inside `folder`: weights only, for continued pre-training.

    They are read in order: an embedding block that two share ends as the last one's, as it was exported. With `hashes`
    (folder name -> file -> sha256) the files must be those that were hashed, before and after they are read. Where a
    folder has none of a network's `extras` these keep the values they have.
    """
    for name, (encoder, head) in networks.items():
        inside = folder / name
        if not inside.is_dir():
            expected = f"exported networks side by side: {', '.join(networks)}"
            raise BadInput(inside, "there is no such folder", expected, do)
        config, _ = read_config(inside)
        _require_alike(config, encoder.config, inside / "config.json", do)
        tensors = read_tensors(inside)
        load_encoder_tensors(encoder, tensors, inside)
        theirs = {their: ours for ours, their in _head_names(encoder, head).items()}
        head_parts = {theirs.get(key, key): value for key, value in head_tensors(tensors).items()}
        beside = read_file(inside / EXTRAS, do) if (inside / EXTRAS).is_file() else {}
        _load_factors(encoder, beside, tensors, inside, do)
        for decoder in _DECODERS:
            tied = head_parts.pop(decoder, None)
            if tied is not None and not torch.equal(tied.float(), encoder.embeddings.tables()[0]):
                raise BadInput(inside, f"has a {decoder} that is not the word table", "tied embeddings", do)
        fill(head, head_parts, inside, do)
        if name in extras and beside:
            fill(nn.ModuleDict(extras[name]), beside, inside / EXTRAS, do)
        if hashes is not None and (now := verify_folder(inside)) != (then := dict(hashes.get(name, {}))):
            file = next(file for file in FILES if now.get(file) != then.get(file))
            expected = f"{then.get(file)}, as when the run began"
            raise CorruptFile(inside / file, f"has sha256 {now.get(file)}", expected, "start the run again")


def _require_alike(config: AnyEncoderConfig, expected: AnyEncoderConfig, where: Path, do: str) -> None:
    """Refuse a folder whose encoder computes something else with the same weights."""
    if config.kind != expected.kind:
        found, wanted = f"is of an encoder of the kind {config.kind}", f"{expected.kind}, as the parameters say"
        raise BadInput(where, found, wanted, do)
    names = modernbert.CONFIG if isinstance(expected, ModernConfig) else CONFIG
    used = _used(expected)
    for ours, value in _used(config).items():
        if value != used.get(ours, value):
            raise BadInput(where, f"has {names[ours][0]} {value}", f"{used[ours]}, as the model's parameters say", do)


def _used(config: AnyEncoderConfig) -> dict[str, Any]:
    """What changes the outputs but no shape, less what no layer of this many uses."""
    values = {name: getattr(config, name) for name in _ALIKE if hasattr(config, name)}
    if isinstance(config, ModernConfig):
        values["global_every"] = min(config.global_every, config.layers)
        if values["global_every"] == 1:
            del values["window"], values["local_theta"]
    return values


def _load_factors(encoder: Encoder, beside: Tensors, tensors: Tensors, inside: Path, do: str) -> None:
    """Set the factors of a word table that is a product, and see that the folder's table is theirs."""
    places = encoder.embeddings.factors()
    if not places:
        return
    factors = {name: beside.pop(name) for name in places if name in beside}
    require_fit(places, factors, inside / EXTRAS, do)
    encoder.embeddings.load_factors(factors)
    table_VH = next(table for name, table in tensors.items() if name.endswith(modernbert.TABLES))
    if not torch.allclose(encoder.embeddings.tables()[0], table_VH.float(), rtol=1e-4, atol=1e-6):
        raise BadInput(inside / EXTRAS, "holds factors of another word table", "those of this folder's", do)


def extra_tensors(encoder: Encoder, extras: Mapping[str, nn.Module]) -> dict[str, Tensors]:
    """What `write_folder` puts beside a network: such extras, and the factors of its word table, if it has any."""
    tensors = nn.ModuleDict(extras).state_dict() | encoder.embeddings.factors()
    return {EXTRAS: tensors} if tensors else {}


def network_tensors(encoder: Encoder, head: Head) -> Tensors:
    """Everything that ElectraForPreTraining or ElectraForMaskedLM holds, or what ModernBERT has for them.

    The decoder matrix of the latter is the word table and is not stored twice.
    """
    state = head.state_dict()
    return encoder_tensors(encoder) | {their: state[ours] for ours, their in _head_names(encoder, head).items()}


def architecture(head: Head) -> str:
    """The class of transformers that an encoder with this head is; `config_json` has ModernBERT's for it."""
    return "ElectraForPreTraining" if isinstance(head, ReplacedTokenHead) else "ElectraForMaskedLM"


def _head_names(encoder: Encoder, head: Head) -> dict[str, str]:
    """Our name of each of the head's parameters -> transformers'."""
    parts = ((name, *name.rpartition(".")[::2]) for name in head.state_dict())
    modern = isinstance(encoder.config, ModernConfig)
    theirs = _MODERN if modern else next(names for kind, names in _HEADS.items() if isinstance(head, kind))
    return {name: f"{theirs[module]}.{kind}" for name, module, kind in parts}
