"""The committed report in a real browser: ten screens at most, no wider than a phone, nothing
fetched from anywhere.
"""

import json

import pytest

from tests.support.browser import DESKTOP, PHONE, browser, needs_browser
from tests.support.project import ROOT

pytestmark = [needs_browser, pytest.mark.slow]
PAGE = ROOT / "results/report/index.html"
# texts that leave the figure that they are drawn in, or the cell of a table
OUTSIDE = """
(() => {
  const outside = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1
    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  const texts = [...document.querySelectorAll('svg text')]
    .filter(text => outside(text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()));
  const cells = [...document.querySelectorAll('td, th')].filter(cell => cell.scrollWidth > cell.clientWidth + 1);
  return [...texts, ...cells].map(each => each.textContent);
})()
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab
        absent = (
            set()
            if PAGE.with_name("run.js").is_file()
            else {"Failed to load resource: net::ERR_FILE_NOT_FOUND"}
        )
        assert {*tab.said} <= absent  # run.js is not in git: before the first run there is none
        assert not [url for url in tab.asked if not url.startswith("file://")]


@pytest.mark.skipif(not PAGE.is_file(), reason="no report was drawn")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_fits(tab, size, dark):
    tab.open(PAGE.as_uri(), size, dark=dark)
    assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if size == DESKTOP:
        assert tab.run("document.documentElement.scrollHeight") <= 10 * size[1]
        bottom = "document.querySelector('.hero figure').getBoundingClientRect().bottom"
        assert tab.run(bottom) <= size[1]
        tables = (
            "[...document.querySelectorAll('.scroll')].filter(each => !each.closest('details'))"
        )
        assert tab.run(f"{tables}.every(each => each.scrollWidth <= each.clientWidth)"), (
            "a table is cut off"
        )


def test_no_text_leaves_its_figure_or_its_cell_and_a_phone_shows_the_verdicts(tab):
    tab.open(PAGE.as_uri(), PHONE)
    seen = "Array.from(document.querySelectorAll('#table-tiny-tasks .mark'), each => each.getBoundingClientRect().right)"
    assert all(right <= PHONE[0] for right in tab.run(seen))
    for size in (DESKTOP, PHONE):
        tab.open(PAGE.as_uri(), size)
        tab.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert tab.run(OUTSIDE) == []


def test_figures_in_files_have_a_dark_version(tab):
    figure = PAGE.parent / "figures/tiny-tasks.svg"
    colour = "getComputedStyle(document.querySelector('#patch_1 path')).fill"
    tab.open(figure.as_uri())
    assert tab.run(colour) == "rgb(254, 254, 254)"
    tab.open(figure.as_uri(), dark=True)
    assert tab.run(colour) == "rgb(20, 24, 29)"


def test_without_a_local_run_the_page_has_no_hole(tab, tmp_path):
    page = tmp_path / "index.html"
    page.write_bytes(PAGE.read_bytes())
    page.with_name("run.js").write_text("")
    tab.open(page.as_uri())
    hidden = "[...document.querySelectorAll('#run, [data-curve]')].every(each => each.offsetHeight === 0)"
    assert tab.run(hidden)
    shown = tab.run("document.body.innerText")
    assert "dvc repro" in shown and "not recorded" not in shown and "took" not in shown


def test_the_loss_is_drawn_over_the_minutes_that_the_run_took(tab, tmp_path):
    page = tmp_path / "index.html"
    page.write_bytes(PAGE.read_bytes())
    clock = {"0": 1.0, "200": 61.0, "400": 150.0}
    stages = {"pretrain-tiny": {"seconds": 150.0, "clock": clock}}
    page.with_name("run.js").write_text(f"window.electraRun = {json.dumps({'stages': stages})};")
    tab.open(page.as_uri())
    figure = "document.querySelector('[data-curve]')"
    assert not tab.run(f"{figure}.hidden")
    assert tab.run(f"{figure}.querySelector('polyline').points.length") == len(clock)
    assert tab.run(f"{figure}.querySelector('text:last-child').textContent") == "2.5 minutes"
