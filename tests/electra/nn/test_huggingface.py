"""Published folders, made with transformers: read as transformers reads them, or refused with the
reason.
"""

import contextlib

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import electra
from electra.data.tokenizer import SPECIALS
from electra.errors import BadInput, CorruptFile
from electra.files import read_json, write_json
from electra.nn.hf_names import parse_config
from electra.nn.huggingface import load_encoder, load_networks
from electra.pretraining.networks import Discriminator, Generator
from tests.electra.byte_level import write_byte_level

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


def write_vocab(folder, **options):
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    values = {"tokenizer_class": "ElectraTokenizer", **options}
    write_json(folder / "tokenizer_config.json", values)


def write_tokenizer(folder, **options):
    write_vocab(folder, **options)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def write_published(
    folder,
    cls="ElectraModel",
    tokenizer=write_tokenizer,
    options=None,
    add=None,
    dtype=torch.float32,
    shard="1GB",
    **settings,
):
    """Save a model with random weights as its authors would."""
    torch.manual_seed(0)
    kind = transformers.ElectraConfig if "Electra" in cls else transformers.ModernBertConfig
    network = getattr(transformers, cls)(kind(**{**SIZES, **settings}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    folder.mkdir()
    tokenizer(folder, **options or {})
    if add:
        reader = transformers.AutoTokenizer.from_pretrained(folder)
        reader.add_tokens(["[E1]", "covid-19", "New York"], **add)
        reader.save_pretrained(folder)
        network.resize_token_embeddings(len(reader))
    network.to(dtype).save_pretrained(folder, max_shard_size=shard)


def change(name, **values):
    """Return a function that changes a JSON file of a folder, or removes keys that are None."""

    def apply(folder):
        content = {**read_json(folder / name), **values}
        kept = {key: value for key, value in content.items() if value is not ...}
        write_json(folder / name, kept)

    return apply


def limit_words(**config):
    """Return a function that lets a tokenizer.json have no word of more than three letters."""

    def apply(folder):
        rules = read_json(folder / "tokenizer.json")
        rules["model"]["max_input_chars_per_word"] = 3
        write_json(folder / "tokenizer.json", rules)
        change("tokenizer_config.json", **config)(folder)

    return apply


def dangle_adapter(folder):
    (folder / "adapter_config.json").symlink_to("nowhere")


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


OLD = {"layer_types": ..., "rope_parameters": ..., "global_attn_every_n_layers": 2}
TAGS = {0: "I-PER", 1: "O", 2: "B-PER", 3: "U-LOC"}
ACCEPTED = {
    "encoder": ({}, None),
    "discriminator": ({"cls": "ElectraForPreTraining"}, None),
    "generator": ({"cls": "ElectraForMaskedLM"}, None),
    "bf16": ({"dtype": torch.bfloat16}, None),
    "padded rows": ({"vocab_size": len(PIECES) + 6}, None),
    "added tokens": ({"add": {}}, None),
    "added special tokens": ({"add": {"special_tokens": True}}, None),
    "shards": ({"shard": "10KB"}, None),
    "vocab.txt alone": ({"tokenizer": write_vocab}, remove("tokenizer_config.json")),
    "tokenizer.json alone": ({}, remove("tokenizer_config.json")),
    "classes": ({"cls": "ElectraForSequenceClassification", "num_labels": 3}, None),
    "tags": ({"cls": "ElectraForTokenClassification", "id2label": TAGS}, None),
    "questions": ({"cls": "ElectraForQuestionAnswering"}, None),
    "multiple choice": ({"cls": "ElectraForMultipleChoice"}, None),
    "one token type": ({"type_vocab_size": 1}, None),
    "another epsilon": ({"layer_norm_eps": 1e-3}, None),
    "another padding": ({"pad_token_id": 3}, None),
    "model_max_length": ({"options": {"model_max_length": 8}}, None),
    "tokenizer.json against options": (
        {},
        change("tokenizer_config.json", tokenizer_class="TokenizersBackend", do_lower_case=False),
    ),
    "a longest word of its own": ({}, limit_words(tokenizer_class="PreTrainedTokenizerFast")),
    "a longest word that its class ignores": ({}, limit_words(tokenizer_class="BertTokenizer")),
    "special tokens with options": (
        {},
        change("tokenizer_config.json", cls_token={"__type": "AddedToken", "content": "[CLS]"}),
    ),
    "no limit": ({}, change("tokenizer_config.json", model_max_length=1e30)),
    "modern": (MODERN, None),
    "modern, generator": ({**MODERN, "cls": "ModernBertForMaskedLM"}, None),
    "modern, discriminator": (
        {**MODERN, "cls": "ModernBertForTokenClassification", "num_labels": 1},
        None,
    ),
    "modern, old spelling": (
        MODERN,
        change("config.json", global_rope_theta=160_000.0, local_rope_theta=10_000.0, **OLD),
    ),
    "modern, byte-level": (
        {**MODERN, "tokenizer": write_byte_level, "vocab_size": 400},
        None,
    ),
}


@pytest.mark.filterwarnings("ignore:.*texts are read up to 8 tokens")
@pytest.mark.parametrize("name", ACCEPTED)
def test_hidden_states_of_a_published_folder_are_those_of_transformers(name, tmp_path):
    settings, changed = ACCEPTED[name]
    write_published(tmp_path / "m", **settings)
    if changed:
        changed(tmp_path / "m")
    vectors = electra.load(tmp_path / "m").embed(TEXTS)
    network = transformers.AutoModel.from_pretrained(tmp_path / "m", dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    for text, vector in zip(TEXTS, vectors, strict=True):
        encoded = tokenizer(text, return_tensors="pt", truncation=True)
        with torch.no_grad():
            expected = network(**encoded).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, expected, atol=1e-6)


ROPE = "rope_parameters is .*; it should be full_attention and sliding_attention"
LAYERS = "layer_types is .*; it should have a kind for each layer"
CLASSES = {"cls": "ElectraForSequenceClassification", "num_labels": 3}
REFUSED = [
    ({"hidden_act": "relu"}, None, "hidden_act is 'relu'; only 'gelu' is supported"),
    ({}, change("config.json", position_embedding_type="relative_key"), "position_embedding_type"),
    ({"is_decoder": True}, None, "is_decoder is True"),
    ({}, change("config.json", quantization_config={"bits": 4}), "quantization_config is"),
    ({}, change("config.json", model_type="bert"), "'bert'; expected electra or modernbert"),
    ({}, dangle_adapter, "holds an adapter, which is not read"),
    ({"options": {"model_max_length": 2}}, None, "model_max_length is 2"),
    ({}, change("tokenizer_config.json", truncation_side="left"), "truncation_side is 'left'"),
    ({}, change("tokenizer_config.json", sep_token="."), "sep_token is '.', which is not supp"),
    ({**CLASSES, "problem_type": "multi_label_classification"}, None, "problem_type is 'multi_"),
    (
        {"cls": CLASSES["cls"], "id2label": {0: "A", 1: "A"}},
        None,
        "should have another label for each",
    ),
    ({**CLASSES, "problem_type": "regression"}, None, "problem_type is 'regression'"),
    ({**CLASSES, "type_vocab_size": 1}, None, "type_vocab_size is 1; a second text needs 2"),
    ({"cls": "ElectraForTokenClassification"}, None, "the labels are LABEL_0, LABEL_1; they"),
    ({**MODERN, "cls": "ModernBertForSequenceClassification"}, None, "whose head is not read"),
    ({**MODERN, "mlp_bias": True}, None, "mlp_bias is True; only False is supported"),
    ({**MODERN, "hidden_activation": "silu"}, None, "hidden_activation is 'silu'"),
    ({**MODERN, "embedding_dropout": 0.1}, None, "embedding_dropout is 0.1; it should be mlp_"),
    (MODERN, change("config.json", local_attention=7), "local_attention: is 7, should be even"),
    (MODERN, change("config.json", hidden_size="x"), "hidden_size: is 'x', should be a valid"),
    (MODERN, change("config.json", rope_scaling={"factor": 4.0}), "rope_scaling is"),
    (MODERN, change("config.json", rope_parameters=[1]), ROPE),
    (
        MODERN,
        change("config.json", rope_parameters={"full_attention": {"rope_type": "yarn"}}),
        ROPE,
    ),
    (MODERN, change("config.json", layer_types=5), LAYERS),
    (MODERN, change("config.json", layer_types=["full_attention"]), LAYERS),
    (
        MODERN,
        change("config.json", layer_types=["sliding_attention", *["full_attention"] * 2]),
        LAYERS,
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_folder_that_would_be_read_otherwise_is_refused(number, tmp_path):
    settings, changed, sentence = REFUSED[number]
    write_published(tmp_path / "m", **settings)
    if changed:
        changed(tmp_path / "m")
    with pytest.raises(BadInput, match=sentence):
        electra.load(tmp_path / "m")


@pytest.mark.parametrize("tokenizer", [write_vocab, write_tokenizer])
def test_tokens_outside_of_a_vocabulary_are_refused_by_name(tokenizer, tmp_path):
    write_published(tmp_path / "m", tokenizer=tokenizer, vocab_size=len(PIECES) + 1)
    added = tmp_path / "m/added_tokens.json"
    decoder = {str(len(PIECES)): {"content": "New York"}}
    change("tokenizer_config.json", added_tokens_decoder=decoder)(tmp_path / "m")
    write_json(added, {"[MASK]": 4, "covid-19": len(PIECES)})
    with pytest.raises(BadInput, match="lacks the added tokens New York, covid-19; save"):
        electra.load(tmp_path / "m")
    write_json(added, {"[MASK]": 4})
    change("tokenizer_config.json", added_tokens_decoder=...)(tmp_path / "m")
    electra.load(tmp_path / "m")


def test_a_link_to_nothing_is_not_taken_for_an_absent_file(tmp_path):
    write_published(tmp_path / "m", tokenizer=write_vocab)
    options = tmp_path / "m/tokenizer_config.json"
    options.unlink()
    electra.load(tmp_path / "m")
    options.symlink_to("../blobs/gone")
    with pytest.raises(CorruptFile, match=r"tokenizer_config\.json: is a dangling link"):
        electra.load(tmp_path / "m")


@pytest.mark.parametrize("weight_map", [None, {}, {"a": "../other.safetensors"}, {"a": 5}])
def test_shards_are_files_of_their_folder(weight_map, tmp_path):
    write_published(tmp_path / "m", shard="10KB")
    index = tmp_path / "m/model.safetensors.index.json"
    write_json(index, {"weight_map": weight_map})
    with pytest.raises(BadInput, match="weight_map should name safetensors files of this folder"):
        load_encoder(tmp_path / "m")


@pytest.mark.parametrize("shard, prefix", [("10KB", ""), ("1GB", "electra.")])
def test_a_tensor_that_is_stored_twice_is_refused(shard, prefix, tmp_path):
    write_published(tmp_path / "m", shard=shard)
    files = sorted((tmp_path / "m").glob("*.safetensors"))
    name, tensor = next(iter(load_file(files[0]).items()))
    others = {prefix + name: tensor + 1, **load_file(files[-1])}
    save_file(others, files[-1], {"format": "pt"})
    with pytest.raises(BadInput, match="holds a tensor twice"):
        load_encoder(tmp_path / "m")


def test_first_releases_of_modernbert_meant_the_global_theta_by_none(tmp_path):
    write_published(tmp_path / "m", **MODERN)
    change("config.json", global_rope_theta=7.0, local_rope_theta=None, **OLD)(tmp_path / "m")
    assert load_encoder(tmp_path / "m").config.local_theta == 7.0


@pytest.mark.parametrize("peer", [transformers.ElectraConfig(), transformers.ModernBertConfig()])
def test_sizes_that_a_config_leaves_out_are_those_of_transformers(peer, tmp_path):
    left_out = parse_config({"model_type": peer.model_type}, tmp_path)
    assert left_out == parse_config(peer.to_dict(), tmp_path)


def test_a_second_word_table_must_be_the_first(tmp_path):
    write_published(tmp_path / "m", cls="ElectraForMaskedLM")
    file = tmp_path / "m/model.safetensors"
    tensors = load_file(file)
    words = tensors["electra.embeddings.word_embeddings.weight"]
    for shift in (0, 1):
        tensors["generator_lm_head.weight"] = words + shift
        save_file(tensors, file, {"format": "pt"})
        with pytest.raises(BadInput, match="tie the emb") if shift else contextlib.nullcontext():
            electra.load(tmp_path / "m")


def test_published_tags_are_spans_in_any_scheme(tmp_path):
    write_published(tmp_path / "m", cls="ElectraForTokenClassification", id2label=TAGS)
    words = ["the", "red", "cat", "runs", "naïve"]
    (answer,) = electra.load(tmp_path / "m").predict([words])
    network = transformers.ElectraForTokenClassification.from_pretrained(tmp_path / "m").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        share_TC = network(**encoded).logits[0].softmax(-1)
    first = [encoded.word_ids().index(number) for number in range(len(words))]
    np.testing.assert_allclose(answer["probabilities"], share_TC[first].amax(-1), atol=1e-5)
    names = [TAGS[int(index)] for index in share_TC[first].argmax(-1)]
    single = {"U-LOC": "B-LOC"}
    previous = "O"
    for name, tag in zip(names, answer["tags"], strict=True):
        starts = name == "I-PER" and previous not in {"B-PER", "I-PER"}
        assert tag == ("B-PER" if starts else single.get(name, name))
        previous = name


@pytest.mark.parametrize("positions, windows", [(64, (64, 32, 16)), (1024, (1024, 64, 128))])
def test_a_question_is_left_unanswered_as_run_squad_leaves_it(tmp_path, positions, windows):
    """Where [CLS] scores higher than any span, and only there."""
    cls = "ElectraForQuestionAnswering"
    write_published(tmp_path / "m", cls=cls, max_position_embeddings=positions)
    network = transformers.ElectraForQuestionAnswering.from_pretrained(tmp_path / "m").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    question = "the cat?"
    context = "red cat sleeps, new york runs."
    encoded = tokenizer(question, context, return_tensors="pt")
    context_T = torch.tensor([part == 1 for part in encoded.sequence_ids()])
    with torch.no_grad():
        outputs = network(**encoded)
        start_T = outputs.start_logits[0]
        end_T = outputs.end_logits[0]
        span_TT = (start_T[:, None] + end_T).masked_fill(
            ~torch.ones(len(end_T), len(end_T)).triu().bool(), -1e9
        )
        span_TT[~context_T] = -1e9
        span_TT[:, ~context_T] = -1e9
        difference = float(start_T[0] + end_T[0] - span_TT.max())
    model = electra.load(tmp_path / "m")
    config = model.finetuned.config
    assert (config.length, config.question_length, config.stride) == windows
    answer = model.answer(question, context)
    assert answer["null_score"] == pytest.approx(difference, abs=1e-4)
    assert answer["prediction"] == ("" if difference > 0 else answer["best"]) and answer["best"]


@pytest.mark.parametrize("rows", [0, 6])
def test_pre_training_goes_on_from_a_discriminator_alone(rows, tmp_path, capsys):
    """Rows of the word table that no piece stands for are left out."""
    settings = {"cls": "ElectraForPreTraining", "vocab_size": len(PIECES) + rows}
    write_published(tmp_path / "discriminator", **settings)
    encoder = load_encoder(tmp_path / "discriminator")
    discriminator = Discriminator(type(encoder)(encoder.config, len(PIECES)))
    generator = Generator(type(encoder)(encoder.config, len(PIECES)))
    first = generator.head.dense.weight.clone()
    networks = {
        "generator": (generator.encoder, generator.head),
        "discriminator": (discriminator.encoder, discriminator.head),
    }
    load_networks(networks, tmp_path)
    assert "generator: the generator starts from new weights" in capsys.readouterr().err
    assert torch.equal(generator.head.dense.weight, first)
    words_VE = encoder.embeddings.word.weight
    assert torch.equal(discriminator.encoder.embeddings.word.weight, words_VE[: len(PIECES)])
    network = transformers.ElectraForPreTraining.from_pretrained(tmp_path / "discriminator")
    ids = torch.randint(5, len(PIECES), (2, 12))
    with torch.no_grad():
        logits_BT = discriminator.eval()(ids, torch.zeros_like(ids), None)
        torch.testing.assert_close(logits_BT, network.eval()(ids).logits, atol=1e-5, rtol=1e-5)
