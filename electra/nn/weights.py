"""To and from Hugging Face folders: `config.json`, `model.safetensors`, tokenizer files.

The keys are transformers' (ElectraForPreTraining, ElectraForMaskedLM, ElectraModel; of modern encoders modernbert.py
has them), so each folder loads there with nothing missing and nothing unexpected, and published checkpoints of this
form load here. Only layout changes on the way (query, key and value are one matrix here), so a round trip is bit-exact.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from electra.config import build
from electra.errors import BadConfig, BadInput, CorruptFile
from electra.files import AGAIN, atomic_folder, read_object, readable, write_atomic, write_json
from electra.nn import modernbert
from electra.nn.config import AnyEncoderConfig, EncoderConfig, ModernConfig
from electra.nn.encoder import Encoder
from electra.nn.kinds import make_encoder
from electra.storage.manifest import MANIFEST, sha256_once, verify_manifest, write_manifest
from electra.storage.tensors import Tensors, require_fit, write_tensors
from electra.storage.tensors import read_tensors as read_file

_BLOCK = {  # ours -> transformers', inside one layer
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
CONFIG: dict[str, tuple[str, int | float | str]] = {  # ours -> transformers', and its value where none is given
    "layers": ("num_hidden_layers", 12),
    "hidden": ("hidden_size", 256),
    "heads": ("num_attention_heads", 4),
    "ffn": ("intermediate_size", 1024),
    "embedding": ("embedding_size", 128),
    "positions": ("max_position_embeddings", 512),
    "token_types": ("type_vocab_size", 2),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "layer_norm_eps": ("layer_norm_eps", 1e-12),
    "init_std": ("initializer_range", 0.02),
    "init": ("init", "published"),
}
_TABLES = ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight")
_NUMBERS = "position_ids"  # of the positions: older releases of transformers stored them, too
TASK = "task.json"
SPANS, POOLED = "span_head.safetensors", "pooled_head.safetensors"
EXTRAS = "extras.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
FILES = ("config.json", "model.safetensors", *TOKENIZER_FILES, TASK, SPANS, POOLED, EXTRAS)
"""All that is ever read of a folder."""
KIND = "network"


def encoder_tensors(encoder: Encoder, prefix: str | None = None) -> Tensors:
    """An encoder's weights under transformers' names; tied and disentangled tables are written out in full.

    `prefix` is that of classes with a head; "" for the encoder alone.
    """
    modern = isinstance(encoder.config, ModernConfig)
    tensors = modernbert.tensors_of(encoder) if modern else _electra_tensors(encoder)
    prefix = ("model." if modern else "electra.") if prefix is None else prefix
    return {prefix + name: tensor.detach() for name, tensor in tensors.items()}


def _electra_tensors(encoder: Encoder) -> Tensors:
    word_VE, position_PE = encoder.embeddings.tables()
    tensors: Tensors = {
        "embeddings.word_embeddings.weight": word_VE,
        "embeddings.position_embeddings.weight": position_PE,
        "embeddings.token_type_embeddings.weight": encoder.embeddings.token_type.weight,
        "embeddings.LayerNorm.weight": encoder.embeddings.norm.weight,
        "embeddings.LayerNorm.bias": encoder.embeddings.norm.bias,
    }
    if isinstance(encoder.project, nn.Linear):
        tensors |= {f"embeddings_project.{kind}": value for kind, value in encoder.project.state_dict().items()}
    for i, layer in enumerate(encoder.layers):
        state = layer.state_dict()
        for kind in ("weight", "bias"):
            for name, part in zip(("query", "key", "value"), state[f"attention.qkv.{kind}"].chunk(3), strict=True):
                tensors[f"encoder.layer.{i}.attention.self.{name}.{kind}"] = part
            tensors |= {
                f"encoder.layer.{i}.{theirs}.{kind}": state[f"{ours}.{kind}"] for ours, theirs in _BLOCK.items()
            }
    return tensors


def load_encoder_tensors(encoder: Encoder, tensors: Tensors, where: object) -> None:
    """Fill an encoder from transformers' names, with or without their prefix.

    A gap, a tensor of an encoder that this one has no place for, or a wrong shape is a BadInput; heads are passed by.
    """
    renamed = {_bare(name): tensor for name, tensor in tensors.items() if of_encoder(name)}
    places = encoder_tensors(encoder, "")  # views of the parameters, but for tables that are sums
    do = "let the model's parameters and the folder's config.json agree with its weights"
    require_fit(places, renamed, where, do)
    tables = modernbert.TABLES if isinstance(encoder.config, ModernConfig) else _TABLES
    encoder.embeddings.load_tables(*(renamed.pop(name) for name in tables))
    for name, tensor in renamed.items():
        places[name].copy_(tensor)


def of_encoder(name: str) -> bool:
    """Whether a tensor is of an encoder."""
    parts = ("embeddings", "encoder.", "layers.", "final_norm.")
    return _bare(name).startswith(parts) and not name.endswith(_NUMBERS)


def _bare(name: str) -> str:
    return name.removeprefix("electra.").removeprefix("model.")


def head_tensors(tensors: Tensors) -> Tensors:
    """What a folder holds beside its encoder."""
    return {name: value for name, value in tensors.items() if not of_encoder(name) and not name.endswith(_NUMBERS)}


def config_json(config: AnyEncoderConfig, vocab_size: int, architecture: str, **more: Any) -> dict[str, Any]:
    """transformers' ElectraConfig, or ModernBertConfig with the class that does what ELECTRA's `architecture` does."""
    if isinstance(config, ModernConfig):
        values = modernbert.values_of(config, architecture)
        return {"vocab_size": vocab_size, "pad_token_id": 0, "tie_word_embeddings": True, **values, **more}
    values = modernbert.renamed(config, CONFIG)
    first = {"architectures": [architecture], "model_type": "electra", "hidden_act": "gelu"}
    return first | {"vocab_size": vocab_size, "pad_token_id": 0, "tie_word_embeddings": True, **values, **more}


def trained_positions(folder: Path) -> int:
    """How many positions of a folder's encoder pre-training has used, where that is known; else all that there are."""
    positions, seen = read_config(folder)[0].positions, read_object(folder / "config.json").get("trained_positions")
    return min(seen, positions) if type(seen) is int else positions


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
    values = read_object(path)
    kind = values.get("model_type")
    if kind not in {"electra", modernbert.TYPE}:
        raise BadInput(path, f"is of a model of type {kind!r}", "electra or modernbert", "choose a folder of one")
    modern = kind == modernbert.TYPE
    acts, places = values.get("hidden_act", "gelu"), values.get("position_embedding_type", "absolute")
    if not modern and (acts != "gelu" or places != "absolute"):  # ModernBERT has other keys, or none, for these
        found, expected = "asks for another activation or position embedding", "gelu and absolute positions"
        raise BadInput(path, found, expected, "choose a published ELECTRA")
    names, do = modernbert.CONFIG if modern else CONFIG, "use the file that came with the weights"
    chosen: dict[str, Any] = {ours: values.get(theirs, default) for ours, (theirs, default) in CONFIG.items()}
    if modern:
        chosen = modernbert.settings_of(values, path)
    try:
        config = build(ModernConfig, chosen, "") if modern else build(EncoderConfig, chosen, "")
    except BadConfig as error:
        key = names.get(error.where.removeprefix("."), names["hidden"])[0]  # ModernBERT's embedding is as wide
        raise BadInput(f"{path}: {key}", error.found, error.expected, do) from None
    vocab_size = values.get("vocab_size", 50368 if modern else 30522)
    if type(vocab_size) is not int or vocab_size <= 0:
        raise BadInput(f"{path}: vocab_size", f"is {vocab_size!r}", "a number above 0", do)
    return config, vocab_size


def read_tensors(folder: Path) -> Tensors:
    """The tensors of a folder's model.safetensors."""
    path = folder / "model.safetensors"
    if not path.is_file():
        pickled = (folder / "pytorch_model.bin").is_file()
        found = "there is no such file" + " (pytorch_model.bin is a pickle and is not opened)" * pickled
        raise BadInput(path, found, "weights as safetensors", "convert the checkpoint to safetensors first")
    return read_file(path, "fetch or make the folder again")


def load_encoder(folder: Path, *, dropout: float | None = None) -> Encoder:
    """The encoder of any Hugging Face ELECTRA or ModernBERT folder; `dropout` replaces both rates."""
    config, vocab_size = read_config(folder)
    if dropout is not None:
        config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
    tensors = read_tensors(folder)
    encoder = make_encoder(config, vocab_size)
    load_encoder_tensors(encoder, tensors, folder)
    return encoder


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
