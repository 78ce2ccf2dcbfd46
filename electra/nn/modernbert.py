"""A modern encoder under transformers' names: what weights.py does for ELECTRA's folders, for ModernBERT's.

| ours | transformers' class | its head |
|---|---|---|
| encoder, and fine-tuned models, whose heads lie beside | ModernBertModel | none |
| generator, masked language model | ModernBertForMaskedLM | dense, gelu, norm; the word table with a bias |
| discriminator | ModernBertForTokenClassification of one label | dense, gelu, norm; one logit |

A factorised word table is written multiplied out, as these classes know no other; its factors lie beside, for continued
pre-training. Folders of releases from 4.48 on are read, with either spelling of the layers' kinds and thetas.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from electra.errors import BadInput
from electra.nn.config import AnyEncoderConfig, ModernConfig
from electra.nn.encoder import Encoder
from electra.storage.tensors import Tensors

TYPE = "modernbert"
TABLES = ("embeddings.tok_embeddings.weight",)
CLASSES = {  # of ELECTRA -> of ModernBERT
    "ElectraModel": "ModernBertModel",
    "ElectraForMaskedLM": "ModernBertForMaskedLM",
    "ElectraForPreTraining": "ModernBertForTokenClassification",
}
CONFIG: dict[str, tuple[str, int | float | str]] = {  # ours -> transformers', and its value where none is given
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
}
_FIXED: dict[str, Any] = {  # what these networks have no setting for
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
}
_THETAS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
_LAYER = {  # ours -> transformers', inside one layer
    "attention_norm": "attn_norm",
    "attention.qkv": "attn.Wqkv",
    "attention.out": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "expand": "mlp.Wi",
    "contract": "mlp.Wo",
}


def tensors_of(encoder: Encoder) -> Tensors:
    """An encoder's weights under the names of ModernBertModel."""
    (table_VH,) = encoder.embeddings.tables()
    tensors = {TABLES[0]: table_VH, "embeddings.norm.weight": encoder.embeddings.norm.weight}
    for i, layer in enumerate(encoder.layers):
        for name, tensor in layer.state_dict().items():
            tensors[f"layers.{i}.{_LAYER[name.removesuffix('.weight')]}.weight"] = tensor
    final: Tensor = encoder.final_norm.weight  # type: ignore[assignment, union-attr]
    return tensors | {"final_norm.weight": final}


def values_of(config: ModernConfig, architecture: str) -> dict[str, Any]:
    """transformers' ModernBertConfig, less the vocabulary's size."""
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))  # the tokenizer's files tell
    replaced = {"id2label": {"0": "replaced"}, "label2id": {"replaced": 0}}
    labels = replaced if architecture.endswith("PreTraining") else {}
    architecture = CLASSES.get(architecture, architecture)
    first = {"architectures": [architecture], "model_type": TYPE, "embedding_dropout": config.dropout}
    return first | _FIXED | renamed(config, CONFIG) | ends | labels


def renamed(config: AnyEncoderConfig, names: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """A config's values under transformers' `names`, which have none for `init`: ours, where it is not the usual."""
    values = {ours: getattr(config, ours) for ours in names}
    return {theirs: values[ours] for ours, (theirs, usual) in names.items() if ours != "init" or values[ours] != usual}


def settings_of(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """A config.json's values as those of ModernConfig; BadInput where it asks for what this encoder has not."""
    for key, expected in _FIXED.items():
        if values.get(key, expected) != expected:
            raise BadInput(path, f"has {key} {values[key]!r:.40}", f"{expected!r}", "choose a published ModernBERT")
    spelt = _old_spelling(values, path)
    chosen = {ours: spelt.get(theirs, usual) for ours, (theirs, usual) in CONFIG.items()}
    if (before := spelt.get("embedding_dropout", 0.0)) != chosen["dropout"]:
        found = f"has embedding_dropout {before!r:.40}"
        raise BadInput(path, found, f"{chosen['dropout']}, as mlp_dropout", "let both be one")
    for key in ("global_theta", "local_theta"):
        chosen[key] = float(chosen[key]) if isinstance(chosen[key], int) else chosen[key]
    return {"kind": "modern", "embedding": chosen["hidden"], **chosen}


def _old_spelling(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Kinds of layers and thetas in the two numbers that releases before 5 had for each."""
    kinds, ropes = values.get("layer_types"), values.get("rope_parameters") or {}
    settings, do = dict(values), "choose a published ModernBERT"
    if kinds is not None:
        layers = values.get("num_hidden_layers", CONFIG["layers"][1])
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise BadInput(path, f"has layer_types {kinds!r:.60}", f"the kinds of {layers!r:.20} layers", do)
        every = next((i for i, kind in enumerate(kinds) if i and kind == "full_attention"), max(1, len(kinds)))
        regular = ["sliding_attention" if i % every else "full_attention" for i in range(len(kinds))]
        if kinds != regular:
            expected = "full_attention in layer 0 and then at even distances, sliding_attention between"
            raise BadInput(path, "has layer_types in another order", expected, do)
        settings["global_attn_every_n_layers"] = every
    if values.get("rope_scaling"):
        raise BadInput(path, f"has rope_scaling {values['rope_scaling']!r:.60}", "none", do)
    each_a_dict = isinstance(ropes, dict) and all(isinstance(rope, dict | None) for rope in ropes.values())
    if not each_a_dict or not ropes.keys() <= _THETAS.keys():
        raise BadInput(path, f"has rope_parameters {ropes!r:.60}", f"those of {' and '.join(_THETAS)}", do)
    for kind, name in _THETAS.items():
        rope = ropes.get(kind) or {}
        if (turned := rope.get("rope_type", rope.get("type", "default"))) != "default":
            raise BadInput(path, f"has rope_type {turned!r:.40}", "default", do)
        if "rope_theta" in rope:
            settings[name] = rope["rope_theta"]
    if settings.get("local_rope_theta", 0) is None:  # to those releases: the global one
        settings["local_rope_theta"] = settings.get("global_rope_theta", CONFIG["global_theta"][1])
    return settings
