"""Token tagging, as the paper's chunking: a tag for the first piece of each word, spans scored by entity F1.

1. tags of a row (IOB1, IOB2 or BIOES) -> spans (type, first word, last word), by the rules of conlleval
2. spans -> BIOES, what the linear head learns; all segment ids are 1, as published, and the head has no dropout
3. predicted BIOES -> spans -> IOB2, what is handed out and scored

Shapes: B rows, P tokens of all rows, C tags (O, and B I E S of every type), L longest row allowed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.data.tokenizer import Tokenizer
from electra.errors import BadInput
from electra.finetuning.batches import Batch, Examples, stack
from electra.finetuning.heads import Network
from electra.finetuning.tasks import Task
from electra.finetuning.unpadded import hidden
from electra.model.encoder import Encoder

_INSIDE = -100  # the label of a piece that stands for no word

Span = tuple[str, int, int]


def spans(tags: Sequence[str]) -> list[Span]:
    """(type, first, last) of each span, as conlleval and seqeval read them: a broken sequence starts a new span."""
    found: list[Span] = []
    begin, last = 0, ("O", "")
    for place, tag in enumerate([*tags, "O"]):
        edge, _, kind = tag.partition("-")
        ends = last[0] in "ES" or (last[0] in "BI" and (edge in "BSO" or kind != last[1]))
        if ends and last[0] != "O":
            found.append((last[1], begin, place - 1))
        starts = edge in "BS" or (edge in "EI" and (last[0] in "ESO" or kind != last[1]))
        if starts:
            begin = place
        last = (edge, kind)
    return found


def bioes(found: Sequence[Span], words: int) -> list[str]:
    """Spans as one tag a word: B … E, S for a single word, O outside."""
    tags = ["O"] * words
    for kind, first, last in found:
        tags[first : last + 1] = [f"I-{kind}"] * (last + 1 - first)
        if first == last:
            tags[first] = f"S-{kind}"
        else:
            tags[first], tags[last] = f"B-{kind}", f"E-{kind}"
    return tags


def iob2(found: Sequence[Span], words: int) -> list[str]:
    """Spans as one tag a word: B I I, O outside."""
    tags = ["O"] * words
    for kind, first, last in found:
        tags[first : last + 1] = [f"B-{kind}", *[f"I-{kind}"] * (last - first)]
    return tags


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """F1 over spans of all rows, in points: one is right if type, first and last word are; 0 if there are none."""
    ours = {(row, *span) for row, tags in enumerate(predicted) for span in spans(tags)}
    theirs = {(row, *span) for row, tags in enumerate(gold) for span in spans(tags)}
    return 200 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else 0.0


def tag_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, float]:
    """Entity F1, and the share of words whose tag is right (both read as IOB2)."""
    same = [
        ours == theirs
        for row, tags in zip(predicted, gold, strict=True)
        for ours, theirs in zip(row, iob2(spans(tags), len(tags)), strict=True)
    ]
    return {"entity_f1": round(entity_f1(predicted, gold), 6), "accuracy": round(100 * sum(same) / len(same), 6)}


def check_row(row: Any, task: Task, where: str, *, labelled: bool) -> None:
    """Raise BadInput for a row that is not words, each with a known tag."""
    words = row.get("words") if isinstance(row, dict) else None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise BadInput(where, f"is {row!r:.80}", 'an object with an id and words under "words"')
    if not labelled:
        return
    tags = row.get("tags")
    if not isinstance(tags, list) or len(tags) != len(words):
        found = f"{len(tags)} tags" if isinstance(tags, list) else "no tags"
        raise BadInput(where, f"has {found} for {len(words)} words", "a tag for each word", "mend or remove the row")
    for tag in tags:
        if (fault := fault_of(tag, task.labels)) is not None:
            raise BadInput(where, f"has the tag {tag!r}", fault, "mend or remove the row")


def fault_of(tag: object, kinds: Sequence[str]) -> str | None:
    """What was expected instead of a tag; None if it is one of B, I, E, S with a known type, or O."""
    edge, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if tag == "O" or (edge in {"B", "I", "E", "S"} and kind in kinds):
        return None
    return f"O, or one of B-, I-, E-, S- before {', '.join(kinds)}"


def encode(rows: list[dict[str, Any]], task: Task, tokenizer: Tokenizer, length: int) -> Examples:
    """Rows to arrays. The target `label` has one entry a token: the tag's index at a word's first piece, else -100."""
    index = {name: number for number, name in enumerate(task.classes)}
    pieces = iter(tokenizer.encode_lines([word for row in rows for word in row["words"]]))
    sequences: list[list[int]] = []
    labels: list[int] = []
    for row in rows:
        count = len(row["words"])
        tags = bioes(spans(row["tags"]), count) if row.get("tags") else ["O"] * count
        sequence, marks = [tokenizer.cls_id], [_INSIDE]
        for tag, word in zip(tags, [next(pieces) or [tokenizer.unk_id] for _ in range(count)], strict=True):
            sequence += word
            marks += [index[tag], *[_INSIDE] * (len(word) - 1)]
        sequences.append([*sequence[: length - 1], tokenizer.sep_id])
        labels += [*marks[: length - 1], _INSIDE]
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
            self.head(hidden(self.encoder, batch)), batch.targets["label"], ignore_index=_INSIDE, reduction="none"
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
        best = [task.classes[tag] for tag in tags_NL[number][: len(marks)][marks != _INSIDE]]
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


def finite(outputs: dict[str, Any]) -> bool:
    """Whether all logits were."""
    return bool(torch.as_tensor(outputs["finite"]).all())
