"""The error counts of the loss-based attack on challenge bases, at all false positive rates.

A challenge base is a training set and a point that is added to it or not. Yıldırım et al. (2025),
Algorithms 2 to 5. The counts are the input of `fl_audit.estimators.challenge_bases`.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts
from fl_audit.membership.lira import NormalFit, member_p_values

_ENOUGH_FOR_SKEWNESS = 30
_LARGE_SKEWNESS = 2.0


@dataclass(frozen=True, eq=False)
class MeasuredMia:
    """The decisions of an attack at every target false positive rate alpha*.

    Attributes:
      without: The smallest alpha* at which each challenge without the point is classified as a
        member, float64 of shape (bases, N0).
      having: The same for each challenge with the point, float64 of shape (bases, N1).
    """

    without: FloatArray
    having: FloatArray

    def counts(self, false_positive_rate: float) -> ChallengeCounts:
        """The errors on each base at one target false positive rate, in (0, 1)."""
        fp, fn = self.curve([false_positive_rate])
        bases, n0 = self.without.shape
        n1 = self.having.shape[1]
        return ChallengeCounts(fp[0], np.full(bases, n0), fn[0], np.full(bases, n1))

    def curve(self, false_positive_rates: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        """False positives X(alpha*) and false negatives Y(alpha*), the curve of Figure 4.

        Args:
          false_positive_rates: Values of alpha*, each in (0, 1), of shape (a,).

        Returns:
          False positives X and false negatives Y, int64 of shape (a, bases).

        Raises:
          InputError: A rate is not in (0, 1).
        """
        rates = np.asarray(false_positive_rates, dtype=np.float64)
        if not np.all((rates > 0) & (rates < 1)):
            raise InputError(f"false_positive_rate must be in (0, 1), got {rates.tolist()}")
        fp, tp = (np.sum(p <= rates[:, None, None], axis=2) for p in (self.without, self.having))
        return fp, self.having.shape[1] - tp


def measure_mia(
    challenges_without: npt.ArrayLike,
    challenges_having: npt.ArrayLike,
    shadow_without: npt.ArrayLike,
    shadow_having: npt.ArrayLike,
) -> MeasuredMia:
    """The attack on challenged models with separate shadow models. Algorithms 2 and 4.

    Algorithm 4 trains fresh shadow models for every challenge. Here all challenges on a base share
    the same shadow models: given the shadow models, the test is fixed and the challenges are
    independent, so counts are binomial (equation 1) with the error rates of this test.

    Args:
      challenges_without: Losses (or negative margins) of each base's point under challenged models
        trained without it, float of shape (bases, N0).
      challenges_having: Losses under challenged models trained with the point, of shape (bases,
        N1).
      shadow_without: Losses under shadow models trained without the point, of shape (bases, M0).
      shadow_having: Losses under shadow models trained with the point, of shape (bases, M1).

    Raises:
      InputError: There are no bases, a side has fewer than 2 shadow models, a loss is not finite,
        the shapes disagree, or the losses to which a distribution is fitted are all equal.
    """
    attacked = [_losses(challenges_without, 1), _losses(challenges_having, 1)]
    shadow = [_losses(shadow_without, 2), _losses(shadow_having, 2)]
    _check_bases([*attacked, *shadow])
    _warn_if_skewed(shadow)
    fits = [_fit_all(losses) for losses in shadow]
    return MeasuredMia(*(member_p_values(losses, *fits) for losses in attacked))


def measure_mia_fast(losses_without: npt.ArrayLike, losses_having: npt.ArrayLike) -> MeasuredMia:
    """The attack on models that are each other's shadow models. Algorithm 5.

    Each loss is tested with two normal distributions: one is fitted to all other losses of its side
    (with or without the point), one to all losses of the opposite side. This is cheap, but the
    decisions on a base are correlated, as they share their shadow models (equation 7).

    Args:
      losses_without: Losses (or negative margins) of each base's point under models trained without
        it, float of shape (bases, N0).
      losses_having: Losses under models trained with the point, float of shape (bases, N1).

    Raises:
      InputError: There are no bases, a side has fewer than 3 models, a loss is not finite, the
        shapes disagree, or the losses to which a distribution is fitted are all equal.

    >>> rng = np.random.default_rng(0)
    >>> attack = measure_mia_fast(rng.normal(size=(1, 100)), rng.normal(2, 1, size=(1, 100)))
    >>> attack.counts(0.1).fp.tolist(), attack.counts(0.1).fn.tolist()
    ([15], [24])
    """
    without, having = _losses(losses_without, 3), _losses(losses_having, 3)
    _check_bases([without, having])
    _warn_if_skewed([without, having])
    return MeasuredMia(
        member_p_values(without, _fit_others(without), _fit_all(having)),
        member_p_values(having, _fit_all(without), _fit_others(having)),
    )


def _losses(values: npt.ArrayLike, least: int) -> FloatArray:
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 2:
        raise InputError("losses must be arrays of challenge bases by models")
    if len(losses) == 0:
        raise InputError("losses must be of at least one challenge base")
    if losses.shape[1] < least:
        raise InputError(f"each side needs at least {least} models, got {losses.shape[1]}")
    if not np.all(np.isfinite(losses)):
        raise InputError("losses must be finite")
    return losses


def _check_bases(sides: list[FloatArray]) -> None:
    bases = [len(side) for side in sides]
    if len(set(bases)) > 1:
        raise InputError(
            f"losses must be of the same challenge bases, got {' and '.join(map(str, bases))}"
        )


def _warn_if_skewed(sides: list[FloatArray]) -> None:
    """Warns if losses to which normal distributions are fitted are far from normal.

    The skewness of 30 normal losses exceeds 2 with probability 1e-5. Cross-entropies of a trained
    model, mostly near 0 and never below, are often more skewed; the test then misses its target
    false positive rate.
    """
    for losses in sides:
        if losses.shape[1] < _ENOUGH_FOR_SKEWNESS:
            continue
        centred = losses - np.mean(losses, axis=1, keepdims=True)
        stddev = np.maximum(np.std(losses, axis=1, keepdims=True), np.finfo(float).tiny)
        skewness = np.abs(np.mean((centred / stddev) ** 3, axis=1))
        if np.max(skewness) > _LARGE_SKEWNESS:
            warnings.warn(
                f"losses are far from normal (skewness {np.max(skewness):.1f} on a challenge "
                "base), so that the attack misses its false positive rate; give minus the "
                "log-odds of the label, -fl_audit.membership.outputs.margin, instead of the "
                "cross-entropy",
                stacklevel=3,
            )
            return


def _fit_all(losses: FloatArray) -> NormalFit:
    return _fit(losses[:, None])


def _fit_others(losses: FloatArray) -> NormalFit:
    """For each of the losses of shape (bases, N), the fit to the other N - 1 of the same base."""
    bases, models = losses.shape
    others = ~np.eye(models, dtype=np.bool_)
    rest = np.broadcast_to(losses[:, None, :], (bases, models, models))[:, others]
    return _fit(rest.reshape(bases, models, models - 1))


def _fit(losses: FloatArray) -> NormalFit:
    """The fits along the last axis."""
    if np.any(np.ptp(losses, axis=-1) == 0):
        raise InputError("losses of a challenge base must not be all equal on one of its two sides")
    return NormalFit(np.mean(losses, axis=-1), np.std(losses, axis=-1, ddof=1))
