"""A fine-tuned model as a Hugging Face folder, and any such folder as a model that answers.

| task | architecture in config.json | our head there |
|---|---|---|
| classes, numbers | ElectraForSequenceClassification | gelu(z) - gelu(-z) = z: +W and -W in `classifier.dense`, +1 and -1 in `out_proj` |
| tags | ElectraForTokenClassification | `classifier` as it is; segment 1, which we feed, is stored as segment 0 too |
| SQuAD, independent ends | ElectraForQuestionAnswering | `qa_outputs` |
| SQuAD, ends conditioned on starts | ElectraModel | not to be expressed: `span_head.safetensors` beside the encoder |

So stock transformers gives our logits (numbers on the label's own scale), and folders that others have fine-tuned are
read by the same rules. `task.json` tells what config.json has no place for: columns, lengths, the SQuAD settings.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electra.config import build, plain
from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.export import (
    config_json,
    encoder_tensors,
    load_encoder,
    model_card,
    read_tensors,
    write_folder,
)
from electra.files import read_json, write_json
from electra.finetuning.batches import Batch
from electra.finetuning.heads import Classifier, Network
from electra.finetuning.squad_head import SpanFinder
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import FACTS, FinetuneConfig, SquadConfig, Task
from electra.finetuning.unpadded import first_hidden
from electra.model.encoder import Encoder
from electra.tensors import Tensors

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
_SPANS = "span_head.safetensors"
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


def write_model(folder: Path, network: Network, task: Task | None, config: FinetuneConfig, source: Path) -> None:
    """Write a folder, inside one that its caller makes whole; the tokenizer's files are those of the folder `source`."""
    encoder = network.encoder
    tensors = encoder_tensors(encoder)
    facts: dict[str, Any] = {"length": config.length}
    more: dict[str, Any] = {}
    if isinstance(network, SpanFinder):
        assert isinstance(config, SquadConfig)
        architecture = "ElectraModel"
        facts["squad"] = {key: value for key, value in plain(config).items() if key in _SQUAD}
        if not network.conditional:
            architecture = "ElectraForQuestionAnswering"
            pair = (network.start, network.end_alone)
            tensors["qa_outputs.weight"] = torch.cat([part.weight.detach() for part in pair])
            tensors["qa_outputs.bias"] = torch.cat([part.bias.detach() for part in pair])
    else:
        assert task is not None
        facts["task"] = plain(task)
        architecture, more = _labels(task)
        if isinstance(network, Tagger):
            tensors |= {f"classifier.{kind}": value for kind, value in network.head.state_dict().items()}
            types = tensors["electra.embeddings.token_type_embeddings.weight"]
            tensors["electra.embeddings.token_type_embeddings.weight"] = types[1:2].expand_as(types)
        else:
            assert isinstance(network, Classifier)
            tensors |= _classifier(network.head, task.scale if task.regression else 1.0)
    values = config_json(encoder.config, encoder.vocab_size, architecture, **more)
    files = {name: (source / name).read_text("utf-8") for name in TOKENIZER_FILES if (source / name).is_file()}
    card = model_card(
        f"ELECTRA, fine-tuned: {task.title if task else 'SQuAD'}", {"task": facts, "recipe": plain(config)}
    )
    write_folder(folder, tensors, values, files, card)
    write_json(folder / FACTS, facts)
    if isinstance(network, SpanFinder):
        save_file(_head_state(network), folder / _SPANS)


@dataclass(frozen=True)
class Ready:
    """A fine-tuned model that answers; `task` is None for questions about a context, whose settings are `squad`."""

    network: Network
    tokenizer: Tokenizer
    length: int
    task: Task | None = None
    squad: SquadConfig | None = None


class HeadOfTransformers(Network):
    """Their classification head, dense → gelu → out_proj on [CLS], whatever its weights: ours or others'."""

    def __init__(self, encoder: Encoder, dense: nn.Linear, out: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.dense, self.out = encoder, dense, out

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """`logits` (B, C)."""
        return {"logits": self.out(F.gelu(self.dense(first_hidden(self.encoder, batch))))}


def load_model(folder: Path) -> Ready:
    """A fine-tuned model from our folder or any of transformers'; raises BadInput if it holds none."""
    values = read_json(folder / "config.json")
    facts = read_json(folder / FACTS) if (folder / FACTS).is_file() else {}
    encoder, tensors = load_encoder(folder, dropout=0.0), read_tensors(folder)
    architecture = (values.get("architectures") or [""])[0]
    length = int(facts.get("length", min(encoder.config.positions, 512)))
    tokenizer = tokenizers.load(folder)
    if "squad" in facts or architecture == "ElectraForQuestionAnswering":
        chosen = facts.get("squad") or {"head": "independent", "answerability": False, "length": length}
        squad = build(SquadConfig, chosen, f"{folder / FACTS}: squad")
        network: Network = SpanFinder(encoder, squad)
        state = load_file(folder / _SPANS) if (folder / _SPANS).is_file() else _spans(tensors, folder)
        network.load_state_dict(state, strict=False)
        return Ready(network, tokenizer, length, squad=squad)
    task = _task(values, facts, folder, tagging=architecture == "ElectraForTokenClassification")
    if task.tagging:
        network = Tagger(encoder, len(task.classes), length)
        network.head = _linear(tensors, "classifier", folder)
        with torch.no_grad():  # stock models are fed segment 0, and ours is stored as theirs
            encoder.embeddings.token_type.weight[1] = encoder.embeddings.token_type.weight[0]
    else:
        network = HeadOfTransformers(
            encoder, _linear(tensors, "classifier.dense", folder), _linear(tensors, "classifier.out_proj", folder)
        )
    return Ready(network, tokenizer, length, task=task)


def _labels(task: Task) -> tuple[str, dict[str, Any]]:
    """Architecture and the entries of config.json that name the outputs."""
    if task.regression:
        return "ElectraForSequenceClassification", {
            "problem_type": "regression",
            "id2label": {"0": "score"},
            "label2id": {"score": 0},
        }
    names = {str(number): name for number, name in enumerate(task.classes)}
    architecture = "ElectraForTokenClassification" if task.tagging else "ElectraForSequenceClassification"
    kind = {} if task.tagging else {"problem_type": "single_label_classification"}
    return architecture, {**kind, "id2label": names, "label2id": {name: int(number) for number, name in names.items()}}


def _task(values: dict[str, Any], facts: dict[str, Any], folder: Path, *, tagging: bool) -> Task:
    """What the outputs mean; a number leaves the network on the label's own scale."""
    if "task" in facts:
        return dataclasses.replace(build(Task, facts["task"], f"{folder / FACTS}: task"), scale=1.0)
    names = values.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    labels = tuple(str(names[key]) for key in sorted(names, key=int))
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


def _linear(tensors: Tensors, name: str, folder: Path) -> nn.Linear:
    if f"{name}.weight" not in tensors or f"{name}.bias" not in tensors:
        raise BadInput(folder, f"has no {name}", "a model that was fine-tuned", "give the folder of a fine-tuned model")
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def _head_state(network: SpanFinder) -> Tensors:
    state = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
    return {name: value for name, value in state.items() if not name.startswith("encoder.")}


def _spans(tensors: Tensors, folder: Path) -> Tensors:
    both = _linear(tensors, "qa_outputs", folder)
    weight, bias = both.weight.detach(), both.bias.detach()
    return {
        "start.weight": weight[:1],
        "start.bias": bias[:1],
        "end_alone.weight": weight[1:],
        "end_alone.bias": bias[1:],
    }
