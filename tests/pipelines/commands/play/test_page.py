"""The page in a real browser, on a desk and on a phone: typed into, clicked, and looked at for what must not happen."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import DESKTOP, PHONE, Tab, browser, needs_browser
from tests.pipelines.commands.play.conftest import CONTEXT, TEXT
from tests.pipelines.commands.play.test_init import playing

pytestmark = [needs_browser, pytest.mark.slow]
SHOWN = "[...document.querySelectorAll('#tokens button')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def address(checkout: Path) -> Iterator[str]:
    with playing(checkout, "smoke") as (_, address):
        yield address


@pytest.fixture(scope="module")
def made(checkout: Path) -> Iterator[str]:
    with playing(checkout, "made") as (_, address):
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(window: Tab) -> Iterator[Tab]:
    """A tab in which nothing may go wrong and nothing be asked of any other machine."""
    window.said.clear()
    window.asked.clear()
    yield window
    assert window.said == []
    assert not [url for url in window.asked if not url.startswith(("http://127.0.0.1:", "data:"))]


def text(tab: Tab, selector: str) -> str:
    return tab.run(f"document.querySelector({json.dumps(selector)}).innerText")


def choose(tab: Tab, task: str) -> None:
    tab.run(f"document.querySelector('#task').value = '{task}'")
    tab.run("document.querySelector('#task').dispatchEvent(new Event('change'))")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_text_is_judged_while_it_is_typed(tab: Tab, address: str, size: tuple[int, int], dark: bool) -> None:
    tab.open(address, size, dark=dark)
    tab.wait(f"{SHOWN}.join('') === 'thecat,s'")  # the example from pre-training
    tab.type("#text", TEXT)
    tab.wait(f"{SHOWN}.join('') === {json.dumps(TEXT.replace(' ', ''))}")
    assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    light = tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light is not dark
    assert tab.run("[...document.querySelectorAll('button, select, textarea')].every(e => e.offsetWidth <= innerWidth)")


def test_a_proposal_is_picked_and_written(tab: Tab, address: str) -> None:
    tab.open(address)
    tab.wait(f"{SHOWN}.length")
    tab.type("#text", TEXT)
    tab.wait(f"{SHOWN}.length > 8")
    tab.click("#tokens [data-token='1']")
    tab.wait("document.querySelectorAll('#bars button').length === 10")
    assert text(tab, "#proposals-title") == "Instead of “chef”"
    piece = text(tab, "#bars button span").removeprefix("##")
    tab.click("#bars button")
    tab.wait("!document.querySelector('#bars button')")
    written = tab.run("document.querySelector('#text').value")
    assert written.replace(" ", "").startswith(f"The{piece}cooked")
    assert "".join(tab.run(SHOWN)) == written.replace(" ", "")


def test_masks_are_filled_and_words_replaced(tab: Tab, address: str) -> None:
    tab.open(address, PHONE)
    tab.wait(f"{SHOWN}.length")
    tab.type("#text", TEXT.replace("chef", "[MASK]"))
    tab.wait("document.querySelectorAll('#bars .bar').length === 10")
    assert tab.run("document.querySelectorAll('#tokens .filled').length") == 1
    assert not tab.run("document.querySelectorAll('#tokens .caught, #tokens .missed').length")
    tab.type("#text", TEXT)
    tab.wait("!document.querySelector('#bars .bar')")
    tab.run("document.querySelector('#rate').value = '0.5'")
    tab.click("#corrupt")
    tab.wait("document.querySelector('#tokens ruby rt')")
    assert tab.run("document.querySelectorAll('#tokens .caught, #tokens .missed').length") >= 1


def test_fine_tuned_models_are_asked(tab: Tab, address: str) -> None:
    tab.open(address, PHONE)
    tab.wait("document.querySelector('#answer .bar')")
    assert tab.run("document.querySelector('#task').value") == "SQuAD 2.0"
    assert tab.run("document.querySelector('#field-1').value") == CONTEXT
    assert "wanted: corn" in text(tab, "#answer")
    tab.type("#field-0", "what is near?")
    tab.click("#ask .first")
    tab.wait("!document.querySelector('#answer').innerText.includes('wanted')")
    choose(tab, "RTE")
    tab.wait("document.querySelector('#answer').innerText.includes('wanted: not entailed')")
    assert tab.run("document.querySelectorAll('#answer .bar').length") == 2


def test_every_kind_of_answer_is_shown(tab: Tab, made: str) -> None:
    tab.open(made)
    for task, fields, shown in (
        ("chunks", ["the cat ate"], "#answer .tags span"),
        ("stsb", ["the cat ate", "the dog"], "#answer .said"),
        ("mood", ["the cat ate"], "#answer .bar"),
        ("squad2", ["what does Mopol eat?", "😀 " + CONTEXT], "#answer mark"),
    ):
        tab.wait(f"[...document.querySelectorAll('#task option')].some(each => each.value === '{task}')")
        choose(tab, task)
        tab.wait(f"document.querySelectorAll('#fields textarea').length === {len(fields)}")
        tab.wait("document.querySelector('#answer .muted')")
        for place, value in enumerate(fields):
            tab.type(f"#field-{place}", value)
        tab.click("#ask .first")
        tab.wait(f"document.querySelector({json.dumps(shown)})")
    assert text(tab, "#answer mark") in CONTEXT
    assert text(tab, "#answer mark") in tab.run("document.querySelector('#field-1').value")


def test_a_text_is_never_taken_for_html_and_a_mistake_is_told(tab: Tab, address: str) -> None:
    tab.open(address)
    tab.wait(f"{SHOWN}.length")
    tab.type("#text", "<img src=x onerror=document.title='broken'> the cat")
    tab.wait(f"{SHOWN}.includes('>')")
    tab.click("#tokens [data-token='0']")
    tab.wait("document.querySelector('#bars .bar')")
    assert tab.run("document.querySelector('main img')") is None and "broken" not in tab.run("document.title")
    tab.type("#text", "[MASK] " * 21)
    tab.wait("!document.querySelector('#error').hidden")
    assert text(tab, "#error") == "text: has 21 times [MASK]; expected at most 20"
    tab.type("#text", "the cat")
    tab.wait("document.querySelector('#error').hidden")
    tab.said.clear()  # the browser notes the 400
