"""Our encoders and heads under transformers' names: one table for each kind of encoder, and one way
through either.

| ours | ELECTRA | ModernBERT |
|---|---|---|
| encoder alone; fine-tuned models whose head has no such class | ElectraModel | ModernBertModel |
| generator, masked language model | ElectraForMaskedLM | ModernBertForMaskedLM |
| discriminator | ElectraForPreTraining | ModernBertForTokenClassification of one label |

Only the layout changes: query, key and value are one matrix here, and tables that are sums or
products of others are written out, which for a factorised word table loses its factors
(huggingface.py puts them into a file of their own).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from electra.config import build
from electra.errors import BadConfig, BadInput, short_repr
from electra.nn.config import BertConfig, EncoderConfig, ModernBertConfig
from electra.nn.encoder import Encoder
from electra.nn.token_heads import MaskedTokenHead, ReplacedTokenHead
from electra.storage.tensors import Tensors

Head = ReplacedTokenHead | MaskedTokenHead
_D = "discriminator_predictions"
_G = "generator_predictions"
POSITION_IDS = "position_ids"  # older releases of transformers stored these numbers
# Settings that would change an encoder's output: the values that ours work with.
_SUPPORTED: dict[str, Any] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "rope_scaling": None,
    "quantization_config": None,
    "pruned_heads": {},
}


@dataclass(frozen=True, kw_only=True)
class Names:
    """transformers' names for one kind of encoder: ours -> theirs, or several that ours is cut
    into.
    """

    model_type: str
    prefix: str  # of an encoder in a class with a head
    tables: tuple[str, ...]  # of `Embeddings.tables`
    modules: dict[str, str]  # outside of the layers
    layers: str
    layer: dict[str, tuple[str, ...]]
    heads: dict[str, dict[str, str]]  # by class
    classes: dict[str, str]  # ELECTRA's class with such a head -> the class
    vocab_size: int  # where config.json has none
    fixed: dict[str, Any]  # settings of transformers that ours has none for
    # ours -> theirs, and its value where none is given
    config: dict[str, tuple[str, int | float | str]]


ELECTRA = Names(
    model_type="electra",
    prefix="electra.",
    tables=("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"),
    modules={
        "embeddings.token_type": "embeddings.token_type_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
        "project": "embeddings_project",
    },
    layers="encoder.layer",
    layer={
        "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.out": ("attention.output.dense",),
        "attention_norm": ("attention.output.LayerNorm",),
        "expand": ("intermediate.dense",),
        "contract": ("output.dense",),
        "ffn_norm": ("output.LayerNorm",),
    },
    heads={
        "ElectraForPreTraining": {"dense": f"{_D}.dense", "logit": f"{_D}.dense_prediction"},
        "ElectraForMaskedLM": {
            "dense": f"{_G}.dense",
            "norm": f"{_G}.LayerNorm",
            "": "generator_lm_head",
        },
    },
    classes={},
    vocab_size=30522,
    fixed={"hidden_act": "gelu"},
    config={
        "layers": ("num_hidden_layers", 12),
        "hidden": ("hidden_size", 256),
        "heads": ("num_attention_heads", 4),
        "ffn": ("intermediate_size", 1024),
        "embedding": ("embedding_size", 128),
        "positions": ("max_position_embeddings", 512),
        "token_types": ("type_vocab_size", 2),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
        "layer_norm_eps": ("layer_norm_eps", 1e-12),
        "init_std": ("initializer_range", 0.02),
        "init": ("init", "published"),
    },
)
_MODERN_HEAD = {"dense": "head.dense", "norm": "head.norm", "logit": "classifier", "": "decoder"}
MODERN = Names(
    model_type="modernbert",
    prefix="model.",
    tables=("embeddings.tok_embeddings.weight",),
    modules={"embeddings.norm": "embeddings.norm", "final_norm": "final_norm"},
    layers="layers",
    layer={
        "attention_norm": ("attn_norm",),
        "attention.qkv": ("attn.Wqkv",),
        "attention.out": ("attn.Wo",),
        "ffn_norm": ("mlp_norm",),
        "expand": ("mlp.Wi",),
        "contract": ("mlp.Wo",),
    },
    heads={"ElectraForPreTraining": _MODERN_HEAD, "ElectraForMaskedLM": _MODERN_HEAD},
    classes={
        "ElectraModel": "ModernBertModel",
        "ElectraForMaskedLM": "ModernBertForMaskedLM",
        "ElectraForPreTraining": "ModernBertForTokenClassification",
    },
    vocab_size=50368,
    fixed={
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
    },
    config={
        "layers": ("num_hidden_layers", 22),
        "hidden": ("hidden_size", 768),
        "heads": ("num_attention_heads", 12),
        "ffn": ("intermediate_size", 1152),
        "positions": ("max_position_embeddings", 8192),
        "global_every": ("global_attn_every_n_layers", 3),
        "window": ("local_attention", 128),
        "global_theta": ("global_rope_theta", 160_000.0),
        "local_theta": ("local_rope_theta", 10_000.0),
        "dropout": ("mlp_dropout", 0.0),
        "attention_dropout": ("attention_dropout", 0.0),
        "layer_norm_eps": ("norm_eps", 1e-5),
        "init_std": ("initializer_range", 0.02),
        "init": ("init", "published"),
    },
)
_LARGEST_VOCABULARY = 10**7  # as far as a tokenizer's settings go
_NAMES = {"bert": ELECTRA, "modern": MODERN}
# by a head's first name, or by the class
_KINDS: dict[str, Literal["discriminator", "generator"]] = {
    _D: "discriminator",
    _G: "generator",
    "ModernBertForTokenClassification": "discriminator",
    "ModernBertForMaskedLM": "generator",
}


def transformers_names(config: EncoderConfig) -> Names:
    """Return the table of an encoder's kind."""
    return _NAMES[config.kind]


# ── tensors ──


def named_tensors(encoder: Encoder) -> Tensors:
    """Return an encoder's weights by name, views of its parameters but for tables that are
    computed.
    """
    names = transformers_names(encoder.config)
    tensors = dict(
        zip(names.tables, (table.detach() for table in encoder.embeddings.tables()), strict=True)
    )
    for name, tensor in encoder.state_dict().items():
        module, _, kind = name.rpartition(".")
        if module.startswith("layers."):
            _, index, module = module.split(".", 2)
            theirs = names.layer[module]
            for their, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
                tensors[f"{names.layers}.{index}.{their}.{kind}"] = part
        elif module in names.modules:  # other than the tables
            tensors[f"{names.modules[module]}.{kind}"] = tensor
    return tensors


def head_names(encoder: Encoder, head: Head) -> Iterator[tuple[str, str]]:
    """Yield (our, transformers') name of each of the head's parameters."""
    theirs = transformers_names(encoder.config).heads[transformers_class(head)]
    for name in head.state_dict():
        module, _, kind = name.rpartition(".")
        yield name, f"{theirs[module]}.{kind}"


def transformers_class(head: nn.Module) -> str:
    """Return the class of transformers that an ELECTRA with this head is."""
    return "ElectraForPreTraining" if isinstance(head, ReplacedTokenHead) else "ElectraForMaskedLM"


def is_encoder_tensor(name: str) -> bool:
    """Return whether a tensor of a folder, without prefix, belongs to its encoder, not its head."""
    return name.startswith(("embeddings", "encoder.", "layers.", "final_norm."))


def strip_prefix(name: str) -> str:
    """Return a tensor's name in an encoder alone."""
    return name.removeprefix(ELECTRA.prefix).removeprefix(MODERN.prefix)


def network_kind(
    tensors: Tensors, architecture: str
) -> Literal["discriminator", "generator", "encoder"]:
    """Return the kind of network in a pre-trained folder, by the names of its tensors and its class
    in config.json.
    """
    marks = {architecture, *(name.partition(".")[0] for name in tensors)}
    return next((kind for name, kind in _KINDS.items() if name in marks), "encoder")


# ── config.json ──


def config_json(
    config: EncoderConfig, vocab_size: int, architecture: str, **more: Any
) -> dict[str, Any]:
    """Return transformers' config of the class that corresponds to ELECTRA's `architecture`."""
    names = transformers_names(config)
    values: dict[str, Any] = {"architectures": [names.classes.get(architecture, architecture)]}
    values |= {"model_type": names.model_type, **names.fixed}
    if isinstance(config, ModernBertConfig):
        values["embedding_dropout"] = config.dropout
        # the tokenizer's
        values |= dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
        if architecture == "ElectraForPreTraining":
            values |= {"id2label": {"0": "replaced"}, "label2id": {"replaced": 0}}
    values |= {"vocab_size": vocab_size, "pad_token_id": 0, "tie_word_embeddings": True}
    for ours, (theirs, usual) in names.config.items():
        value = getattr(config, ours)
        if ours != "init" or value != usual:  # transformers has no such key
            values[theirs] = value
    return values | more


def parse_config(values: dict[str, Any], path: Path) -> tuple[EncoderConfig, int]:
    """Return encoder settings and vocabulary size of a config.json. Raise BadInput for settings
    that our encoders do not compute with.
    """
    kind = values.get("model_type")
    names = next((names for names in _NAMES.values() if names.model_type == kind), None)
    if names is None:
        raise BadInput(f"{path}: is of a model of type {kind!r}; expected electra or modernbert")
    for key, expected in {**_SUPPORTED, **names.fixed}.items():
        value = values.get(key)
        if value is not None and value != expected:
            raise BadInput(f"{path}: {key} is {short_repr(value)}; only {expected!r} is supported")
    if names is MODERN:
        values = _with_old_spelling(values, path)
    chosen: dict[str, Any] = {ours: values.get(*their) for ours, their in names.config.items()}
    config: EncoderConfig
    try:
        if names is ELECTRA:
            config = build(BertConfig, chosen, "")
        else:
            more = {"kind": "modern", "embedding": chosen["hidden"]}
            config = build(ModernBertConfig, chosen | more, "")
    except BadConfig as error:
        key, _, fault = str(error).partition(": ")
        # the word table is as wide as hidden states
        theirs = names.config.get(key, names.config["hidden"])[0]
        raise BadInput(f"{path}: {theirs}: {fault}") from None
    vocab_size = values.get("vocab_size", names.vocab_size)
    if type(vocab_size) is not int or not 1 <= vocab_size <= _LARGEST_VOCABULARY:
        limit = f"should be a number from 1 to {_LARGEST_VOCABULARY:,}"
        raise BadInput(f"{path}: vocab_size: is {short_repr(vocab_size)}, {limit}")
    return config, vocab_size


def _with_old_spelling(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a ModernBERT's settings with its kinds of layers and its thetas in the numbers that
    releases of transformers before 5 had for them.
    """
    settings = dict(values)
    kinds = values.get("layer_types")
    if kinds is not None:
        listed = kinds if isinstance(kinds, list) else []
        full = [index for index, kind in enumerate(listed) if kind == "full_attention"]
        every = full[1] if len(full) > 1 else max(1, len(listed))
        expected = [
            "sliding_attention" if index % every else "full_attention"
            for index in range(len(listed))
        ]
        if kinds != expected or len(kinds) != values.get(*MODERN.config["layers"]):
            raise BadInput(
                f"{path}: layer_types is {short_repr(kinds)}; it should have a kind for each "
                "layer, full_attention for the first and then at even distances, "
                "else sliding_attention"
            )
        settings["global_attn_every_n_layers"] = every
    match values.get("rope_parameters"):
        case None:
            pass
        case {
            "full_attention": {"rope_type": "default", "rope_theta": whole},
            "sliding_attention": {"rope_type": "default", "rope_theta": nearby},
        }:
            settings |= {"global_rope_theta": whole, "local_rope_theta": nearby}
        case ropes:
            raise BadInput(
                f"{path}: rope_parameters is {short_repr(ropes)}; it should be full_attention and "
                "sliding_attention, both of rope_type default with a rope_theta"
            )
    if settings.get("local_rope_theta", 0) is None:  # to those releases: the global one
        settings["local_rope_theta"] = settings.get(*MODERN.config["global_theta"])
    dropout = values.get("embedding_dropout", 0.0)
    if dropout != values.get(*MODERN.config["dropout"]):
        raise BadInput(
            f"{path}: embedding_dropout is {short_repr(dropout)}; it should be mlp_dropout"
        )
    return settings
