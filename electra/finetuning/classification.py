"""Tasks that ask for a class or a number of a text or a pair of texts: GLUE's nine, and one's own.

    [CLS] a [SEP]  or  [CLS] a [SEP] b [SEP]  -> logits (C,), or one number

Texts that are too long are cut from the longer side.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from electra.card import Use
from electra.data.tokenizer import Tokenizer
from electra.errors import BadConfig, BadInput, shown
from electra.finetuning import predictions
from electra.finetuning.batches import Examples, stack
from electra.finetuning.checkpoint_head import DO, Exported, Stored, named_outputs
from electra.finetuning.heads import Classifier, DenseClassifier, Network, OutputArrays
from electra.finetuning.labels import read_label
from electra.finetuning.metrics import score
from electra.finetuning.task_kind import Encoded, Row, RowSequence, SplitResult, TaskKind, require_texts
from electra.finetuning.tasks import FinetuneConfig, Layers, Pooling, Task
from electra.nn.config import AnyEncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import POOLED, TASK


class Classification(TaskKind):
    """Classes and numbers."""

    architecture = "ElectraForSequenceClassification"

    def columns(self, task: Task, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        columns = task.columns or tuple(official)
        short = ("a", "b")[: len(columns) or 1]
        return columns or ("a",), short, *([] if columns else [("a", "b")])

    def row(self, values: Mapping[str, Any], task: Task, where: str) -> Row:
        a, b = (*map(str.strip, require_texts(values, where)), None)[:2]
        return {"a": a, "b": b}

    def show(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        return [row["a"], row["b"]], row["label"]

    def check_row(self, row: Row, task: Task, where: str, *, labelled: bool) -> None:
        if not isinstance(row.get("a"), str):
            raise BadInput(where, f"is {row!r:.80}", 'an object with text under "id" and "a"')
        if not isinstance(row.get("b"), str | None):
            raise BadInput(where, f"has b {row['b']!r:.40}", "text or null")
        label, do = row.get("label"), "mend or remove the row"
        if labelled and task.regression:
            number = isinstance(label, int | float) and not isinstance(label, bool) and math.isfinite(label)
            if not number:
                raise BadInput(where, f"has the score {label!r}", "a finite number", do)
        elif labelled and label not in task.labels:
            raise BadInput(where, f"has the label {label!r}", f"one of {', '.join(task.labels)}", do)

    def check_config(self, task: Task, config: FinetuneConfig, encoder: AnyEncoderConfig, keep: str) -> None:
        super().check_config(task, config, encoder, keep)
        if keep != "none" and 2 * len(task.classes) > encoder.hidden:
            found = f"keeps a model of {len(task.classes)} classes"
            raise BadConfig(f"finetune of {task.name}", found, f"at most {encoder.hidden // 2}", "set keep: none")

    def encode(self, rows: list[Row], task: Task, tokenizer: Tokenizer, config: FinetuneConfig) -> Encoded:
        seen = both_orders(rows) if config.both_orders else rows
        return Encoded(rows, encode(seen, task, tokenizer, config.length))

    def network(self, encoder: Encoder, task: Task, config: FinetuneConfig) -> Network:
        return Classifier(encoder, len(task.labels), config.head_dropout, config.pooling, config.head_layers)

    def judge(
        self, outputs: OutputArrays, encoded: Encoded, task: Task, config: FinetuneConfig, *, labelled: bool
    ) -> SplitResult:
        rows, logits_NC = encoded.rows, outputs["logits"]
        files = {".jsonl": predictions.lines(task, rows, logits_NC)}
        if not labelled:
            return SplitResult(files, {}, None)
        fault, finite = predictions.fault(task, rows, logits_NC), bool(np.isfinite(logits_NC).all())
        return SplitResult(files, predictions.scores(task, rows, logits_NC), fault, finite)

    def answers(self, outputs: OutputArrays, encoded: Encoded, task: Task, config: FinetuneConfig) -> Iterator[Row]:
        logits_BC = predictions.finite(outputs["logits"])
        for line, logits_C in zip(predictions.lines(task, encoded.rows, logits_BC), logits_BC, strict=True):
            answer = {key: line[key] for key in ("id", "prediction")}
            if not task.regression:
                answer["probabilities"] = dict(zip(task.labels, predictions.probabilities(logits_C), strict=True))
            yield answer

    def score(self, rows: RowSequence, answers: Mapping[str, Any], task: Task, where: Path) -> dict[str, float]:
        predicted: list[Any] = []
        for number, row in enumerate(rows, 1):
            label, fault = read_label(answer := answers[row["id"]], task.labels)
            if fault:
                expected = "a finite number" if task.regression else f"one of {', '.join(task.labels)}"
                raise BadInput(where, f"predicts {shown(answer)} for id {row['id']} (row {number})", expected)
            predicted.append({"label": label})
        predicted_N, label_N = predictions.numbers(task, predicted), predictions.numbers(task, rows)
        return {name: score(name, predicted_N, label_N) for name in task.metrics}

    def export(self, network: Any, task: Task, config: FinetuneConfig) -> Exported:
        task_json: dict[str, Any] = {"task": dataclasses.asdict(task)}
        outputs = named_outputs(task.labels or ("score",))
        outputs["problem_type"] = "regression" if task.regression else "single_label_classification"
        scale, shape = task.scale if task.regression else 1.0, network.encoder.config
        if (network.pooling, network.layers) == ("cls", "last") and shape.stock_heads:
            head = network.dense_tensors(scale, shape.hidden)
            return Exported(self.architecture, task_json, outputs, head)
        extra = {"pooling": network.pooling} | ({} if network.layers == "last" else {"head_layers": network.layers})
        return Exported(
            "ElectraModel", task_json | extra, outputs | extra, beside={POOLED: network.dense_tensors(scale)}
        )

    def restore(self, stored: Stored, task: Task) -> tuple[Network, FinetuneConfig]:
        outputs = max(1, len(task.labels))
        pooling, layers = stored.task_json.get("pooling", "cls"), stored.task_json.get("head_layers", "last")
        for key, found, known in (("pooling", pooling, Pooling), ("head_layers", layers, Layers)):
            if found not in get_args(known):
                expected = f"one of {', '.join(get_args(known))}"
                raise BadInput(stored.folder / TASK, f"has {key} {found!r:.40}", expected, DO)
        published = (pooling, layers) == ("cls", "last") and stored.encoder.config.stock_heads
        heads = stored.heads | ({} if published else stored.beside(POOLED))
        bias = heads.get("classifier.dense.bias")
        units = stored.encoder.config.hidden if published or bias is None else bias.numel()
        network = DenseClassifier(stored.encoder, units, outputs, pooling, layers)
        stored.fill({"classifier.dense": network.dense, "classifier.out_proj": network.out}, heads)
        return network, FinetuneConfig(length=stored.length)

    def task_of(self, stored: Stored) -> Task:
        name, labels = stored.folder.name, stored.labels()
        return Task(name=name, title=name, labels=() if len(labels) == 1 else labels, metrics=("accuracy",))

    def use(self, task: Task) -> Use:
        """Of GLUE's tasks two read one text."""
        return "text" if len(task.columns) == 1 or task.name in {"cola", "sst2"} else "pair"


def encode(rows: list[Row], task: Task, tokenizer: Tokenizer, length: int) -> Examples:
    """Rows to arrays. The target `label` is a class index or the scaled score; rows without a label get -1 or 0."""
    first = tokenizer.encode_lines([row["a"] for row in rows])
    second = tokenizer.encode_lines([row.get("b") or "" for row in rows])
    sequences: list[list[int]] = []
    starts: list[int] = []
    for row, a, b in zip(rows, first, second, strict=True):
        pair = row.get("b") is not None
        a, b = _cut(a, b, length - (3 if pair else 2))
        sequence = [tokenizer.cls_id, *a, tokenizer.sep_id]
        starts.append(len(sequence))
        sequences.append([*sequence, *b, tokenizer.sep_id] if pair else sequence)
    labels: NDArray[Any]
    if task.regression:
        labels = np.array([(row.get("label") or 0.0) / task.scale for row in rows], dtype=np.float32)
    else:
        index: dict[Any, int] = {name: number for number, name in enumerate(task.labels)}
        labels = np.array([index.get(row.get("label"), -1) for row in rows], dtype=np.int64)
    return stack(sequences, starts, {"label": labels}, [row["id"] for row in rows])


def _cut(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """Take single pieces from the end of the longer side, from b when both are equal, until both fit."""
    over = len(a) + len(b) - room
    if over <= 0:
        return a, b
    from_a = min(over, max(0, len(a) - len(b)))
    from_b = min(over, max(0, len(b) - len(a)))
    rest = over - from_a - from_b  # what is left is taken in turn, beginning with b
    from_a, from_b = from_a + rest // 2, from_b + (rest + 1) // 2
    return a[: len(a) - from_a], b[: len(b) - from_b]


def both_orders(rows: list[Row]) -> list[Row]:
    """Each pair as it is and turned round, as MRPC and STS-B are trained on."""
    turned = [
        {**row, "id": f"{row['id']}-turned", "a": row["b"], "b": row["a"]} for row in rows if row["b"] is not None
    ]
    return rows + turned
