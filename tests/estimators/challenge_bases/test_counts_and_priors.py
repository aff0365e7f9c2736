"""Error counts and priors: what is refused, in one clear line."""

import re

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.counts_and_priors import (
    BetaStrength,
    ChallengeCounts,
    CorrelationPrior,
    FixedStrength,
    Prior,
    alpha_prior,
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([], [], [], []), "counts must hold at least one challenge base, got none"),
        (([1], [2], [1], [2, 2]), "got 1, 1, 1 and 2"),
        (([1, 3], [2, 2], [1, 1], [2, 2]), "challenge base 1: fp must be at most n0, got 3 of 2"),
        (([1], [2], [3], [2]), "challenge base 0: fn must be at most n1, got 3 of 2"),
        (
            ([-1], [2], [1], [2]),
            "challenge base 0: fp must be a whole number of at least 0, got -1",
        ),
        (([0.5], [2], [1], [2]), "challenge base 0: fp must be a whole number of at least 0"),
        (([np.nan], [2], [1], [2]), "got nan"),
        ((["a"], [2], [1], [2]), "fp must hold whole numbers"),
        (([[1]], [2], [1], [2]), "fp must be one-dimensional, got shape (1, 1)"),
    ],
)
def test_bad_counts_are_refused(columns, message):
    with pytest.raises(InputError, match=re.escape(message)):
        ChallengeCounts(*columns)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Prior(epsilon_variance=0),
            "epsilon_variance must be a number above 0 and at most 1,000,000",
        ),
        (lambda: Prior(epsilon_variance=float("nan")), "epsilon_variance must be"),
        (lambda: BetaStrength(a=0), "strength's a must be"),
        (lambda: FixedStrength(1.5), "strength must be in [0, 1], got 1.5"),
        (lambda: CorrelationPrior(-1), "tau_variance must be"),
        (lambda: alpha_prior("unifrom"), "did you mean 'uniform'?"),
        (lambda: alpha_prior("2"), "strength must be in [0, 1], got 2.0"),
    ],
)
def test_bad_priors_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(("a", "b"), [(2, 3), (0.5, 0.5)])
def test_moments_of_the_strength_are_its_integrals(a, b):
    # Midpoints of a million equal steps; the poles of Beta(1/2, 1/2) cost a few 1e-4.
    s = (np.arange(1_000_000) + 0.5) / 1_000_000
    prior = BetaStrength(a, b)
    density = np.exp(prior.logpdf(s)) / 1_000_000
    upto = s <= 0.7
    for power, moment in enumerate(prior.moments_below(np.array(0.7))):
        assert moment == pytest.approx(np.sum((density * s**power)[upto]), abs=1e-3)
