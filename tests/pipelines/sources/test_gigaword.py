"""English Gigaword: stories by paragraph, other types counted, damage reported by line."""

import gzip

from pipelines.sources.streams import Skipped
from pipelines.text.cleaning import Document
from tests.pipelines.sources.bad_input import read, rejections
from tests.pipelines.sources.delivered import STORY, doc

OTHER = "<DATELINE>\n<TEXT>\nlines\n<DATELINE>x</DATELINE>\nwithout paragraphs\n</TEXT>"


def test_stories_are_documents_of_paragraphs(tmp_path):
    kinds = ("multi", "advis", "other", "strange")
    others = (doc(2, OTHER, kind) for kind in kinds)
    text = "".join([doc(1, STORY.format("one")), *others, doc(3, OTHER)])
    one = "A Headline & More\nWrapped text of one that goes on <here>.\nSecond."
    assert read(tmp_path / "nyt_eng_199407.gz", gzip.compress(text.encode())) == [
        Document("NYT_ENG_19940701.0001", one),
        *(Skipped(f"type_{kind}") for kind in ("multi", "advis", "other", "other")),
        Document("NYT_ENG_19940701.0003", "lines without paragraphs"),
    ]


def test_what_is_damaged_is_quarantined_by_its_line(tmp_path):
    path = tmp_path / "afp_eng_199405"
    good = doc(1, STORY.format("one"))
    bad = [
        good.removesuffix("</DOC>\n"),
        good,
        "stray\n\nlines\n",
        good.replace("one", "\udcff"),
        '<DOC id="x"\n</DOC>',
    ]
    items = read(path, "".join(bad).encode("utf-8", "surrogateescape"))
    lines = len(good.splitlines())
    assert rejections(items) == [
        (f"{path}:1", "a <DOC> without </DOC>"),
        (f"{path}:{2 * lines}", "text outside <DOC>"),
        (f"{path}:{2 * lines + 3}", "invalid UTF-8"),
        (f"{path}:{3 * lines + 3}", "a <DOC> that does not end in its line"),
    ]
