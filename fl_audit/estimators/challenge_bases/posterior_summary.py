"""The summary of a posterior of epsilon and strength, with diagnostics of Markov chains."""

from dataclasses import dataclass, field

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.json_records import WRITTEN_IF_SET, fields_to_json


@dataclass(frozen=True)
class Marginal:
    """Posterior mean and equal-tailed credible interval of one parameter."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class PosteriorSummary:
    """The posterior of epsilon and of the attacks' strength, given error counts.

    Attributes:
      epsilon: Marginal of epsilon, in nats.
      strength: Marginal of s, in [0, 1].
      acceptance: Share of accepted moves of a Markov chain; None without a chain.
      ess: Effective sample size of epsilon, over all chains; None without a chain.
      r_hat: Split R-hat of epsilon over the chains, near 1 if they agree; None without a chain.
      tau: Marginal of tau, the correlation of two decisions on the same side; None if counts are
        independent.
      rho: Marginal of rho, the correlation of two decisions on different sides; None if counts are
        independent.
    """

    epsilon: Marginal
    strength: Marginal
    acceptance: float | None = None
    ess: float | None = None
    r_hat: float | None = None
    tau: Marginal | None = field(default=None, metadata=WRITTEN_IF_SET)
    rho: Marginal | None = field(default=None, metadata=WRITTEN_IF_SET)

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit mcmc --json` prints.

        >>> half = Marginal(0.5, 0.25, 0.75)
        >>> list(PosteriorSummary(half, half).to_json())
        ['epsilon', 'strength', 'acceptance', 'ess', 'r_hat']
        """
        return fields_to_json(self)


# Diagnostics of the mixing of Markov chains.
#
# Gelman, Carlin, Stern, Dunson, Vehtari & Rubin (2013), Bayesian Data Analysis, sections 11.4 and
# 11.5; Geyer (1992) for truncating the sum of autocorrelations.


def split_r_hat(chains: FloatArray) -> float:
    """The potential scale reduction of chains split in halves: near 1 if all halves agree.

    It is sqrt(((m - 1) / m W + B / m) / W) for halves of length m >= 2, with W the mean of their
    variances and B / m the variance of their means.

    >>> split_r_hat(np.array([[0.0, 1.0, 0.0, 1.0]])) < 1 < split_r_hat(np.array([[0, 1, 5, 6.0]]))
    True
    """
    halves = _halves(chains)
    m = halves.shape[1]
    within, between = _variances(halves)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt((m - 1) / m + between / within))


def effective_sample_size(chains: FloatArray) -> float:
    """The number of independent draws that would determine the mean as precisely.

    It is the number of draws over (1 + 2 sum of autocorrelations), by the halves of all chains. The
    sum is truncated at the first pair of neighbouring autocorrelations that is not positive, and
    pairs are made to decrease (Geyer's initial monotone sequence). It is at most the number of
    draws, and 0 if the chains never moved.

    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> 3000 < effective_sample_size(draws) <= 4000
    True
    """
    halves = _halves(chains)
    m = halves.shape[1]
    within, between = _variances(halves)
    if within == 0:
        return 0.0
    total = (m - 1) / m * within + between
    autocovariance = _autocovariances(halves)
    correlation = 1 - (within - autocovariance * m / (m - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[: m // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0]] if len(ends) else pairs)
    time = max(2 * float(np.sum(pairs)) - 1, 1.0)
    return halves.size / time


def autocorrelations(chains: FloatArray, num_lags: int) -> FloatArray:
    """The sample autocorrelations of chains, at lags 0 to num_lags - 1.

    Autocovariances about each chain's own mean are averaged over the chains, then divided by the
    one at lag 0 (Yıldırım et al., Figure 6). If no chain ever moved, all are 1.

    >>> autocorrelations(np.array([[1.0, -1.0, 1.0, -1.0]]), 3).tolist()
    [1.0, -0.75, 0.5]
    """
    covariances = _autocovariances(chains)[:num_lags]
    if covariances[0] <= 0:
        return np.ones_like(covariances)
    return np.asarray(covariances / covariances[0])


def _halves(chains: FloatArray) -> FloatArray:
    m = chains.shape[1] // 2
    return np.concatenate([chains[:, :m], chains[:, -m:]])


def _variances(halves: FloatArray) -> tuple[float, float]:
    """The mean variance within the halves, and the variance of their means."""
    within = float(np.mean(np.var(halves, axis=1, ddof=1)))
    return within, float(np.var(np.mean(halves, axis=1), ddof=1))


def _autocovariances(halves: FloatArray) -> FloatArray:
    """The mean over the halves of their autocovariances at lags 0 to m - 1."""
    m = halves.shape[1]
    centred = halves - np.mean(halves, axis=1, keepdims=True)
    size = 1 << (2 * m - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    return np.asarray(np.mean(np.fft.irfft(spectrum, size, axis=1)[:, :m], axis=0) / m)
