"""Small made-up rows and settings for tests of the networks and the loop."""

import numpy as np

from electra.config import build
from electra.files import sha256_file
from electra.pretraining.config import ElectraConfig, fingerprinted_settings
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import PretrainData
from electra.pretraining.trainer import RunOptions, pretrain
from electra.storage import checkpoint

VOCAB = 60
SPECIAL = SpecialIds(pad=0, cls=2, sep=3, mask=4)


class MadeUpRows:
    """`count` rows of `length` tokens: [CLS] A [SEP] B [SEP], some of them short and padded."""

    def __init__(self, count, length=24, seed=0):
        numbers = np.random.default_rng(seed)
        # learnable: a row's kind and a position give the token
        kinds = numbers.integers(0, 5, (count, 1))
        self.ids = (5 + 11 * kinds + np.arange(length) % 11).astype(np.uint16)
        lengths = np.where(numbers.random(count) < 0.3, numbers.integers(8, length, count), length)
        seconds = lengths // 2
        self.ids[:, 0] = SPECIAL.cls
        for row, (second, total) in enumerate(zip(seconds, lengths, strict=True)):
            self.ids[row, second - 1] = self.ids[row, total - 1] = SPECIAL.sep
            self.ids[row, total:] = SPECIAL.pad
        self.bounds = np.stack([seconds, lengths], 1).astype(np.uint16)
        self.tokens = int(lengths.sum())

    def __len__(self):
        return len(self.ids)


def state(run):
    """Return hashes of everything that a finished run leaves: weights, optimizer, running sums,
    progress, numbers.
    """
    newest = run / f"step-{checkpoint.steps(run)[-1]}"
    files = [*sorted(newest.iterdir()), run / "metrics.jsonl"]
    return {path.name: sha256_file(path) for path in files}


def data():
    return PretrainData(MadeUpRows(64), MadeUpRows(16, seed=1), SPECIAL, VOCAB)


TWO_STAGES = {"objective__training": "two_stage", "objective__sharing": "none"}
TWO_STAGES |= {"generator__width": 1.0}
MODERN = {"kind": "modern", "layers": 3, "hidden": 32, "heads": 2, "ffn": 48, "embedding": 32}
MODERN |= {"positions": 32, "window": 6}


def config(**changes):
    """A network that trains a step in milliseconds; `changes` are dotted keys with __ for the dot."""
    encoder = {"layers": 2, "hidden": 32, "heads": 2, "ffn": 64, "embedding": 16, "positions": 32}
    pretrain = {"length": 24, "batch": 8, "steps": 20, "warmup": 2, "learning_rate": 5e-3}
    pretrain |= {"threads": 1, "log_every": 5, "eval_every": 10, "eval_batches": 2}
    pretrain |= {"save_every": 6, "precision": "fp32"}
    values = {"encoder": encoder, "generator": {"width": 0.5}, "objective": {}}
    values["pretrain"] = pretrain
    for key, value in changes.items():
        *path, last = key.split("__")
        section = values
        for part in path:
            section = section[part]
        section[last] = value
    return build(ElectraConfig, values, "test")


def train(run, settings=None, *, rows=None, inputs=None, log=lambda step, numbers: None, **options):
    """Pre-train in a folder; `inputs` are added to the run's fingerprint."""
    settings = settings or config()
    fingerprint = {"config": fingerprinted_settings(settings)} | (inputs or {})
    options = RunOptions(**options)
    return pretrain(settings, rows or data(), run, fingerprint, log=log, options=options)
