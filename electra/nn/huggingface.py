"""Hugging Face folders of encoders and pre-trained networks: `config.json`, `model.safetensors`, tokenizer files.

Names are transformers' (hf_names.py), so each folder loads there with nothing missing and nothing unexpected, and
published checkpoints of ELECTRA and ModernBERT load here; of ModernBERT those of releases from 4.48 on. Nothing is
computed on the way, so a round trip is bit-exact.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from electra.errors import BadInput, CorruptFile, shown
from electra.files import AGAIN, atomic_folder, read_object, readable, write_atomic, write_json
from electra.nn.config import AnyEncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.factory import make_encoder
from electra.nn.hf_names import (
    Head,
    bare,
    config_of,
    head_names,
    named_tensors,
    names_of,
    of_encoder,
    of_head,
    telling_shapes,
)
from electra.storage.manifest import MANIFEST, sha256_once, verify_manifest, write_manifest
from electra.storage.tensors import Tensors, fill, require_fit, write_tensors
from electra.storage.tensors import read_tensors as read_file

TASK = "task.json"
SPANS, POOLED = "span_head.safetensors", "pooled_head.safetensors"
EXTRAS = "extras.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
FILES = ("config.json", "model.safetensors", *TOKENIZER_FILES, TASK, SPANS, POOLED, EXTRAS)
"""All that is ever read of a folder."""
KIND = "network"
_AGREE = "let the model's parameters and the folder's config.json agree with its weights"
_DECODERS = ("generator_lm_head.weight", "decoder.weight")  # the word table once more, where it is stored twice
# Settings that change what an encoder computes and no tensor's shape.
_ALIKE = ("heads", "layer_norm_eps", "global_every", "window", "global_theta", "local_theta")


# ── encoders ──


def encoder_tensors(encoder: Encoder, prefix: str | None = None) -> Tensors:
    """An encoder's weights under transformers' names; tied and disentangled tables are written out in full.

    `prefix` is that of classes with a head; "" for the encoder alone.
    """
    prefix = names_of(encoder.config).prefix if prefix is None else prefix
    return {prefix + name: tensor for name, tensor in named_tensors(encoder).items()}


def load_encoder_tensors(encoder: Encoder, tensors: Tensors, where: object) -> None:
    """Fill an encoder from transformers' names, with or without their prefix.

    A gap, a tensor of an encoder that this one has no place for, or a wrong shape is a BadInput; heads are passed by.
    """
    renamed = {bare(name): tensor for name, tensor in tensors.items() if of_encoder(name)}
    places = named_tensors(encoder)
    require_fit(places, renamed, where, _AGREE)
    encoder.embeddings.load_tables(*(renamed.pop(name) for name in names_of(encoder.config).tables))
    for name, tensor in renamed.items():
        places[name].copy_(tensor)


def head_tensors(tensors: Tensors) -> Tensors:
    """What a folder holds beside its encoder."""
    return {name: value for name, value in tensors.items() if of_head(name)}


def load_encoder(folder: Path, *, dropout: float | None = None) -> Encoder:
    """The encoder of any Hugging Face ELECTRA or ModernBERT folder; `dropout` replaces both rates."""
    config, vocab_size = read_config(folder)
    if dropout is not None:
        config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
    tensors = read_tensors(folder)
    _require_sizes(config, vocab_size, tensors, folder)
    encoder = make_encoder(config, vocab_size)
    load_encoder_tensors(encoder, tensors, folder)
    return encoder


def _require_sizes(config: AnyEncoderConfig, vocab_size: int, tensors: Tensors, where: object) -> None:
    """Refuse a config.json whose sizes are not the tensors', before a network of these sizes is allocated."""
    shapes = {bare(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    for name, shape in telling_shapes(config, vocab_size).items():
        if name not in shapes:
            raise BadInput(where, f"has no tensor {name}", "those that its config.json asks for", _AGREE)
        if shapes[name] != shape:
            raise BadInput(where, f"{name} has shape {shapes[name]}", f"{shape}, as its config.json says", _AGREE)


# ── folders ──


def verify_folder(folder: Path, do: str = AGAIN, **fields: Any) -> dict[str, str]:
    """The sha256 of each file that is read of a Hugging Face folder, checked against the folder's manifest.

    Folders from elsewhere have no manifest and are taken as they are, unless `fields` are asked for, which say whose
    folder it is. Of one with a manifest nothing is read that it does not list. Bytes are hashed once a process.
    """
    there = [name for name in FILES if (folder / name).is_file()]
    if fields or os.path.lexists(folder / MANIFEST):
        manifest = verify_manifest(folder, do=do, kind=KIND, **fields)
        for name in there:
            if name not in manifest["files"]:
                found, expected = f"is not in {MANIFEST}", "no file that it does not list"
                raise CorruptFile(folder / name, found, expected, f"move it away, or {do}")
    hashes = {}
    for name in there:
        with readable(folder / name, do):
            hashes[name] = sha256_once(folder / name)
    return hashes


def read_config(folder: Path) -> tuple[AnyEncoderConfig, int]:
    """Encoder settings and vocabulary size from the config.json of a folder, which is verified first."""
    verify_folder(folder)
    path = folder / "config.json"
    return config_of(read_object(path), path)


def architecture(folder: Path) -> str:
    """The class of transformers that a folder's config.json names first, or nothing."""
    names = read_object(folder / "config.json").get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def trained_positions(folder: Path) -> int:
    """How many positions of a folder's encoder pre-training has used, where that is known; else all that there are."""
    positions, seen = read_config(folder)[0].positions, read_object(folder / "config.json").get("trained_positions")
    if seen is None:
        return positions
    if type(seen) is not int or seen < 3:  # [CLS], a token and [SEP]
        where, do = f"{folder / 'config.json'}: trained_positions", "use the file that came with the weights"
        raise BadInput(where, f"is {shown(seen)}", "a whole number of at least 3", do)
    return min(seen, positions)


def read_tensors(folder: Path) -> Tensors:
    """The tensors of a folder's model.safetensors."""
    path = folder / "model.safetensors"
    if not path.is_file():
        pickled = (folder / "pytorch_model.bin").is_file()
        found = "there is no such file" + " (pytorch_model.bin is a pickle and is not opened)" * pickled
        raise BadInput(path, found, "weights as safetensors", "convert the checkpoint to safetensors first")
    return read_file(path, "fetch or make the folder again")


def write_folder(
    folder: Path,
    tensors: Tensors,
    config: dict[str, Any],
    files: dict[str, str],
    card: str,
    *,
    beside: Mapping[str, Tensors] = {},
    **fields: Any,
) -> None:
    """Write one complete Hugging Face folder.

    `files` are the tokenizer's and other texts, `beside` what transformers has no place for (file name -> tensors), and
    `fields` say in the manifest whose folder it is.
    """
    with atomic_folder(folder) as temporary:
        untied = {name: tensor.clone() for name, tensor in tensors.items()}
        write_tensors(temporary / "model.safetensors", untied, {"format": "pt"})
        for name, others in beside.items():
            write_tensors(temporary / name, others)
        write_json(temporary / "config.json", config)
        for name, text in files.items():
            write_atomic(temporary / name, text)
        write_atomic(temporary / "README.md", card)
        write_manifest(temporary, kind=KIND, **fields)


# ── encoders with the heads of their pre-training ──


def network_tensors(encoder: Encoder, head: Head) -> Tensors:
    """Everything that transformers' class of an encoder with this head holds.

    The decoder matrix of a masked language model is the word table and is not stored twice.
    """
    state = head.state_dict()
    return encoder_tensors(encoder) | {their: state[ours] for ours, their in head_names(encoder, head)}


def extra_tensors(encoder: Encoder, extras: Mapping[str, nn.Module]) -> dict[str, Tensors]:
    """What `write_folder` puts beside a network: such extras, and the factors of its word table, if it has any."""
    tensors = nn.ModuleDict(extras).state_dict() | encoder.embeddings.factors()
    return {EXTRAS: tensors} if tensors else {}


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
        ours = {their: our for our, their in head_names(encoder, head)}
        head_parts = {ours.get(key, key): value for key, value in head_tensors(tensors).items()}
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
    used = _used(expected)
    for ours, value in _used(config).items():
        if value != used.get(ours, value):
            found, wanted = (
                f"has {names_of(config).config[ours][0]} {value}",
                f"{used[ours]}, as the model's parameters",
            )
            raise BadInput(where, found, f"{used[ours]}, as the model's parameters say", do)


def _used(config: AnyEncoderConfig) -> dict[str, Any]:
    """The settings of `_ALIKE`, less what no layer of this many uses."""
    values = {name: getattr(config, name) for name in _ALIKE if hasattr(config, name)}
    if "global_every" in values:
        values["global_every"] = min(values["global_every"], config.layers)
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
    table_VH = next(table for name, table in tensors.items() if name.endswith(names_of(encoder.config).tables))
    if not torch.allclose(encoder.embeddings.tables()[0], table_VH.float(), rtol=1e-4, atol=1e-6):
        raise BadInput(inside / EXTRAS, "holds factors of another word table", "those of this folder's", do)
