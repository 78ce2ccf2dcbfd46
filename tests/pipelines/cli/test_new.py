"""`electra new`: entries that `check` accepts, by what the files show, and a params.yaml otherwise
as it was.
"""

import json
import shutil
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipelines.cli import main, new
from pipelines.config.params import load
from pipelines.sources.paths import find_files
from tests.conftest import ROOT
from tests.electra.helpers import config
from tests.pipelines.stages.test_corpus import delivered


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "step_seconds", lambda *of: 0.1)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path


def rows(name: str, *records: dict) -> str:
    path = Path("data") / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_text_and_a_task_pass_the_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(
        "text.jsonl", *({"title": str(n), "body": f"Text number {n} of many."} for n in range(200))
    )
    records = [{"review": f"row {n}", "label": n % 2 == 0} for n in range(30)]
    task = [rows("train.jsonl", *records), rows("dev.jsonl", *records)]
    before = Path("params.yaml").read_text()
    assert main(["new", "my-corpus", "--text", "data/text*.jsonl", "--task", *task]) == 0
    said = capsys.readouterr().out
    assert (
        "electra check my-corpus" in said and "dvc repro pipelines/dvc.yaml:glue@my-corpus" in said
    )
    assert main(["check", "my-corpus"]) == 0 and capsys.readouterr().err == ""
    params = load()
    source, *_ = params.corpora["my-corpus"].sources
    assert source.text == "body" and params.models["my-corpus"].encoder == params.encoders["mini"]
    own = params.tasks["my-corpus"].tasks["my_corpus"]
    assert (own.a, own.label, own.labels) == ("review", "label", ("false", "true"))
    after = Path("params.yaml").read_text()
    left = [line for line in after.splitlines() if line in set(before.splitlines())]
    assert [line for line in before.splitlines() if line not in left] == []
    assert main(["new", "my-corpus", "--text", "data/text.jsonl"]) == 64
    assert "has corpora.my-corpus already" in capsys.readouterr().err
    assert Path("params.yaml").read_text() == after


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay_and_a_link_is_written_through(here: Path, end: str) -> None:
    text = Path("params.yaml").read_text().replace("\n", end)
    Path("params.yaml").rename(shared := here / "data/shared.yaml")
    shared.write_bytes(text.encode())
    Path("params.yaml").symlink_to(shared)
    (here / "data/a.txt").write_text("A line of text.\n" * 100)
    assert main(["new", "mine", "--text", "data/a.txt"]) == 0 and "mine" in load().models
    assert Path("params.yaml").is_symlink()
    after = shared.read_bytes().decode().split("\n")
    assert {line[-1:] == "\r" for line in after[:-1]} == {end == "\r\n"} and after[-1] == ""
    rest = iter(after)
    assert all(line in rest for line in text.split("\n")), "every line of before, in its order"


def test_what_plain_text_shows(here: Path) -> None:
    (here / "data/a.txt").write_text(
        "\n\n".join(f" = Title {n} = \n\n Text &amp; more, {n}." for n in range(99))
    )
    assert main(["new", "wiki", "--text", "data/a.txt"]) == 0
    (here / "data/b.txt").write_text("A line of text.\n" * 10_000)
    assert main(["new", "lines", "--text", "data/b.txt", "--encoder", "tiny"]) == 0
    params = load()
    assert params.corpora["wiki"].sources[0].documents == "headings"
    assert params.corpora["lines"].sources[0].documents == "lines"
    assert params.corpora["wiki"].cleaning.markup or not params.corpora["lines"].cleaning.markup


def test_each_kind_of_file_is_a_source_and_what_cannot_be_read_is_told(here, monkeypatch, capsys):
    for n in range(2):
        rows(f"text{n}.jsonl", *({"text": f"Text number {n} of many."} for n in range(99)))
        (here / f"data/{n}.txt").write_text(
            "\n\n".join(f"Document {n} says something plain." for n in range(99))
        )
    rows("body.jsonl", *({"title": str(n), "body": f"Text number {n} of many."} for n in range(99)))
    (here / "data/latin.txt").write_bytes(
        "\n\n".join(f"Früh übt sich {n} mal." for n in range(99)).encode("latin-1")
    )
    (here / "data/wide.txt").write_text(
        "\n\n".join(f"Text {n} of {n} things." for n in range(99)), encoding="utf-16"
    )
    pyarrow.parquet.write_table(
        pyarrow.table({"content": ["A text."] * 99}), here / "data/a.parquet"
    )
    (here / "data/a.zip").write_bytes(b"PK\x03\x04")
    (here / "data/empty").write_bytes(b"")
    assert main(["new", "mine", "--text", "data/*"]) == 0
    assert "left out: data/a.zip: is a zip file\n" in capsys.readouterr().out
    assert main(["check", "mine"]) == 0, capsys.readouterr().err
    found = {
        (source.files, source.text, source.encoding, source.documents)
        for source in load().corpora["mine"].sources
    }
    assert found == {
        (("data/text0.jsonl", "data/text1.jsonl"), "text", "utf-8", "file"),
        (("data/body.jsonl",), "body", "utf-8", "file"),
        (
            ("data/0.txt", "data/1.txt", "data/wide.txt", "data/empty"),
            "text",
            "utf-8",
            "blank_lines",
        ),
        (("data/latin.txt",), "text", "latin-1", "blank_lines"),
        (("data/a.parquet",), "content", "utf-8", "file"),
    }
    Path("data/a.zip").rename("data/text2.jsonl")
    assert main(["new", "all", "--text", "data/text*"]) == 0
    (source,) = load().corpora["all"].sources
    assert source.files == ("data/text0.jsonl", "data/text1.jsonl")


def test_delivered_files_are_of_their_kind(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    delivered(here / "data/all")
    assert main(["new", "mine", "--text", "data/all"]) == 0
    assert main(["check", "mine"]) == 0 and (said := capsys.readouterr()).err == ""
    assert "(6 of 6 files looked at)" in said.out
    kinds = {
        source.kind: len(find_files(source.files, "x")) for source in load().corpora["mine"].sources
    }
    assert kinds == {"warc": 2, "gigaword": 2, "wikipedia": 2}
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    for command in (["check", "mine"], ["new", "other", "--text", "data/all"]):
        assert main(command) == 64
        assert "xml.bz2: needs mwparserfromhell" in capsys.readouterr().err


def test_the_entries_are_written_as_dvc_does_and_rows_keep_their_ids(here: Path) -> None:
    from dvc.utils.hydra import apply_overrides

    rows("text.jsonl", *({"text": f"Text number {n} of many."} for n in range(200)))
    records = [{"id": 100 + n, "text": f"row {n}", "label": "ab"[n % 2]} for n in range(30)]
    task = [rows("train.jsonl", *records), rows("dev.jsonl", *records)]
    assert main(["new", "mine", "--text", "data/text.jsonl"]) == 0
    assert main(["new", "mine-too", "--task", *task]) == 0
    assert load().tasks["mine-too"].tasks["mine_too"].id == "id"
    assert (
        main(
            [
                "new",
                "again",
                "--task",
                rows("same.jsonl", *({**row, "id": 1} for row in records)),
                task[1],
            ]
        )
        == 0
    )
    assert load().tasks["again"].tasks["again"].id is None
    text = Path("params.yaml").read_text()
    apply_overrides("params.yaml", ["tracking=mlflow"])
    assert Path("params.yaml").read_text() == text  # as DVC writes it


def test_settings_suit_the_text_the_machine_and_the_network(here: Path) -> None:
    rows("text.jsonl", *({"text": f"Text number {n} of many."} for n in range(100_000)))
    pairs = rows("train.jsonl", *({"a": "x", "b": "y", "label": n % 2} for n in range(300)))
    for name, more in {
        "default": [],
        "short": ["--minutes", "1"],
        "wide": ["--encoder", "base"],
    }.items():
        assert (
            main(
                [
                    "new",
                    name,
                    "--text",
                    "data/text.jsonl",
                    "--task",
                    pairs,
                    pairs,
                    "--b",
                    "b",
                    *more,
                ]
            )
            == 0
        )
    params = load()
    assert [params.models[name].pretrain.steps for name in ("default", "short")] == [12000, 600]
    short, wide = params.models["short"].pretrain, params.models["wide"].pretrain
    assert (short.eval_every, short.batch, short.beta2) == (30, 16, 0.98) and (
        wide.batch,
        wide.beta2,
    ) == (128, 0.999)
    assert params.tokens["short"].packing.rule == "packed"
    narrow, broad = (
        params.finetune.resolve(name, params.changes(name), "", params.own_tasks(name))
        for name in ("short", "wide")
    )
    assert (narrow.learning_rate, narrow.layer_decay, narrow.pooling, narrow.epochs) == (
        1e-3,
        1.0,
        "align",
        20,
    )
    assert (broad.learning_rate, broad.layer_decay, broad.pooling, broad.epochs) == (
        1e-4,
        0.8,
        "cls",
        20,
    )


@pytest.mark.parametrize(
    ("records", "kind", "labels"),
    [
        ([{"text": "a", "score": n / 7} for n in range(9)], "regression", ()),
        ([{"text": "a", "label": n} for n in range(3)], "classification", ("0", "1", "2")),
        ([{"words": ["a", "b"], "tags": ["B-NP", "O"]}], "tagging", ("NP",)),
    ],
)
def test_what_rows_show(
    here: Path, records: list[dict], kind: str, labels: tuple[str, ...]
) -> None:
    assert (
        main(["new", "t", "--task", rows("train.jsonl", *records), rows("dev.jsonl", *records)])
        == 0
    )
    own = load().tasks["t"].tasks["t"]
    assert (own.kind, own.labels) == (kind, labels) and load().finetunings["t"].model == "tiny"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["x y", "--text", "data/*.txt"], 64, "'x y' cannot be a name"),
        (["x"], 64, "give --text or --task"),
        (["x", "--text", "data/*.txt"], 65, "no file matches 'data/*.txt'"),
        (["x", "--task", "data/one.jsonl"], 64, "names 1 files; give two or three"),
        (["x", "--task", "data/one.jsonl", "data/one.jsonl"], 65, "('text', 'mood') is the label? Give --label"),
        (["x", "--text", "data/one.jsonl", "--encoder", "smal"], 64, "did you mean small"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_sentence(here, words, code, sentence, capsys):
    rows("one.jsonl", {"text": "a", "mood": "good"})
    before = Path("params.yaml").read_text()
    assert main(["new", *words]) == code
    assert sentence in capsys.readouterr().err
    assert Path("params.yaml").read_text() == before


def test_a_step_is_timed_by_doing_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "TIMED", 4)
    assert 0 < new.step_seconds(config(), 16, 8, 200) < 60
