"""Figures in one look (report.mplstyle), as SVG files and inside the page.

Figures are drawn once with the colours below, and follow the reader's light or dark theme. On the
page each colour is replaced by a CSS variable. A file has rules for a dark theme in it, which a
browser (and so GitHub) reads and a viewer without CSS ignores.
"""

import io
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from electra.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1f24"
MUTED = "#5b6471"
RULE = "#d8dde3"
PAPER = "#fefefe"
BLUE = "#0b66b0"
ORANGE = "#c2500c"
GREEN = "#0b7f68"
GREY = "#767f8b"
# light -> the page's variable, and the colour on a dark ground (as in templates/page.css)
THEMES = {
    INK: ("--ink", "#e7eaee"),
    MUTED: ("--muted", "#a3adb8"),
    RULE: ("--rule", "#303842"),
    PAPER: ("--paper", "#14181d"),
    BLUE: ("--blue", "#63b0f4"),
    ORANGE: ("--orange", "#f59a5c"),
    GREEN: ("--green", "#4fc4a8"),
    GREY: ("--grey", "#98a3af"),
}
STYLE = Path(__file__).with_name("report.mplstyle")


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, sizes in inches. It belongs to no window and to no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def context() -> Any:
    """Return the settings of every figure, which reads them when it is made."""
    import matplotlib as mpl

    return mpl.rc_context(fname=STYLE)


def save(figure: "Figure", folder: Path, name: str) -> str:
    """Write name.svg (the same bytes each time) and return the figure's SVG."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}, fname=STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    rules = "".join(
        f'[style*="{key}: {light}"]{{{key}:{dark}!important}}\n'
        for (light, (_, dark)), key in itertools.product(THEMES.items(), ("fill", "stroke"))
    )
    theme = f"<style>@media (prefers-color-scheme: dark) {{\n{rules}}}</style>\n"
    write_atomic(folder / f"{name}.svg", svg.replace("</svg>", f"{theme}</svg>"))
    return svg


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return the SVG for use inside HTML: no head or metadata, theme colours, the page's typeface,
    a screen reader's label.

    Ids get the figure's name in front, since many figures share one page.
    """
    spoken = str(escape(label)).replace("\\", r"\\")
    opening = rf'<svg viewBox="\1" role="img" aria-label="{spoken}">'
    for pattern, replacement in (
        (r"^.*?(?=<svg)", ""),
        (r'\bid="', f'id="{name}-'),
        (r'href="#', f'href="#{name}-'),
        (r"url\(#", f"url(#{name}-"),
        (r"<metadata>.*?</metadata>\s*", ""),
        (r"'DejaVu Sans'[^;\"]*", "var(--sans)"),
        *((colour, f"var({variable})") for colour, (variable, _) in THEMES.items()),
        (r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening),
    ):
        svg = re.sub(pattern, replacement, svg, flags=re.DOTALL)
    return svg.strip()
