"""The cost of a name in params.yaml, from settings alone and, for custom tasks, their files."""

import re
from pathlib import Path

import pytest

from electra.files import write_jsonl
from electra.pretraining.flops import encoder_flops, training_flops
from pipelines.cli import estimate
from pipelines.cli.cost import (
    GPUS,
    UTILISATION,
    Gpu,
    fitting_accumulate,
    parameters,
    pretraining_memory,
    span,
    this_machine,
    utilisation,
)
from pipelines.config.params import load
from pipelines.stages.ablation import plan_arms
from tests.support.project import ROOT, copy_text, edit

ROWS = 30
TUNED = "tasks: own, recipe: own, arms: [pretrained, scratch]"
BASE = "{model: smoke, tokens: smoke, data: smoke, recipe: smoke}"
FEW = "{tasks: [cola], seeds: 2, points: [0.5], finetune: {defaults: {length: 16, epochs: 2}}}"
ARMS = "{same: {}, other: {objective.name: mlm}}"
ADDED = {
    "tasks:\n": "  own: {kind: custom, tasks: {mood: {train: t.jsonl, dev: t.jsonl, labels: [0, 1]}}}\n",
    "recipes:\n": "  own: {defaults: {length: 16, epochs: 2, seeds: [1, 2, 3], both_orders: true, max_train_rows: 20}}\n",
    "published: {}\n": "  elsewhere: {folder: nowhere}\n",
    "finetunings:\n": f"  own: {{model: smoke, {TUNED}}}\n  elsewhere: {{model: elsewhere, {TUNED}}}\n",
    "ablations: {}\n": f"  objectives: {{title: t, base: {BASE}, protocol: {FEW}, arms: {ARMS}}}\n",
}


@pytest.fixture
def shipped():
    return load(ROOT / "params.yaml")


@pytest.fixture
def here(here):
    """The smoke model with an ablation, a custom task, and a published folder that is not there."""
    copy_text(here)
    for section, entries in ADDED.items():
        edit(here / "params.yaml", section, section.replace(" {}", "") + entries)
    write_jsonl(here / "t.jsonl", [{"sentence": "a row", "label": 0}] * ROWS)


def test_pretraining_takes_its_operations_by_the_published_range_of_utilisation(
    shipped, monkeypatch
):
    monkeypatch.setitem(GPUS, "t4", Gpu("T4", 8.1e12, 2e9))
    assert "12,000 steps read at most 25 M tokens" in estimate.pretraining("mini", shipped)
    report = estimate.pretraining("base", shipped)
    flops = training_flops(shipped.models["base"].electra(), 30_522, "matmul")
    low, high = (flops / (989e12 * share) / 3600 for share in UTILISATION)
    # without slices, as an H100 holds the whole batch
    assert f"\n  H100: {low:.0f} hours to {high / 24:.1f} days\n" in report
    assert re.search(r"\n  RTX 4090: .*, pretrain.accumulate: 4\n", report)
    assert re.search(r"\n  T4: .*, too little memory\n", report)
    # twice 27 GB of text and rows of two lengths, and 44 bytes for each of 119.4 M parameters
    assert "disk: 113.3 GB, of which text and rows 108.0\n" in report


def test_a_span_names_its_unit_once():
    assert span(3e16, GPUS["h100"], 768) == "1 to 2 minutes"


def test_narrow_networks_are_slower_on_a_gpu_alone(monkeypatch):
    assert utilisation(GPUS["h100"], 384) == tuple(share / 2 for share in UTILISATION)
    assert utilisation(Gpu("2 CPU cores", 2e11, 0), 384) == UTILISATION
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    assert this_machine() == Gpu("this machine's RTX 4090", 165e12, 24e9)


def test_memory_is_that_of_parameters_activations_and_logits(shipped):
    config = shipped.models["small"].electra()
    units = 12 * 256 + 12 * 64
    expected = 0.6e9 + 18 * parameters(config, 30_522)
    expected += 34 * 128 * 128 * units + 8 * 128 * 19 * 30_522
    assert pretraining_memory(config, 30_522, 1) == expected
    # a tenth of the card is left free
    for memory, slices in ((expected, 2), (expected / 0.9 + 1, 1), (0.9e9, 0)):
        assert fitting_accumulate(config, 30_522, memory) == slices
    # 109 M weights of 18 bytes (4 on disk); 34 for each of 32 rows, 512 tokens, 12 layers, 768 units
    line = estimate.estimate_finetuning("base", shipped)
    assert line.endswith("; memory: 7.7 GB of the GPU; disk: 4.4 GB for 10 kept models")


def test_operations_are_those_of_every_row_epoch_order_arm_and_seed(here):
    params = load()
    flops = (
        3 * 20 * 2 * 2 * 2 * 3 * encoder_flops(params.models["smoke"].encoder, 16, 200, "matmul")
    )
    report = estimate.estimate_finetuning("own", params)
    assert f"at most {flops:.2g} floating" in report
    assert estimate.count_training_rows("mood", "own", params) == ROWS
    assert estimate.count_training_rows("rte", "smoke", params) == 1_000
    assert estimate.text_bytes(params, "smoke") == Path("text/a.txt").stat().st_size
    assert estimate.text_bytes(params, "absent") == 0


def test_a_name_says_all_of_its_trainings_and_what_is_not_there(here, run_command, refuse):
    report = run_command("estimate smoke")
    assert "20 steps read at most 0 M tokens" in report and "H100: 1 minute" in report
    assert "\non this machine's " in report
    assert "smoke, fine-tuning on cola" in report and "own, fine-tuning on mood" in report
    assert run_command("estimate own").startswith("own, fine-tuning")
    assert "published.elsewhere.folder" in run_command("estimate elsewhere")
    refuse(64, "estimate absent")


def test_an_ablation_is_a_line_with_all_of_its_runs(here, run_command):
    params = load()
    arms = plan_arms("objectives", params, 200)
    flops = sum(training_flops(arm.config, 200, "matmul") for arm in arms)
    # of four runs and half of each: two epochs of 1,000 rows
    encoder = params.models["smoke"].encoder
    flops += 4 * 2 * 3 * 2 * 1_000 * encoder_flops(encoder, 16, 200, "matmul")
    line, *_ = run_command("estimate objectives").splitlines()
    said = f"objectives, 4 runs: {flops:.2g} floating point operations; this machine's "
    assert line.startswith(said) and ", H100: 1 minute, " in line
