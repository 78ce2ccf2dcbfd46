"""`electra estimate NAME`: time, memory and disk of a model, its fine-tunings and its ablations, from settings alone.

time     matrix products (electra/pretraining/flops.py) at 40 % of the peak rate: a GPU's in bf16 by its maker, that of
         the CPU cores here by a short measurement. Fine-tuning is an upper bound, with all rows of full length
memory   18 bytes a parameter (weights, their bf16 copy, gradient, two moments), 34 for each token, layer and hidden
         unit of one slice (Korthikanti et al. 2022, attention not stored), and 8 a logit
disk     the text, its rows, `keep` checkpoints and the exported folders
"""

import dataclasses
import functools
import time
from collections.abc import Iterable
from pathlib import Path

import torch

from electra.config import merge
from electra.data.tokenizer import TrainTokenizer
from electra.errors import UserError
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig
from electra.nn.config import AnyEncoderConfig
from electra.nn.factory import make_encoder
from electra.nn.huggingface import read_config
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds, slots
from electra.pretraining.flops import encoder_flops, training_flops, training_steps
from electra.pretraining.model import Pretraining
from electra.pretraining.phases import phases_of
from electra.workers import worker_count
from pipelines.commands.new.columns import records
from pipelines.config.params import Params
from pipelines.sources import LocalCorpus, OwnTasks, local
from pipelines.sources.local import require_folder
from pipelines.sources.streams import COMPRESSIONS
from pipelines.stages.ablation import plan_arms
from pipelines.stages.arms import Arm, arm_folder, measured
from pipelines.stages.glue import configs_of

# Dense bf16 matrix products a second, as their makers state them.
PEAKS = {"RTX 4090": 165e12, "A100": 312e12, "H100 or H200": 989e12}
REACHED = 0.4
PUBLISHED_VOCABULARY, PUBLISHED_JSON = 30_522, 50_368  # of a vocab.txt: BERT's; of a tokenizer.json: ModernBERT's
BYTES_PER_TOKEN = 4.5  # of English text
CONTEXT = 0.6e9  # bytes that CUDA itself takes
QUESTIONS = {"squad1": 87_599, "squad2": 130_319}  # training questions in the official files
SAMPLE = 1_000  # training rows of each task of the sample world
NOTE = "All of this is estimated (small networks reach less than 40%, and starting takes seconds)"


def estimate(name: str, params: Params) -> str:
    """What a name of params.yaml would take, one paragraph each for pre-training, fine-tunings and ablations.

    A paragraph says what is missing where a published folder or a file of one's own is not there; BadConfig for a name
    that params.yaml lacks.
    """
    if name not in {*params.published, *params.finetunings, *params.ablations}:
        params.require("models", name)
    found = [pretraining(name, params)] if name in params.models else []
    for each in params.finetunings_of(name):
        try:
            found.append(finetuning(each, params))
        except UserError as error:
            found.append(f"{each}, fine-tuning: {error}")
    if names := chosen(name, params):
        found.append(ablations(names, params))
    return "\n\n".join([*found, f"{NOTE}; a run says after its first steps what it will take.\n"])


def chosen(name: str, params: Params) -> list[str]:
    """The ablations that a name stands for: itself, or all of a model."""
    return [key for key, ablation in params.ablations.items() if name in {key, ablation.model}]


def pretraining(name: str, params: Params) -> str:
    """A paragraph on a model's pre-training."""
    config, tokens = params.models[name].electra(), params.tokens[params.models[name].tokens]
    vocab_size = vocabulary(name, params)
    steps, weights = training_steps(config, vocab_size), parameters(config, vocab_size)
    read = sum((phase.last - phase.first) * phase.batch * phase.length for phase in phases_of(config.pretrain, steps))
    first = f"{name}: {weights / 1e6:.1f} M parameters in both networks; "
    first += f"{steps:,} steps read {read / 1e6:,.0f} M tokens"
    disk = ""
    if text := text_bytes(params, tokens.corpus):
        first += f", {read / (text / BYTES_PER_TOKEN):.2g} times the text"
        rows = text / BYTES_PER_TOKEN * 2 * len(tokens.lengths)
        checkpoints = 12 * (config.pretrain.keep_checkpoints + 1)
        size = 2 * text + 2 * rows + weights * (checkpoints + 8)  # twice, while a stage is at work
        disk = f"{size / 1e9:,.1f} GB, of which text and rows {2 * (text + rows) / 1e9:,.1f}"
    space = f"{memory(config, weights, vocab_size) / 1e9:.1f} GB of the GPU"
    return paragraph(first, training_flops(config, vocab_size, "matmul"), space, disk)


def finetuning(name: str, params: Params) -> str:
    """A paragraph on a fine-tuning; raises UserError where a published folder or a file of one's own is not there."""
    config = params.finetunings[name]
    if config.model in params.published:
        folder = Path(params.published[config.model].folder)
        encoder, vocab_size = read_config(require_folder(folder, f"published.{config.model}.folder"))
    else:
        encoder, vocab_size = params.models[config.model].encoder, vocabulary(config.model, params)
    with torch.device("meta"):
        weights = sum(parameter.numel() for parameter in make_encoder(encoder, vocab_size).parameters())
    tasks = settings_of(name, params)
    flops, most, kept = 0.0, 0.0, 0
    for task, settings in tasks.items():
        runs = len(settings.seeds) * len(settings.arms)
        flops += runs * run_flops(settings, rows_of(task, config.tasks, params), encoder, vocab_size)
        most = max(most, 18.0 * weights + 34 * settings.batch * settings.length * encoder.layers * encoder.hidden)
        kept += {"none": 0, "first": 1, "all": len(settings.seeds)}[settings.keep]
    count = f"{len(tasks)} task{'s' * (len(tasks) > 1)}"
    first = f"{name}, fine-tuning: {count} ({', '.join(tasks)}), {weights / 1e6:.1f} M parameters; at most:"
    space = f"{(CONTEXT + most) / 1e9:.1f} GB of the GPU"
    disk = f"{kept * weights * 4 / 1e9:.1f} GB for {kept} kept model{'s' * (kept != 1)}"
    return paragraph(first, flops, space, disk)


def ablations(names: Iterable[str], params: Params) -> str:
    """A table of ablations in Markdown; arms that are finished, or in an ablation above, take nothing."""
    known: dict[str, set[tuple[str, float]]] = {}  # arm's key -> (task, point of the run) that is measured
    places = [*PEAKS, f"{worker_count()} CPU cores here"]
    lines = [f"| ablation | runs | finished | in one above | operations | {' | '.join(places)} |"]
    lines.append("| :--- |" + " ---: |" * (4 + len(places)))
    for name in names:
        ablation = params.ablations[name]
        vocab_size = vocabulary(ablation.model, params)
        changes = merge(params.recipe(ablation.recipe), ablation.finetune)
        own = params.own_tasks(ablation.data)
        tasks = {task: params.finetune.resolve(task, changes, own=own) for task in ablation.tasks}
        arms, flops, counts = plan_arms(name, params, vocab_size), 0.0, {"finished": 0, "shared": 0}
        for arm in arms:
            if arm.key in known:
                counts["shared"] += 1
            elif home := finished(arm, params):
                counts["finished"] += 1
                known[arm.key] = measured(home)
            else:
                flops += training_flops(arm.config, vocab_size, "matmul")
            wanted = {(task, point) for task in tasks for point in (*ablation.points, 1.0)}
            for task, _ in wanted - known.get(arm.key, set()):
                rows = rows_of(task, ablation.data, params)
                flops += run_flops(tasks[task], rows, arm.config.encoder, vocab_size)
            known[arm.key] = known.get(arm.key, set()) | wanted
        needed = [hours(flops / (REACHED * peak)) for peak in (*PEAKS.values(), cpu_peak())]
        cells = [name, len(arms), counts["finished"], counts["shared"], f"{flops:.2g}", *needed]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def finished(arm: Arm, params: Params) -> Path | None:
    """The folder of an arm that is trained; None before, when its rows may not be there either."""
    try:
        home = arm_folder(arm, params)
    except UserError:
        return None
    return home if (home / "arm.json").is_file() else None


def paragraph(first: str, flops: float, memory: str, disk: str) -> str:
    """Lines of one training, the first as given; without a size on disk where that is unknown ("")."""
    gpus = ", ".join(f"{gpu} {hours(flops / (REACHED * peak))}" for gpu, peak in PEAKS.items())
    time = f"time: {flops:.2g} floating point operations; on one GPU at {REACHED:.0%} of its peak: {gpus}"
    cpu = f"without a GPU: {hours(flops / (REACHED * cpu_peak()))} on the {worker_count()} CPU cores here"
    return "\n".join([first, time, f"memory: {memory}", *([f"disk: {disk}"] if disk else []), cpu])


@functools.cache
def cpu_peak() -> float:
    """Floating point operations a second in matrix products on all cores that a run may use."""
    left, right = torch.ones(2048, 256), torch.ones(256, 512)
    left @ right
    started = time.process_time()  # of all threads: other work on the machine does not count
    for _ in range(20):
        left @ right
    seconds = time.process_time() - started
    return worker_count() * 20 * 2 * left.numel() * right.shape[1] / max(seconds, 1e-6)


def vocabulary(model: str, params: Params) -> int:
    """Tokens in a model's vocabulary: as it is to be trained, else as many as the published ones have."""
    tokenizer = params.tokens[params.models[model].tokens].tokenizer
    if isinstance(tokenizer, TrainTokenizer):
        return tokenizer.vocab_size
    return PUBLISHED_JSON if tokenizer.file.endswith(".json") else PUBLISHED_VOCABULARY


def parameters(config: ElectraConfig, vocab_size: int) -> int:
    """Parameters of both networks, shared ones once."""
    encoder = dataclasses.replace(config.encoder, init="published")  # other initialisations compute with the weights
    config, special = dataclasses.replace(config, encoder=encoder), SpecialIds(pad=0, cls=1, sep=2, mask=3)
    with torch.device("meta"):
        model = Pretraining(config, vocab_size, special)
    return sum(parameter.numel() for parameter in model.parameters())


def memory(config: ElectraConfig, weights: int, vocab_size: int) -> float:
    """Bytes of a GPU that a step needs, in the phase with the largest slices."""
    settings, encoder = config.pretrain, config.encoder
    networks = [encoder]
    if config.objective.name != "mlm" and config.generator.kind == "network":
        networks.append(config.generator.encoder(encoder))
    most = 0
    for phase in phases_of(settings, training_steps(config, vocab_size)):
        rows = -(-phase.batch // settings.accumulate)
        activations = sum(34 * rows * phase.length * each.layers * each.hidden for each in networks)
        most = max(most, activations + 8 * rows * slots(config.objective.mask_rate, phase.length) * vocab_size)
    return CONTEXT + 18.0 * weights + most


def text_bytes(params: Params, corpus: str) -> float:
    """The size of a corpus's text by its settings or its files; 0 if neither says."""
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


def settings_of(name: str, params: Params) -> dict[str, FinetuneConfig]:
    """Each task of a fine-tuning with its settings."""
    squad = params.finetune.resolve("squad", params.changes(name))
    return configs_of(name, params) | {SQUAD[version]: squad for version in params.squad_versions(name)}


def rows_of(task: str, source: str, params: Params) -> int:
    """Training rows of a task, as far as its source says before anything has run."""
    config = params.tasks[source]
    if isinstance(config, OwnTasks):
        return sum(1 for _ in records(Path(config.tasks[task].train)))
    if config.kind == "sample":
        return SAMPLE
    return GLUE[task].train_rows if task in GLUE else QUESTIONS[task]


def run_flops(settings: FinetuneConfig, rows: int, encoder: AnyEncoderConfig, vocab_size: int) -> float:
    """Operations of one run of a fine-tuning: matrix products, forward and backward."""
    read = min(rows, settings.max_train_rows or rows) * settings.epochs * (2 if settings.both_orders else 1)
    return 3 * read * encoder_flops(encoder, settings.length, vocab_size, "matmul")


def hours(seconds: float) -> str:
    """A duration to plan with."""
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes" if seconds > 90 else "a minute"
    days = seconds / 86400
    return f"{24 * days:.0f} hours" if days < 3 else f"{days:.0f} days" if days < 1000 else f"{days / 365:.0f} years"
