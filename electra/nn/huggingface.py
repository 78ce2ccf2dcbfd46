"""Hugging Face folders of encoders and pre-trained networks: `config.json`, `model.safetensors` (or
its shards), tokenizer files.

Names are transformers' (hf_names.py), so each folder loads there with nothing missing and nothing
unexpected. Published checkpoints of ELECTRA and ModernBERT load here; of ModernBERT those of
releases from 4.48 on. Whatever in a folder changes the result is followed, or the folder is
refused. A round trip is bit-exact, but for tables with gradient-disentangled sharing, whose deltas
are differences.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from electra.errors import BadInput, CorruptFile, short_repr
from electra.files import (
    REBUILD_ADVICE,
    atomic_folder,
    read_errors,
    read_object,
    write_atomic,
    write_json,
)
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.factory import make_encoder
from electra.nn.hf_names import (
    POSITION_IDS,
    Head,
    head_names,
    is_encoder_tensor,
    named_tensors,
    parse_config,
    strip_prefix,
    transformers_names,
)
from electra.storage.manifest import MANIFEST, cached_sha256, verify_manifest, write_manifest
from electra.storage.tensors import Tensors, load_exactly, require_fit, write_tensors
from electra.storage.tensors import read_tensors as read_file

TASK = "task.json"
SPANS = "span_head.safetensors"
POOLED = "pooled_head.safetensors"
EXTRAS = "extras.safetensors"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
FILES = (CONFIG, WEIGHTS, INDEX, *TOKENIZER_FILES, TASK, SPANS, POOLED, EXTRAS)
"""All that is ever read of a folder, besides the shards that INDEX lists."""
KIND = "network"
FOLDER_ADVICE = "use the folder as it was written"
# the word table once more, where it is stored twice
_DECODERS = ("generator_lm_head.weight", "decoder.weight")
# the head's tensors with a row for each piece
_PIECE_TENSORS = (*_DECODERS, "generator_lm_head.bias", "decoder.bias")
# Settings that change an encoder's output but no tensor's shape.
_ALIKE = ("heads", "layer_norm_eps", "global_every", "window", "global_theta", "local_theta")


# ── reading ──


@dataclass(frozen=True)
class ModelFolder:
    """A Hugging Face folder, each of its files read once. `open_folder` verifies it first."""

    path: Path

    @cached_property
    def config_json(self) -> dict[str, Any]:
        """The content of config.json."""
        return read_object(self.path / CONFIG)

    @property
    def architecture(self) -> str:
        """The class of transformers that config.json names first, or nothing."""
        names = self.config_json.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @cached_property
    def encoder_settings(self) -> tuple[EncoderConfig, int]:
        """Encoder settings and vocabulary size of config.json."""
        return parse_config(self.config_json, self.path / CONFIG)

    @property
    def trained_positions(self) -> int:
        """The number of positions that pre-training has used, by config.json or by the tokenizer's
        model_max_length. All positions of the model if neither says so.
        """
        positions = self.encoder_settings[0].positions
        file = self.path / "tokenizer_config.json"
        tokenizer_config = read_object(file) if file.is_file() else {}
        lengths = [
            self.config_json.get("trained_positions"),
            tokenizer_config.get("model_max_length"),
        ]
        # 1e30, also as a float, is how transformers writes that there is no limit
        known = [length for length in lengths if length is not None and length != 1e30]
        for length in known:
            if type(length) is not int or length < 3:  # [CLS], a token and [SEP]
                raise BadInput(
                    f"{self.path}: trained_positions or model_max_length is {short_repr(length)}; "
                    "it should be a whole number of at least 3"
                )
        return int(min([positions, *known]))

    @cached_property
    def tensors(self) -> Tensors:
        """The tensors of model.safetensors, or of all its shards, an encoder's without its
        prefix.
        """
        tensors: Tensors = {}
        for file in (self.path / name for name in weight_files(self.path)):
            if not file.is_file():
                pickled = (self.path / "pytorch_model.bin").is_file()
                note = " (pytorch_model.bin is a pickle and is not opened)" if pickled else ""
                raise BadInput(
                    f"{file}: there is no such file{note}; convert the checkpoint to safetensors"
                )
            for name, tensor in read_file(file, FOLDER_ADVICE).items():
                name = strip_prefix(name)
                if name in tensors:
                    fault = "holds a tensor twice, in two shards or under two names"
                    raise BadInput(f"{self.path}: {fault}; {FOLDER_ADVICE}")
                if not name.endswith(POSITION_IDS):
                    tensors[name] = tensor
        return tensors

    @property
    def head_tensors(self) -> Tensors:
        """The tensors of model.safetensors that are not the encoder's."""
        return {name: value for name, value in self.tensors.items() if not is_encoder_tensor(name)}

    def empty_encoder(self, dropout: float | None = None) -> Encoder:
        """Return an encoder by config.json, without memory. `dropout` replaces both rates."""
        config, vocab_size = self.encoder_settings
        if dropout is not None:
            config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
        with torch.device("meta"):
            return make_encoder(config, vocab_size)

    def encoder(self, dropout: float | None = None) -> Encoder:
        """Return the encoder with its weights. `dropout` replaces both rates."""
        encoder = self.empty_encoder(dropout)
        load_encoder_tensors(encoder, self)
        return encoder


def open_folder(path: Path) -> ModelFolder:
    """Verify a folder and return a reader of it."""
    verify_folder(path)
    if os.path.lexists(path / "adapter_config.json"):
        raise BadInput(f"{path}: holds an adapter, which is not read; merge it into the weights")
    return ModelFolder(path)


def load_encoder(folder: Path, *, dropout: float | None = None) -> Encoder:
    """Return the encoder of any Hugging Face ELECTRA or ModernBERT folder. `dropout` replaces both
    rates.
    """
    return open_folder(folder).encoder(dropout)


def read_config(folder: Path) -> tuple[EncoderConfig, int]:
    """Return encoder settings and vocabulary size of a folder, which is verified first."""
    return open_folder(folder).encoder_settings


def load_encoder_tensors(encoder: Encoder, folder: ModelFolder) -> None:
    """Fill an encoder from a folder.

    Raises BadInput for a missing or surplus tensor or a wrong shape. Heads are ignored. An encoder
    on torch's meta device gets its memory, on the CPU, once all tensors fit: a config.json with
    absurd sizes costs none.
    """
    tensors = {name: value for name, value in folder.tensors.items() if is_encoder_tensor(name)}
    require_fit(named_tensors(encoder), tensors, folder.path, FOLDER_ADVICE)
    _allocate(encoder)
    encoder.embeddings.load_tables(
        *(tensors.pop(name) for name in transformers_names(encoder.config).tables)
    )
    places = named_tensors(encoder)
    for name, tensor in tensors.items():
        places[name].copy_(tensor)


def _allocate(module: nn.Module) -> None:
    """Give a module on torch's meta device its memory, on the CPU.

    `Module.to_empty` would do it, but imports torch's compiler, which takes a second.
    """
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            if parameter.is_meta:
                setattr(part, name, nn.Parameter(torch.empty(parameter.shape)))


def weight_files(folder: Path) -> list[str]:
    """Return the names of the files with a folder's weights: one, or the shards of its index."""
    index = folder / INDEX
    if (folder / WEIGHTS).is_file() or not index.is_file():
        return [WEIGHTS]
    weight_map = read_object(index).get("weight_map")
    shards = set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()
    if not shards or not all(re.fullmatch(r"\w[\w.-]*\.safetensors", name) for name in shards):
        raise BadInput(
            f"{index}: weight_map should name safetensors files of this folder; {FOLDER_ADVICE}"
        )
    return sorted(shards)


def verify_folder(folder: Path, do: str = REBUILD_ADVICE, **fields: Any) -> dict[str, str]:
    """Return the sha256 of each file that is read of a Hugging Face folder, checked against the
    folder's manifest.

    Folders without a manifest are accepted unless `fields` is given. With one, only listed files
    are read. Bytes are hashed once per process.
    """
    names = dict.fromkeys([*FILES, *weight_files(folder)])
    present = [name for name in names if os.path.lexists(folder / name)]
    for name in present:
        if not (folder / name).is_file():
            raise CorruptFile(f"{folder / name}: is a dangling link, or isn't a regular file; {do}")
    if fields or os.path.lexists(folder / MANIFEST):
        manifest = verify_manifest(folder, do=do, kind=KIND, **fields)
        for name in present:
            if name not in manifest["files"]:
                raise CorruptFile(f"{folder / name}: is not in {MANIFEST}; move it away, or {do}")
    hashes = {}
    for name in present:
        with read_errors(folder / name, do):
            hashes[name] = cached_sha256(folder / name)
    return hashes


# ── writing ──


def encoder_tensors(encoder: Encoder, prefix: str | None = None) -> Tensors:
    """Return an encoder's weights under transformers' names. Tied and disentangled tables are
    written out in full.

    `prefix` is that of classes with a head, or "" for the encoder alone.
    """
    prefix = transformers_names(encoder.config).prefix if prefix is None else prefix
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
    """Return the tensors for further files by file name: extra parts, and the factors of a word
    table that is a product.
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
    extra_files: Mapping[str, Tensors] = {},
    **fields: Any,
) -> None:
    """Write one complete Hugging Face folder.

    `files` are the tokenizer's and other texts, `extra_files` are tensors that transformers has no
    place for (file name -> tensors), and `fields` name the owner in the manifest.
    """
    with atomic_folder(folder) as temporary:
        untied = {name: tensor.clone() for name, tensor in tensors.items()}
        write_tensors(temporary / WEIGHTS, untied, {"format": "pt"})
        for name, others in extra_files.items():
            write_tensors(temporary / name, others)
        write_json(temporary / CONFIG, config)
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
) -> None:
    """Start from the exported folders of these names inside `folder`: weights only, for continued
    pre-training.

    They are read in order: an embedding block that two share ends as the last one's, as it was
    exported. The caller has compared the tokenizers: rows of tables that no piece stands for are
    left out. A generator without a folder keeps its initial values, with a warning. With `hashes`
    (folder name -> file -> sha256) the files must be those that were hashed, before and after they
    are read. Where a folder has none of a network's `extras` these keep the values they have.
    """
    for name, (encoder, head) in networks.items():
        path = folder / name
        if not path.is_dir():
            if name == "generator":
                print(
                    f"warning: there is no {path}: the generator starts from new weights",
                    file=sys.stderr,
                )
                continue
            raise BadInput(
                f"{path}: there is no such folder; pretrain.init_from should hold "
                f"{' and '.join(networks)}"
            )
        model = open_folder(path)
        config, vocab_size = model.encoder_settings
        _require_same_computation(config, encoder.config, path / CONFIG)
        if vocab_size > encoder.vocab_size:
            _drop_padding(model, encoder.vocab_size)
        load_network(encoder, head, model, extras.get(name, {}))
        actual = verify_folder(path)
        expected = actual if hashes is None else hashes.get(name, {})
        for file in sorted({*actual, *expected}):
            if actual.get(file) != expected.get(file):
                raise CorruptFile(
                    f"{path / file}: has sha256 {actual.get(file)}; it had {expected.get(file)} "
                    "when the run began. Start the run again"
                )


def _drop_padding(model: ModelFolder, vocab_size: int) -> None:
    """Cut rows that no piece stands for off the tensors with a row for each piece, in place."""
    word_table = transformers_names(model.encoder_settings[0]).tables[0]
    for name, tensor in model.tensors.items():
        if name in {word_table, *_PIECE_TENSORS}:
            model.tensors[name] = tensor[:vocab_size]


def load_network(
    encoder: Encoder, head: Head, folder: ModelFolder, extras: Mapping[str, nn.Module] = {}
) -> None:
    """Fill an encoder and its head from a folder that holds both, and `extras` if it has them."""
    path = folder.path
    load_encoder_tensors(encoder, folder)
    extra = read_file(path / EXTRAS, FOLDER_ADVICE) if (path / EXTRAS).is_file() else {}
    if places := encoder.embeddings.factors():
        factors = {name: extra.pop(name) for name in places if name in extra}
        require_fit(places, factors, path / EXTRAS, FOLDER_ADVICE)
        encoder.embeddings.load_factors(factors)
        table_VH = folder.tensors[transformers_names(encoder.config).tables[0]].float()
        if not torch.allclose(encoder.embeddings.tables()[0], table_VH, rtol=1e-4, atol=1e-6):
            raise BadInput(
                f"{path / EXTRAS}: holds factors of another word table than this folder's; "
                f"{FOLDER_ADVICE}"
            )
    ours = {their: our for our, their in head_names(encoder, head)}
    parts = {ours.get(name, name): value for name, value in folder.head_tensors.items()}
    for decoder in _DECODERS:
        tied = parts.pop(decoder, None)
        if tied is not None and not torch.equal(tied.float(), encoder.embeddings.tables()[0]):
            raise BadInput(
                f"{path}: has a {decoder} that is not the word table; tie the embeddings"
            )
    _allocate(head)
    load_exactly(head, parts, path, FOLDER_ADVICE)
    if extras and extra:
        load_exactly(nn.ModuleDict(extras), extra, path / EXTRAS, FOLDER_ADVICE)


def _require_same_computation(config: EncoderConfig, expected: EncoderConfig, where: Path) -> None:
    """Raise BadInput if two encoders compute something else with the same weights."""
    if config.kind != expected.kind:
        raise BadInput(
            f"{where}: is of an encoder of the kind {config.kind}; the model's is {expected.kind}"
        )
    used = _used(expected)
    for ours, value in _used(config).items():
        if value != used.get(ours, value):
            theirs = transformers_names(config).config[ours][0]
            raise BadInput(f"{where}: {theirs} is {value}; the model's parameters say {used[ours]}")


def _used(config: EncoderConfig) -> dict[str, Any]:
    """Return the settings of `_ALIKE`, without those that no layer uses."""
    values = {name: getattr(config, name) for name in _ALIKE if hasattr(config, name)}
    if "global_every" in values:
        values["global_every"] = min(values["global_every"], config.layers)
        if values["global_every"] == 1:
            del values["window"], values["local_theta"]
    return values
