"""Histograms of included and excluded scores, with the laws that the estimates assume."""

import math

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators import Gaussian
from fl_audit.estimators.scores import CanaryScores
from fl_audit.report.figure import BLUE, INK, ORANGE, draw

_MOST_BINS = 90


def score_histogram(name: str, scores: CanaryScores, null: Gaussian | None) -> Markup:
    """Draws the histogram of one statistic's scores.

    Args:
      name: Name of the statistic.
      scores: The canaries' scores.
      null: Law of an excluded score where it is known; None to fit one.
    """
    return draw(f"histogram-{name}", 4.6, 2.7, lambda axes: _plot(axes, scores, null))


def _plot(axes: Axes, scores: CanaryScores, null: Gaussian | None) -> None:
    edges = _edges(scores)
    groups = (("excluded", scores.excluded, BLUE), ("included", scores.included, ORANGE))
    for label, values, colour in groups:
        counts, _ = np.histogram(values, edges)
        axes.stairs(
            counts, edges, color=colour, fill=True, alpha=0.28, label=f"{label} ({len(values)})"
        )
        axes.stairs(counts, edges, color=colour, lw=1.0)
    excluded_law = null or _fitted(scores.excluded)
    if excluded_law is not None:
        x, y = _expected_counts(excluded_law, scores.num_excluded, edges)
        axes.plot(x, y, color=INK, lw=1.1, label="law of excluded")
    included_law = _fitted(scores.included)
    if included_law is not None:
        x, y = _expected_counts(included_law, scores.num_included, edges)
        axes.plot(x, y, "--", color=ORANGE, lw=1.1, label="Gaussian fit to included")
    _label(axes)


def _label(axes: Axes) -> None:
    axes.set_xlabel("score")
    axes.set_ylabel("canaries")
    axes.margins(x=0.02)
    axes.locator_params(nbins=5)
    # The space above keeps the legend from hiding a bar.
    axes.set_ylim(0, 1.42 * axes.get_ylim()[1])
    axes.legend(loc="upper center", ncols=2, handlelength=1.2, columnspacing=1.6)


def _edges(scores: CanaryScores) -> FloatArray:
    """Common edges of the bins, as wide as suits the group that varies less."""
    both = np.concatenate([scores.included, scores.excluded])
    low, high = float(both.min()), float(both.max())
    if low == high:
        # All scores are equal: one bin around them, at their scale.
        half = abs(low) / 10 or 0.5
        return np.array([low - half, low + half])
    groups = [group for group in (scores.included, scores.excluded) if len(group) > 1]
    widths = [3.5 * np.std(group) / len(group) ** (1 / 3) for group in groups]
    width = min((width for width in widths if width > 0), default=high - low)
    bins = min(max(math.ceil((high - low) / width), 1), _MOST_BINS)
    return np.linspace(low, high, bins + 1)


def _fitted(values: FloatArray) -> Gaussian | None:
    """The Gaussian fitted to scores; None for fewer than two of them, or equal ones."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    return Gaussian.fitted_to(values)


def _expected_counts(law: Gaussian, num: int, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centres of a moving bin, and the number of `num` scores that the law expects in each."""
    half = (edges[1] - edges[0]) / 2
    x = np.linspace(edges[0] - half, edges[-1] + half, 600)
    upper, lower = (x + half - law.mean) / law.std, (x - half - law.mean) / law.std
    return x, num * (special.ndtr(upper) - special.ndtr(lower))
