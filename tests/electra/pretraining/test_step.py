"""The step: a captured one and one in two threads give the plain one's results, it compiles in
whole parts, and it never reads the device.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._dynamo import lookup_backend
from torch.nn.utils import clip_grad

from electra.pretraining import compiling, model
from electra.pretraining.compiling import compile_parts
from electra.pretraining.dataloader import BatchLoader
from electra.pretraining.distributed import World
from electra.pretraining.model import Pretraining
from electra.pretraining.step import WARM_UP, can_use_two_threads
from tests.support.pretraining import SPECIAL, TWO_STAGES, VOCAB, MadeUpRows, config, data, train
from tests.support.steps import (
    CPU,
    META,
    MODERN_TOKENS,
    QUIET,
    TWIN,
    Rerun,
    train_steps,
)


def agree(ours, theirs):
    for ours_of_kind, theirs_of_kind in zip(ours, theirs, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours_of_kind, theirs_of_kind, strict=True))


# ── captured ──


@pytest.mark.parametrize("slices, precision, captures", [(1, "fp32", 4), (4, "bf16", 6)])
def test_captured_steps_do_what_plain_ones_do(slices, precision, captures):
    """In a phase of other rows the fixed memory, and all that was captured on it, has the wrong
    shape, so all is captured again.
    """
    short, long = (
        BatchLoader(MadeUpRows(64, length=length), config(), CPU, "noise") for length in (12, 24)
    )
    feeds = [short] * (WARM_UP + 2) + [long] * (WARM_UP + 2)
    graphs = Rerun()
    ours, theirs = (
        train_steps(config(), slices, feeds=feeds, precision=precision, graphs=captured)
        for captured in (graphs, None)
    )
    agree(ours, theirs)
    assert graphs.count == captures


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_failed_capture_is_told_once_and_the_step_is_done_without(number, capsys, monkeypatch):
    """Each step sums gradients once: a second time would take another process's next step for this
    one.
    """
    calls = []
    monkeypatch.setattr(World, "sum_in_place", lambda *_: calls.append(1))
    graphs = Rerun(failing=number)
    agree(train_steps(config(), 4, graphs=graphs), train_steps(config(), 4))
    assert graphs.failed and len(calls) == 2 * (WARM_UP + 4)
    assert capsys.readouterr().err.count("warning: no CUDA graphs") == 1


def test_a_capture_without_memory_is_no_reason_to_go_on(monkeypatch):
    def refuse(self, work):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Rerun, "capture", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        train_steps(config(), graphs=Rerun())


@pytest.mark.slow
def test_all_is_compiled_before_the_capture():
    """Compiling in a capture is an error on a GPU, so the steps of the warm-up have the same
    buffers.
    """
    compiled = []
    graphs = Rerun()

    def backend(graph, inputs):
        compiled.append(graphs.count)
        return graph.forward

    train_steps(
        config(), 4, before=lambda model: compile_parts(model, backend=backend), graphs=graphs
    )
    assert compiled and set(compiled) == {0} and graphs.count == 3


# ── two slices at once ──


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "slices, changes",
    [
        (2, {}),
        (4, {"objective__name": "replace_mlm"}),
        (4, TWIN),
    ],
)
def test_two_slices_at_once_do_what_one_after_the_other_does(slices, changes, precision):
    met = threading.Barrier(2)  # a slice that no other joins is an error here

    def watch(model):
        model.discriminator.encoder.register_forward_pre_hook(lambda *_: (met.wait(60), None)[1])

    settings = config(**QUIET, **changes)
    with ThreadPoolExecutor(2) as threads:
        ours = train_steps(settings, slices, watch, precision=precision, threads=threads)
    agree(ours, train_steps(settings, slices, precision=precision))


@pytest.mark.parametrize("objective", [{}, TWIN | TWO_STAGES])
def test_a_run_of_two_threads_leaves_what_two_slices_one_after_the_other_do(tmp_path, objective):
    runs = [
        train(tmp_path / key, config(**QUIET, **objective, **{f"pretrain__{key}": 2}))
        for key in ("threads", "accumulate")
    ]
    assert runs[0].history == runs[1].history


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, True),
        ({"pretrain__threads": 3}, False),
        ({"pretrain__batch": 6, "pretrain__accumulate": 3}, True),
        ({"pretrain__batch": 9, "pretrain__accumulate": 3}, False),
        ({"encoder__dropout": 0.1}, False),
        ({"encoder__attention_dropout": 0.1}, False),
    ],
)
def test_when_a_step_runs_in_two_halves(changes, expected):
    settings = config(**QUIET | {"pretrain__threads": 2} | changes)
    batches = {settings.pretrain.batch}
    assert can_use_two_threads(settings, batches, World(0, 1, CPU)) is expected
    assert not can_use_two_threads(settings, batches, World(0, 1, torch.device("cuda")))
    assert not can_use_two_threads(settings, batches, World(0, 2, CPU))


# ── plain ──


def test_after_a_step_that_is_not_finite_nothing_changes():
    def spoil_third_step(model):
        calls = iter(range(5))
        weight = next(model.parameters())
        weight.register_hook(lambda gradient: gradient * (torch.inf if next(calls) == 2 else 1))

    feeds = [BatchLoader(data().train, config(), CPU, "noise")] * 5
    _, weights = train_steps(config(), before=spoil_third_step, feeds=feeds)
    _, expected = train_steps(config(), feeds=feeds[:2])
    torch.testing.assert_close(weights, expected, rtol=0, atol=0)


def test_a_parameter_that_is_not_connected_to_the_loss_is_an_error():
    def disconnect(model):
        model.lost = torch.nn.Linear(2, 2)

    with pytest.raises(AssertionError, match=r"to the loss: lost\.weight, lost\.bias"):
        train_steps(config(), before=disconnect)


@pytest.mark.parametrize("changes", [{}, {"objective__name": "replace_mlm"}, MODERN_TOKENS])
def test_a_step_on_a_gpu_never_reads_it(monkeypatch, changes):
    """On tensors that have a shape but no numbers, a host read (item, bool, a boolean index) is an
    error.
    """
    # drawing weights looks at them
    monkeypatch.setattr(model, "initialise", lambda model, settings: None)
    monkeypatch.setattr(clip_grad, "_device_has_foreach_support", lambda device: True)
    settings = config(**changes)
    feeds = [BatchLoader(data().train, settings, CPU, "noise")]
    numbers, _ = train_steps(settings, feeds=feeds, device=META)
    with pytest.raises(RuntimeError, match="meta tensor"):
        numbers[0].tolist()


# ── compiled ──


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes, most",
    [
        # five functions, two heads, the embeddings, one layer of each network
        ({"encoder__layers": 5}, 10),
        (MODERN_TOKENS, 15),  # a layer is one of three kinds, the embeddings are one of two
    ],
)
def test_the_compiled_parts_are_whole_and_give_the_same_gradients(changes, most):
    """`fullgraph` refuses code that does not compile as one graph; the backend runs traced graphs
    as they are.
    """
    settings = config(**{**QUIET, **changes})
    batch = BatchLoader(data().train, settings, CPU, "noise").batch(0)
    results = []
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return lookup_backend("aot_eager")(graph, inputs)

    for compiled in (False, True):
        torch.manual_seed(0)
        model = Pretraining(settings, VOCAB, SPECIAL)
        if compiled:
            compile_parts(model, backend=backend, fullgraph=True)
        loss = model(batch).loss
        loss.backward()
        results.append((loss, [parameter.grad for parameter in model.parameters()]))
    (plain, gradients), (loss, ours) = results
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=0)
    for a, b in zip(ours, gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert len(graphs) <= most, "each layer was compiled for itself"


@pytest.mark.parametrize(
    "triton, compiler, headers, lacking",
    [
        (True, "gcc", True, ""),
        (True, "cc", True, "C compiler: gcc or clang"),  # Triton looks for no other
        (True, "gcc", False, "Python.h: Python's headers"),
        (False, "gcc", True, "Triton"),
    ],
)
def test_what_the_compiler_lacks_is_known_before_the_first_step(
    triton, compiler, headers, lacking, monkeypatch, tmp_path
):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: triton or None)
    monkeypatch.setattr("shutil.which", lambda name: name if name == compiler else None)
    monkeypatch.setattr("sysconfig.get_paths", lambda scheme: {"include": str(tmp_path)})
    if headers:
        (tmp_path / "Python.h").touch()
    assert compiling.missing_for_compile() == lacking
