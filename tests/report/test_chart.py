"""The pictures of a page: bars of ε by attacker, and histograms of scores."""

import html
import math
import re

import numpy as np
import pytest
from matplotlib.backends.backend_svg import RendererSVG

from fl_audit.estimators import CanaryScores, Gaussian
from fl_audit.report.chart import (
    LogAxis,
    _edges,
    _expected_counts,
    bars_by_attacker,
    draw,
    epsilon_bars,
    score_histogram,
)
from tests.report.made_reports import (
    analytical,
    fitted_and_proven,
    guarantee,
    report,
)

# The picture of the page: a bar per attacker on a logarithmic axis.


STATISTICS = {
    "final": fitted_and_proven("final", 0.0, 0.5, 0.2, 1.0),
    "max": fitted_and_proven("all_iterates", 6.0, 10.0, 9.0, 11.0),
    "sum": fitted_and_proven("all_iterates", 7.0, 10.0, 9.0, 11.0),
}


def drawn(canary, statistics=None, *, is_wide=True):
    guarantees = analytical(guarantee(20.0), guarantee(canary))
    bars = bars_by_attacker(report(statistics or STATISTICS, guarantees))
    svg = epsilon_bars(bars, is_wide=is_wide)
    return [html.unescape(text).strip() for text in re.findall(r">([^<>]*)</t(?:ext|span)>", svg)]


@pytest.mark.parametrize("is_wide", [True, False])
def test_an_attacker_has_one_bar_on_its_first_statistic_and_the_strongest_leads(is_wide):
    texts = drawn(15.0, is_wide=is_wide)
    bounds = [text for text in texts if text.startswith(("ε ≥", "≈", "≤"))]
    assert bounds == ["ε ≥ 6.00", "≈ 10.0", "≤ 15.0", "ε ≥ 0", "≈ 0.500", "≤ 15.0"]
    ticks = [text for text in texts if re.fullmatch(r"[0-9.]+", text)]
    assert ticks == ["0", "0.3", "1", "3", "10"]
    assert {"lower bound", "upper bound from accounting"} < set(texts)


@pytest.mark.parametrize(("canary", "words"), [(math.inf, "≤ ∞"), (None, "no upper bound")])
def test_a_bar_without_a_guarantee_is_open(canary, words):
    texts = drawn(canary)
    assert texts.count(words) == 2 and "∞" in texts
    assert "upper bound from accounting" not in texts


def test_the_axis_holds_any_numbers():
    for values in ([], [0.0], [math.inf], [1e-12, 50.0], [1e-9], [6730.0, math.inf]):
        axis = LogAxis.around(values)
        assert all(-0.05 <= axis.place(value) <= 1.07 for value in values)
        ticks = axis.ticks(values)
        assert 1 <= len(ticks) <= 10
        assert [*ticks] == sorted(ticks)
        assert (next(iter(ticks.values())) == "0") is (0.0 in values)
        assert ([*ticks.values()][-1] == "∞") is (math.inf in values)


# Histograms of scores that leave little to draw, and the curve over them.


@pytest.mark.parametrize(
    ("included", "excluded"),
    [
        ([0.1, 0.2, 0.3], []),
        ([], [0.1, 0.2]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([0.7], [0.7]),
        ([1e-9], [1e9]),
        ([0.5, 0.5, 0.5], np.linspace(-1e-6, 1e-6, 500)),
        ([0.1, 0.2], [0.0, 1e214]),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_degenerate_scores_are_drawn(included, excluded):
    scores = CanaryScores(included, excluded)
    drawn = score_histogram("final", scores, None)
    assert drawn.startswith("<svg") and "nan" not in drawn
    assert f"included ({len(included)})" in drawn
    edges = _edges(scores)
    assert 2 <= len(edges) <= 91
    counted = np.histogram(np.concatenate([scores.included, scores.excluded]), edges)[0].sum()
    assert counted == len(included) + len(excluded)


def test_ids_do_not_hang_on_how_numbers_are_written(monkeypatch):
    """Matplotlib hashes texts such as that of 0.5, which is `np.float64(0.5)` from NumPy 2 on."""
    before = draw("of a run", 3, 2, lambda axes: axes.plot([1, 2], [3, 4], "o-"))
    make_id = RendererSVG._make_id
    monkeypatch.setattr(
        RendererSVG, "_make_id", lambda self, kind, text: make_id(self, kind, f"np {text}")
    )
    assert draw("of a run", 3, 2, lambda axes: axes.plot([1, 2], [3, 4], "o-")) == before
    references = re.findall(r"url\(#([^)]*)\)", before)
    assert references
    assert all(f'id="{one}"' in before for one in references)


def test_the_curve_counts_what_a_law_puts_into_a_bin():
    distribution, edges = Gaussian(0.2, 0.1), np.linspace(-0.5, 0.9, 29)
    centres, counts = _expected_counts(distribution, 1000, edges)
    drawn = np.random.default_rng(0).normal(distribution.mean, distribution.std, 1_000_000)
    simulated = np.histogram(drawn, edges)[0] / 1000
    at_bins = np.interp((edges[1:] + edges[:-1]) / 2, centres, counts)
    # A count of up to 200 in 1000 has a standard error of up to 0.4; 6 of them fail by chance with
    # probability below 1e-7 over 28 bins. The interpolation adds less than 0.05.
    assert np.abs(at_bins - simulated).max() < 6 * 0.4 + 0.05
    assert counts.max() == pytest.approx(1000 * 0.197, rel=0.01)  # erf(0.25 / sqrt(2))
