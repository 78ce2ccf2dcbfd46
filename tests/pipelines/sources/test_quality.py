"""Gopher's limits, met and missed by one word or line."""

import itertools

import pytest

from pipelines.sources.quality import RULES, broken_rule
from pipelines.text.ngrams import words

WORDS = list(map("".join, itertools.product("bdfgk", "aeiou", "lmnrs", "aeiou")))
THRICE = ("that", "have", "with")


def fill(*given, count=100, more=""):
    """Return the given words, and others of four letters, each once."""
    return " ".join([*given, *(word + more for word in WORDS[: count - len(given)])])


def lines(bullets):
    return "\n".join(
        f"{'– ' * (number < bullets)}the of {' '.join(WORDS[9 * number : 9 * number + 9])}"
        for number in range(10)
    )


def numbers(count):
    return fill("the", "of", *map(str, range(1000, 1000 + count)))


def again(count):
    """Return three of 100 words so many times."""
    return fill(*(word for end in WORDS[200 : 200 + count] for word in (*THRICE, end)))


def test_the_limits_are_those_that_gophers_paper_published():
    """Rae et al., 2021, section A.1.1 and Table A1."""
    assert {
        "words": (50, 100_000),
        "mean_word_length": (3, 10),
        **dict.fromkeys(("hash_signs", "ellipses"), (0, 0.1)),
        "bullet_lines": (0, 0.9),
        **dict.fromkeys(("ellipsis_lines", "repeated_lines"), (0, 0.3)),
        "alphabetic_words": (0.8, 1),
        "stop_words": (2, 8),
        "repeated_line_characters": (0, 0.2),
        **{f"top_{n}_gram": (0, most) for n, most in ((2, 0.2), (3, 0.18), (4, 0.16))},
        **{f"repeated_{n}_grams": (0, (20 - n) / 100) for n in range(5, 11)},
    } == RULES


@pytest.mark.parametrize(
    "kept, dropped, rule",
    [
        (fill("the", "of", count=50), fill("the", "of", count=49), "words"),
        (fill("The", "of"), fill("the"), "stop_words"),
        (fill("the", "of", more="abcdef"), fill("the", "of", more="abcdefg"), "mean_word_length"),
        (numbers(20), numbers(21), "alphabetic_words"),
        (lines(9), lines(10), "bullet_lines"),
        (again(6), again(7), "top_3_gram"),
    ],
)
def test_limits_of_prose(kept, dropped, rule):
    assert broken_rule(kept, *words(kept)) == ""
    assert broken_rule(dropped, *words(dropped)) == rule
    assert broken_rule(dropped, *words(dropped), ["de"]) == ("" if rule == "stop_words" else rule)
