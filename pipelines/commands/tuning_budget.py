"""What a fine-tuning would take on one GPU, at most: as if every row were as long as it may be.

The assumptions are those of budget.py. An own task has the rows of its file, the sample world its thousand, any other
source those of the official splits. A GPU trains one seed at a time.
"""

from pathlib import Path

import torch

from electra.errors import UserError
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig
from electra.nn.config import AnyEncoderConfig
from electra.nn.factory import make_encoder
from electra.nn.huggingface import read_config
from electra.pretraining.flops import encoder_flops
from pipelines.commands.budget import CONTEXT, PEAKS, REACHED, hours, vocabulary
from pipelines.commands.new.columns import records
from pipelines.config.params import Params
from pipelines.sources import OwnTasks
from pipelines.sources.local import require_folder
from pipelines.stages.glue import configs_of

QUESTIONS = {"1.1": 87_599, "2.0": 130_319}  # for training, in the official files
SAMPLE = 1_000  # rows of each task of the sample world


def tuning_budget(name: str, params: Params) -> str:
    """A few lines for `electra estimate`; raises UserError where a published folder or an own file is not there."""
    config = params.finetunings[name]
    if config.model in params.published:
        folder = Path(params.published[config.model].folder)
        encoder, vocab_size = read_config(require_folder(folder, f"published.{config.model}.folder"))
    else:
        encoder, vocab_size = params.models[config.model].encoder, vocabulary(config.model, params)
    with torch.device("meta"):
        weights = sum(parameter.numel() for parameter in make_encoder(encoder, vocab_size).parameters())
    flops = most = 0.0
    tasks = settings_of(name, params)
    for task, settings in tasks.items():
        flops += runs_flops(settings, rows_of(task, name, params), encoder, vocab_size)
        tokens = settings.batch * settings.length
        most = max(most, 18.0 * weights + 34 * tokens * encoder.layers * encoder.hidden)
    kept = sum({"none": 0, "first": 1, "all": len(each.seeds)}[each.keep] for each in tasks.values())
    cards = ", ".join(f"{card} {hours(flops / (REACHED * peak))}" for card, peak in PEAKS.items())
    count = f"{len(tasks)} task{'s' * (len(tasks) > 1)}"
    lines = [
        f"{name}, fine-tuning: {count} ({', '.join(tasks)}), {weights / 1e6:.1f} M parameters",
        f"time: at most {flops:.2g} floating point operations; on one GPU at {REACHED:.0%} of its peak: {cards}",
        f"memory: {(CONTEXT + most) / 1e9:.1f} GB of the GPU",
        f"disk: {kept * weights * 4 / 1e9:.1f} GB for {kept} kept model{'s' * (kept != 1)}",
        "All of this is estimated; small tasks take longer than their operations, seconds to start among them.",
    ]
    return "\n".join([*lines, ""])


def settings_of(name: str, params: Params) -> dict[str, FinetuneConfig]:
    """Each task of a fine-tuning with its settings; SQuAD by its version."""
    config = params.finetunings[name]
    changes, where = params.changes(name), f"recipes.{config.recipe}"
    squad = {SQUAD[version]: params.finetune.resolve_squad(changes, where) for version in params.squad_versions(name)}
    return {**configs_of(name, params), **squad}


def rows_of(task: str, name: str, params: Params) -> int:
    """Training rows of a task, as far as its source tells before anything has run."""
    source = params.tasks[params.finetunings[name].tasks]
    if isinstance(source, OwnTasks):
        return sum(1 for _ in records(Path(source.tasks[task].train)))
    if source.kind == "sample":
        return SAMPLE
    return GLUE[task].train_rows if task in GLUE else {SQUAD[key]: count for key, count in QUESTIONS.items()}[task]


def runs_flops(settings: FinetuneConfig, rows: int, encoder: AnyEncoderConfig, vocab_size: int) -> float:
    """Operations of every arm and seed: matrix products, forward and backward."""
    read = min(rows, settings.max_train_rows or rows) * settings.epochs * (2 if settings.both_orders else 1)
    row = encoder_flops(encoder, settings.length, vocab_size, "matmul")
    return 3 * read * row * len(settings.seeds) * len(settings.arms)


def budgets(name: str, params: Params) -> list[str]:
    """Of every fine-tuning of a model, or of the one that has the name; a sentence in place of what cannot be told."""
    told = []
    for each in dict.fromkeys((*params.of_model(name), *([name] if name in params.finetunings else []))):
        try:
            told.append(tuning_budget(each, params))
        except UserError as error:
            told.append(f"{each}, fine-tuning: {error}\n")
    return told
