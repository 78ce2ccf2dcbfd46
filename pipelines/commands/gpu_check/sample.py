"""What the checks train (made-up rows, the small preset's widths in two layers), and the rows of their table."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from electra.nn.config import EncoderConfig, ModernConfig
from electra.pretraining.config import ElectraConfig, GeneratorConfig, ObjectiveConfig, PretrainConfig
from electra.pretraining.corruption import SpecialIds

SHARINGS: tuple[Any, ...] = ("none", "tokens", "embeddings", "all", "gradient_disentangled")
SPECIAL, SHORT = SpecialIds(pad=0, cls=101, sep=102, mask=103), 0.05


class MadeUpRows:
    """Rows [CLS] A [SEP] B [SEP] of random tokens; a twentieth is short and padded, as the builder makes them."""

    def __init__(self, count: int, length: int, vocab_size: int) -> None:
        numbers = np.random.default_rng(0)
        self.ids = numbers.integers(SPECIAL.mask + 1, vocab_size, (count, length)).astype(np.uint16)
        short = numbers.random(count) < SHORT
        lengths = np.where(short, numbers.integers(length // 4, length, count), length)
        self.ids[:, 0] = SPECIAL.cls
        for row, total in enumerate(lengths):
            self.ids[row, [total // 2, total - 1]], self.ids[row, total:] = SPECIAL.sep, SPECIAL.pad
        self.bounds = np.stack([lengths // 2 + 1, lengths], 1).astype(np.uint16)
        self.tokens = int(lengths.sum())

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Size:
    """A network and a batch, and the size of the vocabulary."""

    config: ElectraConfig
    vocab_size: int


def size(device: torch.device) -> Size:
    """On a GPU the small preset's own shapes, less ten layers; on a CPU what takes milliseconds a step."""
    gpu = device.type == "cuda"
    hidden, length = (256, 128) if gpu else (64, 32)
    encoder = EncoderConfig(layers=2, hidden=hidden, heads=hidden // 64, ffn=4 * hidden, embedding=hidden // 2)
    pretrain = PretrainConfig(length=length, batch=16, steps=60, learning_rate=5e-4, warmup=10, threads=1)
    config = ElectraConfig(encoder=encoder, pretrain=pretrain, generator=GeneratorConfig(width=0.25))
    return Size(config, 30_522 if gpu else 1000)


def networks(device: torch.device) -> dict[str, Size]:
    """Both encoders with every sharing, without dropout, a batch in two slices."""
    plain, found = size(device), {}
    pretrain = replace(plain.config.pretrain, accumulate=2)
    bert = replace(plain.config.encoder, dropout=0.0, attention_dropout=0.0)
    shape: dict[str, Any] = {"hidden": bert.hidden, "heads": bert.heads, "embedding": bert.hidden // 2}
    modern = ModernConfig(kind="modern", layers=3, ffn=7 * bert.hidden // 4, **shape)
    for encoder in (bert, modern):
        for sharing in SHARINGS:
            generator = GeneratorConfig(width=1.0 if sharing in {"embeddings", "all"} else 0.25)
            own: dict[str, Any] = {"encoder": encoder, "objective": ObjectiveConfig(sharing=sharing)}
            config = ElectraConfig(pretrain=pretrain, generator=generator, **own)
            found[f"{encoder.kind}, {sharing}"] = Size(config, plain.vocab_size)
    return found


def record(name: str, found: str, expected: str, right: bool | str, **more: Any) -> dict[str, Any]:
    """A row of the table; `right` is its verdict, or whether it is as expected."""
    verdict = right if isinstance(right, str) else "ok" if right else "FAILED"
    return {"name": name, "found": found, "expected": expected, "verdict": verdict, **more}
