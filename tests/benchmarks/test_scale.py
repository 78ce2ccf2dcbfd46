"""The copies of text with which benchmarks/scale.py makes a corpus larger than the text at hand."""

import json
import lzma
import math
import re
from pathlib import Path

import pytest

from benchmarks.scale import copy
from electra.files import read_json
from pipelines.sources.documents import RANGE_BYTES
from pipelines.stages.corpus import PART_BYTES
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("hard_wrapped", "text", "expected"),
    [
        (False, "One line.\nAnother.\n\nA third.", "once One line.\nonce Another.\n\nonce A third."),
        (True, "A line\nthat goes on.\n\n\n\n  Next.", "once A line\nthat goes on.\n\n\n\nonce   Next."),
    ],
)
def test_every_paragraph_of_a_copy_is_its_own(tmp_path: Path, hard_wrapped: bool, text: str, expected: str) -> None:
    source = tmp_path / "wiki-0.jsonl.xz"
    with lzma.open(source, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"id": "1", "text": text}) + "\n")
    written = Path(copy(str(source), "once", hard_wrapped, tmp_path))
    assert written.name == "once-wiki-0.jsonl"
    assert [json.loads(line) for line in written.open(encoding="utf-8")] == [{"text": expected}]


def test_the_table_on_paper_follows_from_the_record() -> None:
    size = read_json(ROOT / "benchmarks/results/scale.json")["sizes"]["four times"]
    page = (ROOT / "docs/scale.md").read_text()
    text, rate = size["text_bytes"] / size["tokens"], size["tokens_per_cpu_second"]["both"]
    rows, disk = size["row_bytes"] / size["tokens"], size["rows"]["peak_disk_megabytes"] * 1e6 / size["tokens"]
    for column, tokens in enumerate((3.3e9, 3.3e10, 1e12)):
        units = [math.ceil(tokens * text / unit) for unit in (RANGE_BYTES, PART_BYTES)]
        expected = {
            "processor time, both stages": f"{_two(tokens / rate / 3600)} core hours",
            "units, of documents and of rows": f"{units[0]:,} and {units[1]:,}",
            "clean documents on disk": _bytes(tokens * text),
            "rows of 128 and 512": _bytes(tokens * rows),
            "most disk at a time": _bytes(tokens * disk),
        }
        for what, cell in expected.items():
            (line,) = re.findall(rf"^\| {what} \|(.*)\|$", page, re.M)
            assert line.split("|")[column].strip() == cell, (what, column)


def _bytes(count: float) -> str:
    return f"{count / 1e12:.2g} TB" if count >= 1e12 else f"{count / 1e9:.0f} GB"


def _two(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def test_what_the_page_says_of_the_scheduler_is_the_record() -> None:
    runs = read_json(ROOT / "benchmarks/results/scale.json")["scheduler"]["hundredth_of"]
    page = " ".join((ROOT / "docs/scale.md").read_text().split())
    stages = [stage for run in runs.values() for stage in run.values()]
    cost = [stage["cpu_milliseconds_per_unit"] for stage in stages]
    assert f"took {min(cost):.0f} to {max(cost):.0f} ms of processor time a unit" in page
    assert f"{max(stage['peak_megabytes'] for stage in stages):.0f} MB at most" in page
    read, packed = (runs["1.0e+12 tokens"][stage] for stage in ("corpus", "rows"))
    for unit, what in ((read, "units of documents took "), (packed, "of rows ")):
        told = f"{unit['units']:,} {what}{unit['seconds']:.0f} s where {unit['ideal_seconds']:.0f} s"
        assert told in page, told
