"""The posterior of epsilon and of the attacks' strength, by the grid or by Markov chains."""

from typing import Literal

import numpy as np

from fl_audit.errors import InputError, nearest
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.grid import GridPosterior, grid_posterior
from fl_audit.estimators.challenge_bases.mhaar_chains import (
    ChainSettings,
    MhaarDraws,
    mhaar_posterior,
)
from fl_audit.estimators.challenge_bases.posterior_summary import PosteriorSummary
from fl_audit.estimators.scores import check_confidence, check_delta

Method = Literal["grid", "mhaar"]


def posterior(
    counts: ChallengeCounts,
    delta: float,
    *,
    method: Method | None = None,
    correlated: bool = False,
    confidence: float = 0.9,
    prior: Prior | None = None,
    settings: ChainSettings | None = None,
    seed: int = 0,
) -> PosteriorSummary:
    """Mean and equal-tailed credible intervals of epsilon and strength, given error counts.

    The model is that of MCMC-DP-Est, Yıldırım et al. (2025), equations 1 to 7 and Algorithm 1. It
    assumes that, given its error rates, the counts of each attack are binomial and independent
    (with `correlated`: bivariate normal, equation 7), and that, given epsilon and the strength s,
    the error rates of each base are independent and uniform on R(epsilon, delta) without R(s
    epsilon, s delta) (region_mass.py).

    A credible interval contains the true epsilon with its stated probability if epsilon and
    strength are drawn from the prior and the model is right. It has no stated coverage for a fixed
    mechanism, and its upper end depends on the prior: no counts rule out a larger epsilon.

    Args:
      counts: Counts of the challenge bases.
      delta: The delta of differential privacy, in [0, 1).
      method: "grid" integrates without Monte Carlo; "mhaar" is the paper's Markov chain. By
        default grid for independent counts and mhaar for correlated ones, which the grid
        cannot do.
      correlated: Whether decisions on a base share their shadow models (Algorithm 5), so that
        counts follow equation 7 with unknown tau and rho instead of equation 1.
      confidence: Posterior probability of the intervals, in (0, 1).
      prior: Prior of the parameters; by default epsilon is |N(0, 10)| (variance 10) and strength
        Beta(1, 1).
      settings: Settings of the Markov chains; the grid needs none.
      seed: Seed of the Markov chains.

    Raises:
      InputError: An argument is out of range or the method cannot be applied.

    >>> counts = ChallengeCounts(fp=[10, 5], n0=[100, 100], fn=[10, 20], n1=[100, 100])
    >>> result = posterior(counts, 1e-5)
    >>> 1.8 < result.epsilon.lower < result.epsilon.mean < result.epsilon.upper < 7
    True
    """
    check_confidence(confidence)
    return full_posterior(
        counts,
        delta,
        method=method,
        correlated=correlated,
        prior=prior,
        settings=settings,
        seed=seed,
    ).summary(confidence)


def full_posterior(
    counts: ChallengeCounts,
    delta: float,
    *,
    method: Method | None = None,
    correlated: bool = False,
    prior: Prior | None = None,
    settings: ChainSettings | None = None,
    seed: int = 0,
) -> GridPosterior | MhaarDraws:
    """The posterior itself, as densities on a grid or as the draws of the chains.

    Arguments and errors are those of `posterior`.
    """
    check_delta(delta)
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    prior = prior or Prior()
    chosen = method or ("mhaar" if correlated else "grid")
    if chosen not in ("grid", "mhaar"):
        raise InputError(f"unknown method {chosen!r}: {nearest(chosen, ['grid', 'mhaar'])}")
    if chosen == "mhaar":
        return mhaar_posterior(
            counts,
            delta,
            prior,
            correlated=correlated,
            settings=settings or ChainSettings(),
            rng=np.random.default_rng(seed),
        )
    if correlated:
        raise InputError("grid integrates independent counts only: use mhaar for correlated ones")
    return grid_posterior(counts, delta, prior)
