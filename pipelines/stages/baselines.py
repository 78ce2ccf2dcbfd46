"""Baselines of a task's scores: what the same rows give without any fine-tuned network.

chance            a guess without looking: one class in so many, no correlation
majority          the commonest training label (of scores their mean) for every row
bag of words      logistic (for scores ridge) regression on tf-idf of words and of 2 to 5 characters in a word, one
                  text's apart from the other's: what is said, in no order, and nothing compared
word overlap      boosted trees on features of a pair that somebody has thought of: shares of words and letters in
                  common, their order, names, numbers, negations, lengths
replaced tokens   the pre-trained discriminator as it is: the AUC of its surest "replaced" in a row against the row's
                  label, 50 for guessing; what it can compare before it is taught any task

All but the last are scores by the task's metric, in points, on dev, from the rows that the model is
fine-tuned on; the two that are fitted take a few seconds for 1,000 rows, and see 10,000 at most.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electra.data import tokenizer as tokenizers
from electra.finetuning.batches import PaddedBatch
from electra.finetuning.classification import encode
from electra.finetuning.heads import Network
from electra.finetuning.metrics import score
from electra.finetuning.predictions import numbers
from electra.finetuning.reading import read_rows, subset
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.finetuning.training import read_outputs
from electra.nn.encoder import Encoder
from electra.nn.factory import make_encoder
from electra.nn.huggingface import load_networks, read_config
from electra.nn.token_heads import ReplacedTokenHead

FIT_ROWS = 10_000
# words of each text whose order is compared, which takes time with the product of both numbers
FIRST = 400
NEGATIONS = {
    "no",
    "not",
    "t",
    "cannot",
    "never",
    "neither",
    "nor",
    "none",
    "nobody",
    "nothing",
    "nowhere",
    "without",
}
Rows = Sequence[dict[str, Any]]
Numbers = NDArray[np.float64]
BINARY, ENTAILED = ("0", "1"), ("not_entailment", "entailment")
# the labels of rows in which something does not fit, and in which all does; praise and blame are
# neither
FITS = {
    "cola": BINARY, "mrpc": BINARY, "qqp": BINARY, "wnli": BINARY,
    "mnli": ("contradiction", "entailment"), "qnli": ENTAILED, "rte": ENTAILED,
}  # fmt: skip


def of_task(task: Task, folder: Path, config: FinetuneConfig) -> dict[str, float]:
    """The four of a task whose rows are in `folder`, by name; none for tagging, and no overlap for
    single texts.
    """
    if task.tagging:
        return {}
    train, dev = splits(task, folder, config)
    label, dev_label = numbers(task, train), numbers(task, dev)
    guess = label.mean() if task.regression else np.bincount(label.astype(int)).argmax()
    accuracy = task.metrics[0] == "accuracy"
    said = {"majority": np.full(len(dev), float(guess))}
    seen = subset(list(train), FIT_ROWS, seed=0)
    if len(set(numbers(task, seen))) > 1:
        said |= fitted(task, seen, dev)
    scores = {"chance": 100 / len(task.labels) if accuracy else 0.0}
    scores |= {
        name: score(task.metrics[0], predicted, dev_label) for name, predicted in said.items()
    }
    return {name: round(value, 4) for name, value in scores.items()}


def splits(task: Task, folder: Path, config: FinetuneConfig) -> tuple[Rows, Rows]:
    """The rows that fine-tuning trains on, and those it is scored on."""
    train = subset(read_rows(folder / "train.jsonl", task), config.max_train_rows, seed=0)
    return train, read_rows(folder / f"{task.evaluation[0]}.jsonl", task)


def fitted(task: Task, train: Rows, dev: Rows) -> dict[str, Numbers]:
    """What a bag of words and, of pairs, word overlap say of the dev rows."""
    from scipy.sparse import hstack
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from threadpoolctl import threadpool_limits

    linear = Ridge() if task.regression else LogisticRegression(max_iter=1000)
    trees = (HistGradientBoostingRegressor if task.regression else HistGradientBoostingClassifier)(
        early_stopping=False, max_features=0.3, random_state=0
    )
    vectors, dev_vectors = tfidf(train, dev)
    samples = {"bag_of_words": (linear, hstack(vectors).tocsr(), hstack(dev_vectors).tocsr())}
    if all(row.get("b") is not None for row in (*train, *dev)):
        samples["word_overlap"] = (trees, overlap(train, vectors), overlap(dev, dev_vectors))
    # the same sums on every machine; more threads are no faster on so few rows
    with threadpool_limits(1):
        label = numbers(task, train)
        said = {
            name: model.fit(x, label).predict(x_dev) for name, (model, x, x_dev) in samples.items()
        }
    return {name: np.asarray(predicted, dtype=np.float64) for name, predicted in said.items()}


def tfidf(train: Rows, dev: Rows) -> tuple[list[Any], list[Any]]:
    """Unit vectors (rows, terms) of the training and of the dev rows: by words of each text, by
    characters of each.

    A term that only dev has weighs as much as the rarest; else two texts in new words would seem to
    have none.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    sides = [side for side in "ab" if any(row.get(side) is not None for row in (*train, *dev))]
    vectors: tuple[list[Any], list[Any]] = [], []
    for count in (
        CountVectorizer(analyzer=words),
        CountVectorizer(analyzer="char_wb", ngram_range=(2, 5)),
    ):
        count.fit(text(row, side) for rows in (train, dev) for row in rows for side in sides)
        weight = TfidfTransformer(sublinear_tf=True).fit(
            count.transform(text(row, s) for s in sides for row in train)
        )
        for rows, found in zip((train, dev), vectors, strict=True):
            found += [
                weight.transform(count.transform(text(row, side) for row in rows)) for side in sides
            ]
    return vectors


def text(row: dict[str, Any], side: str) -> str:
    """One text of a row."""
    return row.get(side) or ""


def words(said: str) -> list[str]:
    """The words of a text in lower case and in their order, "don" and "t" for "don't"; one empty
    word for none.
    """
    return split(said.lower())


def split(said: str) -> list[str]:
    """The words as they are written."""
    return "".join(c if c.isalnum() else " " for c in said).split() or [""]


def overlap(rows: Rows, vectors: Sequence[Any]) -> Numbers:
    """What each pair has in common (rows, features); `vectors` are those of `tfidf`."""
    cosines = [
        np.asarray(vectors[place].multiply(vectors[place + 1]).sum(1)).ravel() for place in (0, 2)
    ]
    pairs = [features(text(row, "a"), text(row, "b")) for row in rows]
    return np.column_stack([np.array(pairs, dtype=np.float64), *cosines])


def features(a: str, b: str) -> list[float]:
    """A pair's features by hand, for English: what is shared, in which order, and what says
    otherwise.
    """
    shares = []
    for one, other in zip(parts(a), parts(b), strict=True):
        both = len(one & other)
        shares += [
            both,
            both / max(1, len(one)),
            both / max(1, len(other)),
            both / max(1, len(one | other)),
        ]
    left, right = words(a), words(b)
    common, start, end = (
        in_order(left[:FIRST], right[:FIRST]),
        alike(left, right),
        alike(left[::-1], right[::-1]),
    )
    order = [
        common / len(left),
        common / len(right),
        start,
        start / len(left),
        end,
        end / len(left),
    ]
    ends = [left[0] in right, left[-1] in right, right[0] in left, right[-1] in left]
    negations = [sum(word in NEGATIONS for word in of) for of in (left, right)]
    sizes = [len(left), len(right), len(left) - len(right), negations[0] - negations[1]]
    return [*shares, *order, *ends, *negations, *sizes]


def parts(said: str) -> tuple[set[Any], ...]:
    """What two texts may share: words, neighbours, three characters in a row, capitalized words,
    and numbers.
    """
    low, written = words(said), split(said)
    threes = {said[place : place + 3].lower() for place in range(len(said) - 2)}
    names, numbered = (
        {word for word in written if any(map(of, word))} for of in (str.isupper, str.isdigit)
    )
    return {*low}, {*pairwise(low)}, threes, names, numbered


def alike(left: Sequence[str], right: Sequence[str]) -> int:
    """How many words two texts have in common before the first that differs."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    )


def in_order(left: Sequence[str], right: Sequence[str]) -> int:
    """How many words two texts share in the same order: the length of their longest common
    subsequence.
    """
    row = [0] * (len(right) + 1)
    for word in left:
        before = 0
        for place, other in enumerate(right, 1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]


class Frozen(Network):
    """The discriminator as pre-training left it."""

    def __init__(self, encoder: Encoder, head: ReplacedTokenHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """The highest logit of "replaced" in each row (B,)."""
        logit_BT = self.head(self.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B))
        return {"replaced": logit_BT.masked_fill(~batch.real_tokens(), float("-inf")).amax(1)}


def load_frozen(model: Path) -> Frozen | None:
    """The discriminator below build/models/M, if that has one."""
    if not (folder := model / "discriminator").is_dir():
        return None
    config, vocab_size = read_config(folder)
    frozen = Frozen(make_encoder(config, vocab_size), ReplacedTokenHead(config))
    load_networks({"discriminator": (frozen.encoder, frozen.head)}, model)
    return frozen


def replaced_tokens(
    frozen: Frozen, task: Task, folder: Path, config: FinetuneConfig, model: Path
) -> float | None:
    """The AUC, in points, of rows that do not fit against those that do; None where labels say
    something else.

    Of STS-B's scores those below and above the median; MNLI's neutral rows are neither.
    """
    if task.name not in FITS and task.name != "stsb":
        return None
    rows = splits(task, folder, config)[1]
    if task.regression:
        middle = np.median(label_N := numbers(task, rows))
        wrong_N, right_N = label_N < middle, label_N > middle
    else:
        wrong_N, right_N = (
            np.array([row["label"] == label for row in rows]) for label in FITS[task.name]
        )
    examples = encode(list(rows), task, tokenizers.load(model), config.length)
    replaced_N = read_outputs(frozen, examples)["replaced"]
    return auc(replaced_N[wrong_N], replaced_N[right_N])


def auc(high_N: NDArray[Any], low_M: NDArray[Any]) -> float | None:
    """How often one of `high_N` is above one of `low_M`, ties half, in points; None if either is
    empty.
    """
    if not len(high_N) or not len(low_M):
        return None
    order_M = np.sort(low_M)
    below_N = (
        np.searchsorted(order_M, high_N, "left") + np.searchsorted(order_M, high_N, "right")
    ) / 2
    return round(100 * float(below_N.mean()) / len(low_M), 2)
