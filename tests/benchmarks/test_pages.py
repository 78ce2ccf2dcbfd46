"""The pages have the numbers of the records."""

import re

import pytest

from benchmarks import pages
from electra.files import read_json
from tests.support.project import ROOT


def record(name):
    return dict(read_json(ROOT / f"benchmarks/results/{name}.json"))


@pytest.mark.parametrize("name", pages.PAGES)
def test_regions_are_as_they_would_be_written(name):
    """If this fails, run `python benchmarks/pages.py`."""
    text = (ROOT / name).read_text()
    assert "<!-- end -->" in text and pages.fill_regions(text) == text


def test_the_table_of_scale_on_paper():
    size = record("scale")["sizes"]["four times"]
    page = (ROOT / "docs/scale.md").read_text()
    text = size["text_bytes"] / size["tokens"]
    rate = size["tokens_per_cpu_second"]["both"]
    rows = size["row_bytes"] / size["tokens"]
    disk = size["rows"]["peak_disk_megabytes"] * 1e6 / size["tokens"]

    def written(count):
        return f"{count / 1e12:.2g} TB" if count >= 1e12 else f"{count / 1e9:.0f} GB"

    for column, tokens in enumerate((6.0e9, 3.3e10, 1e12)):
        expected = {
            "processor time, both stages": f"{float(f'{tokens / rate / 3600:.2g}'):g} core hours",
            "clean documents on disk": written(tokens * text),
            "rows of 128 and 512": written(tokens * rows),
            "most disk at a time": written(tokens * disk),
        }
        for what, cell in expected.items():
            (line,) = re.findall(rf"^\| {what} \|(.*)\|$", page, re.M)
            assert line.split("|")[column].strip() == cell, (what, column)
