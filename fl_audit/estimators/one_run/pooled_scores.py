"""What the scores say of who was included before any coin is looked at: a mixture of two laws.

It serves to plan guesses. Any plan is valid that knows no coins (`plan.py`), so nothing here has to
be true: where the mixture fits badly, a bound is smaller and holds all the same.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.scores import CanaryScores

_MOST_QUANTILES = 300
"""The number of scores that the mixture is fitted to: of more, evenly many quantiles."""

_STEPS = 25
_CLEAR = 3.0
"""The gain in log likelihood from which on two laws are believed."""

_FARTHEST = 1e6
"""In median deviations; what lies beyond counts as this far."""


@dataclass(frozen=True)
class _Part:
    """Half of a mixture: a normal law, or Student's t of 3 degrees; one for each of some samples.

    Attributes:
      is_normal: Which of both it is.
      center: The centers, float64 of shape (samples, 1).
      scale: The scales, above 0, of the same shape.
    """

    is_normal: bool
    center: FloatArray
    scale: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        squares = ((x - self.center) / self.scale) ** 2
        if self.is_normal:
            return np.asarray(-squares / 2 - np.log(self.scale * math.sqrt(2 * math.pi)))
        return np.asarray(
            -2 * np.log1p(squares / 3) - np.log(self.scale * math.pi * math.sqrt(3) / 2)
        )

    def refitted(self, x: FloatArray, share: FloatArray) -> "_Part":
        """The step of an EM algorithm, with the share of each score that is this part's."""
        squares = ((x - self.center) / self.scale) ** 2
        pull = share if self.is_normal else share * 4 / (3 + squares)
        total, weight = np.maximum(_sum(share), 1e-9), np.maximum(_sum(pull), 1e-9)
        center = _sum(pull * x) / weight
        scale = np.sqrt(_sum(pull * (x - center) ** 2) / total)
        return _Part(self.is_normal, center, np.maximum(scale, 1e-3))

    @property
    def reach(self) -> FloatArray:
        """How far up it reaches, float64 of shape (samples, 1)."""
        return np.asarray(self.center + self.scale)


@dataclass(frozen=True)
class _Mixture:
    """Two halves of a mixture, and the log likelihood of both, of shape (samples, 1)."""

    likelihood: FloatArray
    one: _Part
    other: _Part

    def log_odds_included(self, x: FloatArray) -> FloatArray:
        """The log odds of being in the part that reaches farther up, of the shape of x."""
        odds = self.other.log_density(x) - self.one.log_density(x)
        return np.where(self.one.reach <= self.other.reach, odds, -odds)


def pooled(scores: CanaryScores) -> FloatArray:
    """All scores in ascending order, which tells nothing of the coins; float64 of shape (m,)."""
    return np.sort(np.concatenate([scores.included, scores.excluded]))


def chances_included(ascending: FloatArray) -> FloatArray | None:
    """The chance that each canary was included, by a mixture fitted to scores without coins.

    Half of the scores are taken for those of included canaries, all with normal laws or all with
    Student's t of 3 degrees, whichever is likelier. The included are those who reach farther
    up, by center and scale together.

    Args:
      ascending: The scores, sorted, float64 of shape (m,).

    Returns:
      The chances, float64 of shape (m,); None where one law fits the scores about as well.
    """
    return chances_in_samples(ascending[None])[0]


def chances_in_samples(ascending: FloatArray) -> list[FloatArray | None]:
    """The same for several samples at once, which takes a tenth of the time.

    Args:
      ascending: The scores of each sample, sorted, float64 of shape (samples, m).

    Returns:
      The chances by sample, float64 of shape (m,), or None.
    """
    x = _standard(ascending)
    num_scores = x.shape[1]
    at = np.linspace(0, num_scores - 1, min(num_scores, _MOST_QUANTILES)).astype(np.int64)
    seen = np.ascontiguousarray(x[:, at])
    fits = [fit for is_normal in (False, True) for fit in _fits(seen, is_normal)]
    likelihoods = np.concatenate([fit.likelihood for fit in fits], axis=1)
    best = np.argmax(likelihoods, axis=1)
    alone = np.maximum(_alone(seen, is_normal=False), _alone(seen, is_normal=True))[:, 0]
    gain = (likelihoods.max(axis=1) - alone) * num_scores / len(at)
    is_clear = (np.ptp(x, axis=1) > 0) & (gain >= _CLEAR)
    chances = np.empty_like(x)
    for number, fit in enumerate(fits):
        chances[best == number] = special.expit(fit.log_odds_included(x))[best == number]
    return [row if clear else None for row, clear in zip(chances, is_clear, strict=True)]


def _standard(ascending: FloatArray) -> FloatArray:
    """The scores in median deviations from their median, cut off far away."""
    largest = np.abs(ascending).max(axis=1, keepdims=True)
    x = ascending / np.maximum(largest, np.finfo(float).tiny)
    x = x - np.median(x, axis=1, keepdims=True)
    unit = np.median(np.abs(x), axis=1, keepdims=True)
    unit = np.where(unit > 0, unit, np.abs(x).mean(axis=1, keepdims=True))
    unit = np.where(unit > 0, unit, 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(x / unit, -_FARTHEST, _FARTHEST))


def _fits(x: FloatArray, is_normal: bool) -> tuple[_Mixture, _Mixture]:
    """Two fits, which start from shifted laws and from a narrow and a wide one."""
    low, high = np.quantile(x, [0.25, 0.75], axis=1, keepdims=True)
    zero, unit = np.zeros_like(low), np.full_like(low, 0.9)
    wide = np.maximum(1.3 * x.std(axis=1, keepdims=True), 1.3)
    return (
        _climb(x, _Part(is_normal, low, unit), _Part(is_normal, high, unit)),
        _climb(x, _Part(is_normal, zero, unit), _Part(is_normal, zero + 0.7, wide)),
    )


def _climb(x: FloatArray, one: _Part, other: _Part) -> _Mixture:
    for _ in range(_STEPS):
        share = special.expit(other.log_density(x) - one.log_density(x))
        one, other = one.refitted(x, 1 - share), other.refitted(x, share)
    return _Mixture(_sum(np.logaddexp(one.log_density(x), other.log_density(x))), one, other)


def _alone(x: FloatArray, is_normal: bool) -> FloatArray:
    """The log likelihood of one law for all scores, times two as that of mixtures is."""
    part = _Part(is_normal, np.zeros((len(x), 1)), np.ones((len(x), 1)))
    for _ in range(_STEPS):
        part = part.refitted(x, np.ones_like(x))
    return _sum(part.log_density(x)) + x.shape[1] * math.log(2)


def _sum(x: FloatArray) -> FloatArray:
    return np.asarray(x.sum(axis=1, keepdims=True))
