"""An encoder of its config's kind, and its first weights: BERT's (encoder.py) or a modern one (modern.py)."""

from torch import nn

from electra.nn.config import AnyEncoderConfig, ModernConfig
from electra.nn.encoder import Block, DisentangledEmbeddings, Embeddings, Encoder, Layer
from electra.nn.encoder import initialise as initialise_bert
from electra.nn.modern import DisentangledModern, ModernEmbeddings, ModernEncoder, ModernLayer, initialise_modern


def make_encoder(config: AnyEncoderConfig, vocab_size: int, embeddings: Embeddings | None = None) -> Encoder:
    """An encoder; `embeddings` may be another one's, to share it."""
    kind = ModernEncoder if isinstance(config, ModernConfig) else Encoder
    return kind(config, vocab_size, embeddings)  # type: ignore[arg-type]


def make_layer(config: AnyEncoderConfig, index: int) -> Block:
    """A layer of an encoder, counted from 0 at the bottom."""
    return ModernLayer(config, index) if isinstance(config, ModernConfig) else Layer(config)


def disentangled(config: AnyEncoderConfig, base: Embeddings) -> Embeddings:
    """An embedding block over another's tables without their gradient (DeBERTa v3)."""
    if isinstance(config, ModernConfig):
        assert isinstance(base, ModernEmbeddings)
        return DisentangledModern(config, base)
    return DisentangledEmbeddings(config, base)


def initialise(module: nn.Module, config: AnyEncoderConfig) -> None:
    """Set every initial value of a network, in place, from torch's global generator."""
    if isinstance(config, ModernConfig):
        initialise_modern(module, config)
    else:
        initialise_bert(module, config)
