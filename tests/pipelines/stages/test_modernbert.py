"""A folder as ModernBERT's authors publish it, byte-level tokenizer and all: pre-trained further,
fine-tuned.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import electra
from pipelines.cli import main
from tests.support.byte_level import write_byte_level
from tests.support.project import SMOKE, copy_project

TEXT = "The ship didn't sail; it's in the harbour."
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
}
ENCODER = (
    "{kind: modern, layers: 3, hidden: 16, heads: 2, ffn: 24, embedding: 16, global_theta: 160000}"
)
RECIPE = "{run: [rte], defaults: {seeds: [1], epochs: 1, length: 64, max_train_rows: 64}}"
PARAMS = (
    SMOKE.replace(
        "smoke: {kind: train, vocab_size: 200}",
        "smoke: {kind: vocab, file: theirs/masked_lm/tokenizer.json}",
    )
    .replace("encoders:\n", f"encoders:\n  modern: {ENCODER}\n")
    .replace(
        "encoder: smoke\n    generator: {width: 0.5}",
        "encoder: modern\n    objective: {name: mlm, sharing: tokens}",
    )
    .replace("save_every: 5}", "save_every: 5, init_from: theirs}")
    .replace("published: {}", "published: {theirs: {folder: theirs/masked_lm}}")
    .replace("  smoke: {}\nmodels", f"  smoke: {RECIPE}\nmodels")
    .replace("  smoke: {model: smoke,", "  smoke: {model: theirs,")
    .replace(", arms: [pretrained, scratch]", "")
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project next to a published folder."""
    folder = copy_project(tmp_path_factory.mktemp("stage") / "project")
    torch.manual_seed(0)
    theirs = folder / "theirs" / "masked_lm"
    write_byte_level(theirs)
    pieces = transformers.AutoTokenizer.from_pretrained(theirs)
    ends = {
        f"{name}_token_id": getattr(pieces, f"{name}_token_id") for name in ("pad", "cls", "sep")
    }
    settings = transformers.ModernBertConfig(vocab_size=len(pieces), **SIZES, **ends)
    transformers.ModernBertForMaskedLM(settings).save_pretrained(theirs)
    (folder / "params.yaml").write_text(PARAMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def test_it_goes_on_learning_on_ones_own_text(project):
    assert main(["check", "smoke"]) == 0
    for stage in ("corpus", "tokens", "pretrain"):
        assert main([stage, "smoke"]) == 0
    pieces = [
        transformers.AutoTokenizer.from_pretrained(f"{at}/masked_lm")
        for at in ("theirs", "build/models/smoke")
    ]
    assert [each(TEXT)["input_ids"] for each in pieces] == [pieces[0](TEXT)["input_ids"]] * 2
    ours = transformers.ModernBertForMaskedLM.from_pretrained("build/models/smoke/masked_lm")
    assert ours.config.pad_token_id == pieces[0].pad_token_id != 0


def test_it_is_fine_tuned_and_a_text_is_read_as_transformers_reads_it(project):
    for stage, name in (("tasks", "smoke"), ("published", "theirs"), ("glue", "smoke")):
        assert main([stage, name]) == 0
    folder = Path("build/glue/smoke/rte/pretrained-seed1")
    peer = transformers.ModernBertModel.from_pretrained(folder)
    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    assert peer.config.pad_token_id == pieces.pad_token_id != 0
    with torch.no_grad():
        states = peer.eval()(**pieces(TEXT, return_tensors="pt")).last_hidden_state
    np.testing.assert_allclose(electra.load(folder).embed([TEXT])[0], states[0].mean(0), atol=1e-5)
