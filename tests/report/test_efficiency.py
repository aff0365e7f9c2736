"""What a report says of how good its audit is."""

import math

import pytest

from fl_audit.accounting import OneRoundPerBlock, attacker_bounds
from fl_audit.report import statistics as report_statistics
from fl_audit.report.shown_records import if_gaussian
from tests.accounting.releases import release
from tests.report.made_reports import estimate, statistic

DELTA = 1e-3
ONCE = OneRoundPerBlock(1, ((100, 1),))


def made(sampling, noise=0.3):
    return release(noise, sampling)


def efficiency_of(run, statistics):
    return report_statistics.efficiency_of(
        attacker_bounds(run, run.canary, DELTA), statistics, DELTA, 0.95
    )


BOUNDS = (
    estimate("threshold_valid", "lower_bound", 6.0, valid_for="any mechanism"),
    estimate("one_run_valid", "lower_bound", 3.0, valid_for="any mechanism"),
    estimate("threshold_gdp", "lower_bound", 13.9, valid_for="Gaussian mechanisms"),
    estimate("gaussian_fit", "estimate", 31.0),
    estimate("one_run", "lower_bound", 9.0),
)

STATISTICS = {
    "max": statistic(threat_model="all_iterates", estimates=BOUNDS, num_included=266),
    "own_rounds": statistic(threat_model="known_rounds", estimates=BOUNDS, num_included=266),
}


def test_each_statistic_is_compared_with_what_its_own_attacker_could_prove():
    found = efficiency_of(made(ONCE), STATISTICS)
    hidden, known = found["max"], found["own_rounds"]
    assert (hidden.lower_bound, hidden.lower_bound_by) == (6.0, "threshold_valid")
    assert hidden.upper_bound == pytest.approx(10.548, abs=1e-3)
    assert hidden.upper_bound_by == "random_allocation"
    assert hidden.reachable == pytest.approx(7.89, abs=0.01)
    assert hidden.gaussian is None
    assert known.upper_bound == pytest.approx(15.153, abs=1e-3)
    assert known.reachable == pytest.approx(12.51, abs=0.01)
    assert known.gaussian is not None
    assert (known.gaussian.lower_bound, known.gaussian.lower_bound_by) == (13.9, "threshold_gdp")
    assert known.gaussian.reachable == pytest.approx(14.52, abs=0.01)


def test_the_page_says_what_holds_if_the_mechanism_is_gaussian():
    hidden, known = efficiency_of(made(ONCE), STATISTICS).values()
    assert if_gaussian(hidden.gaussian) == ""
    words = "if the mechanism is Gaussian: lower bound 13.9, reachable 14.5"
    assert if_gaussian(known.gaussian) == words
    without = efficiency_of(made(1, noise=0.0), STATISTICS)
    assert without["max"].upper_bound == math.inf
