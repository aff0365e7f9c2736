"""The model of MCMC-DP-Est: error counts per challenge base, priors, likelihoods of the counts."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError, nearest


@dataclass(frozen=True, eq=False)
class ChallengeCounts:
    """False positives and false negatives of attacks, one entry per challenge base.

    A challenge base is a data set D with a point z outside it; the attack distinguishes models
    trained on D from models trained on D and z. Yıldırım et al. (2025), Definitions 2 and 3,
    section 2.1.

    Attributes:
      fp: False positives X, int64 of shape (n,): models trained on D that the attack classified as
        trained on D and z.
      n0: Numbers N0 of models trained on D, at least 0, int64 of shape (n,).
      fn: False negatives Y, int64 of shape (n,): models trained on D and z that the attack
        classified as trained on D.
      n1: Numbers N1 of models trained on D and z, at least 0, int64 of shape (n,).

    Raises:
      InputError: There is no base, the lengths differ, a count is negative or no whole number, or
        there are more errors than challenges.

    >>> ChallengeCounts(fp=[1, 0], n0=[100, 100], fn=[20, 30], n1=[100, 100]).num_bases
    2
    """

    fp: IntArray
    n0: IntArray
    fn: IntArray
    n1: IntArray

    def __post_init__(self) -> None:
        for name in ("fp", "n0", "fn", "n1"):
            object.__setattr__(self, name, _frozen_counts(name, getattr(self, name)))
        lengths = {len(self.fp), len(self.n0), len(self.fn), len(self.n1)}
        if lengths == {0}:
            raise InputError("counts must hold at least one challenge base, got none")
        if len(lengths) > 1:
            raise InputError(
                "fp, n0, fn and n1 must have one entry per challenge base, got "
                f"{len(self.fp)}, {len(self.n0)}, {len(self.fn)} and {len(self.n1)}"
            )
        for errors, trials in (("fp", "n0"), ("fn", "n1")):
            bad = np.flatnonzero(getattr(self, errors) > getattr(self, trials))
            if len(bad):
                at = int(bad[0])
                raise InputError(
                    f"challenge base {at}: {errors} must be at most {trials}, got "
                    f"{getattr(self, errors)[at]} of {getattr(self, trials)[at]}"
                )

    @property
    def num_bases(self) -> int:
        """Number of challenge bases, n."""
        return len(self.fp)


def _frozen_counts(name: str, values: npt.ArrayLike) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if len(array) == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold whole numbers, got {array.dtype}")
    bad = np.flatnonzero(~((array >= 0) & (array < 2**53) & (array == np.floor(array))))
    if len(bad):
        raise InputError(
            f"challenge base {bad[0]}: {name} must be a whole number of at least 0, "
            f"got {array[bad[0]]}"
        )
    counts = np.array(array, dtype=np.int64)
    counts.flags.writeable = False
    return counts


_LARGEST_VARIANCE = 1e6
"""With a larger variance epsilons above 1,000 are likely, and the grid resolves no counts."""


_SHAPES = 1e-3, 1e6
"""The range of a and b; beyond it the prior's mass is between two points of the strength grid."""


@dataclass(frozen=True)
class BetaStrength:
    """The prior of a strength s ~ Beta(a, b), both in [0.001, 1e6] (Yıldırım et al. 2025, 2.1)."""

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        for name, shape in (("a", self.a), ("b", self.b)):
            if not _SHAPES[0] <= shape <= _SHAPES[1]:
                raise InputError(
                    f"strength's {name} must be a number from {_SHAPES[0]:g} to "
                    f"{_SHAPES[1]:,.0f}, got {shape}"
                )

    def moments_below(self, strength: FloatArray) -> FloatArray:
        """The expectations of 1, s and s^2 over s <= strength, for strengths in [0, 1].

        >>> BetaStrength().moments_below(np.array(0.5)).round(6).tolist()
        [0.5, 0.125, 0.041667]
        """
        if self.a == self.b == 1:
            return np.stack([strength, strength**2 / 2, strength**3 / 3])
        mean = self.a / (self.a + self.b)
        square = mean * (self.a + 1) / (self.a + self.b + 1)
        return np.stack(
            [
                factor * special.betainc(self.a + power, self.b, strength)
                for power, factor in enumerate((1.0, mean, square))
            ]
        )

    def logpdf(self, strength: FloatArray) -> FloatArray:
        """Log of the density; -inf outside (0, 1)."""
        inside = (strength > 0) & (strength < 1)
        safe = np.where(inside, strength, 0.5)
        log_density = (self.a - 1) * np.log(safe) + (self.b - 1) * np.log1p(-safe)
        return np.where(inside, log_density - special.betaln(self.a, self.b), -np.inf)


@dataclass(frozen=True)
class FixedStrength:
    """A known strength s in [0, 1] of the attacks.

    With 0 the error rates of an attack are uniform on all of R(epsilon, delta). With 1 every attack
    is the best possible one on the worst challenge base, as most auditing assumes (Yıldırım et al.
    2025, Remark 2, which warns of the overconfidence that follows).
    """

    value: float

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise InputError(f"strength must be in [0, 1], got {self.value}")


@dataclass(frozen=True)
class CorrelationPrior:
    """The prior of tau and rho, the two correlations of equation 7.

    Here tau ~ normal(0, tau_variance) truncated to (-1/(N - 1), 1) for the largest N, where every
    variance is positive; and rho given tau is uniform where every covariance matrix is positive
    definite: rho^2 < (1/N0 + (1 - 1/N0) tau) (1/N1 + (1 - 1/N1) tau). The paper leaves both to a
    supplement; these are the choices of its authors' public program, with its variance of 1e-4.
    """

    tau_variance: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 < self.tau_variance < math.inf:
            raise InputError(
                f"tau_variance must be a finite number above 0, got {self.tau_variance}"
            )


@dataclass(frozen=True)
class Prior:
    """The priors of the model, independent of each other.

    Attributes:
      epsilon_variance: Variance of the normal distribution whose truncation to [0, inf) is the
        prior of epsilon, in (0, 1,000,000]; else InputError.
      strength: Prior of the attacks' strength s. Given epsilon and s, the error rates of each
        attack are uniform on R_s(epsilon, delta), which is R(epsilon, delta) without R(s epsilon, s
        delta) (equation 2): a larger s keeps them away from blind guessing.
      correlation: Prior of tau and rho; only the correlated model uses it.
    """

    epsilon_variance: float = 10.0
    strength: BetaStrength | FixedStrength = field(default_factory=BetaStrength)
    correlation: CorrelationPrior = field(default_factory=CorrelationPrior)

    def __post_init__(self) -> None:
        if not 0 < self.epsilon_variance <= _LARGEST_VARIANCE:
            raise InputError(
                f"epsilon_variance must be a number above 0 and at most {_LARGEST_VARIANCE:,.0f}, "
                f"got {self.epsilon_variance}"
            )

    def epsilon_logpdf(self, epsilon: FloatArray) -> FloatArray:
        """Log density of epsilon, elementwise for epsilon >= 0."""
        constant = 0.5 * math.log(2 / (math.pi * self.epsilon_variance))
        return np.asarray(constant - epsilon**2 / (2 * self.epsilon_variance))


ALPHA_PRIORS: dict[str, BetaStrength | FixedStrength] = {
    "strength": BetaStrength(),
    "uniform": FixedStrength(0.0),
    "strongest": FixedStrength(1.0),
}
"""The paper's priors of the error rates given epsilon and delta, by their names in commands.

`strength` is equation 2 with s ~ Beta(1, 1), `uniform` its case s = 0 (uniform on R(epsilon,
delta)), and `strongest` the case s = 1 of Remark 2.
"""


def alpha_prior(name: str) -> BetaStrength | FixedStrength:
    """The prior of the strength by name: a known one, a fixed number, or "beta:A,B".

    Raises:
      InputError: The name is neither a known one, nor a number in [0, 1], nor beta:A,B.

    >>> alpha_prior("uniform"), alpha_prior("0.6")
    (FixedStrength(value=0.0), FixedStrength(value=0.6))
    >>> alpha_prior("beta:2,5")
    BetaStrength(a=2.0, b=5.0)
    """
    if name in ALPHA_PRIORS:
        return ALPHA_PRIORS[name]
    kind, _, shapes = name.partition(":")
    try:
        if kind == "beta":
            a, b = map(float, shapes.split(","))
        else:
            value = float(name)
    except ValueError as error:
        raise InputError(
            f"unknown alpha prior {name!r}: {nearest(name, ALPHA_PRIORS)} "
            "(or a number in [0, 1], a fixed strength; or beta:A,B, as in beta:2,5)"
        ) from error
    return BetaStrength(a, b) if kind == "beta" else FixedStrength(value)


# Two models of the counts given the error rates, and samples to average over the rates. A model
# draws auxiliary error rates for each base from a proposal based on its counts, and weights each by
# likelihood / proposal density. Algorithm 1 of Yıldırım et al. (2025) draws them uniformly on the
# unit square, where most have no weight. The chain is exact for every positive proposal.


_SPREADS = np.array([0.0, 0.3, 1.0, 3.0])
"""Multiples of tau's prior standard deviation. For each such tau, a component of the auxiliary
distribution has about the width of the likelihood.
"""
_NARROW = 6.0
"""One more component, for negative tau, is as narrow as if counts were this many times larger."""


@dataclass(frozen=True, eq=False)
class ErrorRates:
    """Pairs of error rates of shape (c, n, k): chains c, bases n and points k."""

    alpha: FloatArray  # false positive rates
    beta: FloatArray  # false negative rates


@dataclass(frozen=True, eq=False)
class Correlations:
    """The correlations of decisions in each chain, of shape (c,)."""

    tau: FloatArray  # of two decisions on the same side
    rho: FloatArray  # of two decisions on different sides


class CountModel(Protocol):
    """A distribution of the counts given the error rates."""

    def draw(self, rng: np.random.Generator, chains: int, points: int) -> ErrorRates:
        """Auxiliary error rates: `points` pairs for each chain and base."""

    def log_weights(self, rates: ErrorRates, correlations: Correlations) -> FloatArray:
        """Log of likelihood / draws' density, plus a constant per base: (c, n, k) or (1, 1, 1)."""


class IndependentCounts:
    """Binomial counts (equation 1): auxiliary rates are drawn from each base's own posterior."""

    def __init__(self, counts: ChallengeCounts) -> None:
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

    The auxiliary distribution is a mixture of Beta distributions for counts times 1 / (1 + (N - 1)
    tau), at several tau, so that it is never much narrower than the likelihood; the 1/2 added to
    each shape matches the likelihood's poles at rates of 0 and 1.
    """

    def __init__(self, counts: ChallengeCounts, prior: CorrelationPrior) -> None:
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
        a0, a1 = self._relative_stddevs(tau)
        return np.asarray(np.min(a0 * a1, axis=1))

    def draw(self, rng: np.random.Generator, chains: int, points: int) -> ErrorRates:
        """Draws from the mixture of Beta distributions."""
        n = len(self._n0)
        component = rng.integers(len(self._normaliser), size=(chains, n, points))
        base = np.arange(n)[:, None]
        a0, a1, b0, b1 = (shape[component, base] for shape in self._shapes)
        tiny = np.finfo(np.float64).tiny
        alpha, beta = (np.clip(v, tiny, 1 - 2**-53) for v in (rng.beta(a0, a1), rng.beta(b0, b1)))
        return ErrorRates(alpha, beta)

    def log_weights(self, rates: ErrorRates, correlations: Correlations) -> FloatArray:
        """Log of the bivariate normal density over the mixture's."""
        a0, a1 = (v[:, :, None] for v in self._relative_stddevs(correlations.tau))
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

    def _relative_stddevs(self, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The relative standard deviations a0 and a1, each of shape (c, n)."""
        tau = tau[:, None]
        a0, a1 = (np.sqrt(1 / n + (1 - 1 / n) * tau) for n in (self._n0, self._n1))
        return a0, a1
