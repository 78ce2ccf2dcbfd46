"""`python -m pipelines predict` and `score`: rows in, answers out, a few hundred at a time.

Rows come as files of training do, or as plain text (pipelines/sources/asked.py), by the model's column names, or `a` and
`b`; `words`; `question` and `context`. The task's own id, or an `id`, is kept; rows without one are numbered. Nothing is
written to `--output` unless all rows were answered.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from electra.errors import BadInput, SourceUnreachable
from electra.files import dump_line, write_through
from electra.finetuning import predictions, scoring, squad, squad_answers, tagging
from electra.finetuning.examples import encode, read_rows
from electra.finetuning.folder import Ready, load_model
from electra.finetuning.loop import read_outputs
from electra.finetuning.tasks import SQUAD, find
from pipelines.sources import asked
from pipelines.stages import inputs

Row = dict[str, Any]
_AT_ONCE = 256


def predict(model: Path, files: Iterable[str], output: str | None) -> None:
    """Answer the rows of all files in turn."""
    if not model.is_dir():
        raise SourceUnreachable(model, "there is no such folder", "a fine-tuned model", "give the folder of one")
    if output is not None and Path(output).is_dir():
        raise BadInput(output, "is a folder", "a file to write to", "give --output a name in it")
    ready = load_model(model)
    form = asked.of(ready.task)
    lines = (dump_line(line) for name in files for line in answer(ready, asked.read(form, name)))
    if output is not None:
        write_through(Path(output), "".join(lines))
        return
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()


def score(rows: Path, task: str, path: Path, split: str) -> dict[str, float]:
    """Every metric of a file of predictions of one split of a task."""
    inputs.task_rows(rows.name)
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
    outputs = {name: predictions.finite(values) for name, values in outputs.items()}
    candidates = squad_answers.candidates(reading, outputs, config)
    found = squad_answers.choose(reading, candidates, config)
    n_best = squad_answers.official(found, candidates, outputs)
    given = found.given(config.null_threshold if config.answerability else None)
    for row in batch:
        key = row["id"]
        answer: Row = {"id": key, "prediction": given[key], "best": found.spans[key], "null_score": found.null[key]}
        yield {**answer, "n_best": n_best[key]}
