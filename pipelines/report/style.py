"""One look for every figure: a restrained palette that colour-blind readers can tell apart, small type, no chart junk.

Figures are drawn once with the colours below. On the page the same SVG follows the reader's light or dark theme, since
each colour is replaced by a CSS variable; the files beside the page keep the colours for a white ground.
"""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

INK, MUTED, RULE, PAPER = "#1b1f24", "#5b6471", "#d8dde3", "#fefefe"
BLUE, ORANGE, GREEN, GREY = "#0b66b0", "#c2500c", "#0b7f68", "#767f8b"
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    PAPER: "--paper",
    BLUE: "--blue",
    ORANGE: "--orange",
    GREEN: "--green",
    GREY: "--grey",
}

RC: "dict[RcKeyType, Any]" = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
}


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

    return mpl.rc_context(RC)


def save(figure: "Figure", folder: Path, name: str) -> str:
    """Write name.svg (the same bytes each time) and return its text."""
    import matplotlib as mpl

    with mpl.rc_context({**RC, "svg.hashsalt": name}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    write_atomic(folder / f"{name}.svg", text.getvalue())
    return text.getvalue()


def inline_svg(svg: str, name: str, label: str) -> str:
    """The SVG to stand inside HTML: no head or metadata, theme colours, the page's typeface, a screen reader's label.

    Ids get the figure's name in front, since many figures share one page.
    """
    from html import escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body).replace("url(#", f"url(#{name}-")
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    body = re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-label="{escape(label)}">',
        body,
        count=1,
    )
    return body.strip()
