"""Exact match and F1 of SQuAD 1.1 and 2.0 by the rules of the official scripts.

The two versions differ on empty answers: 2.0 leaves out gold answers that normalise to nothing and
scores an empty prediction against an empty gold as right; 1.1 does neither.
"""

import re
import string
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

Version = Literal["1.1", "2.0"]

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))


def normalise(text: str) -> str:
    """Return the text in lower case, then without ASCII punctuation, then without articles, with
    single spaces.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> float:
    """Return 1 if both normalise to the same text."""
    return float(normalise(predicted) == normalise(gold))


def f1(predicted: str, gold: str, version: Version) -> float:
    """Return the harmonic mean of precision and recall over normalised words, counted with
    multiplicity.
    """
    predicted_words = normalise(predicted).split()
    gold_words = normalise(gold).split()
    if version == "2.0" and not (predicted_words and gold_words):
        return float(predicted_words == gold_words)
    common = (Counter(predicted_words) & Counter(gold_words)).total()
    # 2 / (1 / precision + 1 / recall)
    return 2 * common / (len(predicted_words) + len(gold_words)) if common else 0.0


def golds(row: Mapping[str, Any], version: Version) -> list[str]:
    """Return the texts that a prediction is compared with: `[""]` for a question without an answer
    (2.0).
    """
    texts = [answer["text"] for answer in row["answers"]]
    if version == "2.0":
        texts = [text for text in texts if normalise(text)] or [""]
    return texts


def question_scores(
    rows: Sequence[Mapping[str, Any]], predictions: Mapping[str, str], version: Version
) -> dict[str, tuple[float, float]]:
    """Return (exact match, F1) of each question: the best over its gold answers. A question without
    a prediction scores 0.
    """
    scores = {}
    for row in rows:
        predicted = predictions.get(row["id"], "")
        texts = golds(row, version) if row["id"] in predictions else []
        exact = [exact_match(predicted, text) for text in texts]
        overlap = [f1(predicted, text, version) for text in texts]
        scores[row["id"]] = (max(exact, default=0.0), max(overlap, default=0.0))
    return scores


def best_threshold(
    rows: Sequence[Mapping[str, Any]],
    score_of: Mapping[str, float],
    null_of: Mapping[str, float],
    spans: Mapping[str, str],
) -> tuple[float, float]:
    """Return (best mean score in points, threshold): questions are answered from the lowest null
    score up to the threshold.

    `score_of` are the scores of the spans as if every question were answered, `spans` their texts.
    """
    # the official script asks no flag either
    answerable = {row["id"]: bool(row["answers"]) for row in rows}
    current = best = float(sum(not known for known in answerable.values()))
    threshold = 0.0
    for question in sorted(null_of, key=null_of.__getitem__):
        current += score_of[question] if answerable[question] else -float(spans[question] != "")
        if current > best:
            best = current
            threshold = null_of[question]
    return 100 * best / len(rows), threshold


def evaluate(
    rows: Sequence[Mapping[str, Any]],
    spans: Mapping[str, str],
    null_of: Mapping[str, float],
    version: Version,
    null_threshold: float,
) -> dict[str, float]:
    """Return all official figures, in points. 2.0 blanks a span with a null score above the
    threshold, 1.1 never does.

    `HasAns_`/`NoAns_` figures and the searched `best_` ones are 2.0's. Words are parted by spaces,
    so a text without any is said to have no F1 of its own.
    """
    text = "".join(row.get("context", "") for row in rows)
    if text.count(" ") < len(text) / 20:
        warnings.warn(
            "SQuAD compares words between spaces. These contexts have hardly any, so F1 is exact "
            "match; CMRC and DRCD compare characters.",
            stacklevel=2,
        )
    raw = question_scores(rows, spans, version)
    if version == "1.1":
        return _means(raw.values())
    scores = dict(raw)
    for row in rows:
        # left blank, a question scores by whether it has an answer at all, whatever that
        # normalises to
        if row["id"] in spans and null_of[row["id"]] > null_threshold:
            scores[row["id"]] = (float(not row["answers"]),) * 2
    figures = _means(scores.values())
    for name, answerable in (("HasAns", True), ("NoAns", False)):
        part = [scores[row["id"]] for row in rows if bool(row["answers"]) == answerable]
        if part:
            figures |= {f"{name}_{key}": value for key, value in _means(part).items()}
    for index, key in enumerate(("exact", "f1")):
        score_of = {question: pair[index] for question, pair in raw.items()}
        best, threshold = best_threshold(rows, score_of, null_of, spans)
        figures[f"best_{key}"] = round(best, 6)
        figures[f"best_{key}_threshold"] = round(threshold, 6)
    return figures


def _means(scores: Iterable[tuple[float, float]]) -> dict[str, float]:
    exact, overlap = np.mean([*scores], axis=0)
    return {"exact": round(100 * float(exact), 6), "f1": round(100 * float(overlap), 6)}
