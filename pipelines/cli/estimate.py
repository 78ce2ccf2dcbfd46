"""`electra estimate NAME`: time, memory and disk of a model, its fine-tunings and its ablations, from settings.

Time and memory are those of pipelines/runtime/cost.py. A small network's steps are timed on this machine's CPU.
Fine-tuning is an upper bound: all rows have full length.
"""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from electra.config import merge
from electra.errors import UserError
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig
from electra.nn.config import AnyEncoderConfig
from electra.nn.factory import make_encoder
from electra.nn.huggingface import read_config
from electra.pretraining.flops import encoder_flops, training_flops, training_steps
from electra.pretraining.phases import phases_of
from pipelines.cli.new import TIMED, VOCABULARIES, step_seconds
from pipelines.config.params import Params
from pipelines.runtime import cost
from pipelines.runtime.cost import CARDS, Card, duration, span
from pipelines.sources import LocalCorpus, OwnTasks, own
from pipelines.sources.paths import find_files, require_folder
from pipelines.sources.streams import COMPRESSIONS
from pipelines.stages.ablation import plan_arms
from pipelines.stages.arms import Arm, arm_folder
from pipelines.stages.glue import configs_of

QUESTIONS = {"squad1": 87_599, "squad2": 130_319}  # training questions in the official files
SAMPLE = 1_000  # training rows of each task of the sample world
QUICK = 2e12  # operations of the steps that are timed on the CPU, at most: some 20 seconds
NOTE = "All of this is estimated; a run says after its first steps what it will take.\n"


def estimate(name: str, params: Params) -> str:
    """Return what a name of params.yaml would take: a paragraph each for pre-training, fine-tunings and ablations.

    A paragraph says what is missing where a published folder or a file of the user's is not there. Raises BadConfig for
    a name that params.yaml lacks.
    """
    if name not in {*params.published, *params.finetunings, *params.ablations}:
        params.require("models", name)
    paragraphs = [pretraining(name, params)] if name in params.models else []
    for finetuning in params.finetunings_of(name):
        try:
            paragraphs.append(estimate_finetuning(finetuning, params))
        except UserError as error:
            paragraphs.append(f"{finetuning}, fine-tuning: {error}")
    if names := [key for key, ablation in params.ablations.items() if name in {key, ablation.model}]:
        paragraphs.append(ablations(names, params))
    return "\n\n".join([*paragraphs, NOTE])


def pretraining(name: str, params: Params) -> str:
    """Return a paragraph on a model's pre-training."""
    model = params.models[name]
    config = model.electra()
    tokens = params.tokens[model.tokens]
    vocab_size = vocabulary(name, params)
    steps = training_steps(config, vocab_size)
    weights = cost.parameters(config, vocab_size)
    flops = training_flops(config, vocab_size, "matmul")
    phases = phases_of(config.pretrain, steps)
    read = sum((phase.last - phase.first) * phase.batch * phase.length for phase in phases)
    at_most = "" if tokens.packing.rule == "packed" else "at most "  # other rows are padded
    first = f"{name}: {weights / 1e6:.1f} M parameters in both networks; "
    first += f"{steps:,} steps read {at_most}{read / 1e6:,.0f} M tokens"
    memory = cost.pretraining_memory(config, vocab_size, config.pretrain.accumulate)

    def advise(card: Card) -> str:
        if memory <= cost.USABLE * card.memory:
            return ""
        slices = cost.fitting_accumulate(config, vocab_size, card.memory)
        return f", pretrain.accumulate: {slices}" if slices else ", too little memory"

    lines = [first, f"time: {flops:.2g} floating point operations; on one GPU:"]
    lines += [f"  {card.name}: {span(flops, card, config.encoder.hidden)}{advise(card)}" for card in CARDS.values()]
    lines += [f"memory: {memory / 1e9:.1f} GB of the GPU"]
    if text := text_bytes(params, tokens.corpus):
        per_token = next((size for _, pieces, size, _ in VOCABULARIES if vocab_size <= pieces), VOCABULARIES[-1][2])
        rows = text / per_token * 2 * len(tokens.lengths)
        checkpoints = 12 * (config.pretrain.keep_checkpoints + 1)
        size = 2 * text + 2 * rows + weights * (checkpoints + 8)  # twice, while a stage is at work
        lines.append(f"disk: {size / 1e9:,.1f} GB, of which text and rows {2 * (text + rows) / 1e9:,.1f}")
    lines.append(f"on {time_here(name, params)}")
    return "\n".join(lines)


def time_here(name: str, params: Params) -> str:
    """Return what runs a model's pre-training on this machine, and how long it takes; a small one is timed."""
    config = params.models[name].electra()
    vocab_size = vocabulary(name, params)
    steps = training_steps(config, vocab_size)
    flops = training_flops(config, vocab_size, "matmul")
    if torch.cuda.is_available() or flops / steps * TIMED > QUICK:
        return cost.time_here(config, vocab_size)
    seconds = 0.0
    for phase in phases_of(config.pretrain, steps):
        pace = step_seconds(config, phase.length, phase.batch, vocab_size)
        seconds += (phase.last - phase.first) * pace
    return f"this machine's CPU: {duration(seconds)}, by steps that were timed now"


def estimate_finetuning(name: str, params: Params) -> str:
    """Return a paragraph on a fine-tuning; raise UserError where a published folder or a file is not there."""
    config = params.finetunings[name]
    if config.model in params.published:
        folder = Path(params.published[config.model].folder)
        encoder, vocab_size = read_config(require_folder(folder, f"published.{config.model}.folder"))
    else:
        encoder = params.models[config.model].encoder
        vocab_size = vocabulary(config.model, params)
    with torch.device("meta"):
        weights = sum(parameter.numel() for parameter in make_encoder(encoder, vocab_size).parameters())
    squad = params.finetune.resolve("squad", params.changes(name))
    tasks = configs_of(name, params) | {SQUAD[version]: squad for version in params.squad_versions(name)}
    runs = [
        (of, len(of.seeds) * len(of.arms) * rows_read(of, rows_of(task, config.tasks, params)))
        for task, of in tasks.items()
    ]
    tokens = max(of.batch * of.length for of, _ in runs)
    memory = cost.CONTEXT + 18.0 * weights + 34 * tokens * encoder.layers * encoder.hidden
    kept = sum({"none": 0, "first": 1, "all": len(of.seeds)}[of.keep] for of, _ in runs)
    flops = finetuning_flops(encoder, vocab_size, runs)
    lines = [f"{name}, fine-tuning ({', '.join(tasks)}), {weights / 1e6:.1f} M parameters"]
    lines += [f"time: at most {flops:.2g} floating point operations; on one GPU:"]
    lines += [f"  {card.name}: {span(flops, card, encoder.hidden)}" for card in CARDS.values()]
    lines += [f"memory: {memory / 1e9:.1f} GB of the GPU"]
    lines += [f"disk: {kept * weights * 4 / 1e9:.1f} GB for models that are kept: {kept}"]
    return "\n".join(lines)


def finetuning_flops(encoder: AnyEncoderConfig, vocab_size: int, runs: Sequence[tuple[FinetuneConfig, float]]) -> float:
    """Return the operations of fine-tunings that read so many rows each."""
    return 3 * sum(rows * encoder_flops(encoder, of.length, vocab_size, "matmul") for of, rows in runs)


def ablations(names: Iterable[str], params: Params) -> str:
    """Return a table of ablations in Markdown; arms that are trained, or in an ablation above, take nothing."""
    known = set[str]()
    lines = [f"| ablation | runs | to do | operations | {' | '.join(card.name for card in CARDS.values())} |"]
    lines.append("| :--- |" + " ---: |" * (3 + len(CARDS)))
    for name in names:
        ablation = params.ablations[name]
        vocab_size = vocabulary(ablation.model, params)
        changes = merge(params.recipe(ablation.recipe), ablation.finetune)
        runs = []
        for task in ablation.tasks:
            config = params.finetune.resolve(task, changes, own=params.own_tasks(ablation.data))
            rows = rows_read(config, rows_of(task, ablation.data, params))
            runs.append((config, (1 + len(ablation.points)) * rows))
        arms = plan_arms(name, params, vocab_size)
        remaining = [arm for arm in arms if arm.key not in known and not is_trained(arm, params)]
        known |= {arm.key for arm in arms}
        flops = 0.0
        for arm in remaining:
            flops += training_flops(arm.config, vocab_size, "matmul")
            flops += finetuning_flops(arm.config.encoder, vocab_size, runs)
        hidden = params.models[ablation.model].encoder.hidden
        times = " | ".join(span(flops, card, hidden) for card in CARDS.values())
        lines.append(f"| {name} | {len(arms)} | {len(remaining)} | {flops:.2g} | {times} |")
    return "\n".join(lines)


def is_trained(arm: Arm, params: Params) -> bool:
    """Return whether an arm is trained; not before its rows are there."""
    with contextlib.suppress(UserError):
        return (arm_folder(arm, params) / "arm.json").is_file()
    return False


def vocabulary(model: str, params: Params) -> int:
    """Return the size of a model's vocabulary."""
    return cost.vocabulary(params.tokens[params.models[model].tokens].tokenizer)


def text_bytes(params: Params, corpus: str) -> float:
    """Return the size of a corpus's text by its settings or its files; 0 if neither says."""
    config = params.corpora[corpus]
    if config.expected:
        return config.expected.gigabytes * 1e9
    size = 0.0
    for source in config.sources:
        if not isinstance(source, LocalCorpus):
            return 0.0
        try:
            paths = find_files(source.files, corpus)
        except UserError:
            return 0.0
        size += sum(path.stat().st_size * (4 if path.suffix in COMPRESSIONS else 1) for path in paths)
    return size


def rows_of(task: str, source: str, params: Params) -> int:
    """Return the training rows of a task, as far as its source says before anything has run."""
    config = params.tasks[source]
    if isinstance(config, OwnTasks):
        return sum(1 for _ in own.records(Path(config.tasks[task].train)))
    if config.kind == "sample":
        return SAMPLE
    return GLUE[task].train_rows if task in GLUE else QUESTIONS[task]


def rows_read(settings: FinetuneConfig, rows: int) -> float:
    """Return the rows that one run of a fine-tuning reads, those of every epoch."""
    return min(rows, settings.max_train_rows or rows) * settings.epochs * (2 if settings.both_orders else 1)
