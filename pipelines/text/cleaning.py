"""Documents before tokenization: their class, the cleaning of lines, and the counts of dropped
text. A document is an id and a text whose lines are paragraphs (or sentences). Nothing here depends
on the source.
"""

import dataclasses
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from pydantic.dataclasses import dataclass

from electra.config import Amount, BelowOne, Count, Settings


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus, and how many templates of a wiki were removed from its sentences."""

    id: str
    text: str
    lost_templates: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """Input that could not be read: quarantined and counted. `where` is file:line; `lines` is the
    number of lines that it covers.
    """

    where: str
    reason: str
    excerpt: str = ""
    lines: int = 1


@dataclass(frozen=True, kw_only=True)
class QuarantineConfig(Settings):
    """The number of unreadable rows that are tolerated: a `fraction` of all rows, but at least
    `min_tolerated`.
    """

    fraction: BelowOne = 0.001
    min_tolerated: Amount = 5

    def tolerated(self, rows: int) -> int:
        """Return the number of bad rows that `rows` rows may have."""
        return max(self.min_tolerated, int(self.fraction * rows))


@dataclass(frozen=True, kw_only=True)
class Decontamination(Settings):
    """Drop or count documents that share 13 words in a row with dev or test texts of `tasks`."""

    tasks: str
    action: Literal["count", "drop"] = "drop"


@dataclass(frozen=True, kw_only=True)
class CleaningConfig(Settings):
    """Cleaning of every text. By default it only removes blank lines, control characters and empty
    documents.
    """

    unicode: Literal["none", "NFC", "NFKC"] = "NFC"
    # left-overs of wiki and web mark-up: formula_12, empty (), [citation needed], tags, entities
    markup: bool = False
    minimum_line: Count = 1  # characters; shorter lines are dropped
    minimum_document: Count = 1  # characters after cleaning; shorter documents are dropped
    # drop: exact repetitions, the first one stays
    duplicate_documents: Literal["keep", "drop"] = "keep"
    duplicate_lines: Literal["keep", "drop"] = "keep"  # drop: exact repetitions within a document
    # drop: exact repetitions in the whole corpus, the first one stays
    duplicate_paragraphs: Literal["keep", "drop"] = "keep"
    shortest_paragraph: Count = 40  # characters: shorter lines (headings, dialogue) may come again
    # ISO 639 codes, such as en: documents in another language are dropped
    language: tuple[str, ...] | str = ()
    # drop: documents that share most 5-grams of words with an earlier one
    near_duplicates: Literal["keep", "drop"] = "keep"
    # gopher: its published rules for text that is hardly prose
    quality: Literal["none", "gopher"] = "none"
    decontaminate: Decontamination | None = None

    def __post_init__(self) -> None:
        if isinstance(self.language, str):
            object.__setattr__(self, "language", (self.language,) if self.language else ())

    @property
    def filters(self) -> bool:
        """Return whether whole documents are filtered by their content."""
        return (
            bool(self.language or self.decontaminate)
            or self.quality != "none"
            or self.near_duplicates == "drop"
        )


# Controls other than tab and newline, of which some part words; the byte order mark. The
# replacement character stays, since it marks a loss.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff]")
_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\u2029")
_LONG_TAGS = (  # of HTML and of wikis; other text between < and > may be a comparison
    "abbr|address|article|aside|audio|big|blockquote|body|br|button|caption|center|cite|code|col|colgroup|dd|del|details|dfn"
    "|div|dl|dt|em|figcaption|figure|font|footer|form|gallery|h[1-6]|head|header|hr|html|iframe|img|includeonly|input|ins|kbd"
    "|label|li|link|main|math|meta|nav|noinclude|noscript|nowiki|ol|onlyinclude|option|picture|poem|pre|ref|references|samp"
    "|script|section|select|small|source|span|strike|strong|style|sub|summary|sup|svg|syntaxhighlight|table|tbody|td|template"
    "|textarea|tfoot|th|thead|time|timeline|title|tr|tt|ul|var|video|wbr"
)
_TAG = (
    rf"<(?=/?[a-z])/?(?:(?:[abipqsu]|{_LONG_TAGS})(?:\s+[\w:-]+\s*=[^<>\n]{{0,200}}+)?\s*+/?>"
    rf"|(?:{_LONG_TAGS})\s[^<>\n]{{0,200}}>)"
)
_TAGS = re.compile(_TAG, re.IGNORECASE)
# also an unclosed one: otherwise each would be searched again
_COMMENT = re.compile(r"<!--.*?(?:(-->)|$)", re.MULTILINE)
_MARKUP: list[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # a sign without which a text need not be searched, the pattern, and its replacement
    (
        "&",
        re.compile(r"&(?:nbsp|amp|quot|apos|lt|gt|ndash|mdash|#\d{2,5}|#x[0-9A-Fa-f]{2,5});"),
        lambda m: html.unescape(m[0]),
    ),
    ("_", re.compile(r"formula_\d+|codice_\d+"), " "),
    ("[", re.compile(r"\[(?:citation needed|edit|\d{1,3})\]"), ""),
    ("", re.compile(r"\{\{[^{}\n]*\}\}|\[\[|\]\]|''+"), ""),
    ("(", re.compile(r"\([;,\s]*+\)"), ""),
    (" ", re.compile(r" ([,.;:])(?=\s|$)"), r"\1"),
]


_MARKED_UP = re.compile(rf"{_TAG}|{_MARKUP[0][1].pattern}", re.IGNORECASE)


def looks_marked_up(text: str) -> bool:
    """Return whether a text holds a tag or an entity of HTML, which `markup: true` removes and
    decodes.
    """
    return ("<" in text or "&" in text) and _MARKED_UP.search(text) is not None


def _without_tags(text: str) -> tuple[str, int]:
    """Return the text with a space for each comment and each tag, and how many there were."""
    parts = []
    start = 0
    for comment in _COMMENT.finditer(text):
        if comment[1]:
            parts.append(text[start : comment.start()])
            start = comment.end()
    parts.append(text[start:])
    plain = [_TAGS.subn(" ", part) for part in parts]
    return " ".join(part for part, _ in plain), len(parts) - 1 + sum(count for _, count in plain)


def clean(text: str, config: CleaningConfig, counts: Counter[str]) -> str:
    """Return the text as clean lines, or "" when nothing worth keeping is left. Dropped text is
    added to `counts`.

    Keys of `counts`: lines_read (none blank) = lines (kept) + short_lines + duplicate_lines +
    lines_of_documents, empty_documents, short_documents, changed_control_characters,
    changed_markup.
    """
    text = _LINE_ENDS.sub("\n", text)
    if config.markup:  # first: an entity may stand for a character that later steps change
        if "<" in text:
            text, changed = _without_tags(text)
            counts["changed_markup"] += changed
        for sign, pattern, instead in _MARKUP:
            if sign in text:
                text, changed = pattern.subn(instead, text)
                counts["changed_markup"] += changed
    text, controls = _CONTROLS.subn(lambda sign: " " if sign[0].isspace() else "", text)
    counts["changed_control_characters"] += controls
    if config.unicode != "none":
        text = unicodedata.normalize(config.unicode, text)
    lines = []
    earlier = set()
    read = 0
    for line in text.split("\n"):
        if not (line := " ".join(line.split())):  # runs of any white space become one space
            continue
        read += 1
        if len(line) < config.minimum_line:
            counts["short_lines"] += 1
        elif config.duplicate_lines == "drop" and line in earlier:
            counts["duplicate_lines"] += 1
        else:
            lines.append(line)
            if config.duplicate_lines == "drop":
                earlier.add(line)
    counts["lines_read"] += read
    kept = "\n".join(lines)
    if lines and len(kept) >= config.minimum_document:
        counts["lines"] += len(lines)
        return kept
    counts["lines_of_documents"] += len(lines)
    counts["short_documents" if lines else "empty_documents"] += 1
    return ""


def unwrap(text: str) -> str:
    """Re-join the paragraphs of hard-wrapped text (some 72 columns): one paragraph a line, blank
    lines between.

    A line continues the one before when that one was filled (at least 60 % of the text's usual
    width) and this one is not set in: verse, tables of contents and title pages so keep their
    lines.
    """
    lines = [line.rstrip() for line in _LINE_ENDS.sub("\n", text).split("\n")]
    widths = sorted(len(line) for line in lines if line)
    if not widths:
        return ""
    filled = 0.6 * widths[int(0.9 * (len(widths) - 1))]
    paragraphs: list[list[str]] = []
    previous = ""
    for line in lines:
        if line and previous and len(previous) >= filled and not line[0].isspace():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
        previous = line
    return "\n".join(" ".join(parts) for parts in paragraphs)


# Signs that end a sentence wherever they stand: Unicode's property STerm and Sinhala's stop, less
# those of Latin text.
_ENDS = (
    "\u0589\u05c3\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u0df4"
    "\u0f0d\u0f0e\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945"
    "\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f\u203c\u203d\u2047-\u2049"
    "\u2cf9-\u2cfb\u2e2e\u2e3c\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f"
    "\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe52\ufe56\ufe57\uff01\uff1f\uff61"
)
_RARE_ENDS = (
    "\U00010a56\U00010a57\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5"
    "\U000111c6\U00011238\U00011239\U0001144b\U0001144c\U000115c2\U000115c3\U00011641\U00011642"
    "\U00011a42\U00011a43\U00011c41\U00011c42\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38"
    "\U00016b44\U00016e98\U0001e95e\U0001e95f"
)
# A sign is searched for first, which the regular expression engine does at full speed. The ends of
# English sentences are found by the pattern alone; group 1 is a stop that `_ends_sentence` judges.
# Behind a Greek letter ; is a question mark.
_PATTERN = (
    r"[.!?…;．፡{ends}](?:(?<=[{ends}])[{ends}]*[\"'”’»›）」』】》〉)\]]*+|(?<=．)(?!\d)|(?<=፡)፡"
    r"|(?<=[.!?…])(?<!\b[A-Z]\.)(?<![^\0-\x7f]\.)(?<!\b(?:Mr|Dr|St|vs)\.)(?<!\bMrs\.)"
    r"[\"'”’)\]]* (?=[\"'“‘(\[]*[A-Z0-9])"
    r"|(?:(?<=[.!?…])|(?<=[Ͱ-Ͽἀ-῿];))([\"'”’“»›«‹」』)\]]*+(?: [»›](?= ))? (?![a-z])))"
)
_SENTENCE_END = re.compile(_PATTERN.replace("{ends}", _ENDS))
# Lines with these characters are searched with a slower pattern: Thai and Lao, which end sentences
# with a space, and scripts outside the BMP.
_RARE = re.compile("[ก-๛ກ-ໟ\U00010000-\U0010ffff]")
_RARE_SENTENCE_END = re.compile(
    _PATTERN.replace("{ends}", _ENDS + _RARE_ENDS) + "|(?<=[ก-ๅ็-๛ກ-ໟ]) (?=[ก-ฮเ-ไກ-ຮເ-ໄ])"
)
_OPENING = re.compile(r"(?:[\"'“‘„‚»›¿¡(\[「『《〈]|[«‹] ?)*+")
LONGEST_QUOTE = 1000  # characters
_ABBREVIATION = re.compile(r"\b(?:Mr|Dr|St|vs|Mrs)$")


def sentences(line: str) -> Iterator[str]:
    """Split a paragraph into sentences, roughly, in any script.

    A sentence ends at a sign that has no other use, at a stop before a space and anything but a
    small letter, or in Thai and Lao at a space. An initial and `Mr.`, `Dr.`, `St.`, `vs.`, `Mrs.`
    end none.
    """
    start = 0
    rare = not line.isascii() and _RARE.search(line)
    ends = _RARE_SENTENCE_END if rare else _SENTENCE_END
    for match in ends.finditer(line):
        if match[1] and not _ends_sentence(line, match):
            continue
        if piece := line[start : match.end()].strip(" "):
            yield piece
        start = match.end()
    if piece := line[start:].strip(" "):
        yield piece


def _ends_sentence(line: str, stop: re.Match[str]) -> bool:
    """Return whether a stop doesn't belong to an abbreviation and the text behind it may begin a
    sentence.
    """
    if stop[0][0] == ".":
        before = line[max(0, stop.start() - 4) : stop.start()]
        # an initial, in any alphabet
        if before[-1:].isupper() and not re.search(r"\w", before[-2:-1]):
            return False
        if _ABBREVIATION.search(before):
            return False
    if "“" in stop[1] and "„" not in line[max(0, stop.start() - LONGEST_QUOTE) : stop.start()]:
        return False  # it opens, but in German
    opening = _OPENING.match(line, stop.end())
    beginning = line[opening.end() : opening.end() + 1] if opening else ""
    # Georgian's small letters are its only ones
    return beginning.isalnum() and (not beginning.islower() or "ა" <= beginning <= "ჿ")
