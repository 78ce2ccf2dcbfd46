"""Dumps of Wikipedia as they are delivered: XML of pages in wiki markup, plain or compressed,
multistream or not.

1. lines become pages, each parsed alone, so that one that is damaged costs only itself
2. articles stay: the main namespace, no redirects
3. markup becomes text: headings and paragraphs are lines, links their text; templates, tables,
  references, files and categories go. Sections that have no text left lose their headings
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree  # a page begins with <page>: no DTD, hence no entities of its own

from electra.errors import BadConfig, BadInput
from electra.files import encodes
from pipelines.sources.streams import AGAIN, FileRange, Skipped, read_blocks, read_lines
from pipelines.text.cleaning import Document, Rejected

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Node, Wikilink
    from mwparserfromhell.wikicode import Wikicode

HEADER = 1 << 16  # bytes in which a dump's names of namespaces stand
DEEPEST = 40  # templates within each other that are removed, as many as the parser enters
UNCLOSED = 300  # brackets and tags: a page with more is damaged, and may take the parser hours
FILE, CATEGORY = "6", "14"  # keys of namespaces
HIDDEN = {  # tags whose contents are no running text
    *(
        "ce",
        "chem",
        "gallery",
        "graph",
        "hiero",
        "imagemap",
        "includeonly",
        "indicator",
        "inputbox",
        "mapframe",
    ),
    *(
        "maplink",
        "math",
        "ref",
        "references",
        "score",
        "source",
        "style",
        "syntaxhighlight",
        "table",
        "templatedata",
    ),
    *("templatestyles", "timeline"),
}
_NAMESPACE = re.compile(rb'<namespace key="(\d+)"[^>]*>([^<]*)<')
_ID = re.compile(r"<id>(\d+)</id>")
_TEMPLATE = re.compile(r"(?<!\{)\{\{[^{}]*\}\}(?!\})")
_OPEN_TAG = re.compile(r"<(?!br\b|hr\b)[a-z][^<>]*(?<!/)>", re.IGNORECASE)
_SWITCH = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile(r"''+")
# a link to the same article in another language
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):\S")
# of private use: stands before a heading's text, once for each level, until lines are gathered
_HEADING = "\ue000"
# what pages stand in
_FRAME = re.compile(r"(<mediawiki\s.*</siteinfo>\s*)?(</mediawiki>)?\s*", re.DOTALL)


def read_wikipedia(piece: FileRange) -> Iterator[Document | Rejected | Skipped]:
    """The articles of a dump, or of one range of it. Raises BadInput when it ends before
    </mediawiki>.
    """
    try:
        import mwparserfromhell
    except ImportError:
        raise BadConfig(
            f"{piece.path}: needs mwparserfromhell; pip install -e '.[crawl]'"
        ) from None
    hidden = _hidden_namespaces(piece)
    ended = False
    for block in read_blocks(piece, "page"):
        if block.wrong and (frame := _FRAME.fullmatch(block.text.strip())):
            ended = frame[2] is not None
            continue
        # the id is the same however a file is cut into ranges
        where = f"{piece.path}:{found[1] if (found := _ID.search(block.text)) else block.line}"
        if block.wrong:
            yield block.rejected(where)
            continue
        try:
            page = ElementTree.fromstring(block.text)  # noqa: S314
        except (ElementTree.ParseError, ValueError):
            yield block.rejected(where, "not XML")
            continue
        revision = ([page, *page.iter("revision")])[-1]
        if page.findtext("ns", "0") != "0":
            yield Skipped("other_namespaces")
        elif page.find("redirect") is not None:
            yield Skipped("redirects")
        elif revision.findtext("model", "wikitext") != "wikitext":
            yield Skipped("other_models")
        else:
            markup = _reduced(revision.findtext("text") or "")
            if _unclosed(markup) > UNCLOSED:
                yield block.rejected(
                    where, f"more than {UNCLOSED} brackets or tags that are not closed"
                )
                continue
            identity = (
                page.findtext("id") or page.findtext("title") or f"{piece.path.name}:{block.line}"
            )
            try:
                text = to_text(mwparserfromhell.parse(markup, skip_style_tags=True), hidden)
            except (mwparserfromhell.parser.ParserError, RecursionError):
                yield block.rejected(where, "not wiki markup")
                continue
            yield Document(identity, text)
    if piece.end is None and not ended:
        raise BadInput(
            f"{piece.path}: is damaged or cut short (it ends before </mediawiki>); {AGAIN}"
        )


def _hidden_namespaces(piece: FileRange) -> frozenset[str]:
    """The names of links that show a file or name a category, in lower case: English ones and the
    dump's own.
    """
    names, begun = {"file", "image", "media", "category"}, False
    for _, line in read_lines(FileRange(piece.path, most=HEADER)):
        begun = begun or b"<mediawiki" in (line or b"")
        if line is None or b"</siteinfo>" in line:
            break
        if (found := _NAMESPACE.search(line)) and found[1].decode() in (FILE, CATEGORY):
            names.add(found[2].decode("utf-8", "replace").lower())
    if not begun:
        raise BadInput(f"{piece.path}: does not begin with <mediawiki>; change `kind` or `files`")
    return frozenset(names)


def _reduced(markup: str) -> str:
    """The markup less plain templates, innermost first, and tables: most of what the parser would
    spend its time on.
    """
    for _ in range(DEEPEST):
        markup, count = _TEMPLATE.subn("", markup)
        if not count:
            break
    # lines, and where among them the tables begin that are open
    kept, tables = list[str](), list[int]()
    for line in markup.split("\n"):
        begin = line.lstrip(" \t:")
        if begin.startswith("{|"):
            tables.append(len(kept))
        kept.append(line)
        if tables and begin.startswith("|}") and not begin.startswith("|}}"):
            del kept[tables.pop() :]
            kept.append(begin[2:])
    return "\n".join(kept)


def _unclosed(markup: str) -> int:
    """About how many brackets and tags are open at the end: the parser reads the rest again for
    each of them.
    """
    signs = sum(
        max(0, markup.count(left) - markup.count(right)) for left, right in ("{}", "[]", "<>")
    )
    return signs + max(0, len(_OPEN_TAG.findall(markup)) - markup.count("</"))


def to_text(code: "Wikicode", hidden: frozenset[str]) -> str:
    """A page's text, one paragraph or heading a line."""
    text = _QUOTES.sub("", _SWITCH.sub("", "".join(_visible(code, hidden))))
    lines: list[str] = []
    levels: list[int] = []  # of headings that have no text yet
    for line in text.split("\n"):
        level = len(line) - len(line.lstrip(_HEADING))
        line = " ".join(line.replace(_HEADING, "").split())
        if level:
            while levels and levels[-1] >= level:
                lines.pop()
                levels.pop()
            levels.append(level)
        elif line:
            levels = []
        if level or line:
            lines.append(line)
    return "\n".join(lines[: len(lines) - len(levels)])


def _visible(code: "Wikicode | None", hidden: frozenset[str]) -> Iterator[str]:
    from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Tag, Text, Wikilink

    node: Node
    for node in code.nodes if code is not None else ():
        if isinstance(node, Text):
            yield node.value.replace(_HEADING, "")
        elif isinstance(node, Heading):
            title = " ".join("".join(_visible(node.title, hidden)).split())
            yield f"\n{_HEADING * node.level}{title}\n"
        elif isinstance(node, HTMLEntity):
            sign = node.normalize()
            yield sign if encodes(sign) and sign != _HEADING else "\ufffd"
        elif isinstance(node, Wikilink):
            yield from _link(node, hidden)
        elif isinstance(node, ExternalLink):
            yield from _visible(node.title, hidden)
        elif isinstance(node, Tag):
            name = str(node.tag).strip().lower()
            if name == "br":
                yield "\n"
            elif name not in HIDDEN:
                yield from _visible(node.contents, hidden)


def _link(link: "Wikilink", hidden: frozenset[str]) -> Iterator[str]:
    title = str(link.title).strip()
    prefix, colon, _ = title.partition(":")
    if colon and prefix.strip().lower().replace("_", " ") in hidden:
        return
    if link.text is not None:
        yield from _visible(link.text, hidden)
    elif not _LANGUAGE.match(title):
        yield title.removeprefix(":")
