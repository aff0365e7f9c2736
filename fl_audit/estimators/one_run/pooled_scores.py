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
    """Half of a mixture: a normal law, or Student's t of 3 degrees.

    Attributes:
      is_normal: Which of both it is.
      center: The center.
      scale: The scale, above 0.
    """

    is_normal: bool
    center: float
    scale: float

    def log_density(self, x: FloatArray) -> FloatArray:
        squares = ((x - self.center) / self.scale) ** 2
        if self.is_normal:
            return np.asarray(-squares / 2 - math.log(self.scale * math.sqrt(2 * math.pi)))
        return np.asarray(
            -2 * np.log1p(squares / 3) - math.log(self.scale * math.pi * math.sqrt(3) / 2)
        )

    def refitted(self, x: FloatArray, share: FloatArray) -> "_Part":
        """The step of an EM algorithm, with the share of each score that is this part's."""
        squares = ((x - self.center) / self.scale) ** 2
        pull = share if self.is_normal else share * 4 / (3 + squares)
        total, weight = max(share.sum(), 1e-9), max(pull.sum(), 1e-9)
        center = float((pull * x).sum() / weight)
        scale = math.sqrt(float((pull * (x - center) ** 2).sum()) / total)
        return _Part(self.is_normal, center, max(scale, 1e-3))


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
    x = _standard(ascending)
    if np.ptp(x) == 0:
        return None
    at = np.linspace(0, len(x) - 1, min(len(x), _MOST_QUANTILES)).astype(np.int64)
    fits = [_fitted(x[at], is_normal) for is_normal in (False, True)]
    likelihood, one, other = max(fits, key=lambda fit: fit[0])
    alone = max(_alone(x[at], is_normal) for is_normal in (False, True))
    if (likelihood - alone) * len(x) / len(at) < _CLEAR:
        return None
    excluded, included = _told_apart(one, other)
    return np.asarray(special.expit(included.log_density(x) - excluded.log_density(x)))


def _standard(ascending: FloatArray) -> FloatArray:
    """The scores in median deviations from their median, cut off far away."""
    x = ascending / max(np.abs(ascending).max(), np.finfo(float).tiny)
    x = x - np.median(x)
    unit = np.median(np.abs(x)) or np.abs(x).mean() or 1.0
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(x / unit, -_FARTHEST, _FARTHEST))


def _fitted(x: FloatArray, is_normal: bool) -> tuple[float, _Part, _Part]:
    """The likelier of two fits, which start from shifted laws and from a narrow and a wide one."""
    low, high = np.quantile(x, [0.25, 0.75])
    starts = (
        (_Part(is_normal, low, 0.9), _Part(is_normal, high, 0.9)),
        (_Part(is_normal, 0.0, 0.9), _Part(is_normal, 0.7, max(1.3 * x.std(), 1.3))),
    )
    return max((_climb(x, *start) for start in starts), key=lambda fit: fit[0])


def _climb(x: FloatArray, one: _Part, other: _Part) -> tuple[float, _Part, _Part]:
    for _ in range(_STEPS):
        share = special.expit(other.log_density(x) - one.log_density(x))
        one, other = one.refitted(x, 1 - share), other.refitted(x, share)
    return float(np.logaddexp(one.log_density(x), other.log_density(x)).sum()), one, other


def _alone(x: FloatArray, is_normal: bool) -> float:
    """The log likelihood of one law for all scores, times two as that of mixtures is."""
    part = _Part(is_normal, 0.0, 1.0)
    for _ in range(_STEPS):
        part = part.refitted(x, np.ones(len(x)))
    return float(part.log_density(x).sum()) + len(x) * math.log(2)


def _told_apart(one: _Part, other: _Part) -> tuple[_Part, _Part]:
    """The part of excluded and that of included canaries."""
    excluded, included = sorted((one, other), key=lambda part: part.center + part.scale)
    return excluded, included
