"""Epsilon* of one trained model, from its losses: Negoescu et al. (2024), arXiv:2307.11280.

>>> members, others = [0.1, 0.2, 0.2, 0.9], [0.3, 0.8, 0.9, 1.1]
>>> round(empirical_epsilon_star(members, others, delta=1e-5).epsilon, 3)  # log(0.75 / 0.25)
1.099

Epsilon* is the log of the largest of four ratios of error rates, over loss thresholds (Definition
2). A point is classified as a member if its loss is at most a threshold; t = FPR is the
misclassified share of non-members, and eta = FNR the misclassified share of members.

For mixtures, several models and tests of fit see experiments/negoescu2024_appendix_b.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Distribution, Gaussian
from fl_audit.estimators.gaussian.fit import Guess, epsilon_of_distributions
from fl_audit.estimators.privacy_region import log_ratio
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import check_delta
from fl_audit.estimators.setting import AuditSetting


def log_odds_losses(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """Minus the log-odds of the labels, log(1 - p) - log(p), from logits; the paper's loss.

    For two classes it is footnote 1 of Negoescu et al. (2024); for more, the negated log-odds of
    Carlini et al. (2022), section IV-C. It is the log-sum-exp of all other logits minus the label's
    logit: unlike in cross-entropy, no probability is rounded to 1.

    Args:
      logits: Logits of the model, float64 of shape (..., classes), of at least two classes.
      labels: Classes of the points, from 0, int64 of shape (...).

    Returns:
      The losses in nats, float64 of shape (...).

    >>> log_odds_losses([[100.0, 0.0], [0.0, 3.0]], [0, 0]).tolist()
    [-100.0, 3.0]
    """
    values, classes = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if values.ndim == 0 or values.shape[:-1] != classes.shape or values.shape[-1] < 2:
        raise InputError(
            "logits must have the labels' shape and a last axis of at least two classes, got "
            f"shapes {values.shape} and {classes.shape}"
        )
    if classes.dtype.kind not in "iu" or np.any((classes < 0) | (classes >= values.shape[-1])):
        raise InputError(f"labels must be whole numbers from 0 to {values.shape[-1] - 1}")
    label_logits = np.take_along_axis(values, classes[..., None], axis=-1)
    other_logits = np.array(values)
    np.put_along_axis(other_logits, classes[..., None], -np.inf, axis=-1)
    return np.asarray(special.logsumexp(other_logits - label_logits, axis=-1))


def checked_losses(name: str, values: npt.ArrayLike) -> FloatArray:
    """The losses as float64 of shape (n,), n at least 1, all finite; else InputError."""
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 1 or losses.size == 0 or not np.isfinite(losses).all():
        raise InputError(f"{name} must be a list of at least one loss, all of them finite")
    return losses


Ratio = Literal[
    "(TPR - delta) / FPR", "(TNR - delta) / FNR", "(FNR - delta) / TNR", "(FPR - delta) / TPR"
]
"""The four ratios of equation 7, in its order, with 1 - eta = TPR and 1 - t = TNR.

The last two are the first two, in reverse order, with members and non-members exchanged, and are
large if members have the larger losses. So Epsilon* is invariant under exchanging the samples, and
under negating all losses.
"""

SOURCE = "Negoescu et al. (2024), arXiv:2307.11280"

GUARANTEE = (
    "None: a point estimate of how well the losses of this one trained model tell its members "
    "from other points (the paper's empirical privacy). It is neither a lower nor an upper bound "
    "on the epsilon of the mechanism that trained the model."
)


@dataclass(frozen=True)
class ModelEpsilon:
    """The largest ratio that any threshold attains.

    Attributes:
      epsilon: Log of the largest ratio, in nats, at least 0, possibly infinite.
      threshold: Threshold with that ratio, in the units of the input; None if no ratio exceeds 1,
        or if the largest is only approached as the threshold goes to infinity.
      ratio: Name of the largest of the four ratios; None if `threshold` is None.
    """

    epsilon: float
    threshold: float | None
    ratio: Ratio | None


@dataclass(frozen=True)
class LossTransform:
    """The transformation of losses to logits, in four steps (Negoescu et al. 2024, app. B, 8.1).

    1. normalise: subtract the smallest loss of members and non-members together and divide by the
    range;
    2. add 1, which gives x;
    3. p = exp(-x), in [e^-2, e^-1];
    4. phi = log(p) - log(1 - p), in [-1.855, -0.541].

    The smaller the loss, the larger phi. The scale depends only on the extremes of both samples.
    These drift apart as samples grow, so phi becomes linear in the loss over the bulk, and
    Gaussians fitted to phi of large samples become those fitted to the raw losses. One outlying
    loss has the same effect and also widens its own sample's Gaussian.

    Attributes:
      smallest: The smallest loss of members and non-members together.
      largest: The largest loss of members and non-members together.

    >>> transform = LossTransform.from_losses([1.0, 2.0], [3.0, 5.0])
    >>> transform.logits([1.0, 5.0]).round(3).tolist()
    [-0.541, -1.855]
    >>> transform.loss(transform.logits([1.0, 2.0])).round(12).tolist()
    [1.0, 2.0]
    """

    smallest: float
    largest: float

    @classmethod
    def from_losses(
        cls, member_losses: npt.ArrayLike, non_member_losses: npt.ArrayLike
    ) -> "LossTransform":
        """The common transformation of both samples; InputError if one is empty or not finite."""
        samples = (
            checked_losses("member_losses", member_losses),
            checked_losses("non_member_losses", non_member_losses),
        )
        return cls(
            float(min(sample.min() for sample in samples)),
            float(max(sample.max() for sample in samples)),
        )

    def logits(self, losses: npt.ArrayLike) -> FloatArray:
        """phi of each loss; the same for all if all losses are equal."""
        unit, width = self._unit_and_width()
        above = unit * np.asarray(losses, dtype=np.float64) - unit * self.smallest
        normalised = above / width if width > 0 else np.zeros_like(above)
        # log(p) - log(1 - p) for p = exp(-x) is -log(exp(x) - 1).
        return np.asarray(-np.log(np.expm1(1 + normalised)))

    def loss(self, logit: npt.ArrayLike) -> FloatArray:
        """The loss of each phi, even outside the observed range; infinite if it overflows."""
        unit, width = self._unit_and_width()
        normalised = np.logaddexp(0.0, -np.asarray(logit, dtype=np.float64)) - 1
        with np.errstate(over="ignore"):
            return np.asarray((unit * self.smallest + width * normalised) / unit)

    def _unit_and_width(self) -> tuple[float, float]:
        """0.5 if the range of losses overflows, else 1; and the range times this factor."""
        unit = 0.5 if math.isinf(self.largest - self.smallest) else 1.0
        return unit, unit * self.largest - unit * self.smallest


def epsilon_star_of_distributions(
    members: Distribution, non_members: Distribution, delta: float
) -> ModelEpsilon:
    """Epsilon* over the thresholds with FPR and FNR in (delta, 1 - delta).

    The paper's experiments compute it: log sup over thresholds of the four ratios and 1 (equation
    after 9), without rates outside (delta, 1 - delta) (footnote 2 and appendix B, 8.1). The value
    never exceeds log((1 - 2 delta) / delta), hence is 0 from delta = 1/3 on. The paper takes the
    maximum over 2 million thresholds, equally spaced quantiles of both distributions, which do not
    resolve rates near 1e-6 and below; here it is the supremum, to about 1e-9 relative.

    Args:
      members: Distribution of a statistic on training points.
      non_members: Its distribution on other points; exchanging both leaves epsilon unchanged.
      delta: The delta of differential privacy, in [0, 1). With delta 0 no rate is left out, and two
        different distributions give infinity.

    Returns:
      The largest ratio; its threshold is one on the statistic: "at least the threshold" means
        member.

    >>> from fl_audit.estimators.distributions import Gaussian
    >>> result = epsilon_star_of_distributions(Gaussian(1, 1), Gaussian(0, 1), 1e-5)
    >>> round(result.epsilon, 2)
    3.98
    """
    check_delta(delta)
    if delta == 0:
        return epsilon_star_over_all_thresholds(members, non_members, delta)
    # From delta = 1/2 on the interval is empty; clipped to 1/2, no ratio exceeds 1.
    rate = min(delta, 0.5)
    return epsilon_star_over_all_thresholds(
        _Clipped(members, rate), _Clipped(non_members, rate), delta
    )


def epsilon_star_over_all_thresholds(
    members: Distribution, non_members: Distribution, delta: float
) -> ModelEpsilon:
    """Epsilon* over all thresholds, even with tiny error rates: Definition 2.

    It is the log sup of the four ratios and 1; Negoescu et al. (2024), equation after 9. Arguments
    and result as in `epsilon_star_of_distributions`.

    >>> from fl_audit.estimators.distributions import Gaussian
    >>> result = epsilon_star_over_all_thresholds(Gaussian(1, 1), Gaussian(0, 1), 1e-5)
    >>> round(result.epsilon, 2)  # the Gaussian mechanism's: Balle & Wang (2018)
    4.38
    """
    check_delta(delta)
    if members == non_members:
        return ModelEpsilon(0.0, None, None)
    first = epsilon_of_distributions(non_members, members, delta)
    second = epsilon_of_distributions(members, non_members, delta)
    if first.epsilon >= second.epsilon:
        return ModelEpsilon(first.epsilon, first.threshold, _MEMBERS_ABOVE.get(first.guess))
    return ModelEpsilon(second.epsilon, second.threshold, _MEMBERS_BELOW.get(second.guess))


_MEMBERS_ABOVE: dict[Guess | None, Ratio] = {
    "included": "(TPR - delta) / FPR",
    "excluded": "(TNR - delta) / FNR",
}
_MEMBERS_BELOW: dict[Guess | None, Ratio] = {
    "included": "(FPR - delta) / TPR",
    "excluded": "(FNR - delta) / TNR",
}
"""The ratio for each guess by `epsilon_of_distributions`, and with the distributions exchanged."""


@dataclass(frozen=True)
class _Clipped:
    """A distribution whose tail probabilities are moved into [rate, 1 - rate].

    With rate >= delta, the supremum of the ratios over all thresholds with clipped rates equals the
    supremum over the thresholds with both rates inside. Take a threshold whose FNR is below `rate`
    (the other three cases are analogous), and the higher threshold whose FNR is `rate` and whose
    FPR is no larger than the first one's. With clipped rates, the first two ratios are no smaller
    at the higher threshold, and at the lower one (FNR - delta) / TNR <= (rate - delta) / rate and
    (FPR - delta) / TPR <= (1 - rate - delta) / (1 - rate) are below 1. If no threshold has both
    rates inside (distributions far apart, or a standard deviation of 0), clipping gives the limit
    of distributions with just one such threshold.
    """

    distribution: Distribution
    rate: float

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        return self._moved(self.distribution.logsf(x))

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        return self._moved(self.distribution.logcdf(x))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The quantile of the distribution itself: thresholds are not moved."""
        return self.distribution.isf(p)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        return self.distribution.ppf(p)

    def reflected(self) -> "_Clipped":
        return _Clipped(self.distribution.reflected(), self.rate)

    def _moved(self, log_p: FloatArray) -> FloatArray:
        return np.asarray(np.clip(log_p, math.log(self.rate), math.log1p(-self.rate)))


_MANY_TIES = 0.05
"""If two losses and this share or more equal the smallest, no Gaussian fits the losses."""


def epsilon_star(setting: AuditSetting) -> Estimate:
    """Epsilon* of Gaussians fitted to the transformed losses, given as scores (score = -loss).

    Losses become logits in four steps (`LossTransform`); one Gaussian is fitted to the logits of
    included canaries, one to the logits of excluded ones (mean and population standard deviation).
    The result is Epsilon* of both Gaussians, over the thresholds with both error rates in (delta, 1
    - delta) (`epsilon_star_of_distributions`). Negoescu et al. (2024), section 3.1 and appendix B,
    8.1.

    If all scores of one class are equal (up to rounding), its distribution is a point, and the
    value is the limit of narrower and narrower distributions. If all scores are equal, the value is
    0. With delta 0 the value is infinite unless both Gaussians are the same.
    """
    setting.require(included=2, excluded=2)
    delta = setting.delta
    member_losses, other_losses = -setting.scores.included, -setting.scores.excluded
    transform = LossTransform.from_losses(member_losses, other_losses)
    members = Gaussian.fitted_to(transform.logits(member_losses))
    others = Gaussian.fitted_to(transform.logits(other_losses))
    model = epsilon_star_of_distributions(members, others, delta)
    everywhere = epsilon_star_over_all_thresholds(members, others, delta)
    return Estimate(
        method="epsilon_star",
        kind="estimate",
        epsilon=model.epsilon,
        assumes=(
            "Scores are negated losses of one trained model on independent points; transformed "
            f"losses are Gaussian, also far out in their tails.{_ties(setting)}"
        ),
        guarantee=(
            f"{GUARANTEE} The Gaussian tails decide, and a few outlying losses move them: the true "
            "value may be larger or smaller."
        ),
        source=f"{SOURCE}, section 3.1 and appendix B, 8.1",
        details={
            # As a threshold on the score: "score >= threshold" means included.
            "threshold": (
                None if model.threshold is None else 0.0 - float(transform.loss(model.threshold))
            ),
            "ratio": model.ratio,
            "trimmed_below": delta,
            "largest_possible": _largest_possible(delta),
            "epsilon_all_thresholds": everywhere.epsilon,
            "mean_included": members.mean,
            "std_included": members.std,
            "mean_excluded": others.mean,
            "std_excluded": others.std,
        },
    )


def _ties(setting: AuditSetting) -> str:
    """A warning if many losses, but not all, equal the smallest one, such as 0; else empty."""
    scores = setting.scores
    largest = max(scores.included.max(), scores.excluded.max())
    are_equal = np.concatenate([scores.included, scores.excluded]) == largest
    share = float(np.mean(are_equal))
    if np.sum(are_equal) == 1 or not _MANY_TIES <= share < 1:
        return ""
    return (
        f" They are not: {100 * share:.0f} % are equal to the smallest, as a cross-entropy rounded "
        "to 0 is. Minus the log-odds of the label is the paper's loss."
    )


def _largest_possible(delta: float) -> float:
    """The largest possible value after trimming: log((1 - 2 delta) / delta)."""
    if delta == 0:
        return math.inf
    return max(0.0, math.log1p(-2 * min(delta, 1 / 3)) - math.log(delta))


TRIMMED_BELOW = 0.001
"""Error rates outside (0.001, 0.999) are left out (Negoescu et al., appendix B, 8.1)."""


def empirical_epsilon_star(
    member_losses: npt.ArrayLike, non_member_losses: npt.ArrayLike, delta: float
) -> ModelEpsilon:
    """Epsilon* with the error rates of the samples themselves.

    It is log max over thresholds and over (TPR - delta) / FPR, (TNR - delta) / FNR, (FNR - delta) /
    TNR, (FPR - delta) / TPR and 1, where "loss <= threshold" means member. Negoescu et al. (2024),
    equations 7 and 22.

    Thresholds whose FPR or FNR is outside (0.001, 0.999) are left out (appendix B, 8.1), so that
    the value is at most log(999) = 6.907. If none remains (separated samples, or all losses of one
    sample equal), rates are moved into that interval instead.

    The paper uses 2 million thresholds, the quantiles of both samples. Rates change only at
    observed losses, so every observed loss is tried as threshold, in O(n log n).

    Args:
      member_losses: Losses of the model on its training points, float64 of shape (n1,).
      non_member_losses: Losses on points of the population outside its training set, of shape
        (n0,).
      delta: The delta of differential privacy, in [0, 1).

    >>> result = empirical_epsilon_star([1, 2, 3, 4], [2, 3, 5, 6], 0.0)
    >>> round(float(np.exp(result.epsilon)), 3), result.threshold, result.ratio
    (2.0, 2.0, '(TPR - delta) / FPR')
    """
    check_delta(delta)
    members = np.sort(checked_losses("member_losses", member_losses))
    others = np.sort(checked_losses("non_member_losses", non_member_losses))
    thresholds = np.unique(np.concatenate([members, others]))
    true_positives, false_negatives = _rates(members, thresholds)
    false_positives, true_negatives = _rates(others, thresholds)
    is_inside = _inside(false_negatives) & _inside(false_positives)
    if not is_inside.any():
        is_inside = np.ones_like(is_inside)
    tpr, fnr, fpr, tnr = (
        np.log(np.clip(rates[is_inside], TRIMMED_BELOW, 1 - TRIMMED_BELOW))
        for rates in (true_positives, false_negatives, false_positives, true_negatives)
    )
    return _largest(
        thresholds[is_inside],
        np.stack(
            [
                log_ratio(tpr, fpr, delta),
                log_ratio(tnr, fnr, delta),
                log_ratio(fnr, tnr, delta),
                log_ratio(fpr, tpr, delta),
            ]
        ),
    )


def epsilon_star_empirical(setting: AuditSetting) -> Estimate:
    """`empirical_epsilon_star` of losses given as scores (score = -loss).

    Each class needs 2 scores: a single one has only the rates 0 and 1, which are left out.
    """
    setting.require(included=2, excluded=2)
    scores = setting.scores
    model = empirical_epsilon_star(-scores.included, -scores.excluded, setting.delta)
    return Estimate(
        method="epsilon_star_empirical",
        kind="estimate",
        epsilon=model.epsilon,
        assumes="Scores are negated losses of one trained model on independent points.",
        guarantee=(
            f"{GUARANTEE} The best threshold is chosen on noisy rates, which makes it too large "
            "where little is to be found; rates outside (0.001, 0.999) are left out, which makes "
            "it too small where much is (never above 6.907)."
        ),
        source=f"{SOURCE}, equation 7 and appendix B, 8.1",
        details={
            "threshold": None if model.threshold is None else 0.0 - model.threshold,
            "ratio": model.ratio,
            "trimmed_below": TRIMMED_BELOW,
        },
    )


def _rates(losses: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share of sorted losses up to each threshold, and the share above it, both exact."""
    at_most = np.searchsorted(losses, thresholds, side="right")
    return at_most / losses.size, (losses.size - at_most) / losses.size


def _inside(rates: FloatArray) -> BoolArray:
    return (rates > TRIMMED_BELOW) & (rates < 1 - TRIMMED_BELOW)


def _largest(thresholds: FloatArray, log_ratios: FloatArray) -> ModelEpsilon:
    """The largest of log ratios of shape (4, t), at least 0."""
    ratio, at = np.unravel_index(int(np.argmax(log_ratios)), log_ratios.shape)
    largest = float(log_ratios[ratio, at])
    if largest <= 0:
        return ModelEpsilon(0.0, None, None)
    return ModelEpsilon(largest, float(thresholds[at]), get_args(Ratio)[ratio])
