"""Bad input never gives a traceback or a silent drop: of generated files everything is counted, or
one sentence says why not.
"""

import json
import re

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from electra.errors import UserError
from pipelines.sources.streams import Skipped, byte_order_mark
from pipelines.text.cleaning import Document, Rejected
from tests.support.bad_input import BAD_LINES, COMPRESS, flip, parquet, read, texts

# parts of what is delivered
RECORDS = b"""WARC/1.0\nWARC-Type: response\nContent-Length: 9\nHTTP/1.1 200 OK
Content-Type: text/html\n<DOC id="7" type="story" >\n<P>\n</DOC>\n<mediawiki>\n<page>\n</page>
</mediawiki>\n</doc>\n<doc id="7">\n\n \n\r\n\x00\n\xef\xbb\xbf\n\xc2\x85\n\xe2\x80\xa8""".split(
    b"\n"
)
VALUES = st.recursive(st.none() | st.floats() | st.text(max_size=5), st.lists, max_leaves=4)
LINES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([line for line, _ in BAD_LINES[:-2]]),
    st.sampled_from(RECORDS),
    st.text(max_size=20).map(lambda text: json.dumps({"text": text}).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    VALUES.map(lambda value: json.dumps({"text": "t", "id": value}).encode()),
)
FORMATS = "auto jsonl wikiextractor text parquet warc gigaword wikipedia".split()
FORMS = [
    *({"format": kind} for kind in FORMATS),
    {"format": "text", "documents": "blank_lines"},
    {"format": "text", "documents": "lines"},
    {"hard_wrapped": True},
]
DAMAGE = st.tuples(
    st.sampled_from("none none cut flip append".split()), st.integers(0, 2**20), st.integers(1, 255)
)
ROW = st.fixed_dictionaries({"text": st.text(max_size=9) | st.none(), "id": st.text(max_size=3)})
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def damaged(data, kind, place, value):
    place %= len(data) or 1
    if kind == "cut":
        return data[:place]
    if kind == "append":
        return data + bytes([value]) * (1 + place % 9)
    return flip(data, place, value) if kind == "flip" and data else data


def read_or_refuse(path, **form):
    """Return the items of a file, or None where one sentence says why there are none."""
    try:
        items = read(path, **form)
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return None
    for item in items:
        assert isinstance(item, Document | Rejected | Skipped)
        if isinstance(item, Rejected):
            assert re.match(rf"{re.escape(str(path))}:\d+$", item.where)
            (item.reason + item.excerpt).encode()
    return items


@settings(quick, max_examples=250)
@example([b'{"text": ""}'], {"format": "jsonl"}, "a", "", 1, ("none", 0, 1))
@given(
    lines=st.lists(LINES, max_size=8),
    form=st.sampled_from(FORMS),
    name=st.sampled_from(["a", "a.txt", "a.jsonl", "a.json", "a.parquet"]),
    suffix=st.sampled_from(list(COMPRESS)),
    streams=st.integers(1, 3),
    damage=DAMAGE,
)
def test_any_file_is_accounted_for_or_a_sentence(
    tmp_path, lines, form, name, suffix, streams, damage
):
    data = b"\n".join(lines)
    step = len(data) // streams + 1
    parts = [data[start : start + step] for start in range(0, len(data) or 1, step)]
    path = tmp_path / (name + suffix)
    path.write_bytes(damaged(b"".join(map(COMPRESS[suffix], parts)), *damage))
    items = read_or_refuse(path, **form)
    # what is read at all is read whole: undamaged files, and compressed ones, by their checksums
    whole = damage[0] == "none" or (damage[0] == "flip" and suffix)
    if items is None or not whole or form.get("format") not in {"jsonl", "text"}:
        return
    if encoding := byte_order_mark(data):
        data = data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    given_lines = data.decode(errors="replace").removeprefix("\ufeff").split("\n")
    documents = texts(items)
    kept = len(documents)  # a row may have an empty text
    if form["format"] == "text":
        kept = count_filled("\n".join(documents).split("\n"))
    rejected = sum(item.lines for item in items if isinstance(item, Rejected))
    assert count_filled(given_lines) == kept + rejected, (lines, items)


def count_filled(lines):
    return sum(bool(line.strip()) for line in lines)


@settings(quick, max_examples=60)
@given(st.lists(ROW, min_size=1, max_size=9), DAMAGE)
@example([{"text": "a" * 9, "id": "x"}] * 9, ("flip", 7, 255))
def test_any_parquet_file_is_accounted_for_or_a_sentence(tmp_path, rows, damage):
    path = tmp_path / "a.parquet"
    path.write_bytes(damaged(parquet(rows), *damage))
    read_or_refuse(path)
