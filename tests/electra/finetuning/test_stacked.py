"""Seeds trained in one stack of weights: each as if it were alone."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from electra.errors import BadConfig
from electra.files import remove
from electra.finetuning import training
from electra.finetuning.batches import stack as examples_of
from electra.finetuning.classification import encode
from electra.finetuning.heads import Classifier
from electra.finetuning.microbatches import even_parts, with_filler
from electra.finetuning.runs import plan as jobs_module
from electra.finetuning.runs.plan import Plan, finished, run, run_together
from electra.finetuning.runs.pool import run_all
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_squad
from electra.finetuning.stacked import stack, train_together
from electra.finetuning.stacked_step import clip_each
from electra.finetuning.tagging import Tagger
from electra.finetuning.task_registry import TAGGING
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig, Task
from electra.finetuning.training import train
from electra.nn.scratch_init import add_fresh_layers
from electra.nn.weights import load_encoder
from electra.optim.adamw import clip_gradients

from .conftest import glue_rows, squad_rows
from .runs.test_plan import bytes_of

SEEDS = (1, 2, 5)
CONFIG = FinetuneConfig(learning_rate=1e-3, epochs=2, batch=16, length=40, dropout=0.0, head_dropout=0.0)
CONFIG = dataclasses.replace(CONFIG, weight_decay=0.1, seeds=SEEDS)
SQUAD = {"stride": 12, "question_length": 10, "seeds": SEEDS, "dropout": 0.0}


def case(kind, model, tokenizer):
    """A network for each seed, the rows and the settings."""
    if kind.startswith("squad"):
        head = {"squad": "conditional", "squad-independent": "independent"}[kind]
        config = SquadConfig(learning_rate=1e-3, epochs=1, batch=16, length=40, weight_decay=0.1, head=head, **SQUAD)
        rows = encode_squad(squad_rows(40, 1, impossible=True), tokenizer, length=40, stride=12, question_length=10)
        make = lambda encoder: SpanFinder(encoder, config)  # noqa: E731
        rows = rows.examples
    elif kind == "tags":
        task = Task(name="chunks", title="chunks", labels=("NP",), metrics=("entity_f1",), tagging=True)
        words = [row["a"].rstrip(".").split() for row in glue_rows("cola", 50, 1)]
        tagged = [
            {"id": str(at), "words": each, "tags": ["B-NP" if word == "cat" else "O" for word in each]}
            for at, each in enumerate(words)
        ]
        config, rows = CONFIG, TAGGING.encode(tagged, task, tokenizer, CONFIG).examples
        make = lambda encoder: Tagger(encoder, len(task.classes), 40)  # noqa: E731
    else:
        task, pooling, layers = [*kind.split("-"), "cls", "last"][:3]
        config, rows = CONFIG, encode(glue_rows(task, 60, 1), GLUE[task], tokenizer, 40)
        make = lambda encoder: Classifier(encoder, len(GLUE[task].labels), 0.0, pooling, layers)  # noqa: E731
    networks = []
    for seed in SEEDS:
        encoder = load_encoder(model, dropout=0.0)
        if kind in {"mnli-max", "squad"}:
            config = dataclasses.replace(config, fresh_layers=1)
            add_fresh_layers(encoder, 1, seed)
        torch.manual_seed(seed)
        networks.append(make(encoder))
    return networks, rows, config


@pytest.mark.parametrize(
    "kind", ["mnli", "mnli-max", "stsb-mean", "rte-pair-all", "tags", "squad", "squad-independent"]
)
@pytest.mark.parametrize("room", [2**17, 1])  # 1: parts of at most 256 tokens
def test_each_seed_learns_what_it_learns_alone(kind, room, model, tokenizer, monkeypatch):
    """Weights within 2e-5 after all steps, where training moves them a thousand times as much; losses within 1e-4."""
    singles, rows, config = case(kind, model, tokenizer)
    together, _, _ = case(kind, model, tokenizer)
    before = {name: value.detach().clone() for name, value in singles[0].named_parameters()}
    found = [train(one, rows, config, seed=seed, stream="t") for one, seed in zip(singles, SEEDS, strict=True)]
    monkeypatch.setitem(training.ROOM, "cpu", room)
    joint = train_together(together, rows, config, seeds=SEEDS, stream="t")
    for one, other, alone, company in zip(singles, together, found, joint, strict=True):
        for (name, expected), (_, given) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            assert torch.allclose(expected, given, atol=2e-5), name
        assert alone.finite and company.finite
        assert np.allclose(alone.curve, company.curve, rtol=1e-4)
    moved = max(float((p.detach() - before[name]).abs().max()) for name, p in singles[0].named_parameters())
    assert moved > 1e-3
    assert not torch.allclose(singles[0].encoder.layers[0].expand.weight, singles[1].encoder.layers[0].expand.weight)


def test_a_seed_that_diverges_does_so_alone(model, tokenizer):
    healthy, rows, config = case("mnli", model, tokenizer)
    ill, _, _ = case("mnli", model, tokenizer)
    with torch.no_grad():
        ill[1].head.weight[0, 0] = float("nan")
    train_together(healthy, rows, config, seeds=SEEDS, stream="t")
    first, second, third = train_together(ill, rows, config, seeds=SEEDS, stream="t")
    assert first.finite and third.finite and not second.finite and second.curve == []
    for seed in (0, 2):
        for one, other in zip(healthy[seed].parameters(), ill[seed].parameters(), strict=True):
            assert torch.equal(one, other)


def test_when_none_is_finite_any_more_training_ends(model, tokenizer, monkeypatch):
    networks, rows, config = case("mnli", model, tokenizer)
    steps = []
    monkeypatch.setattr(training, "CHECK_EVERY", 2)
    monkeypatch.setattr(training, "set_rate", lambda optimizer, rate: steps.append(rate))
    for network in networks:
        torch.nn.init.constant_(network.head.weight, float("nan"))
    assert not any(one.finite for one in train_together(networks, rows, config, seeds=SEEDS, stream="t"))
    assert len(steps) == 2


def test_each_seeds_gradients_are_clipped_by_their_own_norm():
    torch.manual_seed(1)
    grads = [torch.randn(3, 4, 5), torch.randn(3, 7)]
    for grad in grads:
        grad[1] *= 1e-3  # short enough as it is
    parameters = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in grads]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad.clone()
    clip_each(parameters, 1.0)
    for seed in range(3):
        alone = [torch.nn.Parameter(grad[seed].clone()) for grad in grads]
        for parameter, grad in zip(alone, grads, strict=True):
            parameter.grad = grad[seed].clone()
        clip_gradients(alone, 1.0)
        for one, other in zip(parameters, alone, strict=True):
            assert torch.equal(one.grad[seed], other.grad)
    assert torch.equal(parameters[0].grad[1], grads[0][1])


@pytest.mark.parametrize("kind", ["mnli", "tags", "squad", "squad-independent"])
def test_a_step_stays_on_its_device(kind, model, tokenizer):
    """On torch's device without data: what was left on the CPU, or is read back to it, would raise."""
    networks, rows, _ = case(kind, model, tokenizer)
    joint = stack([network.to("meta") for network in networks]).train()
    for layer in joint.encoder.layers:
        layer.attention.dropout = layer.drop.rate = 0.1
    ((rows_SR, filler_SD, _),) = even_parts(np.arange(3 * 8).reshape(3, 8), rows.length_N, 10**6)
    loss_B = joint.losses(with_filler(rows).batch(np.concatenate([rows_SR, filler_SD], 1).reshape(-1), "meta"))
    loss_B.sum().backward()
    assert loss_B.shape == (3 * (8 + filler_SD.shape[1]),) and loss_B.device.type == "meta"
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in joint.parameters())


class Counted(TorchDispatchMode):
    """How many operations are started; views are none."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += not operation.is_view
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["mnli", "squad"])
def test_three_seeds_start_little_more_operations_than_one(kind, model, tokenizer):
    networks, rows, _ = case(kind, model, tokenizer)
    with Counted() as alone:
        networks[0].losses(rows.batch(np.arange(8))).sum().backward()
    joint = stack(networks)
    ((rows_SR, filler_SD, _),) = even_parts(np.arange(3 * 8).reshape(3, 8), rows.length_N, 10**6)
    with Counted() as together:
        joint.losses(with_filler(rows).batch(np.concatenate([rows_SR, filler_SD], 1).reshape(-1))).sum().backward()
    assert alone.count < together.count < 1.3 * alone.count


def test_the_models_weights_are_views_of_the_stack(model, tokenizer):
    networks, _, _ = case("mnli", model, tokenizer)
    before = [network.head.weight.detach().clone() for network in networks]
    joint = stack(networks)
    assert {name for name, _ in joint.named_parameters()} == {name for name, _ in networks[0].named_parameters()}
    assert torch.equal(joint.head.weight, torch.stack(before))
    with torch.no_grad():
        joint.head.weight += 1
    assert torch.equal(networks[2].head.weight, before[2] + 1)


def test_parts_hold_every_row_once_and_as_many_tokens_of_each_seed():
    """Rows of a lognormal length like the tasks': a tenth of the tokens is filler, and no part is beyond its bound."""
    numbers = np.random.default_rng(1)
    length_N = np.clip(numbers.lognormal(3.4, 0.45, 4000).astype(np.int64), 4, 128)
    examples = examples_of([[0] * length for length in length_N], [1] * 4000, {"label": np.zeros(4000)}, [""] * 4000)
    filled = with_filler(examples)
    real = computed = 0
    for step in range(20):
        rows_SB = np.stack([numbers.permutation(4000)[: 31 if step else 1] for _ in range(5)])
        for bound in (10**6, 1500, 100):
            seen = []
            for rows_SR, filler_SD, _ in even_parts(rows_SB, length_N, bound):
                tokens_S = filled.length_N[np.concatenate([rows_SR, filler_SD], 1)].sum(1)
                assert (tokens_S == tokens_S[0]).all()
                assert length_N[rows_SR].sum() <= bound or rows_SR.shape[1] == 1
                assert filled.length_N[filler_SD].max(initial=1) <= length_N[rows_SR].max()
                real += length_N[rows_SR].sum() * (bound > 1500)
                computed += tokens_S.sum() * (bound > 1500)
                seen.append(rows_SR)
            assert (np.sort(np.concatenate(seen, 1), 1) == np.sort(rows_SB, 1)).all()
    assert 1.0 < computed / real < 1.15
    assert len(filled) == 4000 + length_N.max() and len(filled.targets["label"]) == len(filled)


def jobs_of(task, config, rows, model, state, **more):
    return Plan(task, config, rows=rows / task, model=model, state=state, stack="on", **more).jobs()


def names_of(folder):
    """What a task's folder holds, whatever the fingerprints in the names of its jobs' folders."""
    return {re.sub(r"-[0-9a-f]{8}/", "/", name) for name in bytes_of(folder)}


JOBS = dataclasses.replace(CONFIG, dropout=0.1, head_dropout=0.1, seeds=(1, 2), keep="all")
SQUAD_JOBS = SquadConfig(learning_rate=1e-3, epochs=1, batch=16, length=40, stride=12, question_length=10, dropout=0.0)
SQUAD_JOBS = dataclasses.replace(SQUAD_JOBS, seeds=(1, 2))


@pytest.mark.parametrize(("task", "config"), [("mrpc", JOBS), ("squad2", SQUAD_JOBS)])
def test_a_stack_leaves_each_seeds_folder_and_goes_on_to_the_same_bytes(task, config, task_rows, model, tmp_path):
    jobs = jobs_of(task, config, task_rows, model, tmp_path)
    assert {job.together for job in jobs} == {(1, 2)} and len({job.fingerprint for job in jobs}) == 4
    alone = Plan(task, config, rows=task_rows / task, model=model, state=tmp_path / "alone").jobs()
    assert not {job.fingerprint for job in jobs} & {job.fingerprint for job in alone}
    more = jobs_of(task, dataclasses.replace(config, seeds=(1, 2, 3)), task_rows, model, tmp_path)
    assert not {job.fingerprint for job in jobs} & {job.fingerprint for job in more}
    heard = []
    records = run_all(jobs, 1, lambda job, record: heard.append(job.name))
    assert sorted(heard) == sorted(job.name for job in jobs)
    single = run(alone[0])
    assert {key: records[0][key] for key in ("task", "arm", "seed", "steps", "train_rows", "dev_rows")} == {
        key: single[key] for key in ("task", "arm", "seed", "steps", "train_rows", "dev_rows")
    }
    assert records[0]["loss"] != records[1]["loss"]
    if not config.dropout:
        assert np.allclose(records[0]["loss"], single["loss"], rtol=1e-3)
    whole = bytes_of(tmp_path / task)
    assert names_of(tmp_path / "alone" / task) <= names_of(tmp_path / task)
    remove(jobs[0].folder)  # as if killed between the first folder of the stack and the second
    heard.clear()
    assert run_all(jobs, 1, lambda job, record: heard.append(job.name)) == records
    assert sorted(heard) == sorted(job.name for job in jobs) and bytes_of(tmp_path / task) == whole


def test_what_is_done_is_read_and_a_stack_is_never_done_in_part(task_rows, model, tmp_path, monkeypatch):
    config = dataclasses.replace(JOBS, arms=("pretrained",), keep="none", epochs=0.5)
    jobs = jobs_of("rte", config, task_rows, model, tmp_path)
    records = run_all(jobs, 2)
    monkeypatch.setattr(jobs_module, "solve_together", lambda *_: pytest.fail("was computed again"))
    assert run_all(jobs, 2) == records == run_together(jobs)
    for partial in (lambda: run(jobs[0]), lambda: run_together(jobs[:1])):
        with pytest.raises(AssertionError):
            partial()
    (job,) = jobs_of("rte", dataclasses.replace(config, seeds=(1,)), task_rows, model, tmp_path)
    assert job.together == ()  # a single seed is no stack


def test_a_stack_starts_from_the_models_of_another(task_rows, model, tmp_path):
    config = dataclasses.replace(JOBS, arms=("pretrained",), epochs=0.5)
    before = jobs_of("mnli", config, task_rows, model, tmp_path)
    jobs = before + jobs_of("rte", dataclasses.replace(config, start="mnli"), task_rows, model, tmp_path, before=before)
    run_all(jobs, 2)
    assert all(finished(job) for job in jobs) and jobs[-1].weights == before[-1].folder / "model"


def test_auto_means_gpus_and_too_little_memory_is_a_sentence(task_rows, model, tmp_path, monkeypatch):
    rows = task_rows / "cola"
    for device, expected in (("cpu", ()), ("cuda", (1, 2))):
        jobs = Plan("cola", JOBS, rows=rows, model=model, state=tmp_path, device=device, stack="auto").jobs()
        assert {job.together for job in jobs} == {expected}

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("electra.finetuning.runs.solve.train_together", full)
    with pytest.raises(
        BadConfig, match=r"recipes\.paper\.stack: 2 seeds of cola do not fit into memory together.*stack: off"
    ):
        run_all(jobs_of("cola", JOBS, task_rows, model, tmp_path), 1)
    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []


def test_half_the_precision_gives_much_the_same_losses(task_rows, model, tmp_path):
    found = {}
    for precision in ("fp32", "bf16"):
        config = dataclasses.replace(JOBS, precision=precision, arms=("pretrained",), keep="none", dropout=0.0)
        jobs = jobs_of("mrpc", config, task_rows, model, tmp_path / precision)
        found[precision] = [loss for record in run_all(jobs, 1) for _, loss in record["loss"]]
    assert found["fp32"] != found["bf16"] and found["bf16"] == pytest.approx(found["fp32"], rel=0.05)
