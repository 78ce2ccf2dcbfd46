"""Fine-tuned models as folders: stock transformers gives our outputs, and so do we when the folder
is read again.
"""

import dataclasses
import re
import shutil

import numpy as np
import pytest
import torch
import transformers

from electra.errors import BadConfig, BadInput, CorruptFile, UserError
from electra.files import read_json, write_json
from electra.finetuning.classification import Classification
from electra.finetuning.folder import is_finetuned, load_model, write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.tagging import Tagging
from electra.finetuning.tasks import GLUE, SQUAD_1, SQUAD_2
from electra.finetuning.training import read_outputs, train
from electra.nn.huggingface import ModelFolder, load_encoder, open_folder
from electra.storage.tensors import read_tensors, write_tensors
from tests.support.project import harm
from tests.support.tasks import CHUNKS, SQUAD, make_kinds, tagged_rows
from tests.support.tasks import CONFIG as ENCODER
from tests.support.tasks import FINETUNE as CONFIG


def test_a_folder_gives_the_outputs_of_its_network_again(each_model, tokenizer, tmp_path):
    torch.manual_seed(0)
    for name, network, task, config, examples in make_kinds(each_model, tokenizer):
        ours = read_outputs(network, examples)
        write_model(tmp_path / name, network, task, config, each_model)
        loaded = load_model(open_folder(tmp_path / name))
        # the network answers on the label's own scale
        assert loaded.task == dataclasses.replace(task, scale=1.0)
        assert loaded.config.length == 40
        assert loaded.config == config or config is CONFIG, "all that SQuAD's answers depend on"
        card = (tmp_path / name / "README.md").read_text()
        assert ('[("one text", ' in card) == (task.name in {"mnli", "stsb", "mrpc", "rte"})
        again = read_outputs(loaded.network, examples)
        for key, value in ours.items():
            scale = task.scale if key == "logits" else 1.0
            assert np.allclose(again[key], value * scale, atol=1e-5), (name, key)


def test_stock_transformers_gives_our_logits(model, tokenizer, tmp_path):
    torch.manual_seed(0)
    architectures = set()
    for name, network, task, config, examples in make_kinds(model, tokenizer):
        write_model(tmp_path / name, network, task, config, model)
        settings = read_json(tmp_path / name / "config.json")
        (architecture,) = settings["architectures"]
        peer, report = getattr(transformers, architecture).from_pretrained(
            tmp_path / name, output_loading_info=True
        )
        assert not any(report.values()), (name, report)
        architectures.add(architecture)
        if isinstance(peer, transformers.ElectraModel):
            assert settings.get("pooling", "") == getattr(network, "pooling", ""), name
            continue
        batch = examples.batch(np.arange(5))
        real_BT = batch.real_tokens()
        # stock models of words are fed segment 0
        segments_BT = batch.segments_BT * (not task.tagging)
        inputs = {"attention_mask": real_BT.long(), "token_type_ids": segments_BT}
        with torch.no_grad():
            theirs = peer(batch.ids_BT, **inputs)[0]
            if isinstance(network, SpanFinder):
                hidden = network.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B)
                ours = network.start(hidden)[..., 0]
            else:
                ours = network(batch) * task.scale
                assert list(settings["id2label"].values()) == (list(task.classes) or ["score"])
            if ours.shape[:2] == real_BT.shape:  # of tokens
                theirs = theirs[real_BT]
                ours = ours[real_BT]
        assert torch.allclose(theirs, ours, atol=1e-5), name
    assert len(architectures) == 4


@pytest.mark.parametrize(
    "labels, task",
    [
        ({}, True),
        ({"id2label": {"0": "O", "1": "B-X"}}, True),
        ({"id2label": {"0": "replaced"}}, False),
    ],
)
def test_a_modern_discriminator_has_one_label(tmp_path, labels, task):
    settings = {"architectures": ["ModernBertForTokenClassification"], **labels}
    write_json(tmp_path / "config.json", settings)
    assert is_finetuned(ModelFolder(tmp_path)) is task


@pytest.fixture
def answerer(model, tmp_path):
    """A fine-tuned folder with a head of its own."""
    network = SpanFinder(load_encoder(model, dropout=0.0), SQUAD)
    write_model(tmp_path / "m", network, SQUAD_2, SQUAD, model, seed=1)
    return tmp_path / "m"


READ = [
    *("config.json", "model.safetensors", "span_head.safetensors", "task.json"),
    *("tokenizer.json", "vocab.txt", "tokenizer_config.json"),
]


def test_a_model_of_both_versions_may_leave_a_question_unanswered(answerer):
    assert load_model(open_folder(answerer)).task is SQUAD_2
    (answerer / "MANIFEST.json").unlink()
    for versions, task in ((["1.1", "2.0"], SQUAD_2), (["1.1"], SQUAD_1)):
        squad = read_json(answerer / "task.json")["squad"] | {"versions": versions}
        write_json(answerer / "task.json", {"squad": squad})
        assert load_model(open_folder(answerer)).task is task


def test_damage_to_a_kept_model_is_one_sentence(answerer, tmp_path, capsys):
    assert {path.name for path in answerer.iterdir()} == {*READ, "MANIFEST.json", "README.md"}
    for name in [*READ, "MANIFEST.json"]:
        for how in ("flipped", "cut", "folder", "missing"):
            damaged = shutil.copytree(answerer, tmp_path / f"{name}-{how}")
            harm(damaged / name, how)
            if (name, how) == ("MANIFEST.json", "missing"):  # then it is as one from elsewhere
                load_model(open_folder(damaged))
                assert "MANIFEST.json: its bytes were not checked" in capsys.readouterr().err
                continue
            with pytest.raises(CorruptFile, match=rf"{name}|has no MANIFEST"):
                load_model(open_folder(damaged))


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("config.json", b"[]", "config.json: is a list instead of a JSON object"),
        ("config.json", b'{"model_type": "electra"', "is malformed"),
        ("task.json", b'{"length": "long"}', "length is 'long'; it should be 8 to the model's 64"),
        ("task.json", b'{"length": 65}', "length is 65; it"),
        ("task.json", b'{"length": 40, "squad": {"head": "both"}}', "squad.head: is 'both'"),
        ("task.json", b'{"length": 8, "squad": {}}', "squad.stride: is 128, should be at most -59"),
        ("task.json", b'{"length": 40, "squad": 5}', "has no tensor end_alone.weight"),
        ("task.json", b'{"length": 40}', "has no tensor classifier.dense.weight, classifier.de"),
        ("tokenizer.json", b"[]", "tokenizer.json: is not a tokenizer.json"),
        ("model.safetensors", b"\xff" * 64, "is not a whole safetensors file"),
        ("span_head.safetensors", b"\x02" + bytes(7) + b"{}", "has no tensor start.weight"),
    ],
)
def test_nonsense_from_elsewhere_is_one_sentence(answerer, name, content, sentence):
    (answerer / "MANIFEST.json").unlink()
    (answerer / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(sentence)):
        load_model(open_folder(answerer))


def test_a_head_is_loaded_whole_or_not_at_all(answerer, model, tmp_path):
    (answerer / "MANIFEST.json").unlink()
    (answerer / "span_head.safetensors").unlink()
    with pytest.raises(BadInput, match=r"has no tensor qa_outputs.*; give the folder of a"):
        load_model(open_folder(answerer))
    network = Classifier(load_encoder(model), 2, 0.0, "max")
    classifier = tmp_path / "c"
    write_model(classifier, network, GLUE["cola"], CONFIG, model)
    (classifier / "MANIFEST.json").unlink()
    head = classifier / "pooled_head.safetensors"
    write_tensors(head, read_tensors(head, "") | {"pooler": torch.zeros(1)})
    with pytest.raises(BadInput, match="has pooler, which this network does not have"):
        load_model(open_folder(classifier))
    facts = read_json(classifier / "task.json")
    for key in ("pooling", "head_layers"):
        write_json(classifier / "task.json", facts | {key: "min"})
        with pytest.raises(BadConfig, match=f"{key}: is 'min', should be '"):
            load_model(open_folder(classifier))


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(answerer):
    (answerer / "MANIFEST.json").unlink()
    path = answerer / "vocab.txt"
    (answerer / "tokenizer.json").unlink()
    path.write_text(f"{path.read_text()}another\n")
    with pytest.raises(BadInput, match=r"the tokenizer has [\d,]+ pieces and the model only"):
        load_model(open_folder(answerer))


def test_settings_that_do_not_fit_a_task_are_refused():
    many = dataclasses.replace(GLUE["rte"], labels=tuple("abcdefghijklmnopq"))
    with pytest.raises(BadConfig, match="a model of 17 classes, and the encoder has room for 16"):
        Classification(many).check_config(CONFIG, ENCODER, "first")
    Classification(many).check_config(CONFIG, ENCODER, "none")
    Classification(dataclasses.replace(many, labels=many.labels[1:])).check_config(
        CONFIG, ENCODER, "first"
    )
    for key, value, kept in (("pooling", "max", "cls"), ("head_layers", "all", "last")):
        config = dataclasses.replace(CONFIG, **{key: value})
        with pytest.raises(BadConfig, match=f"{key} {value}; expected {kept}: a tag is read from"):
            Tagging(CHUNKS).check_config(config, ENCODER, "none")


def test_tags_are_learned(model, tokenizer):
    config = dataclasses.replace(
        CONFIG, epochs=20, layer_decay=1.0, learning_rate=3e-3, bias_correction=True
    )
    torch.manual_seed(0)
    kind = Tagging(CHUNKS)
    network = kind.network(load_encoder(model, dropout=0.0), config)
    encoded = kind.encode(tagged_rows(60, 1), tokenizer, config)
    assert train(network, encoded.examples, config, seed=1, stream="t").finite
    dev = kind.encode(tagged_rows(20, 2), tokenizer, config)
    result = kind.score_split(read_outputs(network, dev.examples), dev, config, labelled=True)
    assert min(result.scores.values()) > 85 and result.fault is None, result.scores
    silent = {"tags": np.zeros((20, 40), int), "finite": np.arange(20) > 0}
    result = kind.score_split(silent, dev, config, labelled=True)
    assert result.fault == "no span was predicted in any row" and not result.finite
    assert set(result.files[".jsonl"][0]) == {"id", "words", "prediction", "label"}
    spanless = kind.encode([{"id": "0", "words": ["the"], "tags": ["O"]}], tokenizer, config)
    outputs = {"tags": np.zeros((1, 40), int), "finite": np.ones(1, bool)}
    assert kind.score_split(outputs, spanless, config, labelled=True).fault is None
