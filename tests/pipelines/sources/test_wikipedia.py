"""Dumps of Wikipedia: which pages are articles, what of their markup is text, ranges of multistream
files.
"""

import bz2
from dataclasses import replace
from unittest.mock import Mock

import pytest

from electra.errors import BadInput
from pipelines.sources import CorpusConfig, LocalCorpus, documents, streams
from pipelines.sources.streams import Skipped
from pipelines.text.cleaning import Document
from tests.support import bad_input
from tests.support.delivered import WIKI_END, WIKI_HEADER, multistream, wiki_page


def read(path, *pages):
    """Write a dump of these pages, and return its items."""
    dump = "".join([WIKI_HEADER, *pages, WIKI_END]).encode()
    data = bz2.compress(dump) if path.suffix == ".bz2" else dump
    return bad_input.read(path, data, kind="wikipedia")


@pytest.mark.parametrize("markup, text", [
    ("'''Bold''' and ''italic'' [[link]]s, [[Page (x)|shown ''so'']], [http://x.org a site], [http://x.org].", "Bold and italic links, shown so, a site, ."),
    ("{{Infobox\n| a = {{nested|{{deep}}}}\n| b = [[x]]\n}}One{{cite|x}}.<ref name=a>No {{t}}</ref><ref name=b/>\n\nTwo.<!-- c -->", "One.\nTwo."),
    ("A\n{| class=wikitable\n|-\n! h\n| cell ||\n{| \n| in\n|}\n|}\nB", "A\nB"),
    ("[[Datei:A.jpg|thumb|A [[caption]] of it]]\n[[File:B.png]]X[[Kategorie:Y]]\n[[:Kategorie:Z]] [[category:Y]][[fr:X]]", "X\nKategorie:Z"),
    ("Lead.\n== First ==\n=== Sub [[x|y]] ===\nText.\n== Empty ==\n== Links ==\n* [http://x.org Site]\n# Two\n== Gone ==\n{{t}}", "Lead.\nFirst\nSub y\nText.\nLinks\nSite\nTwo"),
    ("__NOTOC__a<br>b &nbsp;&amp; <nowiki>[[c]]</nowiki> <span style='x'>d</span><gallery>\nA.jpg|x\n</gallery> [[CSI: Miami]]", "a\nb & [[c]] d CSI: Miami"),
    ("A {{big|{}|\nx}}\n{|\n|}}\n|}B\n{| \nopen", "A\nB\n{|\nopen"),
    ("a&#xD800;b &#xE000;c", "a\ufffdb \ufffdc"),
    ("[[a]]\n" * 301, "a\n" * 300 + "a"),
    ("{{unclosed [[link] ''' <div>", "{{unclosed [[link] <div>"),
    ("It is {{convert|5|km|mi|1}} long, {{cvt|6|ft|2|in}} high and {{convert|5|to|10|km|mi|abbr=on}} wide at {{convert|-5|C|F}}.",
     "It is 5 km long, 6 ft 2 in high and 5 to 10 km wide at -5 C."),
    ("{{formatnum:1234}} of {{val|5.2|u=km}}, {{unité|3|m}}, {{frac|1|2}}, {{frac|3|1|2}}", "1234 of 5.2 km, 3 m, 1/2, 3 1/2"),
    ("Born {{birth date and age|1990|5|17}}, {{start date|df=y|1990}}, {{date|17|mai|1990}}, {{circa|1500}}",
     "Born 1990-05-17, 1990, 17 mai 1990, c. 1500"),
    ("A {{nowrap|few ''[[x|words]]''}}, {{lang|fr|le mot}}, {{lang-de|Wort}}, {{transl|ru|ISO|slovo}}{{snd}}{{lang|ja|[[a|b]]}}",
     "A few words, le mot, Wort, slovo – b"),
    ("{{Infobox|a={{convert|5|km}}|b={{x}}}}\nThe {{nowrap|{{convert|5|km}} way}}.", "The 5 km way."),
    ("{{lang-uk|{{nobr|Київ}}}} {{small|{{nowrap|{{nts|5}}}}}}{{{x}}}", "Київ 5"),
])  # fmt: skip
def test_markup_becomes_text_and_so_do_templates_that_stand_for_text(tmp_path, markup, text):
    assert read(tmp_path / "a.xml", wiki_page(7, markup)) == [Document("7", text)]


def test_other_templates_within_a_sentence_are_counted(tmp_path):
    markup = (
        "{{Infobox|a={{x}} and {{y}}}}\n'''A''' is {{height|5}} high.<ref>{{cite|x}}</ref>\n"
        "{{t}} is B.\n{{clear}}\n== H =={{anchor|h}}\n\ue001Text.\n{|\n| a {{x}} b\n|}\n* {{x}}\n"
        "C is {{y|{} }} and {{t|{{z}}}}."
    )
    (document,) = read(tmp_path / "a.xml", wiki_page(7, markup))
    assert document == Document("7", "A is high.\nis B.\nH\nText.\nC is and .")
    assert document.lost_templates == 4


def test_articles_are_documents_and_other_pages_are_counted(tmp_path):
    edited = "<revision><text>Old.</text></revision><revision>"
    assert read(
        tmp_path / "dump",
        wiki_page(1, "One.").replace("<revision>", edited),
        wiki_page(2, "x", more='    <redirect title="T1" />\n'),
        wiki_page(3, "talk", namespace=1),
        wiki_page(4, "{}", model="json"),
        wiki_page(5, "Five."),
    ) == [
        Document("1", "One."),
        *map(Skipped, ("redirects", "other_namespaces", "other_models")),
        Document("5", "Five."),
    ]


def test_damage_costs_its_page(tmp_path):
    path = tmp_path / "a.xml.bz2"
    items = read(
        path,
        wiki_page(1, "One."),
        wiki_page(8, "<div style='" * 400),
        wiki_page(2, "x").replace("</text>", ""),
        wiki_page(3, "x").replace("  </page>\n", ""),
        wiki_page(4, "&").replace("&amp;", "&e;"),
        wiki_page(5, "Five."),
        wiki_page(6, "x\n\ny").replace("  <page>\n", ""),
        wiki_page(7, "Seven."),
    )
    assert bad_input.texts(items) == ["One.", "Five.", "Seven."]
    *rejected, (_, outside) = bad_input.rejections(items)
    assert rejected == [
        (f"{path}:8", "more than 300 brackets or tags that are not closed"),
        (f"{path}:2", "not XML"),
        (f"{path}:3", "a <page> without </page>"),
        (f"{path}:4", "not XML"),
    ]
    assert outside == "text outside <page>"


@pytest.mark.parametrize("content, sentence", [
    (WIKI_HEADER + wiki_page(1, "One.")[:-20], r"it ends before </mediawiki>.*get the file again"),
    ("<DOC>\nanother kind\n</DOC>\n", "does not begin with <mediawiki>; change `kind`"),
])  # fmt: skip
def test_a_file_that_is_no_whole_dump_is_refused(tmp_path, content, sentence):
    with pytest.raises(BadInput, match=sentence):
        bad_input.read(tmp_path / "a.xml", content.encode(), kind="wikipedia")


def test_a_page_at_which_the_parser_fails_is_quarantined(tmp_path, monkeypatch):
    monkeypatch.setattr("mwparserfromhell.parse", Mock(side_effect=RecursionError))
    items = read(tmp_path / "a.xml", wiki_page(1, "One."))
    assert [reason for _, reason in bad_input.rejections(items)] == ["not wiki markup"]


def test_a_multistream_file_is_read_in_ranges_of_its_streams(tmp_path, monkeypatch):
    path = tmp_path / "a.xml.bz2"
    data = multistream(200)
    expected = bad_input.read(path, data, kind="wikipedia")
    assert len(expected) == 200 and all(isinstance(item, Document) for item in expected)
    monkeypatch.setattr(documents, "RANGE_BYTES", 1500)
    monkeypatch.setattr(streams, "BLOCK", 200)
    source = LocalCorpus(kind="wikipedia", files=(str(path),))

    def units():
        return documents.plan(CorpusConfig(sources=(source,)), "corpora.x", tmp_path)[1]

    pieces = [piece for unit in units() for piece in unit.pieces]
    assert len(pieces) > 4 and sum(piece.size for piece in pieces) == len(data)
    assert [item for unit in units() for item in unit.read()] == expected
    (tmp_path / "a.xml").write_bytes(bz2.decompress(data))
    plain = CorpusConfig(sources=(replace(source, files=(str(tmp_path / "a.xml"),)),))
    assert len(documents.plan(plain, "corpora.x", tmp_path)[1][0].pieces) > 4
    path.write_bytes(bz2.compress(bz2.decompress(data)) + bz2.compress(b"BZh91AY&SY" * 300))
    assert len(units()) == 1, "no stream begins with a page"
