"""`electra play`: what it shows of a model, where it listens, and the page in a real browser without a network."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from electra.inference import Judged
from pipelines.cli import main, play
from tests.browser import PHONE, browser, needs_browser
from tests.conftest import ROOT, environment
from tests.pipelines.cli.play_checkout import TEXT, checkout  # noqa: F401

SURROGATES = "🙂🙂 Привет, мир! 你好 café naïve"


class Suspicious:
    """A discriminator that suspects some words, by their text."""

    def __init__(self, *words: str, length: int = 99) -> None:
        self.words, self.length = words, length

    def replaced(self, texts: list[str]) -> list[Judged]:
        (text,) = texts
        places = [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)][: self.length]
        shares = np.array([float(text[slice(*place)] in self.words) for place in places], np.float32)
        return [Judged(text, [text[slice(*place)] for place in places], np.array(places), shares)]


def pair(*words: str, length: int = 99) -> play.Pair:
    return play.Pair(Suspicious(*words, length=length), None)  # type: ignore[arg-type]


def test_words_are_caught_missed_or_false_alarms() -> None:
    marked = pair("ate", "meal").judge("the chef ate the meal", [(4, 8), (9, 12)])
    assert [part for part in marked if part[1]] == [("chef", "missed"), ("ate", "caught"), ("meal", "false alarm")]
    assert pair("ate").judge("the chef ate")[-1] == ("ate", "suspected")


@pytest.mark.parametrize("text", [SURROGATES, "a\n\n  b ", "", "<b>&amp;</b>"])
def test_the_parts_of_a_text_are_the_text(text: str) -> None:
    assert "".join(part for part, _ in pair("Привет", "naïve").judge(text)) == text


def test_characters_outside_the_bmp_move_no_mark() -> None:
    marked = pair("Привет", "naïve").judge(SURROGATES)
    assert [part for part, mark in marked if mark] == ["Привет", "naïve"]


def test_what_is_beyond_the_models_length_is_not_read() -> None:
    assert pair(length=2).judge("one two three four")[-1] == (" three four", "not read")


@pytest.mark.parametrize(
    ("found", "row", "right"),
    [
        ({"prediction": "Corn"}, {"answers": [{"text": "bread"}, {"text": "corn"}]}, True),
        ({"prediction": ""}, {"answers": []}, True),
        ({"prediction": "corn"}, {"answers": []}, False),
        ({"prediction": "1"}, {"label": "1"}, True),
        ({"prediction": 2.4}, {"label": 3.0}, True),
        ({"prediction": 1.4}, {"label": 3.0}, False),
        ({"tags": ["O"]}, {"tags": ["B-X"]}, False),
    ],
)
def test_an_answer_is_right_or_wrong(found: dict, row: dict, right: bool) -> None:
    assert play.is_right(found, row) is right


def test_a_task_begins_with_examples_that_are_answered_correctly(checkout: Path, monkeypatch) -> None:  # noqa: F811
    monkeypatch.chdir(checkout)
    rows = checkout / "build/tasks/smoke/rte/dev.jsonl"
    label = rows.read_text()
    other = label.replace('"not_entailment"', '"entailment"').replace('"1"', '"2"', 1)
    rows.write_text(label + other)
    try:
        tuned = play.find_models("smoke")[2]["RTE"]
        assert tuned.folder.name == "pretrained-seed2", "the lowest seed"
        right = [play.is_right(tuned.answer([row])[0], row) for _, row in tuned.examples]
        assert right == [True, False]
    finally:
        rows.write_text(label)


@contextlib.contextmanager
def playing(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`electra play` on a free port, and its address."""
    command = [sys.executable, "-m", "pipelines", "play", *words, "--port", "0"]
    where = environment(ROOT)
    with subprocess.Popen(
        command, cwd=folder, env=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+/", line)
            assert found, line + process.stderr.read()
            yield process, found[0]
        finally:
            process.kill()


def test_it_listens_to_this_machine_and_ends_clean(checkout: Path) -> None:  # noqa: F811
    with playing(checkout, "smoke") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        rebound = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(rebound)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_what_cannot_be_served(checkout: Path, monkeypatch, capsys) -> None:  # noqa: F811
    monkeypatch.chdir(checkout)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, code, sentence in (
            (("base",), 65, "run dvc repro pipelines/dvc.yaml:pretrain@base"),
            (("smoke", "--port", port), 73, f"127.0.0.1:{port}: Address already in use; give another --port"),
            (("nobody",), 64, "nobody"),
        ):
            assert main(["play", *words]) == code
            said = capsys.readouterr().err
            assert sentence in said and said.count("\n") == 1


@needs_browser
@pytest.mark.slow
def test_the_page_in_a_browser_without_a_network(checkout: Path, tmp_path: Path) -> None:  # noqa: F811
    with playing(checkout, "smoke") as (_, address), browser(tmp_path) as tab:
        for size, dark in ((PHONE, True), ((1280, 800), False)):
            tab.open(address, size, dark=dark)
            tab.wait("document.querySelectorAll('.scrolls .token').length", 60)
            tab.run(WRITE % repr(f"{SURROGATES} {TEXT} " + "word " * 600))
            tab.run(PRESS % "'Detect'")
            tab.wait("[...document.querySelectorAll('.scrolls .token')].some(e => e.innerText.includes('not read'))")
            said = tab.run(
                "[...document.querySelectorAll('.scrolls .token .text')].map(e => e.textContent).join('')"
            )
            assert said.startswith(SURROGATES), said[:99]
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling"
            assert tab.run("document.querySelector('.scrolls').clientHeight < 500"), "a long text scrolls in its box"
        tab.run("document.querySelector('.scrolls .token').click()")
        tab.wait("document.querySelector('[data-testid$=-confidence-bar], .confidence-set')", 60)
        tab.run(PRESS % "'Tasks'")
        tab.wait("document.body.innerText.match(/correct|wrong/i)")
        assert tab.said == []
        assert {url for url in tab.asked if not url.startswith((address, "data:", "blob:"))} == set()


WRITE = """(text => {
  const field = document.querySelector('textarea');
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(field, text);
  field.dispatchEvent(new Event('input', {bubbles: true}));
})(%s)"""
PRESS = "[...document.querySelectorAll('button')].find(e => e.innerText.trim() === %s).click()"
