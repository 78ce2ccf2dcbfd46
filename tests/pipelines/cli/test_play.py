"""`electra play`: how it marks words and answers, where it listens, and its page in a browser
without a network.
"""

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from fastapi.testclient import TestClient

from electra.errors import BadInput
from electra.files import write_json, write_jsonl
from electra.finetuning.tasks import TASKS
from electra.inference import ReplacedTokens
from tests.support.browser import DESKTOP, PHONE, browser, needs_browser
from tests.support.models import CHUNKS, write_finetuned, write_pretrained
from tests.support.project import ROOT, SMOKE, environment

EMOJI = "🙂🙂 Привет, мир! 你好 café naïve ❤️"


@pytest.fixture
def page():
    """The module; it imports Gradio, which takes seconds, in whichever process needs it."""
    from pipelines.cli import play_page

    return play_page


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout after the demo, as far as models go; `made` has a fine-tuned model of each kind."""
    root = tmp_path_factory.mktemp("checkout")
    params = SMOKE.replace("published: {}", "published: {theirs: {folder: x}}")
    (root / "params.yaml").write_text(params)
    models = root / "build/models/smoke"
    write_pretrained(models)
    shutil.copytree(models, root / "made")
    write_finetuned(root / "made")
    pieces = ["[CLS]", "the", "cat", ",", "##s", "[SEP]"]
    write_json(models / "examples.json", [{"original": pieces, "tokens": pieces}])
    shutil.copytree(root / "made/rte", root / "build/glue/smoke/rte/pretrained-seed1")
    rows = [
        {"id": "1", "a": "the cat is red too.", "b": "the cat is black.", "label": "entailment"},
        {"id": "2", "a": "the cat is red.", "b": "the cat is black.", "label": "not_entailment"},
    ]
    write_jsonl(root / "build/tasks/smoke/rte/dev.jsonl", rows)
    return root


def judge(text, *suspected, length=99):
    """Return a text as a discriminator with some length would that suspects some words."""
    places = [word.span() for word in re.finditer(r"\w+|[^\w\s]+", text)][:length]
    words = [text[start:end] for start, end in places]
    shares = np.array([float(word in suspected) for word in words], np.float32)
    return ReplacedTokens(text, words, np.array(places, int).reshape(-1, 2), shares)


def test_words_are_caught_missed_or_false_alarms(page):
    judged = judge("the chef ate the meal", "ate", "meal")
    assert page.mark_words(judged, np.array([(4, 8), (9, 12)]))[2::2] == [
        ("chef", "missed"),
        ("ate", "caught"),
        ("the", None),
        ("meal", "false alarm"),
    ]
    assert page.mark_words(judge("the chef ate", "ate"))[-1] == ("ate", "suspected")
    shortened = judge("one two three four", length=2)
    assert page.mark_words(shortened)[-1] == (" three four", "not read")


@pytest.mark.parametrize("text", [EMOJI, "a\n\n  b ", "", "<b>&amp;</b>"])
def test_marked_parts_are_the_whole_text(page, text):
    marked = page.mark_words(judge(text, "Привет", "naïve"))
    assert "".join(part for part, _ in marked) == text
    assert [part for part, mark in marked if mark] == (["Привет", "naïve"] if text == EMOJI else [])


@pytest.mark.parametrize(
    "task, prediction, row, mark",
    [
        ("squad2", "corn", {"answers": [{"text": "bread"}, {"text": "corn"}]}, "right"),
        ("squad2", "", {"answers": []}, "right"),
        ("squad2", "corn", {"answers": []}, "wrong"),
        ("cola", "1", {"label": "1"}, "right"),
        ("stsb", 2.0, {"label": 3.0}, "right"),
        ("stsb", 1.4, {"label": 3.0}, "wrong"),
        ("cola", "1", None, "answer"),
    ],
)
def test_an_answer_is_marked_right_or_wrong(page, task, prediction, row, mark):
    if row is not None:
        row = {"a": "", "b": None, "question": "", "context": ""} | row
    marked = page.show_answer(TASKS[task], ["", ""], {"prediction": prediction}, row)
    assert marked[0][1] == mark


def test_an_answer_is_shown_in_its_context_and_a_tag_at_its_word(page):
    context = "🙂 a corn b"
    answer = {"prediction": "corn", "start": context.index("corn"), "n_best": [{}]}
    marked = page.show_answer(TASKS["squad2"], ["what?", context], answer, None)
    assert marked[1:] == [("\n\n🙂 a ", None), ("corn", "answer"), (" b", None)]
    tagged = {"words": ["a", "cat"], "tags": ["O", "I-NP"]}
    marked = page.show_answer(CHUNKS, ["a cat"], tagged, None)
    assert marked[1:] == [("\n\n", None), ("a ", None), ("cat ", "I-NP")]


@contextlib.contextmanager
def playing(folder, name):
    """Run `electra play` on a free port, and give its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "pipelines", "play", name, "--port", "0"],
        cwd=folder,
        env=environment(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            address = re.search(r"http://\S+/", line)
            assert address, line + process.stderr.read()
            yield process, address[0]
        finally:
            process.kill()


def test_it_listens_to_this_machine_and_ends_clean(checkout):
    with playing(checkout, "smoke") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        rebound = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(rebound)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_a_mistake_on_the_page_is_a_sentence(page):
    with pytest.raises(page.gr.Error, match="a: no") as caught, page.explain():
        raise BadInput("a: no")
    assert not caught.value.print_exception


@pytest.mark.parametrize("part", ["discriminator", "generator"])
def test_the_page_opens_with_one_network_alone(page, checkout, part):
    app = page.make_app([checkout / "made" / part], checkout)
    with TestClient(app, "http://127.0.0.1") as client:
        parts = client.get("/config").json()["components"]
    assert [each["props"]["maximum"] for each in parts if each["type"] == "slider"] == [0.5]


def test_what_cannot_be_served(checkout, monkeypatch, refuse):
    monkeypatch.chdir(checkout)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, code, sentence in (
            ("base", 65, "run dvc repro pipelines/dvc.yaml:pretrain@base"),
            (f"smoke --port {port}", 73, f"{port}: Address already in use; give another --port"),
            ("theirs", 65, "run dvc repro pipelines/dvc.yaml:published@theirs"),
            ("nobody", 64, "nobody"),
            ("made/encoder --port 0", 65, "made/encoder: has no discriminator or generator"),
        ):
            assert sentence in refuse(code, f"play {words}")


@needs_browser
@pytest.mark.slow
def test_the_page_in_a_browser_without_a_network(checkout, tmp_path):
    with playing(checkout, "made") as (_, address), browser(tmp_path) as tab:
        for size, dark in ((PHONE, True), (DESKTOP, False)):
            tab.open(address, size, dark=dark)
            tab.wait("document.querySelector('.marked .label')")
            words = tab.run("document.querySelector('.marked').innerText").lower()
            assert "caught" in words or "missed" in words, words
            write = WRITE % json.dumps(f"{EMOJI} the cat ate bread. " + "word " * 600)
            tab.wait(
                "document.querySelector('.marked').innerText.toLowerCase().includes('not read')",
                f"{write}; {PRESS % repr('Detect')}",
            )
            text = tab.run(
                "[...document.querySelectorAll('.marked .text')].map(e => e.textContent).join('')"
            )
            assert text.startswith(EMOJI), text[:99]
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), (
                "no sideways scrolling"
            )
            assert tab.run("document.querySelector('.marked').clientHeight < 500"), (
                "a long text scrolls in its box"
            )
        tab.wait("document.body.innerText.includes('Predict')", f"({TAB % repr('Tasks')}).click()")
        assert tab.said == []
        assert {
            url for url in tab.asked if not url.startswith((address, "data:", "blob:"))
        } == set()


@needs_browser
@pytest.mark.slow
def test_a_task_opens_with_an_example_that_is_answered_correctly(checkout, tmp_path):
    with playing(checkout, "smoke") as (_, address), browser(tmp_path) as tab:
        tab.open(address, PHONE)
        tab.wait(TAB % repr("Tasks"))
        tab.wait("/right/i.test(document.body.innerText)", f"({TAB % repr('Tasks')}).click()")
        assert tab.said == []


WRITE = """(text => {
  const field = document.querySelector('textarea');
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(field, text);
  field.dispatchEvent(new Event('input', {bubbles: true}));
})(%s)"""
PRESS = "[...document.querySelectorAll('button')].find(e => e.innerText.trim() === %s && e.offsetParent).click()"
TAB = "[...document.querySelectorAll('[role=tab]')].find(e => e.innerText.trim() === %s)"
