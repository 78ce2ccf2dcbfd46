"""`electra estimate NAME`: time, memory and disk of a model, a fine-tuning or an ablation, from
settings.

Time and memory are those of pipelines/cli/cost.py. Fine-tuning is an upper bound: all rows have
full length.
"""

import contextlib
from pathlib import Path

import torch

from electra.errors import UserError, pluralize
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig
from electra.nn.config import EncoderConfig
from electra.nn.factory import make_encoder
from electra.nn.huggingface import read_config
from electra.pretraining.flops import encoder_flops, training_flops, training_steps
from electra.pretraining.phases import make_phases
from pipelines.cli import cost
from pipelines.cli.cost import GPUS, Gpu, span
from pipelines.config.params import Params
from pipelines.sources import CustomTasks, LocalCorpus, custom_tasks
from pipelines.sources.paths import find_files, require_folder
from pipelines.stages.ablation import plan_arms
from pipelines.stages.glue import task_configs

QUESTIONS = {"squad1": 87_599, "squad2": 130_319}  # training questions in the official files
SAMPLE = 1_000  # training rows of each task of the sample world
BYTES_A_TOKEN = 4  # of English text
NOTE = "All of this is estimated; a run says after its first steps what it will take.\n"


def estimate(name: str, params: Params) -> str:
    """Return the cost of a name in params.yaml: a paragraph for pre-training, a line for anything
    else. A line says if a published folder or one of the user's files is missing. Raises BadConfig
    for a name that params.yaml lacks.
    """
    if name not in {*params.published, *params.finetunings, *params.ablations}:
        params.require("models", name)
    lines = [pretraining(name, params)] if name in params.models else []
    if name in params.ablations:
        lines.append(estimate_ablation(name, params))
    for finetuning in params.list_finetunings(name):
        try:
            lines.append(estimate_finetuning(finetuning, params))
        except UserError as error:
            lines.append(f"{finetuning}, fine-tuning: {error}")
    return "\n".join([*lines, NOTE])


def pretraining(name: str, params: Params) -> str:
    """Return a paragraph on a model's pre-training."""
    model = params.models[name]
    config = model.electra()
    tokens = params.tokens[model.tokens]
    vocab_size = cost.vocabulary(tokens.tokenizer)
    steps = training_steps(config, vocab_size)
    weights = cost.parameters(config, vocab_size)
    flops = training_flops(config, vocab_size, "matmul")
    phases = make_phases(config.pretrain, steps)
    read = sum((phase.last - phase.first) * phase.batch * phase.length for phase in phases)
    at_most = "" if tokens.packing.rule == "packed" else "at most "  # other rows are padded
    memory = cost.pretraining_memory(config, vocab_size, config.pretrain.accumulate)

    def advise(gpu: Gpu) -> str:
        slices = cost.fitting_accumulate(config, vocab_size, gpu.memory)
        if slices == config.pretrain.accumulate:
            return ""
        return f", pretrain.accumulate: {slices}" if slices else ", too little memory"

    hidden = config.encoder.hidden
    lines = [
        f"{name}: {weights / 1e6:.1f} M parameters in both networks; "
        f"{steps:,} steps read {at_most}{read / 1e6:,.0f} M tokens",
        f"time: {flops:.2g} floating point operations; on one GPU:",
        *(f"  {gpu.name}: {span(flops, gpu, hidden)}{advise(gpu)}" for gpu in GPUS.values()),
        f"memory: {memory / 1e9:.1f} GB of the GPU",
    ]
    if text := text_bytes(params, tokens.corpus):
        # twice, while a stage is at work
        files = 2 * text * (1 + 2 * len(tokens.lengths) / BYTES_A_TOKEN)
        checkpoints = weights * (12 * (config.pretrain.keep_checkpoints + 1) + 8)
        total = f"{(files + checkpoints) / 1e9:,.1f} GB"
        lines.append(f"disk: {total}, of which text and rows {files / 1e9:,.1f}")
    machine = cost.this_machine()
    lines.append(f"on {machine.name}: {span(flops, machine, hidden)}\n")
    return "\n".join(lines)


def estimate_finetuning(name: str, params: Params) -> str:
    """Return a line on a fine-tuning, and raise UserError where a published folder or a file is
    not there.
    """
    config = params.finetunings[name]
    if config.model in params.published:
        folder = Path(params.published[config.model].folder)
        encoder, vocab_size = read_config(
            require_folder(folder, f"published.{config.model}.folder")
        )
    else:
        model = params.models[config.model]
        encoder = model.encoder
        vocab_size = cost.vocabulary(params.tokens[model.tokens].tokenizer)
    with torch.device("meta"):
        weights = sum(
            parameter.numel() for parameter in make_encoder(encoder, vocab_size).parameters()
        )
    tasks = dict(task_configs(name, params))
    for version in params.squad_versions(name):
        tasks[SQUAD[version]] = params.task_config(name, "squad")
    flops = 0.0
    kept = 0
    for task, settings in tasks.items():
        runs = len(settings.seeds) * len(settings.arms)
        flops += runs * finetuning_flops(task, config.tasks, settings, encoder, vocab_size, params)
        kept += {"none": 0, "first": 1, "all": len(settings.seeds)}[settings.keep_models]
    tokens = max(settings.batch * settings.length for settings in tasks.values())
    memory = cost.CONTEXT + 18.0 * weights + 34 * tokens * encoder.layers * encoder.hidden
    line = f"{name}, fine-tuning on {', '.join(tasks)}: at most {times(flops, encoder.hidden)}"
    disk = f"disk: {kept * weights * 4 / 1e9:.1f} GB for {pluralize(kept, 'kept model')}"
    return f"{line}; memory: {memory / 1e9:.1f} GB of the GPU; {disk}"


def estimate_ablation(name: str, params: Params) -> str:
    """Return a line on an ablation, as if none of its arms were trained."""
    ablation = params.ablations[name]
    vocab_size = cost.vocabulary(params.tokens[ablation.base.tokens].tokenizer)
    recipe = params.ablation_recipe(name)
    arms = plan_arms(name, params, vocab_size)
    flops = 0.0
    for arm in arms:
        flops += training_flops(arm.config, vocab_size, "matmul")
        for task in ablation.protocol.tasks:
            settings = recipe.resolve(task)
            runs = 1 + len(ablation.protocol.points)
            flops += runs * finetuning_flops(
                task, ablation.base.data, settings, arm.config.encoder, vocab_size, params
            )
    hidden = params.models[ablation.base.model].encoder.hidden
    return f"{name}, {len(arms)} runs: {times(flops, hidden)}"


def times(flops: float, hidden: int) -> str:
    """Return a number of operations, and how long they take here and on each GPU."""
    gpus = [cost.this_machine(), *GPUS.values()]
    spans = ", ".join(f"{gpu.name}: {span(flops, gpu, hidden)}" for gpu in gpus)
    return f"{flops:.2g} floating point operations; {spans}"


def finetuning_flops(
    task: str,
    source: str,
    settings: FinetuneConfig,
    encoder: EncoderConfig,
    vocab_size: int,
    params: Params,
) -> float:
    """Return the operations of one fine-tuning, which reads every row in each epoch."""
    rows = count_training_rows(task, source, params)
    rows = min(rows, settings.max_train_rows or rows) * (2 if settings.both_orders else 1)
    return (
        3 * settings.epochs * rows * encoder_flops(encoder, settings.length, vocab_size, "matmul")
    )


def text_bytes(params: Params, corpus: str) -> float:
    """Return the size of a corpus's text by its settings or its local files; 0 if neither says."""
    config = params.corpora[corpus]
    if config.expected:
        return config.expected.gigabytes * 1e9
    size = 0.0
    for source in config.sources:
        if not isinstance(source, LocalCorpus):
            return 0.0
        with contextlib.suppress(UserError):  # `electra check` reports missing files
            size += sum(path.stat().st_size for path in find_files(source.files, corpus))
    return size


def count_training_rows(task: str, source: str, params: Params) -> int:
    """Return the training rows of a task, if its source tells them before anything has run."""
    config = params.tasks[source]
    if isinstance(config, CustomTasks):
        return sum(1 for _ in custom_tasks.records(Path(config.tasks[task].train)))
    if config.kind == "sample":
        return SAMPLE
    return GLUE[task].train_rows if task in GLUE else QUESTIONS[task]
