"""`python -m pipelines predict` and `score`: rows in, answers out, a few hundred at a time.

Rows come as JSON lines (the model's column names, or `a` and `b`; `words`; `question` and `context`), as TSV with a header
of such names, as TSV without one (as many columns as the model reads) or as plain text, one sentence a line. An `id` is
kept; rows without one are numbered. Nothing is written to `--output` unless all rows were answered.
"""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput, SourceUnreachable
from electra.files import write_jsonl
from electra.finetuning import predictions, scoring, spans, squad, squad_answers, tagging
from electra.finetuning.examples import encode, read_rows
from electra.finetuning.folder import Ready, load_model
from electra.finetuning.loop import read_outputs
from electra.finetuning.tasks import SQUAD, find
from pipelines.sources.glue import LAYOUTS

Row = dict[str, Any]
_AT_ONCE = 256


def predict(model: Path, files: Iterable[str], output: str | None) -> None:
    """Answer the rows of all files in turn."""
    if not model.is_dir():
        raise SourceUnreachable(model, "there is no such folder", "a fine-tuned model", "give the folder of one")
    ready = load_model(model)
    lines = (line for name in files for line in answer(ready, read(ready, name)))
    if output is not None:
        write_jsonl(Path(output), lines)
        return
    for line in lines:
        print(json.dumps(line, ensure_ascii=False), flush=True)


def score(rows: Path, task: str, path: Path, split: str) -> dict[str, float]:
    """Every metric of a file of predictions of one split of a task."""
    answers = scoring.read_predictions(path)
    if task in SQUAD.values():
        version: Any = next(version for version, name in SQUAD.items() if name == task)
        return scoring.score_answers(squad.read_rows(rows / task / f"{split}.jsonl"), answers, version, path)
    facts = find(rows / task, task)
    return scoring.score_task(facts, read_rows(rows / task / f"{split}.jsonl", facts), answers, path)


def answer(ready: Ready, rows: Iterator[Row]) -> Iterator[Row]:
    """One line for each row, as soon as its few hundred are read."""
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        if ready.squad is not None:
            yield from _answer_questions(ready, batch)
            continue
        assert ready.task is not None
        examples = encode(batch, ready.task, ready.tokenizer, ready.length)
        outputs = read_outputs(ready.network, examples)
        if ready.task.tagging:
            tags = tagging.tags_of(ready.task, batch, examples, outputs["tags"])
            yield from (
                {"id": row["id"], "words": row["words"], "tags": each} for row, each in zip(batch, tags, strict=True)
            )
            continue
        for line, logits_C in zip(
            predictions.lines(ready.task, batch, outputs["logits"]), outputs["logits"], strict=True
        ):
            found: Row = {"id": line["id"], "prediction": line["prediction"]}
            if not ready.task.regression:
                shares = predictions.probabilities(logits_C)
                found["probabilities"] = dict(zip(ready.task.labels, shares, strict=True))
            yield found


def _answer_questions(ready: Ready, batch: list[Row]) -> Iterator[Row]:
    config = ready.squad
    assert config is not None
    reading = squad.encode(
        batch, ready.tokenizer, length=config.length, stride=config.stride, question_length=config.question_length
    )
    outputs = read_outputs(ready.network, reading.examples)
    found = squad_answers.find(reading, {name: predictions.finite(values) for name, values in outputs.items()}, config)
    given = found.given(config.null_threshold if config.answerability else None)
    for row in batch:
        key = row["id"]
        yield {"id": key, "prediction": given[key], "best": found.spans[key], "null_score": found.null[key]}


def read(ready: Ready, name: str) -> Iterator[Row]:
    """The rows of a file, or of standard input, as the model takes them; the error names file and line."""
    if name == "-":
        yield from parse(ready, sys.stdin, "standard input")
        return
    try:
        with Path(name).open(encoding="utf-8-sig") as file:
            yield from parse(ready, file, name)
    except FileNotFoundError:
        raise SourceUnreachable(name, "there is no such file") from None
    except UnicodeDecodeError as error:
        raise BadInput(name, f"is not UTF-8 ({error.reason} at byte {error.start})", "UTF-8 text") from None


def parse(ready: Ready, lines: Iterable[str], name: str) -> Iterator[Row]:
    """Rows of JSON lines, TSV or text."""
    names = columns(ready)
    header: list[str] | None = None
    count = 0
    for number, text in enumerate(lines, 1):
        line, where = text.rstrip("\r\n"), f"{name}:{number}"
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            try:
                record = json.loads(line)
            except ValueError:
                raise BadInput(where, f"is {line[:60]!r}", "one JSON object a line") from None
        else:
            fields = line.split("\t")
            if header is None:
                is_header = any(set(choice) <= set(fields) for choice in names)
                header = fields if is_header else list(names[0])
                if is_header:
                    continue
            if len(fields) != len(header):
                raise BadInput(where, f"has {len(fields)} columns", f"{len(header)}: {', '.join(header)}")
            record = dict(zip(header, fields, strict=True))
        yield as_row(ready, record, names, str(count), where)
        count += 1


def columns(ready: Ready) -> list[tuple[str, ...]]:
    """What the texts of a row may be called, the model's own names first."""
    if ready.squad is not None:
        return [("question", "context")]
    assert ready.task is not None
    if ready.task.tagging:
        return [ready.task.columns or ("words",), ("words",)]
    own = ready.task.columns
    if not own and (layout := LAYOUTS.get(ready.task.name)) is not None:
        own = (layout.a,) if layout.b is None else (layout.a, layout.b)
    return [own or ("a",), ("a", "b")[: len(own) or 1], *([] if own else [("a", "b")])]


def as_row(ready: Ready, record: Any, names: list[tuple[str, ...]], number: str, where: str) -> Row:
    """A record as a row without a label."""
    chosen = next(
        (choice for choice in reversed(names) if isinstance(record, dict) and set(choice) <= set(record)), None
    )
    if chosen is None:
        expected = " or ".join(", ".join(choice) for choice in dict.fromkeys(names))
        raise BadInput(where, f"has {', '.join(map(str, record))[:80] or 'nothing'}", f"the columns {expected}")
    identity = str(record.get("id", number))
    texts = [record[column] for column in chosen]
    if ready.task is not None and ready.task.tagging:
        row: Row = {"id": identity, "words": texts[0].split() if isinstance(texts[0], str) else texts[0], "tags": None}
        spans.check_row(row, ready.task, where, labelled=False)
        return row
    for column, text in zip(chosen, texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            raise BadInput(where, f"has {column} {text!r:.40}", "text")
    if ready.squad is not None:
        return {"id": identity, "question": texts[0], "context": texts[1], "answers": [], "impossible": True}
    return {"id": identity, "a": texts[0].strip(), "b": texts[1].strip() if len(texts) > 1 else None, "label": None}
