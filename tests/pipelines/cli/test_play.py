"""`electra play`: how it marks words and answers, where it listens, and its page in a browser
without a network.
"""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import gradio
import numpy as np
import pytest

from electra.data import tokenizer as tokenizers
from electra.errors import BadInput
from electra.files import read_jsonl, write_jsonl
from electra.finetuning.tasks import TASKS
from electra.inference import ReplacedTokens
from electra.nn.config import BertConfig
from electra.nn.factory import fresh_encoder
from electra.nn.hf_names import config_json
from electra.nn.huggingface import encoder_tensors, write_folder
from pipelines.cli import play_page
from tests.browser import DESKTOP, PHONE, browser, needs_browser
from tests.conftest import ROOT, environment
from tests.electra.made_up_models import CHUNKS
from tests.pipelines.cli.play_checkout import TEXT, checkout  # noqa: F401

EMOJI = "🙂🙂 Привет, мир! 你好 café naïve ❤️"


def judge(text, *suspected, length=99):
    """Return a text as a discriminator with some length would that suspects some words."""
    places = [word.span() for word in re.finditer(r"\w+|[^\w\s]+", text)][:length]
    words = [text[start:end] for start, end in places]
    shares = np.array([float(word in suspected) for word in words], np.float32)
    return ReplacedTokens(text, words, np.array(places, int).reshape(-1, 2), shares)


def test_words_are_caught_missed_or_false_alarms():
    marked = play_page.mark_words(
        judge("the chef ate the meal", "ate", "meal"), np.array([(4, 8), (9, 12)])
    )
    assert [part for part in marked if part[1]] == [
        ("chef", "missed"),
        ("ate", "caught"),
        ("meal", "false alarm"),
    ]
    assert play_page.mark_words(judge("the chef ate", "ate"))[-1] == ("ate", "suspected")
    assert play_page.mark_words(judge("one two three four", length=2))[-1] == (
        " three four",
        "not read",
    )


@pytest.mark.parametrize("text", [EMOJI, "a\n\n  b ", "", "<b>&amp;</b>"])
def test_marked_parts_are_the_whole_text(text):
    marked = play_page.mark_words(judge(text, "Привет", "naïve"))
    assert "".join(part for part, _ in marked) == text
    assert [part for part, mark in marked if mark] == (["Привет", "naïve"] if text == EMOJI else [])


@pytest.mark.parametrize(
    "task, answer, row, mark",
    [
        (
            "squad2",
            {"prediction": "corn"},
            {"answers": [{"text": "bread"}, {"text": "corn"}]},
            "right",
        ),
        ("squad2", {"prediction": ""}, {"answers": []}, "right"),
        ("squad2", {"prediction": "corn"}, {"answers": []}, "wrong"),
        ("cola", {"prediction": "1"}, {"label": "1"}, "right"),
        ("stsb", {"prediction": 2.4}, {"label": 3.0}, "right"),
        ("stsb", {"prediction": 1.4}, {"label": 3.0}, "wrong"),
        ("cola", {"prediction": "1"}, None, "answer"),
    ],
)
def test_an_answer_is_marked_right_or_wrong(task, answer, row, mark):
    if row is not None:
        row = {"a": "", "b": None, "question": "", "context": ""} | row
    assert play_page.show_answer(TASKS[task], ["", ""], answer, row)[0][1] == mark


def test_an_answer_is_shown_in_its_context_and_a_tag_at_its_word():
    context = "🙂 a corn b"
    answer = {"prediction": "corn", "start": context.index("corn"), "n_best": [{}]}
    marked = play_page.show_answer(TASKS["squad2"], ["what?", context], answer, None)
    assert marked[1:] == [("\n\n🙂 a ", None), ("corn", "answer"), (" b", None)]
    tagged = {"words": ["a", "cat"], "tags": ["O", "I-NP"]}
    marked = play_page.show_answer(CHUNKS, ["a cat"], tagged, None)
    assert marked[1:] == [("\n\n", None), ("a ", None), ("cat ", "I-NP")]


@contextlib.contextmanager
def playing(folder, *words):
    """Run `electra play` on a free port, and give its address."""
    command = [sys.executable, "-m", "pipelines", "play", *words, "--port", "0"]
    out = error = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment(ROOT), stdout=out, stderr=error, text=True
    ) as process:
        try:
            line = process.stdout.readline()
            address = re.search(r"http://\S+/", line)
            assert address, line + process.stderr.read()
            yield process, address[0]
        finally:
            process.kill()


def test_it_listens_to_this_machine_and_ends_clean(checkout):  # noqa: F811
    with playing(checkout, "smoke") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        rebound = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(rebound)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_a_mistake_on_the_page_is_a_sentence():
    with pytest.raises(gradio.Error, match="a: no") as caught, play_page.explain():
        raise BadInput("a: no")
    assert not caught.value.print_exception


def test_a_folder_with_neither_head_is_refused(tmp_path):
    words = tokenizers.train_wordpiece(["the old miller keeps a grey cat"] * 3, 60)
    encoder = fresh_encoder(
        BertConfig(layers=1, hidden=16, heads=2, ffn=32, embedding=16), words.vocab_size, 1
    )
    tokenizers.save(words, tmp_path / "words")
    files = {path.name: path.read_text() for path in (tmp_path / "words").iterdir()}
    config = config_json(encoder.config, words.vocab_size, "ElectraModel")
    write_folder(tmp_path / "encoder", encoder_tensors(encoder), config, files, "")
    with pytest.raises(BadInput, match="has no discriminator or generator"):
        play_page.make_app([tmp_path / "encoder"], tmp_path)


def test_what_cannot_be_served(checkout, monkeypatch, refuse):  # noqa: F811
    monkeypatch.chdir(checkout)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, code, sentence in (
            (("base",), 65, "run dvc repro pipelines/dvc.yaml:pretrain@base"),
            (
                ("smoke", "--port", port),
                73,
                f"127.0.0.1:{port}: Address already in use; give another --port",
            ),
            (("theirs",), 65, "run dvc repro pipelines/dvc.yaml:published@theirs"),
            (("nobody",), 64, "nobody"),
        ):
            assert sentence in refuse(code, "play", *words)


@needs_browser
@pytest.mark.slow
def test_the_page_in_a_browser_without_a_network(checkout, tmp_path):  # noqa: F811
    with playing(checkout, "made") as (_, address), browser(tmp_path) as tab:
        for size, dark in ((PHONE, True), (DESKTOP, False)):
            tab.open(address, size, dark=dark)
            tab.wait("document.querySelector('.marked .label')")
            words = tab.run("document.querySelector('.marked').innerText").lower()
            assert "caught" in words or "missed" in words, words
            write = WRITE % json.dumps(f"{EMOJI} {TEXT} " + "word " * 600)
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
def test_a_task_opens_with_an_example_that_is_answered_correctly(
    checkout,  # noqa: F811
    tmp_path,
):
    rows = checkout / "build/tasks/smoke/rte/dev.jsonl"
    (row,) = read_jsonl(rows)
    other = {**row, "id": "2", "label": "entailment", "a": "the cat is red too."}
    text = rows.read_text()
    write_jsonl(rows, [other, row])
    try:
        with playing(checkout, "smoke") as (_, address), browser(tmp_path) as tab:
            tab.open(address, PHONE)
            tab.wait(TAB % repr("Tasks"))
            tab.wait("/right/i.test(document.body.innerText)", f"({TAB % repr('Tasks')}).click()")
            assert tab.said == []
    finally:
        rows.write_text(text)


WRITE = """(text => {
  const field = document.querySelector('textarea');
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(field, text);
  field.dispatchEvent(new Event('input', {bubbles: true}));
})(%s)"""
PRESS = "[...document.querySelectorAll('button')].find(e => e.innerText.trim() === %s && e.offsetParent).click()"
TAB = "[...document.querySelectorAll('[role=tab]')].find(e => e.innerText.trim() === %s)"
