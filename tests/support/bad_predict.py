"""Generated bad rows and bad models, and the outcome that each must have: answers, or one sentence
that says why not.
"""

import contextlib
import gzip
import io
import json
import re
from unittest import mock

import pyarrow
import pyarrow.parquet
from hypothesis import strategies as st

from pipelines.cli import main
from tests.support.models import write_finetuned, write_pretrained

MODELS = ("cola", "rte", "stsb", "mood", "chunks", "squad2")
COLUMNS = "a b sentence sentence1 sentence2 body number id tokens words question context".split()
DEEP = json.loads("[" * 900 + "]" * 900)
ODD = ["", " ", "x" * 3000, "cab " * 300]
ODD += "\u00a0 \u0301 \ufeff \x00 \t 漢字 [MASK] \u202e 𝄞".split(" ")
NO_RECORDS = r"""
{"a": "x \ud800"}
{"question": "\udfff", "context": "x"}
{"a": 1e999}
null
[]
"text"
text
-DOCSTART- -X- O
the B-NP
premise	hypothesis
<a>
""".split("\n")
NO_RECORDS += ["\r", "\x1a", f'{{"a": {"9" * 5000}}}', '{"a": ' + "[" * 100_000, "{" * 5000]

TEXT = st.sampled_from(["the cat runs.", "a dog is red", *ODD])
OTHERS = [None, True, -1, 10**400, float("nan"), [[]], DEEP]
VALUE = TEXT | TEXT.map(str.split) | st.sampled_from(OTHERS)
RECORD = st.dictionaries(st.sampled_from(COLUMNS), VALUE, max_size=4).map(json.dumps)
LINE = RECORD | st.lists(TEXT, max_size=3).map("\t".join) | st.sampled_from(NO_RECORDS)
GOOD = [json.dumps({name: "the cat runs." for name in COLUMNS if name not in {"id", "number"}})] * 3


def squad(values):
    """The one line of a file in the layout of SQuAD."""
    context, number, question, other = values
    paragraph = {"context": context, "qas": [{"id": number, "question": question}, other]}
    return [json.dumps({"data": [{"paragraphs": [paragraph]}]})]


QUESTIONS = st.tuples(VALUE, VALUE, VALUE, VALUE).map(squad)
LINES = st.lists(LINE, max_size=5) | st.lists(LINE, max_size=1).map(GOOD.__add__) | QUESTIONS
SUFFIXES = ("txt", "tsv", "jsonl", "json", "conll", "parquet", "txt.gz", "jsonl.gz", "")


@st.composite
def files(draw):
    """The name of a file and its bytes."""
    suffix = draw(st.sampled_from(SUFFIXES))
    if suffix == "parquet":
        names = draw(st.sets(st.sampled_from(COLUMNS), min_size=1, max_size=4))
        buffer = io.BytesIO()
        table = pyarrow.table({name: [draw(TEXT), None, "the cat"] for name in names})
        pyarrow.parquet.write_table(table, buffer)
        data = buffer.getvalue()
    else:
        others = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"]
        encoding = draw(st.sampled_from(["utf-8"] * 6 + others))
        data = "\n".join(draw(LINES)).encode(encoding, "replace")
        data = gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.sampled_from([b"", b"\xff", b"\x00", data[place + 1 :]]))
    return f"rows.{suffix}".rstrip("."), data


def models(root):
    """Untrained models of every kind, tiny."""
    write_pretrained(root)
    write_finetuned(root)
    return [root / name for name in MODELS]


def ask(model, folder, file, piped):
    """Ask a model one file, by name or through standard input: `answered` or `refused`."""
    name, data = file
    path = folder / name
    output = folder / "answers.jsonl"
    path.write_bytes(data)
    output.unlink(missing_ok=True)
    said = io.StringIO()
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    with contextlib.redirect_stderr(said), mock.patch("sys.stdin", stream):
        code = main(["predict", str(model), "-" if piped else str(path), "--output", str(output)])
    if code == 0:
        answers = [json.loads(row) for row in output.read_text().splitlines()]
        assert len({row["id"] for row in answers}) == len(answers)
        return "answered"
    sentence = re.sub(r"warning: .* has no MANIFEST\.json: .*\n", "", said.getvalue())
    assert code in {64, 65, 69, 70, 74}, sentence
    assert sentence.startswith("error: ") and sentence.count("\n") == 1, (code, sentence)
    assert not output.exists()
    return "refused"
