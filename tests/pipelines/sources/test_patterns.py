"""Regular expressions over users' text take time in proportion to it, however nasty it is."""

import importlib
import pkgutil
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from electra import data
from electra.errors import for_message
from pipelines import sources
from pipelines import text as text_tools
from pipelines.text.cleaning import CleaningConfig, clean, looks_marked_up, sentences, unwrap

SIZE, SECONDS = 1_000_000, 1.0
# (what it begins with, what is repeated, what it ends with)
NASTY = [
    ("", "<!--", ""), ("", "<", ""), ("<a b=", " ", ""), ("<br", " x", ""), ("", "&", ""), ("(", " ", ""),
    ("(", ";, ", "x"), ("{{", "a", ""), ("", "{{a ", ""), ("", "'", ""), ("<doc ", " ", ""), ("<doc ", "a=", '"'),
    ("= ", "= ", "x"), ("= x", " =", " x"), ("= x =", " ", "x"), ("\n", " ", "x"), ("\n", "= a = \n", "x"),
    ("", "\u00e9", ""), ("", ".", ""), (".", "'", " "), ("", "\r", ""), ("", "A.B ", ""), ("", "\u3002\u201d", ""),
]  # fmt: skip
# only asked whether they match at one place
ANCHORED = ("HEADING", "_TITLE", "_DOC", "_CHUNK", "NAME", "OFFICIAL")


def patterns(value: object, name: str) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from patterns(part, f"{name}[{key}]")


FOUND = dict(
    found
    for package in (data, sources, text_tools)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    for name, value in vars(importlib.import_module(module.name)).items()
    for found in patterns(value, f"{module.name}.{name}")
)
CALLS: dict[str, Callable[[str], Any]] = {
    "clean": lambda text: clean(text, CleaningConfig(markup=True), Counter()),
    "looks_marked_up": looks_marked_up,
    "for_message": for_message,
    "sentences": lambda text: list(sentences(text)),
    "unwrap": unwrap,
}


def within_a_second(call: Callable[[str], object], what: str) -> None:
    def late(*_: object) -> None:
        raise TimeoutError(f"{what} takes longer than {SECONDS} s for {shown!r} repeated")

    before = signal.signal(signal.SIGPROF, late)
    try:
        for begin, shown, end in NASTY:
            text = begin + shown * ((SIZE - len(begin + end)) // len(shown)) + end
            # of this process, however busy the machine is
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            call(text)
            signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("name", FOUND)
def test_every_pattern_is_linear(name: str) -> None:
    pattern = FOUND[name]

    def search(text: str) -> None:
        given = text.encode() if isinstance(pattern.pattern, bytes) else text
        if name.rpartition(".")[2] in ANCHORED:
            pattern.match(given)
            pattern.fullmatch(given)
        else:
            pattern.subn(given[:0], given)

    within_a_second(search, name)


@pytest.mark.parametrize("name", CALLS)
def test_what_uses_them_is_linear(name: str) -> None:
    within_a_second(CALLS[name], name)


def test_patterns_are_found() -> None:
    assert len(FOUND) > 15 and {name.split(".")[1] for name in FOUND} == {"data", "sources", "text"}
