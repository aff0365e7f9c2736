"""The density of the posterior error rates along the boundary of R(epsilon, delta).

Given its counts and a uniform prior, a base's error rates are alpha ~ Beta(fp + 1, n0 - fp + 1) and
beta ~ Beta(fn + 1, n1 - fn + 1). Outside R(epsilon, delta) lies a mass of

    C(epsilon, delta) = P((alpha, beta) not in R(epsilon, delta)),

which falls in both arguments. Its two derivatives are integrals along the boundary: four straight
pieces that are the same up to swapping alpha and beta and taking complements. On the piece
y = c - e^epsilon x with c = 1 - delta, 0 <= x <= c / (1 + e^epsilon),

    -dC/d epsilon = integral of p(x) p(y) e^epsilon x dx,   -dC/d delta = integral of p(x) p(y) dx.

Both integrands are log-concave, so a Gauss rule around the mode gives every digit, in log space
and without cancellation, however far in the tail.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_DROP = 40.0
"""The integrand ends where its log is so far below that of its largest value."""


@dataclass(frozen=True, eq=False)
class BoundaryDensity:
    """The logs of -dC/d epsilon and -dC/d delta, a row per challenge base.

    Attributes:
      by_epsilon: Logs of -dC/d epsilon, float64 of shape (n, k).
      by_delta: Logs of -dC/d delta, float64 of shape (n, k).
    """

    by_epsilon: FloatArray
    by_delta: FloatArray


def boundary_density(counts: ChallengeCounts, epsilon: FloatArray, delta: float) -> BoundaryDensity:
    """The rates at which the posterior mass outside R(epsilon, delta) falls with both arguments.

    Args:
      counts: Counts of n challenge bases.
      epsilon: Points for each base, at least 0, float64 of shape (n, k).
      delta: The delta of differential privacy, in [0, 1).

    >>> flat = ChallengeCounts([0], [0], [0], [0])  # C = 2 / (1 + e^epsilon) where delta = 0
    >>> slope = boundary_density(flat, np.log([[3.0]]), 0.0).by_epsilon
    >>> bool(np.isclose(np.exp(slope[0, 0]), 2 * 3 / 4**2))
    True
    """
    fp, n0, fn, n1 = (v.astype(np.float64) for v in (counts.fp, counts.n0, counts.fn, counts.n1))
    right = _Rates(fp, n0), _Rates(fn, n1)
    wrong = _Rates(n0 - fp, n0), _Rates(n1 - fn, n1)
    by_epsilon = np.full(epsilon.shape, -np.inf)
    by_delta = np.full(epsilon.shape, -np.inf)
    for first, second in (right, right[::-1], wrong, wrong[::-1]):
        piece = _Piece.of(first, second, epsilon, delta).integrate()
        by_epsilon = np.logaddexp(by_epsilon, piece.by_epsilon)
        by_delta = np.logaddexp(by_delta, piece.by_delta)
    return BoundaryDensity(by_epsilon, by_delta)


@dataclass(frozen=True, eq=False)
class _Rates:
    """The law of an error rate, Beta(errors + 1, trials - errors + 1), for each base."""

    errors: FloatArray
    trials: FloatArray

    def log_normaliser(self) -> FloatArray:
        return np.asarray(special.betaln(self.errors + 1, self.trials - self.errors + 1))


@dataclass(frozen=True, eq=False)
class _Piece:
    """One piece of the boundary: x = steep t and y = c - slope t for t in [0, 1].

    The log density is a0 log x + a1 log(1 - x) + b0 log y + b1 log(1 - y) + constant.
    """

    a0: FloatArray
    a1: FloatArray
    b0: FloatArray
    b1: FloatArray
    constant: FloatArray
    delta: float
    steep: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, x: _Rates, y: _Rates, epsilon: FloatArray, delta: float) -> "_Piece":
        c = 1 - delta
        a0, b0 = (rates.errors[:, None] for rates in (x, y))
        a1, b1 = ((rates.trials - rates.errors)[:, None] for rates in (x, y))
        log_steep = np.log(c) + special.log_expit(-epsilon)
        normaliser = (x.log_normaliser() + y.log_normaliser())[:, None]
        return cls(
            a0, a1, b0, b1,
            # x^a0 and dx are powers of steep, taken out so that they do not underflow.
            constant=(a0 + 1) * log_steep + b0 * np.log(c) - normaliser,
            delta=delta,
            steep=c * special.expit(-epsilon),
            slope=c * special.expit(epsilon),
        )  # fmt: skip

    def log_density(self, t: FloatArray) -> FloatArray:
        """The log density up to the constant; t may have a trailing axis beyond the points'."""
        a0, a1, b0, b1, steep, slope = (
            np.expand_dims(v, tuple(range(2, t.ndim)))
            for v in (self.a0, self.a1, self.b0, self.b1, self.steep, self.slope)
        )
        return np.asarray(
            special.xlogy(a0, t)
            + special.xlog1py(a1, -steep * t)
            + special.xlog1py(b0, -slope / (1 - self.delta) * t)
            + special.xlogy(b1, self.delta + slope * t)
        )

    def rising(self, t: FloatArray) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        """Whether the log density rises at t, in (0, 1)."""
        up = self.a0 / t + self.b1 * self.slope / (self.delta + self.slope * t)
        ratio = self.slope / (1 - self.delta)
        down = self.a1 * self.steep / (1 - self.steep * t) + self.b0 * ratio / (1 - ratio * t)
        return np.asarray(up > down)

    def integrate(self) -> BoundaryDensity:
        """Both integrals along the piece."""
        mode = self._mode()
        height = self.log_density(mode)
        start = self._where_low(np.zeros_like(mode), mode, height)
        end = self._where_low(np.ones_like(mode), mode, height)
        half = (end - start) / 2
        t = (start + half)[..., None] + half[..., None] * _NODES
        weights = np.exp(self.log_density(t) - height[..., None]) * _WEIGHTS * half[..., None]
        scale = height + self.constant
        return BoundaryDensity(
            by_epsilon=scale + np.log(np.sum(weights * t, axis=-1)) + np.log(self.slope),
            by_delta=scale + np.log(np.sum(weights, axis=-1)),
        )

    def _mode(self) -> FloatArray:
        low, high = np.zeros_like(self.steep), np.ones_like(self.steep)
        for _ in range(40):
            middle = (low + high) / 2
            rising = self.rising(middle)
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        # A mode at an end of the piece is that end.
        return np.where(high == 1, 1.0, np.where(low == 0, 0.0, (low + high) / 2))

    def _where_low(self, outer: FloatArray, inner: FloatArray, height: FloatArray) -> FloatArray:
        """A point between outer and the mode inner, beyond which the density is negligible."""
        for _ in range(24):
            middle = (outer + inner) / 2
            low = self.log_density(middle) < height - _DROP
            outer, inner = np.where(low, middle, outer), np.where(low, inner, middle)
        return outer
