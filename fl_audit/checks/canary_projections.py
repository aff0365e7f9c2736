"""Projections of aggregates on canaries, their expected values, and evidence for lost canaries.

The evidence is an e-value for mixtures of lost and whole canaries. An e-value has mean at most 1
under the null hypothesis, so it exceeds 1/p with probability at most p (Markov). Here it is a
likelihood ratio of Gaussian distributions. A canary's inner product with a vector that is
independent of the canary is sub-Gaussian with the Gaussian's variance (Hoeffding 1963 for random
signs), so the ratio has mean at most 1 in any dimension.
"""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.secret_digits import rounded_down

NO_FAULT = 0.02
"""The largest deviation, relative to a client's norm, that is never a fault: norms are rounded."""


@dataclass(frozen=True, eq=False)
class CanaryParticipations:
    """Participations of canaries, an entry for each canary and round.

    The unit of length is the largest norm of a client: clip norm over denominator. If a canary with
    unit vector c adds a times c, the aggregate is Δ = a c + R, and in the canary's first round the
    rest R is independent of c. So ⟨c, Δ⟩ − a has mean 0 and, given |R|, variance |R|²/dim in any
    dimension, for c of random signs or of uniform direction.

    Attributes:
      canaries: The canary of each entry, int64 of shape (n,).
      rounds: The round of each entry, counted from 0, int64 of shape (n,).
      cosines: The cosine of the canary with the round's aggregate, float64 of shape (n,).
      aggregate_lengths: The norm of that aggregate, float64 of shape (n,); NaN if not known.
      client_lengths: The largest norm of a client in that aggregate, float64 of shape (n,); NaN if
        not known.
      others: The number of other included canaries in the round, float64 of shape (n,).
      is_first: Whether the round is the canary's first, in which the model cannot depend on the
        canary yet, bool of shape (n,).
      dim: The length of the vectors.
      knows_tails: Whether a canary's inner product with any vector is sub-Gaussian, as for canaries
        of random signs or of uniform direction, but not of one coordinate.
      are_secret: Whether the rounds are secret, so that a report must not reveal them.
    """

    canaries: IntArray
    rounds: IntArray
    cosines: FloatArray
    aggregate_lengths: FloatArray
    client_lengths: FloatArray
    others: FloatArray
    is_first: npt.NDArray[np.bool_]
    dim: int
    knows_tails: bool
    are_secret: bool = False

    def __len__(self) -> int:
        return len(self.cosines)

    def where(self, mask: npt.NDArray[np.bool_]) -> "CanaryParticipations":
        columns: dict[str, Any] = {
            name: values[mask]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray)
        }
        return dataclasses.replace(self, **columns)

    @property
    def first(self) -> "CanaryParticipations":
        """The participations in canaries' first rounds."""
        return self.where(self.is_first)

    @property
    def with_promise(self) -> "CanaryParticipations":
        """The participations with known norms of the aggregate and of a client."""
        lengths = self.aggregate_lengths, self.client_lengths
        return self.where(np.isfinite(lengths[0]) & np.isfinite(lengths[1]))

    @property
    def standardized(self) -> "CanaryParticipations":
        """The participations beside aggregates of norm √dim, so that `along` is √dim cosines.

        It is then in standard deviations under the null, and the smallest `rest` is below dim.
        """
        return dataclasses.replace(
            self,
            aggregate_lengths=np.full(len(self), math.sqrt(self.dim)),
            client_lengths=np.ones(len(self)),
        )

    @property
    def along(self) -> FloatArray:
        """The projection of the aggregate on the canary, over a client's norm, of shape (n,)."""
        return np.asarray(self.cosines * self.aggregate_lengths / self.client_lengths)

    def rest(self, share: float) -> FloatArray:
        """|R|² over a client's squared norm, if a canary's norm is `share` of a client's.

        It is at least NO_FAULT² dim, so that chance explains a deviation by NO_FAULT, which the
        rounding of norms and cosines may cause.
        """
        aggregate = (self.aggregate_lengths / self.client_lengths) ** 2
        rest = aggregate - 2 * share * self.along + share**2
        return np.maximum(rest, NO_FAULT**2 * self.dim)


@dataclass(frozen=True)
class Coefficient:
    """The mean norm of canaries in aggregates, as a share of a client's."""

    ratio: float  # the share: a weighted mean of the projections
    standard_error: float  # of the ratio
    # Bernstein's linear term, per nat, as canaries of one round disturb each other
    skew: float
    count: int
    is_of_secret: bool = False  # whether the participations' rounds are secret

    def told(self, value: float) -> float:
        """A value for a report: of secret rounds, rounded down on the grid of `secret_digits`."""
        return float(rounded_down(value, self.standard_error)) if self.is_of_secret else value

    @property
    def told_error(self) -> float:
        """The standard error for a report, rounded up like `told`."""
        return -self.told(-self.standard_error)

    def deviation(self, nats: float) -> float:
        """The deviation that chance exceeds with probability at most e^-nats on each side."""
        return self.standard_error * math.sqrt(2 * nats) + self.skew * nats

    def differs_by(self, expected: float, margin: float, nats: float) -> bool:
        """Whether the ratio differs from `expected` by more than a margin and chance together."""
        return abs(self.ratio - expected) > margin + self.deviation(nats)

    def is_within(self, expected: float, margin: float, nats: float) -> bool:
        """Whether the ratio is within a margin of `expected`, even with the error by chance."""
        return abs(self.ratio - expected) + self.deviation(nats) <= margin


def coefficient(participations: CanaryParticipations, expected: float) -> Coefficient | None:
    """The mean norm of canaries in aggregates, over a client's; None without participations.

    The estimate is unbiased in any dimension if the true share is as expected, 1 for included and 0
    for excluded canaries: weights depend only on the rest R, and given R the error has mean 0.

    If tails are not known, or canaries participate several times and rounds may be similar, the
    standard error is at least that from the squared sums of each canary's errors (Efron 1969: a sum
    of independent symmetric terms over the root of the sum of their squares is sub-Gaussian,
    whatever their tails).
    """
    if len(participations) == 0:
        return None
    rest = participations.rest(expected)
    # Without the median, a single aggregate with little else than its canary could decide alone.
    weights = 1 / (rest + np.median(rest))
    weights /= weights.sum()
    ratio = float(np.sum(weights * participations.along))
    crowd = participations.others if expected else np.zeros(len(participations))
    variance = (
        float(np.sum(weights**2 * rest * (1 + np.minimum(crowd / rest, 1)))) / participations.dim
    )
    sums = np.bincount(
        np.unique(participations.canaries, return_inverse=True)[1],
        weights * (participations.along - expected),
    )
    if not participations.knows_tails or len(sums) < len(participations):
        variance = max(variance, float(np.sum(sums**2)))
    return Coefficient(
        ratio=ratio,
        standard_error=math.sqrt(variance),
        skew=float(np.max(2 * crowd * weights)) / participations.dim,
        count=len(participations),
        is_of_secret=participations.are_secret,
    )


_PARTS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Alternative hypotheses: fractions of the excluded canaries that were sent."""

_KEPT = (0.1, 0.3, 0.5, 0.7, 0.9)
_SHARES = (0.5, 0.75, 1.0, 1.4, 2.0, 4.0)
"""Alternative hypotheses: fractions of the included canaries that are kept, and their norms over a
client's.
"""

_ERRORS, _POINTS = 6.0, 25
"""Null hypotheses: the largest distance from the mean share, in standard errors, and the number."""

_STEPS = 50


@dataclass(frozen=True)
class Mixture:
    """A mixture of lost and whole canaries."""

    arriving: float  # the fraction of canaries that reaches aggregates
    share: float  # the norm of arriving canaries in aggregates, over a client's
    log_e_value: float  # the logarithm of the e-value against equal canaries


def excluded_log_e_value(excluded: CanaryParticipations) -> float:
    """The logarithm of the e-value for the hypothesis that some excluded canaries were sent.

    Canaries that were not sent are independent of aggregates and of each other. `excluded` has only
    canaries' first rounds, and inner products must be sub-Gaussian (`knows_tails`).
    """
    ratios = _log_ratios(excluded, 0.0, 1.0)
    logs = [_log_mixture(part, ratios, 0.0) for part in _PARTS]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def uneven(included: CanaryParticipations, measured: Coefficient) -> Mixture:
    """The best-fitting mixture of lost and whole canaries, and the evidence for it.

    The evidence is the smallest over null hypotheses of equal canaries, with share 1 or a share
    near the mean (universal inference, Wasserman et al. 2020). Canaries of one round disturb each
    other in a common direction; their variance is increased accordingly. `included` has only
    canaries' first rounds, and inner products must be sub-Gaussian (`knows_tails`).
    """
    width = _ERRORS * measured.standard_error
    alike = np.append(np.linspace(measured.ratio - width, measured.ratio + width, _POINTS), 1.0)
    arriving, share = _best(included, measured.ratio)
    return Mixture(arriving, share, min(_log_e_value(included, float(null)) for null in alike))


def log_ratio_lost_or_shorter(included: CanaryParticipations, measured: Coefficient) -> float:
    """The log-likelihood that each canary is whole or lost, minus that all are equally short."""
    whole, lost = (_log_ratios(included, measured.ratio, share) for share in (1.0, 0.0))
    return _log_mixture(min(measured.ratio, 1.0), whole, lost)


def _log_e_value(included: CanaryParticipations, null: float) -> float:
    """The logarithm of the e-value against the hypothesis that all canaries have share `null`."""
    lost = _log_ratios(included, null, 0.0)
    logs = [
        _log_mixture(arriving, ratios, lost)
        for ratios in (_log_ratios(included, null, share) for share in _SHARES)
        for arriving in _KEPT
    ]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def _best(included: CanaryParticipations, null: float) -> tuple[float, float]:
    """The most likely fraction of kept canaries, and their norm over a client's (EM algorithm)."""
    weights = 1 / included.rest(null)
    lost = _log_ratios(included, null, 0.0)
    _, arriving, share = max(
        (_log_mixture(arriving, _log_ratios(included, null, share), lost), arriving, share)
        for arriving, share in itertools.product(_KEPT, _SHARES)
    )
    for _ in range(_STEPS):
        whole, gone = _parted(arriving, _log_ratios(included, null, share), lost)
        is_kept = np.exp(whole - np.logaddexp(whole, gone))
        of_kept = is_kept * weights
        if np.sum(of_kept) == 0:
            break  # every canary is certainly lost, so none determines the share
        arriving = float(np.clip(np.mean(is_kept), 1e-6, 1 - 1e-6))
        share = float(np.sum(of_kept * included.along) / np.sum(of_kept))
    return arriving, share


def _log_ratios(participations: CanaryParticipations, null: float, share: float) -> FloatArray:
    """The log-likelihood ratio of `share` against the share `null`, by participation.

    The ratios, without the logarithm, have mean at most 1 under the null hypothesis.
    """
    rest = participations.rest(null)
    crowd = np.minimum(participations.others / rest, 1.0) if null else np.zeros(len(participations))
    away = share - null
    return np.asarray(
        participations.dim
        / rest
        * (away * (participations.along - null) - (1 + crowd) * away**2 / 2)
    )


def _log_mixture(part: float, first: FloatArray, second: FloatArray | float) -> float:
    """The log-likelihood of a mixture, in which `part` of the canaries have the first ratios."""
    return float(np.sum(np.logaddexp(*_parted(part, first, second))))


def _parted(
    part: float, first: FloatArray, second: FloatArray | float
) -> tuple[FloatArray, FloatArray | float]:
    """The logarithms of the two terms of a mixture."""
    rest = math.log1p(-part) if part < 1 else -math.inf
    return math.log(part) + first, rest + second
