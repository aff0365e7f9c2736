"""Estimates and bounds by noise level and pattern (compare Andrew et al. 2023, Figure 2)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.markers import CARETUPBASE
from matplotlib.transforms import ScaledTranslation

from fl_audit.comparison.comparison import BOUND, FRONT_METHOD, Comparison
from fl_audit.comparison.epsilon_axis import EpsilonAxis
from fl_audit.comparison.pattern_style import PatternStyle, pattern_styles
from fl_audit.comparison.settings import Setting
from fl_audit.report.figure import FAINT, INK, draw

_GROUP_WIDTH = 0.9
"""Share of the distance between noise levels that the runs of one level take together."""

_BESIDE = 5.0
"""Points by which an estimate stands to the left of its stem, so that it hides no bound."""


@dataclass(frozen=True)
class _Stem:
    """One run's numbers on one statistic.

    Attributes:
      x: Position of the run on the horizontal axis.
      style: Style of the run's pattern.
      bound: The valid lower bound; None where it was left out.
      estimate: The estimate by the shift fit; None where it was left out.
      interval: The ends of its interval; None where it has none.
      guarantee: The analytical epsilon to a canary, as estimates are about canaries; None if
        unknown.
    """

    x: float
    style: PatternStyle
    bound: float | None
    estimate: float | None
    interval: tuple[float, float] | None
    guarantee: float | None

    @property
    def epsilons(self) -> list[float]:
        """The epsilons that are known."""
        known = (self.bound, self.estimate, self.guarantee, *(self.interval or ()))
        return [epsilon for epsilon in known if epsilon is not None]


def estimate_panels(comparison: Comparison) -> dict[str, Markup]:
    """A figure per statistic with a stem per run, all on one scale.

    Args:
      comparison: The runs to draw.
    """
    panels = {name: list(_stems(comparison, name)) for name in comparison.statistics}
    axis = EpsilonAxis.holding(e for stems in panels.values() for s in stems for e in s.epsilons)
    ticks = _ticks(comparison)
    return {
        name: draw(f"estimates-{name}", 4.6, 2.9, partial(_plot, stems, axis, ticks))
        for name, stems in panels.items()
    }


def _stems(comparison: Comparison, statistic: str) -> Iterator[_Stem]:
    styles = pattern_styles(comparison.patterns)
    for group, settings in enumerate(_groups(comparison)):
        runs = [(setting.pattern, run) for setting in settings for run in setting.runs]
        places = group + _GROUP_WIDTH * ((np.arange(len(runs)) + 0.5) / len(runs) - 0.5)
        for x, (pattern, run) in zip(places.tolist(), runs, strict=True):
            if statistic not in run.report.statistics:
                continue
            yield _Stem(
                x=x,
                style=styles[pattern],
                bound=run.epsilon(statistic, BOUND),
                estimate=run.epsilon(statistic, FRONT_METHOD),
                interval=run.interval(statistic, FRONT_METHOD),
                guarantee=run.guarantee("canary"),
            )


def _groups(comparison: Comparison) -> list[list[Setting]]:
    """The settings grouped by noise multiplier; each setting by itself where all have the same."""
    levels = comparison.noise_multipliers
    if len(levels) <= 1:
        return [[setting] for setting in comparison.settings]
    groups = [[s for s in comparison.settings if s.noise_multiplier == x] for x in (*levels, None)]
    return [group for group in groups if group]


@dataclass(frozen=True)
class _Ticks:
    """The labels below the panels."""

    labels: tuple[str, ...]
    title: str


def _ticks(comparison: Comparison) -> _Ticks:
    levels = comparison.noise_multipliers
    if len(levels) > 1:
        has_others = any(s.noise_multiplier is None for s in comparison.settings)
        others = ("not known",) if has_others else ()
        return _Ticks((*(f"{noise:g}" for noise in levels), *others), "noise multiplier")
    title = f"noise multiplier {levels[0]:g}" if levels else "noise multiplier not known"
    return _Ticks(("",) * len(comparison.settings), title)


def _plot(stems: list[_Stem], axis: EpsilonAxis, ticks: _Ticks, axes: Axes) -> None:
    axis.scale(axes, "y", most_ticks=9)
    for stem in stems:
        _draw_stem(axes, stem, axis)
    axes.set_xlim(-0.5, len(ticks.labels) - 0.5)
    axes.set_xticks(range(len(ticks.labels)), ticks.labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(ticks.title)
    axes.set_ylabel("ε", rotation=0)
    for edge in range(1, len(ticks.labels)):
        axes.axvline(edge - 0.5, color=FAINT, alpha=0.3, lw=0.8, zorder=0)


def _draw_stem(axes: Axes, stem: _Stem, axis: EpsilonAxis) -> None:
    """Draws a bar from the valid bound to the guarantee, which holds the mechanism's epsilon."""
    colour, marker = stem.style.colour, stem.style.marker
    if stem.bound is not None:
        at = axis.position(stem.bound)
        axes.plot(stem.x, at, marker=CARETUPBASE, color=colour, ms=5.5, mew=0)
        if stem.guarantee is not None:
            end = axis.position(stem.guarantee)
            axes.plot([stem.x, stem.x], [at, end], color=colour, lw=3, alpha=0.25, zorder=1)
    if stem.guarantee is not None and math.isfinite(stem.guarantee):
        axes.plot(stem.x, stem.guarantee, marker="_", color=INK, ms=8, mew=1.2)
    if stem.guarantee == math.inf:
        axes.plot(stem.x, axis.infinity, marker=CARETUPBASE, color=colour, ms=5, alpha=0.4)
    if stem.estimate is not None:
        beside = axes.transData + ScaledTranslation(-_BESIDE / 72, 0, axes.figure.dpi_scale_trans)
        at = axis.position(stem.estimate)
        if stem.interval is not None:
            ends = [axis.position(end) for end in stem.interval]
            axes.plot([stem.x, stem.x], ends, color=colour, lw=0.9, transform=beside)
        axes.plot(stem.x, at, marker=marker, color=colour, ms=5, mew=0, transform=beside)
