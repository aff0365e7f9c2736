"""Arms of canaries: intervals that hold at once, on simulated truth."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.arm_shifts import compare_arms

RUNS = 400
TRUTH = {
    "once": (1.0, 60),
    "each_epoch": (2.2, 60),
    "poisson": (1.0, 60),
    "min_separation": (2.2, 60),
    "late": (0.9, 60),
}
"""The shift and the number of included canaries of each arm."""


def deviates(random, spread):
    """Scores of all arms; of `poisson`, by the root of a random number of rounds."""
    found = {}
    for name, (shift, number) in TRUTH.items():
        shifts = np.full(number, shift)
        if name == "poisson":
            shifts = shift * np.sqrt(random.poisson(3.0, number)) / MEAN_ROOT
        found[name] = shifts + spread[name] * random.standard_normal(number)
    return found


MEAN_ROOT = np.sqrt(np.arange(40)) @ stats.poisson.pmf(np.arange(40), 3.0)
EVEN = dict.fromkeys(TRUTH, 1.0)
UNEVEN = {name: 0.6 + 0.3 * index for index, name in enumerate(TRUTH)}


@pytest.mark.parametrize(("confidence", "spread"), [(0.95, UNEVEN), (0.8, EVEN)])
def test_all_differences_are_covered_at_once(confidence, spread):
    random = np.random.default_rng([17, int(100 * confidence)])
    differences = shifts = 0
    for _ in range(RUNS):
        made = compare_arms(deviates(random, spread), confidence)
        differences += all(
            one.lower <= TRUTH[one.second][0] - TRUTH[one.first][0] <= one.upper
            for one in made.differences
        )
        shifts += all(one.lower <= TRUTH[one.arm][0] <= one.upper for one in made.arms)
    # Seeded, so it either holds or not: 0.94 where the confidence is 0.95 is what is promised.
    assert differences >= (confidence - 0.01) * RUNS
    assert shifts >= (confidence - 0.01) * RUNS


def test_what_is_reported():
    random = np.random.default_rng(1)
    made = compare_arms(deviates(random, EVEN), 0.95)
    assert [arm.arm for arm in made.arms] == list(TRUTH)
    assert [arm.num_included for arm in made.arms] == [60] * 5
    assert len(made.differences) == 10
    one = made.differences[0]
    assert (one.first, one.second) == ("once", "each_epoch")
    assert one.mu == pytest.approx(made.arms[1].mu - made.arms[0].mu)
    assert one.lower < one.mu < one.upper
    assert one.upper - one.mu == pytest.approx(one.mu - one.lower)
    # Of 60 and 60 normal deviates the standard error is 0.18; Bonferroni's quantile of ten is 2.86.
    assert 0.4 < one.upper - one.mu < 0.65


def test_two_arms_are_welchs_interval():
    first, second = np.random.default_rng(2).normal(size=(2, 30))
    (one,) = compare_arms({"a": first, "b": 3 * second}, 0.9).differences
    for end in (one.lower, one.upper):
        test = stats.ttest_ind(3 * second - end, first, equal_var=False)
        assert test.pvalue == pytest.approx(0.1)


@pytest.mark.parametrize("deviates_of", [{"a": np.ones(5)}, {"a": np.ones(5), "b": np.ones(1)}])
def test_too_little_is_refused(deviates_of):
    with pytest.raises(ValueError, match="two arms or more"):
        compare_arms(deviates_of, 0.95)
