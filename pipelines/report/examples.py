"""Examples that a person can read: what the generator wrote and what the discriminator made of it, answers, mistakes.

Chosen by rule, not by hand: the first examples of the held-out set, the first answers of each kind, the mistakes that
the model was surest of. So they are the same each time, and nobody has picked the pretty ones.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import read_json, read_jsonl
from electra.finetuning.squad.official import golds, question_scores
from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.report.inputs import ModelResults, check

SENTENCES, TOKENS = 6, 96
ANSWERS, MISTAKES = 1, 1
SHADED = 20  # per cent below which an original word is left unshaded
CONTEXT = 260  # characters of context shown around an answer

CLOSING = frozenset(".,;:!?)]’”")

LABELS = {
    "cola": {"0": "unacceptable", "1": "acceptable"},
    "sst2": {"0": "negative", "1": "positive"},
    "mrpc": {"0": "not a paraphrase", "1": "a paraphrase"},
    "qqp": {"0": "different questions", "1": "the same question"},
    "wnli": {"0": "not entailed", "1": "entailed"},
    "qnli": {"entailment": "answers the question", "not_entailment": "does not answer it"},
    "rte": {"not_entailment": "not entailed", "entailment": "entailed"},
}


@dataclass(frozen=True)
class Word:
    """Wordpieces joined: as the discriminator read it, as it was, replaced or not, its highest probability of that."""

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


def words(example: dict[str, Any]) -> list[Word]:
    """Join wordpieces ("##…") to words; special tokens except [SEP] are left out."""
    pieces = list(
        zip(example["tokens"], example["original"], example["replaced"], example["probability"], strict=True)
    )[:TOKENS]
    groups: list[list[tuple[str, str, bool, float]]] = []
    for piece in pieces:
        if piece[0] in {"[CLS]", "[PAD]"} and not piece[2]:
            continue
        if groups and piece[0].startswith("##") and groups[-1][-1][0] != "[SEP]":
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [
        Word(
            _join([token for token, _, _, _ in group]),
            _join([original for _, original, _, _ in group]),
            any(replaced for _, _, replaced, _ in group),
            max(probability for _, _, _, probability in group),
        )
        for group in groups
    ]


def _join(pieces: Sequence[str]) -> str:
    return pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:])


def sentences(model: ModelResults) -> str:
    """Held-out rows with the generator's replacements and the discriminator's judgement, like the paper's Figure 2."""
    shown = [words(example) for example in model.examples[:SENTENCES]]
    flat = [word for row in shown for word in row]
    if not flat:
        return ""
    count = {kind: sum(word.kind == kind for word in flat) for kind in ("caught", "missed", "alarm")}
    replaced = count["caught"] + count["missed"]
    summary = (
        f"Of {len(flat)} words shown, the generator replaced {replaced}; the discriminator caught {count['caught']}, "
        f"missed {count['missed']}, and suspected {count['alarm']} that were original. "
        "The original of a replaced word stands above it; shading is the probability of “replaced”."
    )
    legend = "".join(
        f'<span><b class="w {kind}" style="--p:{p}">{kind_text}</b> {escape(text)}</span>'
        for kind, kind_text, p, text in (
            ("caught", "word", 95, "replaced, and caught"),
            ("missed", "word", 8, "replaced, but missed"),
            ("alarm", "word", 75, "original, but suspected"),
        )
    )
    rows = "".join(
        f"<p>{_line(row)}</p>{_proposed(example)}"
        for row, example in zip(shown, model.examples[:SENTENCES], strict=True)
    )
    return f'<p class="lead">{escape(summary)}</p><p class="legend">{legend}</p><div class="tokens">{rows}</div>'


def _proposed(example: dict[str, Any]) -> str:
    """What the generator found likeliest in place of the first word that it replaced in a row."""
    for each in example.get("proposals", []):
        place = each["place"]
        if place < TOKENS and example["replaced"][place]:
            pairs = zip(each["pieces"], each["probability"], strict=True)
            likely = ", ".join(f"{escape(piece)} {round(100 * share)} %" for piece, share in pairs)
            was, wrote = escape(example["original"][place]), escape(example["tokens"][place])
            return f"<p class=proposed>For <i>{was}</i> the generator proposed {likely}; it drew <i>{wrote}</i>.</p>"
    return ""


def _line(row: Sequence[Word]) -> str:
    """Words with spaces between them, none before a mark of punctuation."""
    if row and row[-1].text == "[SEP]":
        row = row[:-1]
    return "".join(("" if word.text in CLOSING or not i else " ") + _word(word) for i, word in enumerate(row))


def _word(word: Word) -> str:
    if word.text == "[SEP]" and word.kind == "plain":
        return '<i class="sep">/</i>'
    percent = round(100 * word.probability)
    title = f"P(replaced) {percent} %"
    if word.kind == "plain" and percent < SHADED:
        return escape(word.text)
    shown = f'<b class="w {word.kind}" style="--p:{percent}" title="{title}">{escape(word.text)}</b>'
    return f"<ruby>{shown}<rt>{escape(word.original)}</rt></ruby>" if word.replaced else shown


def answers(model: ModelResults, root: Path = Path()) -> str:
    """Questions answered right and wrong by the first pre-trained seed, the answer marked in its context."""
    parts = []
    for version in model.squad:
        rows = _rows(root / f"build/tasks/{model.tasks_source}/{SQUAD.get(version, '')}/dev.jsonl")
        found = _first(root / f"build/squad/{model.name}/{version}", "pretrained", ".json")
        predictions = _read(found, read_json) or {}
        if not rows or not predictions:
            continue
        scores = question_scores(rows, predictions, version)  # type: ignore[arg-type]
        groups = (
            ("Right", [row for row in rows if scores[row["id"]][0] and not row["impossible"]]),
            ("Right to give no answer", [row for row in rows if scores[row["id"]][0] and row["impossible"]]),
            ("Wrong", [row for row in rows if not scores[row["id"]][0] and not row["impossible"]]),
            ("Wrong to answer", [row for row in rows if not scores[row["id"]][0] and row["impossible"]]),
        )
        for title, group in groups:
            if group:
                items = "".join(_answer(row, predictions.get(row["id"]), version) for row in group[:ANSWERS])
                share = f"{len(group):,} of {len(rows):,}".replace(",", "\u202f")
                parts.append(f"<div><h4>{title} <span>{share} questions</span></h4><ul class=qa>{items}</ul></div>")
    return f'<div class="grid four">{"".join(parts)}</div>' if parts else ""


def _answer(row: dict[str, Any], predicted: str | None, version: str) -> str:
    gold = [text for text in dict.fromkeys(golds(row, version)) if text]  # type: ignore[arg-type]
    said = "no prediction" if predicted is None else predicted or "(no answer)"
    wanted = " or ".join(gold) or "(no answer)"
    return (
        f"<li><p class=q>{escape(row['question'])}</p><p class=context>{_context(row, predicted)}</p>"
        f"<dl><dt>said</dt><dd>{escape(said)}</dd><dt>wanted</dt><dd>{escape(wanted)}</dd></dl></li>"
    )


def _context(row: dict[str, Any], predicted: str | None) -> str:
    """The part of the context around the gold answer (or the given one), that span marked."""
    text = row["context"]
    start, length = -1, 0
    if row["answers"]:
        start, length = row["answers"][0]["start"], len(row["answers"][0]["text"])
    elif predicted:
        start, length = text.find(predicted), len(predicted)
    left = max(0, (start if start >= 0 else 0) - CONTEXT // 2)
    right = min(len(text), max(left + CONTEXT, start + length))
    if left:
        left = text.find(" ", left, left + 20) + 1 or left
    if right < len(text):
        cut = text.rfind(" ", max(right - 20, start + length), right)
        right = cut if cut > 0 else right
    shown = escape(text[left:right])
    if start >= 0:
        marked = escape(text[start : start + length])
        shown = f"{escape(text[left:start])}<mark>{marked}</mark>{escape(text[start + length : right])}"
    return f"{'… ' if left else ''}{shown}{' …' if right < len(text) else ''}"


def mistakes(model: ModelResults, root: Path = Path()) -> str:
    """The mistakes that the first pre-trained seed was surest of, and what the model from scratch said there."""
    parts = []
    for task in model.tasks:
        if task.name not in GLUE:
            continue
        folder = root / f"build/glue/{model.name}/{task.name}"
        found, other = _first(folder, "pretrained", ".jsonl"), _first(folder, "scratch", ".jsonl")
        rows = {row["id"]: row for row in _rows(root / f"build/tasks/{model.tasks_source}/{task.name}/dev.jsonl")}
        predictions = [row for row in _rows(found) if row["id"] in rows]
        if not rows or not predictions:
            continue
        scratch = {row["id"]: row.get("prediction") for row in _rows(other)}
        wrong = [row for row in predictions if _error(row) > 0]
        wrong.sort(key=lambda row: (-_error(row), str(row["id"])))
        items = "".join(_mistake(task.name, rows[row["id"]], row, scratch.get(row["id"])) for row in wrong[:MISTAKES])
        kind = "rows are off by more than 1" if GLUE[task.name].regression else "rows are wrong"
        share = f"{len(wrong):,} of {len(predictions):,} {kind}".replace(",", "\u202f")
        parts.append(f"<div><h4>{escape(task.title)} <span>{share}</span></h4><ul class=qa>{items}</ul></div>")
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


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
    top = max(logits)
    return 1 / sum(math.exp(logit - top) for logit in logits)


def _mistake(task: str, row: dict[str, Any], prediction: dict[str, Any], scratch: Any) -> str:
    def name(label: Any) -> str:
        if isinstance(label, int | float):
            return f"{label:.1f}"
        return LABELS.get(task, {}).get(str(label), str(label)).replace("_", " ")

    text = f"<p class=q>{escape(row['a'])}</p>" + (f"<p class=q>{escape(row['b'])}</p>" if row.get("b") else "")
    sure = "" if GLUE[task].regression else f" <span>({round(100 * _error(prediction))} % sure)</span>"
    facts = [("said", f"{escape(name(prediction['prediction']))}{sure}"), ("wanted", escape(name(prediction["label"])))]
    if scratch is not None:
        facts.append(("from scratch", escape(name(scratch))))
    return f"<li>{text}<dl>{''.join(f'<dt>{key}</dt><dd>{value}</dd>' for key, value in facts)}</dl></li>"


def _first(folder: Path, arm: str, suffix: str) -> Path | None:
    """The predictions of an arm's lowest seed; other files beside it (null odds, n-best, mismatched) do not count."""
    pattern = re.compile(rf"{arm}-seed(\d+){re.escape(suffix)}")
    found = {int(match[1]): path for path in folder.glob(f"{arm}-*") if (match := pattern.fullmatch(path.name))}
    return found[min(found)] if found else None


def _rows(path: Path | None) -> list[dict[str, Any]]:
    """The file's rows; none if it is absent or broken."""
    return _read(path, read_jsonl) or []


def _read(path: Path | None, read: Callable[[Path], Any]) -> Any:
    """A verified file's content; None if it is absent, and if it is broken, which is said."""
    if path is None or not path.exists():
        return None
    try:
        check(path)
        return read(path)
    except UserError as error:
        print(f"warning: {error}; the examples do without", file=sys.stderr)
        return None
