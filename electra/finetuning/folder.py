"""A fine-tuned model as a Hugging Face folder, and any such folder as a model that answers.

| task | architecture in config.json | our head there |
|---|---|---|
| classes, numbers | ElectraForSequenceClassification | gelu(z) - gelu(-z) = z: ±W in `dense`, ±1 in `out_proj` |
| tags | ElectraForTokenClassification | `classifier` as it is; segment 1, which we feed, is stored as segment 0 too |
| SQuAD, independent ends | ElectraForQuestionAnswering | `qa_outputs` |
| SQuAD, ends conditioned on starts | ElectraModel | none: `span_head.safetensors` beside the encoder |
| classes, numbers, of more than the last [CLS] | ElectraModel | none: `pooled_head.safetensors`, as in the first row |
| any, on a modern encoder | ModernBertModel | none, as its heads have a LayerNorm: `pooled_head` or `span_head` |

So stock transformers gives our logits (numbers on the label's own scale), and folders of ELECTRA's three classes that
others have fine-tuned are read by the same rules; folders of ModernBERT's classes for tasks are refused. `task.json`
holds what config.json has no place for: columns, lengths, the SQuAD settings.
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.card import model_card
from electra.config import build, plain
from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import dump_json, read_object
from electra.finetuning.classification import Classification
from electra.finetuning.heads import Network
from electra.finetuning.reading import ARCHITECTURES, kind_of
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.task_kind import DO, Stored
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.encoder import Encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import (
    TASK,
    TOKENIZER_FILES,
    architecture,
    encoder_tensors,
    head_tensors,
    load_encoder,
    read_tensors,
    write_folder,
)
from electra.storage.manifest import MANIFEST


@dataclass(frozen=True)
class Ready:
    """A fine-tuned model that answers; `config` says how its rows are laid out and SQuAD's answers chosen."""

    network: Network
    tokenizer: Tokenizer
    task: Task
    config: FinetuneConfig


def write_model(folder: Path, network: Network, task: Task, config: FinetuneConfig, source: Path, **facts: Any) -> None:
    """Write a folder, with the tokenizer files of the folder `source`; `facts` go into its manifest."""
    encoder, kind = network.encoder, kind_of(task)
    exported = kind.export(network, config)
    task_json = {"length": config.length, **exported.task_json}
    more: dict[str, Any] = {"pad_token_id": read_object(source / "config.json").get("pad_token_id", 0)}
    if exported.labels:
        more["id2label"] = {str(number): label for number, label in enumerate(exported.labels)}
        more["label2id"] = {label: number for number, label in enumerate(exported.labels)}
    values = config_json(encoder.config, encoder.vocab_size, exported.architecture, **more, **exported.config)
    files = {name: (source / name).read_text("utf-8") for name in TOKENIZER_FILES if (source / name).is_file()}
    files[TASK] = dump_json(task_json)
    title = f"ELECTRA, fine-tuned: {task.title}"
    card = model_card(title, kind.use(), {"task": task_json, "recipe": plain(config)})
    tensors = encoder_tensors(encoder) | exported.tensors
    write_folder(folder, tensors, values, files, card, beside=exported.beside, part="fine-tuned", **facts)


def is_finetuned(folder: Path) -> bool:
    """Whether a folder holds a fine-tuned model: one of ours, or of a class of transformers that `load_model` reads."""
    return (folder / TASK).is_file() or architecture(folder) in ARCHITECTURES or _is_tuned_modernbert(folder)


def _is_tuned_modernbert(folder: Path) -> bool:
    """Whether a folder is of a class of ModernBERT with a task's head; one label a token is a discriminator's."""
    name = architecture(folder).removeprefix("ModernBertFor")
    labels = read_object(folder / "config.json").get("id2label")
    tagged = name == "TokenClassification" and not (isinstance(labels, dict) and len(labels) == 1)
    return tagged or name in {"SequenceClassification", "QuestionAnswering", "MultipleChoice"}


def load_tokenizer(folder: Path, encoder: Encoder) -> Tokenizer:
    """The folder's tokenizer, which may have no piece that the encoder has no vector for."""
    tokenizer = tokenizers.load(folder)
    if tokenizer.vocab_size > encoder.vocab_size:
        found, expected = f"{tokenizer.vocab_size:,} pieces", f"at most the model's {encoder.vocab_size:,}"
        raise BadInput(folder, f"holds a tokenizer of {found}", expected, "give the folder as it was written")
    return tokenizer


def load_model(folder: Path) -> Ready:
    """A fine-tuned model from our folder or any of transformers'; raises BadInput if it holds none.

    Ours is verified. One of ours that has lost its manifest is read unverified, as folders from elsewhere are, with a
    warning.
    """
    encoder = load_encoder(folder, dropout=0.0)
    heads = head_tensors(read_tensors(folder))
    values, ours = read_object(folder / "config.json"), (folder / TASK).is_file()
    if not (encoder.config.stock_heads or ours):
        found, expected = f"is a {architecture(folder)} of transformers", "a ModernBERT that was fine-tuned here"
        raise BadInput(folder, found, expected, "fine-tune its encoder here: other heads are not read")
    task_json = read_object(folder / TASK) if ours else {}
    if ours and not (folder / MANIFEST).is_file():
        print(f"warning: {folder} has no {MANIFEST}: its bytes were not checked", file=sys.stderr)
    positions = encoder.config.positions
    length = task_json.get("length", min(positions, 512))
    if type(length) is not int or not 8 <= length <= positions:
        raise BadInput(folder / TASK, f"has length {length!r}", f"8 to the model's {positions} positions", DO)
    tokenizer = load_tokenizer(folder, encoder)
    stored = Stored(folder, encoder, length, values, task_json, heads)
    if "task" in task_json:  # a number leaves the network on the label's own scale
        task = dataclasses.replace(build(Task, task_json["task"], f"{folder / TASK}: task"), scale=1.0)
    else:
        kind = ARCHITECTURES.get(architecture(folder), Classification)
        kind = QuestionAnswering if "squad" in task_json else kind
        task = kind.task_of(stored)
    network, config = kind_of(task).restore(stored)
    return Ready(network, tokenizer, task, config)
