"""The server that flows run on."""

import contextlib
from pathlib import Path

import pytest

from electra.errors import BadConfig


def test_the_server_is_prefect_tomls_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from pipelines import flows

    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    monkeypatch.setattr(flows.socket, "create_connection", lambda *_, **__: contextlib.nullcontext())
    flows.choose_server()
    assert "PREFECT_API_URL" not in os.environ

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(flows.socket, "create_connection", refuse)
    flows.choose_server()
    assert os.environ["PREFECT_API_URL"] == ""
    monkeypatch.delenv("PREFECT_API_URL")


@pytest.mark.parametrize(
    "content", [None, b"[api", b"[api]\nurl = 7", b"[apj]\n", b"api = 1", b"\xff", b'[api]\nurl = "http://a:b/api"\n']
)
def test_a_damaged_prefect_toml_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    from pipelines import flows

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(flows, "ROOT", tmp_path)
    if content is not None:
        (tmp_path / "prefect.toml").write_bytes(content)
    with pytest.raises(BadConfig, match=r"prefect\.toml: names no server"):
        flows.choose_server()
