"""Examples that a person can read: the generator's replacements and the discriminator's verdicts,
answers, mistakes.

Chosen by rule, not by hand: the first rows of the held-out set, the first answer of each kind, the
mistake that the model was surest of. So they are the same each time, and none is cherry-picked.
"""

import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import read_json, read_jsonl
from electra.finetuning.squad.official import golds, question_scores
from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.report.load_results import check
from pipelines.report.records import ModelResults
from pipelines.report.table import TEXTS, integer

# rows, and tokens of a row, that are shown
SENTENCES = 8
TOKENS = 96
CONTEXT = 130  # characters of context shown on either side of an answer
OUTCOMES = {  # (whether an answer is right, whether the question has none)
    (True, False): "Right",
    (True, True): "Right to give no answer",
    (False, False): "Wrong",
    (False, True): "Wrong to answer",
}
LABELS: dict[str, dict[str, str]] = TEXTS["labels"]


@dataclass(frozen=True)
class Word:
    """Wordpieces joined: as the discriminator read it, as it was, replaced or not, its highest
    probability of that.
    """

    text: str
    original: str
    replaced: bool
    probability: float

    @property
    def kind(self) -> str:
        """caught, missed, alarm (false) or plain."""
        suspected = self.probability > 0.5
        if self.replaced:
            return "caught" if suspected else "missed"
        return "alarm" if suspected else "plain"


@dataclass(frozen=True)
class Prediction:
    """One prediction to read. `heading` and `share` say how common such predictions are.

    `context` is the text before the answer, the answer (None without one), and the text after it.
    `sure` is the probability of the predicted label.
    """

    heading: str
    share: str
    texts: tuple[str, ...] = ()
    predicted: str = ""
    correct: str = ""
    sure: float | None = None
    context: tuple[str, str | None, str] | None = None


def words(example: dict[str, Any]) -> list[Word]:
    """Join wordpieces ("##…") to words. Special tokens except [SEP] are left out."""
    columns = [example[name][:TOKENS] for name in ("tokens", "original", "replaced", "probability")]
    groups: list[list[tuple[str, str, bool, float]]] = []
    for piece in zip(*columns, strict=True):
        if piece[0] in {"[CLS]", "[PAD]"} and not piece[2]:
            continue
        if groups and piece[0].startswith("##") and groups[-1][-1][0] != "[SEP]":
            groups[-1].append(piece)
        else:
            groups.append([piece])
    result = []
    for group in groups:
        text, original, replaced, chances = zip(*group, strict=True)
        result.append(Word(_join(text), _join(original), any(replaced), max(chances)))
    return result


def _join(pieces: Sequence[str]) -> str:
    return pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:])


def sentences(model: ModelResults) -> list[list[Word]]:
    """Return the first held-out rows, as in the paper's Figure 2, those with most caught words in
    front.
    """
    rows = [words(example) for example in model.examples[:SENTENCES]]
    return sorted(rows, key=lambda row: -[word.kind for word in row].count("caught"))


def counts(rows: Sequence[list[Word]]) -> Counter[str]:
    """Return how many words there are of each kind."""
    return Counter(word.kind for word in itertools.chain.from_iterable(rows))


def answers(model: ModelResults) -> Iterator[Prediction]:
    """Yield a question answered right and one wrong by the first pre-trained seed, each with and
    without an answer.
    """
    measured = {row.name for row in model.squad}
    for version, task in SQUAD.items():
        if task not in measured:
            continue
        rows = _read(Path(f"build/tasks/{model.source}/{task}/dev.jsonl"))
        predictions = _read_first_seed(f"build/squad/{model.name}/{version}", ".json")
        if not rows or not predictions:
            continue
        scores = question_scores(rows, predictions, version)  # type: ignore[arg-type]
        for outcome, heading in OUTCOMES.items():
            group = [
                row for row in rows if (scores[row["id"]][0] > 0, row["impossible"]) == outcome
            ]
            if group:
                row = group[0]
                predicted = predictions.get(row["id"])
                gold = " or ".join(text for text in dict.fromkeys(golds(row, version)) if text)  # type: ignore[arg-type]
                none = "(no answer)"
                yield Prediction(
                    heading,
                    f"{integer(len(group))} of {integer(len(rows))} questions",
                    texts=(row["question"],),
                    predicted="no prediction" if predicted is None else predicted or none,
                    correct=gold or none,
                    context=_context(row, predicted or ""),
                )


def _context(row: dict[str, Any], predicted: str) -> tuple[str, str | None, str]:
    """Return the part of the context around the gold answer (or the given one), split there, or
    without one its beginning.
    """
    text = row["context"]
    answer = predicted
    start = text.find(predicted)
    if row["answers"]:
        answer = row["answers"][0]["text"]
        start = row["answers"][0]["start"]
    if not answer:
        return "", None, _shorten(text)
    before = text[:start]
    if len(before) > CONTEXT:
        before = f"… {before[-CONTEXT:]}"
    return before, answer, _shorten(text[start + len(answer) :])


def _shorten(text: str) -> str:
    return text if len(text) <= 2 * CONTEXT else f"{text[: 2 * CONTEXT]} …"


def mistakes(model: ModelResults) -> Iterator[Prediction]:
    """Yield the mistake of each task that the first pre-trained seed was surest of."""
    for task in (task for task in model.tasks if task.name in GLUE):
        source = Path(f"build/tasks/{model.source}/{task.name}/dev.jsonl")
        rows = {row["id"]: row for row in _read(source)}
        predictions = _read_first_seed(f"build/glue/{model.name}/{task.name}", ".jsonl")
        predictions = [row for row in predictions if row["id"] in rows]
        wrong = [row for row in predictions if _error(row)]
        regression = GLUE[task.name].regression
        kind = "rows off by more than 1 (of 0 to 5)" if regression else "rows wrong"
        share = f"{integer(len(wrong))} of {integer(len(predictions))} {kind}"
        if wrong:
            worst = min(wrong, key=lambda row: (-_error(row), str(row["id"])))
            row = rows[worst["id"]]
            yield Prediction(
                task.title,
                share,
                texts=(row["a"], row["b"]) if row.get("b") else (row["a"],),
                predicted=named(task.name, worst["prediction"]),
                correct=named(task.name, worst["label"]),
                sure=None if regression else _error(worst),
            )
        elif predictions:
            yield Prediction(task.title, share)


def named(task: str, label: object) -> str:
    """Return a label in words."""
    if isinstance(label, float):
        return f"{label:.1f}"
    return LABELS.get(task, {}).get(str(label), str(label)).replace("_", " ")


def _error(prediction: dict[str, Any]) -> float:
    """Return how sure a wrong prediction was (a number: how far off beyond 1), else 0."""
    predicted = prediction["prediction"]
    label = prediction["label"]
    if not isinstance(label, str):
        return max(0.0, abs(float(predicted) - float(label)) - 1)
    if predicted == label:
        return 0.0
    logits = prediction["logits"]
    return 1 / sum(math.exp(logit - max(logits)) for logit in logits)


def _read_first_seed(folder: str, suffix: str) -> Any:
    """Return the predictions of the first pre-trained seed. Files next to it (null odds, n-best,
    mismatched) do not count.
    """
    paths = Path(folder).glob(f"pretrained-seed*[0-9]{suffix}")
    first = min(paths, key=lambda path: (len(path.name), path.name), default=None)
    return _read(first) if first else []


def _read(path: Path) -> Any:
    """Return a verified file's content, or nothing if it is absent or, with a warning, damaged."""
    if not path.exists():
        return []
    try:
        check(path)
        return read_json(path) if path.suffix == ".json" else read_jsonl(path)
    except UserError as error:
        print(f"warning: {error}; the examples are drawn without it", file=sys.stderr)
        return []
