"""Regular expressions over users' text take time in proportion to it, however nasty it is.

So many characters take a linear pattern a fraction of a second, and another one an hour.
"""

import importlib
import pkgutil
import re
from collections import Counter

import pytest

from electra import data
from electra.errors import for_message
from pipelines import sources
from pipelines import text as text_tools
from pipelines.text.cleaning import CleaningConfig, clean, looks_marked_up, sentences, unwrap

SIZE = 300_000
# its beginning, its repeated part, its end
NASTY = [
    '|<!--|', '|<|', '<a b=| |', '<br| x|', '|&|', '(| |', '(|;, |x', '{{|a|', '|{{a |', "|'|",
    '<doc | |', '<doc |a=|"', '= |= |x', '= x| =| x', '= x =| |x', '\n| |x', '\n|= a = \n|x',
    '|\xe9|', '|.|', ".|'| ", '|\r|', '|A.B |', '|\u3002\u201d|', '|. ((|', '|. \xab|',
    '|.\u201c A|', '\u201e|.\u201c (|', '|\u0e01 |',
]  # fmt: skip
# only asked whether they match at one place, or of short texts
ANCHORED = """
    HEADING _TITLE _DOC _CHUNK NAME OFFICIAL _OPENING _ABBREVIATION _BAR _NAMED _CONLL _COMMENT
""".split()


def find_patterns(value, name):
    """Yield the patterns in a value of a module, by where they are."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from find_patterns(part, f"{name}[{key}]")


def searching(pattern, anchored):
    def search(text):
        given = text.encode() if isinstance(pattern.pattern, bytes) else text
        return pattern.match(given) if anchored else pattern.subn(given[:0], given)

    return search


def calls():
    """Yield everything that is tried, by its name."""
    for package in (data, sources, text_tools):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                for place, pattern in find_patterns(value, f"{module.name}.{name}"):
                    yield place, searching(pattern, place.rpartition(".")[2] in ANCHORED)
    yield "clean", lambda text: clean(text, CleaningConfig(markup=True), Counter())
    yield "looks_marked_up", looks_marked_up
    yield "for_message", for_message
    yield "sentences", lambda text: list(sentences(text))
    yield "unwrap", unwrap


CALLS = dict(calls())


@pytest.mark.timeout(300)  # however busy the machine is
@pytest.mark.parametrize("name", CALLS)
def test_every_pattern_is_linear(name):
    for begin, repeated, end in (case.split("|") for case in NASTY):
        CALLS[name](begin + repeated * ((SIZE - len(begin + end)) // len(repeated)) + end)


def test_the_patterns_of_all_modules_are_tried():
    assert len(CALLS) > 30 and any(name.startswith("electra.data") for name in CALLS)
