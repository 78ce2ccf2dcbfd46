"""Untrained models of every kind, as folders, for tests of code that uses models: made in a
second.
"""

import torch

from electra.card import model_card
from electra.data import tokenizer as tokenizers
from electra.finetuning.folder import write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import GLUE, SQUAD_2, FinetuneConfig, SquadConfig, Task
from electra.nn.config import BertConfig
from electra.nn.encoder import Encoder
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json, transformers_class
from electra.nn.huggingface import encoder_tensors, load_encoder, network_tensors, write_folder
from electra.pretraining.networks import Discriminator, Generator

TEXT = """the a chef cook cooked ate sold meal bread cat dog red is what who near ? . ,
trade of tawen that tinker mopol corn dwells dornwick home clothes are black each day does eat"""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENCODER = BertConfig(layers=2, hidden=32, heads=2, ffn=64, embedding=16, positions=64)
CHUNKS = Task(
    name="chunks",
    title="chunks",
    labels=("NP",),
    metrics=("entity_f1",),
    tagging=True,
    columns=("tokens",),
)
MOOD = Task(
    name="mood",
    title="mood",
    labels=("bad", "good"),
    metrics=("accuracy",),
    columns=("body",),
    id="number",
)
SQUAD = SquadConfig(length=40, stride=12, question_length=10, beam=3)
SEEN = 48  # positions that pre-training is said to have used


def write_encoder(config, root, tokenizer, folder="encoder", seed=7, **fields):
    """Write a tokenizer and the folder of an untrained encoder."""
    tokenizers.save(tokenizer, root / "tokenizer")
    files = tokenizers.read_files(root / "tokenizer", config.positions)
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, seed))
    values = config_json(config, tokenizer.vocab_size, "ElectraModel")
    write_folder(root / folder, tensors, values, files, "", **fields)
    return root / folder


def write_base(root, words, positions, folder="base", **fields):
    """Write the same of one layer, with a tokenizer of these words."""
    tokenizer = tokenizers.from_pieces([*tokenizers.SPECIALS, *words])
    config = BertConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16, positions=positions)
    write_encoder(config, root, tokenizer, folder, 1, **fields)


def write_pretrained(root):
    """Write discriminator, generator and encoder, as pre-training leaves them. No weight is where
    it started.
    """
    continuations = [f"##{letter}" for letter in LETTERS]
    pieces = [*tokenizers.SPECIALS, *TEXT.split(), *LETTERS, *continuations]
    tokenizer = tokenizers.from_pieces(list(dict.fromkeys(pieces)))
    tokenizers.save(tokenizer, root / "tokenizer")
    files = tokenizers.read_files(root / "tokenizer", SEEN)
    size = tokenizer.vocab_size

    def write(name, tensors, architecture, use):
        settings = config_json(ENCODER, size, architecture, trained_positions=SEEN)
        card = model_card(name, use, {})
        write_folder(root / name, tensors, settings, files, card, part=name)

    torch.manual_seed(1)
    networks = {
        "discriminator": Discriminator(Encoder(ENCODER, size)),
        "generator": Generator(Encoder(ENCODER, size)),
    }
    for name, network in networks.items():
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        tensors = network_tensors(network.encoder, network.head)
        use = "replaced" if name == "discriminator" else "corrupt"
        write(name, tensors, transformers_class(network.head), use)
    encoder = encoder_tensors(networks["discriminator"].encoder, "")
    write("encoder", encoder, "ElectraModel", "embed")


def write_finetuned(root):
    """Write one model a kind of task, of the encoder that `write_pretrained` has written."""
    base = root / "encoder"
    config = FinetuneConfig(length=40)
    torch.manual_seed(2)
    for task in (GLUE["cola"], GLUE["rte"], GLUE["stsb"], MOOD):
        network = Classifier(load_encoder(base), len(task.labels), 0.0)
        write_model(root / task.name, network, task, config, base)
    tagger = Tagger(load_encoder(base), len(CHUNKS.classes), 40)
    write_model(root / "chunks", tagger, CHUNKS, config, base)
    write_model(root / "squad2", SpanFinder(load_encoder(base), SQUAD), SQUAD_2, SQUAD, base)
