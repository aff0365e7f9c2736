"""The page of a comparison, as a single file, with plots of privacy against accuracy.

The plots are as in Negoescu et al. (2024), Figure 1.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fl_audit.attacks.threat_models import title_of
from fl_audit.comparison import as_text
from fl_audit.comparison.comparison import FRONT_METHOD, Comparison
from fl_audit.comparison.ranking import beyond_noise, compared_statistic, patterns_of
from fl_audit.comparison.settings import Setting, Spread
from fl_audit.report.chart import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    PURPLE,
    EpsilonBars,
    LogAxis,
    bars_of,
    draw,
)
from fl_audit.report.page import render
from fl_audit.version import __version__


def render_comparison(comparison: Comparison) -> str:
    """Renders the page as HTML."""
    return render("fl_audit.comparison", "compare.html", _page(comparison))


def _page(comparison: Comparison) -> dict[str, Any]:
    """The template's values."""
    compared = compared_statistic(comparison)
    bars = {name: _bars(comparison, name) for name in comparison.statistics}
    return {
        "comparison": comparison,
        "text": as_text,
        "beyond_noise": beyond_noise(comparison),
        "patterns": patterns_of(comparison),
        "by_noise": len(comparison.noise_multipliers) > 1,
        "compared": compared,
        "sees": _sees(comparison, compared),
        "sampled": any(run.is_sampled for run in comparison.runs),
        "bars_by_statistic": {name: picture for name, picture in bars.items() if picture},
        "legend": pattern_legend(comparison.patterns) if len(comparison.patterns) > 1 else "",
        "tradeoffs": tradeoff_panels(comparison),
        "fl_audit_version": __version__,
    }


def _bars(comparison: Comparison, statistic: str) -> EpsilonBars | None:
    """A bar per setting, with its runs combined; None if no setting has a bar."""
    titles = {s: ", ".join(filter(None, [s.label, s.rounds_words])) for s in comparison.settings}
    named = [
        (title, headline) for s, title in titles.items() if (headline := s.headline(statistic))
    ]
    return bars_of(named, f"setting, on “{title_of(statistic)}”")


def _sees(comparison: Comparison, statistic: str | None) -> str:
    """What a statistic's attacker has, in words that follow "it has"; empty if unknown."""
    for run in comparison.runs:
        result = run.report.statistics.get(statistic or "")
        if result is not None and result.threat_model in run.report.threat_models:
            return run.report.view_of(result.threat_model).sees
    return ""


# Plots of privacy against accuracy.


_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#b58900", "#56b4e9", "#5c5c5c")
"""Colours of Okabe & Ito (2008), but a darker yellow, and grey for black: all visible on white."""

_MARKERS = ("o", "s", "D", "P", "X", "h", "*", "p")

_LEGEND_CHARACTERS = 120
"""Approximate number of characters on a line of the legend."""

_NAME_SIZE, _LETTER_WIDTH, _LINE_HEIGHT = 7.5, 5.0, 10.0
"""Font size of a point's name, and its approximate letter width and line height, in points."""

_NAME_OFFSET = (5.0, 4.0)
"""Offset of a name from its point, right and up, in points."""


@dataclass(frozen=True)
class PatternStyle:
    """The colour and marker of one pattern."""

    colour: str
    marker: str


def pattern_styles(patterns: Sequence[str]) -> dict[str, PatternStyle]:
    """A style per pattern; all differ for up to 56 patterns."""
    return {
        pattern: PatternStyle(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)])
        for i, pattern in enumerate(patterns)
    }


def pattern_legend(patterns: Sequence[str]) -> Markup:
    """A picture of the legend: each pattern's marker and name."""
    columns = max(1, min(_LEGEND_CHARACTERS // (max(map(len, patterns)) + 6), len(patterns)))
    height = 0.08 + 0.2 * -(-len(patterns) // columns)

    def plot(axes: Axes) -> None:
        axes.set_axis_off()
        handles = [
            Line2D([], [], color=style.colour, marker=style.marker, ls="", ms=5.5, label=pattern)
            for pattern, style in pattern_styles(patterns).items()
        ]
        axes.legend(handles=handles, loc="center left", ncols=columns, borderaxespad=0)

    return draw("pattern-legend", 9.4, height, plot)


@dataclass(frozen=True)
class _Point:
    """One setting in a panel.

    Attributes:
      epsilon: The epsilons of the setting's runs.
      ends: The limits of epsilon's interval; without an interval, the smallest and largest epsilon.
      accuracy: The accuracies of the setting's runs, in percent.
      name: The noise multiplier; empty if all settings share it.
      is_on_front: Whether no other setting dominates this one beyond noise.
    """

    epsilon: Spread
    ends: tuple[float, float]
    accuracy: Spread
    style: PatternStyle
    name: str
    is_on_front: bool


def tradeoff_panels(comparison: Comparison) -> dict[str, Markup]:
    """Figures by title: one per statistic, and one of the upper bounds for a client if known."""
    panels = {
        title_of(name): list(
            _points(
                comparison,
                partial(Setting.epsilon, statistic=name, method=FRONT_METHOD),
                partial(Setting.interval, statistic=name, method=FRONT_METHOD),
                comparison.front(name, FRONT_METHOD),
            )
        )
        for name in comparison.statistics
    }
    panels["Upper bound for a client"] = list(
        _points(
            comparison,
            partial(Setting.guarantee, party="client"),
            lambda setting: None,
            comparison.analytical_front("client"),
        )
    )
    return {
        title: draw(f"tradeoff-{title}", 3.4, 2.7, partial(_plot, points))
        for title, points in panels.items()
        if points
    }


def _points(
    comparison: Comparison,
    epsilon_in: Callable[[Setting], Spread | None],
    interval_in: Callable[[Setting], tuple[float, float] | None],
    front: Sequence[Setting],
) -> Iterator[_Point]:
    styles = pattern_styles(comparison.patterns)
    names_noise = len(comparison.noise_multipliers) > 1
    for setting in comparison.settings:
        epsilon, accuracy = epsilon_in(setting), setting.accuracy
        if epsilon is not None and accuracy is not None:
            yield _Point(
                epsilon=epsilon,
                ends=interval_in(setting) or (epsilon.smallest, epsilon.largest),
                accuracy=Spread(tuple(100 * value for value in accuracy.values)),
                style=styles[setting.pattern],
                name=f"{setting.noise_multiplier:g}" if names_noise else "",
                is_on_front=setting in front,
            )


def _plot(points: list[_Point], axes: Axes) -> None:
    epsilons = [value for point in points for value in (*point.epsilon.values, *point.ends)]
    axis = LogAxis.around(epsilons)
    axis.show(axes, epsilons)
    if math.inf in epsilons:
        axes.axvline(axis.place(math.inf), color=FAINT, lw=0.6, ls=(0, (2, 3)), zorder=0)
    _draw_front(axes, [point for point in points if point.is_on_front], axis)
    for point in points:
        _draw_point(axes, point, axis)
    axes.set_xlabel("ε")
    axes.set_ylabel("accuracy (%)")
    axes.margins(y=0.15)
    axes.locator_params(axis="y", nbins=5)
    _name_points(axes, [point for point in points if point.name], axis)


def _draw_front(axes: Axes, front: list[_Point], axis: LogAxis) -> None:
    """Draws the front as steps, the best accuracy up to each epsilon, if no intervals overlap."""
    ordered = sorted(front, key=lambda point: point.epsilon.mean)
    if any(first.ends[1] > second.ends[0] for first, second in itertools.pairwise(ordered)):
        return
    x = [axis.place(point.epsilon.mean) for point in ordered]
    y = [point.accuracy.mean for point in ordered]
    axes.step(x, y, where="post", color=FAINT, lw=1.0, zorder=1)


def _draw_point(axes: Axes, point: _Point, axis: LogAxis) -> None:
    """Draws the means as a point, hollow off the front, and epsilon's and accuracy's ranges."""
    x, y = axis.place(point.epsilon.mean), point.accuracy.mean
    ends = [axis.place(end) for end in point.ends]
    colour = point.style.colour
    axes.plot(ends, [y, y], color=colour, lw=0.9, alpha=0.6, zorder=2)
    heights = [point.accuracy.smallest, point.accuracy.largest]
    axes.plot([x, x], heights, color=colour, lw=0.9, alpha=0.6, zorder=2)
    axes.plot(
        x,
        y,
        marker=point.style.marker,
        mec=colour,
        mfc=colour if point.is_on_front else "none",
        mew=1.1,
        ms=5.5,
        zorder=3,
    )


def _name_points(axes: Axes, points: Sequence[_Point], axis: LogAxis) -> None:
    """Writes the points' names, each moved up until it does not overlap another."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()  # computes the positions of the axes
    taken: list[tuple[float, float, float]] = []
    for point in points:
        place = axis.place(point.epsilon.mean), point.accuracy.mean
        x, y = (72 / figure.dpi * axes.transData.transform(place) + _NAME_OFFSET).tolist()
        width, lifted = _LETTER_WIDTH * len(point.name), 0.0
        while any(
            x < end and start < x + width and abs(y + lifted - height) < _LINE_HEIGHT
            for start, end, height in taken
        ):
            lifted += _LINE_HEIGHT
        taken.append((x, x + width, y + lifted))
        axes.annotate(
            point.name,
            place,
            xytext=(_NAME_OFFSET[0], _NAME_OFFSET[1] + lifted),
            textcoords="offset points",
            fontsize=_NAME_SIZE,
            color=point.style.colour,
        )
