"""Published folders, made with transformers: read as transformers reads them, or refused with the
reason.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import electra
from electra.data.tokenizer import SPECIALS
from electra.errors import BadInput, CorruptFile
from electra.files import read_json, write_json
from electra.nn.factory import make_encoder
from electra.nn.hf_names import parse_config
from electra.nn.huggingface import load_encoder, load_networks, open_folder, read_config
from electra.pretraining.networks import Discriminator, Generator
from tests.support.byte_level import write_byte_level

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = (
    "the red cat sleeps naïve café 東 京 covid - 19 new york runs ##s , . [ ] É ##京 ##東".split()
)
PIECES = [*SPECIALS, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS if letter != "s")]
PIECES += ["é", "##é", "1"]
TEXTS = ["The red CAT sleeps.", "café naïve É", "東京 runs", "[E1] covid-19 New York", "a"]
SIZES = {
    "vocab_size": len(PIECES),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "embedding_size": 16,
    "max_position_embeddings": 64,
}
MODERN = {
    "cls": "ModernBertModel",
    "num_hidden_layers": 3,
    "global_attn_every_n_layers": 2,
    "local_attention": 8,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "cls_token_id": 2,
    "sep_token_id": 3,
}


def write_vocab(folder):
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "ElectraTokenizer"})


def write_tokenizer(folder):
    write_vocab(folder)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def write_published(
    folder,
    cls="ElectraModel",
    tokenizer=write_tokenizer,
    add=False,
    dtype=torch.float32,
    shard="1GB",
    edit=None,
    **settings,
):
    """Save a model with random weights as its authors would, and let `edit` change the folder."""
    torch.manual_seed(0)
    kind = transformers.ElectraConfig if "Electra" in cls else transformers.ModernBertConfig
    network = getattr(transformers, cls)(kind(**{**SIZES, **settings}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    folder.mkdir(exist_ok=True)
    tokenizer(folder)
    if add:
        reader = transformers.AutoTokenizer.from_pretrained(folder)
        reader.add_tokens(["[E1]", "covid-19", "New York"])
        reader.save_pretrained(folder)
        network.resize_token_embeddings(len(reader))
    network.to(dtype).save_pretrained(folder, max_shard_size=shard)
    if edit:
        edit(folder)


def change(name, **values):
    """Return a function that changes a JSON file of a folder."""
    return lambda folder: write_json(folder / name, {**read_json(folder / name), **values})


def limit_words(tokenizer_class):
    """Return a function that lets a tokenizer.json have no word of more than three letters."""

    def apply(folder):
        rules = read_json(folder / "tokenizer.json")
        rules["model"]["max_input_chars_per_word"] = 3
        write_json(folder / "tokenizer.json", rules)
        change("tokenizer_config.json", tokenizer_class=tokenizer_class)(folder)

    return apply


def dangle_adapter(folder):
    (folder / "adapter_config.json").symlink_to("nowhere")


def remove_options(folder):
    (folder / "tokenizer_config.json").unlink()


INDEX = "model.safetensors.index.json"
CLS = {"__type": "AddedToken", "content": "[CLS]"}
OLD = {"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 2}
OLD |= {"global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
TAGS = {0: "I-PER", 1: "O", 2: "B-PER", 3: "U-LOC"}
ACCEPTED = {
    "encoder": {},
    "bf16": {"dtype": torch.bfloat16},
    "padded rows": {"vocab_size": len(PIECES) + 6},
    "added tokens": {"add": True},
    "shards": {"shard": "10KB"},
    "one file and an old index": {"edit": lambda folder: write_json(folder / INDEX, {})},
    "vocab.txt alone": {"tokenizer": write_vocab, "edit": remove_options},
    "tokenizer.json alone": {"edit": remove_options},
    "classes": {"cls": "ElectraForSequenceClassification", "num_labels": 3},
    "multiple choice": {"cls": "ElectraForMultipleChoice"},
    "one token type": {"type_vocab_size": 1},
    "another epsilon": {"layer_norm_eps": 1e-3},
    "another padding": {"pad_token_id": 3},
    "limit": {"edit": change("tokenizer_config.json", model_max_length=8)},
    "no limit": {"edit": change("tokenizer_config.json", model_max_length=1e30)},
    "tokenizer.json against options": {
        "edit": change(
            "tokenizer_config.json", tokenizer_class="TokenizersBackend", do_lower_case=False
        )
    },
    "a longest word of its own": {"edit": limit_words("PreTrainedTokenizerFast")},
    "a longest word that its class ignores": {"edit": limit_words("BertTokenizer")},
    "special tokens with options": {"edit": change("tokenizer_config.json", cls_token=CLS)},
    "modern": MODERN,
    "modern, generator": {**MODERN, "cls": "ModernBertForMaskedLM"},
    "modern, discriminator": {
        **MODERN,
        "cls": "ModernBertForTokenClassification",
        "num_labels": 1,
    },
    "modern, old spelling": {**MODERN, "edit": change("config.json", **OLD)},
    "modern, byte-level": {**MODERN, "tokenizer": write_byte_level, "vocab_size": 400},
}


@pytest.mark.filterwarnings("ignore:.*texts are read up to 8 tokens")
@pytest.mark.parametrize("name", ACCEPTED)
def test_hidden_states_of_a_published_folder_are_those_of_transformers(name, tmp_path):
    write_published(tmp_path, **ACCEPTED[name])
    vectors = electra.load(tmp_path).embed(TEXTS)
    network = transformers.AutoModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text, vector in zip(TEXTS, vectors, strict=True):
        encoded = tokenizer(text, return_tensors="pt", truncation=True)
        with torch.no_grad():
            expected = network(**encoded).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, expected, atol=1e-6)


@pytest.mark.parametrize("trained, limit, expected", [(12, 8, 8), (8, 12, 8), (999, 998, 64)])
def test_the_least_of_its_limits_is_how_far_a_model_reads(tmp_path, trained, limit, expected):
    write_published(tmp_path, edit=change("config.json", trained_positions=trained))
    change("tokenizer_config.json", model_max_length=limit)(tmp_path)
    assert open_folder(tmp_path).trained_positions == expected


CLASSES = {"cls": "ElectraForSequenceClassification", "num_labels": 3}
REFUSED = [
    ({"edit": dangle_adapter}, "holds an adapter, which is not read"),
    ({"edit": change("config.json", model_type="bert")}, "'bert'; expected electra or modernbert"),
    ({"edit": change("tokenizer_config.json", model_max_length=2)}, "model_max_length is 2"),
    ({"edit": change("tokenizer_config.json", truncation_side="left")}, "truncation_side is 'l"),
    ({"edit": change("tokenizer_config.json", sep_token=".")}, "sep_token is '.', which is not"),
    ({**CLASSES, "problem_type": "multi_label_classification"}, "problem_type is 'multi_"),
    ({**CLASSES, "problem_type": "regression"}, "problem_type is 'regression'"),
    ({"cls": CLASSES["cls"], "id2label": {0: "A", 1: "A"}}, "should have another label for each"),
    ({**CLASSES, "type_vocab_size": 1}, "type_vocab_size is 1; a second text needs 2"),
    ({"cls": "ElectraForTokenClassification"}, "the labels are LABEL_0, LABEL_1; they"),
    ({**MODERN, "cls": "ModernBertForSequenceClassification"}, "whose head is not read"),
]


@pytest.mark.parametrize("settings, sentence", REFUSED)
def test_a_folder_that_would_be_read_otherwise_is_refused(settings, sentence, tmp_path):
    write_published(tmp_path, **settings)
    with pytest.raises(BadInput, match=sentence):
        electra.load(tmp_path)


FULL = "full_attention"
UNSUPPORTED = [
    ("electra", "hidden_act", "relu"),
    ("electra", "position_embedding_type", "relative_key"),
    ("electra", "is_decoder", True),
    ("electra", "num_attention_heads", 3),
    ("electra", "vocab_size", None),
    ("electra", "vocab_size", 0),
    ("modernbert", "mlp_bias", True),
    ("modernbert", "embedding_dropout", 0.1),
    ("modernbert", "local_attention", 7),
    ("modernbert", "hidden_size", "x"),
    ("modernbert", "rope_scaling", {"factor": 4.0}),
    ("modernbert", "rope_parameters", [1]),
    ("modernbert", "rope_parameters", {FULL: {"rope_type": "yarn"}}),
    ("modernbert", "layer_types", 5),
    ("modernbert", "layer_types", [FULL]),
    ("modernbert", "layer_types", ["sliding_attention", *[FULL] * 21]),
]


@pytest.mark.parametrize("kind, key, value", UNSUPPORTED, ids=str)
def test_a_setting_that_our_encoders_lack_is_refused(kind, key, value):
    with pytest.raises(BadInput, match=rf"config.json: {key}:? is "):
        parse_config({"model_type": kind, key: value}, Path("config.json"))


def test_tokens_outside_of_a_vocabulary_are_refused_by_name(tmp_path):
    decoder = {str(len(PIECES)): {"content": "New York"}}
    edit = change("tokenizer_config.json", added_tokens_decoder=decoder)
    write_published(tmp_path, vocab_size=len(PIECES) + 1, edit=edit)
    write_json(tmp_path / "added_tokens.json", {"[MASK]": 4, "covid-19": len(PIECES)})
    with pytest.raises(BadInput, match="lacks the added tokens New York, covid-19; save"):
        electra.load(tmp_path)


def test_a_link_to_nothing_is_not_taken_for_an_absent_file(tmp_path):
    write_published(tmp_path, tokenizer=write_vocab)
    options = tmp_path / "tokenizer_config.json"
    options.unlink()
    electra.load(tmp_path)
    options.symlink_to("../blobs/gone")
    with pytest.raises(CorruptFile, match=r"tokenizer_config\.json: is a dangling link"):
        electra.load(tmp_path)


@pytest.mark.parametrize("weight_map", [5, {"a": "../other.safetensors"}])
def test_shards_are_files_of_their_folder(weight_map, tmp_path):
    write_published(tmp_path, shard="10KB")
    index = tmp_path / INDEX
    write_json(index, {"weight_map": weight_map})
    with pytest.raises(BadInput, match="weight_map should name safetensors files of this folder"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("shard, prefix", [("10KB", ""), ("1GB", "electra.")])
def test_a_tensor_that_is_stored_twice_is_refused(shard, prefix, tmp_path):
    write_published(tmp_path, shard=shard)
    files = sorted(tmp_path.glob("*.safetensors"))
    name, tensor = next(iter(load_file(files[0]).items()))
    others = {prefix + name: tensor + 1, **load_file(files[-1])}
    save_file(others, files[-1], {"format": "pt"})
    with pytest.raises(BadInput, match="holds a tensor twice"):
        load_encoder(tmp_path)


def test_first_releases_of_modernbert_meant_the_global_theta_by_none(tmp_path):
    values = {"model_type": "modernbert", "global_rope_theta": 7.0, "local_rope_theta": None}
    assert parse_config(values, tmp_path)[0].local_theta == 7.0


@pytest.mark.parametrize("peer", [transformers.ElectraConfig(), transformers.ModernBertConfig()])
def test_sizes_that_a_config_leaves_out_are_those_of_transformers(peer, tmp_path):
    left_out = parse_config({"model_type": peer.model_type}, tmp_path)
    assert left_out == parse_config(peer.to_dict(), tmp_path)


def test_a_second_word_table_must_be_the_first(tmp_path):
    write_published(tmp_path, cls="ElectraForMaskedLM")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    words = tensors["electra.embeddings.word_embeddings.weight"]
    save_file({**tensors, "generator_lm_head.weight": words.clone()}, file, {"format": "pt"})
    electra.load(tmp_path)
    save_file({**tensors, "generator_lm_head.weight": words + 1}, file, {"format": "pt"})
    with pytest.raises(BadInput, match="tie the embeddings"):
        electra.load(tmp_path)


def test_published_tags_are_spans_in_any_scheme(tmp_path):
    write_published(tmp_path, cls="ElectraForTokenClassification", id2label=TAGS)
    words = ["the", "red", "cat", "runs", "naïve"]
    (answer,) = electra.load(tmp_path).predict([words])
    network = transformers.ElectraForTokenClassification.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        share_TC = network(**encoded).logits[0].softmax(-1)
    first = [encoded.word_ids().index(number) for number in range(len(words))]
    share_W, index_W = share_TC[first].max(-1)
    np.testing.assert_allclose(answer["probabilities"], share_W, atol=1e-5)
    previous = "O"
    for index, tag in zip(index_W.tolist(), answer["tags"], strict=True):
        starts = TAGS[index] == "I-PER" and not previous.endswith("PER")
        assert tag == ("B-PER" if starts else TAGS[index].replace("U-", "B-"))
        previous = tag


@pytest.mark.parametrize("positions, windows", [(64, (64, 32, 16)), (1024, (1024, 64, 128))])
def test_a_question_is_left_unanswered_as_run_squad_leaves_it(tmp_path, positions, windows):
    """Where [CLS] scores higher than any span, and only there."""
    cls = "ElectraForQuestionAnswering"
    write_published(tmp_path, cls=cls, max_position_embeddings=positions)
    network = transformers.ElectraForQuestionAnswering.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    question = "the cat?"
    context = "red cat sleeps, new york runs."
    encoded = tokenizer(question, context, return_tensors="pt")
    outputs = network(**encoded)
    start_T = outputs.start_logits[0].tolist()
    end_T = outputs.end_logits[0].tolist()
    places = [number for number, part in enumerate(encoded.sequence_ids()) if part == 1]
    spans = itertools.combinations_with_replacement(places, 2)
    difference = start_T[0] + end_T[0] - max(start_T[left] + end_T[right] for left, right in spans)
    model = electra.load(tmp_path)
    config = model.finetuned.config
    assert (config.length, config.question_length, config.stride) == windows
    answer = model.answer(question, context)
    assert answer["null_score"] == pytest.approx(difference, abs=1e-4)
    assert answer["prediction"] == ("" if difference > 0 else answer["best"]) and answer["best"]


def test_pre_training_goes_on_from_a_discriminator_alone(tmp_path, capsys):
    """Rows of the word table that no piece stands for are left out."""
    settings = {"cls": "ElectraForPreTraining", "vocab_size": len(PIECES) + 6}
    write_published(tmp_path / "discriminator", **settings)
    config, _ = read_config(tmp_path / "discriminator")
    networks = {}
    for name, kind in (("generator", Generator), ("discriminator", Discriminator)):
        network = kind(make_encoder(config, len(PIECES))).eval()
        networks[name] = (network.encoder, network.head)
    load_networks(networks, tmp_path)
    assert "generator: the generator starts from new weights" in capsys.readouterr().err
    peer = transformers.ElectraForPreTraining.from_pretrained(tmp_path / "discriminator")
    ids = torch.randint(5, len(PIECES), (2, 12))
    logits_BT = network(ids, torch.zeros_like(ids), None)
    torch.testing.assert_close(logits_BT, peer.eval()(ids).logits, atol=1e-5, rtol=1e-5)
