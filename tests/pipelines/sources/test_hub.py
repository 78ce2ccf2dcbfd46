"""The hub: the library's real code against a server on loopback, with the faults that networks
have.
"""

import contextlib
import itertools
import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import httpx
import pytest
from huggingface_hub import HfApi, get_session
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.hf_api import RepoFile

from electra.errors import BadInput, SourceUnreachable, UserError
from pipelines.sources import HubCorpus, HubDataset, HubTasks, hub
from pipelines.sources.documents import WorkUnit
from pipelines.stages.inputs import check_source
from pipelines.text.cleaning import Document
from tests.support.bad_input import parquet
from tests.support.hub_server import COMMIT, Hub
from tests.support.project import ROOT, run

README = "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: data/train-*\n---\n"
PARTS = [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]

PROGRAM = """
import json, sys
from pathlib import Path
from electra.errors import UserError
from pipelines.sources import CorpusConfig, HubCorpus, HubDataset, HubTasks, documents
from pipelines.stages import tasks

for name, config, revision, fetch in json.loads(sys.argv[1]):
    try:
        if fetch == "squad":
            source = HubTasks(kind="hub", squad2=HubDataset(dataset=name, revision=revision))
            print(json.dumps(tasks.gather(source, "tasks.x", Path("tasks"))["tasks"]["squad2"]))
            continue
        source = HubCorpus(kind="hub", dataset=name, config=config, revision=revision, fetch=fetch)
        planned, units = documents.plan(CorpusConfig(sources=(source,)), "corpora.x", Path("scratch"))
        rows = [[item.id, item.text] for unit in units for item in unit.read()]
        print(json.dumps({"revision": planned.sources[0].revision, "units": len(units), "rows": rows}))
    except UserError as error:
        print(json.dumps({"error": str(error), "code": error.exit_code}))
"""


@pytest.fixture(autouse=True)
def online(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # benchmarks set it


def ask(tmp_path, endpoint, *questions):
    """Ask in a process of its own, since the library reads its settings once."""
    variables = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = run(tmp_path, "-c", PROGRAM, json.dumps(questions), **variables)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_data_set_is_read_through_faults_and_its_revision_is_resolved(tmp_path):
    texts = [[f"{part}-{i}", f"Text {i} of {part}."] for part in range(3) for i in range(20)]
    rows = [{"id": id_, "text": text, "url": "u"} for id_, text in texts]
    thirds = [parquet(rows[start : start + 20]) for start in (0, 20, 40)]
    made_up = {"README.md": README.encode(), **dict(zip(PARTS, thirds, strict=True))}
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    question = {"title": "t", "question": "What?", "context": "Some text."}
    answers = [{"text": ["text"], "answer_start": [5]}, {"text": [], "answer_start": []}]
    squad = parquet(
        [{"id": str(number), **question, "answers": answers[number % 2]} for number in range(6)]
    )
    squad_file = "data/train-00000-of-00001.parquet"
    files = {
        "made/up": made_up,
        "made/squad": {squad_file: squad, squad_file.replace("train", "validation"): squad},
        "made/lines": {"a.jsonl": lines},
        "made/wrong": {"data/train-0.parquet": thirds[0]},
    }
    faults = {PARTS[0]: "flip", PARTS[1]: 503, PARTS[2]: "cut", squad_file: "flip"}
    always = {"data/train-0.parquet": "flips"}
    with Hub(files, faults | always) as server:
        tasks, good, jsonl, wrong, *bad = ask(
            tmp_path,
            server.url,
            ("made/squad", None, "main", "squad"),
            ("made/up", "en", "main", "download"),
            ("made/lines", None, "main", "download"),
            ("made/wrong", None, "main", "download"),
            ("made/up", "en", "f" * 40, "download"),
            ("no/such", None, "main", "download"),
            ("made/up", "de", "main", "download"),
        )
        assert server.faults == always, "every other fault was met"
        server.faults |= {PARTS[1]: 503, PARTS[2]: "cut"}
        (streamed,) = ask(tmp_path, server.url, ("made/up", "en", "main", "stream"))
        assert server.faults == always
    assert good == {"revision": COMMIT, "units": 3, "rows": texts}
    assert streamed["rows"] == jsonl["rows"] == texts
    assert [tasks[split]["rows"] for split in ("train", "dev")] == [6, 6]
    assert wrong["code"] == 65 and "data/train-0.parquet: arrives with sha256" in wrong["error"]
    assert [error["code"] for error in bad] == [69, 69, 69]
    sentences = ("made/up has no such revision", "the hub has no no/such", "made/up cannot be used")
    for error, sentence in zip(bad, sentences, strict=True):
        assert error["error"].startswith(f"corpora.x.sources[0]: {sentence}")


SOURCE = HubCorpus(kind="hub", dataset="made/up", revision="main")


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def ask_server(server):
    with hub.reach_hub("made/up", "corpora.x"):
        HfApi(f"http://127.0.0.1:{server.getsockname()[1]}").get_paths_info("made/up", "a")


def test_a_server_that_says_nothing_is_a_sentence(server, monkeypatch):
    monkeypatch.setattr(hub, "SECONDS", 0.2)
    sentence = r"^corpora.x: cannot reach the hub for made/up \(.*timed out\); check the network, "
    with pytest.raises(SourceUnreachable, match=sentence):
        ask_server(server)


def drip(server):
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(60):
            connection.sendall(b"a")
            time.sleep(0.05)


def test_a_server_that_sends_headers_too_slowly_is_a_sentence(server, monkeypatch):
    monkeypatch.setattr(hub, "MINUTE", 0.2)
    threading.Thread(target=drip, args=(server,), daemon=True).start()
    with pytest.raises(SourceUnreachable, match=r"1: sends \d+ bytes in 0 seconds; check"):
        ask_server(server)


def answer_thrice(server):
    connection, _ = server.accept()
    with connection:
        for _ in range(3):
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")


def test_each_answer_of_a_server_may_take_its_time(server, monkeypatch):
    clock = itertools.count(0, 40)  # a read takes forty seconds
    monkeypatch.setattr(hub, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    threading.Thread(target=answer_thrice, args=(server,), daemon=True).start()
    with hub.reach_hub("made/up", "corpora.x"):
        for _ in range(3):
            get_session().get(f"http://127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("status, header, value, sentence", [
    (200, "etag", "/tmp/victim", "a: sends the ETag '/tmp/victim', a path"),
    (200, "x-linked-etag", 'W/"../victim"', "a: sends the ETag .*, a path"),
    (302, "location", "HTTP://made.up/", "a: leads to 'HTTP://made.up/', unencrypted"),
    (429, "retry-after", "86400", "a: asks for a wait of 86400 seconds; try"),
    (503, "retry-after", "9" * 5000, "a: asks for a wait of 9{20} seconds; try"),
    (429, "ratelimit", '"api"; r=0; t = 999', "a: asks for a wait of 999 seconds; try"),
])  # fmt: skip
def test_an_answer_that_leads_astray_is_a_sentence(status, header, value, sentence):
    request = httpx.Request("HEAD", "https://hub/a")
    answer = httpx.Response(status, headers={header: value}, request=request)
    with pytest.raises(UserError, match=sentence):
        hub.check_answer(answer)


def ask_to_wait(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(10_000)
        connection.sendall(b"HTTP/1.1 429 Busy\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n")


def test_the_answers_to_the_hubs_library_are_checked(server):
    threading.Thread(target=ask_to_wait, args=(server,), daemon=True).start()
    with pytest.raises(SourceUnreachable, match="asks for a wait of 86400 seconds"):
        ask_server(server)


def test_a_limit_that_is_not_reached_is_no_fault():
    request = httpx.Request("GET", "https://hub/a")
    headers = {"etag": '"0123"', "ratelimit": '"api"; r=9; t=999'}
    hub.check_answer(httpx.Response(200, headers=headers, request=request))


def test_a_stream_is_read_by_its_shards_and_soon_given_up(monkeypatch):
    rows = [{"id": str(number), "text": f"Text\n{number}", "url": "u"} for number in range(4)]
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset(num_shards=2)
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: stream)
    source = replace(SOURCE, fetch="stream")
    parts = hub.parts(source, "corpora.x")
    assert parts == [hub.HubFile(0, 2), hub.HubFile(1, 2)]
    items = [item for part in parts for item in WorkUnit(0, source, part=part).read()]
    assert items == [Document(row["id"], row["text"]) for row in rows]
    unnamed = replace(source, id="none")
    ids = [item.id for part in parts for item in WorkUnit(0, unnamed, part=part).read()]
    assert ids == [f"train-0000{part}:{row}" for part in (0, 1) for row in (1, 2)]
    wrapped = replace(source, hard_wrapped=True)
    first, _ = WorkUnit(0, wrapped, part=parts[0]).read()
    assert first == Document("0", "Text 0")
    assert datasets.config.STREAMING_READ_MAX_RETRIES == 3


@pytest.mark.parametrize("commit", [5, "../.."])
def test_a_hub_that_names_no_commit_is_a_sentence(monkeypatch, commit):
    info = SimpleNamespace(sha=commit)
    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: info)
    sentence = rf"made/up is malformed \(its commit is '?{commit}"
    with pytest.raises(SourceUnreachable, match=sentence):
        hub.resolve("made/up", "main", "corpora.x")


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_by_choice_is_a_sentence_at_once(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    sentence = "needs made/up from the hub, but HF_HUB_OFFLINE .* is set; unset it"
    squad = HubDataset(dataset="made/up", revision="main")
    for source in (SOURCE, HubTasks(kind="hub", squad1=squad)):
        with pytest.raises(SourceUnreachable, match=sentence):
            check_source(source, "corpora.x")


@pytest.mark.parametrize("error, sentence", [
    (KeyError("id"), r"made/up is malformed .*; check HF_ENDPOINT"),
    (EOFError("it ends in the middle of a stream"), r"made/up has a damaged or empty file"),
    (LocalEntryNotFoundError("no connection"), r"cannot reach the hub for made/up"),
])  # fmt: skip
def test_an_answer_in_another_form_is_a_sentence(error, sentence):
    with (
        pytest.raises(SourceUnreachable, match=sentence),
        hub.reach_hub("made/up", "corpora.x"),
    ):
        raise error


def test_the_parts_of_a_split_are_its_files_with_their_hashes(monkeypatch):
    def get_paths_info(api, repo, paths, **_):
        assert len(paths) <= 500, "the hub's limit"
        return [RepoFile(path=path, size=3, oid=f"blob of {path}") for path in paths]

    names = [f"{number}.parquet" for number in range(501)]
    data_files = {"train": [f"hf://datasets/made/up@main/{name}" for name in names]}
    builder = SimpleNamespace(config=SimpleNamespace(data_files=data_files))
    monkeypatch.setattr("datasets.load_dataset_builder", lambda *_, **__: builder)
    monkeypatch.setattr(HfApi, "get_paths_info", get_paths_info)
    assert hub.parts(SOURCE, "corpora.x") == [
        hub.HubFile(number, 501, name, 3, f"git:blob of {name}")
        for number, name in enumerate(names)
    ]
    with pytest.raises(SourceUnreachable, match="its splits are train: set `split`"):
        hub.parts(replace(SOURCE, split="test"), "corpora.x")


REFUSAL = OSError("404")
REFUSAL.response = httpx.Response(404)  # type: ignore[attr-defined]
STUMBLE = OSError("timed out")


@pytest.mark.parametrize("answers, pauses", [
    ([STUMBLE, STUMBLE, __file__], [1, 2]),
    ([STUMBLE] * 3, [1, 2]),
    ([REFUSAL], []),
    ([FileNotFoundError("a")], []),
])  # fmt: skip
def test_a_server_that_stumbles_is_asked_again_and_one_that_refuses_is_not(
    monkeypatch, answers, pauses
):
    waited = []
    monkeypatch.setattr(hub, "time", SimpleNamespace(sleep=waited.append))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", Mock(side_effect=answers))
    fails = pytest.raises(SourceUnreachable)
    with contextlib.nullcontext() if __file__ in answers else fails:
        assert hub.fetch_file("made/up", "a", "main", "tokenizers.x") == Path(__file__)
    assert waited == pauses


@pytest.mark.parametrize("name", [
    "9b63652e4599b6f141f83f77374ca035004e0c8f",
    "baaffec70d0b8f0f47664f0efc76a998ef632783831b56cc18f0e6c5cf316087",
])  # fmt: skip
def test_a_model_file_has_the_hash_by_which_the_cache_names_it(tmp_path, monkeypatch, name):
    link = tmp_path / "vocab.txt"
    link.symlink_to(name)
    arriving = ["[PAD]\n", "[PAD]\n[UNK]\n", "[PAD]\n", "[PAD]\n"]

    def download(*_, force_download, **__):
        assert force_download == (len(arriving) % 2)
        (tmp_path / name).write_text(arriving.pop(0))
        return link

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert hub.fetch_file("made/up", "vocab.txt", "main", "tokenizers.x") == link
    with pytest.raises(BadInput, match=rf"tokenizers.x/vocab.txt: .* instead of {name}, twice"):
        hub.fetch_file("made/up", "vocab.txt", "main", "tokenizers.x")


def test_no_network_is_a_sentence(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceUnreachable, match="cannot reach the hub for made/up"):
        hub.resolve("made/up", "main", "corpora.x")
