"""A fine-tuned model as a Hugging Face folder, and any such folder as a model that answers.

| task | architecture in config.json | our head there |
|---|---|---|
| classes, numbers | ElectraForSequenceClassification | gelu(z) - gelu(-z) = z: +W and -W in `classifier.dense`, +1 and -1 in `out_proj` |
| tags | ElectraForTokenClassification | `classifier` as it is; segment 1, which we feed, is stored as segment 0 too |
| SQuAD, independent ends | ElectraForQuestionAnswering | `qa_outputs` |
| SQuAD, ends conditioned on starts | ElectraModel | not to be expressed: `span_head.safetensors` beside the encoder |
| classes, numbers, pooled over all tokens | ElectraModel | not to be expressed: `pooled_head.safetensors`, as in the first row |
| any, on a modern encoder | ModernBertModel | not to be expressed, as its heads have a LayerNorm: `pooled_head` or `span_head.safetensors` |

So stock transformers gives our logits (numbers on the label's own scale), and folders that others have fine-tuned are
read by the same rules. `task.json` tells what config.json has no place for: columns, lengths, the SQuAD settings.
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config import build, plain
from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import dump_json, read_object
from electra.finetuning.batches import Batch
from electra.finetuning.heads import Classifier, Network, pooled
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import FinetuneConfig, Pooling, SquadConfig, Task
from electra.nn.card import Use, model_card
from electra.nn.config import ModernConfig
from electra.nn.encoder import Encoder
from electra.nn.weights import (
    POOLED,
    SPANS,
    TASK,
    TOKENIZER_FILES,
    config_json,
    encoder_tensors,
    head_tensors,
    load_encoder,
    read_tensors,
    write_folder,
)
from electra.storage.manifest import MANIFEST
from electra.storage.tensors import Tensors, fill, require_fit
from electra.storage.tensors import read_tensors as read_file

_DO = "give the folder of a fine-tuned model, as it was written"
_ARCHITECTURES = {
    f"ElectraFor{kind}" for kind in ("SequenceClassification", "TokenClassification", "QuestionAnswering")
}
_SQUAD = (
    "length",
    "stride",
    "question_length",
    "head",
    "beam",
    "answer_length",
    "n_best",
    "answerability",
    "null_threshold",
)


def write_model(
    folder: Path, network: Network, task: Task | None, config: FinetuneConfig, source: Path, **whose: Any
) -> None:
    """Write a folder; the tokenizer's files are those of the folder `source`, `whose` stands in its manifest."""
    encoder = network.encoder
    modern, tensors = isinstance(encoder.config, ModernConfig), encoder_tensors(encoder)
    facts: dict[str, Any] = {"length": config.length}
    more: dict[str, Any] = {}
    beside: dict[str, Tensors] = {}  # heads that no class of transformers has
    if isinstance(network, SpanFinder):
        assert isinstance(config, SquadConfig)
        named = "ElectraModel"
        facts["squad"] = {key: value for key, value in plain(config).items() if key in _SQUAD}
        if not network.conditional and not modern:
            named = "ElectraForQuestionAnswering"
            pair = (network.start, network.end_alone)
            tensors["qa_outputs.weight"] = torch.cat([part.weight.detach() for part in pair])
            tensors["qa_outputs.bias"] = torch.cat([part.bias.detach() for part in pair])
        beside[SPANS] = _head(network).state_dict()
    else:
        assert task is not None
        facts["task"] = plain(task)
        named, more = _labels(task)
        if isinstance(network, Tagger):
            head = {f"classifier.{kind}": value for kind, value in network.head.state_dict().items()}
            if modern:
                named, beside[POOLED] = "ElectraModel", head
            else:
                types = tensors["electra.embeddings.token_type_embeddings.weight"]
                tensors |= head | {"electra.embeddings.token_type_embeddings.weight": types[1:2].expand_as(types)}
        else:
            assert isinstance(network, Classifier)
            head = _classifier(network.head, task.scale if task.regression else 1.0)
            if network.pooling == "cls" and not modern:
                tensors |= head
            else:
                named, more["pooling"], beside[POOLED] = "ElectraModel", network.pooling, head
                facts["pooling"] = network.pooling
    values = config_json(encoder.config, encoder.vocab_size, named, **more)
    files = {name: (source / name).read_text("utf-8") for name in TOKENIZER_FILES if (source / name).is_file()}
    title = f"ELECTRA, fine-tuned: {task.title if task else 'SQuAD'}"
    card = model_card(title, _use(task), {"task": facts, "recipe": plain(config)})
    files[TASK] = dump_json(facts)
    write_folder(folder, tensors, values, files, card, beside=beside, part="fine-tuned", **whose)


def _use(task: Task | None) -> Use:
    """What the card shows; of GLUE's tasks two read one text."""
    if task is None:
        return "question"
    if task.tagging:
        return "words"
    return "text" if len(task.columns) == 1 or task.name in {"cola", "sst2"} else "pair"


@dataclass(frozen=True)
class Ready:
    """A fine-tuned model that answers; `task` is None for questions about a context, whose settings are `squad`."""

    network: Network
    tokenizer: Tokenizer
    length: int
    task: Task | None = None
    squad: SquadConfig | None = None


class HeadOfTransformers(Network):
    """Their classification head, dense → gelu → out_proj, whatever its weights: ours or others'. Theirs reads [CLS]."""

    def __init__(self, encoder: Encoder, dense: nn.Linear, out: nn.Linear, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.encoder, self.dense, self.out, self.pooling = encoder, dense, out, pooling

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """`logits` (B, C)."""
        return {"logits": self.out(F.gelu(self.dense(pooled(self.encoder, batch, self.pooling))))}


def is_finetuned(folder: Path) -> bool:
    """Whether a folder holds a fine-tuned model: one of ours, or of a class of transformers that `load_model` reads."""
    return (folder / TASK).is_file() or architecture(folder) in _ARCHITECTURES


def architecture(folder: Path) -> str:
    """The class of transformers that a folder's config.json names first, or nothing."""
    names = read_object(folder / "config.json").get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def load_tokenizer(folder: Path, encoder: Encoder) -> Tokenizer:
    """The folder's tokenizer, which may have no piece that the encoder has no vector for."""
    tokenizer = tokenizers.load(folder)
    if tokenizer.vocab_size > encoder.vocab_size:
        found, expected = f"{tokenizer.vocab_size:,} pieces", f"at most the model's {encoder.vocab_size:,}"
        raise BadInput(folder, f"holds a tokenizer of {found}", expected, "give the folder as it was written")
    return tokenizer


def load_model(folder: Path) -> Ready:
    """A fine-tuned model from our folder or any of transformers'; raises BadInput if it holds none.

    Ours is verified. One of ours that has lost its manifest is taken as those from elsewhere are, with a word of warning.
    """
    encoder = load_encoder(folder, dropout=0.0)
    heads = head_tensors(read_tensors(folder))
    values, ours = read_object(folder / "config.json"), (folder / TASK).is_file()
    facts = read_object(folder / TASK) if ours else {}
    if ours and not (folder / MANIFEST).is_file():
        print(f"warning: {folder} has no {MANIFEST}: its bytes were not checked", file=sys.stderr)
    name, positions = architecture(folder), encoder.config.positions
    modern = isinstance(encoder.config, ModernConfig)
    length = facts.get("length", min(positions, 512))
    if type(length) is not int or not 3 <= length <= positions:
        raise BadInput(folder / TASK, f"has length {length!r}", f"3 to the model's {positions} positions", _DO)
    tokenizer = load_tokenizer(folder, encoder)
    if "squad" in facts or name == "ElectraForQuestionAnswering":
        chosen = facts.get("squad") or {"head": "independent", "answerability": False, "length": length}
        squad = build(SquadConfig, chosen, f"{folder / TASK}: squad")
        network = SpanFinder(encoder, squad)
        _fill_spans(network, heads, folder)
        return Ready(network, tokenizer, length, squad=squad)
    task = _task(values, facts, folder, tagging=name == "ElectraForTokenClassification")
    size, outputs = encoder.config.hidden, max(1, len(task.classes))
    if (pooling := facts.get("pooling", "cls")) not in get_args(Pooling):
        raise BadInput(folder / TASK, f"has pooling {pooling!r:.40}", f"one of {', '.join(get_args(Pooling))}", _DO)
    if pooling != "cls" or modern:
        heads |= read_file(folder / POOLED, _DO)
    if task.tagging:
        tagger = Tagger(encoder, outputs, length)
        _fill({"classifier": tagger.head}, heads, folder)
        if not modern:  # stock models are fed segment 0, and ours is stored as theirs
            with torch.no_grad():
                encoder.embeddings.token_type.weight[1] = encoder.embeddings.token_type.weight[0]
        return Ready(tagger, tokenizer, length, task=task)
    model = HeadOfTransformers(encoder, nn.Linear(size, size), nn.Linear(size, outputs), pooling)
    _fill({"classifier.dense": model.dense, "classifier.out_proj": model.out}, heads, folder)
    return Ready(model, tokenizer, length, task=task)


def _labels(task: Task) -> tuple[str, dict[str, Any]]:
    """Architecture and the entries of config.json that name the outputs."""
    if task.regression:
        return "ElectraForSequenceClassification", {
            "problem_type": "regression",
            "id2label": {"0": "score"},
            "label2id": {"score": 0},
        }
    names = {str(number): name for number, name in enumerate(task.classes)}
    named = "ElectraForTokenClassification" if task.tagging else "ElectraForSequenceClassification"
    kind = {} if task.tagging else {"problem_type": "single_label_classification"}
    return named, {**kind, "id2label": names, "label2id": {name: int(number) for number, name in names.items()}}


def _task(values: dict[str, Any], facts: dict[str, Any], folder: Path, *, tagging: bool) -> Task:
    """What the outputs mean; a number leaves the network on the label's own scale."""
    if "task" in facts:
        return dataclasses.replace(build(Task, facts["task"], f"{folder / TASK}: task"), scale=1.0)
    names = values.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if not isinstance(names, dict) or set(names) != set(map(str, range(len(names)))):
        raise BadInput(folder / "config.json", f"has id2label {names!r:.80}", "a label for each number from 0", _DO)
    labels = tuple(str(names[str(number)]) for number in range(len(names)))
    if tagging:
        kinds = tuple(dict.fromkeys(label[2:] for label in labels if label[:2] in {"B-", "I-", "E-", "S-"}))
        task = Task(name=folder.name, title=folder.name, labels=kinds, metrics=("entity_f1",), tagging=True)
        if task.classes != labels:
            expected = "O and B-, I-, E-, S- tags of each type in this order"
            raise BadInput(folder / "config.json", f"has the labels {', '.join(labels)[:80]}", expected)
        return task
    return Task(name=folder.name, title=folder.name, labels=() if len(labels) == 1 else labels, metrics=("accuracy",))


def _classifier(head: nn.Linear, scale: float) -> Tensors:
    """A linear head as dense and out_proj: 2 C of the H hidden units are used (2 C ≤ H)."""
    weight_CH, bias_C = head.weight.detach().cpu(), head.bias.detach().cpu()
    classes, size = weight_CH.shape
    dense_HH, out_CH = torch.zeros(size, size), torch.zeros(classes, size)
    dense_HH[:classes], dense_HH[classes : 2 * classes] = weight_CH, -weight_CH
    out_CH[:, :classes], out_CH[:, classes : 2 * classes] = torch.eye(classes) * scale, -torch.eye(classes) * scale
    return {
        "classifier.dense.weight": dense_HH,
        "classifier.dense.bias": torch.zeros(size),
        "classifier.out_proj.weight": out_CH,
        "classifier.out_proj.bias": bias_C * scale,
    }


def _fill(layers: dict[str, nn.Linear], heads: Tensors, folder: Path) -> None:
    """Fill layers from the tensors of their names, which must be all that there is beside the encoder."""
    if lacking := [name for name in layers if f"{name}.weight" not in heads]:
        raise BadInput(folder, f"has no {lacking[0]}", "a model that was fine-tuned", _DO)
    for name, layer in layers.items():
        fill(
            layer,
            {kind: heads.pop(f"{name}.{kind}") for kind in ("weight", "bias") if f"{name}.{kind}" in heads},
            f"{folder}: {name}",
            _DO,
        )
    require_fit({}, heads, folder, _DO)


def _fill_spans(network: SpanFinder, heads: Tensors, folder: Path) -> None:
    """Fill the SQuAD head: from the file of its own, or from transformers' two rows, which are the independent head."""
    pair, head = nn.Linear(network.start.in_features, 2), _head(network)
    beside = (folder / SPANS).is_file()
    if heads or not beside:
        _fill({"qa_outputs": pair}, heads, folder)
    if beside:
        fill(head, read_file(folder / SPANS, _DO), folder / SPANS, _DO)
        return
    rows = {kind: value.chunk(2) for kind, value in pair.state_dict().items()}
    both = {f"{name}.{kind}": rows[kind][i] for i, name in enumerate(("start", "end_alone")) for kind in rows}
    fill(head, both, folder / SPANS, _DO)


def _head(network: SpanFinder) -> nn.ModuleDict:
    return nn.ModuleDict({name: part for name, part in network.named_children() if name != "encoder"})
