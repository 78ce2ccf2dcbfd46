"""Tasks that ask for a class or a number of a text or a pair of texts: GLUE's nine, and one's own.

    [CLS] a [SEP]  or  [CLS] a [SEP] b [SEP]  -> logits (C,), or one number

Texts that are too long are cut from the longer side.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from electra.card import Use
from electra.config import build
from electra.data.tokenizer import Tokenizer
from electra.errors import BadConfig, BadInput, short_repr
from electra.finetuning import predictions
from electra.finetuning.batches import Examples, stack
from electra.finetuning.heads import Classifier, Network, OutputArrays
from electra.finetuning.labels import read_label
from electra.finetuning.task_kind import (
    Encoded,
    Exported,
    Row,
    SplitResult,
    Stored,
    TaskKind,
    require_texts,
)
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.nn.config import EncoderConfig
from electra.nn.encoder import Encoder
from electra.nn.huggingface import CONFIG, POOLED, TASK


class Classification(TaskKind):
    """Classes and numbers."""

    architecture = "ElectraForSequenceClassification"

    def column_names(self, official: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        columns = self.task.columns or tuple(official)
        return (columns, ("a", "b")[: len(columns)]) if columns else (("a",), ("a", "b"))

    def parse_row(self, values: Mapping[str, Any], where: str) -> Row:
        texts = [text.strip() for text in require_texts(values, where)]
        return {"a": texts[0], "b": texts[1] if len(texts) > 1 else None}

    def display(self, row: Mapping[str, Any]) -> tuple[list[Any], Any]:
        return [row["a"], row["b"]], row["label"]

    def check_row(self, row: Row, where: str, *, labelled: bool) -> None:
        if not isinstance(row.get("a"), str):
            raise BadInput(
                f'{where}: is {row!r:.80}; expected an object with text under "id" and "a"'
            )
        if not isinstance(row.get("b"), str | None):
            raise BadInput(f"{where}: has b {row['b']!r:.40}; expected text or null")
        label = row.get("label")
        if labelled and self.task.regression:
            number = label if isinstance(label, int | float) else math.nan
            if isinstance(label, bool) or not math.isfinite(number):
                raise BadInput(f"{where}: has the score {label!r}; expected a finite number")
        elif labelled and label not in self.task.labels:
            raise BadInput(
                f"{where}: has the label {label!r}; expected one of {', '.join(self.task.labels)}"
            )

    def check_config(self, config: FinetuneConfig, encoder: EncoderConfig, keep: str) -> None:
        super().check_config(config, encoder, keep)
        classes = len(self.task.classes)
        if keep != "none" and 2 * classes > encoder.hidden:
            raise BadConfig(
                f"finetune of {self.task.name}: keeps a model of {classes} classes, and the "
                f"encoder has room for {encoder.hidden // 2}; set keep_models: none"
            )

    def encode(self, rows: list[Row], tokenizer: Tokenizer, config: FinetuneConfig) -> Encoded:
        read = both_orders(rows) if config.both_orders else rows
        return Encoded(rows, encode(read, self.task, tokenizer, config.length))

    def network(self, encoder: Encoder, config: FinetuneConfig) -> Network:
        return Classifier(
            encoder, len(self.task.labels), config.head_dropout, config.pooling, config.head_layers
        )

    def score_split(
        self, outputs: OutputArrays, encoded: Encoded, config: Any, *, labelled: bool
    ) -> SplitResult:
        logits_NC = outputs["logits"]
        files = {".jsonl": predictions.records(self.task, encoded.rows, logits_NC)}
        if not labelled:
            return SplitResult(files, {}, None)
        predicted_N = predictions.decode(self.task, logits_NC)
        return SplitResult(
            files,
            predictions.scores(self.task, encoded.rows, predicted_N),
            predictions.fault(self.task, encoded.rows, predicted_N),
            bool(np.isfinite(logits_NC).all()),
        )

    def answers(self, outputs: OutputArrays, encoded: Encoded, config: Any) -> Iterator[Row]:
        logits_BC = outputs["logits"]
        share_BC = predictions.softmax(logits_BC.astype(np.float64))
        lines = predictions.records(self.task, encoded.rows, logits_BC)
        for line, share_C in zip(lines, share_BC, strict=True):
            answer = {"id": line["id"], "prediction": line["prediction"]}
            if not self.task.regression:
                shares = map(predictions.rounded, share_C)
                answer["probabilities"] = dict(zip(self.task.labels, shares, strict=True))
            yield answer

    def score(
        self, rows: Sequence[Row], answers: Mapping[str, Any], where: Path
    ) -> dict[str, float]:
        predicted: list[Any] = []
        for number, row in enumerate(rows, 1):
            answer = answers[row["id"]]
            label, fault = read_label(answer, self.task.labels)
            if fault:
                raise BadInput(
                    f"{where}: predicts {short_repr(answer)} for id {row['id']} (row {number}): "
                    f"{fault}"
                )
            predicted.append({"label": label})
        return predictions.scores(self.task, rows, predictions.label_values(self.task, predicted))

    def export(self, network: Any, config: FinetuneConfig) -> Exported:
        task = self.task
        shape = network.encoder.config
        task_json: dict[str, Any] = {"task": dataclasses.asdict(task)}
        problem = "regression" if task.regression else "single_label_classification"
        config_json = {"problem_type": problem}
        labels = task.labels or ("score",)
        scale = task.scale if task.regression else 1.0
        if (network.pooling, network.layers) == ("cls", "last") and shape.has_hf_task_head:
            head = network.dense_tensors(scale, shape.hidden)
            return Exported(self.architecture, task_json, labels, config_json, head)
        extra = {"pooling": network.pooling}
        if network.layers != "last":
            extra["head_layers"] = network.layers
        extra_files = {POOLED: network.dense_tensors(scale)}
        return Exported(
            "ElectraModel", task_json | extra, labels, config_json | extra, extra_files=extra_files
        )

    def restore(self, stored: Stored) -> tuple[Network, FinetuneConfig]:
        shape = stored.encoder.config
        values = {"length": stored.length}
        for key in ("pooling", "head_layers"):
            if key in stored.task_json:
                values[key] = stored.task_json[key]
        config = build(FinetuneConfig, values, str(stored.path / TASK))
        head = (config.pooling, config.head_layers)
        standard = head == ("cls", "last") and shape.has_hf_task_head
        heads = stored.heads | ({} if standard else stored.extra_file(POOLED))
        bias = heads.get("classifier.dense.bias")
        units = shape.hidden if bias is None else len(bias)
        network = Classifier(stored.encoder, len(self.task.labels), 0.0, *head)
        dense = nn.Linear(network.head.in_features, units)
        out = nn.Linear(units, network.head.out_features)
        parts = nn.ModuleDict({"dense": dense, "out_proj": out})
        stored.load_exactly(nn.ModuleDict({"classifier": parts}), heads)
        # transformers' head: ours or others' weights
        network.add_module("head", nn.Sequential(dense, nn.GELU(), out))
        return network, config

    @staticmethod
    def task_of(stored: Stored) -> Task:
        name = stored.path.name
        labels = stored.labels()
        number = len(labels) == 1
        supported = "regression" if number else "single_label_classification"
        problem = stored.folder.config_json.get("problem_type")
        if problem is not None and problem != supported:
            raise BadInput(
                f"{stored.path / CONFIG}: problem_type is {short_repr(problem)}; a model of "
                f"{len(labels)} labels is only read as {supported}"
            )
        return Task(name=name, title=name, labels=() if number else labels, metrics=("accuracy",))

    def card_example(self) -> Use:
        """Return which lines a card shows. Of GLUE's tasks two read one text."""
        single = len(self.task.columns) == 1 or self.task.name in {"cola", "sst2"}
        return "text" if single else "pair"


def encode(rows: list[Row], task: Task, tokenizer: Tokenizer, length: int) -> Examples:
    """Return rows as arrays. The target `label` is a class index or the scaled score. Rows without
    a label get -1 or 0.
    """
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
        scores = [(row.get("label") or 0.0) / task.scale for row in rows]
        labels = np.array(scores, dtype=np.float32)
    else:
        index: dict[Any, int] = {name: number for number, name in enumerate(task.labels)}
        labels = np.array([index.get(row.get("label"), -1) for row in rows], dtype=np.int64)
    return stack(sequences, starts, {"label": labels}, [row["id"] for row in rows])


def _cut(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """Remove single tokens from the end of the longer text, from b when both are equal, until both
    fit.
    """
    lengths = [len(a), len(b)]
    while sum(lengths) > room:
        lengths[0 if lengths[0] > lengths[1] else 1] -= 1
    return a[: lengths[0]], b[: lengths[1]]


def both_orders(rows: list[Row]) -> list[Row]:
    """Return each pair in both orders, as MRPC and STS-B are trained on."""
    turned = [
        {**row, "id": f"{row['id']}-turned", "a": row["b"], "b": row["a"]}
        for row in rows
        if row["b"] is not None
    ]
    return rows + turned
