"""Examples that a person can read: what the generator wrote and what the discriminator made of it,
answers, mistakes.

Chosen by rule, not by hand: the first rows of the held-out set, the first answer of each kind, the
mistake that the model was surest of. So they are the same each time, and none is cherry-picked.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
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

SENTENCES, TOKENS = 8, 96
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
        judged = self.probability > 0.5
        if self.replaced:
            return "caught" if judged else "missed"
        return "alarm" if judged else "plain"


@dataclass(frozen=True)
class Prediction:
    """One prediction to read: `heading` and `share` say of how many like it, `facts` what was said
    and wanted.

    `context` is the text before the answer, the answer (None if it is not in there), and the text
    after it.
    """

    heading: str
    share: str
    texts: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sure: float | None = None  # probability of the label that was said
    context: tuple[str, str | None, str] | None = None


def words(example: dict[str, Any]) -> list[Word]:
    """Join wordpieces ("##…") to words; special tokens except [SEP] are left out."""
    columns = (example[name][:TOKENS] for name in ("tokens", "original", "replaced", "probability"))
    groups: list[list[tuple[str, str, bool, float]]] = []
    for piece in zip(*columns, strict=True):
        if piece[0] in {"[CLS]", "[PAD]"} and not piece[2]:
            continue
        if groups and piece[0].startswith("##") and groups[-1][-1][0] != "[SEP]":
            groups[-1].append(piece)
        else:
            groups.append([piece])
    found = (zip(*group, strict=True) for group in groups)
    return [
        Word(_join(text), _join(before), any(replaced), max(chances))
        for text, before, replaced, chances in found
    ]


def _join(pieces: Sequence[str]) -> str:
    return pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:])


def sentences(model: ModelResults) -> list[list[Word]]:
    """The first held-out rows, as in the paper's Figure 2, those with most caught words in front."""
    rows = [words(example) for example in model.examples[:SENTENCES]]
    kinds = [[word.kind for word in row] for row in rows]
    order = sorted(
        range(len(rows)), key=lambda at: (-kinds[at].count("caught"), kinds[at].count("missed"))
    )
    return [rows[at] for at in order]


def counts(rows: Sequence[list[Word]]) -> dict[str, int]:
    """How many words there are, and how many of each kind."""
    kinds = [word.kind for row in rows for word in row]
    return {
        "words": len(kinds),
        **{kind: kinds.count(kind) for kind in ("caught", "missed", "alarm")},
    }


def answers(model: ModelResults, root: Path = Path()) -> Iterator[Prediction]:
    """A question answered right and one wrong by the first pre-trained seed, each with and without
    an answer.
    """
    for version in (row.name.removeprefix("squad ") for row in model.squad):
        rows = _rows(root / f"build/tasks/{model.tasks_source}/{SQUAD.get(version, '')}/dev.jsonl")
        predictions = (
            _read(_first(root / f"build/squad/{model.name}/{version}", ".json"), read_json) or {}
        )
        scores = question_scores(rows, predictions, version) if rows and predictions else {}  # type: ignore[arg-type]
        for outcome, heading in OUTCOMES.items():
            group = [
                row
                for row in rows
                if scores and (scores[row["id"]][0] > 0, row["impossible"]) == outcome
            ]
            if group:
                row, share = group[0], f"{integer(len(group))} of {integer(len(rows))} questions"
                predicted = predictions.get(row["id"])
                gold = " or ".join(text for text in dict.fromkeys(golds(row, version)) if text)  # type: ignore[arg-type]
                said = "no prediction" if predicted is None else predicted or "(no answer)"
                facts = (("said", said), ("wanted", gold or "(no answer)"))
                yield Prediction(
                    heading, share, (row["question"],), facts, context=_context(row, predicted)
                )


def _context(row: dict[str, Any], predicted: str | None) -> tuple[str, str | None, str]:
    """The part of the context around the gold answer (or the given one), split there; without one,
    its beginning.
    """
    text, answer = row["context"], row["answers"][0]["text"] if row["answers"] else predicted or ""
    start = row["answers"][0]["start"] if row["answers"] else text.find(answer)
    if not answer or start < 0:
        return text[: 2 * CONTEXT] + " …" * (len(text) > 2 * CONTEXT), None, ""
    end, left = start + len(answer), max(0, start - CONTEXT)
    return (
        "… " * (left > 0) + text[left:start],
        answer,
        text[end : end + CONTEXT] + " …" * (len(text) > end + CONTEXT),
    )


def mistakes(model: ModelResults, root: Path = Path()) -> Iterator[Prediction]:
    """The mistake that the first pre-trained seed was surest of."""
    for task in (task for task in model.tasks if task.name in GLUE):
        folder, regression = (
            root / f"build/glue/{model.name}/{task.name}",
            GLUE[task.name].regression,
        )
        rows = {
            row["id"]: row
            for row in _rows(root / f"build/tasks/{model.tasks_source}/{task.name}/dev.jsonl")
        }
        predictions = [row for row in _rows(_first(folder, ".jsonl")) if row["id"] in rows]
        wrong = sorted(filter(_error, predictions), key=lambda row: (-_error(row), str(row["id"])))
        kind = "rows are off by more than 1" if regression else "rows are wrong"
        share = f"{integer(len(wrong))} of {integer(len(predictions))} {kind}"
        if wrong:
            row, worst = rows[wrong[0]["id"]], wrong[0]
            said, wanted = (
                f"{label:.1f}" if isinstance(label, int | float) else named(task.name, label)
                for label in (worst["prediction"], worst["label"])
            )
            facts = (("said", said), ("wanted", wanted))
            texts = (row["a"], row["b"]) if row.get("b") else (row["a"],)
            yield Prediction(
                task.title, share, texts, facts, sure=None if regression else _error(worst)
            )
        elif predictions:
            yield Prediction(task.title, share, (), ())


def named(task: str, label: object) -> str:
    """A label in words."""
    return LABELS.get(task, {}).get(str(label), str(label)).replace("_", " ")


def _error(prediction: dict[str, Any]) -> float:
    """How sure a wrong prediction was, 0 for a right one; for numbers, how far off beyond 1."""
    said, label = prediction.get("prediction"), prediction.get("label")
    if label is None or said is None:
        return 0.0
    if isinstance(label, int | float) and isinstance(said, int | float):
        return max(0.0, abs(float(said) - float(label)) - 1)
    if str(said) == str(label):
        return 0.0
    logits = prediction.get("logits") or [0.0]
    return 1 / sum(math.exp(logit - max(logits)) for logit in logits)


def _first(folder: Path, suffix: str) -> Path | None:
    """The predictions of the first pre-trained seed; files beside it (null odds, n-best,
    mismatched) do not count.
    """
    pattern = re.compile(rf"pretrained-seed(\d+){re.escape(suffix)}")
    found = {
        int(match[1]): path for path in folder.glob("*") if (match := pattern.fullmatch(path.name))
    }
    return found[min(found)] if found else None


def _rows(path: Path | None) -> list[dict[str, Any]]:
    """The file's rows; none if it is absent or broken."""
    return _read(path, read_jsonl) or []


def _read(path: Path | None, read: Callable[[Path], Any]) -> Any:
    """A verified file's content; None if it is absent, and, with a warning, if it is broken."""
    if path is None or not path.exists():
        return None
    try:
        check(path)
        return read(path)
    except UserError as error:
        print(f"warning: {error}; the examples are drawn without it", file=sys.stderr)
        return None
