"""The committed report in a real browser: ten screens at most, no wider than a phone, nothing
fetched from anywhere.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import DESKTOP, PHONE, Tab, browser, needs_browser
from tests.conftest import ROOT

pytestmark = [needs_browser, pytest.mark.slow]
PAGE = ROOT / "results/report/index.html"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
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
def test_the_page_fits(tab: Tab, size: tuple[int, int], dark: bool) -> None:
    tab.open(PAGE.as_uri(), size, dark=dark)
    assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if size == DESKTOP:
        assert tab.run("document.documentElement.scrollHeight") <= 10 * size[1]
        assert (
            tab.run("document.querySelector('section').getBoundingClientRect().top") > 0.9 * size[1]
        )
        assert (
            tab.run("document.querySelector('.hero figure').getBoundingClientRect().bottom")
            <= size[1]
        )
        tables = (
            "[...document.querySelectorAll('.scroll')].filter(each => !each.closest('details'))"
        )
        assert tab.run(f"{tables}.every(each => each.scrollWidth <= each.clientWidth)"), (
            "a table is cut off"
        )


def test_the_loss_is_drawn_over_the_minutes_that_the_run_took(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_bytes(PAGE.read_bytes())
    clocks = {"pretrain-tiny": {"0": 1.0, "200": 61.0, "400": 150.0}}
    page.with_name("run.js").write_text(f"window.electraRun = {json.dumps({'clocks': clocks})};")
    tab.open(page.as_uri())
    figure = "document.querySelector('[data-curve]')"
    assert not tab.run(f"{figure}.hidden")
    assert tab.run(f"{figure}.querySelector('polyline').points.length") == len(
        clocks["pretrain-tiny"]
    )
    assert tab.run(f"{figure}.querySelector('text:last-child').textContent") == "2.5 min"
