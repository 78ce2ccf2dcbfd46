"""Files as Gigaword, crawls and Wikipedia are delivered."""

import bz2
import gzip
from html import escape


def doc(number, body, kind="story"):
    return f'<DOC id="NYT_ENG_19940701.{number:04d}" type="{kind}" >\n{body}\n</DOC>\n'


STORY = """<HEADLINE>
A Headline
&AMP; More
</HEADLINE>
<DATELINE>
LONDON, July 1 (AFP)
</DATELINE>
<TEXT>
<P>
Wrapped text of {0}
that goes on &lt;here&gt;.
</P>
<P>
Second.
</P>
</TEXT>"""


def record(body, kind="response", version="1.0", end="\r\n", **headers):
    named = {"WARC-Type": kind, **{key.replace("_", "-"): value for key, value in headers.items()}}
    named.setdefault("Content-Length", str(len(body)))
    head = [f"WARC/{version}", *(f"{key}: {value}" for key, value in named.items()), "", ""]
    return end.join(head).encode() + body + b"\r\n\r\n"


def answer(body, media="text/html; charset=utf-8", status="200 OK", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\n{more}\r\n".encode() + body


def html(text, meta=""):
    around = f"<html><head>{meta}<title>T</title></head><body><nav><a href=/>Home</a></nav>"
    return f"{around}<main><h1>On it</h1>\n<p>{text}\nin two lines.</p><p>Second.</p></main><footer>(c)</footer></html>"


WIKI_HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
WIKI_END = "</mediawiki>\n"


def wiki_page(number, text, namespace=0, more="", model="wikitext"):
    ns = f"    <ns>{namespace}</ns>\n" if namespace or number % 2 else ""  # old dumps have none
    return (
        f"  <page>\n    <title>T{number}</title>\n{ns}    <id>{number}</id>\n{more}"
        f"    <revision>\n      <id>9{number}</id>\n      <model>{model}</model>\n"
        f'      <text bytes="1" xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


def multistream(count):
    pages = [
        wiki_page(number, f"Text {number} {{{{t}}}} of [[Datei:x|y]] " + "word " * (number % 40))
        for number in range(count)
    ]
    parts = [
        WIKI_HEADER,
        *("".join(pages[first : first + 5]) for first in range(0, count, 5)),
        WIKI_END,
    ]
    return b"".join(bz2.compress(part.encode()) for part in parts)


def write_delivered(folder):
    """Write two files of each kind, and return their sources."""
    folder.mkdir()
    for number in range(2):
        pages = [record(answer(html(f"Page {number} {i}.").encode())) for i in range(9)]
        records = [record(b"", "request"), *pages, record(answer(b"GIF", "image/gif"))]
        (folder / f"{number}.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
        stories = (
            doc(10 * number + i, STORY.format(10 * number + i), ("story", "multi")[i % 2])
            for i in range(9)
        )
        (folder / f"nyt_{number}.gz").write_bytes(gzip.compress("".join(stories).encode()))
        (folder / f"{number}.xml.bz2").write_bytes(multistream(50))
    named = {"warc": "*.warc.gz", "gigaword": "nyt*", "wikipedia": "*.xml.bz2"}
    return [{"kind": kind, "files": [f"{folder}/{pattern}"]} for kind, pattern in named.items()]
