"""The two laws of the counts given the error rates, and points to average them over.

A model draws auxiliary error rates for each base from a law that its counts suggest, and weighs
each by likelihood / density of that law. Algorithm 1 of Yıldırım et al. (2025) draws them uniformly
on the unit square, where most have no weight; any positive law leaves the chain as exact.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.prior import CorrelationPrior

_SPREADS = np.array([0.0, 0.3, 1.0, 3.0])
"""Multiples of the prior deviation: auxiliary rates spread as far as such a tau makes likely."""
_NARROW = 6.0
"""A factor: some spread as little as so many times the counts would, as a negative tau does."""


@dataclass(frozen=True, eq=False)
class ErrorRates:
    """Pairs of error rates for chains c, bases n and points k.

    Attributes:
      alpha: False positive rates, float64 of shape (c, n, k).
      beta: False negative rates, float64 of shape (c, n, k).
    """

    alpha: FloatArray
    beta: FloatArray


@dataclass(frozen=True, eq=False)
class Correlations:
    """The correlations of decisions in each chain.

    Attributes:
      tau: Correlation of two decisions on the same side, float64 of shape (c,).
      rho: Correlation of two decisions on different sides, float64 of shape (c,).
    """

    tau: FloatArray
    rho: FloatArray


class CountModel(Protocol):
    """A law of the counts given the error rates."""

    def draw(self, rng: np.random.Generator, chains: int, points: int) -> ErrorRates:
        """Auxiliary error rates, `points` of them for each chain and base."""

    def log_weights(self, rates: ErrorRates, correlations: Correlations) -> FloatArray:
        """Log of likelihood over density, float64 of shape (c, n, k) or (1, 1, 1).

        It is known up to a constant per base.
        """


class IndependentCounts:
    """Binomial counts (equation 1): the auxiliary law is the posterior, with equal weights."""

    def __init__(self, counts: ChallengeCounts) -> None:
        """Take the counts of n bases."""
        self._alpha = (counts.fp + 1)[:, None], (counts.n0 - counts.fp + 1)[:, None]
        self._beta = (counts.fn + 1)[:, None], (counts.n1 - counts.fn + 1)[:, None]

    def draw(self, rng: np.random.Generator, chains: int, points: int) -> ErrorRates:
        """Draws from Beta(X + 1, N0 - X + 1) and Beta(Y + 1, N1 - Y + 1)."""
        shape = chains, len(self._alpha[0]), points
        return ErrorRates(rng.beta(*self._alpha, shape), rng.beta(*self._beta, shape))

    def log_weights(self, rates: ErrorRates, correlations: Correlations) -> FloatArray:
        """Zeros, since all weights are equal."""
        return np.zeros((1, 1, 1))


class CorrelatedCounts:
    """Bivariate normal counts, equation 7, for decisions that share their shadow models.

    X has mean N0 alpha and variance N0^2 alpha (1 - alpha) a0^2 with a0^2 = 1/N0 + (1 - 1/N0) tau;
    Y likewise; their correlation is rho / (a0 a1). With N0 = N1 = N this is equation 7.

    The auxiliary law is a mixture of Beta laws of counts cut down as tau does, so that it is never
    much narrower than the likelihood; its shapes of 1/2 take up the likelihood's poles at rates of
    0 and 1.

    Raises:
      InputError: If a base has no challenge on one of its sides.
    """

    def __init__(self, counts: ChallengeCounts, prior: CorrelationPrior) -> None:
        """Take the counts of n bases."""
        smallest = min(int(np.min(counts.n0)), int(np.min(counts.n1)))
        if smallest < 1:
            raise InputError(
                "the correlated model needs at least 1 challenge on each side of every challenge "
                f"base, got n0 or n1 of {smallest}"
            )
        self._fp, self._n0, self._fn, self._n1 = (
            np.asarray(v, dtype=np.float64) for v in (counts.fp, counts.n0, counts.fn, counts.n1)
        )
        tau = _SPREADS[:, None] * np.sqrt(prior.tau_variance)
        keep0, keep1 = (
            np.concatenate([np.full((1, len(n)), _NARROW), 1 / (1 + (n - 1) * tau)])
            for n in (self._n0, self._n1)
        )
        self._shapes = (
            keep0 * self._fp + 0.5, keep0 * (self._n0 - self._fp) + 0.5,
            keep1 * self._fn + 0.5, keep1 * (self._n1 - self._fn) + 0.5,
        )  # fmt: skip
        a0, a1, b0, b1 = self._shapes
        self._normaliser = special.betaln(a0, a1) + special.betaln(b0, b1)

    def smallest_tau(self) -> float:
        """The tau above which all variances of equation 7 are positive."""
        most = max(float(np.max(self._n0)), float(np.max(self._n1)))
        return -1.0 if most == 1 else -1 / (most - 1)

    def largest_rho(self, tau: FloatArray) -> FloatArray:
        """The bound on |rho| that keeps all covariances of equation 7 definite, of shape (c,)."""
        a0, a1 = self._relative_deviations(tau)
        return np.asarray(np.min(a0 * a1, axis=1))

    def draw(self, rng: np.random.Generator, chains: int, points: int) -> ErrorRates:
        """Draws from the mixture of Beta laws."""
        n = len(self._n0)
        component = rng.integers(len(self._normaliser), size=(chains, n, points))
        base = np.arange(n)[:, None]
        a0, a1, b0, b1 = (shape[component, base] for shape in self._shapes)
        tiny = np.finfo(np.float64).tiny
        alpha, beta = (np.clip(v, tiny, 1 - 2**-53) for v in (rng.beta(a0, a1), rng.beta(b0, b1)))
        return ErrorRates(alpha, beta)

    def log_weights(self, rates: ErrorRates, correlations: Correlations) -> FloatArray:
        """Log of the bivariate normal density over the mixture's."""
        a0, a1 = (v[:, :, None] for v in self._relative_deviations(correlations.tau))
        spread0 = rates.alpha * (1 - rates.alpha)
        spread1 = rates.beta * (1 - rates.beta)
        x = ((self._fp / self._n0)[:, None] - rates.alpha) / (np.sqrt(spread0) * a0)
        y = ((self._fn / self._n1)[:, None] - rates.beta) / (np.sqrt(spread1) * a1)
        r = correlations.rho[:, None, None] / (a0 * a1)
        rest = 1 - r**2
        quadratic = (x**2 - 2 * r * x * y + y**2) / rest
        log_normal = -(quadratic + np.log(rest * spread0 * spread1)) / 2 - np.log(a0 * a1)
        return np.asarray(log_normal - self._log_mixture(rates))

    def _log_mixture(self, rates: ErrorRates) -> FloatArray:
        log_alpha, log_beta = np.log(rates.alpha), np.log(rates.beta)
        log_not_alpha, log_not_beta = np.log1p(-rates.alpha), np.log1p(-rates.beta)
        a0, a1, b0, b1 = (shape[:, :, None] - 1 for shape in self._shapes)
        terms = [
            a0[m] * log_alpha + a1[m] * log_not_alpha + b0[m] * log_beta + b1[m] * log_not_beta
            - self._normaliser[m][:, None]
            for m in range(len(self._normaliser))
        ]  # fmt: skip
        return np.asarray(np.logaddexp.reduce(terms))

    def _relative_deviations(self, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The deviations a0 and a1, each of shape (c, n)."""
        tau = tau[:, None]
        a0, a1 = (np.sqrt(1 / n + (1 - 1 / n) * tau) for n in (self._n0, self._n1))
        return a0, a1
