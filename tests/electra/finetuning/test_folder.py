"""Fine-tuned models as folders: stock transformers gives our outputs, and so do we when the folder
is read again.
"""

import dataclasses
import json
import random
import re

import numpy as np
import pytest
import torch
import transformers

from electra.errors import BadConfig, BadInput, CorruptFile, UserError
from electra.files import read_jsonl, write_json, write_jsonl
from electra.finetuning import folder as folders
from electra.finetuning.classification import encode
from electra.finetuning.folder import load_model, write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.labels import iob2
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.squad.windows import encode as encode_questions
from electra.finetuning.tagging import Tagger, Tagging
from electra.finetuning.tasks import FACTS, GLUE, SQUAD_2, FinetuneConfig, SquadConfig, Task
from electra.finetuning.training import read_outputs
from electra.nn.factory import add_fresh_layers
from electra.nn.huggingface import FILES, load_encoder, open_folder
from electra.storage.tensors import read_tensors, write_tensors
from pipelines.finetuning_runs.job import MODEL
from pipelines.finetuning_runs.plan import Plan, run
from tests.conftest import each_with_some, harm

from .conftest import WORDS, glue_rows, squad_rows

CONFIG = FinetuneConfig(
    learning_rate=1e-3, epochs=2, batch=16, length=40, seeds=(1,), arms=("pretrained",)
)
CHUNKS = Task(
    name="chunks", title="chunks", labels=("NP", "VP"), metrics=("entity_f1", "accuracy"), tagging=True,
    columns=("words",),
)  # fmt: skip


def tagged_rows(count: int, seed: int) -> list[dict]:
    """Animals are NP, with the colour before them; verbs are VP."""
    draw, rows = random.Random(seed), []
    for number in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.randint(2, 9))]
        found = [
            ("VP", at, at)
            for at, word in enumerate(words)
            if word in {"runs", "sleeps", "sings", "eats"}
        ]
        found += [
            ("NP", at, at)
            for at, word in enumerate(words)
            if word in {"cat", "dog", "bird", "fish"}
        ]
        rows.append({"id": str(number), "words": words, "tags": iob2(found, len(words))})
    return rows


def write_task(folder, task, **splits):
    write_json(folder / FACTS, folders.plain(task))
    for split, rows in splits.items():
        write_jsonl(folder / f"{split}.jsonl", rows)


def peer(kind, folder):
    found, report = kind.from_pretrained(folder, output_loading_info=True)
    assert (
        not report["missing_keys"]
        and not report["unexpected_keys"]
        and not report["mismatched_keys"]
    )
    return found.eval()


@pytest.mark.parametrize(("task", "fresh"), [("mnli", 0), ("stsb", 0), ("cola", 2)])
def test_classes_and_numbers(task, fresh, model, tokenizer, tmp_path):
    facts, network, examples, ours = classifier(task, fresh, model, tokenizer)
    write_model(tmp_path / "m", network, facts, CONFIG, model)
    theirs = peer(transformers.ElectraForSequenceClassification, tmp_path / "m")
    batch = examples.batch(np.arange(9))
    with torch.no_grad():
        mask = batch.real_tokens().long()
        found = theirs(
            batch.ids_BT, attention_mask=mask, token_type_ids=batch.segments_BT
        ).logits.numpy()
    assert np.abs(found - ours).max() < 1e-5
    ready = load_model(open_folder(tmp_path / "m"))
    assert ready.task.labels == facts.labels and ready.config.length == 40
    assert np.abs(read_outputs(ready.network, examples)["logits"] - ours).max() < 1e-5
    config = json.loads((tmp_path / "m/config.json").read_text())
    assert list(config["id2label"].values()) == (list(facts.labels) or ["score"])
    assert config["num_hidden_layers"] == 2 + fresh and "pooling" not in config


def classifier(task, fresh, model, tokenizer, *head):
    """A task, a network, rows, and the logits on the label's own scale."""
    facts, encoder = GLUE[task], load_encoder(model, dropout=0.0)
    add_fresh_layers(encoder, fresh, 1)
    torch.manual_seed(1)
    network = Classifier(encoder, len(facts.labels), 0.0, *head)
    torch.nn.init.normal_(network.head.bias)
    examples = encode(glue_rows(task, 9, 1), facts, tokenizer, 40)
    return facts, network, examples, read_outputs(network, examples)["logits"] * facts.scale


HEADS = [
    ("mnli", "max", "last"),
    ("stsb", "mean", "last"),
    ("cola", "pair", "last"),
    ("mrpc", "pair", "all"),
]


@pytest.mark.parametrize(
    ("task", "pooling", "layers"), [*HEADS, ("rte", "align", "all"), ("rte", "cls", "all")]
)
def test_heads_of_other_kinds_are_beside_an_encoder_that_stock_transformers_loads(
    task, pooling, layers, model, tokenizer, tmp_path
):
    facts, network, examples, ours = classifier(task, 1, model, tokenizer, pooling, layers)
    write_model(tmp_path / "m", network, facts, CONFIG, model)
    theirs = peer(transformers.ElectraModel, tmp_path / "m")
    assert (
        theirs.config.pooling == pooling
        and f'"pooling": "{pooling}"' in (tmp_path / "m/task.json").read_text()
    )
    ready = load_model(open_folder(tmp_path / "m"))
    assert ready.network.head[0].out_features == 2 * len(network.head.weight)
    assert np.abs(read_outputs(ready.network, examples)["logits"] - ours).max() < 1e-5
    (tmp_path / "m/MANIFEST.json").unlink()
    facts_there = json.loads((tmp_path / "m" / FACTS).read_text())
    for key, known in (("pooling", "cls, mean, max, pair"), ("head_layers", "last, all")):
        write_json(tmp_path / "m" / FACTS, {**facts_there, key: "min"})
        with pytest.raises(BadInput, match=f"{key} is 'min'; it should be one of {known}"):
            load_model(open_folder(tmp_path / "m"))


def test_tags_also_with_the_segments_that_stock_models_are_fed(model, tokenizer, tmp_path):
    rows = tagged_rows(6, 1)
    torch.manual_seed(1)
    network = Tagger(load_encoder(model, dropout=0.0), len(CHUNKS.classes), 40)
    examples = Tagging(CHUNKS).encode(rows, tokenizer, CONFIG).examples
    write_model(tmp_path / "m", network, CHUNKS, CONFIG, model)
    theirs = peer(transformers.ElectraForTokenClassification, tmp_path / "m")
    batch = examples.batch(np.arange(6))
    assert torch.equal(batch.segments_BT, batch.real_tokens().long())
    seen = batch.real_tokens().long()
    ours = read_outputs(network, examples)["tags"]
    with torch.no_grad():
        found = (theirs(batch.ids_BT, attention_mask=seen).logits.argmax(-1) * seen).numpy()
    assert (found == ours[:, : found.shape[1]]).all()
    assert (
        read_outputs(load_model(open_folder(tmp_path / "m")).network, examples)["tags"] == ours
    ).all()


@pytest.mark.parametrize("head", ["conditional", "independent"])
def test_answers(head, model, tokenizer, tmp_path):
    config = SquadConfig(length=40, stride=12, question_length=10, beam=5, head=head)
    torch.manual_seed(1)
    network = SpanFinder(load_encoder(model, dropout=0.0), config)
    reading = encode_questions(squad_rows(4, 1, impossible=True), tokenizer, config)
    ours = read_outputs(network, reading.examples)
    write_model(tmp_path / "m", network, SQUAD_2, config, model)
    ready = load_model(open_folder(tmp_path / "m"))
    assert ready.config.head == head and ready.config.beam == 5
    again = read_outputs(ready.network, reading.examples)
    assert all(
        np.allclose(ours[name], again[name], atol=1e-5)
        for name in ("start_score", "end_score", "null")
    )
    if head == "independent":
        theirs = peer(transformers.ElectraForQuestionAnswering, tmp_path / "m")
        batch = reading.examples.batch(np.array([0]))
        ids, segments = batch.ids_BT, batch.segments_BT
        with torch.no_grad():
            start = theirs(ids, token_type_ids=segments).start_logits[0]
        mine = network._read(batch)[1][0]
        assert torch.allclose(start[segments[0] == 1], mine[segments[0] == 1], atol=1e-5)
    else:
        assert peer(transformers.ElectraModel, tmp_path / "m")


def test_a_folder_that_others_fine_tuned(model, tokenizer, tmp_path):
    values = transformers.ElectraConfig.from_pretrained(
        model, num_labels=3, id2label={0: "no", 1: "yes", 2: "so"}
    )
    torch.manual_seed(2)
    theirs = transformers.ElectraForSequenceClassification(values).eval()
    theirs.save_pretrained(tmp_path / "m")
    (tmp_path / "m/tokenizer.json").write_text((model / "tokenizer.json").read_text())
    ready = load_model(open_folder(tmp_path / "m"))
    assert ready.task.labels == ("no", "yes", "so")
    examples = encode([{"id": "0", "a": "the cat runs", "b": None}], ready.task, tokenizer, 40)
    with torch.no_grad():
        expected = theirs(torch.tensor(examples.ids_S[None].astype(np.int64))).logits.numpy()
    assert np.abs(read_outputs(ready.network, examples)["logits"] - expected).max() < 1e-5
    with pytest.raises(
        BadInput, match=r"has no classifier\.dense, so it is not a fine-tuned model"
    ):
        load_model(open_folder(model))


@pytest.fixture
def answerer(model, tmp_path):
    """A fine-tuned folder with a head of its own."""
    config = SquadConfig(length=40, stride=12, question_length=10)
    write_model(
        tmp_path / "m",
        SpanFinder(load_encoder(model, dropout=0.0), config),
        SQUAD_2,
        config,
        model,
        seed=1,
    )
    return tmp_path / "m"


KEPT = [*FILES[:7], "MANIFEST.json"]


@pytest.mark.parametrize(
    ("name", "how"), each_with_some(KEPT, ["flipped", "cut", "folder", "missing"])
)
def test_damage_to_a_kept_model_is_one_sentence(answerer, name, how, capsys):
    assert {path.name for path in answerer.iterdir()} == {*KEPT, "README.md"}
    harm(answerer / name, how)
    if (name, how) == ("MANIFEST.json", "missing"):  # then it is as one from elsewhere
        load_model(open_folder(answerer))
        assert "has no MANIFEST.json: its bytes were not checked" in capsys.readouterr().err
        return
    with pytest.raises(CorruptFile, match=rf"{name}|has no MANIFEST"):
        load_model(open_folder(answerer))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", b"[]", "config.json: is a list instead of a JSON object"),
        ("config.json", b"{}", "is of a model of type None; expected electra"),
        ("config.json", b'{"model_type": "electra"', "is malformed"),
        ("config.json", b"\xff\xfe", "is malformed"),
        ("task.json", b'{"length": "long"}', "length is 'long'; it should be 8 to the model's 64 positions"),
        ("task.json", b'{"length": 40, "squad": {"length": 40, "head": "both"}}', "squad.head: is 'both'"),
        ("task.json", b'{"length": 40, "squad": {"length": 40, "beam": 1000000000}}', "squad.beam: is 1000000000, should be less than or equal to 200"),
        ("task.json", b'{"length": 40}', "has no classifier.dense, so it is not a fine-tuned model"),
        ("tokenizer.json", b"[]", "tokenizer.json: is not a tokenizer.json"),
        ("model.safetensors", b"\xff" * 64, "model.safetensors: is not a whole safetensors file"),
        ("span_head.safetensors", b'\x02' + bytes(7) + b"{}", "has no tensor start.weight, start.bias, end.both.weight and 7 more"),
    ],
)  # fmt: skip
def test_nonsense_from_elsewhere_is_one_sentence(answerer, name, content, told):
    (answerer / "MANIFEST.json").unlink()
    (answerer / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(told)):
        load_model(open_folder(answerer))


def test_a_head_is_loaded_whole_or_not_at_all(answerer, model, tmp_path):
    write_model(
        tmp_path / "c", Classifier(load_encoder(model), 2, 0.0), GLUE["cola"], CONFIG, model
    )
    for path, changes, told in (
        (
            answerer / "span_head.safetensors",
            {"start.weight": None},
            "has no tensor start.weight of this network",
        ),
        (
            answerer / "span_head.safetensors",
            {"begin": torch.zeros(1)},
            "has begin, which this network does not have",
        ),
        (
            answerer / "span_head.safetensors",
            {"start.weight": torch.zeros(1, 5)},
            "(1, 5) instead of (1, 32)",
        ),
        (
            tmp_path / "c/model.safetensors",
            {"classifier.out_proj.weight": torch.zeros(3, 32)},
            "instead of (2, 32)",
        ),
        (
            tmp_path / "c/model.safetensors",
            {"pooler": torch.zeros(1)},
            "has pooler, which this network does not have",
        ),
    ):
        (path.parent / "MANIFEST.json").unlink(missing_ok=True)
        good = read_tensors(path, "")
        write_tensors(
            path, {name: value for name, value in {**good, **changes}.items() if value is not None}
        )
        with pytest.raises(BadInput, match=re.escape(told)):
            load_model(open_folder(path.parent))
        write_tensors(path, good)
    (answerer / "span_head.safetensors").unlink()
    with pytest.raises(BadInput, match="has no qa_outputs"):
        load_model(open_folder(answerer))


def test_pooling_is_refused_where_each_token_is_read(model, tmp_path):
    write_task(tmp_path, CHUNKS, train=tagged_rows(3, 1), dev=tagged_rows(3, 1))
    for key, value, kept in (("pooling", "max", "cls"), ("head_layers", "all", "last")):
        config = dataclasses.replace(CONFIG, **{key: value})
        with pytest.raises(
            BadConfig, match=f"{key} {value}; expected {kept}: a tag is read from each token"
        ):
            Plan("chunks", config, rows=tmp_path, model=model, state=tmp_path / "s").jobs()


def test_a_job_on_tags_leaves_scores_predictions_and_a_model(model, tmp_path):
    rows = tmp_path / "rows"
    test = [{**row, "tags": None} for row in tagged_rows(5, 3)]
    write_task(rows, CHUNKS, train=tagged_rows(60, 1), dev=tagged_rows(20, 2), test=test)
    fast = {
        "epochs": 20,
        "dropout": 0.0,
        "layer_decay": 1.0,
        "learning_rate": 3e-3,
        "bias_correction": True,
    }
    config = dataclasses.replace(CONFIG, test=True, **fast)
    (job,) = Plan("chunks", config, rows=rows, model=model, state=tmp_path / "state").jobs()
    record = run(job)
    assert set(record["metrics"]) == {"entity_f1", "accuracy"} and record["failed"] is None
    assert record["metrics"]["entity_f1"] > 60
    line = read_jsonl(job.folder / "test.jsonl")[0]
    assert set(line) == {"id", "words", "prediction", "label"} and len(line["prediction"]) == len(
        line["words"]
    )
    assert load_model(open_folder(job.folder / MODEL)).task == CHUNKS


def test_more_classes_than_a_stock_head_can_hold_are_refused_unless_no_model_is_kept(
    model, tmp_path
):
    many = Task(name="many", title="many", labels=tuple(map(str, range(17))), metrics=("accuracy",))
    rows = [{"id": "0", "a": "the cat", "b": None, "label": "3"}]
    write_task(tmp_path, many, train=rows, dev=rows)
    with pytest.raises(
        BadConfig, match=r"a model of 17 classes, and the encoder has room for 16; set keep"
    ):
        Plan("many", CONFIG, rows=tmp_path, model=model, state=tmp_path / "s").jobs()
    assert Plan(
        "many", CONFIG, rows=tmp_path, model=model, state=tmp_path / "s", keep="none"
    ).jobs()
