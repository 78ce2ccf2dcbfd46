"""The report in git is the one that today's code draws of the results in git, to the byte.

Where it is not, `dvc repro` draws it again. What the page says of build/, which git does not have,
is left out here.
"""

import re

import pytest

from pipelines import report
from pipelines.config.params import load
from tests.support.project import ROOT

COMMITTED = ROOT / "results" / "report"


def without_build(page):
    """Return a page less its examples, their link, and hashes of files in build/."""
    page = re.sub(r'<section><h2 id="examples">.*?</section>', "", page, flags=re.DOTALL)
    page = re.sub(r'<a href="#examples">[^<]*</a>', "", page)
    return re.sub(r"<tr><th [^>]*>build/.*?</tr>", "", page)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        report.build(load(), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("part", ["figures", "tables"])
def test_figures_and_tables_are_up_to_date(drawn, part):
    here, there = (
        {path.name: path.read_bytes() for path in (root / part).iterdir()}
        for root in (drawn, COMMITTED)
    )
    stale = sorted(name for name in here | there if here.get(name) != there.get(name))
    assert not stale, f"results/report/{part} is stale: dvc repro"


@pytest.mark.lock
def test_the_page_is_up_to_date(drawn):
    here, there = (without_build((root / "index.html").read_text()) for root in (drawn, COMMITTED))
    assert len(here) > 5000
    assert here == there, "results/report/index.html is stale: dvc repro"
