"""Rows in, answers out: what a fine-tuned model says of each row, as records that JSON can hold.

| model | record, beside `id` |
|---|---|
| classes | `prediction` (a label), `probabilities` (label -> share) |
| a number | `prediction` |
| tags | `words`, `tags` (IOB2), `probabilities` (of each word's tag; null for words beyond the model's length) |
| SQuAD | `prediction` ("" for none), `best` (the best span all the same), `start` (its place in the context), `null_score`, `n_best` |

Shapes: B rows, P tokens of all rows, L longest row allowed.
"""

import itertools
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.asking import Row
from electra.finetuning import predictions, tagging
from electra.finetuning.batches import NO_WORD, Batch
from electra.finetuning.examples import encode
from electra.finetuning.folder import Ready
from electra.finetuning.heads import Network
from electra.finetuning.squad import answers, windows
from electra.finetuning.tagging import Tagger
from electra.finetuning.trainer import read_outputs
from electra.finetuning.unpadded import hidden
from electra.optim.precision import Asked as Precision

_AT_ONCE = 256


def answer(
    ready: Ready, rows: Iterable[Row], device: torch.device | str = "cpu", precision: Precision = "default"
) -> Iterator[Row]:
    """One record for each row, as soon as its few hundred are read; the network lies on `device`."""
    rows = iter(rows)
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        if ready.squad is not None:
            yield from _answer_questions(ready, batch, device, precision)
            continue
        assert ready.task is not None
        examples = encode(batch, ready.task, ready.tokenizer, ready.length)
        network = _SureTagger(ready.network) if isinstance(ready.network, Tagger) else ready.network
        outputs = read_outputs(network, examples, device, precision=precision)
        if ready.task.tagging:
            tags = tagging.tags_of(ready.task, batch, examples, outputs["tags"])
            ends = examples.start_N + examples.length_N
            for row, each, first, end, share_L in zip(
                batch, tags, examples.start_N, ends, outputs["share"], strict=True
            ):
                word_P = examples.targets["label"][first:end] != NO_WORD
                shares = [float(f"{share:.6g}") for share in predictions.finite(share_L[: end - first][word_P])]
                unread = [None] * (len(each) - len(shares))
                yield {"id": row["id"], "words": row["words"], "tags": each, "probabilities": shares + unread}
            continue
        logits_BC = predictions.finite(outputs["logits"])
        lines = predictions.lines(ready.task, batch, logits_BC)
        for line, logits_C in zip(lines, logits_BC, strict=True):
            found: Row = {"id": line["id"], "prediction": line["prediction"]}
            if not ready.task.regression:
                shares = predictions.probabilities(logits_C)
                found["probabilities"] = dict(zip(ready.task.labels, shares, strict=True))
            yield found


class _SureTagger(Network):
    """A tagger that tells how sure it is."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.tagger, self.encoder = tagger, tagger.encoder

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """`tags` (B, L) and `share` (B, L): the best tag of each piece and its probability."""
        share_P, tag_P = self.tagger.head(hidden(self.encoder, batch)).float().softmax(-1).max(-1)
        both = {"tags": batch.grid(tag_P, 0), "share": batch.grid(share_P, 0)}
        return {
            name: F.pad(values_BT, (0, self.tagger.length - values_BT.shape[1])) for name, values_BT in both.items()
        }


def _answer_questions(
    ready: Ready, batch: list[Row], device: torch.device | str, precision: Precision
) -> Iterator[Row]:
    config = ready.squad
    assert config is not None
    reading = windows.encode(
        batch, ready.tokenizer, length=config.length, stride=config.stride, question_length=config.question_length
    )
    outputs = read_outputs(ready.network, reading.examples, device, precision=precision)
    outputs = {name: predictions.finite(values) for name, values in outputs.items()}
    candidates = answers.candidates(reading, outputs, config)
    found = answers.choose(reading, candidates, config)
    n_best = answers.official(found, candidates, outputs)
    given = found.given(config.null_threshold if config.answerability else None)
    for number, row in enumerate(batch):
        key, start = row["id"], None
        if found.chosen[key]:
            best = found.chosen[key][0]
            window = reading.windows[candidates.window_C[best]]
            piece = candidates.start_C[best] + window.first - window.offset
            start = int(reading.places[number][piece, 0])
        yield {
            "id": key,
            "prediction": given[key],
            "best": found.spans[key],
            "start": start,
            "null_score": found.null[key],
            "n_best": n_best[key],
        }
