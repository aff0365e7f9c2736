"""Histograms of included and excluded scores, with the laws that the estimates assume."""

import math

import numpy as np
from markupsafe import Markup
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators import Gaussian
from fl_audit.estimators.scores import CanaryScores
from fl_audit.report.chart import Series, chart

_MOST_BINS = 90


def score_histogram(scores: CanaryScores, null: Gaussian | None) -> Markup:
    """Draws the histogram of one statistic's scores.

    Args:
      scores: The canaries' scores.
      null: Law of an excluded score where it is known; None to fit one.
    """
    edges = _edges(scores)
    groups = (("excluded", scores.excluded, "blue"), ("included", scores.included, "orange"))
    bars = [
        Series(edges, _counted(values, edges), colour, "bars", f"{label} ({len(values)})")
        for label, values, colour in groups
    ]
    excluded_law, included_law = null or _fitted(scores.excluded), _fitted(scores.included)
    lines = []
    if excluded_law is not None:
        x, y = _expected_counts(excluded_law, scores.num_excluded, edges)
        lines.append(Series(x, y, "ink", "line", "law of excluded"))
    if included_law is not None:
        x, y = _expected_counts(included_law, scores.num_included, edges)
        lines.append(Series(x, y, "orange", "dashed", "Gaussian fit to included"))
    return chart([*bars, *lines], "score", "canaries")


def _counted(values: FloatArray, edges: FloatArray) -> FloatArray:
    return np.histogram(values, edges)[0].astype(np.float64)


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
