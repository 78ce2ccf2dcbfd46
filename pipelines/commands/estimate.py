"""What ablations would cost here, before they are run: `python -m pipelines estimate tiny`.

A few steps of every arm that is not finished, and a short fine-tuning of every task, are timed in this process; the
rest is multiplication. Seconds are processor seconds, so other work on the machine bears little on them.
"""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from electra.devices import default_device
from electra.errors import UserError
from electra.files import read_jsonl
from electra.finetuning.runs.plan import Plan, run
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, write_folder
from electra.pretraining.config import ElectraConfig
from electra.pretraining.corruption import SpecialIds
from electra.pretraining.dataloader import Feed
from electra.pretraining.flops import encoder_flops
from electra.pretraining.model import Pretraining, optimizer_of
from electra.pretraining.phases import phases_of
from electra.workers import worker_count
from pipelines.config.params import Params
from pipelines.stages.ablation import plan_arms, plan_tasks
from pipelines.stages.arms import Arm, ArmTask, arm_folder, measured, scored_only, slots
from pipelines.stages.pretrain import ModelRows

STEPS, FEW, MORE = 3, 32, 160  # steps timed an arm; rows of the two fine-tunings timed a task
START = 12.0  # seconds to start a stage and its workers: imports, reading rows, the record's end
SAVE = 0.15  # seconds a checkpoint, where the network is small


@dataclasses.dataclass(frozen=True)
class Row:
    """One ablation: its runs, those that it has to itself, and processor seconds."""

    name: str
    runs: int
    finished: int
    shared: int
    pretrain: float
    finetune: float


def estimate(names: list[str], params: Params) -> str:
    """A table of the ablations and the minutes they would take, in Markdown."""
    torch.set_num_threads(1)
    rows = list(cost(names, params))
    workers = slots(worker_count())
    lines = [
        "| ablation | runs | finished | shared with one above | pre-training, s | fine-tuning, s | minutes |",
        "| :--------- | ---: | -------: | --------------------: | --------------: | -------------: | ------: |",
    ]
    minutes = 0.0
    for row in rows:
        mine = (START + (row.pretrain + row.finetune) / workers) / 60
        minutes += mine
        cells = [row.name, row.runs, row.finished, row.shared, f"{row.pretrain:.0f}", f"{row.finetune:.0f}"]
        lines.append(f"| {' | '.join(map(str, cells))} | {mine:.1f} |")
    note = f"estimate: {minutes:.0f} minutes with {workers} at a time ({torch.get_num_threads()} thread each)"
    return "\n".join([*lines, "", f"{note}, from {STEPS} timed steps an arm", ""])


def cost(names: list[str], params: Params) -> Iterator[Row]:
    """Each ablation's cost, arms of an earlier one for nothing."""
    known: dict[str, set[tuple[str, float]]] = {}  # arm's key -> (task, point) that an earlier one measures
    task_seconds: dict[str, float] = {}
    for name in names:
        ablation = params.ablations[name]
        base = params.models[ablation.model].electra()
        rows = ModelRows(params, ablation.tokens, base)
        vocab_size = rows.tokenizer.vocab_size
        tasks = plan_tasks(name, params)
        arms = plan_arms(name, params, vocab_size)
        shared = finished = 0
        pretrain = finetune = 0.0
        step_seconds: dict[ElectraConfig, float] = {}
        for arm in arms:
            wanted = {(task.name, point) for task in tasks for point in task.points}
            if arm.key in known:
                shared += 1
            elif (home := arm_folder(arm, params) / "arm.json").is_file():
                finished += 1
                known[arm.key] = {each for each in wanted if each in measured(home.parent)}
            else:
                same = dataclasses.replace(arm.config, pretrain=dataclasses.replace(arm.config.pretrain, seed=1))
                if same not in step_seconds:
                    step_seconds[same] = time_arm(arm, rows)
                pretrain += step_seconds[same]
                known[arm.key] = set()
            for task in tasks:
                if task.name not in task_seconds:
                    task_seconds[task.name] = time_task(task, base, rows)
                missing = [p for p in task.points if (task.name, p) not in known[arm.key]]
                size = encoder_flops(arm.config.encoder, task.config.length, vocab_size, "matmul")
                ratio = size / encoder_flops(base.encoder, task.config.length, vocab_size, "matmul")
                finetune += len(missing) * task_seconds[task.name] * ratio
            known[arm.key] |= wanted
        yield Row(name, len(arms), finished, shared, pretrain, finetune)


def time_arm(arm: Arm, rows: ModelRows) -> float:
    """Seconds of a whole pre-training: timed steps times their number, evaluations and checkpoints."""
    config, ids = arm.config, rows.tokenizer
    settings = config.pretrain
    special = SpecialIds(pad=ids.pad_id, cls=ids.cls_id, sep=ids.sep_id, mask=ids.mask_id)
    device = default_device()
    model = Pretraining(config, ids.vocab_size, special).to(device)
    optimizer = optimizer_of(model)

    def step(number: int) -> None:
        model(feed.batch(number)).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def look(number: int) -> None:
        model(feed.batch(number))

    steps, seconds = settings.steps, 0.0
    assert isinstance(steps, int)
    for phase in phases_of(settings, steps):
        read = rows.others.get(phase.length, rows.train_rows)
        feed = Feed(read, config, device, "noise", phase.batch)
        seconds += (phase.last - phase.first) * timed(step, STEPS)
    looks = settings.eval_batches * (1 + -(-steps // settings.eval_every))  # at rows of the last phase
    return seconds + looks * timed(look, 1) + SAVE * -(-steps // settings.save_every)


def time_task(task: ArmTask, base: ElectraConfig, rows: ModelRows) -> float:
    """Seconds of one fine-tuning: two short ones tell what a row costs and what the rest does."""
    vocab_size = rows.tokenizer.vocab_size
    training = len(read_jsonl(task.rows / "train.jsonl"))
    count = min(training, task.config.max_train_rows or training)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        settings = config_json(base.encoder, vocab_size, "ElectraModel")
        tensors = encoder_tensors(fresh_encoder(base.encoder, vocab_size, 1), "")
        write_folder(model, tensors, settings, rows.tokenizer_files(), "")

        def seconds(most: int, name: str) -> float:
            config = dataclasses.replace(scored_only(task.config, 1), max_train_rows=most)
            (job,) = Plan(task.name, config, rows=task.rows, model=model, state=Path(folder) / name).jobs()
            started = time.process_time()
            run(job)
            return time.process_time() - started

        seconds(FEW, "first")  # reads and tokenises what the others find in memory
        few, more = seconds(FEW, "few"), seconds(min(MORE, count), "more")
    each = max(0.0, more - few) / max(1, min(MORE, count) - FEW)
    return few + each * max(0, count - FEW)


def timed(function: Callable[[int], None], count: int) -> float:
    """Seconds of one call, of several; the first is not counted."""
    function(0)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    started = clock()
    for number in range(1, count + 1):
        function(number)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (clock() - started) / count


def chosen(name: str, params: Params) -> list[str]:
    """The ablations that a name stands for: itself, or all of a model."""
    if name in params.ablations:
        return [name]
    names = [key for key, ablation in params.ablations.items() if ablation.model == name]
    if not names:
        params.require("ablations", name)
        raise UserError(name, "has no ablations")
    return names
