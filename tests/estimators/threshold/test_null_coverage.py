"""Audits of every canary family and every shape of target: noise, and Gaussian mechanisms.

Where nothing leaks, included and excluded canaries' scores have one law, and a bound above 0 is
wrong: in at most 5 % of audits. More than the limit have probability below 1e-6. The Gaussian limit
failed in all audits of rademacher canaries with one or two nonzeros, and in 17 % with 64.
"""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.canaries.families import FAMILIES
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    Concentration,
    GaussianCanaryNull,
    SignCanaryNull,
    concentration_of,
)
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.null import Null

DIM, DELTA = 64, 1e-5
SHAPES = ("1", "2", "4", "8", "ones", "dense")
BOUNDS = ("threshold_valid", "threshold_gdp")


def limit(runs):
    return stats.binom.isf(1e-6, runs, 0.05)


def target(shape, dim, rng):
    """A vector to compare canaries with."""
    vector = np.zeros(dim, np.float32)
    if shape == "dense":
        vector[:] = rng.normal(size=dim)
    elif shape == "ones":
        vector[:] = 1
    else:
        vector[rng.choice(dim, int(shape), replace=False)] = 1
    return vector


def null_of(family, vector, known):
    if family == "dirac":
        return None  # other excluded canaries are all there is
    if family == "gaussian" and known:
        return GaussianCanaryNull(vector.size)
    return SignCanaryNull(vector.size, concentration_of(vector) if known else None)


def false_alarms(family, shape, num_canaries, runs, known):
    """Audits of pure noise with a bound above 0, by method."""
    rng, found = np.random.default_rng(31), dict.fromkeys(BOUNDS, 0)
    dim = max(DIM, num_canaries) if family == "dirac" else DIM
    for run in range(runs):
        vector = target(shape, dim, rng)
        scores = FAMILIES[family](7000 + run, num_canaries, dim).cosines(vector)
        included = rng.random(num_canaries) < 0.5
        canaries = CanaryScores(scores[included], scores[~included])
        null = null_of(family, vector, known)
        kind = "empirical" if null is None else "closed_form"
        setting = AuditSetting(canaries, DELTA, 0.95, Null(kind, null, dim))
        for method in BOUNDS:
            found[method] += METHODS[method](setting).epsilon > 0
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("num_canaries", "runs", "known"),
    [
        (60, 20, True),
        *(
            pytest.param(*size, known, marks=pytest.mark.slow)
            for size in ((50, 200), (2000, 40))
            for known in (True, False)
        ),
    ],
)
def test_noise_proves_nothing(family, shape, num_canaries, runs, known):
    found = false_alarms(family, shape, num_canaries, runs, known)
    assert max(found.values()) <= limit(runs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "mu", [2.0, *(pytest.param(mu, marks=pytest.mark.slow) for mu in (0.5, 4.0))]
)
@pytest.mark.parametrize("ones", [1, 4, 64])
def test_gaussian_mechanisms_are_covered_at_their_true_epsilon(ones, mu):
    """A release with a few large coordinates, and noise on very many that hides a canary.

    A canary's score is what the large ones give it, of variance 0.36, and its noise, of deviation
    0.8; an included one's is larger by mu times that deviation.
    """
    rng, runs, count, noise, dim = np.random.default_rng(77), 120, 200, 0.8, 10**6
    share = 1 - noise**2
    null = SignCanaryNull(dim, Concentration(share**1.5 / math.sqrt(ones), share**2 / ones))
    truth = epsilon_of_sigma(1 / mu, DELTA)
    found = {method: [] for method in BOUNDS}
    for _ in range(runs):
        signs = 2 * rng.integers(0, 2, (2, count, ones)) - 1
        scores = math.sqrt(share / ones) * signs.sum(axis=2) + noise * rng.normal(size=(2, count))
        canaries = CanaryScores((scores[0] + mu * noise) / 1000, scores[1] / 1000)
        setting = AuditSetting(canaries, DELTA, 0.95, Null("closed_form", null, dim))
        for method in BOUNDS:
            found[method].append(METHODS[method](setting).epsilon)
    for bounds in found.values():
        assert np.sum(np.array(bounds) > truth) <= limit(runs)


@pytest.mark.parametrize(
    ("large", "mu"),
    [
        (3, 2.0),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0, 6.0), (3, 0.5), (60, 2.0))),
    ],
)
def test_dirac_canaries_are_covered_by_their_empirical_null(large, mu):
    """A release whose entries are noise, of deviation 1, and some large ones of either sign."""
    rng, runs, count, dim = np.random.default_rng(79), 40, 200, 500
    truth, found = epsilon_of_sigma(1 / mu, DELTA), {method: [] for method in BOUNDS}
    for run in range(runs):
        family = FAMILIES["dirac"](run, count, dim)
        included = rng.random(count) < 0.5
        release = rng.normal(size=dim)
        release[:large] += 20 * rng.choice([-1, 1], large)
        for canary in np.flatnonzero(included):
            release += mu * family.vector(canary)
        scores = family.cosines(release.astype(np.float32))
        canaries = CanaryScores(scores[included], scores[~included])
        setting = AuditSetting(canaries, DELTA, 0.95, Null(dim=dim))
        for method in BOUNDS:
            found[method].append(METHODS[method](setting).epsilon)
    for bounds in found.values():
        assert np.sum(np.array(bounds) > truth) <= limit(runs)
    assert mu < 6 or large or np.median(found["threshold_gdp"]) > 1.5
