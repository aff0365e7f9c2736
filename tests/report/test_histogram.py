"""Histograms of scores that leave little to draw, and the curve over them."""

import numpy as np
import pytest

from fl_audit.estimators import CanaryScores, Gaussian
from fl_audit.report.chart import _edges, _expected_counts, score_histogram


@pytest.mark.parametrize(
    ("included", "excluded"),
    [
        ([0.1, 0.2, 0.3], []),
        ([], [0.1, 0.2]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([0.7], [0.7]),
        ([1e-9], [1e9]),
        ([0.5, 0.5, 0.5], np.linspace(-1e-6, 1e-6, 500)),
    ],
)
def test_degenerate_scores_are_drawn(included, excluded):
    scores = CanaryScores(included, excluded)
    drawn = score_histogram(scores, None)
    assert drawn.startswith("<svg")
    assert f"included ({len(included)})" in drawn
    edges = _edges(scores)
    assert 2 <= len(edges) <= 91
    counted = np.histogram(np.concatenate([scores.included, scores.excluded]), edges)[0].sum()
    assert counted == len(included) + len(excluded)


def test_the_curve_counts_what_a_law_puts_into_a_bin():
    law, edges = Gaussian(0.2, 0.1), np.linspace(-0.5, 0.9, 29)
    centres, counts = _expected_counts(law, 1000, edges)
    drawn = np.random.default_rng(0).normal(law.mean, law.std, 1_000_000)
    simulated = np.histogram(drawn, edges)[0] / 1000
    at_bins = np.interp((edges[1:] + edges[:-1]) / 2, centres, counts)
    # A count of up to 200 in 1000 has a standard error of up to 0.4; 6 of them fail by chance with
    # probability below 1e-7 over 28 bins. The interpolation adds less than 0.05.
    assert np.abs(at_bins - simulated).max() < 6 * 0.4 + 0.05
    assert counts.max() == pytest.approx(1000 * 0.197, rel=0.01)  # erf(0.25 / sqrt(2))
