"""The library's results equal transformers', in numpy and the texts' order, and its errors are one
sentence.
"""

import contextlib
import random
import resource
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.errors import BadConfig, BadDevice, BadInput, CorruptFile, NonFinite
from electra.files import read_json, write_json
from electra.finetuning.tasks import GLUE
from electra.inference import as_row, input_schema
from electra.storage.tensors import read_tensors, write_tensors
from tests.support.models import SEEN
from tests.support.project import ROOT, run

TEXTS = ["The chef cooked the meal.", "a dog", "", "What is near the red cat, and who ate bread?"]


@torch.no_grad()
def test_replaced_is_what_transformers_says(models, load):
    tokenizer = transformers.AutoTokenizer.from_pretrained(models / "discriminator")
    peer = transformers.ElectraForPreTraining.from_pretrained(models / "discriminator").eval()
    results = load("discriminator").replaced(iter(TEXTS))
    for text, result in zip(TEXTS, results, strict=True):
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets_T2 = encoded.pop("offset_mapping")[0, 1:-1]
        share_T = peer(**encoded).logits[0, 1:-1].sigmoid()
        assert result.text == text
        assert result.tokens == tokenizer.convert_ids_to_tokens(encoded["input_ids"][0, 1:-1])
        np.testing.assert_array_equal(result.offsets, offsets_T2)
        assert result.probability.dtype == np.float32
        np.testing.assert_allclose(result.probability, share_T, atol=1e-5)
    assert results[0].probability.std() > 0.01  # an untrained network, but no constant


@torch.no_grad()
def test_embeddings_are_pooled_hidden_states(models, load):
    tokenizer = transformers.AutoTokenizer.from_pretrained(models / "discriminator")
    peer = transformers.AutoModel.from_pretrained(models / "discriminator").eval()
    encoded = [tokenizer(text, return_tensors="pt") for text in TEXTS]
    states = [peer(**inputs).last_hidden_state[0] for inputs in encoded]
    for pooling, expected in (
        ("cls", [states_TH[0] for states_TH in states]),
        ("mean", [states_TH.mean(0) for states_TH in states]),
        ("max", [states_TH.amax(0) for states_TH in states]),
    ):
        vectors = load("discriminator").embed(TEXTS, pooling=pooling)
        assert vectors.shape == (len(TEXTS), 32) and vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, torch.stack(expected), atol=1e-5)


def test_many_texts_keep_their_order(load, monkeypatch):
    model = load("discriminator")
    texts = ["the red dog " * (number % 11) for number in range(40)]
    vectors = model.embed(texts)
    results = model.replaced(texts)
    monkeypatch.setattr("electra.inference.TEXTS_AT_ONCE", 7)
    np.testing.assert_allclose(model.embed(texts), vectors, atol=1e-6)
    for result, again in zip(results, model.replaced(texts), strict=True):
        assert result.tokens == again.tokens
        np.testing.assert_allclose(result.probability, again.probability, atol=1e-6)
    with torch.no_grad():
        model.encoder.embeddings.word.weight[model.tokenizer.encode_lines(["cat"])[0]] = torch.inf
    with pytest.raises(NonFinite, match="text 9: the model answers with NaN or infinity"):
        model.embed([*["a dog"] * 9, "a cat"])


def test_a_long_text_is_cut_with_a_warning(load):
    model = load("discriminator")
    assert model.length == SEEN
    long = "cat " * (SEEN - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = model.embed([long[4:]])
    sentence = "discriminator: texts are read up to 48 tokens, the rest is left out"
    with pytest.warns(UserWarning, match=sentence) as caught:
        assert np.allclose(model.embed([long]), whole, atol=1e-6)
        assert len(model.replaced([long])[0].tokens) == SEEN - 2
    assert [warning.filename for warning in caught] == [__file__] * 2


def test_rows_are_answered_in_every_form(load, monkeypatch):
    monkeypatch.setattr("electra.inference.ROWS_AT_ONCE", 2)
    first, second = load("mood").predict(["the cat", {"body": "the cat", "number": 7}])
    shares = first["probabilities"]
    assert shares == second["probabilities"] and [first["id"], second["id"]] == ["0", "7"]
    assert shares.keys() == {"bad", "good"} and sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert first["prediction"] == max(shares, key=shares.get)
    pair, same, turned = load("rte").predict(
        [("a cat", "the dog"), {"a": "a cat", "b": "the dog", "id": 0}, ("the dog", "a cat")]
    )
    assert pair == same and pair["probabilities"] != turned["probabilities"]
    assert isinstance(load("stsb").predict([("a", "b")])[0]["prediction"], float)


def test_words_get_tags_with_their_probabilities(load):
    words = ["the", "ate", "zebra"] * 20  # zebra is five pieces: 40 tokens end before the words do
    cut, again = load("chunks").predict([words, {"tokens": words[:3]}])
    (text,) = load("chunks").predict(["the ate zebra"])
    assert len(cut["tags"]) == len(cut["probabilities"]) == 60 and cut["words"] == words
    read = cut["probabilities"].index(None)
    assert read == 18 and cut["probabilities"][read:] == [None] * (60 - read)
    assert set(cut["tags"][read:]) == {"O"}
    assert all(0.2 <= share <= 1 for share in cut["probabilities"][:read])
    assert again["probabilities"] == pytest.approx(text["probabilities"], abs=1e-5)
    assert again["words"] == text["words"]
    # a word of which the tokenizer leaves nothing is an unknown one
    empty, unknown = load("chunks").predict([["the", word, "ate"] for word in ("\u200b", "\ud55c")])
    assert empty["probabilities"] == unknown["probabilities"] and None not in empty["probabilities"]


def test_a_question_is_answered_with_its_place(load):
    model = load("squad2")
    draw = random.Random(1)
    words = ["The chef", "cooked", "a red", "meal,", "and the", "dog", "ate", "bread."]
    question = "who ate the meal?"
    # several windows each
    contexts = [" ".join(draw.choices(words, k=60)) for _ in range(6)]
    answers = model.predict([(question, context) for context in contexts])
    for answer, context in zip(answers, contexts, strict=True):
        best = answer["best"]
        assert best == context[answer["start"] :][: len(best)] != ""
        assert answer["n_best"][0]["text"] == best and answer["prediction"] in {"", best}
        assert sum(span["probability"] for span in answer["n_best"]) == pytest.approx(1, abs=1e-4)
        alone = model.answer(question, context)
        assert (alone["start"], alone["best"]) == (answer["start"], best)
    assert max(answer["start"] for answer in answers) > 150  # beyond the first window


ASKED = {
    "discriminator": lambda m: m.replaced(["a cat", "a dog"]),
    "encoder": lambda m: m.embed(["a cat"], pooling="cls"),
    "generator": lambda m: electra.propose("a [MASK] cat", m),
    "cola": lambda m: m.predict(["a cat"]),
    "stsb": lambda m: m.predict([("a cat", "a dog")]),
    "chunks": lambda m: m.predict([["a", "cat"]]),
    "squad2": lambda m: m.answer("who", "a cat"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_network_that_has_failed_answers_nothing(models, load, tmp_path, name):
    """Neither with weights that are not finite nor with finite ones and outputs that are not."""
    model = load(name)
    ASKED[name](model)
    with torch.no_grad():
        for parameter in model.encoder.layers[-1].ffn_norm.parameters():
            parameter.fill_(3e38)
    with pytest.raises(NonFinite, match=r"[01]: the model answers with NaN or infinity"):
        ASKED[name](model)
    folder = shutil.copytree(models / name, tmp_path / name)
    (folder / "MANIFEST.json").unlink()
    good = read_tensors(folder / "model.safetensors", "")
    for place, key in enumerate(list(good)[::10]):  # of the encoder and of the head
        spoilt = good[key].double()
        spoilt[0] = (torch.nan, 1e39)[place % 2]  # which is none of fp32
        write_tensors(folder / "model.safetensors", {**good, key: spoilt})
        with pytest.raises(NonFinite, match=rf"{name}.* holds NaN or infinity, so its"):
            electra.load(folder)


def test_a_record_may_have_the_names_of_official_files():
    schema = input_schema(GLUE["rte"], ("left", "right"))
    row = as_row(schema, {"left": " x ", "right": "y"}, "5", "here")
    assert row == {"id": "5", "a": "x", "b": "y"}
    with pytest.raises(BadInput, match="has sentence; it needs the columns left, right or a, b"):
        as_row(schema, {"sentence": "x"}, "5", "here")
    without_names = input_schema(GLUE["rte"])
    assert as_row(without_names, {"a": "x", "b": "y"}, "5", "here") == {
        "id": "5",
        "a": "x",
        "b": "y",
    }
    assert as_row(without_names, {"a": "x"}, "5", "here") == {"id": "5", "a": "x", "b": None}


def test_a_folder_without_one_model_is_a_sentence(models, load, tmp_path):
    for name, sentence in (
        ("nowhere", "nowhere: there is no such folder; make the model"),
        (".", r"holds 9 models; give the folder of one of them: .*chunks, .*discriminator"),
        ("tokenizer", "tokenizer: holds no config.json; make the model"),
    ):
        with pytest.raises(BadInput, match=sentence):
            load(name)
    folder = shutil.copytree(models / "discriminator", tmp_path / "m")
    (folder / "vocab.txt").write_text("changed")
    with pytest.raises(CorruptFile, match=r"vocab\.txt: has"):
        electra.load(folder)


HOSTILE = [
    ("config.json", {"hidden_size": 2**20}),
    ("config.json", {"vocab_size": 10**7}),
    ("config.json", {"model_type": {}}),
    ("tokenizer_config.json", {"model_max_length": "x"}),
]


@pytest.mark.parametrize("name, changes", HOSTILE, ids=str)
def test_a_hostile_folder_is_a_sentence_before_it_costs_memory(models, tmp_path, name, changes):
    folder = shutil.copytree(models / "discriminator", tmp_path / "m")
    (folder / "MANIFEST.json").unlink()
    write_json(folder / name, read_json(folder / name) | changes)
    with pytest.raises(BadInput, match=rf"^{folder}\S*: ") as caught, no_more_memory(1 << 29):
        electra.load(folder)
    assert len(str(caught.value)) < 400


@contextlib.contextmanager
def no_more_memory(more):
    """Let this process reserve at most so many more bytes."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


IMPOSSIBLE = [
    ("generator", lambda m: m.replaced(["a"]), r"is of the kind generator; replaced\(\) needs a d"),
    ("discriminator", lambda m: m.predict(["a"]), r"predict\(\) needs a fine-tuned model"),
    ("cola", lambda m: m.answer("a", "b"), r"for CoLA; answer\(\) needs a model that was fine-tu"),
    ("squad2", lambda m: m.answer("", "b"), r"rows\[0\]: question is ''; it should be text"),
    ("encoder", lambda m: m.embed([]), "texts is empty; it should be a list of at least one text"),
    ("encoder", lambda m: m.embed("a text"), "texts is 'a text'; put it in a list"),
    ("encoder", lambda m: m.embed(["a", None]), r"texts\[1\] is None; it should be text"),
    ("encoder", lambda m: m.embed(["\ud800"]), r"texts\[0\] is '\\ud800'; it should be text"),
]
BAD_ROWS = [
    ("cola", 3, "is 3; it should be a text, a pair"),
    ("cola", {"body": "x"}, "has body; it needs the columns a or a, b"),
    ("cola", "\udfff", r"a is '\\udfff'; it should be text"),
    ("cola", {"a": "x", "id": 1.5}, r"the id is 1\.5; it should be"),
    ("cola", {"a": "x", "id": True}, "the id is True; it"),
    ("cola", {"a": "x", "id": "\ud800"}, r"the id is '\\ud800'; it should be"),
    ("mood", ("a", "b"), "has 2 texts; it needs 1: body"),
    ("chunks", ["\ud800"], r"tokens are \['\\ud800'\]; they sh"),
    ("squad2", "x", "has 1 text; it needs 2: question, context"),
]


def test_what_cannot_be_asked_is_a_sentence(load):
    for name, ask, sentence in IMPOSSIBLE:
        with pytest.raises(BadInput, match=sentence):
            ask(load(name))
    for name, row, sentence in BAD_ROWS:
        with pytest.raises(BadInput, match=rf"rows\[0\]: {sentence}"):
            load(name).predict([row])
    for device in ("gpu", "cuda:99"):
        with pytest.raises(BadDevice, match=f"device is '{device}': "):
            load("encoder", device=device)
    with pytest.raises(BadConfig, match="precision is 'fp8'; it should be one of fp32, bf16"):
        load("encoder", precision="fp8")
    with pytest.raises(BadConfig, match="pooling is 'sum'; it should be one of cls, mean, max"):
        load("encoder").embed(["a"], pooling="sum")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_what_the_cpu_gives(load):
    cpu = load("discriminator", device="cpu")
    gpu = load("discriminator", device="cuda")
    np.testing.assert_allclose(gpu.embed(TEXTS), cpu.embed(TEXTS), atol=1e-4)
    for ours, theirs in zip(cpu.replaced(TEXTS), gpu.replaced(TEXTS), strict=True):
        np.testing.assert_allclose(theirs.probability, ours.probability, atol=1e-4)


HEAVY = ["pipelines", "transformers", "torch._dynamo", "sympy"]  # the last two: the compiler
USE_ALL = """
import sys
import electra
light = [name for name in ("torch", "numpy", "tokenizers") if name in sys.modules]
assert set(electra.__all__) <= set(dir(electra))
from electra import *
root = sys.argv[1]
text = corrupt("the chef cooked the meal", f"{root}/generator").text
load(f"{root}/discriminator").replaced([text])
load(f"{root}/encoder").embed(["a"])
load(f"{root}/cola").predict(["a cat"])
load(f"{root}/squad2").answer("a", "b")
print(light, [name for name in sys.argv[2:] if name in sys.modules])
"""


def test_the_library_imports_neither_the_workflow_nor_the_compiler(models):
    assert run(ROOT, "-c", USE_ALL, str(models), *HEAVY).stdout == "[] []\n"
    with pytest.raises(AttributeError, match="module 'electra' has no attribute 'lode'"):
        _ = electra.lode


def test_half_precision_is_close_and_is_not_the_same(load):
    for name, ask in (
        ("discriminator", lambda model: model.embed(TEXTS)),
        ("generator", lambda model: electra.propose("the [MASK] cooked", model)[0].probability),
        ("stsb", lambda model: np.float32(model.predict([("a cat", "a dog")])[0]["prediction"])),
    ):
        full = ask(load(name))
        half = ask(load(name, precision="bf16"))
        assert half.dtype == np.float32 and 0 < np.abs(full - half).max() < 0.1
