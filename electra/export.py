"""To and from Hugging Face folders: `config.json`, `model.safetensors`, tokenizer files.

The keys are transformers' (ElectraForPreTraining, ElectraForMaskedLM, ElectraModel), so each folder loads there with
nothing missing and nothing unexpected, and published checkpoints of this form load here. Only layout changes on the way
(query, key and value are one matrix here), so a round trip is bit-exact.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.config import EncoderConfig
from electra.errors import BadInput
from electra.files import atomic_folder, read_json, write_atomic, write_json
from electra.model.discriminator import ReplacedTokenHead
from electra.model.encoder import Encoder, initialise
from electra.model.generator import MaskedTokenHead
from electra.seeds import derive
from electra.tensors import Tensors, write_tensors
from electra.tensors import read_tensors as read_file

_BLOCK = {  # ours -> transformers', inside one layer
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
Head = ReplacedTokenHead | MaskedTokenHead
_HEADS: dict[type[Head], dict[str, str]] = {
    ReplacedTokenHead: {
        "dense": "discriminator_predictions.dense",
        "logit": "discriminator_predictions.dense_prediction",
    },
    MaskedTokenHead: {
        "dense": "generator_predictions.dense",
        "norm": "generator_predictions.LayerNorm",
        "": "generator_lm_head",
    },
}


def encoder_tensors(encoder: Encoder, prefix: str = "electra.") -> Tensors:
    """An encoder's weights under transformers' names; tied and disentangled tables are written out in full."""
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
    return {prefix + name: tensor.detach() for name, tensor in tensors.items()}


def load_encoder_tensors(encoder: Encoder, tensors: Tensors, where: object) -> None:
    """Fill an encoder from transformers' names, with or without the `electra.` prefix; a gap or a wrong shape is a BadInput."""
    tensors = {name.removeprefix("electra."): tensor for name, tensor in tensors.items()}

    def take(target: Tensor, *names: str) -> None:
        if missing := [name for name in names if name not in tensors]:
            raise BadInput(
                where,
                f"has no tensor {missing[0]}",
                "the weights of an ELECTRA encoder",
                "use a folder that holds a discriminator, a generator or a backbone",
            )
        found = torch.cat([tensors[name] for name in names]) if len(names) > 1 else tensors[names[0]]
        if found.shape != target.shape:
            raise BadInput(
                where,
                f"{names[0]} has shape {tuple(found.shape)}",
                f"{tuple(target.shape)}",
                "let the model's parameters and the folder's config.json agree",
            )
        with torch.no_grad():
            target.copy_(found)

    block = encoder.embeddings
    take(block.word.weight, "embeddings.word_embeddings.weight")
    take(block.position.weight, "embeddings.position_embeddings.weight")
    take(block.token_type.weight, "embeddings.token_type_embeddings.weight")
    for kind in ("weight", "bias"):
        take(getattr(block.norm, kind), f"embeddings.LayerNorm.{kind}")
        if isinstance(encoder.project, nn.Linear):
            take(getattr(encoder.project, kind), f"embeddings_project.{kind}")
        for i, layer in enumerate(encoder.layers):
            state = layer.state_dict()  # views of the parameters: copying into them fills the layer
            take(
                state[f"attention.qkv.{kind}"],
                *(f"encoder.layer.{i}.attention.self.{name}.{kind}" for name in ("query", "key", "value")),
            )
            for ours, theirs in _BLOCK.items():
                take(state[f"{ours}.{kind}"], f"encoder.layer.{i}.{theirs}.{kind}")


def config_json(config: EncoderConfig, vocab_size: int, architecture: str, **more: Any) -> dict[str, Any]:
    """transformers' ElectraConfig."""
    return {
        "architectures": [architecture],
        "model_type": "electra",
        "vocab_size": vocab_size,
        "embedding_size": config.embedding,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.positions,
        "type_vocab_size": config.token_types,
        "initializer_range": config.init_std,
        "layer_norm_eps": config.layer_norm_eps,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        **more,
    }


def read_config(folder: Path) -> tuple[EncoderConfig, int]:
    """Encoder settings and vocabulary size from a folder's config.json."""
    values = read_json(folder / "config.json")
    if values.get("model_type") != "electra":
        raise BadInput(
            folder / "config.json",
            f"is of a model of type {values.get('model_type')!r}",
            "electra",
            "choose an ELECTRA folder",
        )
    if values.get("hidden_act", "gelu") != "gelu" or values.get("position_embedding_type", "absolute") != "absolute":
        raise BadInput(
            folder / "config.json",
            "asks for another activation or position embedding",
            "gelu and absolute positions",
            "choose a published ELECTRA",
        )
    config = EncoderConfig(
        layers=values.get("num_hidden_layers", 12),
        hidden=values.get("hidden_size", 256),
        heads=values.get("num_attention_heads", 4),
        ffn=values.get("intermediate_size", 1024),
        embedding=values.get("embedding_size", 128),
        positions=values.get("max_position_embeddings", 512),
        token_types=values.get("type_vocab_size", 2),
        dropout=values.get("hidden_dropout_prob", 0.1),
        attention_dropout=values.get("attention_probs_dropout_prob", 0.1),
        layer_norm_eps=values.get("layer_norm_eps", 1e-12),
        init_std=values.get("initializer_range", 0.02),
    )
    return config, values.get("vocab_size", 30522)


def read_tensors(folder: Path) -> Tensors:
    """The tensors of a folder's model.safetensors."""
    path = folder / "model.safetensors"
    if not path.is_file():
        pickled = (folder / "pytorch_model.bin").is_file()
        raise BadInput(
            path,
            "there is no such file" + (" (pytorch_model.bin is a pickle and is not opened)" if pickled else ""),
            "weights as safetensors",
            "convert the checkpoint to safetensors first",
        )
    return read_file(path, "fetch or make the folder again")


def load_encoder(folder: Path, *, dropout: float | None = None) -> Encoder:
    """The encoder of any Hugging Face ELECTRA folder; `dropout` replaces both rates."""
    config, vocab_size = read_config(folder)
    if dropout is not None:
        config = EncoderConfig(**{**config.__dict__, "dropout": dropout, "attention_dropout": dropout})
    encoder = Encoder(config, vocab_size)
    load_encoder_tensors(encoder, read_tensors(folder), folder)
    return encoder


def fresh_encoder(config: EncoderConfig, vocab_size: int, seed: int) -> Encoder:
    """A newly initialised encoder: the from-scratch arm of every comparison."""
    torch.manual_seed(derive(seed, "init"))
    encoder = Encoder(config, vocab_size)
    initialise(encoder, config)
    return encoder


def load_networks(networks: Mapping[str, tuple[Encoder, Head]], folder: Path) -> None:
    """Start from the exported folders of these names inside `folder`: weights only, for continued pre-training.

    They are read in order: an embedding block that two share ends as the last one's, as it was exported.
    """
    for name, (encoder, head) in networks.items():
        if not (folder / name).is_dir():
            raise BadInput(
                folder / name,
                "there is no such folder",
                f"exported networks side by side: {', '.join(networks)}",
                "check pretrain.init_from",
            )
        tensors = read_tensors(folder / name)
        load_encoder_tensors(encoder, tensors, folder / name)
        state = head.state_dict()
        for ours, their in _head_names(head).items():
            if their not in tensors or tensors[their].shape != state[ours].shape:
                raise BadInput(
                    folder / name,
                    f"has no {their} of shape {tuple(state[ours].shape)}",
                    "the head's weights",
                    "check pretrain.init_from",
                )
            state[ours].copy_(tensors[their])


def write_folder(
    folder: Path, tensors: Tensors, config: dict[str, Any], tokenizer_files: dict[str, str], card: str
) -> None:
    """Write one complete Hugging Face folder."""
    with atomic_folder(folder) as temporary:
        untied = {name: tensor.clone() for name, tensor in tensors.items()}
        write_tensors(temporary / "model.safetensors", untied, {"format": "pt"})
        write_json(temporary / "config.json", config)
        for name, text in tokenizer_files.items():
            write_atomic(temporary / name, text)
        write_atomic(temporary / "README.md", card)


def network_tensors(encoder: Encoder, head: Head) -> Tensors:
    """Everything that ElectraForPreTraining or ElectraForMaskedLM holds.

    The decoder matrix of the latter is the word table and is not stored twice.
    """
    state = head.state_dict()
    return encoder_tensors(encoder) | {their: state[ours] for ours, their in _head_names(head).items()}


def architecture(head: Head) -> str:
    """The class of transformers that an encoder with this head is."""
    return "ElectraForPreTraining" if isinstance(head, ReplacedTokenHead) else "ElectraForMaskedLM"


def _head_names(head: Head) -> dict[str, str]:
    """Our name of each of the head's parameters -> transformers'."""
    parts = ((name, *name.rpartition(".")[::2]) for name in head.state_dict())
    return {name: f"{_HEADS[type(head)][module]}.{kind}" for name, module, kind in parts}


def model_card(title: str, facts: dict[str, Any]) -> str:
    """A model card: what it is, data, recipe and results, as sorted JSON."""
    return f"---\nlibrary_name: transformers\ntags: [electra]\n---\n\n# {title}\n\n```json\n{json.dumps(facts, indent=2, sort_keys=True, ensure_ascii=False)}\n```\n"
