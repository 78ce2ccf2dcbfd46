"""What a pre-training would take on one GPU: arithmetic from its settings, asked before anything is there.

hours    matrix products (electra/pretraining/flops.py) at 40 % of the card's bf16 peak: assumed, not measured
memory   18 bytes a parameter (weights, their bf16 copy, gradient, two moments), 34 for each token, layer and hidden
         unit of one slice (Korthikanti et al. 2022, attention not stored), and 8 a logit
disk     the text, its rows, `keep` checkpoints and the exported folders
"""

import dataclasses
from pathlib import Path

import torch

from electra.data.tokenizer import TrainTokenizer
from electra.errors import UserError
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds, slots
from electra.pretraining.flops import training_flops, training_steps
from electra.pretraining.model import Pretraining
from electra.pretraining.phases import phases_of
from pipelines.config.params import Params
from pipelines.sources import LocalCorpus, local
from pipelines.sources.streams import COMPRESSIONS

# Dense bf16 products a second, as their makers say.
PEAKS = {"RTX 4090": 165e12, "A100": 312e12, "H100 or H200": 989e12}
REACHED = 0.4
PUBLISHED_VOCABULARY, PUBLISHED_JSON = 30_522, 50_368  # of a vocab.txt: BERT's; of a tokenizer.json: ModernBERT's
BYTES_PER_TOKEN = 4.5  # of English text
CONTEXT = 0.6e9  # bytes that CUDA itself takes


def budget(name: str, params: Params) -> str:
    """A few lines for `electra estimate`."""
    config, tokens = params.models[name].electra(), params.tokens[params.models[name].tokens]
    vocab_size = vocabulary(name, params)
    settings, steps = config.pretrain, training_steps(config, vocab_size)
    flops, weights = training_flops(config, vocab_size, "matmul"), parameters(config, vocab_size)
    read = sum((phase.last - phase.first) * phase.batch * phase.length for phase in phases_of(settings, steps))
    cards = ", ".join(f"{card} {hours(flops / (REACHED * peak))}" for card, peak in PEAKS.items())
    lines = [
        f"{name}: {weights / 1e6:.1f} M parameters in both networks; {steps:,} steps read {read / 1e6:,.0f} M tokens",
        f"time: {flops:.2g} floating point operations; on one GPU at {REACHED:.0%} of its peak: {cards}",
        f"memory: {memory(config, weights, vocab_size) / 1e9:.1f} GB of the GPU",
    ]
    if text := text_bytes(params, tokens.corpus):
        passes = read / (text / BYTES_PER_TOKEN)
        lines[0] += f", {passes:.2g} times the text"
        rows = text / BYTES_PER_TOKEN * 2 * len(tokens.lengths)
        # text and rows twice, while a stage is at work
        disk = 2 * text + 2 * rows + weights * (12 * (settings.keep_checkpoints + 1) + 8)
        lines.append(f"disk: {disk / 1e9:,.1f} GB, of which text and rows {2 * (text + rows) / 1e9:,.1f}")
    lines.append(
        "All of this is estimated (small networks reach less than 40%); a run says what it will take after its"
    )
    return "\n".join(lines) + " first steps.\n"


def vocabulary(model: str, params: Params) -> int:
    """Pieces of a model's tokenizer, or of the published one where it is not trained here."""
    tokenizer = params.tokens[params.models[model].tokens].tokenizer
    if isinstance(tokenizer, TrainTokenizer):
        return tokenizer.vocab_size
    return PUBLISHED_JSON if tokenizer.file.endswith(".json") else PUBLISHED_VOCABULARY


def parameters(config: ElectraConfig, vocab_size: int) -> int:
    """Parameters of both networks, shared ones once."""
    encoder = dataclasses.replace(config.encoder, init="published")  # others compute with weights that are not there
    config, special = dataclasses.replace(config, encoder=encoder), SpecialIds(pad=0, cls=1, sep=2, mask=3)
    with torch.device("meta"):
        model = Pretraining(config, vocab_size, special)
    return sum(parameter.numel() for parameter in model.parameters())


def memory(config: ElectraConfig, weights: int, vocab_size: int) -> float:
    """Bytes of a GPU that a step needs, in the phase whose slices are the largest."""
    settings, encoder = config.pretrain, config.encoder
    networks = [encoder]
    if config.objective.name != "mlm" and config.generator.kind == "network":
        networks.append(config.generator.encoder(encoder))
    most = 0
    for phase in phases_of(settings, training_steps(config, vocab_size)):
        rows = -(-phase.batch // settings.accumulate)
        held = sum(34 * rows * phase.length * each.layers * each.hidden for each in networks)
        most = max(most, held + 8 * rows * slots(config.objective.mask_rate, phase.length) * vocab_size)
    return CONTEXT + 18.0 * weights + most


def text_bytes(params: Params, corpus: str) -> float:
    """The size of a corpus's text, as its settings or its files tell; 0 where neither do."""
    config = params.corpora[corpus]
    if config.expected:
        return config.expected.gigabytes * 1e9
    size = 0.0
    for source in config.sources:
        if not isinstance(source, LocalCorpus):
            return 0.0
        try:
            paths = local.find_files(source.files, corpus, fetch=False)
        except UserError:
            return 0.0
        size += sum(path.stat().st_size * (4 if Path(path).suffix in COMPRESSIONS else 1) for path in paths)
    return size


def hours(seconds: float) -> str:
    """A time to plan with."""
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes" if seconds > 90 else "a minute"
    return f"{seconds / 3600:.0f} hours" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"
