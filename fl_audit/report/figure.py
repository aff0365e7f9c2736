"""Figures as inline SVG: the same figure always gives the same bytes."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fl_audit.errors import visible

# Colours of Okabe & Ito (2008), distinct in any colour vision, and in grey by lightness.
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
INK = "#2b2b2b"
FAINT = "#8a8a8a"

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, in the page's font
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a folder's name stays a dollar sign
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}

# On a page a figure takes the page's colours, which differ in dark mode.
_ON_PAGE = {BLUE: "--blue", ORANGE: "--orange", INK: "--ink", FAINT: "--faint"}

_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def draw(name: str, width: float, height: float, plot: Callable[[Axes], None]) -> Markup:
    """Draws one figure as an `<svg>` element.

    Args:
      name: Unique on the page; the figure's internal references derive from it.
    """
    with matplotlib.rc_context():
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams["svg.hashsalt"] = visible(name)
        figure = Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA)
    text = buffer.getvalue()
    for colour, variable in _ON_PAGE.items():
        text = text.replace(f": {colour}", f": var({variable}, {colour})")
    return Markup(text[text.index("<svg") :])
