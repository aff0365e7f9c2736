"""A colour and a marker for each pattern, the same in every panel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fl_audit.report.figure import BLUE, ORANGE, draw

_COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#5c5c5c")
"""Colours of Okabe & Ito (2008), with a darker yellow and grey for black, to show on white."""

_MARKERS = ("o", "s", "D", "P", "X", "h", "*", "p")

_LEGEND_CHARACTERS = 120
"""Number of characters that fit on a line of the legend, roughly."""


@dataclass(frozen=True)
class PatternStyle:
    """How the settings of one pattern are drawn."""

    colour: str
    marker: str


def pattern_styles(patterns: Sequence[str]) -> dict[str, PatternStyle]:
    """A style per pattern; up to 56 patterns no pair of colour and marker is used twice."""
    return {
        pattern: PatternStyle(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)])
        for i, pattern in enumerate(patterns)
    }


def pattern_legend(patterns: Sequence[str]) -> Markup:
    """Draws the legend, a figure of the styles with the patterns' names."""
    columns = max(1, min(_LEGEND_CHARACTERS // (max(map(len, patterns)) + 6), len(patterns)))
    height = 0.08 + 0.2 * -(-len(patterns) // columns)

    def plot(axes: Axes) -> None:
        axes.set_axis_off()
        axes.legend(
            handles=list(_handles(patterns)), loc="center left", ncols=columns, borderaxespad=0
        )

    return draw("pattern-legend", 9.4, height, plot)


def _handles(patterns: Sequence[str]) -> Iterator[Line2D]:
    for pattern, style in pattern_styles(patterns).items():
        yield Line2D([], [], color=style.colour, marker=style.marker, ls="", ms=5.5, label=pattern)
