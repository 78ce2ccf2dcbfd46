"""Cleaning: kept text, dropped text, and the counts of both."""

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.text.cleaning import CleaningConfig, QuarantineConfig, clean, sentences, unwrap


def cleaned(text, **settings):
    counts = Counter()
    result = clean(text, CleaningConfig(**settings), counts)
    return result, {key: n for key, n in counts.items() if n}


@pytest.mark.parametrize("dirty, expected, changed", [
    ("  a\u00a0\t b \r\n\n\n  c\x00d\u2028e\u3000f\ufeff ", "a b\ncd\ne f", 2),
    ("\x0ba\x0cb\x1cc\x1fd\x1b", "a b c d", 5),  # controls that part words
])  # fmt: skip
def test_white_space_becomes_one_space_and_controls_go(dirty, expected, changed):
    lines = expected.count("\n") + 1
    counts = {"lines_read": lines, "lines": lines, "changed_control_characters": changed}
    assert cleaned(dirty) == (expected, counts)


def test_unicode_is_composed_as_set():
    assert cleaned("e\u0301 ﬁ")[0] == "é ﬁ"
    assert cleaned("e\u0301 ﬁ", unicode="NFKC")[0] == "é fi"
    assert cleaned("e\u0301 ﬁ", unicode="none")[0] == "e\u0301 ﬁ"


def test_what_is_dropped_is_counted():
    text = "long enough\nab\nlong enough\n\nanother line"
    counts = {"lines_read": 4, "lines": 2, "short_lines": 1, "duplicate_lines": 1}
    settings = {"minimum_line": 3, "duplicate_lines": "drop"}
    assert cleaned(text, **settings) == ("long enough\nanother line", counts)
    assert cleaned(" \n\t\n") == ("", {"empty_documents": 1})
    counts = {"lines_read": 1, "lines_of_documents": 1, "short_documents": 1}
    assert cleaned("ab", minimum_document=3) == ("", counts)
    assert cleaned("abc", minimum_document=3, minimum_line=3)[0] == "abc"
    assert cleaned("<b>one</b><!-- no -->", markup=True)[1]["changed_markup"] == 3


@pytest.mark.parametrize("dirty, expected", [
    ("energy formula_12 is conserved", "energy is conserved"),
    ("Vitamin E (, ; ) is a group ()", "Vitamin E is a group"),
    ("true [citation needed].[3]", "true."),
    ("<ref name=x>bold</ref> &nbsp; <b>text</b> a < b", "bold text a < b"),
    ("if x<y and z>w, 1 &lt; 2 &amp;&#38; 3 &gt; 2", "if x<y and z>w, 1 < 2 && 3 > 2"),
    ('<div class="a b"><input disabled><br/>one</div><!-- no -->', "one"),
    ("&lt;b&gt; caf&#101;&#769; a&#160;b", "<b> café a b"),
    ("'''Blue''' is {{cite|web}} a [[colour]] .", "Blue is a colour."),
])  # fmt: skip
def test_left_overs_of_markup_go_when_asked(dirty, expected):
    assert cleaned(dirty, markup=True)[0] == expected
    assert cleaned(dirty)[0] == dirty


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_cleaning_twice_changes_nothing_more(text):
    once = cleaned(text)[0]
    assert cleaned(once)[0] == once
    assert all(line and line == line.strip() for line in once.split("\n")) or once == ""


def test_hard_wrapped_paragraphs_are_joined_and_verse_keeps_its_lines():
    first = "It was a bright cold day in April, and the clocks were striking thirteen"
    second = "while the old man went down to the river to look for the boat that his"
    third = "A second paragraph begins after the blank line and it is as long as the"
    others = ["    CONTENTS", "    I. The river      9", "Short verse", "keeps its lines,"]
    lines = [first, second, "brother had left.", "", third, "first.", "", *others]
    joined = [f"{first} {second} brother had left.", f"{third} first.", *others]
    assert [line for line in unwrap("\n".join(lines)).split("\n") if line] == joined
    # lines of 70 to 85 % of the usual width are filled
    wide = ["x" * 70, "y" * 50, "z", *["v" * 70] * 7]
    assert unwrap("\n".join(wide)).split("\n")[0] == " ".join(wide[:3])
    assert "\n" not in unwrap("\n".join([*["x" * 10] * 9, "y" * 6, "z"])), "60 % is filled"
    assert unwrap("") == "" and unwrap("\n\n") == ""


# Sentences, parted by |. Each line is one language or one rule.
SENTENCES = """\
Dr. Who met J. Smith at 3.5 p.m. in Rome.|"Really?" he asked.|Yes!|(No.)|日本語です。|はい。|the end
Он пришёл домой.|Она ушла.|А. С. Пушкин родился.|«Да»
École est là.|École « Bonjour. »|Il part.|« Oui » dit.
„Ja.“|Er ging.|»Nein.«|Sie kam.
¿Qué?|¡No!|¿Sí?
Ł. Kowalski przyszedł.|Łódź.
Βρέχει.|Έλα.
Բարեւ։|Նա եկավ։
გამარჯობა.|როგორ ხარ?|კარგად.
שלום.|הוא בא?|כן.
هل أنت بخير؟|نعم.|ذهب.
یہ کتاب ہے۔|وہ گیا۔
මම යමි.|ඔහු එයි෴|ඇය.
क्या हाल है?|मैं ठीक हूँ।|वह गया॥|१२ लोग।
ฉันไป|ตลาด|เขามา ๆ กัน
ខ្ញុំទៅ។|គាត់មក។
བོད་ཡིག།|ཡིན།
မြန်မာ။|သူ။
这是。|「好。」|他说！？|然后
これは３．５です．|次は。
안녕.|(그는) 갔다.
ሰላም ነው።|እንዴት ነህ፧|ደህና፡፡|እሺ
𑄌𑄋𑅁|𑄌𑄋
𞤀𞤣𞤢.|𞤀𞤣𞤢."""


@pytest.mark.parametrize("line", SENTENCES.split("\n"))
def test_sentences_end_where_they_do_in_their_script(line):
    expected = line.split("|")
    assert list(sentences(" ".join(expected))) == expected
    if re.fullmatch(r"[^ .!?]+", line):  # signs that need no space behind them
        assert list(sentences("".join(expected))) == expected


@given(st.text(st.sampled_from("aBJ .!?\"”’‘“([')]…M r1D"), max_size=60).map(str.split))
@example(["B.", "J.", "S.", "A.", "Mr.", "B"])
def test_english_sentences_end_by_one_rule(words):
    line = " ".join(words)
    rule = r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b(?:Mr|Dr|St|vs)\.)(?<!\bMrs\.)[\"'”’)\]]* (?=[\"'“‘(\[]*[A-Z0-9])"
    expected = re.sub(rule, lambda end: f"{end[0]}\n", line).split("\n")
    assert list(sentences(line)) == [piece.strip() for piece in expected if piece.strip()]


def test_quarantine_tolerates_a_handful_and_a_fraction():
    quarantine = QuarantineConfig(fraction=0.001, min_tolerated=5)
    assert [quarantine.tolerated(rows) for rows in (0, 100, 5000, 100_000)] == [5, 5, 5, 100]
