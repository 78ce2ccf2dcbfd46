"""Encoders of either kind, with new weights: whole ones, and layers between an encoder and its
task.
"""

import dataclasses

import torch
from torch import nn

from electra.nn.attention_init import init_attention, mimetic_attention
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Embeddings, Encoder, initialise
from electra.nn.modern import ModernEncoder
from electra.seeds import derive

_CLASSES: dict[str, type[Encoder]] = {"bert": Encoder, "modern": ModernEncoder}


def make_encoder(
    config: EncoderConfig, vocab_size: int, embeddings: Embeddings | None = None
) -> Encoder:
    """Return an encoder of its config's kind. `embeddings` may be another one's, to share it."""
    return _CLASSES[config.kind](config, vocab_size, embeddings)


def fresh_encoder(config: EncoderConfig, vocab_size: int, seed: int) -> Encoder:
    """Return a newly initialised encoder: the from-scratch arm of every comparison."""
    torch.manual_seed(derive(seed, "init"))
    encoder = make_encoder(config, vocab_size)
    initialise(encoder, config)
    init_attention(encoder, config.init)
    return encoder


def add_new_layers(encoder: Encoder, count: int, seed: int) -> None:
    """Put newly initialised layers on top of an encoder, in place. Its config counts them from then
    on.

    ELECTRA predicts tokens and never rows, so its last layers describe single tokens, and its [CLS]
    vector has not learned to summarize the row. A new layer has nothing to unlearn first. Zhang et
    al. (2021, Revisiting Few-sample BERT Fine-tuning) initialise the top layers again to the same
    end.
    """
    if count == 0:
        return
    torch.manual_seed(derive(seed, "init"))
    encoder.config = dataclasses.replace(encoder.config, layers=encoder.config.layers + count)
    fresh = nn.ModuleList(
        encoder.layer_class(encoder.config, index)
        for index in range(len(encoder.layers), encoder.config.layers)
    )
    initialise(fresh, encoder.config)
    if encoder.config.init == "mimetic":
        mimetic_attention(fresh)
    encoder.layers.extend(fresh)
