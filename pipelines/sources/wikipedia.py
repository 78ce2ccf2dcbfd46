"""Dumps of Wikipedia: XML of pages in wiki markup, plain or compressed, multistream or not.

1. lines become pages, each parsed alone, so that damage costs only one page
2. articles stay: the main namespace, no redirects
3. markup becomes text: headings and paragraphs are lines, links their text; tables, references,
  files and categories go. Sections that have no text left lose their headings
4. templates go, but for those that are part of a sentence in many languages: numbers, units, dates,
  foreign words. Others within a line of text are counted
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree  # a page begins with <page>: no DTD, hence no entities of its own

from electra.errors import BadConfig, BadInput
from electra.files import encodes
from pipelines.sources.streams import (
    FETCH_ADVICE,
    FileRange,
    Item,
    Skipped,
    read_blocks,
    read_lines,
)
from pipelines.text.cleaning import Document

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Node, Wikilink
    from mwparserfromhell.wikicode import Wikicode

HEADER = 1 << 16  # bytes that contain a dump's names of namespaces
DEEPEST = 40  # templates within each other that are removed, as many as the parser enters
UNCLOSED = 300  # brackets and tags: a page with more is damaged, and may take the parser hours
NAMED_SPACES = ("6", "14")  # keys of the namespaces of files and categories
# tags whose contents aren't running text
_HIDDEN = """
    ce chem gallery graph hiero imagemap includeonly indicator inputbox mapframe maplink math ref
    references score source style syntaxhighlight table templatedata templatestyles timeline
"""
HIDDEN = frozenset(_HIDDEN.split())
# Templates with one argument that is text: the first, or the second after the code of a language.
_FIRST = """
    nowrap nobr nobreak small smaller big larger em strong sc smallcaps abbr tooltip sic sup sub
    mvar num nts nombre formatnum gaps val ill illm lien nihongo quote blockquote zitat enS link-en
    le ruby ルビ 読み仮名
    нп нп5 не_переведено число zahl flag
"""
FIRST = frozenset(_FIRST.lower().replace("_", " ").split())
SECOND = ("lang", "llang", "langx", "langue", "color", "colour", "tsl")
JOINED = ("date", "unité", "unite", "unit", "dunité", "as of")  # all arguments
DATES = ("start date", "end date", "birth date", "death date", "birth-date", "film date", "dts")
SIGNS = {
    "nbsp": " ",
    "spaces": " ",
    "snd": " – ",
    "spaced ndash": " – ",
    "ndash": "–",
    "mdash": "—",
}
RANGES = ("to", "-", "–", "and", "or", "by", "x", "×", "+/-", "±")
LONGEST_TEMPLATE = 2000  # characters of one that is text
_NAMESPACE = re.compile(rb'<namespace key="(\d+)"[^>]*>([^<]*)<')
_ID = re.compile(r"<id>(\d+)</id>")
# three braces are a parameter, four are two templates
_TEMPLATE = re.compile(r"(?<!(?<!\{)\{)\{\{[^{}]*\}\}(?!\}(?!\}))")
_OPEN_TAG = re.compile(r"<(?!br\b|hr\b)[a-z][^<>]*(?<!/)>", re.IGNORECASE)
_SWITCH = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile(r"''+")
# a link to the same article in another language
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):\S")
# of private use: put before a heading's text, once for each level, until lines are gathered
_HEADING = "\ue000"
# of private use: put where a template was, until those within text are counted
_LOST = "\ue001"
_BAR = re.compile(r"\|(?![^\[\]]*\]\])")  # but that of a link
_NAMED = re.compile(r"\s*[A-Za-z][\w -]*=")
# the element that holds pages
_FRAME = re.compile(r"(<mediawiki\s.*</siteinfo>\s*)?(</mediawiki>)?\s*", re.DOTALL)


def read_wikipedia(piece: FileRange) -> Iterator[Item]:
    """Yield the articles of a dump, or of one range of it. Raises BadInput when it ends before
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
        where = f"{piece.path}:{match[1] if (match := _ID.search(block.text)) else block.line}"
        if block.wrong:
            yield block.rejected(where)
            continue
        try:
            page = ElementTree.fromstring(block.text)  # noqa: S314
        except (ElementTree.ParseError, ValueError):
            yield block.rejected(where, "not XML")
            continue
        revision = [page, *page.iter("revision")][-1]
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
                text, lost = to_text(mwparserfromhell.parse(markup, skip_style_tags=True), hidden)
            except (mwparserfromhell.parser.ParserError, RecursionError):
                yield block.rejected(where, "not wiki markup")
                continue
            yield Document(identity, text, lost)
    if piece.end is None and not ended:
        raise BadInput(
            f"{piece.path}: is damaged or cut short (it ends before </mediawiki>); {FETCH_ADVICE}"
        )


def _hidden_namespaces(piece: FileRange) -> frozenset[str]:
    """Return the names of links that show a file or name a category, in lower case: English ones
    and the dump's own.
    """
    names = {"file", "image", "media", "category"}
    is_dump = False
    for _, line in read_lines(FileRange(piece.path, most=HEADER)):
        is_dump = is_dump or b"<mediawiki" in (line or b"")
        if line is None or b"</siteinfo>" in line:
            break
        if (match := _NAMESPACE.search(line)) and match[1].decode() in NAMED_SPACES:
            names.add(match[2].decode("utf-8", "replace").lower())
    if not is_dump:
        raise BadInput(f"{piece.path}: does not begin with <mediawiki>; change `kind` or `files`")
    return frozenset(names)


def _reduced(markup: str) -> str:
    """Return the markup without plain templates, innermost first, and tables, which would take most
    of the parser's time.
    """
    markup = markup.replace(_LOST, "")
    for _ in range(DEEPEST):
        markup, count = _TEMPLATE.subn(_replace_template, markup)
        if not count:
            break
    # lines, and where among them the tables begin that are open
    kept: list[str] = []
    tables: list[int] = []
    for line in markup.split("\n"):
        begin = line.lstrip(" \t:")
        if begin.startswith("{|"):
            tables.append(len(kept))
        kept.append(line)
        if tables and begin.startswith("|}") and not begin.startswith("|}}"):
            del kept[tables.pop() :]
            kept.append(begin[2:])
    return "\n".join(kept)


def _replace_template(template: re.Match[str]) -> str:
    """Return the replacement of a template: its text, or a mark within a line of text."""
    text = _text_of(template[0][2:-2])
    if text is not None:
        return text
    before = template.string[max(0, template.start() - 1) : template.start()]
    after = template.string[template.end() : template.end() + 1]
    return _LOST if before not in {"", "\n", "=", ">"} or after == " " else ""


def _text_of(template: str) -> str | None:
    """Return the text that a template stands for, or None for one that is not known."""
    name = template.partition("|")[0].strip().lower().replace("_", " ")
    if name.startswith("formatnum:"):
        return name.removeprefix("formatnum:")
    if len(template) > LONGEST_TEMPLATE:
        return None
    arguments = [part.strip() for part in _BAR.split(template)[1:]]
    named = dict(part.split("=", 1) for part in arguments if _NAMED.match(part))
    values = [part.removeprefix("1=") for part in arguments if not _NAMED.match(part)]
    kind = name.removesuffix(" and age")
    if name in SIGNS:
        return SIGNS[name]
    if not values:
        return None
    if name in FIRST or name.startswith("lang-"):
        unit = named.get("u") or named.get("ul")
        return f"{values[0]} {unit}" if unit else values[0]
    if name in SECOND:
        return values[1] if len(values) > 1 else None
    if name in {"transl", "transliteration"}:
        return values[-1]
    if name in {"circa", "c.", "ca"}:
        return f"c. {values[0]}"
    if name in {"frac", "sfrac", "fraction"}:
        *above, below = values
        return f"{' '.join(above) or 1}/{below}"
    if kind in DATES and all(map(str.isdecimal, values[:3])):
        return "-".join(value.zfill(2) for value in values[:3])
    if name in {"convert", "cvt"}:
        return _quantity(values)
    return " ".join(values) if name in JOINED or kind in DATES else None


def _quantity(values: list[str]) -> str:
    """Return the numbers and the unit of `convert`: 5 km, 5 to 10 km, 6 ft 2 in."""
    numbers = [value.lstrip("+-−")[:1].isdigit() for value in values]
    units = [n for n, value in enumerate(values) if not numbers[n] and value not in RANGES]
    end = units[0] + 1 if units else len(values)
    while end + 1 in units and numbers[end]:
        end += 2
    return " ".join(values[:end])


def _unclosed(markup: str) -> int:
    """Return about how many brackets and tags are open at the end: the parser reads the rest again
    for each of them.
    """
    signs = sum(
        max(0, markup.count(left) - markup.count(right)) for left, right in ("{}", "[]", "<>")
    )
    return signs + max(0, len(_OPEN_TAG.findall(markup)) - markup.count("</"))


def to_text(code: "Wikicode", hidden: frozenset[str]) -> tuple[str, int]:
    """Return a page's text, one paragraph or heading a line, and how many templates its lines have
    lost.
    """
    text = _QUOTES.sub("", _SWITCH.sub("", "".join(_visible(code, hidden))))
    lost = 0
    lines: list[str] = []
    levels: list[int] = []  # of headings that have no text yet
    for line in text.split("\n"):
        level = len(line) - len(line.lstrip(_HEADING))
        marks = line.count(_LOST)
        line = " ".join(line.replace(_HEADING, "").replace(_LOST, "").split())
        if level:
            while levels and levels[-1] >= level:
                lines.pop()
                levels.pop()
            levels.append(level)
        elif line:
            lost += marks
            levels = []
        else:
            continue
        lines.append(line)
    return "\n".join(lines[: len(lines) - len(levels)]), lost


def _visible(code: "Wikicode | None", hidden: frozenset[str]) -> Iterator[str]:
    from mwparserfromhell.nodes import (
        ExternalLink,
        Heading,
        HTMLEntity,
        Tag,
        Template,
        Text,
        Wikilink,
    )

    node: Node
    for node in code.nodes if code is not None else ():
        if isinstance(node, Text):
            yield node.value.replace(_HEADING, "")
        elif isinstance(node, Template):
            yield _LOST
        elif isinstance(node, Heading):
            title = " ".join("".join(_visible(node.title, hidden)).split())
            yield f"\n{_HEADING * node.level}{title}\n"
        elif isinstance(node, HTMLEntity):
            sign = node.normalize()
            yield sign if encodes(sign) and sign not in {_HEADING, _LOST} else "\ufffd"
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
