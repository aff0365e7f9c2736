"""The threshold search against trying every threshold."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_audit.estimators.counts import ConfusionCounts, EpsilonPosterior
from fl_audit.estimators.counts.bayes import RocCounts, bayes, best_threshold
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from tests.seeds_tried import examples

steady = examples(25)
coarse = st.integers(-4, 4).map(lambda i: i / 8)
lists = st.one_of(
    st.lists(coarse, min_size=1, max_size=25), st.lists(st.floats(-1, 1), min_size=1, max_size=25)
)
deltas = st.sampled_from([0.0, 1e-15, 1e-5, 0.05, 0.6, 0.999])


def one(included, excluded, delta=1e-5, confidence=0.95):
    setting = AuditSetting(CanaryScores(included, excluded), delta, confidence)
    return bayes(setting)


def largest_lower_end(included, excluded, delta, confidence=0.95):
    """Straight from the definition: every threshold, counted anew."""
    included, excluded = np.asarray(included), np.asarray(excluded)
    best = 0.0
    for threshold in [*np.unique(np.concatenate([included, excluded])), math.inf]:
        fn, fp = int(np.sum(included < threshold)), int(np.sum(excluded >= threshold))
        counts = ConfusionCounts(fn, len(included) - fn, fp, len(excluded) - fp)
        best = max(best, EpsilonPosterior(counts, delta).interval(confidence).lower)
    return best


@steady
@given(included=lists, excluded=lists, delta=deltas)
def test_small_sets_against_every_threshold(included, excluded, delta):
    made = one(included, excluded, delta)
    assert made.lower == pytest.approx(largest_lower_end(included, excluded, delta), abs=1e-7)
    assert 0 <= made.lower <= made.epsilon <= made.upper < math.inf
    json.dumps(made.to_json(), allow_nan=False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("num_scores", [20_000, 200_000])
def test_deep_blocks_against_neighbours_and_a_sample(num_scores):
    rng = np.random.default_rng(6)
    included = rng.laplace(0.5, 1, num_scores)
    excluded = rng.laplace(0, 1, num_scores)
    roc = RocCounts.from_scores(CanaryScores(included, excluded))
    best = best_threshold(roc, 1e-5, 0.95)
    lower = EpsilonPosterior(roc.at(best), 1e-5).interval(0.95).lower
    near = np.arange(max(best - 20, 0), min(best + 20, len(roc.thresholds)))
    spread = rng.choice(len(roc.thresholds), 60, replace=False)
    for index in np.concatenate([near, spread]):
        assert EpsilonPosterior(roc.at(index), 1e-5).interval(0.95).lower <= lower + 1e-7


def test_unequal_numbers_alone_look_like_evidence():
    # All scores are equal: any threshold guesses the same for everyone. The number is no evidence
    # of anything; the docstring and the guarantee warn of it.
    assert one([0.0] * 100_000, [0.0], delta=0).lower == pytest.approx(4.81, abs=0.01)
    assert one([0.0] * 100, [0.0] * 100, delta=0).lower == pytest.approx(0.078, abs=0.001)
