"""Regular expressions over users' text take time in proportion to it, however nasty it is.

So many characters take a linear pattern a fraction of a second, and another one an hour.
"""

import importlib
import pkgutil
import re
import signal
from collections import Counter

from electra import data
from electra.errors import for_message
from pipelines import sources
from pipelines import text as text_tools
from pipelines.text.cleaning import CleaningConfig, clean, looks_marked_up, sentences, unwrap

SIZE = 300_000
PATIENCE = 60  # seconds of this process, however busy the machine is
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
    """Yield the patterns in a value of a module, by its name."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict):
        yield from find_patterns(list(value.values()), name)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from find_patterns(part, name)


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


def searching(pattern, anchored):
    def search(text):
        given = text.encode() if isinstance(pattern.pattern, bytes) else text
        return pattern.match(given) if anchored else pattern.subn(given[:0], given)

    return search


def test_every_pattern_is_linear():
    tried = []

    def give_up(*_):
        raise TimeoutError(f"{tried[-1]} is not linear")

    before = signal.signal(signal.SIGPROF, give_up)
    try:
        for name, call in calls():
            tried.append(name)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            for begin, repeated, end in (case.split("|") for case in NASTY):
                call(begin + repeated * ((SIZE - len(begin + end)) // len(repeated)) + end)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert len(tried) > 30 and any(name.startswith("electra.data") for name in tried)
