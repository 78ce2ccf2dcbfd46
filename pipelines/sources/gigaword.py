"""English Gigaword in the LDC's SGML: `<DOC id="…" type="story" >` with a headline, a dateline,
paragraphs.

Only stories become documents: the other types (multi, advis, other) are lists of headlines, notes
to editors, tables of results. The lines of a paragraph become one line; the headline is kept, the
dateline dropped.
"""

import html
import re
from collections.abc import Iterator

from pipelines.sources.streams import ATTRIBUTE, FileRange, Item, Skipped, read_blocks
from pipelines.text.cleaning import Document

_OPENING = re.compile(r"<DOC\s([^<>]*)>")
# not past another one: each that is not closed would be searched to the end
_DATELINE = re.compile(r"<DATELINE>(?:(?!<DATELINE>).)*?</DATELINE>", re.DOTALL)
_TAG = re.compile(r"</?(?:DOC|HEADLINE|DATELINE|TEXT|P)\b[^<>]*>")
TYPES = ("multi", "advis", "other")


def read_gigaword(piece: FileRange) -> Iterator[Item]:
    """Yield the stories of a file."""
    for block in read_blocks(piece, "DOC"):
        opening = _OPENING.match(block.text.lstrip())
        if block.wrong or not opening:
            wrong = block.wrong or "a <DOC> that does not end in its line"
            yield block.rejected(f"{piece.path}:{block.line}", wrong)
            continue
        attributes = dict(ATTRIBUTE.findall(opening[1]))
        if (type_ := attributes.get("type", "story")) != "story":
            yield Skipped(f"type_{type_ if type_ in TYPES else 'other'}")
            continue
        paragraphs = (
            " ".join(html.unescape(part).split())
            for part in _TAG.split(_DATELINE.sub("", block.text))
        )
        yield Document(
            attributes.get("id") or f"{piece.path.name}:{block.line}",
            "\n".join(filter(None, paragraphs)),
        )
