"""Encoders with the heads of their pre-training, as Hugging Face folders under transformers' names."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from electra.errors import BadInput, CorruptFile
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
from electra.storage.tensors import Tensors, fill
from electra.storage.tensors import read_tensors as read_file

_DECODER = "generator_lm_head.weight"  # the word table once more, in folders that were not stored by transformers
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
            raise BadInput(
                inside, "there is no such folder", f"exported networks side by side: {', '.join(networks)}", do
            )
        config, _ = read_config(inside)
        tensors = read_tensors(inside)
        load_encoder_tensors(encoder, tensors, inside)
        for ours in ("heads", "layer_norm_eps"):  # all else shows in the shapes
            if getattr(config, ours) != getattr(encoder.config, ours):
                raise BadInput(
                    inside / "config.json",
                    f"has {CONFIG[ours][0]} {getattr(config, ours)}",
                    f"{getattr(encoder.config, ours)}, as the model's parameters say",
                    do,
                )
        theirs = {their: ours for ours, their in _head_names(head).items()}
        found = {theirs.get(key, key): value for key, value in head_tensors(tensors).items()}
        tied = found.pop(_DECODER, None)
        if tied is not None and not torch.equal(tied.float(), encoder.embeddings.tables()[0]):
            raise BadInput(inside, f"has a {_DECODER} that is not the word table", "tied embeddings", do)
        fill(head, found, inside, do)
        if name in extras and (inside / EXTRAS).is_file():
            fill(nn.ModuleDict(extras[name]), read_file(inside / EXTRAS, do), inside / EXTRAS, do)
        if hashes is not None and (now := verify_folder(inside)) != (then := dict(hashes.get(name, {}))):
            file = next(file for file in FILES if now.get(file) != then.get(file))
            expected = f"{then.get(file)}, as when the run began"
            raise CorruptFile(inside / file, f"has sha256 {now.get(file)}", expected, "start the run again")


def extra_tensors(extras: Mapping[str, nn.Module]) -> dict[str, Tensors]:
    """What `write_folder` puts beside a network that has such extras."""
    return {EXTRAS: nn.ModuleDict(extras).state_dict()} if extras else {}


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
    theirs = next(names for kind, names in _HEADS.items() if isinstance(head, kind))
    return {name: f"{theirs[module]}.{kind}" for name, module, kind in parts}
