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
from electra.files import dump_line, read_jsonl, write_json, write_jsonl
from electra.storage.manifest import write_manifest
from pipelines.cli import main
from tests.conftest import ROOT, environment
from tests.electra.made_up_models import CHUNKS
from tests.pipelines import bad_predict


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Untrained models of every kind."""
    root = tmp_path_factory.mktemp("models")
    bad_predict.models(root)
    return root


@pytest.fixture
def ask(run_command, folders):
    """A function that returns a model's answers to the rows of files."""

    def ask(model, *words):
        return list(map(json.loads, run_command("predict", folders / model, *words).splitlines()))

    return ask


def test_text_tsv_and_json_lines_give_the_same_answers(ask, tmp_path, monkeypatch):
    texts = ["the cat runs.", "a dog is red"]
    text = "\n".join(texts).encode() + b"\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    plain = ask("cola")
    assert [row["id"] for row in plain] == ["0", "1"] and plain[0]["prediction"] in {"0", "1"}
    (tmp_path / "a.tsv").write_text("id\tsentence\n0\tthe cat runs.\n1\ta dog is red\n")
    write_jsonl(tmp_path / "b.jsonl", [{"id": "0", "a": texts[0]}, {"sentence": texts[1], "id": 1}])
    assert ask("cola", tmp_path / "a.tsv") == plain
    assert ask("cola", tmp_path / "b.jsonl") == plain
    assert ask("cola", tmp_path / "a.tsv", "--output", tmp_path / "o.jsonl") == []
    assert list(read_jsonl(tmp_path / "o.jsonl")) == plain


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
def test_a_row_that_cannot_be_answered_is_named(
    folders, tmp_path, refuse, model, text, code, sentence
):
    path = tmp_path / "in.txt"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    output = tmp_path / "out.jsonl"
    assert sentence in refuse(code, "predict", folders / model, path, "--output", output)
    assert not output.exists()


def test_blank_lines_keep_their_numbers(ask, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\nthe cat\n\n \na dog\n")
    assert [row["id"] for row in ask("cola", path, path)] == ["1", "4"] * 2


def test_rows_come_in_the_forms_of_training(ask, tmp_path, folders, refuse):
    conll = "-DOCSTART- -X- O\n\nthe B-NP\ncat I-NP\n\n\nruns O\n"
    (tmp_path / "w.conll").write_text(conll)
    answers = ask("chunks", tmp_path / "w.conll")
    (tmp_path / "w.tsv").write_text("## id 1\tthe cat\n" + conll.replace(" ", "\t"))
    assert ask("chunks", tmp_path / "w.tsv") == answers
    (tmp_path / "w.txt").write_text("the\u00a0type is O\nthe cat\n")
    assert [row["words"][0] for row in ask("chunks", tmp_path / "w.txt")] == [
        "the\u00a0type",
        "the",
    ]
    assert [row["words"] for row in answers] == [["the", "cat"], ["runs"]]
    records = [
        {"number": 7, "mood": True, "body": "the cat"},
        {"number": 9, "mood": False, "body": "a dog"},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl.gz").write_bytes(
        gzip.compress("".join(map(dump_line, records)).encode("utf-16"))
    )
    (tmp_path / "rows.tsv").write_text("mood\tnumber\tbody\ntrue\t7\tthe cat\nfalse\t9\ta dog\n")
    answers = ask("mood", tmp_path / "rows.parquet")
    assert [row["id"] for row in answers] == ["7", "9"]
    for name in ("rows.jsonl.gz", "rows.tsv"):
        assert ask("mood", tmp_path / name) == answers
    answers = [{"text": "cat", "answer_start": 4}]
    question = {"id": "q", "question": "what?", "answers": answers}
    paragraph = {"context": "the cat is red.", "qas": [question]}
    content = dump_line({"data": [{"paragraphs": [paragraph]}]}).encode()
    (tmp_path / "dev.JSON.gz").write_bytes(gzip.compress(content))
    assert [row["id"] for row in ask("squad2", tmp_path / "dev.JSON.gz")] == ["q"]
    content = dump_line({"data": [{"paragraphs": [paragraph | {"context": 3}]}]})
    (tmp_path / "dev.json").write_text(content)
    error = refuse(65, "predict", folders / "squad2", tmp_path / "dev.json")
    assert "it should be a question with its context" in error


def test_answers_are_written_through_devices_pipes_and_links(folders, tmp_path, refuse):
    (tmp_path / "in.txt").write_text("the cat\n")
    (tmp_path / "old.jsonl").write_text("what was here")
    (tmp_path / "link").symlink_to(tmp_path / "old.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    call = ["predict", str(folders / "cola"), str(tmp_path / "in.txt"), "--output"]
    with ThreadPoolExecutor() as pool:
        reader = pool.submit((tmp_path / "pipe").read_text)
        assert main([*call, str(tmp_path / "pipe")]) == 0
        assert json.loads(reader.result())["id"] == "0"
    assert (tmp_path / "pipe").is_fifo()
    assert main([*call, str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert [row["id"] for row in read_jsonl(tmp_path / "old.jsonl")] == ["0"]
    assert main([*call, os.devnull]) == 0 and not Path(os.devnull).is_file()
    for place, code in ((tmp_path, 65), (tmp_path / "loop", 65), (tmp_path / "in.txt/x", 74)):
        refuse(code, *call, place)
    assert "is a folder; name a file" in refuse(65, "predict", folders / "cola", tmp_path)


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


def test_a_file_of_predictions_is_scored_and_one_that_is_none_is_one_sentence(
    tmp_path, run_command, refuse, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "words": ["the", "cat"], "tags": ["B-NP", "I-NP"]} for n in range(2)]
    write_jsonl(Path("build/tasks/mine/chunks/dev.jsonl"), rows)
    write_json(Path("build/tasks/mine/chunks/task.json"), to_jsonable(CHUNKS))
    sentences = [{"id": str(n), "a": "the cat", "b": None, "label": str(n % 2)} for n in range(4)]
    write_jsonl(Path("build/tasks/mine/sst2/dev.jsonl"), sentences)
    write_manifest(Path("build/tasks/mine"), kind="tasks", name="mine")
    Path("p.CSV.gz").write_bytes(gzip.compress(b"id,prediction\n0,1\n1,1\n2,1\n3,1\n"))
    assert json.loads(run_command("score", "mine", "sst2", "p.CSV.gz")) == {"accuracy": 50.0}
    write_jsonl(Path("good.jsonl"), rows)
    assert json.loads(run_command("score", "mine", "chunks", "good.jsonl"))["entity_f1"] == 100
    Path("folder.json").mkdir()
    for name, content in {
        "binary.jsonl": b"\x00\xff\x01", "wrong.json": b"[1]", "deep.json": b"[" * 100_000,
        "short.jsonl": b'{"id": "0", "tags": ["O"]}\n{"id": "1", "tags": ["O", "O"]}\n',
        "word.jsonl": b'{"id": "0", "tags": "O"}\n{"id": "1", "tags": ["O", 7]}\n',
    }.items():  # fmt: skip
        Path(name).write_bytes(content)
        assert name in refuse(65, "score", "mine", "chunks", name)
    error = refuse(65, "score", "mine", "chunks", "folder.json")
    assert "is a folder; name a file" in error
