"""`python -m pipelines predict` and `score`: rows in, answers out, a few hundred at a time.

Rows come in the formats of training, or as plain text (pipelines/sources/predict_rows.py), by the
model's column names, or `a` and `b`; `words`; `question` and `context`. The task's own id, or an
`id`, is kept; rows without one are numbered from 0, and so are lines of plain text; blank ones
count and are not answered. Nothing is written to `--output` unless all rows were answered.
"""

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

from electra.errors import BadInput, SourceUnreachable
from electra.files import dump_line, write_user_file
from electra.finetuning import reading
from electra.finetuning.folder import load_model
from electra.finetuning.reading import read_rows
from electra.finetuning.tasks import find
from electra.inference import answer, no_model
from electra.nn.huggingface import open_folder
from pipelines.sources import predict_rows
from pipelines.sources.prediction_files import read_predictions
from pipelines.stages import inputs


def predict(model: Path, files: Iterable[str], output: Path | None) -> None:
    """Answer the rows of all files in turn."""
    if not model.is_dir():
        raise SourceUnreachable(
            f"{model}: there is no such folder; give that of a fine-tuned model"
        )
    if output is not None and output.is_dir():
        raise BadInput(f"{output}: is a folder; give --output the name of a file in it")
    if not (model / "config.json").is_file():
        raise no_model(model)
    ready = load_model(open_folder(model))
    form = predict_rows.row_schema(ready.task)
    answers = itertools.chain.from_iterable(
        answer(ready, predict_rows.read_rows(form, name)) for name in files
    )
    if output is not None:
        write_user_file(output, "".join(map(dump_line, answers)))
        return
    for line in map(dump_line, answers):
        sys.stdout.write(line)
        sys.stdout.flush()


def score(rows: Path, task: str, path: Path, split: str) -> dict[str, float]:
    """Return every metric of a file of predictions of one split of a task."""
    inputs.task_rows(rows.name)
    predictions = read_predictions(path)
    settings = find(rows / task, task)
    dev = read_rows(rows / task / f"{split}.jsonl", settings)
    return reading.score(settings, dev, predictions, path)
