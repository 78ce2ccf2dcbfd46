"""Rows as nobody should ask them, generated, and what must come of each: answers, or one sentence that says why not.

`tests/pipelines/test_bad_predict.py` tries a few hundred, `python -m benchmarks.reliability --only
rows` as many as it is told.
"""

import contextlib
import gzip
import io
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch

from electra.finetuning.folder import write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.squad.head import SpanFinder
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import GLUE, SQUAD_2, FinetuneConfig, SquadConfig, Task
from electra.nn.weights import load_encoder
from pipelines.cli import main
from tests.electra.made_up_models import write_base

CHUNKS = Task(name="chunks", title="chunks", labels=("NP",), metrics=("entity_f1",), tagging=True, columns=("tokens",))
MOOD = Task(name="mood", title="mood", labels=("a", "b"), metrics=("accuracy",), columns=("body",), id="number")
COLUMNS = (
    "a",
    "b",
    "sentence",
    "sentence1",
    "sentence2",
    "body",
    "number",
    "id",
    "tokens",
    "words",
    "question",
    "context",
)
TEXTS = [
    "the cat runs.",
    "a dog is red",
    "",
    " ",
    "\u00a0",
    "\u0301",
    "\ufeff",
    "\x00",
    "\t",
    "漢字",
    "x" * 3000,
    "cab " * 300,
    "[MASK]",
    "\u202e",
    "𝄞",
]
SUFFIXES = ("txt", "tsv", "jsonl", "json", "conll", "parquet", "txt.gz", "jsonl.gz", "")


def models(root: Path) -> list[Path]:
    """Untrained models of every kind, tiny."""
    words = ["the", "a", "cat", "dog", "runs", "sleeps", "red", "is", "what", "?", ".", "b", "c", "##a", "##b"]
    write_base(root, words, 64)
    torch.manual_seed(1)
    plain, squad = FinetuneConfig(length=40), SquadConfig(length=40, stride=12, question_length=10, beam=3)
    for task in (GLUE["cola"], GLUE["rte"], GLUE["stsb"], MOOD):
        network = Classifier(load_encoder(root / "base"), len(task.labels), 0.0)
        write_model(root / task.name, network, task, plain, root / "base")
    write_model(root / "chunks", Tagger(load_encoder(root / "base"), 5, 40), CHUNKS, plain, root / "base")
    write_model(root / "squad2", SpanFinder(load_encoder(root / "base"), squad), SQUAD_2, squad, root / "base")
    return [root / name for name in ("cola", "rte", "stsb", "mood", "chunks", "squad2")]


def value(draw: random.Random) -> Any:
    """Anything that JSON can hold, and some that it should not."""
    kind = draw.randrange(14)
    if kind < 7:
        return draw.choice(TEXTS)
    deep: Any = draw.choice([[], "x"])
    for _ in range(draw.choice([1, 3, 900])):
        deep = [deep]
    return [draw.choice(TEXTS).split(), None, True, -1, 10**400, deep, float("nan")][kind - 7]


def line(draw: random.Random) -> str:
    """One line: an object, a table's row, its header, or noise."""
    kind = draw.randrange(10)
    record = {column: value(draw) for column in draw.sample(COLUMNS, draw.randrange(5))}
    if kind < 4:
        return json.dumps(record, ensure_ascii=draw.random() < 0.3)
    if kind < 6:
        return "\t".join(draw.choice(TEXTS) for _ in range(draw.randrange(4)))
    if kind < 7:
        return "\t".join(record)
    return draw.choice([
        '{"a": "x \\ud800"}', '{"question": "\\udfff", "context": "x"}', '{"a": ' + "[" * 100_000, "{" * 5000, '{"a": ' + "9" * 5000 + "}",  # noqa: E501
        '{"a": 1e999}', "null", "[]", '"text"', "-DOCSTART- -X- O", "the B-NP", "text", "premise\thypothesis", "<a>", "\r", "\x1a",  # noqa: E501
    ])  # fmt: skip


def content(draw: random.Random, suffix: str) -> bytes:
    """The bytes of a file."""
    lines = [line(draw) for _ in range(draw.randrange(6))]
    if draw.random() < 0.5:  # most lines alike, so that many files can be answered
        lines = [
            json.dumps({column: draw.choice(TEXTS[:2]) for column in COLUMNS if column not in ("id", "number")})
        ] * 3 + lines[:1]
    if suffix == "json" and draw.random() < 0.5:
        question = {"id": value(draw), "question": value(draw)}
        lines = [json.dumps({"data": [{"paragraphs": [{"context": value(draw), "qas": [question, value(draw)]}]}]})]
    if suffix == "parquet" and draw.random() < 0.8:
        columns = {column: [draw.choice(TEXTS), None, "the cat"] for column in draw.sample(COLUMNS, 4)}
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
        data = buffer.getvalue()
    else:
        encoding = draw.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
        data = "\n".join(lines).encode(encoding, "replace")
    if suffix.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    if draw.random() < 0.2 and data:
        place = draw.randrange(len(data))
        data = data[:place] + draw.choice([b"", b"\xff", b"\x00", data[place + 1 :]])
    return data


def ask(model: Path, folder: Path, draw: random.Random) -> Counter[str]:
    """Ask a model one generated file, by name or through standard input; what became of it."""
    suffix = draw.choice(SUFFIXES)
    path, output = folder / (f"rows.{suffix}" if suffix else "rows"), folder / "answers.jsonl"
    data = content(draw, suffix)
    path.write_bytes(data)
    output.unlink(missing_ok=True)
    said, stdin = io.StringIO(), io.TextIOWrapper(io.BytesIO(data))
    piped = draw.random() < 0.3
    with contextlib.redirect_stderr(said), standard_input(stdin):
        code = main(["predict", str(model), "-" if piped else str(path), "--output", str(output)])
    if code == 0:
        answers = [json.loads(row) for row in output.read_text("utf-8").splitlines()]
        assert len({row["id"] for row in answers}) == len(answers), data
        return Counter({"answered": 1, "rows": len(answers)})
    sentence = said.getvalue()
    assert code in {65, 69} and sentence.startswith("error: ") and sentence.count("\n") == 1, (code, sentence, data)
    assert not output.exists()
    return Counter({"refused with a sentence": 1})


@contextlib.contextmanager
def standard_input(stream: io.TextIOWrapper) -> Iterator[None]:
    """Another standard input for a while."""
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before
