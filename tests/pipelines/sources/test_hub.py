"""The hub: the library's real code against a server on loopback, with the faults that networks
have.
"""

import contextlib
import hashlib
import json
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import httpx
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.hf_api import RepoFile

from electra.errors import BadInput, SourceUnreachable, UserError
from pipelines.sources import HubCorpus, HubDataset, HubTasks, hub
from pipelines.stages.inputs import check_source as check
from tests.conftest import ROOT, run
from tests.pipelines.sources.bad_input import parquet
from tests.pipelines.sources.hub_server import COMMIT, Hub

README = "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: data/train-*\n---\n"
PARTS = [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]

PROGRAM = """
import json, sys
from pathlib import Path
import huggingface_hub
from electra.errors import UserError
from pipelines.sources import CorpusConfig, HubCorpus, HubDataset, HubTasks, documents
from pipelines.stages import tasks

tasks.glue.LAYOUTS = {task: tasks.glue.LAYOUTS[task] for task in ("cola", "mnli")}  # one of each kind, for time
for name, config, split, revision, *fetch in json.loads(sys.argv[1]):
    try:
        if fetch == ["tasks"]:
            glue = HubDataset(dataset="made/glue", revision=revision)
            source = HubTasks(kind="hub", glue=glue, squad2=HubDataset(dataset=name, revision=revision))
            facts = tasks.gather(source, "tasks.x", Path("tasks"))
            print(json.dumps({**facts, "first": Path("tasks/mnli/train.jsonl").read_text().splitlines()[0]}))
            continue
        how = (fetch or ["download"])[0]
        source = HubCorpus(kind="hub", dataset=name, config=config, split=split, revision=revision, fetch=how)
        found, units = documents.plan(CorpusConfig(sources=(source,)), "corpora.x", Path("scratch"))
        rows = [[item.id, item.text] for unit in units for item in unit.read()]
        print(json.dumps({"revision": found.sources[0].revision, "units": len(units), "rows": rows}))
    except UserError as error:
        print(json.dumps({"error": str(error), "code": error.exit_code}))
"""


@pytest.fixture(autouse=True)
def online(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # benchmarks set it


def glue_files():
    """Two tasks and the diagnostic rows, laid out as the hub's GLUE: a configuration each, parquet
    by split.
    """
    halves = "validation_matched validation_mismatched test_matched test_mismatched"
    layout = {"cola": "train validation test", "mnli": f"train {halves}", "ax": "test"}
    files, configs = {}, []
    for config, splits in layout.items():
        configs += [f"- config_name: {config}", "  data_files:"]
        for split in splits.split():
            configs += [f"  - split: {split}", f"    path: {config}/{split}-*"]
            label = -1 if split.startswith("test") else 0
            rows = []
            for i in range(3):
                row = {"premise": f"A {split} {i}", "hypothesis": "B", "label": label, "idx": i}
                rows.append({"sentence": row["premise"], **row} if config == "cola" else row)
            files[f"{config}/{split}-00000-of-00001.parquet"] = parquet(rows)
    return {"README.md": "\n".join(["---", "configs:", *configs, "---", ""]).encode(), **files}


def ask(tmp_path, endpoint, *questions):
    """Ask in a process of its own, since the library reads its settings once."""
    variables = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = run(tmp_path, "-c", PROGRAM, json.dumps(questions), **variables)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_data_set_is_read_through_faults_and_its_revision_is_resolved(tmp_path):
    texts = [
        [{"id": f"{part}-{i}", "text": f"Text {i} of {part}.", "url": "u"} for i in range(20)]
        for part in range(3)
    ]
    files = {
        "README.md": README.encode(),
        **{name: parquet(rows) for name, rows in zip(PARTS, texts, strict=True)},
    }
    lines = "".join(json.dumps(row) + "\n" for row in texts[0]).encode()
    answers = [{"text": ["text"], "answer_start": [5]}, {"text": [], "answer_start": []}]
    question = {"title": "t", "question": "What?", "context": "Some text."}
    squad = [{"id": str(i), **question, "answers": answers[i % 2]} for i in range(6)]
    made_squad = {
        f"data/{split}-00000-of-00001.parquet": parquet(squad) for split in ("train", "validation")
    }
    others = {
        "made/squad": made_squad,
        "made/glue": glue_files(),
        "made/lines": {"a.jsonl": lines},
        "made/wrong": {"data/train-0.parquet": files[PARTS[0]]},
    }
    faults = {PARTS[0]: "flip", PARTS[1]: 503, PARTS[2]: "cut", "data/train-0.parquet": "flips"}
    faults["data/train-00000-of-00001.parquet"] = "flip"  # of SQuAD
    with Hub({"made/up": files, **others}, faults) as server:
        squad2, good, jsonl, wrong, *bad = ask(
            tmp_path,
            server.url,
            ("made/squad", None, "", "main", "tasks"),
            ("made/up", "en", "train", "main"),
            ("made/lines", None, "train", "main"),
            ("made/wrong", None, "train", "main"),
            ("made/up", "en", "train", "f" * 40),
            ("no/such", None, "train", "main"),
            ("made/up", "de", "train", "main"),
        )
        assert set(server.faults) == {"data/train-0.parquet"}, "every other fault was met"
        server.faults |= {PARTS[1]: 503, PARTS[2]: "cut"}
        (streamed,) = ask(tmp_path, server.url, ("made/up", "en", "train", "main", "stream"))
        assert set(server.faults) == {"data/train-0.parquet"}
    assert (good["revision"], good["units"]) == (COMMIT, 3)
    assert good["rows"] == [[row["id"], row["text"]] for rows in texts for row in rows]
    assert streamed["rows"] == good["rows"] and jsonl["rows"] == good["rows"][:20]
    counts = {
        task: {split: facts["rows"] for split, facts in splits.items()}
        for task, splits in squad2["tasks"].items()
    }
    mnli = ("train", "dev", "dev_mismatched", "test", "test_mismatched", "test_diagnostic")
    assert counts == {
        "cola": {"train": 3, "dev": 3, "test": 3},
        "mnli": dict.fromkeys(mnli, 3),
        "squad2": {"train": 6, "dev": 6},
    }
    first = {"id": "0", "a": "A train 0", "b": "B", "label": "entailment"}
    assert json.loads(squad2["first"]) == first
    assert wrong["code"] == 65 and "data/train-0.parquet: arrives with sha256" in wrong["error"]
    place = "corpora.x.sources[0]"
    for error, sentence in zip(
        bad,
        [
            "made/up has no such revision",
            "the hub has no no/such",
            "made/up cannot be used",
        ],
        strict=True,
    ):
        assert error["code"] == 69 and error["error"].startswith(f"{place}: {sentence}")


def test_a_server_that_says_nothing_is_a_sentence(monkeypatch):
    monkeypatch.setattr(hub, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Timer(20, server.close)
        closing.start()
        api = HfApi(f"http://127.0.0.1:{server.getsockname()[1]}")
        with (
            pytest.raises(SourceUnreachable, match=r"^corpora.x: cannot reach the hub .*timed out"),
            hub.reach_hub("made/up", "corpora.x"),
        ):
            api.get_paths_info("made/up", "a")
        closing.cancel()


def drip(server):
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(60):
            connection.sendall(b"a")
            time.sleep(0.05)


def test_a_server_that_sends_headers_too_slowly_is_a_sentence(monkeypatch):
    monkeypatch.setattr(hub, "MINUTE", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(SourceUnreachable, match=r"1: sends \d+ bytes in 0 seconds; check"),
        hub.reach_hub("made/up", "corpora.x"),
    ):
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        HfApi(f"http://127.0.0.1:{server.getsockname()[1]}").dataset_info("made/up")


@pytest.mark.parametrize(
    "status, header, value, sentence",
    [
        (200, "etag", "/tmp/victim", "a: sends the ETag '/tmp/victim', a path"),
        (200, "x-linked-etag", 'W/"../victim"', "a: sends the ETag .*, a path"),
        (302, "location", "HTTP://made.up/", "a: leads to 'HTTP://made.up/', unencrypted"),
        (429, "retry-after", "86400", "a: asks for a wait of 86400 seconds; try"),
        (503, "retry-after", "9" * 5000, "a: asks for a wait of 9{20} seconds; try"),
        (429, "ratelimit", '"api"; r=0; t = 999', "a: asks for a wait of 999 seconds; try"),
    ],
)
def test_an_answer_that_leads_astray_is_a_sentence(status, header, value, sentence):
    request = httpx.Request("HEAD", "https://hub/a")
    answer = httpx.Response(status, headers={header: value}, request=request)
    with pytest.raises(UserError, match=sentence):
        hub.check_answer(answer)


def test_a_stream_that_breaks_is_soon_given_up(monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: None)
    hub._stream(HubCorpus(kind="hub", dataset="made/up", revision="main"))
    assert datasets.config.STREAMING_READ_MAX_RETRIES == 3
    hub._stream.cache_clear()


def test_a_hub_that_names_no_commit_is_a_sentence(monkeypatch):
    for commit in (5, "../.."):
        info = SimpleNamespace(sha=commit)
        monkeypatch.setattr(HfApi, "dataset_info", lambda *_, info=info, **__: info)
        with pytest.raises(
            SourceUnreachable, match=rf"made/up is malformed \(its commit is '?{commit}"
        ):
            hub.resolve("made/up", "main", "corpora.x")


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_by_choice_is_a_sentence_at_once(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    source = HubCorpus(kind="hub", dataset="made/up", revision="main")
    with pytest.raises(SourceUnreachable, match="needs made/up from the hub, but HF_HUB_OFFLINE"):
        hub.resolve("made/up", "main", "corpora.x")
    with pytest.raises(SourceUnreachable, match="unset it"):
        check(source, "corpora.x")
    with pytest.raises(SourceUnreachable):
        check(
            HubTasks(kind="hub", squad1=HubDataset(dataset="made/up", revision="main")), "tasks.x"
        )


@pytest.mark.parametrize(
    "error, sentence",
    [
        (KeyError("id"), r"made/up is malformed .*; check HF_ENDPOINT"),
        (EOFError("it ends in the middle of a stream"), r"made/up has a damaged or empty file"),
        (StopIteration(), r"made/up has a damaged or empty file"),
        (LocalEntryNotFoundError("no connection"), r"cannot reach the hub for made/up"),
    ],
)
def test_an_answer_in_another_form_is_a_sentence(error, sentence):
    with (
        pytest.raises(SourceUnreachable, match=sentence),
        hub.reach_hub("made/up", "corpora.x"),
    ):
        raise error


def test_a_split_that_is_not_there_is_a_sentence(monkeypatch):
    config = SimpleNamespace(data_files={"test": []})
    monkeypatch.setattr(hub, "_builder", lambda source: SimpleNamespace(config=config))
    with pytest.raises(SourceUnreachable, match="its splits are test: set `split`"):
        hub.parts(HubCorpus(kind="hub", dataset="made/up", revision="main"), "corpora.x")


def test_the_parts_of_a_split_are_its_files_with_their_hashes(monkeypatch):
    names = [f"{number}.parquet" for number in range(501)]

    def get_paths_info(repo, paths, **_):
        assert len(paths) <= 500, "the hub's limit"
        return [RepoFile(path=path, size=3, oid=f"blob of {path}") for path in paths]

    data_files = {"train": [f"hf://datasets/made/up@main/{name}" for name in names]}
    config = SimpleNamespace(data_files=data_files)
    monkeypatch.setattr(hub, "_builder", lambda source: SimpleNamespace(config=config))
    api = SimpleNamespace(get_paths_info=get_paths_info)
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: api)
    parts = hub.parts(HubCorpus(kind="hub", dataset="made/up", revision="main"), "corpora.x")
    assert parts == [
        hub.HubFile(number, 501, name, 3, f"git:blob of {name}")
        for number, name in enumerate(names)
    ]


def test_a_server_that_stumbles_is_asked_again_and_one_that_refuses_is_not(
    monkeypatch,
):
    refusal = OSError("404")
    refusal.response = SimpleNamespace(status_code=404)  # type: ignore[attr-defined]
    stumble = OSError("timed out")
    for answers, pauses in (
        ([stumble, stumble, "file"], [1, 2]),
        ([stumble] * 3, [1, 2]),
        ([refusal], []),
        ([FileNotFoundError("a")], []),
    ):
        waited = []
        monkeypatch.setattr("time.sleep", waited.append)
        monkeypatch.setattr("huggingface_hub.hf_hub_download", Mock(side_effect=answers))
        raised = contextlib.nullcontext() if "file" in answers else pytest.raises(OSError)
        with raised:
            assert hub._fetch("made/up", "model", "main", "a", again=False) == Path("file")
        assert waited == pauses


def test_a_model_file_has_the_hash_by_which_the_cache_names_it(tmp_path, monkeypatch):
    vocabulary = b"[PAD]\n[UNK]\n"
    link = tmp_path / "vocab.txt"
    monkeypatch.setattr(hub, "_fetch", lambda *_: link)
    for name in (
        hashlib.sha1(b"blob %d\0" % len(vocabulary) + vocabulary).hexdigest(),
        hashlib.sha256(vocabulary).hexdigest(),
    ):
        (tmp_path / name).write_bytes(vocabulary)
        link.symlink_to(tmp_path / name)
        assert hub.fetch_file("made/up", "vocab.txt", "main", "tokenizers.x") == link
        (tmp_path / name).write_bytes(vocabulary[:-6])
        with pytest.raises(BadInput, match=rf"tokenizers.x/vocab.txt: .* instead of {name}, twice"):
            hub.fetch_file("made/up", "vocab.txt", "main", "tokenizers.x")
        link.unlink()


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_no_network_is_a_sentence_within_seconds(tmp_path):
    (error,) = ask(tmp_path, "http://127.0.0.1:9", ("made/up", None, "train", "main"))
    assert error["code"] == 69
    assert error["error"].startswith("corpora.x.sources[0]: cannot reach the hub for made/up (")
    assert error["error"].endswith(
        "check the network, set HF_ENDPOINT to a mirror, or use a `local` source instead"
    )
