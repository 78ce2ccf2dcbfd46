"""Cleaning: what is kept, what is dropped, and that all of it is counted."""

import itertools
import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from electra.config import build
from electra.errors import BadConfig
from pipelines.text.cleaning import CleaningConfig, QuarantineConfig, clean, sentences, unwrap


def cleaned(text: str, **settings: object) -> tuple[str, dict[str, int]]:
    counts: Counter[str] = Counter()
    return clean(text, CleaningConfig(**settings), counts), {
        key: n for key, n in counts.items() if n
    }


def test_lines_are_trimmed_and_white_space_becomes_one_space() -> None:
    assert cleaned("  a\u00a0\t b \r\n\n\n  \x0bc\x00d\u2028e\u3000f\ufeff ") == (
        "a b\ncd\ne f",
        {"lines_read": 3, "lines": 3, "changed_control_characters": 3},
    )


def test_unicode_is_composed_unless_told_otherwise() -> None:
    assert cleaned("e\u0301 ﬁ")[0] == "é ﬁ"
    assert cleaned("e\u0301 ﬁ", unicode="NFKC")[0] == "é fi"
    assert cleaned("e\u0301 ﬁ", unicode="none")[0] == "e\u0301 ﬁ"


def test_what_is_dropped_is_counted() -> None:
    text = "long enough\nab\nlong enough\n\nanother line"
    assert cleaned(text, minimum_line=3, duplicate_lines="drop") == (
        "long enough\nanother line",
        {"lines_read": 4, "lines": 2, "short_lines": 1, "duplicate_lines": 1},
    )
    assert cleaned(" \n\t\n") == ("", {"empty_documents": 1})
    assert cleaned("ab", minimum_document=3) == (
        "",
        {"lines_read": 1, "lines_of_documents": 1, "short_documents": 1},
    )


@pytest.mark.parametrize(("dirty", "expected"), [
    ("energy formula_12 is conserved", "energy is conserved"),
    ("Vitamin E (, ; ) is a group ()", "Vitamin E is a group"),
    ("true [citation needed].[3]", "true."),
    ("<ref name=x>bold</ref> &nbsp; <b>text</b> a < b", "bold text a < b"),
    ("if x<y and z>w, 1 &lt; 2 &amp;&#38; 3 &gt; 2", "if x<y and z>w, 1 < 2 && 3 > 2"),
    ('<div class="a b"><input disabled><br/>one</div><!-- no -->', "one"),
    ("&lt;b&gt; caf&#101;&#769; a&#160;b", "<b> café a b"),
    ("'''Blue''' is {{cite|web}} a [[colour]] .", "Blue is a colour."),
])  # fmt: skip
def test_left_overs_of_markup_go_when_asked(dirty: str, expected: str) -> None:
    assert cleaned(dirty, markup=True)[0] == expected
    assert cleaned(dirty)[0] == dirty


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = cleaned(text)[0]
    assert cleaned(once)[0] == once
    assert all(line and line == line.strip() for line in once.split("\n")) or once == ""


def test_hard_wrapped_paragraphs_are_joined_and_verse_keeps_its_lines() -> None:
    prose = (
        "It was a bright cold day in April, and the clocks were striking thirteen\n"
        "while the old man went down to the river to look for the boat that his\n"
        "brother had left there.\n\n"
        "A second paragraph begins after the blank line and it is as long as the\n"
        "first.\n\n"
        "    CONTENTS\n\n    I. The river      9\n    II. The boat     25\n\n"
        "Short verse\nkeeps its lines,\nall of them.\n"
    )
    lines = [line for line in unwrap(prose).split("\n") if line]
    assert lines == [
        "It was a bright cold day in April, and the clocks were striking thirteen while the old man went down to the "
        "river to look for the boat that his brother had left there.",
        "A second paragraph begins after the blank line and it is as long as the first.",
        "    CONTENTS",
        "    I. The river      9",
        "    II. The boat     25",
        "Short verse",
        "keeps its lines,",
        "all of them.",
    ]
    assert unwrap("") == "" and unwrap("\n\n") == ""


def test_sentences() -> None:
    line = 'Dr. Who met J. Smith at 3.5 p.m. in Rome. "Really?" he asked. Yes! (No.) 日本語です。はい。 the end'
    assert list(sentences(line)) == [
        "Dr. Who met J. Smith at 3.5 p.m. in Rome.", '"Really?" he asked.',
        "Yes!", "(No.) 日本語です。", "はい。", "the end",
    ]  # fmt: skip


@given(st.text(st.sampled_from('aBJ .!?"。)…'), max_size=60))
@example("B. J. S. A. Mr. B")
def test_sentences_end_where_the_rule_says(line: str) -> None:
    """The rule once more, each sign looked back at from the place behind it: slower to search for,
    easier to read.
    """
    rule = re.compile(
        r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b(?:Mr|Dr|St|vs)\.)(?<!\bMrs\.)[\"'”’)\]]* (?=[\"'“‘(\[]*[A-Z0-9])|(?<=[。！？])"
    )
    ends = [0, *(match.end() for match in rule.finditer(line)), len(line)]
    pieces = [line[start:end].strip(" ") for start, end in itertools.pairwise(ends)]
    assert list(sentences(line)) == [piece for piece in pieces if piece]


def test_quarantine_tolerates_a_handful_and_a_fraction() -> None:
    quarantine = QuarantineConfig(fraction=0.001, handful=5)
    assert [quarantine.tolerated(rows) for rows in (0, 100, 5000, 100_000)] == [5, 5, 5, 100]
    with pytest.raises(BadConfig, match=r"cleaning.minimum_line: is 0"):
        build(CleaningConfig, {"minimum_line": 0}, "cleaning")
    with pytest.raises(BadConfig, match=r"quarantine\.fraction"):
        build(QuarantineConfig, {"fraction": 1.0}, "quarantine")
