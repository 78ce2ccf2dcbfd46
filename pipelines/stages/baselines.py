"""Baselines of a task: scores from the same rows without any fine-tuned network.

chance            a guess without looking: one class in so many, no correlation
majority          the commonest training label (of scores their mean) for every row
bag of words      logistic (for scores ridge) regression on tf-idf of words and of 2 to
                  5 characters in a word, for each text alone: content without order or comparison
word overlap      boosted trees on hand-made features of a pair: shares of words and letters in
                  common, their order, names, numbers, negations, lengths
replaced tokens   the pre-trained discriminator without fine-tuning: the AUC of its surest
                  "replaced" in a row against the row's label, 50 for guessing; its ability to
                  compare before it is taught any task

All but the last are scores by the task's metric, in points, on dev, from the rows that the model is
fine-tuned on. The two that are fitted take a few seconds for 1,000 rows, and see 10,000 at most.
They are left out where they would need gigabytes, as for hundreds of classes in much text.
"""

import os.path
from collections.abc import Sequence
from itertools import chain, pairwise
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
from electra.finetuning.predictions import label_values
from electra.finetuning.reading import read_rows, subset
from electra.finetuning.tasks import FinetuneConfig, Task
from electra.finetuning.training import read_outputs
from electra.nn.encoder import Encoder
from electra.nn.factory import make_encoder
from electra.nn.huggingface import load_networks, read_config
from electra.nn.token_heads import ReplacedTokenHead

SIMPLE = ("chance", "majority", "bag_of_words", "word_overlap")  # need no network
FIT_ROWS = 10_000
MOST_WEIGHTS = 20_000_000  # classes times terms of a fit, at 200 bytes each
# words of each text whose order is compared, which takes time with the product of both numbers
FIRST = 400
NEGATIONS = {
    *("no", "not", "t", "cannot", "never", "neither", "nor"),
    *("none", "nobody", "nothing", "nowhere", "without"),
}
Rows = Sequence[dict[str, Any]]
Numbers = NDArray[np.float64]
# the labels of rows in which something does not fit, and in which all does; praise and blame are
# neither
BINARY = ("0", "1")
ENTAILED = ("not_entailment", "entailment")
FITS = {
    "cola": BINARY, "mrpc": BINARY, "qqp": BINARY, "wnli": BINARY,
    "mnli": ("contradiction", "entailment"), "qnli": ENTAILED, "rte": ENTAILED,
}  # fmt: skip


def score_baselines(task: Task, folder: Path, config: FinetuneConfig) -> dict[str, float]:
    """Return the scores of the first four for a task whose rows are in `folder`, by name. None for
    tagging, and no overlap for single texts.
    """
    if task.tagging:
        return {}
    train, dev = read_splits(task, folder, config)
    metric = task.metrics[0]
    scores = {"chance": round(100 / len(task.labels), 4) if metric == "accuracy" else 0.0}
    for name, predicted in predict_simply(task, train, dev).items():
        scores[name] = round(score(metric, predicted, label_values(task, dev)), 4)
    return scores


def predict_simply(task: Task, train: Rows, dev: Rows) -> dict[str, Numbers]:
    """Return the predictions of the majority, a bag of words and word overlap for the dev rows."""
    label = label_values(task, train)
    guess = label.mean() if task.regression else np.bincount(label.astype(int)).argmax()
    predictions = {"majority": np.full(len(dev), float(guess))}
    part = subset(list(train), FIT_ROWS, seed=0)
    if len(set(label_values(task, part))) > 1:
        predictions |= predict_fitted(task, part, dev)
    return predictions


def read_splits(task: Task, folder: Path, config: FinetuneConfig) -> tuple[Rows, Rows]:
    """Return the rows that fine-tuning trains on, and those it is scored on."""
    train = subset(read_rows(folder / "train.jsonl", task), config.max_train_rows, seed=0)
    return train, read_rows(folder / f"{task.evaluation[0]}.jsonl", task)


def predict_fitted(task: Task, train: Rows, dev: Rows) -> dict[str, Numbers]:
    """Return the predictions of a bag of words and, for pairs, of word overlap for the dev rows."""
    from scipy.sparse import hstack
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from threadpoolctl import threadpool_limits

    linear = Ridge() if task.regression else LogisticRegression(max_iter=1000)
    trees = HistGradientBoostingRegressor if task.regression else HistGradientBoostingClassifier
    label = label_values(task, train)
    # the same sums on every machine; more threads don't help with so few rows
    with threadpool_limits(1):
        vectors, dev_vectors = tfidf(train, dev)
        terms = sum(part.shape[1] for part in vectors)
        if len(task.labels) * terms > MOST_WEIGHTS:
            return {}
        bag = linear.fit(hstack(vectors).tocsr(), label)
        predictions = {"bag_of_words": bag.predict(hstack(dev_vectors).tocsr())}
        if all(row.get("b") is not None for row in (*train, *dev)):
            boosted = trees(early_stopping=False, max_features=0.3, random_state=0)
            boosted.fit(overlap(train, vectors), label)
            predictions["word_overlap"] = boosted.predict(overlap(dev, dev_vectors))
    return {name: predicted.astype(np.float64) for name, predicted in predictions.items()}


def tfidf(train: Rows, dev: Rows) -> tuple[list[Any], list[Any]]:
    """Return unit vectors (rows, terms) of the training and of the dev rows: by words of each text,
    by characters of each.

    A term that only dev has weighs as much as the rarest. Otherwise two texts in new words would
    seem to have none.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    sides = [side for side in "ab" if any(row.get(side) is not None for row in (*train, *dev))]
    train_texts = [[row.get(side) or "" for row in train] for side in sides]
    dev_texts = [[row.get(side) or "" for row in dev] for side in sides]
    vectors: list[Any] = []
    dev_vectors: list[Any] = []
    for count in (
        CountVectorizer(analyzer=split_words),
        CountVectorizer(analyzer="char_wb", ngram_range=(2, 5)),
    ):
        count.fit(chain(*train_texts, *dev_texts))
        weight = TfidfTransformer(sublinear_tf=True).fit(count.transform(chain(*train_texts)))
        vectors += [weight.transform(count.transform(texts)) for texts in train_texts]
        dev_vectors += [weight.transform(count.transform(texts)) for texts in dev_texts]
    return vectors, dev_vectors


def split_words(text: str, *, keep_case: bool = False) -> list[str]:
    """Return the words of a text in their order, "don" and "t" for "don't". One empty word for
    none.
    """
    spaced = "".join(c if c.isalnum() else " " for c in text)
    return (spaced if keep_case else spaced.lower()).split() or [""]


def overlap(rows: Rows, vectors: Sequence[Any]) -> Numbers:
    """Return features of the overlap of each pair (rows, features). `vectors` are those of
    `tfidf`.
    """
    words_a, words_b, letters_a, letters_b = vectors
    cosines = [
        np.asarray(a.multiply(b).sum(1)).ravel()
        for a, b in ((words_a, words_b), (letters_a, letters_b))
    ]
    pairs = [pair_features(row["a"], row["b"]) for row in rows]
    return np.column_stack([np.array(pairs, dtype=np.float64), *cosines])


def pair_features(a: str, b: str) -> list[float]:
    """Return hand-made features of a pair, for English: shared parts, their order, and signs of
    contradiction.
    """
    features: list[float] = []
    for parts_a, parts_b in zip(comparable_parts(a), comparable_parts(b), strict=True):
        shared = len(parts_a & parts_b)
        sizes = (len(parts_a), len(parts_b), len(parts_a | parts_b))
        features += [shared, *(shared / max(1, size) for size in sizes)]
    left = split_words(a)
    right = split_words(b)
    lengths = (len(left), len(right))
    common = count_in_order(left[:FIRST], right[:FIRST])
    features += [common / length for length in lengths]
    for first, second in ((left, right), (left[::-1], right[::-1])):  # from the start, from the end
        alike = len(os.path.commonprefix([first, second]))  # noqa: RUF071 (lists of words)
        features += [alike, alike / len(left)]
    features += [left[0] in right, left[-1] in right, right[0] in left, right[-1] in left]
    negations = [sum(word in NEGATIONS for word in side) for side in (left, right)]
    differences = (lengths[0] - lengths[1], negations[0] - negations[1])
    return [*features, *negations, *lengths, *differences]


def comparable_parts(text: str) -> tuple[set[Any], ...]:
    """Return the parts of a text that another may share: words, neighbours, three characters in a
    row, capitalized words, and numbers.
    """
    low = split_words(text)
    written = split_words(text, keep_case=True)
    threes = {text[start : start + 3].lower() for start in range(len(text) - 2)}
    names = {word for word in written if any(map(str.isupper, word))}
    with_digits = {word for word in written if any(map(str.isdigit, word))}
    return set(low), set(pairwise(low)), threes, names, with_digits


def count_in_order(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many words two texts share in the same order: the length of their longest common
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
        self.encoder = encoder
        self.head = head

    def outputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        """Return the highest logit of "replaced" in each row (B,)."""
        logit_BT = self.head(self.encoder(batch.ids_BT, batch.segments_BT, batch.lengths_B))
        return {"replaced": logit_BT.masked_fill(~batch.real_tokens(), float("-inf")).amax(1)}


def load_frozen(model: Path) -> Frozen | None:
    """Return the discriminator below build/models/M, if that has one."""
    folder = model / "discriminator"
    if not folder.is_dir():
        return None
    config, vocab_size = read_config(folder)
    frozen = Frozen(make_encoder(config, vocab_size), ReplacedTokenHead(config))
    load_networks({"discriminator": (frozen.encoder, frozen.head)}, model)
    return frozen


def score_frozen(
    frozen: Frozen, task: Task, folder: Path, config: FinetuneConfig, model: Path
) -> float | None:
    """Return the AUC, in points, of rows that do not fit against those that do; None where labels
    say something else, or only one of the two exists.

    Of STS-B's scores those below and above the median; MNLI's neutral rows are neither.
    """
    from sklearn.metrics import roc_auc_score

    if task.name not in {*FITS, "stsb"}:
        return None
    rows = read_splits(task, folder, config)[1]
    if task.regression:
        label_N = label_values(task, rows)
        wrong_N = label_N < np.median(label_N)
        right_N = label_N > np.median(label_N)
    else:
        wrong, right = FITS[task.name]
        wrong_N = np.array([row["label"] == wrong for row in rows])
        right_N = np.array([row["label"] == right for row in rows])
    if not wrong_N.any() or not right_N.any():
        return None
    examples = encode(list(rows), task, tokenizers.load(model), config.length)
    replaced_N = read_outputs(frozen, examples)["replaced"]
    compared_N = wrong_N | right_N
    return round(100 * float(roc_auc_score(wrong_N[compared_N], replaced_N[compared_N])), 2)
