"""English Gigaword as the LDC delivers it: SGML, `<DOC id="…" type="story" >` with a headline, a dateline, paragraphs.

Only stories become documents: the other types (multi, advis, other) are lists of headlines, notes to editors, tables of
results. The lines of a paragraph become one line; the headline stays, the dateline goes.
"""

import html
import re
from collections.abc import Iterator

from electra.data.text import Document, Rejected
from pipelines.sources.streams import EXCERPT, LeftOut, Piece, read_blocks

_OPENING = re.compile(r"<DOC\s([^<>]*)>")
_ATTRIBUTE = re.compile(r'\b(\w++)="([^"]*)"')
_DATELINE = re.compile(r"<DATELINE>.*?</DATELINE>", re.DOTALL)
_TAG = re.compile(r"</?(?:DOC|HEADLINE|TEXT|P)\b[^<>]*>")
TYPES = ("multi", "advis", "other")
WRONG = {"outside": "text outside <DOC>", "unclosed": "a <DOC> without </DOC>"}


def read_gigaword(piece: Piece) -> Iterator[Document | Rejected | LeftOut]:
    """The stories of a file."""
    outside = False
    for number, block, wrong in read_blocks(piece, b"<DOC", b"</DOC>"):
        if outside and wrong == "outside":
            continue  # until the next <DOC>: one damage, one row
        outside = wrong == "outside"
        where, excerpt = f"{piece.path}:{number}", block[:EXCERPT].decode("utf-8", "backslashreplace")
        lines = 1 + block.count(b"\n")
        if wrong:
            yield Rejected(where, WRONG.get(wrong, wrong), excerpt, lines)
            continue
        try:
            text = block.decode()
        except UnicodeDecodeError:
            yield Rejected(where, "invalid UTF-8", excerpt, lines)
            continue
        if not (opening := _OPENING.match(text.lstrip())):
            yield Rejected(where, "a <DOC> that does not end in its line", excerpt, lines)
            continue
        attributes = dict(_ATTRIBUTE.findall(opening[1]))
        if (type_ := attributes.get("type", "story")) != "story":
            yield LeftOut(f"type_{type_ if type_ in TYPES else 'other'}")
            continue
        paragraphs = (" ".join(html.unescape(part).split()) for part in _TAG.split(_DATELINE.sub("", text)))
        yield Document(attributes.get("id") or f"{piece.path.name}:{number}", "\n".join(filter(None, paragraphs)))
