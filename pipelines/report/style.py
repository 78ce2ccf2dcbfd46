"""Figures in one look (report.mplstyle), as SVG files and inside the page.

Figures are drawn once with the colours below. On the page the same SVG follows the reader's light
or dark theme, since each colour is replaced by a CSS variable; the files beside the page keep the
colours for a white ground.
"""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from electra.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, RULE, PAPER = "#1b1f24", "#5b6471", "#d8dde3", "#fefefe"
BLUE, ORANGE, GREEN, GREY = "#0b66b0", "#c2500c", "#0b7f68", "#767f8b"
VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"},
    **{BLUE: "--blue", ORANGE: "--orange", GREEN: "--green", GREY: "--grey"},
}
STYLE = Path(__file__).with_name("report.mplstyle")


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, inches; it belongs to no window and to no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def context() -> Any:
    """The settings under which every figure is drawn; figures read them when they are made."""
    import matplotlib as mpl

    return mpl.rc_context(fname=STYLE)


def save(figure: "Figure", folder: Path, name: str) -> str:
    """Write name.svg (the same bytes each time) and return its text."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}, fname=STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    write_atomic(folder / f"{name}.svg", text.getvalue())
    return text.getvalue()


def inline_svg(svg: str, name: str, label: str) -> str:
    """The SVG for use inside HTML: no head or metadata, theme colours, the page's typeface, a
    screen reader's label.

    Ids get the figure's name in front, since many figures share one page.
    """
    spoken = str(escape(label)).replace("\\", r"\\")
    for pattern, new in (
        (r"^.*?(?=<svg)", ""),
        (r'\bid="', f'id="{name}-'),
        (r'href="#', f'href="#{name}-'),
        (r"url\(#", f"url(#{name}-"),
        (r"<metadata>.*?</metadata>\s*", ""),
        (r"'DejaVu Sans'[^;\"]*", "var(--sans)"),
        *((colour, f"var({variable})") for colour, variable in VARIABLES.items()),
        (
            r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>',
            rf'<svg viewBox="\1" role="img" aria-label="{spoken}">',
        ),
    ):
        svg = re.sub(pattern, new, svg, flags=re.DOTALL)
    return svg.strip()
