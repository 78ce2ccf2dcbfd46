"""Answers from files and from standard input, and what is said of rows that cannot be answered."""

import io
import json
import random
from pathlib import Path

import pytest
import torch

from electra.export import load_encoder
from electra.files import write_jsonl
from electra.finetuning.folder import write_model
from electra.finetuning.heads import Classifier
from electra.finetuning.squad_head import SpanFinder
from electra.finetuning.tagging import Tagger
from electra.finetuning.tasks import GLUE, FinetuneConfig, SquadConfig, Task
from pipelines.__main__ import main

CONFIG = FinetuneConfig(length=40)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained models of every kind."""
    from electra.config import EncoderConfig
    from electra.data import tokenizer as tokenizers
    from electra.export import config_json, encoder_tensors, fresh_encoder, write_folder

    root = tmp_path_factory.mktemp("models")
    words = [
        *tokenizers.SPECIALS,
        *["the", "a", "cat", "dog", "runs", "sleeps", "red", "is", "what", "?", "."],
        *"abc",
        *["##a", "##b"],
    ]
    tokenizer = tokenizers.from_pieces(list(dict.fromkeys(words)), lowercase=True, strip_accents=None)
    tokenizers.save(tokenizer, root / "tokenizer")
    config = EncoderConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16, positions=64)
    files = {path.name: path.read_text() for path in (root / "tokenizer").iterdir()}
    tensors = encoder_tensors(fresh_encoder(config, tokenizer.vocab_size, 1))
    write_folder(root / "base", tensors, config_json(config, tokenizer.vocab_size, "ElectraModel"), files, "")
    torch.manual_seed(1)
    for name in ("cola", "rte", "stsb"):
        network = Classifier(load_encoder(root / "base"), len(GLUE[name].labels), 0.0)
        write_model(root / name, network, GLUE[name], CONFIG, root / "base")
    chunks = Task(
        name="chunks", title="chunks", labels=("NP",), metrics=("entity_f1",), tagging=True, columns=("tokens",)
    )
    write_model(root / "chunks", Tagger(load_encoder(root / "base"), 5, 40), chunks, CONFIG, root / "base")
    squad = SquadConfig(length=40, stride=12, question_length=10, beam=3)
    write_model(root / "squad2", SpanFinder(load_encoder(root / "base"), squad), None, squad, root / "base")
    return root


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict]:
    assert main(["predict", *map(str, arguments)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_text_tsv_and_json_lines_give_the_same_answers(folders, tmp_path, capsys, monkeypatch) -> None:
    texts = ["the cat runs.", "a dog is red"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n"))
    plain = ask(capsys, folders / "cola")
    assert [row["id"] for row in plain] == ["0", "1"] and plain[0]["prediction"] in {"0", "1"}
    assert sum(plain[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    (tmp_path / "a.tsv").write_text("id\tsentence\n0\tthe cat runs.\n1\ta dog is red\n")
    write_jsonl(tmp_path / "b.jsonl", [{"id": "0", "a": texts[0]}, {"sentence": texts[1], "id": 1}])
    assert ask(capsys, folders / "cola", tmp_path / "a.tsv") == plain
    assert ask(capsys, folders / "cola", tmp_path / "b.jsonl") == plain
    assert main(["predict", str(folders / "cola"), str(tmp_path / "a.tsv"), "--output", str(tmp_path / "o.jsonl")]) == 0
    assert [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()] == plain


def test_pairs_scores_tags_and_answers(folders, tmp_path, capsys) -> None:
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\nthe cat\ta cat\n")
    assert ask(capsys, folders / "rte", tmp_path / "pairs.tsv")[0]["prediction"] in {"entailment", "not_entailment"}
    assert isinstance(ask(capsys, folders / "stsb", tmp_path / "pairs.tsv")[0]["prediction"], float)
    write_jsonl(tmp_path / "w.jsonl", [{"tokens": ["the", "cat"]}, {"words": "a dog runs"}])
    assert [len(row["tags"]) for row in ask(capsys, folders / "chunks", tmp_path / "w.jsonl")] == [2, 3]
    draw = random.Random(1)
    context = " ".join(draw.choice(["the cat", "a dog", "is red."]) for _ in range(30))
    write_jsonl(tmp_path / "q.jsonl", [{"id": "q", "question": "what is red?", "context": context}])
    (found,) = ask(capsys, folders / "squad2", tmp_path / "q.jsonl")
    assert found["id"] == "q" and found["best"] in context and isinstance(found["null_score"], float)


@pytest.mark.parametrize(
    ("model", "text", "code", "sentence"),
    [
        ("rte", "sentence1\tsentence2\na\tb\tc\n", 65, ":2: has 3 columns; expected 2: sentence1, sentence2"),
        ("rte", "only one\n", 65, ":1: has 1 columns; expected 2"),
        ("cola", '{"body": "x"}\n', 65, ":1: has body; expected the columns sentence or a"),
        ("cola", '{"a": 3}\n', 65, ":1: has a 3; expected text"),
        ("cola", '{"a": \n', 65, ":1: is '{\"a\": '; expected one JSON object a line"),
        ("squad2", '{"question": "x"}\n', 65, "expected the columns question, context"),
        ("nowhere", "x\n", 69, "there is no such folder"),
    ],
)
def test_a_row_that_cannot_be_answered_is_named(folders, tmp_path, capsys, model, text, code, sentence) -> None:
    (tmp_path / "in.txt").write_text(text)
    output = tmp_path / "out.jsonl"
    assert main(["predict", str(folders / model), str(tmp_path / "in.txt"), "--output", str(output)]) == code
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert not output.exists()


def test_a_file_of_predictions_is_scored(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "a": "the cat", "b": None, "label": str(n % 2)} for n in range(4)]
    write_jsonl(Path("build/tasks/mine/sst2/dev.jsonl"), rows)
    write_jsonl(Path("p.jsonl"), [{"id": str(n), "prediction": "1"} for n in range(4)])
    assert main(["score", "mine", "sst2", "p.jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"accuracy": 50.0}
    write_jsonl(Path("p.jsonl"), [{"id": "0", "prediction": "1"}])
    assert main(["score", "mine", "sst2", "p.jsonl"]) == 65
    assert "has no prediction for id 1 (row 2)" in capsys.readouterr().err
