"""The step: what is recorded does what was done, it compiles in one piece, and it never reads the device."""

from dataclasses import replace
from functools import partial

import pytest
import safetensors.torch
import torch
from torch._dynamo import lookup_backend
from torch.nn.utils import clip_grad

from electra.nn.huggingface import network_tensors
from electra.optim.adamw import build_optimizer, set_rate
from electra.pretraining import gradients, model, trainer
from electra.pretraining import step as step_file
from electra.pretraining.dataloader import Feed, part
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining
from electra.pretraining.step import WARM_UP, Step, compile_parts
from tests.electra.helpers import MODERN, SPECIAL, VOCAB, Failing, MadeUpRows, Rerun, config, data

CPU, META = torch.device("cpu"), torch.device("meta")
QUIET = {"encoder__dropout": 0.0, "encoder__attention_dropout": 0.0}


def build(settings, device=CPU, record=None, precision="fp32"):
    torch.manual_seed(0)
    with device:
        model = Pretraining(settings, VOCAB, SPECIAL).train()
    optimizer = build_optimizer(model.named_parameters(), weight_decay=0.01)
    world = World(0, 1, device)
    return model, Step(model, optimizer, world, precision=precision, record=record)


def train(record, slices, before=lambda model: None, columns=False, precision="fp32"):
    settings, numbers = config(), []
    model, step = build(settings, record=record, precision=precision)
    before(model)
    feed = Feed(data().train, settings, CPU, "noise")
    for number in range(WARM_UP + 4):
        set_rate(step.optimizer, 1e-3 * (number + 1))
        batch = feed.batch(number)
        if columns:  # lengths as a column of a table: the same numbers in another layout
            batch = replace(batch, lengths_B=torch.stack([batch.lengths_B] * 2, 1)[:, 1])
        parts = [part(batch, i, slices) for i in range(slices)]
        sums, norm = step(parts, [7 * number + i for i in range(slices)], "joint")
        numbers.append((norm.item(), *(value.item() for value in sums.values())))
    return numbers, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("slices", [1, 4])
def test_recorded_steps_do_what_plain_ones_do(slices, precision):
    """In bf16 a recorded step's working copies are rounded as autocast rounds, so this holds to the last bit, too."""
    record = Rerun()
    (ours, weights), (theirs, expected) = (train(r, slices, precision=precision) for r in (record, None))
    assert len(record.recorded) == (3 if slices > 1 else 2)
    assert ours == theirs
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))


SHARINGS = {sharing: {} for sharing in ("none", "tokens", "gradient_disentangled")}
SHARINGS |= {sharing: {"generator__width": 1.0} for sharing in ("embeddings", "all")}


@pytest.mark.parametrize("encoder", [{}, {"encoder": MODERN}, {"encoder": {**MODERN, "embedding": 16}}])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_recorded_bf16_steps_leave_the_networks_their_own_fp32_weights(encoder, sharing, tmp_path, monkeypatch):
    """Working copies left in a module are exported rounded and one update late, while checkpoints are right."""
    short = {"pretrain__steps": WARM_UP + 3, "pretrain__precision": "bf16"}
    settings = config(**encoder, **SHARINGS[sharing], **short, objective__sharing=sharing)
    seen = []

    def recording(recorder, *args, **options):
        return Watched(*args, **options | {"record": recorder})

    class Watched(Step):
        def __call__(self, *args):
            result = super().__call__(*args)
            seen.append([a is b and a.dtype == torch.float32 for a, b in self.both()])
            return result

        def both(self):
            return zip(self.parameters, self.gradients.model.parameters(), strict=True)

    runs = {}
    for kind, record in (("plain", None), ("recorded", Rerun())):
        monkeypatch.setattr(trainer, "Step", partial(recording, record))
        runs[kind] = trainer.pretrain(settings, data(), tmp_path / kind, {}, log=lambda step, numbers: None).model
    assert all(map(all, seen))
    weights = safetensors.torch.load_file(tmp_path / f"recorded/step-{settings.pretrain.steps}/model.safetensors")
    saved = Pretraining(settings, VOCAB, SPECIAL)
    for name, parameter in saved.named_parameters():
        parameter.data = weights[name]
    for kind, trained in runs.items():
        for name, pair in saved.networks().items():
            found, expected = network_tensors(*trained.networks()[name]), network_tensors(*pair)
            assert found.keys() == expected.keys()
            for key, tensor in expected.items():
                assert found[key].dtype == torch.float32 and torch.equal(found[key], tensor), (kind, name, key)


def test_rows_of_another_length_are_warmed_up_and_recorded_anew():
    """In a phase of other rows the fixed memory, and all that was recorded on it, has the wrong shape."""

    def run(record):
        model, step = build(config(), record=record)
        feeds = [
            Feed(MadeUpRows(64, length=length), config(), CPU, "noise", batch) for length, batch in ((12, 16), (24, 8))
        ]
        made = []
        for number in range(2 * (WARM_UP + 2)):
            batch = feeds[number >= WARM_UP + 2].batch(number)
            step([part(batch, i, 4) for i in range(4)], [7 * number + i for i in range(4)], "joint")
            made.append(len(record.recorded) if record else 0)
        return made, [parameter.detach() for parameter in model.parameters()]

    (made, weights), (_, expected) = run(Rerun()), run(None)
    assert made == [0] * WARM_UP + [3] * (2 + WARM_UP) + [6] * 2
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_step_that_cannot_be_recorded_is_done_unrecorded_with_a_warning(number, capsys, monkeypatch):
    """Each step sums gradients once: a second time would take those of another process's next step for this one's."""
    summed, sum_up = [], gradients.Gradients.all_reduce
    monkeypatch.setattr(gradients.Gradients, "all_reduce", lambda flat: summed.append(flat) or sum_up(flat))
    (ours, weights), (theirs, expected) = train(Failing(number), 4), train(None, 4)
    assert ours == theirs and len(summed) == 2 * len(ours)
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    assert capsys.readouterr().err.count("warning: the step could not be recorded") == 1


@pytest.mark.slow
def test_what_the_warm_up_compiled_is_what_is_recorded(capsys):
    """Compiling inside a recording is an error on a GPU, so the recorded step's buffers are laid out as before."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(len(record.recorded))
        return graph.forward

    record = Rerun()
    train(record, 4, before=lambda model: compile_parts(model, backend=backend), columns=True)
    assert compiled and set(compiled) == {0} and len(record.recorded) == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("changes", [{}, {"objective__name": "replace_mlm"}, {"objective__faithful_masking": True}])
def test_a_step_on_a_gpu_never_reads_it(monkeypatch, changes):
    """On tensors that have a shape but no numbers, a host read (item, bool, a boolean index) is an error."""
    monkeypatch.setattr(model, "initialise", lambda model, settings: None)  # drawing weights looks at them
    monkeypatch.setattr(clip_grad, "_device_has_foreach_support", lambda device: True)
    settings = config(**changes)
    made = Feed(data().train, settings, CPU, "noise").batch(0)
    _, step = build(settings, META)
    rows = [getattr(made, name).to(META) for name in ("ids_BT", "segments_BT", "lengths_B")]
    noise = type(made.noise)(*(value.to(META) for value in vars(made.noise).values()))
    batch = type(made)(*rows, noise, made.chosen.to(META), made.tokens.to(META))
    sums, norm = step([batch], [1], "joint")
    assert norm.device == META and {value.device for value in sums.values()} == {META}
    with pytest.raises(RuntimeError, match="meta tensors"):
        norm.item()


GRAPHS = 8  # masking, replacing, two heads, the embeddings, one layer of each network


@pytest.mark.slow
def test_the_compiled_parts_are_whole_and_give_the_same_gradients():
    """`fullgraph` refuses what the compiler cannot hold in one piece; the backend runs traced graphs as they are."""
    settings = config(**QUIET, encoder__layers=5)
    batch = Feed(data().train, settings, CPU, "noise").batch(0)
    found, graphs = [], []

    def backend(graph, inputs):
        graphs.append(graph)
        return lookup_backend("aot_eager")(graph, inputs)

    for compiled in (False, True):
        model, _ = build(settings)
        if compiled:
            compile_parts(model, backend=backend, fullgraph=True)
        loss = model(batch).loss
        loss.backward()
        found.append((loss, [parameter.grad for parameter in model.parameters()]))
    (plain, gradients), (loss, ours) = found
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=0)
    for a, b in zip(ours, gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert len(graphs) <= GRAPHS, "each of the five layers was compiled for itself"


@pytest.mark.parametrize(
    ("triton", "found", "headers", "lacking"),
    [
        (True, "gcc", True, ""),
        (True, "cc", True, "C compiler: gcc or clang"),  # Triton looks for no other
        (True, "gcc", False, "Python.h: Python's headers"),
        (False, "gcc", True, "Triton"),
    ],
)
def test_what_the_compiler_lacks_is_known_before_the_first_step(triton, found, headers, lacking, monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(step_file.importlib.util, "find_spec", lambda name: triton or None)
    monkeypatch.setattr(step_file.shutil, "which", lambda name: name if name == found else None)
    monkeypatch.setattr(step_file.sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path)})
    if headers:
        (tmp_path / "Python.h").touch()
    assert step_file.lacks_to_compile() == lacking
