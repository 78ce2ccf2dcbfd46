"""Files behind URLs, on a server that speaks S3 on loopback: what a stage reads of them, and each way to fail."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from electra.config import build
from electra.errors import BadConfig, CorruptFile, NoAccess, SourceUnreachable
from electra.files import read_json
from pipelines.config.params import load
from pipelines.runtime import remote_files
from pipelines.sources import OwnTasks, at_hand
from pipelines.stages import inputs, tasks
from pipelines.stages.corpus import gather
from pipelines.stages.required_files import check_source as check
from tests.conftest import SMOKE, files_of
from tests.pipelines.stages.test_corpus import config, write
from tests.s3_server import S3, forget

URL = "s3://team/wiki/**/*.jsonl"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(**files: bytes | str) -> None:
    system = fsspec.filesystem("s3")
    for name, content in files.items():
        system.pipe(f"team/wiki/{name}", content if isinstance(content, bytes) else content.encode())


def objects(tmp_path: Path) -> None:
    """The files that `write` makes, some in a folder, in the bucket."""
    write(tmp_path / "text")
    for path in (tmp_path / "text").iterdir():
        put(**{f"{'sub/' if path.stem > '2' else ''}{path.name}": path.read_bytes()})


def read(tmp_path: Path, name: str, *files: str) -> dict[str, bytes]:
    sources = [{"kind": "local", "files": list(files)}]
    gather(config(tmp_path, sources=sources), "corpora.x", tmp_path / name, tmp_path / f"work-{name}")
    return files_of(tmp_path / name)


@pytest.mark.slow
def test_a_url_is_read_as_the_files_it_names_and_once(tmp_path, s3, monkeypatch, capsys):
    objects(tmp_path)
    first = read(tmp_path, "first", URL)
    assert first == read(tmp_path, "local", "text/*") and len(first) > 2
    fetched = {path: count for path, count in s3.asked.items() if path.endswith(".jsonl") and path.startswith("GET")}
    assert len(fetched) == 5
    assert read(tmp_path, "again", URL) == first
    assert {path: s3.asked[path] for path in fetched} == fetched
    s3.__exit__()
    assert read(tmp_path, "gone", URL) == first
    assert f"warning: corpora.x.sources[0]: {URL} does not answer" in capsys.readouterr().err
    (file,) = Path("runs/fetched").glob("*/files/0.jsonl")
    file.write_text("damaged")
    with pytest.raises(SourceUnreachable, match="does not answer, or broke off"):
        read(tmp_path, "damaged", URL)


@pytest.mark.parametrize(
    ("fault", "error", "sentence"),
    [
        (
            "cut",
            SourceUnreachable,
            "does not answer, or broke off .*; run the same command again: what has come is kept",
        ),
        ("short", CorruptFile, r"team/wiki/big.txt: arrives with 50,000 bytes, twice; expected 100,000; run the same"),
        ("denied", NoAccess, "asks for credentials .*; expected those of s3 in the environment"),
        ("none", NoAccess, "asks for credentials .*Unable to locate credentials"),
    ],
)
def test_each_fault_is_a_sentence_with_a_code_of_its_own_and_what_came_is_kept(s3, monkeypatch, fault, error, sentence):
    put(**{"a.txt": "small", "big.txt": b"x" * 100_000})
    monkeypatch.setattr(remote_files, "AT_ONCE", 1)
    with monkeypatch.context() as patch:
        s3.faults["/team/wiki/big.txt"] = fault
        if fault == "none":
            patch.delenv("AWS_ACCESS_KEY_ID")
            patch.delenv("AWS_SECRET_ACCESS_KEY")
        forget()
        with pytest.raises(error, match=f"x: s3://team/wiki.*{sentence}") as raised:
            remote_files.copies("s3://team/wiki", "x")
        assert raised.value.exit_code == {"cut": 69, "short": 74}.get(fault, 77)
        assert [path.name for path in Path("runs").rglob("*.txt")] == ([] if fault == "none" else ["a.txt"])
    forget()
    s3.faults.clear()
    before = s3.asked["GET /team/wiki/a.txt"]
    found = remote_files.copies("s3://team/wiki", "x")
    assert [path.read_bytes() for path in found] == [b"small", b"x" * 100_000]
    assert s3.asked["GET /team/wiki/a.txt"] == (before if fault != "none" else 1)
    assert not list(Path("runs").rglob("*.part"))


def test_a_connection_that_is_cut_once_is_taken_up_again(s3: S3) -> None:
    put(**{"big.txt": bytes(range(256)) * 1000})
    s3.faults["/team/wiki/big.txt"] = "cut once"
    assert remote_files.place("s3://team/wiki/big.txt", "x").read_bytes() == bytes(range(256)) * 1000
    assert s3.asked["GET /team/wiki/big.txt"] == 2


def test_what_is_not_there_or_not_known(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("s3://team/nothing", "s3://nobody/wiki"):
        with pytest.raises(SourceUnreachable, match=f"there is nothing at {url}; put it there or change the URL"):
            remote_files.listing(url, "x")
    with pytest.raises(BadConfig, match="abc://x is of a kind that fsspec does not know"):
        remote_files.listing("abc://x", "x")
    with pytest.raises(BadConfig, match=r"gs://x needs a package that is not here \(.*gcsfs.*\); .*; install it"):
        remote_files.listing("gs://x", "x")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.setattr(fsspec.core, "get_filesystem_class", lambda kind: importlib.import_module("s3fs"))
    with pytest.raises(BadConfig, match=r"pip install 'electra-workflow\[s3\]'"):
        remote_files.listing("s3://team/wiki", "x")


def test_a_changed_object_and_a_damaged_copy_are_told_and_copied_again(s3, capsys):
    put(**{"a.txt": "one", "b.txt": "two"})
    a, b = remote_files.copies("s3://team/wiki", "x")
    put(**{"a.txt": "six"})
    b.write_text("own")
    assert [path.read_text() for path in remote_files.copies("s3://team/wiki", "x")] == ["six", "two"]
    said = capsys.readouterr().err
    assert "warning: s3://team/wiki: a.txt has sha256" in said and "and had " in said
    assert f"warning: {b}: has sha256" in said and "it is copied again" in said
    fsspec.filesystem("s3").rm("team/wiki/a.txt")
    assert remote_files.copies("s3://team/wiki", "x") == [b] and not a.exists()


@pytest.mark.slow
def test_copies_of_two_versions_are_never_mixed(s3: S3) -> None:
    put(**{"a.txt": "one", "b.txt": "two"})
    remote_files.copies("s3://team/wiki", "x")
    put(**{"a.txt": "six", "b.txt": "ten"})
    s3.faults["/team/wiki/b.txt"] = "cut"
    for _ in range(2):
        with pytest.raises(SourceUnreachable):
            remote_files.copies("s3://team/wiki", "x")
    s3.faults.clear()
    assert [path.read_text() for path in remote_files.copies("s3://team/wiki", "x")] == ["six", "ten"]


def test_copies_outlive_files_that_are_gone_from_the_server(s3: S3, capsys: pytest.CaptureFixture[str]) -> None:
    for url in ("s3://team/wiki/*.txt", "s3://team/wiki"):
        put(**{"a.txt": "one"})
        (copy,) = remote_files.copies(url, "x")
        fsspec.filesystem("s3").rm("team/wiki/a.txt")
        assert remote_files.copies(url, "x") == [copy] and copy.read_text() == "one"
        assert f"there is nothing at {url}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_changed_object_changes_the_entries_that_name_it(s3: S3, capsys: pytest.CaptureFixture[str]) -> None:
    Path("params.yaml").write_text(SMOKE.replace('"text/*.txt"', '"s3://team/wiki/*.txt"'))

    def noted() -> Any:
        inputs.record("corpora", "smoke", load())
        return read_json(Path("build/inputs/corpora/smoke.json"))

    put(**{"a.txt": "one"})
    before = noted()
    assert before[0][0] == "s3://team/wiki/*.txt" and before[0][1]["a.txt"][0] == 3
    assert noted() == before and s3.asked["GET /team/wiki/a.txt"] == 0
    put(**{"a.txt": "two"})
    after = noted()
    assert after != before
    s3.__exit__()
    forget()
    assert noted() == after
    assert "warning: inputs: s3://team/wiki/*.txt does not answer" in capsys.readouterr().err


def test_rows_of_ones_own_and_folders_may_lie_behind_urls(tmp_path: Path, s3: S3) -> None:
    rows = "sentence\tlabel\n" + "".join(f"text {i}\t{'ab'[i % 2]}\n" for i in range(8))
    put(**{"train.tsv": rows, "dev.tsv": rows.replace("text", "word"), "model/config.json": "{}"})
    one = {"train": "s3://team/wiki/train.tsv", "dev": "s3://team/wiki/dev.tsv", "labels": ["a", "b"]}
    source = build(OwnTasks, {"kind": "own", "tasks": {"mood": one}}, "tasks.x")
    check(source, "tasks.x")
    assert not Path("runs").exists()
    tasks.gather(at_hand(source, "tasks.x"), "tasks.x", tmp_path / "made")
    lines = (tmp_path / "made/mood/dev.jsonl").read_text().splitlines()
    assert [json.loads(line)["a"] for line in lines] == [f"word {i}" for i in range(8)]
    assert (remote_files.place("s3://team/wiki/model", "x") / "config.json").read_text() == "{}"
    fsspec.filesystem("memory").pipe("/elsewhere/a.txt", b"any URL")
    assert remote_files.place("memory://elsewhere/a.txt", "x").read_text() == "any URL"
    assert remote_files.place("a/path", "x") == Path("a/path")
