"""Dumps of Wikipedia: which pages are articles, what of their markup is text, ranges of multistream
files.
"""

import bz2
from html import escape
from pathlib import Path
from typing import Any

import pytest

from electra.errors import BadInput
from pipelines.sources import CorpusConfig, LocalCorpus, documents, streams
from pipelines.sources.streams import Skipped
from pipelines.text.cleaning import Document, Rejected
from tests.pipelines.sources import bad_input

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
END = "</mediawiki>\n"


def page(
    number: int, text: str, namespace: int = 0, more: str = "", model: str = "wikitext"
) -> str:
    return (
        f"  <page>\n    <title>T{number}</title>\n    <ns>{namespace}</ns>\n    <id>{number}</id>\n{more}"
        f"    <revision>\n      <id>9{number}</id>\n      <model>{model}</model>\n"
        f'      <text bytes="1" xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


def read(path: Path, data: str | bytes) -> list[Any]:
    return bad_input.read(
        path, data if isinstance(data, bytes) else data.encode(), kind="wikipedia"
    )


@pytest.mark.parametrize(("markup", "text"), [
    ("'''Bold''' and ''italic'' [[link]]s, [[Page (x)|shown ''so'']], [http://x.org a site], [http://x.org].", "Bold and italic links, shown so, a site, ."),
    ("{{Infobox\n| a = {{nested|{{deep}}}}\n| b = [[x]]\n}}One{{cite|x}}.<ref name=a>No {{t}}</ref><ref name=b/>\n\nTwo.<!-- c -->", "One.\nTwo."),
    ("A\n{| class=wikitable\n|-\n! h\n| cell ||\n{| \n| in\n|}\n|}\nB", "A\nB"),
    ("[[Datei:A.jpg|thumb|A [[caption]] of it]]\n[[File:B.png]]X[[Kategorie:Y]]\n[[:Kategorie:Z]] [[category:Y]][[fr:X]]", "X\nKategorie:Z"),
    ("Lead.\n== First ==\n=== Sub [[x|y]] ===\nText.\n== Empty ==\n== Links ==\n* [http://x.org Site]\n# Two\n== Gone ==\n{{t}}", "Lead.\nFirst\nSub y\nText.\nLinks\nSite\nTwo"),
    ("__NOTOC__a<br>b &nbsp;&amp; <nowiki>[[c]]</nowiki> <span style='x'>d</span><gallery>\nA.jpg|x\n</gallery> [[CSI: Miami]]", "a\nb & [[c]] d CSI: Miami"),
    ("A {{big|{}|\nx}}\n{|\n|}}\n|}B\n{| \nopen", "A\nB\n{|\nopen"),
    ("a&#xD800;b &#xE000;c", "a\ufffdb \ufffdc"),
    ("{{unclosed [[link] ''' <div>", "{{unclosed [[link] <div>"),
])  # fmt: skip
def test_markup_becomes_text(tmp_path: Path, markup: str, text: str) -> None:
    assert read(tmp_path / "a.xml", HEADER + page(7, markup) + END) == [Document("7", text)]


def test_articles_are_documents_and_other_pages_are_counted(tmp_path: Path) -> None:
    pages = [
        page(1, "One."),
        page(2, "x", more='    <redirect title="T1" />\n'),
        page(3, "talk", namespace=1),
    ]
    pages += [page(4, "{}", model="json"), page(5, "Five.")]
    found = read(tmp_path / "dump", HEADER + "".join(pages) + END)
    left_out = [Skipped(reason) for reason in ("redirects", "other_namespaces", "other_models")]
    assert found == [Document("1", "One."), *left_out, Document("5", "Five.")]


def test_damage_costs_its_page_and_a_cut_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.xml.bz2"
    bad = [
        page(8, "<div style='" * 400),
        page(2, "x").replace("</text>", ""),
        page(3, "x").replace("  </page>\n", ""),
        page(4, "&").replace("&amp;", "&e;"),
    ]
    pages = [
        page(1, "One."),
        *bad,
        page(5, "Five."),
        page(6, "x\n\ny").replace("  <page>\n", ""),
        page(7, "Seven."),
    ]
    items = read(path, bz2.compress((HEADER + "".join(pages) + END).encode()))
    assert [item.id for item in items if isinstance(item, Document)] == ["1", "5", "7"]
    rejected = [item for item in items if isinstance(item, Rejected)]
    assert [item.where for item in rejected[:4]] == [f"{path}:{number}" for number in (8, 2, 3, 4)]
    assert [item.reason for item in rejected] == [
        "more than 300 brackets or tags that are not closed",
        "not XML", "a <page> without </page>", "not XML", "text outside <page>",
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"it ends before </mediawiki>.*get the file again"):
        read(tmp_path / "a.xml", HEADER + page(1, "One.") + page(2, "Two.")[:-20])
    with pytest.raises(BadInput, match=r"does not begin with <mediawiki>; change `kind`"):
        read(tmp_path / "a.xml", "<DOC>\nanother kind\n</DOC>\n")


def multistream(count: int) -> bytes:
    pages = [
        page(number, f"Text {number} {{{{t}}}} of [[Datei:x|y]] " + "word " * (number % 40))
        for number in range(count)
    ]
    parts = [HEADER, *("".join(pages[first : first + 5]) for first in range(0, count, 5)), END]
    return b"".join(bz2.compress(part.encode()) for part in parts)


def test_a_multistream_file_is_read_in_ranges_of_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = tmp_path / "a.xml.bz2", multistream(200)
    whole = read(path, data)
    assert len(whole) == 200 and all(isinstance(item, Document) for item in whole)
    monkeypatch.setattr(documents, "RANGE_BYTES", 1500)
    monkeypatch.setattr(streams, "BLOCK", 200)
    source = LocalCorpus(kind="wikipedia", files=(str(path),))

    def units() -> list[documents.WorkUnit]:
        return documents.plan(CorpusConfig(sources=(source,)), "corpora.x", tmp_path)[1]

    pieces = [piece for unit in units() for piece in unit.pieces]
    assert len(pieces) > 4 and sum(piece.size for piece in pieces) == len(data)
    assert [item for unit in units() for item in unit.read()] == whole
    path.write_bytes(bz2.compress(bz2.decompress(data)) + bz2.compress(b"BZh91AY&SY" * 300))
    assert len([piece for unit in units() for piece in unit.pieces]) == 1, (
        "no stream begins with a page"
    )
