"""`electra estimate NAME`: time, money, memory and disk of a model, its fine-tunings and its ablations, from settings.

time     from the bound of a roofline to bound / 0.7 (pipelines/runtime/roofline.py): of seven GPUs by their makers'
         figures, of the CPU cores here by a few steps (a small network's) or a short measurement; of this machine's GPU
         what `gpu-check` measured.
         Fine-tuning is an upper bound, with all rows of full length
money    time by `gpu_prices` of params.yaml
disk     the text, its rows, `keep_checkpoints` checkpoints and the exported folders
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from electra.config import merge
from electra.data.tokenizer import TrainTokenizer
from electra.errors import UserError
from electra.files import read_json
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneConfig
from electra.nn.config import AnyEncoderConfig
from electra.nn.factory import make_encoder
from electra.nn.huggingface import read_config
from electra.pretraining.flops import encoder_flops, training_flops, training_steps
from electra.pretraining.phases import phases_of
from electra.workers import worker_count
from pipelines.commands.new import VOCABULARIES, step_seconds
from pipelines.config.params import GpuPrices, Params
from pipelines.runtime import roofline
from pipelines.runtime.roofline import CARDS, GOOD, PASS, PRODUCT, Card, duration
from pipelines.sources import LocalCorpus, OwnTasks, own
from pipelines.sources.paths import find_files, require_folder
from pipelines.sources.streams import COMPRESSIONS
from pipelines.stages import STAGES
from pipelines.stages.ablation import plan_arms
from pipelines.stages.arms import Arm, arm_folder
from pipelines.stages.glue import configs_of

PUBLISHED_VOCABULARY, PUBLISHED_JSON = 30_522, 50_368  # of a vocab.txt: BERT's; of a tokenizer.json: ModernBERT's
QUESTIONS = {"squad1": 87_599, "squad2": 130_319}  # training questions in the official files
SAMPLE = 1_000  # training rows of each task of the sample world
TIMEABLE = 24 * 3600.0  # seconds on this machine's cores, at most, of a training whose steps are timed
MEASURED = Path("runs/gpu-check.json")
NOTE = "All of this is estimated: starting, compiling, evaluating and saving come on top"


@dataclass(frozen=True)
class Work:
    """A training: operations, least seconds on a card, bytes of its memory; slices of a batch that fit a card, or 0."""

    flops: float
    bound: Callable[[Card], float]
    memory: float
    slices: Callable[[Card], int] = lambda card: 0


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
    if names := [key for key, ablation in params.ablations.items() if name in {key, ablation.model}]:
        found.append(ablations(names, params))
    return "\n\n".join([*found, f"{NOTE}; a run says after its first steps what it will take.\n"])


def pretraining(name: str, params: Params) -> str:
    """A paragraph on a model's pre-training."""
    config, tokens = params.models[name].electra(), params.tokens[params.models[name].tokens]
    vocab_size = vocabulary(name, params)
    steps, weights = training_steps(config, vocab_size), roofline.parameters(config, vocab_size)
    made = STAGES["tokens"].results(params.models[name].tokens)
    rows, packed = read_json(made)["rows"] if made.is_file() else {}, tokens.packing.rule == "packed"
    padding = {int(length): splits["train"]["padding"] for length, splits in rows.items()}
    phases = phases_of(config.pretrain, steps)
    read = sum((p.last - p.first) * p.batch * p.length * (1 - padding.get(p.length, 0.0)) for p in phases)
    first = f"{name}: {weights / 1e6:.1f} M parameters in both networks; "
    first += f"{steps:,} steps read {'' if rows or packed else 'at most '}{read / 1e6:,.0f} M tokens"
    disk = ""
    if text := text_bytes(params, tokens.corpus):
        per_token = next((size for _, pieces, size, _ in VOCABULARIES if vocab_size <= pieces), VOCABULARIES[-1][2])
        first += f", {read / (text / per_token):.2g} times the text"
        rows = text / per_token * 2 * len(tokens.lengths)
        checkpoints = 12 * (config.pretrain.keep_checkpoints + 1)
        size = 2 * text + 2 * rows + weights * (checkpoints + 8)  # twice, while a stage is at work
        disk = f"{size / 1e9:,.1f} GB, of which text and rows {2 * (text + rows) / 1e9:,.1f}"
    work = Work(
        training_flops(config, vocab_size, "matmul"),
        lambda card: roofline.training_bound(config, vocab_size, card),
        roofline.memory(config, weights, vocab_size),
        lambda card: roofline.slices_that_fit(config, vocab_size, card.memory),
    )
    timed = None
    if work.bound(cpu()) < TIMEABLE:
        timed = sum((p.last - p.first) * step_seconds(config, p.length, p.batch, vocab_size) for p in phases)
    return paragraph(first, work, disk, params.gpu_prices, timed)


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
    squad = params.finetune.resolve("squad", params.changes(name))
    tasks = configs_of(name, params) | {SQUAD[version]: squad for version in params.squad_versions(name)}
    runs = [
        (of, len(of.seeds) * len(of.arms) * rows_read(of, rows_of(task, config.tasks, params)))
        for task, of in tasks.items()
    ]
    tokens = max(of.batch * of.length for of, _ in runs)
    memory = roofline.CONTEXT + 18.0 * weights + 34 * tokens * encoder.layers * encoder.hidden
    kept = sum({"none": 0, "first": 1, "all": len(of.seeds)}[of.keep] for of, _ in runs)
    count = f"{len(tasks)} task{'s' * (len(tasks) > 1)}"
    first = f"{name}, fine-tuning: {count} ({', '.join(tasks)}), {weights / 1e6:.1f} M parameters; at most:"
    flops, bound = tuned(encoder, vocab_size, weights, runs)
    disk = f"{kept * weights * 4 / 1e9:.1f} GB for {kept} kept model{'s' * (kept != 1)}"
    return paragraph(first, Work(flops, bound, memory), disk, params.gpu_prices)


def tuned(
    encoder: AnyEncoderConfig, vocab_size: int, weights: int, runs: Sequence[tuple[FinetuneConfig, float]]
) -> tuple[float, Callable[[Card], float]]:
    """Operations and least seconds on a card of fine-tunings that read so many rows each."""

    def bound(card: Card) -> float:
        return sum(roofline.finetuning_bound(encoder, rows, of.batch, of.length, weights, card) for of, rows in runs)

    return 3 * sum(rows * encoder_flops(encoder, of.length, vocab_size, "matmul") for of, rows in runs), bound


def ablations(names: Iterable[str], params: Params) -> str:
    """A table of ablations in Markdown; arms that are trained, or in an ablation above, take nothing."""
    known, places = set[str](), [*CARDS.values(), cpu()]
    lines = [f"| ablation | runs | to do | operations | {' | '.join(card.name for card in places)} |"]
    lines.append("| :--- |" + " ---: |" * (3 + len(places)))
    for name in names:
        ablation = params.ablations[name]
        vocab_size = vocabulary(ablation.model, params)
        changes = merge(params.recipe(ablation.recipe), ablation.finetune)
        tasks = {t: params.finetune.resolve(t, changes, own=params.own_tasks(ablation.data)) for t in ablation.tasks}
        arms, flops, seconds = plan_arms(name, params, vocab_size), 0.0, dict.fromkeys(places, 0.0)
        left = [arm for arm in arms if arm.key not in known and not trained(arm, params)]
        known |= {arm.key for arm in arms}
        models = 1 + len(ablation.points)
        runs = [(of, models * rows_read(of, rows_of(task, ablation.data, params))) for task, of in tasks.items()]
        for arm in left:
            weights = roofline.parameters(arm.config, vocab_size)
            operations, bound = tuned(arm.config.encoder, vocab_size, weights, runs)
            flops += training_flops(arm.config, vocab_size, "matmul") + operations
            for card in places:
                seconds[card] += roofline.training_bound(arm.config, vocab_size, card) + bound(card)
        needed = [span(each, each / GOOD) for each in seconds.values()]
        lines.append(f"| {' | '.join(map(str, [name, len(arms), len(left), f'{flops:.2g}', *needed]))} |")
    return "\n".join(lines)


def trained(arm: Arm, params: Params) -> bool:
    """Whether an arm is trained; not before its rows are there."""
    with contextlib.suppress(UserError):
        return (arm_folder(arm, params) / "arm.json").is_file()
    return False


def paragraph(first: str, work: Work, disk: str, prices: GpuPrices, timed: float | None = None) -> str:
    """Lines of one training, the first as given; without a size on disk where that is unknown ("")."""
    lines = [first, f"time: {work.flops:.2g} floating point operations; on one GPU from its bound to bound / {GOOD}:"]
    here, reached = measurement(work.flops / work.bound(CARDS["h100"]))
    if here:
        lines.append(f"  {here.name}, as gpu-check measured it: {duration(work.bound(here) / reached)}")
    for key, card in CARDS.items():
        if here and card.name in here.name:
            continue
        low, high, price = work.bound(card), work.bound(card) / GOOD, getattr(prices, key) / 3600
        fits = work.memory <= roofline.USABLE * card.memory
        slices = 0 if fits else work.slices(card)
        note = "" if fits else f", pretrain.accumulate: {slices}" if slices else ", too little memory"
        lines.append(f"  {card.name}: {span(low, high)}, {money(low * price, high * price)}{note}")
    lines += [f"memory: {work.memory / 1e9:.1f} GB of the GPU", *([f"disk: {disk}"] if disk else [])]
    bound = work.bound(cpu())
    cores = f"{span(bound, bound / GOOD)} on the {cpu().name}"
    if timed is not None:
        cores = f"{duration(timed)} on the {cpu().name}, by steps that were timed now"
    return "\n".join([*lines, f"without a GPU: {cores}"])


def measurement(intensity: float) -> tuple[Card | None, float]:
    """This machine's GPU, by the rates that gpu-check probed, and the share of its bound that a network reached there.

    Of those that were timed it is the one with the nearest `intensity`, operations a second at an H100's bound. None
    where gpu-check has not run on a GPU here.
    """
    found = read_json(MEASURED) if MEASURED.is_file() else {}
    rates = found.get("rates")
    timed = [row for row in found.get("checks", ()) if "reached" in row]
    if not rates or not timed:
        return None, 1.0
    nearest = min(timed, key=lambda row: abs(math.log(row["intensity"] / intensity)))
    return roofline.measured_card(found["device"]["gpu"], rates), nearest["reached"]


@functools.cache
def cpu() -> Card:
    """All cores that a run may use: the measured rates of fp32 products and of copies within a core's cache."""
    left, right = torch.ones(2048, 256), torch.ones(256, 512)
    place, cores = torch.ones(1 << 20), worker_count()
    flops = 2 * left.numel() * right.shape[1] / process_seconds("left @ right", left=left, right=right)
    moved = 2 * place.nbytes / process_seconds("place.clone()", place=place)
    return Card(f"{cores} CPU cores here", cores * flops / PRODUCT, cores * moved / PASS, 0, number=4)


def process_seconds(work: str, **on: torch.Tensor) -> float:
    """What some work takes in process time: other work on the machine does not count."""
    return Timer(work, timer=time.process_time, globals=on).timeit(20).mean


def vocabulary(model: str, params: Params) -> int:
    """Tokens in a model's vocabulary: as it is to be trained, else as many as the published ones have."""
    tokenizer = params.tokens[params.models[model].tokens].tokenizer
    if isinstance(tokenizer, TrainTokenizer):
        return tokenizer.vocab_size
    return PUBLISHED_JSON if tokenizer.file.endswith(".json") else PUBLISHED_VOCABULARY


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
            paths = find_files(source.files, corpus)
        except UserError:
            return 0.0
        size += sum(path.stat().st_size * (4 if Path(path).suffix in COMPRESSIONS else 1) for path in paths)
    return size


def rows_of(task: str, source: str, params: Params) -> int:
    """Training rows of a task, as far as its source says before anything has run."""
    config = params.tasks[source]
    if isinstance(config, OwnTasks):
        return sum(1 for _ in own.records(Path(config.tasks[task].train)))
    if config.kind == "sample":
        return SAMPLE
    return GLUE[task].train_rows if task in GLUE else QUESTIONS[task]


def rows_read(settings: FinetuneConfig, rows: int) -> float:
    """Rows that one run of a fine-tuning reads, those of every epoch."""
    return min(rows, settings.max_train_rows or rows) * settings.epochs * (2 if settings.both_orders else 1)


def span(low: float, high: float) -> str:
    """Two durations."""
    first, last = duration(low), duration(high)
    if first == last:
        return last
    same = first.split()[-1] == last.split()[-1]
    return f"{first.split()[0] if same else first} to {last}"


def money(low: float, high: float) -> str:
    """Two sums of dollars."""
    if high < 0.01:
        return "less than a cent"
    digits = 2 if high < 10 else 0
    return f"${low:,.{digits}f} to ${high:,.{digits}f}"
