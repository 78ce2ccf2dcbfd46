"""Newly initialised weights: the from-scratch arm of a comparison, and layers between an encoder and its task."""

import dataclasses

import torch
from torch import nn

from electra.nn.attention_init import begin_attention, mimetic_attention
from electra.nn.config import AnyEncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.kinds import initialise, make_encoder, make_layer
from electra.seeds import derive


def fresh_encoder(config: AnyEncoderConfig, vocab_size: int, seed: int) -> Encoder:
    """A newly initialised encoder: the from-scratch arm of every comparison."""
    torch.manual_seed(derive(seed, "init"))
    encoder = make_encoder(config, vocab_size)
    initialise(encoder, config)
    begin_attention(encoder, config.init)
    return encoder


def add_fresh_layers(encoder: Encoder, count: int, seed: int) -> None:
    """Put newly initialised layers on top of an encoder, in place; its config counts them from then on.

    ELECTRA is asked about each token and never about a row, so its last layers say what each token is and its [CLS]
    vector was never taught to gather. A fresh layer has nothing to unlearn before it can; Zhang et al. (2021,
    Revisiting Few-sample BERT Fine-tuning) initialise the top layers anew to the same end.
    """
    if count == 0:
        return
    torch.manual_seed(derive(seed, "init"))
    encoder.config = dataclasses.replace(encoder.config, layers=encoder.config.layers + count)
    fresh = nn.ModuleList(make_layer(encoder.config, len(encoder.layers) + index) for index in range(count))
    initialise(fresh, encoder.config)
    if encoder.config.init == "mimetic":
        mimetic_attention(fresh)
    encoder.layers.extend(fresh)
