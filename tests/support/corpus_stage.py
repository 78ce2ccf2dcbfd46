"""The corpus stage on files of made-up documents."""

from electra.config import build
from electra.files import read_jsonl, write_jsonl
from pipelines.sources import CorpusConfig
from pipelines.stages.corpus import gather
from tests.support.small_project import run_apart


def documents(folder):
    return [row for file in sorted(folder.glob("documents-*.jsonl")) for row in read_jsonl(file)]


def write(folder, files=5, rows=40):
    for number in range(files):
        texts = [
            {"id": f"{number}-{i}", "text": f"Text {i} of {number}.\nA line é."}
            for i in range(rows)
        ]
        write_jsonl(folder / f"{number}.jsonl", texts)


def config(tmp_path, **settings):
    text = {"kind": "local", "files": [f"{tmp_path}/text/*"]}
    return build(CorpusConfig, {"sources": [text], **settings}, "corpora.x")


def run(tmp_path, settings, name="out"):
    return run_apart(tmp_path, name, "build/corpus/x", lambda: gather(settings, "x"))
