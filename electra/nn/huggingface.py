"""Hugging Face folders of encoders and pre-trained networks: `config.json`, `model.safetensors`,
tokenizer files.

Names are transformers' (hf_names.py), so each folder loads there with nothing missing and nothing
unexpected, and published checkpoints of ELECTRA and ModernBERT load here; of ModernBERT those of
releases from 4.48 on. A round trip is bit-exact, but for tables with gradient-disentangled sharing,
whose deltas are differences.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
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
# the word table once more, where it is stored twice
_DECODERS = ("generator_lm_head.weight", "decoder.weight")
# Settings that change what an encoder computes and no tensor's shape.
_ALIKE = ("heads", "layer_norm_eps", "global_every", "window", "global_theta", "local_theta")


# ── reading ──


@dataclass(frozen=True)
class ModelFolder:
    """A Hugging Face folder, each of its files read once. `open_folder` verifies it first."""

    path: Path

    @cached_property
    def config_json(self) -> dict[str, Any]:
        """The content of config.json."""
        return read_object(self.path / "config.json")

    @property
    def architecture(self) -> str:
        """The class of transformers that config.json names first, or nothing."""
        names = self.config_json.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @cached_property
    def encoder_settings(self) -> tuple[AnyEncoderConfig, int]:
        """Encoder settings and vocabulary size of config.json."""
        return config_of(self.config_json, self.path / "config.json")

    @property
    def trained_positions(self) -> int:
        """How many positions pre-training has used, where that is known; else all that there are."""
        positions = self.encoder_settings[0].positions
        used = self.config_json.get("trained_positions")
        if used is None:
            return positions
        if type(used) is not int or used < 3:  # [CLS], a token and [SEP]
            raise BadInput(
                f"{self.path / 'config.json'}: trained_positions is {shown(used)}; expected a whole number of at "
                "least 3. Use the file that came with the weights"
            )
        return min(used, positions)

    @cached_property
    def tensors(self) -> Tensors:
        """The tensors of model.safetensors."""
        file = self.path / "model.safetensors"
        if not file.is_file():
            pickled = (self.path / "pytorch_model.bin").is_file()
            note = " (pytorch_model.bin is a pickle and is not opened)" if pickled else ""
            raise BadInput(
                f"{file}: there is no such file{note}; convert the checkpoint to safetensors first"
            )
        return read_file(file, "fetch or make the folder again")

    @property
    def head_tensors(self) -> Tensors:
        """The tensors of model.safetensors that are not the encoder's."""
        return {name: value for name, value in self.tensors.items() if of_head(name)}

    def empty_encoder(self, dropout: float | None = None) -> Encoder:
        """Return an encoder by config.json that has no memory yet; `dropout` replaces both rates."""
        config, vocab_size = self.encoder_settings
        if dropout is not None:
            config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
        with torch.device("meta"):
            return make_encoder(config, vocab_size)

    def encoder(self, dropout: float | None = None) -> Encoder:
        """Return the encoder with its weights; `dropout` replaces both rates."""
        encoder = self.empty_encoder(dropout)
        load_encoder_tensors(encoder, self.tensors, self.path)
        return encoder


def open_folder(path: Path) -> ModelFolder:
    """Verify a folder and return what reads it."""
    verify_folder(path)
    return ModelFolder(path)


def load_encoder(folder: Path, *, dropout: float | None = None) -> Encoder:
    """Return the encoder of any Hugging Face ELECTRA or ModernBERT folder; `dropout` replaces both
    rates.
    """
    return open_folder(folder).encoder(dropout)


def read_config(folder: Path) -> tuple[AnyEncoderConfig, int]:
    """Return encoder settings and vocabulary size of a folder, which is verified first."""
    return open_folder(folder).encoder_settings


def load_encoder_tensors(encoder: Encoder, tensors: Tensors, where: object) -> None:
    """Fill an encoder from transformers' names, with or without their prefix.

    A missing or surplus tensor or a wrong shape is a BadInput; heads are passed by. An encoder on
    torch's meta device gets its memory, on the CPU, once all tensors fit: a config.json with absurd
    sizes costs none.
    """
    renamed = {bare(name): tensor for name, tensor in tensors.items() if of_encoder(name)}
    require_fit(named_tensors(encoder), renamed, where, _AGREE)
    _allocate(encoder)
    encoder.embeddings.load_tables(*(renamed.pop(name) for name in names_of(encoder.config).tables))
    places = named_tensors(encoder)
    for name, tensor in renamed.items():
        places[name].copy_(tensor)


def _allocate(module: nn.Module) -> None:
    """Give a module on torch's meta device its memory, on the CPU."""
    if any(parameter.is_meta for parameter in module.parameters()):
        module.to_empty(device="cpu")


def verify_folder(folder: Path, do: str = AGAIN, **fields: Any) -> dict[str, str]:
    """Return the sha256 of each file that is read of a Hugging Face folder, checked against the
    folder's manifest.

    Folders from elsewhere have no manifest and are taken as they are, unless `fields` are asked
    for, which say whose folder it is. Of one with a manifest nothing is read that it does not list.
    Bytes are hashed once a process.
    """
    present = [name for name in FILES if (folder / name).is_file()]
    if fields or os.path.lexists(folder / MANIFEST):
        manifest = verify_manifest(folder, do=do, kind=KIND, **fields)
        for name in present:
            if name not in manifest["files"]:
                raise CorruptFile(f"{folder / name}: is not in {MANIFEST}; move it away, or {do}")
    hashes = {}
    for name in present:
        with readable(folder / name, do):
            hashes[name] = sha256_once(folder / name)
    return hashes


# ── writing ──


def encoder_tensors(encoder: Encoder, prefix: str | None = None) -> Tensors:
    """Return an encoder's weights under transformers' names; tied and disentangled tables are
    written out in full.

    `prefix` is that of classes with a head; "" for the encoder alone.
    """
    prefix = names_of(encoder.config).prefix if prefix is None else prefix
    return {prefix + name: tensor for name, tensor in named_tensors(encoder).items()}


def network_tensors(encoder: Encoder, head: Head) -> Tensors:
    """Return everything that transformers' class of an encoder with this head holds.

    The decoder matrix of a masked language model is the word table and is not stored twice.
    """
    state = head.state_dict()
    return encoder_tensors(encoder) | {
        their: state[ours] for ours, their in head_names(encoder, head)
    }


def extra_tensors(encoder: Encoder, extras: Mapping[str, nn.Module]) -> dict[str, Tensors]:
    """Return what `write_folder` puts beside a network: extra parts, and the factors of its word
    table, if any.
    """
    tensors = nn.ModuleDict(extras).state_dict() | encoder.embeddings.factors()
    return {EXTRAS: tensors} if tensors else {}


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

    `files` are the tokenizer's and other texts, `beside` what transformers has no place for (file
    name -> tensors), and `fields` say in the manifest whose folder it is.
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


def load_networks(
    networks: Mapping[str, tuple[Encoder, Head]],
    folder: Path,
    extras: Mapping[str, Mapping[str, nn.Module]] = {},
    hashes: Mapping[str, Mapping[str, str]] | None = None,
    do: str = "check pretrain.init_from",
) -> None:
    """Start from the exported folders of these names inside `folder`: weights only, for continued
    pre-training.

    They are read in order: an embedding block that two share ends as the last one's, as it was
    exported. With `hashes` (folder name -> file -> sha256) the files must be those that were
    hashed, before and after they are read. Where a folder has none of a network's `extras` these
    keep the values they have.
    """
    for name, (encoder, head) in networks.items():
        path = folder / name
        if not path.is_dir():
            raise BadInput(
                f"{path}: there is no such folder; {folder} should hold {' and '.join(networks)}. {do}"
            )
        model = open_folder(path)
        _require_same_computation(
            model.encoder_settings[0], encoder.config, path / "config.json", do
        )
        load_network(encoder, head, model, extras.get(name, {}), do)
        if hashes is None:
            continue
        expected = dict(hashes.get(name, {}))
        actual = verify_folder(path)
        for file in FILES:
            if actual.get(file) != expected.get(file):
                raise CorruptFile(
                    f"{path / file}: has sha256 {actual.get(file)}; it had {expected.get(file)} when the run began. "
                    "Start the run again"
                )


def load_network(
    encoder: Encoder,
    head: Head,
    folder: ModelFolder,
    extras: Mapping[str, nn.Module] = {},
    do: str = AGAIN,
) -> None:
    """Fill an encoder and its head from a folder that holds both, and `extras` if it has them."""
    path = folder.path
    load_encoder_tensors(encoder, folder.tensors, path)
    beside = read_file(path / EXTRAS, do) if (path / EXTRAS).is_file() else {}
    _load_factors(encoder, beside, folder, do)
    ours = {their: our for our, their in head_names(encoder, head)}
    parts = {ours.get(name, name): value for name, value in folder.head_tensors.items()}
    for decoder in _DECODERS:
        tied = parts.pop(decoder, None)
        if tied is not None and not torch.equal(tied.float(), encoder.embeddings.tables()[0]):
            raise BadInput(
                f"{path}: has a {decoder} that is not the word table; embeddings must be tied. {do}"
            )
    _allocate(head)
    fill(head, parts, path, do)
    if extras and beside:
        fill(nn.ModuleDict(extras), beside, path / EXTRAS, do)


def _require_same_computation(
    config: AnyEncoderConfig, expected: AnyEncoderConfig, where: Path, do: str
) -> None:
    """Raise BadInput if two encoders compute something else with the same weights."""
    if config.kind != expected.kind:
        raise BadInput(
            f"{where}: is of an encoder of the kind {config.kind}; the model's is {expected.kind}. {do}"
        )
    used = _used(expected)
    for ours, value in _used(config).items():
        if value != used.get(ours, value):
            theirs = names_of(config).config[ours][0]
            raise BadInput(
                f"{where}: {theirs} is {value}; the model's parameters say {used[ours]}. {do}"
            )


def _used(config: AnyEncoderConfig) -> dict[str, Any]:
    """Return the settings of `_ALIKE`, less what no layer of this many uses."""
    values = {name: getattr(config, name) for name in _ALIKE if hasattr(config, name)}
    if "global_every" in values:
        values["global_every"] = min(values["global_every"], config.layers)
        if values["global_every"] == 1:
            del values["window"], values["local_theta"]
    return values


def _load_factors(encoder: Encoder, beside: Tensors, folder: ModelFolder, do: str) -> None:
    """Set the factors of a word table that is a product; raise BadInput if their product is not the
    folder's table.
    """
    places = encoder.embeddings.factors()
    if not places:
        return
    file = folder.path / EXTRAS
    factors = {name: beside.pop(name) for name in places if name in beside}
    require_fit(places, factors, file, do)
    encoder.embeddings.load_factors(factors)
    table_VH = next(
        table
        for name, table in folder.tensors.items()
        if name.endswith(names_of(encoder.config).tables)
    )
    if not torch.allclose(encoder.embeddings.tables()[0], table_VH.float(), rtol=1e-4, atol=1e-6):
        raise BadInput(f"{file}: holds factors of another word table than this folder's. {do}")
