"""Write a fine-tuned model as a Hugging Face folder, and load any such folder as a model that
answers.

| task | architecture in config.json | our head there |
|---|---|---|
| classes, numbers | ElectraForSequenceClassification | ±W in `dense`, ±1 in `out_proj` |
| tags | ElectraForTokenClassification | `classifier` as it is |
| SQuAD, independent ends | ElectraForQuestionAnswering | `qa_outputs` |
| SQuAD, ends conditioned on starts | ElectraModel | none: `span_head.safetensors` |
| classes, numbers, of more than [CLS] | ElectraModel | none: `pooled_head.safetensors` |
| any, on a modern encoder | ModernBertModel | none: one of these two files |

gelu(z) - gelu(-z) = z makes transformers' head of two layers our linear one. Words are fed segment
1 here, which is also stored as segment 0. ModernBERT's task heads have a LayerNorm, ours do not.

So stock transformers gives our logits (numbers on the label's own scale), and folders of ELECTRA's
three classes that others have fine-tuned are read by the same rules; folders of ModernBERT's
classes for tasks are refused. `task.json` holds everything that config.json has no key for:
columns, lengths, the SQuAD settings.
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.card import model_card
from electra.config import build, to_jsonable
from electra.data import tokenizer as tokenizers
from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.files import dump_json, read_object
from electra.finetuning.classification import Classification
from electra.finetuning.heads import Network
from electra.finetuning.reading import ARCHITECTURES, kind_of
from electra.finetuning.squad.kind import QuestionAnswering
from electra.finetuning.task_kind import Stored
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.hf_names import config_json
from electra.nn.huggingface import (
    CONFIG,
    TASK,
    ModelFolder,
    encoder_tensors,
    write_folder,
)
from electra.storage.manifest import MANIFEST


@dataclass(frozen=True)
class FineTuned:
    """A fine-tuned model that answers; `config` says how its rows are laid out and SQuAD's answers
    chosen.
    """

    network: Network
    tokenizer: Tokenizer
    task: Task
    config: FinetuneConfig


def write_model(
    folder: Path, network: Network, task: Task, config: FinetuneConfig, source: Path, **facts: Any
) -> None:
    """Write a folder, with the tokenizer files of the folder `source`. `facts` go into its
    manifest.
    """
    encoder = network.encoder
    kind = kind_of(task)
    exported = kind.export(network, config)
    task_json = {"length": config.length, **exported.task_json}
    head_config: dict[str, Any] = {
        "pad_token_id": read_object(source / "config.json").get("pad_token_id", 0)
    }
    if exported.labels:
        head_config["id2label"] = {
            str(number): label for number, label in enumerate(exported.labels)
        }
        head_config["label2id"] = {label: number for number, label in enumerate(exported.labels)}
    values = config_json(
        encoder.config, encoder.vocab_size, exported.architecture, **head_config, **exported.config
    )
    files = tokenizers.read_files(source, config.length) | {TASK: dump_json(task_json)}
    title = f"ELECTRA, fine-tuned: {task.title}"
    card = model_card(
        title, kind.card_example(), {"task": task_json, "recipe": to_jsonable(config)}
    )
    tensors = encoder_tensors(encoder) | exported.tensors
    write_folder(
        folder,
        tensors,
        values,
        files,
        card,
        extra_files=exported.extra_files,
        part="fine-tuned",
        **facts,
    )


def is_finetuned(folder: ModelFolder) -> bool:
    """Return whether a folder holds a fine-tuned model: one of ours, or of a class that
    `load_model` reads.
    """
    return (
        (folder.path / TASK).is_file()
        or folder.architecture in ARCHITECTURES
        or _is_tuned_modernbert(folder)
    )


def _is_tuned_modernbert(folder: ModelFolder) -> bool:
    """Return whether a folder is a ModernBERT with a task's head. One label a token is a
    discriminator's.
    """
    name = folder.architecture.removeprefix("ModernBertFor")
    if name == "TokenClassification":
        labels = folder.config_json.get("id2label")
        return not (isinstance(labels, dict) and len(labels) == 1)
    return name in {"SequenceClassification", "QuestionAnswering", "MultipleChoice"}


def load_tokenizer(folder: ModelFolder) -> Tokenizer:
    """Return the folder's tokenizer. The encoder may have more vectors than it has pieces, and not
    fewer.
    """
    path = folder.path
    tokenizer = tokenizers.load(path)
    if lost := tokenizers.added_tokens(path) - set(tokenizer.pieces()):
        raise BadInput(
            f"{path}: its vocabulary lacks the added tokens {', '.join(sorted(lost))[:60]}; "
            "save the tokenizer with AutoTokenizer of transformers"
        )
    vocab_size = folder.encoder_settings[1]
    if tokenizer.vocab_size > vocab_size:
        raise BadInput(
            f"{path}: the tokenizer has {tokenizer.vocab_size:,} pieces and the model only "
            f"{vocab_size:,}; give the folder as it was written"
        )
    return tokenizer


def load_model(folder: ModelFolder) -> FineTuned:
    """Return the fine-tuned model of our folder or any of transformers'. Raise BadInput if it holds
    none.

    One of ours that has lost its manifest is read unverified, as folders from elsewhere are, with a
    warning.
    """
    path = folder.path
    encoder = folder.encoder(dropout=0.0)
    ours = (path / TASK).is_file()
    if not (encoder.config.has_hf_task_head or ours):
        raise BadInput(
            f"{path}: is a {folder.architecture} of transformers, whose head is not read; "
            "fine-tune its encoder here"
        )
    if getattr(encoder.config, "token_types", 2) < 2:
        raise BadInput(f"{path / CONFIG}: type_vocab_size is 1; a second text needs 2")
    task_json = read_object(path / TASK) if ours else {}
    if ours and not (path / MANIFEST).is_file():
        print(f"warning: {path} has no {MANIFEST}: its bytes were not checked", file=sys.stderr)
    positions = encoder.config.positions
    length = task_json.get("length", folder.trained_positions)
    if type(length) is not int or not 8 <= length <= positions:
        raise BadInput(
            f"{path}: length is {length!r}; it should be 8 to the model's {positions} positions"
        )
    stored = Stored(folder, encoder, length, task_json)
    if "task" in task_json:  # a number leaves the network on the label's own scale
        task = build(Task, task_json["task"], f"{path / TASK}: task")
        task = dataclasses.replace(task, scale=1.0)
    elif "squad" in task_json:
        task = QuestionAnswering.task_of(stored)
    else:
        task = ARCHITECTURES.get(folder.architecture, Classification).task_of(stored)
    network, config = kind_of(task).restore(stored)
    return FineTuned(network, load_tokenizer(folder), task, config)
