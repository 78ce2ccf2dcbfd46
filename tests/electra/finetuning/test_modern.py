"""Fine-tuning a modern encoder: what holds of BERT's holds of it, tested by the same tests on
another folder.
"""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.files import write_json
from electra.finetuning.batches import stack as examples_of
from electra.finetuning.classification import encode
from electra.finetuning.folder import is_finetuned, load_model, write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_questions
from electra.finetuning.tagging import Tagger, Tagging
from electra.finetuning.tasks import GLUE, SQUAD_2, FinetuneConfig, SquadConfig
from electra.finetuning.training import optimizer_for, read_outputs
from electra.nn.factory import add_fresh_layers, initialise, make_encoder
from electra.nn.hf_names import architecture_of, config_json
from electra.nn.huggingface import (
    TOKENIZER_FILES,
    ModelFolder,
    load_encoder,
    network_tensors,
    open_folder,
    write_folder,
)
from electra.pretraining.networks import Discriminator, Generator

from .conftest import MODERN, glue_rows, squad_rows
from .test_folder import CHUNKS, CONFIG, peer, tagged_rows


def test_each_layer_has_its_share_of_the_rate(modern_model):
    network = Classifier(load_encoder(modern_model), 2, 0.0)
    add_fresh_layers(network.encoder, 1, 1)
    config = dataclasses.replace(
        CONFIG, layer_decay=0.5, layer_decay_exponent="plain", fresh_layers=1
    )
    groups = optimizer_for(network, config).param_groups
    share = {id(parameter): group["scale"] for group in groups for parameter in group["params"]}
    shares = {name: share[id(parameter)] for name, parameter in network.named_parameters()}
    expected = {
        "embeddings": 0.5**4,
        "layers.0": 0.5**3,
        "layers.2": 0.5,
        "layers.3": 1,
        "final_norm": 1,
        "head": 1,
    }
    for part, rate in expected.items():
        assert {value for name, value in shares.items() if part in name} == {rate}, part


def kinds(model, tokenizer):
    """Each kind of fine-tuned network with its task, settings and rows."""
    make = lambda: load_encoder(model, dropout=0.0)  # noqa: E731
    squad = SquadConfig(length=40, stride=12, question_length=10, beam=3)
    rows = encode_questions(squad_rows(9, 1, impossible=True), tokenizer, squad)
    independent = dataclasses.replace(squad, head="independent")
    tagger, tags = Tagger(make(), len(CHUNKS.classes), 40), encode_tags(tokenizer)
    for name, task, pooling in (("classes", "mnli", "cls"), ("number", "stsb", "max")):
        examples = encode(glue_rows(task, 9, 1), GLUE[task], tokenizer, 40)
        yield (
            name,
            Classifier(make(), len(GLUE[task].labels), 0.0, pooling),
            GLUE[task],
            CONFIG,
            examples,
        )
    yield "tags", tagger, CHUNKS, CONFIG, tags
    yield "spans", SpanFinder(make(), squad), SQUAD_2, squad, rows.examples
    yield "ends", SpanFinder(make(), independent), SQUAD_2, independent, rows.examples


def encode_tags(tokenizer):
    return Tagging(CHUNKS).encode(tagged_rows(6, 1), tokenizer, FinetuneConfig(length=40)).examples


def test_each_kind_of_model_is_a_folder_that_gives_its_outputs_again(
    modern_model, tokenizer, tmp_path
):
    """Beside an encoder that stock transformers loads whole and agrees with."""
    torch.manual_seed(0)
    for name, network, task, config, examples in kinds(modern_model, tokenizer):
        scale = task.scale if task else 1.0
        ours = read_outputs(network, examples)
        write_model(tmp_path / name, network, task, config, modern_model)
        theirs = peer(transformers.AutoModel, tmp_path / name)
        assert type(theirs).__name__ == "ModernBertModel"
        batch = examples.batch(np.arange(6))
        real_BT = batch.real_tokens()
        with torch.no_grad():
            states = theirs(batch.ids_BT, attention_mask=real_BT.long()).last_hidden_state
            ours_BTH = network.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
            assert torch.allclose(states[real_BT], ours_BTH[real_BT], atol=1e-5)
        again = read_outputs(load_model(open_folder(tmp_path / name)).network, examples)
        for key, value in ours.items():
            factor = scale if key == "logits" else 1.0
            assert np.allclose(again[key], value * factor, atol=1e-5), (name, key)


@pytest.mark.parametrize(("labels", "task"), [({}, True), ({"id2label": None}, True), ({"id2label": 5}, True), ({"id2label": {"0": "replaced"}}, False)])  # fmt: skip
def test_a_head_of_labels_is_told_from_a_discriminators(tmp_path, labels, task):
    write_json(
        tmp_path / "config.json", {"architectures": ["ModernBertForTokenClassification"], **labels}
    )
    assert is_finetuned(ModelFolder(tmp_path)) is task


def test_padding_that_is_far_from_all_words_gives_no_number_that_is_none(modern_model):
    """Row of 30 beside one of 3: with a window of 6 its padding would see nothing."""
    encoder = load_encoder(modern_model)
    examples = examples_of([[2, *[7] * 28, 3], [2, 7, 3]], [30, 3], {}, [])
    batch = examples.batch(np.arange(2))
    states = encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
    states.sum().backward()
    assert bool(states.isfinite().all()) and MODERN.window == 6
    assert all(
        bool(each.grad.isfinite().all()) for each in encoder.parameters() if each.grad is not None
    )


def test_the_library_reads_its_folders(modern_model, tokenizer, tmp_path):
    texts = ["the old cat sleeps near the river.", "a dog runs."]
    files = {name: (modern_model / name).read_text() for name in TOKENIZER_FILES}
    torch.manual_seed(0)
    for name, kind in (("discriminator", Discriminator), ("generator", Generator)):
        network = kind(make_encoder(MODERN, tokenizer.vocab_size))
        initialise(network, MODERN)
        settings = config_json(MODERN, tokenizer.vocab_size, architecture_of(network.head))
        write_folder(
            tmp_path / name, network_tensors(network.encoder, network.head), settings, files, ""
        )
        assert electra.load(tmp_path / name).kind == name
    judged = electra.load(tmp_path / "discriminator").replaced(texts)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(
        tmp_path / "discriminator"
    ).eval()
    ids = torch.tensor(
        [[tokenizer.cls_id, *tokenizer.encode_lines(texts[:1])[0], tokenizer.sep_id]]
    )
    with torch.no_grad():
        assert np.allclose(
            judged[0].probability, theirs(ids).logits[0, 1:-1, 0].sigmoid(), atol=1e-5
        )
    assert (
        electra.load(modern_model).embed(texts).shape == (2, 32)
        and electra.load(modern_model).kind == "encoder"
    )
    assert electra.corrupt(texts[0], tmp_path / "generator").original == texts[0]
    assert len(electra.propose("the old [MASK] sleeps", tmp_path / "generator")) == 1
