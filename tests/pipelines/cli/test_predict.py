"""Answers from files and from standard input, and the errors for rows that cannot be answered."""

import gzip
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from electra.config import to_jsonable
from electra.files import dump_line, read_jsonl, write_json
from electra.storage.manifest import write_manifest
from tests.support import bad_predict
from tests.support.models import CHUNKS
from tests.support.project import ROOT, environment

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Untrained models of every kind."""
    root = tmp_path_factory.mktemp("models")
    bad_predict.models(root)
    return root


@pytest.fixture
def ask(run_command, folders):
    """A function that returns a model's answers to the rows of files."""

    def ask(model, words=""):
        return list(map(json.loads, run_command(f"predict {folders / model} {words}").splitlines()))

    return ask


def test_text_tsv_and_json_lines_give_the_same_answers(ask, monkeypatch):
    text = io.BytesIO(b"the cat runs.\na dog is red\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(text))
    plain = ask("cola")
    assert [row["id"] for row in plain] == ["0", "1"] and plain[0]["prediction"] in {"0", "1"}
    Path("a.tsv").write_text("id\tsentence\n0\tthe cat runs.\n1\ta dog is red\n")
    rows = '{"id": "0", "a": "the cat runs."}\n{"sentence": "a dog is red", "id": 1}\n'
    Path("b.jsonl").write_text(rows)
    assert ask("cola", "a.tsv") == ask("cola", "b.jsonl") == plain
    assert ask("cola", "a.tsv --output o.jsonl") == []
    assert list(read_jsonl(Path("o.jsonl"))) == plain


@pytest.mark.parametrize(
    "model, text, code, sentence",
    [
        ("cola", '{"body": "x"}\n', 65, ":1: has body; it needs the columns sentence or a"),
        ("cola", '{"a": \n', 65, ":1: not a JSON object: '{\"a\": '; fix the row"),
        ("cola", "the cat\nthe \udcff cat\n", 65, ":2: invalid UTF-8"),
        (
            "cola",
            "text\nthe cat\n",
            65,
            ": begins with 'text'; it should have a header with the columns sentence",
        ),
        ("rte", "id\ta\tb\n7\tx\ty\n7\tx\tz\n", 65, ":3: has the id '7' of"),
        ("chunks", '{"words": [["the"]]}\n', 65, ":1: is {'words': [['the']]}"),
        ("cola", "the cat\ra dog", 65, ":1: has a carriage return within a line"),
        ("nowhere", "x\n", 69, "there is no such folder"),
        (".", "x\n", 65, " models; give the folder of one of them: "),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_row_that_cannot_be_answered_is_named(folders, refuse, model, text, code, sentence):
    Path("in.txt").write_text(text, errors="surrogateescape", newline="")
    command = f"predict {folders / model} in.txt --output out.jsonl"
    assert sentence in refuse(code, command)
    assert not Path("out.jsonl").exists()


def test_blank_lines_keep_their_numbers(ask):
    Path("a.txt").write_text("\nthe cat\n\n \na dog\n")
    assert [row["id"] for row in ask("cola", "a.txt a.txt")] == ["1", "4"] * 2
    Path("pairs.txt").write_text("\nthe cat runs.\ta dog\n")
    assert [row["id"] for row in ask("rte", "pairs.txt")] == ["1"]


def test_words_come_as_conll_or_text(ask):
    conll = "-DOCSTART- -X- O\n\nthe B-NP\ncat I-NP\n\n\nruns O\n"
    Path("w.conll").write_text(conll)
    answers = ask("chunks", "w.conll")
    assert [row["words"] for row in answers] == [["the", "cat"], ["runs"]]
    Path("w.tsv").write_text("## id 1\tthe cat\n" + conll.replace(" ", "\t"))
    assert ask("chunks", "w.tsv") == answers
    Path("w.txt").write_text("the\u00a0type is O\nthe cat\n")
    assert [row["words"][0] for row in ask("chunks", "w.txt")] == ["the\u00a0type", "the"]


def test_rows_come_in_the_forms_of_training(ask):
    texts = ["the cat", "a dog"]
    table = pyarrow.table({"number": [7, 9], "mood": [True, False], "body": texts})
    pyarrow.parquet.write_table(table, "rows.parquet")
    lines = "".join(map(dump_line, table.to_pylist()))
    Path("rows.jsonl.gz").write_bytes(gzip.compress(lines.encode("utf-16")))
    Path("rows.tsv").write_text("mood\tnumber\tbody\ntrue\t7\tthe cat\nfalse\t9\ta dog\n")
    for name, indent in (("list.jsonl", None), ("indented.jsonl", 1), ("rows", None)):
        Path(name).write_text(json.dumps(table.to_pylist(), indent=indent))
    answers = ask("mood", "rows.parquet")
    assert [row["id"] for row in answers] == ["7", "9"]
    assert (
        ask("mood", "list.jsonl") == ask("mood", "indented.jsonl") == ask("mood", "rows") == answers
    )
    assert ask("mood", "rows.jsonl.gz") == ask("mood", "rows.tsv") == answers


def test_questions_come_as_squads_files(ask, folders, refuse):
    question = '{"id": "q", "question": "what?", "answers": [{"text": "cat", "answer_start": 4}]}'
    layout = '{"data": [{"paragraphs": [{"context": %s, "qas": [%s]}]}]}'
    content = layout % ('"the cat is red."', question)
    Path("dev.JSON.gz").write_bytes(gzip.compress(content.encode()))
    assert [row["id"] for row in ask("squad2", "dev.JSON.gz")] == ["q"]
    Path("dev.json").write_text(layout % (3, question))
    assert "it should be a question with its context" in refuse(
        65, f"predict {folders / 'squad2'} dev.json"
    )


def test_answers_are_written_through_devices_pipes_and_links(folders, run_command, refuse):
    Path("in.txt").write_text("the cat\n")
    Path("old.jsonl").write_text("what was here")
    Path("link").symlink_to("old.jsonl")
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    call = f"predict {folders / 'cola'} in.txt --output"
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(Path("pipe").read_text)
        run_command(f"{call} pipe")
        assert json.loads(reader.result())["id"] == "0"
    assert Path("pipe").is_fifo()
    run_command(f"{call} link")
    assert Path("link").is_symlink()
    assert [row["id"] for row in read_jsonl(Path("old.jsonl"))] == ["0"]
    run_command(f"{call} {os.devnull}")
    assert not Path(os.devnull).is_file()
    for place, code in ((".", 65), ("loop", 65), ("in.txt/x", 74)):
        refuse(code, f"{call} {place}")
    assert "is a folder; name a file" in refuse(65, f"predict {folders / 'cola'} .")


GONE = "| head -0; exit ${PIPESTATUS[0]}"


@pytest.mark.parametrize(
    "command, code, lines",
    [
        (f"params tiny {GONE}", 141, 0),
        ("params tiny >&-", 65, 1),
        ("params tiny >/dev/full", 74, 1),
        ("params >/dev/full", 71, 1),  # more than Python holds back
        ("predict MODEL <&-", 65, 1),
    ],
)
def test_what_reads_or_writes_may_be_closed(folders, command, code, lines):
    words = f"{sys.executable} -m pipelines {command.replace('MODEL', str(folders / 'cola'))}"
    done = subprocess.run(
        ["bash", "-c", words], cwd=ROOT, env=environment(ROOT), capture_output=True
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (code, lines), done.stderr


def test_a_file_of_predictions_is_scored_and_one_that_is_none_is_one_sentence(run_command, refuse):
    tasks = Path("build/tasks/mine")
    for task in ("chunks", "sst2"):
        (tasks / task).mkdir(parents=True)
    tagged = """\
{"id": "0", "words": ["the", "cat"], "tags": ["B-NP", "I-NP"]}
{"id": "1", "words": ["the", "cat"], "tags": ["B-NP", "I-NP"]}
"""
    (tasks / "chunks/dev.jsonl").write_text(tagged)
    write_json(tasks / "chunks/task.json", to_jsonable(CHUNKS))
    labelled = """\
{"id": "0", "a": "the cat", "b": null, "label": "0"}
{"id": "1", "a": "the cat", "b": null, "label": "1"}
"""
    (tasks / "sst2/dev.jsonl").write_text(labelled)
    write_manifest(tasks, kind="tasks", name="mine")
    Path("p.CSV.gz").write_bytes(gzip.compress(b"id,prediction\n0,1\n1,1\n"))
    assert json.loads(run_command("score mine sst2 p.CSV.gz")) == {"accuracy": 50.0}
    Path("good.jsonl").write_text(tagged)
    assert json.loads(run_command("score mine chunks good.jsonl"))["entity_f1"] == 100
    for name, content in {
        "binary.jsonl": b"\x00\xff\x01",
        "wrong.json": b"[1]",
        "deep.json": b"[" * 100_000,
        "short.jsonl": b'{"id": "0", "tags": ["O"]}\n{"id": "1", "tags": ["O", "O"]}\n',
        "word.jsonl": b'{"id": "0", "tags": "O"}\n{"id": "1", "tags": ["O", 7]}\n',
    }.items():
        Path(name).write_bytes(content)
        assert name in refuse(65, f"score mine chunks {name}")
    assert "is a folder; name a file" in refuse(65, "score mine chunks build")
