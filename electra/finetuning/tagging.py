"""Token tagging, as the paper's chunking: a tag for the first piece of each word.

The linear head learns BIOES tags; all segment ids are 1, as published, and the head has no dropout.

Shapes: B rows, P tokens of all rows, C tags (O, and B I E S of every type), L longest row allowed.
"""

from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from electra.data.tokenizer import Tokenizer
from electra.finetuning.batches import NO_WORD, Batch, Examples, stack
from electra.finetuning.heads import Network
from electra.finetuning.spans import bioes, iob2, spans
from electra.finetuning.tasks import Task
from electra.finetuning.unpadded import hidden
from electra.nn.encoder import Encoder


def encode(rows: list[dict[str, Any]], task: Task, tokenizer: Tokenizer, length: int) -> Examples:
    """Rows to arrays. The target `label` has one entry a token: the tag's index at a word's first piece, else -100."""
    index = {name: number for number, name in enumerate(task.classes)}
    pieces = iter(tokenizer.encode_lines([word for row in rows for word in row["words"]]))
    sequences: list[list[int]] = []
    labels: list[int] = []
    for row in rows:
        count = len(row["words"])
        tags = bioes(spans(row["tags"]), count) if row.get("tags") else ["O"] * count
        sequence, marks = [tokenizer.cls_id], [NO_WORD]
        for tag, word in zip(tags, [next(pieces) or [tokenizer.unk_id] for _ in range(count)], strict=True):
            sequence += word
            marks += [index[tag], *[NO_WORD] * (len(word) - 1)]
        sequences.append([*sequence[: length - 1], tokenizer.sep_id])
        labels += [*marks[: length - 1], NO_WORD]
    names = [row["id"] for row in rows]
    return stack(sequences, [0] * len(rows), {"label": np.array(labels, dtype=np.int64)}, names)


class Tagger(Network):
    """An encoder with a linear head on every token."""

    def __init__(self, encoder: Encoder, classes: int, length: int) -> None:
        super().__init__()
        self.encoder, self.length = encoder, length
        self.head = nn.Linear(encoder.config.hidden, classes)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def losses(self, batch: Batch) -> Tensor:
        """Cross-entropy of each row (B,), summed over its words."""
        loss_P = F.cross_entropy(
            self.head(hidden(self.encoder, batch)), batch.targets["label"], ignore_index=NO_WORD, reduction="none"
        )
        return loss_P.new_zeros(len(batch)).index_add(0, batch.row_P, loss_P)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """`tags` (B, L): the best tag of each piece; `finite` (B,): whether a row's logits all are."""
        logits_PC = self.head(hidden(self.encoder, batch))
        tags_BT = batch.grid(logits_PC.argmax(-1), 0)
        worst_BT = batch.grid(logits_PC.isfinite().all(-1).long(), 1)
        return {"tags": F.pad(tags_BT, (0, self.length - tags_BT.shape[1])), "finite": worst_BT.amin(1)}


def tags_of(task: Task, rows: list[dict[str, Any]], examples: Examples, tags_NL: Any) -> list[list[str]]:
    """Predicted IOB2 tags of every row's words; words beyond the length are O."""
    ends = np.cumsum(examples.length_N)
    result = []
    for number, (row, end) in enumerate(zip(rows, ends, strict=True)):
        marks = examples.targets["label"][end - examples.length_N[number] : end]
        best = [task.classes[tag] for tag in tags_NL[number][: len(marks)][marks != NO_WORD]]
        count = len(row["words"])
        result.append(iob2(spans([*best, *["O"] * (count - len(best))]), count))
    return result


def lines(rows: list[dict[str, Any]], predicted: list[list[str]]) -> list[dict[str, Any]]:
    """One record for each row: id, words, predicted tags, gold tags (null if there are none)."""
    return [
        {"id": row["id"], "words": row["words"], "prediction": tags, "label": row.get("tags")}
        for row, tags in zip(rows, predicted, strict=True)
    ]


def fault(rows: list[dict[str, Any]], predicted: list[list[str]], trained: bool) -> str | None:
    """Why a run counts as failed, in words; None if it does not."""
    if not trained:
        return "the loss or the outputs stopped being finite"
    if any(spans(row["tags"]) for row in rows) and not any(spans(tags) for tags in predicted):
        return "no span was predicted in any row"
    return None
