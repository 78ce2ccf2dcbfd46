"""English Gigaword: stories by paragraph, other types counted, damage reported by line."""

import gzip

from pipelines.sources.streams import Skipped
from pipelines.text.cleaning import Document
from tests.support.bad_input import read, rejections
from tests.support.delivered import STORY, doc

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


def test_a_story_whose_first_line_does_not_end_is_quarantined(tmp_path):
    path = tmp_path / "afp_eng_199405"
    bad, good = read(path, f'<DOC id="x"\n</DOC>\n{doc(1, STORY)}'.encode())
    assert rejections([bad]) == [(f"{path}:1", "a <DOC> that does not end in its line")]
    assert good.id == "NYT_ENG_19940701.0001"
