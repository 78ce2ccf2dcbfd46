"""What the page is answered is what the library says, and whoever asks wrongly or from elsewhere gets a sentence."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import electra
from pipelines.commands.play import server
from pipelines.commands.play.model_registry import ModelRegistry
from tests.pipelines.commands.play.conftest import CONTEXT, TEXT

HERE = "http://127.0.0.1:8008"


@pytest.fixture(scope="module")
def registry(checkout: Path) -> ModelRegistry:
    return ModelRegistry.open(str(checkout / "made"))


def serving(registry: ModelRegistry, **more: Any) -> TestClient:
    return TestClient(server.application(registry, ("127.0.0.1", "localhost", "[::1]", "::1")), base_url=HERE, **more)


@pytest.fixture(scope="module")
def client(registry: ModelRegistry) -> TestClient:
    return serving(registry)


def ask(client: TestClient, question: str, **body: Any) -> dict[str, Any]:
    reply = client.post(f"/{question}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_text_is_judged_as_the_library_does(client: TestClient, checkout: Path) -> None:
    (judged,) = electra.load(checkout / "made/discriminator").replaced([TEXT])
    found = ask(client, "read", text=TEXT)
    assert found["text"] == TEXT and found["masks"] == []
    assert [[each["start"], each["end"]] for each in found["tokens"]] == judged.offsets.tolist()
    np.testing.assert_allclose([each["share"] for each in found["tokens"]], judged.probability, atol=1e-6)
    assert not any(each["filled"] for each in found["tokens"])
    assert ask(client, "read", text="")["tokens"] == []


def test_hidden_words_are_filled_one_after_the_other(client: TestClient, checkout: Path) -> None:
    generator = electra.load(checkout / "made/generator")
    text = "The [MASK] cooked a [MASK], and the cat ate."
    first, _ = electra.propose(text, generator)
    (second,) = electra.propose(first.texts[0], generator)
    found = ask(client, "read", text=text)
    assert found["text"] == second.texts[0]
    for mask, expected in zip(found["masks"], (first, second), strict=True):
        assert [piece for piece, _ in mask["shares"]] == expected.pieces
    assert not any(each.get("new") for each in found["tokens"])
    filled = [found["text"][each["start"] : each["end"]] for each in found["tokens"] if each["filled"]]
    assert filled == [each.pieces[0].removeprefix("##") for each in (first, second)]


def test_proposals_for_a_token(client: TestClient, checkout: Path) -> None:
    (expected,) = electra.propose(TEXT, checkout / "made/generator", hide=[4])
    found = ask(client, "propose", text=TEXT, token=4)
    assert found["texts"] == expected.texts and found["original"] == pytest.approx(expected.original)
    assert [piece for piece, _ in found["shares"]] == expected.pieces


def test_what_the_generator_replaced_is_marked(client: TestClient, checkout: Path) -> None:
    replaced = 0
    for seed in range(5):
        expected = electra.corrupt(TEXT, checkout / "made/generator", mask_rate=0.4, seed=seed)
        found = ask(client, "corrupt", text=TEXT, rate=0.4, seed=seed)
        assert found["text"] == expected.text
        assert all(("was" in each) == each["new"] for each in found["tokens"])
        now = {(each["start"], each["end"]): each["was"] for each in found["tokens"] if each["new"]}
        for place, old, new in zip(expected.places, expected.offsets, expected.replaced, strict=True):
            if new and tuple(place) in now:  # a piece written to a word may be read as other pieces
                assert TEXT[slice(*old)] in now[tuple(place)]
                replaced += 1
    assert replaced > 5


def test_hidden_words_are_filled_before_others_are_replaced(client: TestClient, checkout: Path) -> None:
    hidden = TEXT.replace("chef", "[MASK]")
    filled = ask(client, "read", text=hidden)["text"]
    expected = electra.corrupt(filled, checkout / "made/generator", mask_rate=0.4, seed=1).text
    assert ask(client, "corrupt", text=hidden, rate=0.4, seed=1)["text"] == expected


def test_every_kind_of_fine_tuned_model_can_be_asked(client: TestClient, checkout: Path) -> None:
    assert client.get("/models").json() == {
        "name": "made",
        "data": "",
        "texts": [],
        "commands": [],
        "tasks": ["chunks", "cola", "mood", "rte", "squad2", "stsb"],
        "discriminator": True,
        "generator": True,
    }
    rows = {
        "chunks": ("words", {"tokens": "the cat ate"}),
        "cola": ("classes", {"sentence": "the cat ate"}),
        "mood": ("classes", {"body": "the cat ate"}),
        "rte": ("classes", {"sentence1": "the cat ate", "sentence2": "the dog"}),
        "squad2": ("question", {"question": "what does Mopol eat?", "context": CONTEXT}),
        "stsb": ("number", {"sentence1": "the cat ate", "sentence2": "the dog"}),
    }
    for task, (kind, row) in rows.items():
        about = ask(client, "task", task=task)
        assert (about["kind"], about["fields"], about["examples"]) == (kind, list(row), [])
        texts = row if kind == "question" else row["tokens"] if kind == "words" else list(row.values())
        (expected,) = electra.load(checkout / "made" / task).predict([texts])
        assert ask(client, "ask", task=task, row=row) == json.loads(json.dumps(expected))
    assert ask(client, "task", task="cola")["labels"] == {"0": "unacceptable", "1": "acceptable"}


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("question", "content", "headers", "status", "sentence"),
    [
        ("read", b'{"text": "a"}', {"content-type": "text/plain"}, 415, "content-type: expected application/json"),
        ("read", b"{", JSON, 400, "the request is no JSON"),
        ("read", b"[1]", JSON, 400, "the request is [1]; expected a JSON object"),
        ("read", b"{}", JSON, 400, "text: is None; expected text"),
        ("read", b'{"text": "\\ud800"}', JSON, 400, "text: is '\\ud800'; expected text"),
        ("read", b'{"text": "' + b"a" * 70_000 + b'"}', JSON, 413, "the request has more than 65,536 bytes; shorten the text"),  # noqa: E501
        ("read", b'{"text": "' + b"[MASK]" * 21 + b'"}', JSON, 400, "text: has 21 times [MASK]; expected at most 20"),
        ("propose", b'{"text": "a", "token": 1}', JSON, 400, "hide: has 1; expected numbers of tokens, 0 to 0"),
        ("corrupt", b'{"text": "a", "rate": 2}', JSON, 400, "corrupt.mask_rate: is 2"),
        ("corrupt", b'{"text": "a", "seed": 1e400}', JSON, 400, "seed: is inf; expected a whole number"),
        ("task", b'{"task": "../rte"}', JSON, 400, "task: is '../rte'; expected one of chunks, cola"),
        ("ask", b'{"task": "rte", "row": {"b": 1}}', JSON, 400, "row: has b; expected the columns sentence1"),
        ("nowhere", b"{}", JSON, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_is_refused(client, question, content, headers, status, sentence):
    reply = client.post(f"/{question}", content=content, headers=headers)
    assert reply.status_code == status
    assert reply.json()["error"].startswith(sentence)
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_client_that_leaves_is_no_bug(client: TestClient) -> None:
    """Starlette raises a bug again after it is answered, for the terminal."""
    headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "POST", "path": "/read", "headers": headers, "query_string": b""}
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        pass

    asyncio.run(client.app({**scope, "root_path": "", "http_version": "1.1"}, receive, send))


def test_only_requests_to_this_machine_are_answered(client: TestClient) -> None:
    for host in ("evil.example", "evil.example:8008", "127.0.0.1.evil.example", "169.254.0.1", ""):
        for reply in (
            client.get("/", headers={"host": host}),
            client.post("/read", json={"text": "a"}, headers={"host": host}),
        ):
            assert reply.status_code == 400 and "Invalid host" in reply.text
    for host in ("127.0.0.1:8008", "localhost:1", "[::1]:8008", "LOCALHOST"):
        assert client.get("/", headers={"host": host}).status_code == 200, host


def test_the_files_of_the_page_are_served_and_no_others(client: TestClient) -> None:
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        reply = client.get(path)
        assert reply.status_code == 200 and reply.headers["content-type"].startswith(kind)
        assert "http://" not in reply.text and "https://" not in reply.text
        assert not {"'unsafe-inline'", "'unsafe-eval'"} & set(reply.headers["content-security-policy"].split())
    for path in ("/server.py", "/../server.py", "/%2e%2e/params.yaml", "/docs"):
        assert client.get(path).status_code == 404


def test_a_bug_is_no_silence(registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(registry: ModelRegistry, body: dict[str, Any]) -> None:
        raise RuntimeError("made up")

    broken.__name__ = "read"
    monkeypatch.setattr(server, "read", broken)
    reply = serving(registry, raise_server_exceptions=False).post("/read", json={"text": "a"})
    assert reply.status_code == 500 and "the terminal" in reply.json()["error"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_without_one_of_the_two(checkout: Path) -> None:
    judge, writer = (
        serving(ModelRegistry.open(str(checkout / "made" / kind))) for kind in ("discriminator", "generator")
    )
    assert len(ask(judge, "read", text=TEXT)["tokens"]) > 8
    reply = judge.post("/read", json={"text": "a [MASK]"})
    assert reply.status_code == 400 and reply.json()["error"].startswith("discriminator: has no generator; expected")
    assert {each["share"] for each in ask(writer, "read", text=TEXT)["tokens"]} == {None}
    assert ask(writer, "propose", text=TEXT, token=1)["shares"]
