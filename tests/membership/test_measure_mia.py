"""Algorithms 4 and 5, against a loop over challenges and against closed forms."""

import warnings

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.membership.lira import NormalFit, decide_member
from fl_audit.membership.measure_mia import measure_mia, measure_mia_fast


def test_cross_feeding_leaves_each_model_out_of_its_own_fit():
    rng = np.random.default_rng(1)
    h0, h1 = rng.normal(0, 1, (3, 12)), rng.normal(1, 2, (3, 15))
    counts = measure_mia_fast(h0, h1).counts(0.2)

    def fit(losses):
        return NormalFit(np.array([np.mean(losses)]), np.array([np.std(losses, ddof=1)]))

    for base in range(3):
        fp = sum(
            decide_member(h0[base, [j]], fit(np.delete(h0[base], j)), fit(h1[base]), 0.2)[0]
            for j in range(12)
        )
        tp = sum(
            decide_member(h1[base, [j]], fit(h0[base]), fit(np.delete(h1[base], j)), 0.2)[0]
            for j in range(15)
        )
        assert (counts.fp[base], counts.fn[base]) == (fp, 15 - tp)
    assert counts.n0.tolist() == [12] * 3
    assert counts.n1.tolist() == [15] * 3


@pytest.mark.parametrize(
    ("without", "having", "aim", "message"),
    [
        (np.zeros(3), np.zeros((1, 3)), 0.1, "arrays of challenge bases by models"),
        (np.eye(3), np.eye(4), 0.1, "same challenge bases, got 3 and 4"),
        (np.eye(2), np.eye(2), 0.1, "at least 3 models, got 2"),
        (np.full((3, 3), np.inf), np.eye(3), 0.1, "losses must be finite"),
        (np.ones((1, 4)), np.array([[1, 2, 3, 4.0]]), 0.1, "must not be all equal"),
        (np.ones((1, 40)), np.arange(40.0)[None], 0.1, "must not be all equal"),
        (np.zeros((0, 40)), np.zeros((0, 40)), 0.1, "at least one challenge base"),
        (np.array([[1, 2, 4.0]]), np.array([[1, 2, 3, 4.0]]), 1.0, "must be in (0, 1), got [1.0]"),
    ],
)
def test_bad_losses_are_refused(without, having, aim, message):
    with pytest.raises(InputError) as caught:
        measure_mia_fast(without, having).counts(aim)
    assert message in str(caught.value)


def test_learned_on_shadow_models_judges_each_challenge_as_algorithm_4_does():
    rng = np.random.default_rng(2)
    challenges = rng.normal(0, 1, (2, 30)), rng.normal(-2, 0.5, (2, 20))
    shadow = rng.normal(0, 1, (2, 9)), rng.normal(-2, 0.5, (2, 7))
    found = measure_mia(*challenges, *shadow)
    for alpha in (0.01, 0.1, 0.5):
        counts = found.counts(alpha)
        for base in range(2):
            laws = [NormalFit(np.mean(s[base]), np.std(s[base], ddof=1)) for s in shadow]
            assert counts.fp[base] == np.sum(decide_member(challenges[0][base], *laws, alpha))
            assert counts.fn[base] == np.sum(~decide_member(challenges[1][base], *laws, alpha))


def test_counts_at_many_targets_are_those_at_each():
    rng = np.random.default_rng(3)
    found = measure_mia_fast(rng.normal(0, 1, (4, 20)), rng.normal(-1, 1, (4, 20)))
    rates = np.arange(1, 100) / 100
    fp, fn = found.curve(rates)
    assert fp.shape == fn.shape == (99, 4)
    assert np.all(np.diff(fp, axis=0) >= 0)
    assert np.all(np.diff(fn, axis=0) <= 0)
    for i in (0, 9, 98):
        counts = found.counts(rates[i])
        assert (counts.fp.tolist(), counts.fn.tolist()) == (fp[i].tolist(), fn[i].tolist())


def test_error_rates_are_those_of_the_neyman_pearson_test():
    """Losses N(0, 1) and N(-2, 1): FPR alpha*, FNR 1 - Phi(2 + Phi^-1(alpha*)).

    20,000 challenges judged by 2 x 20,000 shadow models; 5 standard deviations of both (6e-7).
    """
    rng = np.random.default_rng(4)
    draws = [rng.normal(mean, 1, (1, 20_000)) for mean in (0, -2, 0, -2)]
    for alpha in (0.05, 0.3):
        counts = measure_mia(*draws).counts(alpha)
        fnr = stats.norm.sf(2 + stats.norm.ppf(alpha))
        assert counts.fp[0] / 20_000 == pytest.approx(alpha, abs=5 * 0.5 / np.sqrt(10_000))
        assert counts.fn[0] / 20_000 == pytest.approx(fnr, abs=5 * 0.5 / np.sqrt(10_000))


def test_raw_cross_entropy_is_warned_of_and_margins_are_not():
    """Of a trained model: margins are normal, the cross-entropy is log(1 + e^-margin)."""
    rng = np.random.default_rng(5)
    margins = rng.normal(4, 2, (4, 100)), rng.normal(6, 2, (4, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure_mia_fast(*(-side for side in margins))
    losses = [np.log1p(np.exp(-side)) for side in margins]
    with pytest.warns(UserWarning, match="minus the log-odds"):
        measure_mia_fast(*losses)
    with pytest.warns(UserWarning, match="far from normal"):
        measure_mia(losses[0][:, :50], losses[1][:, :50], losses[0][:, 50:], losses[1][:, 50:])
