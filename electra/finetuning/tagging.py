"""Token tagging, as in the paper's chunking task: a tag for the first piece of each word.

The linear head learns BIOES tags; all segment ids are 1, as published, and the head has no dropout.

Shapes: B rows, T positions, C tags (O, and B I E S of every type), L longest row allowed, P pieces
of a row.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.card import Use
from electra.data.tokenizer import Tokenizer
from electra.errors import BadConfig, BadInput, short_repr
from electra.files import encodes
from electra.finetuning.batches import NO_WORD, Examples, PaddedBatch, stack
from electra.finetuning.heads import Network, OutputArrays, new_linear
from electra.finetuning.labels import bioes, check_tags, iob2, spans, split_words, tag_scores
from electra.finetuning.predictions import rounded
from electra.finetuning.task_kind import Encoded, Exported, Row, SplitResult, Stored, TaskKind
from electra.finetuning.tasks import FinetuneConfig, PublishedTags, Task
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import CONFIG, POOLED


class Tagging(TaskKind):
    """A tag for each word."""

    architecture = "ElectraForTokenClassification"
    label = "tags"
    scores_training = False

    def column_names(self, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        return self.task.columns or ("words",), ("words",)

    def split_fields(self, row: str | Sequence[Any]) -> list[Any]:
        return [row if isinstance(row, str) else list(row)]

    def parse_row(self, values: Mapping[str, Any], where: str) -> Row:
        ((column, words),) = values.items()
        row = {"words": split_words(words)}
        self.check_row(row, where, labelled=False)
        if not encodes("".join(row["words"])):
            raise BadInput(f"{where}: {column} are {short_repr(row['words'])}; they should be text")
        return row

    def display(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        return [" ".join(row["words"])], " ".join(row["tags"])

    def check_row(self, row: Row, where: str, *, labelled: bool) -> None:
        check_tags(row, self.task, where, labelled=labelled)

    def check_config(self, config: FinetuneConfig, encoder: EncoderConfig, keep: str) -> None:
        super().check_config(config, encoder, keep)
        for key, expected in (("pooling", "cls"), ("head_layers", "last")):
            value = getattr(config, key)
            if value != expected:
                raise BadConfig(
                    f"finetune of {self.task.name}: has {key} {value}; expected {expected}: a tag "
                    "is read from each token"
                )

    def encode(self, rows: list[Row], tokenizer: Tokenizer, config: FinetuneConfig) -> Encoded:
        """Return the target `label` with one entry per token: the tag's index at a word's first
        piece, else -100.
        """
        index = {name: number for number, name in enumerate(self.task.classes)}
        words = itertools.chain.from_iterable(row["words"] for row in rows)
        pieces = iter(tokenizer.encode_words(list(words)))
        sequences: list[list[int]] = []
        labels: list[int] = []
        for row in rows:
            count = len(row["words"])
            tags = bioes(spans(row["tags"]), count) if row.get("tags") else ["O"] * count
            sequence = [tokenizer.cls_id]
            marks = [NO_WORD]
            for tag in tags:
                word = next(pieces) or [tokenizer.unk_id]
                sequence += word
                marks += [index.get(tag, 0), *[NO_WORD] * (len(word) - 1)]
            sequences.append([*sequence[: config.length - 1], tokenizer.sep_id])
            labels += [*marks[: config.length - 1], NO_WORD]
        names = [row["id"] for row in rows]
        targets = {"label": np.array(labels, dtype=np.int64)}
        return Encoded(rows, stack(sequences, [0] * len(rows), targets, names))

    def network(self, encoder: Encoder, config: FinetuneConfig) -> Network:
        return Tagger(encoder, len(self.task.classes), config.length)

    def score_split(
        self, outputs: OutputArrays, encoded: Encoded, config: Any, *, labelled: bool
    ) -> SplitResult:
        tags = predicted_tags(self.task, encoded, outputs["tags"])
        lines = [
            {
                "id": row["id"],
                "words": row["words"],
                "prediction": predicted,
                "label": row.get("tags"),
            }
            for row, predicted in zip(encoded.rows, tags, strict=True)
        ]
        if not labelled:
            return SplitResult({".jsonl": lines}, {}, None)
        gold = [row["tags"] for row in encoded.rows]
        silent = any(map(spans, gold)) and not any(map(spans, tags))
        fault = "no span was predicted in any row" if silent else None
        finite = bool(outputs["finite"].all())
        return SplitResult({".jsonl": lines}, tag_scores(tags, gold), fault, finite)

    def answers(self, outputs: OutputArrays, encoded: Encoded, config: Any) -> Iterator[Row]:
        tags = predicted_tags(self.task, encoded, outputs["tags"])
        marks = _marks(encoded.examples)
        for row, row_tags, mark_P, share_L in zip(
            encoded.rows, tags, marks, outputs["share"], strict=True
        ):
            shares = [rounded(share) for share in share_L[: len(mark_P)][mark_P != NO_WORD]]
            unread = [None] * (len(row_tags) - len(shares))
            yield {
                "id": row["id"],
                "words": row["words"],
                "tags": row_tags,
                "probabilities": [*shares, *unread],
            }

    def score(
        self, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
    ) -> dict[str, float]:
        for row in rows:
            self.check_row(
                {**row, "tags": answers[row["id"]]}, f"{where} (id {row['id']})", labelled=True
            )
        return tag_scores([answers[row["id"]] for row in rows], [row["tags"] for row in rows])

    def export(self, network: Any, config: FinetuneConfig) -> Exported:
        head = {f"classifier.{kind}": value for kind, value in network.head.state_dict().items()}
        task_json: dict[str, Any] = {"task": dataclasses.asdict(self.task)}
        labels = self.task.classes
        if not network.encoder.config.has_hf_task_head:
            return Exported("ElectraModel", task_json, labels, extra_files={POOLED: head})
        # stock models are fed segment 0, and we feed 1
        types = network.encoder.embeddings.token_type.weight.detach()
        segments = {"electra.embeddings.token_type_embeddings.weight": types[1:2].expand_as(types)}
        return Exported(self.architecture, task_json, labels, tensors=head | segments)

    def restore(self, stored: Stored) -> tuple[Network, FinetuneConfig]:
        tagger = Tagger(stored.encoder, len(self.task.classes), stored.length)
        heads = stored.heads
        if stored.encoder.config.has_hf_task_head:
            with torch.no_grad():
                types = stored.encoder.embeddings.token_type.weight
                types[:] = types[0].clone()
        else:
            heads = heads | stored.extra_file(POOLED)
        stored.load_exactly(nn.ModuleDict({"classifier": tagger.head}), heads)
        return tagger, FinetuneConfig(length=stored.length)

    @staticmethod
    def task_of(stored: Stored) -> Task:
        labels = [re.sub("^L-", "E-", re.sub("^U-", "S-", label)) for label in stored.labels()]
        wrong = [label for label in labels if not re.fullmatch("O|[BIES]-.+", label, re.DOTALL)]
        if wrong or "O" not in labels:
            raise BadInput(
                f"{stored.path / CONFIG}: the labels are {', '.join(labels)[:80]}; they should be "
                "O, and B-, I-, E- or S- before the types of spans"
            )
        types = tuple(dict.fromkeys(label[2:] for label in labels if label != "O"))
        return PublishedTags(
            name=stored.path.name,
            title=stored.path.name,
            labels=types,
            metrics=("entity_f1",),
            tagging=True,
            tags=tuple(labels),
        )

    def card_example(self) -> Use:
        return "words"


class Tagger(Network):
    """An encoder with a linear head on every token."""

    def __init__(self, encoder: Encoder, classes: int, length: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.length = length
        self.head = new_linear(encoder.config.hidden, classes)

    def forward(self, batch: PaddedBatch) -> Tensor:
        """Return the logits of every token (B, T, C)."""
        return self.head(self.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B))  # type: ignore[no-any-return]

    def losses(self, batch: PaddedBatch) -> Tensor:
        """Return the cross-entropy of each row (B,), summed over its words."""
        logits_BCT = self(batch).transpose(1, 2)
        loss_BT = F.cross_entropy(
            logits_BCT, batch.targets["label"], ignore_index=NO_WORD, reduction="none"
        )
        return loss_BT.sum(1)

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return each piece's best tag, `tags` (B, L), its probability, `share` (B, L), and whether
        a row's logits are finite, `finite` (B,).
        """
        logits_BTC = self(batch).masked_fill(~batch.real_tokens()[..., None], 0)
        missing = (0, self.length - logits_BTC.shape[1])
        return {
            "tags": F.pad(logits_BTC.argmax(-1), missing),
            "share": F.pad(logits_BTC.float().softmax(-1).amax(-1), missing),
            "finite": logits_BTC.isfinite().all(-1).all(-1),
        }


def predicted_tags(task: Task, encoded: Encoded, tags_NL: Any) -> list[list[str]]:
    """Return predicted IOB2 tags of every row's words. Words beyond the length are O."""
    result = []
    for row, mark_P, tag_L in zip(encoded.rows, _marks(encoded.examples), tags_NL, strict=True):
        best = [task.classes[tag] for tag in tag_L[: len(mark_P)][mark_P != NO_WORD]]
        count = len(row["words"])
        result.append(iob2(spans([*best, *["O"] * (count - len(best))]), count))
    return result


def _marks(examples: Examples) -> list[Any]:
    """Return the targets of each row's tokens."""
    return np.split(examples.targets["label"], np.cumsum(examples.length_N)[:-1])
