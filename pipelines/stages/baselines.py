"""What the same rows give without any fine-tuned network: the ground that a task's scores stand on.

chance            a guess without looking: one class in so many, no correlation
majority          the commonest training label (of scores their mean) for every row
bag of words      a linear model of which words occur in either text, and in no order
word overlap      a linear model of how many words two texts share and how long they are
replaced tokens   the pre-trained discriminator as it is: the AUC of its surest "replaced" in a row against the row's
                  label, 50 for guessing; what it can compare before it is taught any task

All but the last are scores by the task's metric, in points, on dev, from the rows that the model is fine-tuned on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electra.data import tokenizer as tokenizers
from electra.finetuning.batches import PackedBatch
from electra.finetuning.classification import encode
from electra.finetuning.heads import Network
from electra.finetuning.metrics import score
from electra.finetuning.predictions import numbers
from electra.finetuning.reading import read_rows, subset
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.finetuning.training import read_outputs
from electra.finetuning.unpadded import hidden
from electra.nn.encoder import Encoder
from electra.nn.factory import make_encoder
from electra.nn.huggingface import load_networks, read_config
from electra.nn.token_heads import ReplacedTokenHead

Rows = Sequence[dict[str, Any]]
Numbers = NDArray[np.float64]
BINARY, ENTAILED = ("0", "1"), ("not_entailment", "entailment")
FITS = {  # the labels of rows in which something does not fit, and in which all does; praise and blame are neither
    "cola": BINARY, "mrpc": BINARY, "qqp": BINARY, "wnli": BINARY,
    "mnli": ("contradiction", "entailment"), "qnli": ENTAILED, "rte": ENTAILED,
}  # fmt: skip


def of_task(task: Task, folder: Path, config: FinetuneConfig) -> dict[str, float]:
    """The four of a task whose rows are in `folder`, by name; none for tagging, and no overlap for single texts."""
    if task.tagging:
        return {}
    train, dev = splits(task, folder, config)
    label, dev_label = numbers(task, train), numbers(task, dev)
    guess = label.mean() if task.regression else np.bincount(label.astype(int)).argmax()
    accuracy = task.metrics[0] == "accuracy"
    scores = {
        "chance": 100 / len(task.labels) if accuracy else 0.0,
        "majority": score(task.metrics[0], np.full(len(dev), float(guess)), dev_label),
        "bag_of_words": score(task.metrics[0], linear(task, *bags(train, dev), label), dev_label),
    }
    if all(row.get("b") is not None for row in (*train, *dev)):
        scores["word_overlap"] = score(task.metrics[0], linear(task, overlap(train), overlap(dev), label), dev_label)
    return {name: round(value, 4) for name, value in scores.items()}


def splits(task: Task, folder: Path, config: FinetuneConfig) -> tuple[Rows, Rows]:
    """The rows that fine-tuning trains on, and those it is scored on."""
    train = subset(read_rows(folder / "train.jsonl", task), config.max_train_rows, seed=0)
    return train, read_rows(folder / f"{task.evaluation[0]}.jsonl", task)


def bags(train: Rows, dev: Rows) -> tuple[Any, Any]:
    """Which of the training rows' words occur in each row, those of the second text apart from those of the first."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import CountVectorizer

    columns = []
    for side in "ab":
        if any(words(row, side) for row in train):
            count = CountVectorizer(binary=True, analyzer=lambda row, side=side: words(row, side))
            columns.append((count.fit_transform(train), count.transform(dev)))
    return hstack([of_train for of_train, _ in columns]).tocsr(), hstack([of_dev for _, of_dev in columns]).tocsr()


def words(row: dict[str, Any], side: str) -> set[str]:
    """The words of one text of a row."""
    return set("".join(c if c.isalnum() else " " for c in (row.get(side) or "").lower()).split())


def overlap(rows: Rows) -> Numbers:
    """Of each pair: words in both, in either, and as shares of each other (rows, 6)."""
    features = []
    for row in rows:
        a, b = words(row, "a"), words(row, "b")
        both = len(a & b)
        features.append([both, len(a), len(b), both / max(1, len(a | b)), both / max(1, len(a)), both / max(1, len(b))])
    return np.array(features, dtype=np.float64)


def linear(task: Task, x: Any, x_dev: Any, label: Numbers) -> Numbers:
    """Logistic regression (ridge regression for scores) on features of like scale: what it says of the dev rows."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler().fit(x)
    model = Ridge() if task.regression else LogisticRegression(max_iter=1000)
    return np.asarray(model.fit(scaler.transform(x), label).predict(scaler.transform(x_dev)), dtype=np.float64)


class Frozen(Network):
    """The discriminator as pre-training left it."""

    def __init__(self, encoder: Encoder, head: ReplacedTokenHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """The highest logit of "replaced" in each row (B,)."""
        logit_P = self.head(hidden(self.encoder, batch))
        return {"replaced": batch.grid(logit_P, float("-inf")).amax(1)}


def load_frozen(model: Path) -> Frozen | None:
    """The discriminator below build/models/M, if that has one."""
    if not (folder := model / "discriminator").is_dir():
        return None
    config, vocab_size = read_config(folder)
    frozen = Frozen(make_encoder(config, vocab_size), ReplacedTokenHead(config))
    load_networks({"discriminator": (frozen.encoder, frozen.head)}, model)
    return frozen


def replaced_tokens(frozen: Frozen, task: Task, folder: Path, config: FinetuneConfig, model: Path) -> float | None:
    """The AUC, in points, of rows that do not fit against those that do; None where labels say something else.

    Of STS-B's scores those below and above the median; MNLI's neutral rows are neither.
    """
    if task.name not in FITS and task.name != "stsb":
        return None
    rows = splits(task, folder, config)[1]
    if task.regression:
        middle = np.median(label_N := numbers(task, rows))
        wrong_N, right_N = label_N < middle, label_N > middle
    else:
        wrong_N, right_N = (np.array([row["label"] == label for row in rows]) for label in FITS[task.name])
    examples = encode(list(rows), task, tokenizers.load(model), config.length)
    replaced_N = read_outputs(frozen, examples)["replaced"]
    return auc(replaced_N[wrong_N], replaced_N[right_N])


def auc(high_N: NDArray[Any], low_M: NDArray[Any]) -> float | None:
    """How often one of `high_N` is above one of `low_M`, ties half, in points; None if either is empty."""
    if not len(high_N) or not len(low_M):
        return None
    order_M = np.sort(low_M)
    below_N = (np.searchsorted(order_M, high_N, "left") + np.searchsorted(order_M, high_N, "right")) / 2
    return round(100 * float(below_N.mean()) / len(low_M), 2)
