"""The library gives what transformers gives, in numpy and the texts' order, and says in a sentence
what it cannot.
"""

import contextlib
import json
import random
import resource
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.errors import BadConfig, BadDevice, BadInput, CorruptFile, NonFinite
from electra.finetuning.tasks import GLUE, SQUAD_2, Task
from electra.inference import as_row, input_schema
from electra.nn import huggingface
from electra.storage.tensors import read_tensors, write_tensors
from tests.conftest import ROOT, run
from tests.electra.made_up_models import CHUNKS, MOOD, SEEN

TEXTS = ["The chef cooked the meal.", "a dog", "", "What is near the red cat, and who ate bread?"]


def peer(kind, folder: Path):
    return kind.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


def outputs(network, encoded):
    with torch.no_grad():
        return network(**encoded)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]], ids=["padded", "alone"])
def test_replaced_is_what_transformers_says(models: Path, texts: list[str]) -> None:
    network, tokenizer = peer(transformers.ElectraForPreTraining, models / "discriminator")
    encoded = tokenizer(texts, padding=True, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping").numpy()
    expected = outputs(network, encoded).logits.sigmoid().numpy()
    found = electra.load(models / "discriminator").replaced(iter(texts))
    assert [judged.text for judged in found] == texts
    for row, judged in enumerate(found):
        inner = slice(1, int(encoded["attention_mask"][row].sum()) - 1)
        assert judged.tokens == tokenizer.convert_ids_to_tokens(encoded["input_ids"][row][inner])
        assert (judged.offsets == offsets[row][inner]).all() and judged.offsets.shape == (
            len(judged.tokens),
            2,
        )
        assert judged.probability.dtype == np.float32
        np.testing.assert_allclose(judged.probability, expected[row][inner], atol=1e-5)
    first = found[0]
    assert [first.text[start:end] for start, end in first.offsets][:3] == ["The", "chef", "cooked"]
    assert first.probability.std() > 0.01  # an untrained network, but no constant


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]], ids=["padded", "alone"])
@pytest.mark.parametrize("folder", ["discriminator", "encoder"])
def test_embeddings_are_pooled_hidden_states(models: Path, texts: list[str], folder: str) -> None:
    network, tokenizer = peer(transformers.AutoModel, models / folder)
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    states, real = (
        outputs(network, encoded).last_hidden_state,
        encoded["attention_mask"][..., None].bool(),
    )
    expected = {
        "cls": states[:, 0],
        "mean": states.masked_fill(~real, 0).sum(1) / real.sum(1),
        "max": states.masked_fill(~real, -torch.inf).amax(1),
    }
    model = electra.load(models / folder)
    for pooling, vectors in expected.items():
        found = model.embed(texts, pooling=pooling)
        assert found.shape == (len(texts), 32) and found.dtype == np.float32
        np.testing.assert_allclose(found, vectors.numpy(), atol=1e-5)
    assert (model.embed(texts) == model.embed(texts, pooling="mean")).all()


def test_many_texts_keep_their_order(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = electra.load(models / "discriminator")
    texts = [" ".join(["cat", "the red dog"][k % 2] for k in range(n % 11)) for n in range(40)]
    vectors, judged = model.embed(texts), model.replaced(texts)
    monkeypatch.setattr("electra.inference._TEXTS", 7)
    np.testing.assert_allclose(model.embed(texts), vectors, atol=1e-6)
    for one, again in zip(judged, model.replaced(texts), strict=True):
        assert one.tokens == again.tokens
        np.testing.assert_allclose(one.probability, again.probability, atol=1e-6)


def test_a_long_text_is_cut_with_a_warning(models: Path) -> None:
    model = electra.load(models / "discriminator")
    assert model.length == SEEN
    fits, long = "cat " * (SEEN - 2), "cat " * (SEEN - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = model.embed([fits])
    with pytest.warns(
        UserWarning, match="discriminator: texts are read up to 48 tokens, the rest is left out"
    ) as told:
        assert np.allclose(model.embed([long]), whole, atol=1e-6)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="read up to 48") as told:
        assert len(model.replaced([long])[0].tokens) == SEEN - 2
    assert told[0].filename == __file__


def test_rows_are_answered_as_the_command_line_answers_them(models: Path) -> None:
    texts = ["the chef cooked", "a cat is red"]
    alike = [
        texts,
        [{"a": text} for text in texts],
        [{"id": n, "a": text} for n, text in enumerate(texts)],
    ]
    first, *others = [electra.load(models / "cola").predict(rows) for rows in alike]
    assert [row["id"] for row in first] == ["0", "1"] and all(other == first for other in others)
    assert sum(first[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert first[0]["prediction"] == max(
        first[0]["probabilities"], key=first[0]["probabilities"].get
    )
    rte = electra.load(models / "rte")
    pair = rte.predict([("a cat", "the dog")])
    assert (
        pair == rte.predict([{"a": "a cat", "b": "the dog"}]) != rte.predict([("the dog", "a cat")])
    )
    assert isinstance(electra.load(models / "stsb").predict([("a", "b")])[0]["prediction"], float)
    mood = electra.load(models / "mood")
    (own,) = mood.predict([{"body": "the cat", "number": 7}])
    assert own["id"] == "7" and own["prediction"] in {"bad", "good"}
    assert mood.predict(["the cat"])[0]["probabilities"] == own["probabilities"]


def test_words_get_tags_with_their_probabilities(models: Path) -> None:
    model = electra.load(models / "chunks")
    words = ["the", "zebra", "ate"] * 20  # zebra is five pieces: 40 tokens end before the words do
    found, again, text = model.predict([words, {"tokens": words[:3]}, "the zebra ate"])
    assert len(found["tags"]) == len(found["probabilities"]) == 60 and found["words"] == words
    read = [share for share in found["probabilities"] if share is not None]
    assert 10 < len(read) < 30 and found["probabilities"][len(read) :] == [None] * (60 - len(read))
    # the best of 5
    assert set(found["tags"][len(read) :]) == {"O"} and all(0.2 <= share <= 1 for share in read)
    assert again["probabilities"] == text["probabilities"] and again["words"] == text["words"]
    network, tokenizer = peer(transformers.ElectraForTokenClassification, models / "chunks")
    logits = outputs(
        network, tokenizer(words[:3], is_split_into_words=True, return_tensors="pt")
    ).logits[0]
    best = logits.softmax(-1).amax(-1)[[1, 2, 7]]
    np.testing.assert_allclose(again["probabilities"], best.numpy(), atol=1e-5)


def test_a_question_is_answered_with_its_place(models: Path) -> None:
    model, draw = electra.load(models / "squad2"), random.Random(1)
    words = ["The chef", "cooked", "a red", "meal,", "and the", "dog", "ate", "bread."]
    # several windows each
    contexts = [" ".join(draw.choice(words) for _ in range(60)) for _ in range(6)]
    found = [model.answer("who ate the meal?", context) for context in contexts]
    for answer, context in zip(found, contexts, strict=True):
        assert answer["best"] == context[answer["start"] :][: len(answer["best"])] != ""
        assert (
            answer["prediction"] in {"", answer["best"]}
            and answer["n_best"][0]["text"] == answer["best"]
        )
        assert sum(span["probability"] for span in answer["n_best"]) == pytest.approx(1, abs=1e-4)
    assert max(answer["start"] for answer in found) > 150  # beyond the first window
    rows = [
        {"question": "who ate the meal?", "context": context, "id": n}
        for n, context in enumerate(contexts)
    ]
    for n, (answer, again) in enumerate(zip(found, model.predict(rows), strict=True)):
        assert again["id"] == str(n) and (again["start"], again["best"]) == (
            answer["start"],
            answer["best"],
        )


ASKED = {
    "discriminator": lambda m: m.replaced(["a cat", "a dog"]),
    "encoder": lambda m: m.embed(["a cat"]),
    "generator": lambda m: electra.propose("a [MASK] cat", m),
    "cola": lambda m: m.predict(["a cat"]),
    "stsb": lambda m: m.predict([("a cat", "a dog")]),
    "chunks": lambda m: m.predict([["a", "cat"]]),
    "squad2": lambda m: m.answer("who", "a cat"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_network_that_has_failed_answers_nothing(models: Path, tmp_path: Path, name: str) -> None:
    """Neither with weights that are not finite nor with finite ones whose outputs are not."""
    model = electra.load(models / name)
    ASKED[name](model)
    with torch.no_grad():
        model.encoder.layers[-1].ffn_norm.bias.fill_(3e38)
        model.encoder.layers[-1].ffn_norm.weight.fill_(3e38)
    with pytest.raises(
        NonFinite, match=r"(text 0|row 0|token 1): the model answers with NaN or infinity"
    ):
        ASKED[name](model)
    folder = shutil.copytree(models / name, tmp_path / name)
    (folder / "MANIFEST.json").unlink()
    for number, (key, tensor) in enumerate(
        (good := read_tensors(folder / "model.safetensors", "")).items()
    ):
        if number % 10 in (0, 9):  # of the encoder and of the head
            spoilt = good | {
                key: tensor.clone().index_fill_(
                    0, torch.tensor([0]), [torch.inf, torch.nan][number % 2]
                )
            }
            write_tensors(folder / "model.safetensors", spoilt, {"format": "pt"})
            with pytest.raises(
                NonFinite, match=rf"{name}.*{key.rpartition('.')[2]} holds NaN or infinity, so its"
            ):
                electra.load(folder)


def test_a_published_folder_needs_no_more_than_its_weights_and_vocabulary(
    models: Path, tmp_path: Path
) -> None:
    """Older folders of the hub: no manifest, no tokenizer.json, the positions' numbers among the
    weights.
    """
    for name in ("discriminator", "generator", "cola"):
        folder = shutil.copytree(models / name, tmp_path / name)
        for file in ("MANIFEST.json", "tokenizer.json", "task.json"):
            (folder / file).unlink(missing_ok=True)
        tensors = read_tensors(folder / "model.safetensors", "")
        numbers = {"electra.embeddings.position_ids": torch.arange(64)[None]}
        write_tensors(folder / "model.safetensors", {**tensors, **numbers}, {"format": "pt"})
        theirs, ours = electra.load(folder), electra.load(models / name)
        assert theirs.kind == ours.kind
        assert (theirs.embed(TEXTS) == ours.embed(TEXTS)).all()
    (one,), (other,) = (
        electra.load(root / "cola").predict(["a cat"]) for root in (models, tmp_path)
    )
    assert one["probabilities"] == dict(
        zip(["0", "1"], other["probabilities"].values(), strict=True)
    )


@pytest.mark.parametrize(
    ("task", "official", "record", "found"),
    [
        (MOOD, (), {"body": " x "}, {"id": "5", "a": "x", "b": None}),
        (MOOD, ("sentence",), {"a": "x", "number": 3}, {"id": "3", "a": "x", "b": None}),
        (GLUE["rte"], (), {"a": "x", "b": "y"}, {"id": "5", "a": "x", "b": "y"}),
        (
            GLUE["rte"],
            ("left", "right"),
            {"left": "x", "right": "y"},
            {"id": "5", "a": "x", "b": "y"},
        ),
        (GLUE["cola"], (), {"a": "x", "id": "q"}, {"id": "q", "a": "x", "b": None}),
        (CHUNKS, (), {"words": "x y"}, {"id": "5", "words": ["x", "y"]}),
        (
            SQUAD_2,
            (),
            {"question": "x", "context": "y"},
            {"id": "5", "question": "x", "context": "y"},
        ),
    ],
)
def test_records_become_rows(
    task: Task, official: tuple[str, ...], record: dict, found: dict
) -> None:
    row = as_row(input_schema(task, official), record, "5", "here")
    assert {key: value for key, value in row.items() if key in {*found, "b"}} == found
    assert row.get("label") is None and row.get("tags") is None


def test_official_names_stand_before_a_and_b() -> None:
    with pytest.raises(
        BadInput, match="here: has sentence; it needs the columns left, right or a, b"
    ):
        as_row(input_schema(GLUE["rte"], ("left", "right")), {"sentence": "x"}, "5", "here")


SENTENCES = {
    "nowhere": "nowhere: there is no such folder; make the model",
    ".": r"holds 9 models; give the folder of one of them: .*chunks, .*discriminator",
    "tokenizer": "tokenizer: holds no config.json; make the model",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_folder_that_holds_no_model_is_a_sentence(models: Path, name: str) -> None:
    with pytest.raises(BadInput, match=SENTENCES[name]):
        electra.load(models / name)


def test_a_model_of_another_type_and_a_damaged_one_are_sentences(
    models: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(models / "discriminator", tmp_path / "m")
    (folder / "vocab.txt").write_text("changed")
    with pytest.raises(CorruptFile, match=r"vocab\.txt: has"):
        electra.load(folder)
    (folder / "MANIFEST.json").unlink()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(BadInput, match="is of a model of type 'bert'; expected electra"):
        electra.load(folder)


HOSTILE = {
    "config.json": [
        *({key: 2**20} for key in ("hidden_size", "embedding_size", "intermediate_size", "max_position_embeddings")),
        *({"vocab_size": n} for n in (10**7, 10**9, 10**30)), *({"num_hidden_layers": n} for n in (1000, 10**6)),
        {"type_vocab_size": 2**20}, {"model_type": {}}, {"num_attention_heads": []}, {"hidden_act": {}},
        {"trained_positions": -5}, {"trained_positions": "x"}, {"layer_norm_eps": "x"},
    ],
    "tokenizer.json": [
        *({"vocab": vocabulary} for vocabulary in ({}, [1], {"[UNK]": 1, "a": 2**31}, {"[UNK]": 1, "a": 7})),
        {"unk_token": "none"},
    ],
    "tokenizer_config.json": [{"do_lower_case": {}}, {"strip_accents": "x"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes"), [(name, each) for name, all_ in HOSTILE.items() for each in all_], ids=str
)
def test_what_a_hostile_folder_says_is_a_sentence_before_it_costs_memory(
    models, tmp_path, name, changes
):
    folder = shutil.copytree(models / "discriminator", tmp_path / "m")
    (folder / "MANIFEST.json").unlink()
    values = json.loads((folder / name).read_text())
    (values["model"] if name == "tokenizer.json" else values).update(changes)
    (folder / name).write_text(json.dumps(values))
    if name == "tokenizer_config.json":
        (folder / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match=rf"^{folder}\S*: ") as told, no_more_memory(1 << 29):
        electra.load(folder)
    assert len(str(told.value)) < 400


@contextlib.contextmanager
def no_more_memory(more: int) -> Iterator[None]:
    """This process may reserve so many bytes above what it has."""
    limits, pages = (
        resource.getrlimit(resource.RLIMIT_AS),
        int(Path("/proc/self/statm").read_text().split()[0]),
    )
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize(
    ("folder", "ask", "sentence"),
    [
        ("generator", lambda m: m.replaced(["a"]), r"generator: is of the kind generator; replaced\(\) needs a disc"),
        ("discriminator", lambda m: m.predict(["a"]), r"the kind discriminator; predict\(\) needs a fine-tuned model"),
        ("cola", lambda m: m.answer("a", "b"), r"for CoLA; answer\(\) needs a model that was fine-tuned on SQuAD"),
        ("squad2", lambda m: m.replaced(["a"]), r"was fine-tuned for SQuAD; replaced\(\) needs a discriminator"),
        ("encoder", lambda m: electra.corrupt("a", m), r"is of the kind encoder; corrupt\(\) needs a generator"),
        ("encoder", lambda m: m.embed([]), r"texts is empty; it should be a list of at least one text"),
        ("encoder", lambda m: m.embed("a text"), r"texts is 'a text'; put it in a list"),
        ("encoder", lambda m: m.embed(["a", None]), r"texts\[1\] is None; it should be text"),
        ("encoder", lambda m: m.embed(["\ud800"]), r"texts\[0\] is '\\ud800'; it should be text"),
        ("cola", lambda m: m.predict([]), r"rows is empty"),
        ("cola", lambda m: m.predict([3]), r"rows\[0\]: is 3; it should be a text, a pair"),
        ("cola", lambda m: m.predict([{"body": "x"}]), r"rows\[0\]: has body; it needs the columns a or a, b"),
        ("cola", lambda m: m.predict(["x", "\ud800"]), r"rows\[1\]: a is '\\ud800'; it should be text"),
        ("mood", lambda m: m.predict([("a", "b")]), r"rows\[0\]: has 2 texts; it needs 1: body"),
        ("chunks", lambda m: m.predict([["a", "\ud800"]]), r"rows\[0\]: tokens are \['a', '\\ud800'\]; they should"),
        ("squad2", lambda m: m.answer("", "b"), r"rows\[0\]: question is ''; it should be text"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_a_sentence(models: Path, folder: str, ask, sentence: str) -> None:
    model = electra.load(models / folder)
    with pytest.raises(BadInput, match=sentence):
        ask(model)


def test_settings_that_are_not_there_are_sentences(models: Path) -> None:
    with pytest.raises(BadConfig, match="device is 'gpu'; it should be cpu, cuda"):
        electra.load(models / "encoder", device="gpu")
    with pytest.raises(BadDevice, match="device is cuda:99, and torch sees"):
        electra.load(models / "encoder", device="cuda:99")
    with pytest.raises(BadConfig, match="precision is 'fp8'; it should be one of fp32, bf16"):
        electra.load(models / "encoder", precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(BadConfig, match="pooling is 'sum'; it should be one of cls, mean, max"):
        electra.load(models / "encoder").embed(["a"], pooling="sum")  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_what_the_cpu_gives(models: Path) -> None:
    here, there = (
        electra.load(models / "discriminator", device=device) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.embed(TEXTS), here.embed(TEXTS), atol=1e-4)
    for one, other in zip(here.replaced(TEXTS), there.replaced(TEXTS), strict=True):
        np.testing.assert_allclose(other.probability, one.probability, atol=1e-4)


OUTSIDE = (
    "dvc",
    "prefect",
    "mlflow",
    "datasets",
    "transformers",
    "ruamel",
    "psutil",
    "matplotlib",
    "pipelines",
)
ALL_OF_IT = """
import sys
import electra
light = [name for name in ("torch", "numpy", "tokenizers") if name in sys.modules]
assert set(electra.__all__) <= set(dir(electra))
from electra import *
root = sys.argv[1]
judged = load(f"{root}/discriminator").replaced([corrupt("the chef cooked the meal", f"{root}/generator").text])
load(f"{root}/encoder").embed(["a"]), load(f"{root}/cola").predict(["a cat"]), load(f"{root}/squad2").answer("a", "b")
print(light, [name for name in sys.argv[2:] if name in sys.modules])
"""


def test_nothing_of_the_workflow_is_imported_and_the_package_alone_imports_nothing(
    models: Path,
) -> None:
    assert run(ROOT, "-c", ALL_OF_IT, str(models), *OUTSIDE).stdout == "[] []\n"
    with pytest.raises(AttributeError, match="module 'electra' has no attribute 'lode'"):
        _ = electra.lode


HOOKED = {
    "discriminator": lambda model: (model.replaced(["a cat"]), model.embed(["a cat"])),
    "encoder": lambda model: model.embed(["a cat"], pooling="cls"),
    "generator": lambda model: (
        electra.corrupt("a red cat", model),
        electra.propose("a [MASK] cat", model),
    ),
    "cola": lambda model: model.predict(["a cat"]),
    "chunks": lambda model: model.predict([["a", "cat"]]),
    "squad2": lambda model: model.answer("who", "a cat"),
}


@pytest.mark.parametrize("name", HOOKED)
def test_hooks_on_layers_fire_wherever_a_model_reads(models: Path, name: str) -> None:
    model = electra.load(models / name)
    fired: set[int] = set()
    for number, layer in enumerate(model.encoder.layers):
        layer.register_forward_hook(lambda *call, number=number: fired.add(number))
    passes = HOOKED[name](model)
    assert passes is not None and fired == set(range(len(model.encoder.layers)))


def test_a_folder_is_read_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are a gigabyte for large."""
    reads: list[Path] = []
    original = huggingface.read_file
    monkeypatch.setattr(
        huggingface, "read_file", lambda path, do: (reads.append(path), original(path, do))[1]
    )
    for name in ("discriminator", "generator", "encoder", "cola"):
        reads.clear()
        electra.load(models / name)
        assert reads == [models / name / "model.safetensors"]


def test_half_precision_is_close_and_is_not_the_same(models: Path) -> None:
    full, half = (
        electra.load(models / "discriminator", precision=kind).embed(TEXTS)
        for kind in ("fp32", "bf16")
    )
    assert half.dtype == np.float32 and 0 < np.abs(full - half).max() < 0.1
    full, half = (
        electra.propose("the [MASK] cooked", electra.load(models / "generator", precision=kind))[
            0
        ].probability
        for kind in ("fp32", "bf16")
    )
    assert half.dtype == np.float32 and 0 < np.abs(full - half).max() < 0.1
