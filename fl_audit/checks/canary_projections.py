"""Projections of aggregates on canaries, their expected values, and evidence for lost canaries.

That evidence is an e-value for mixtures of lost and whole canaries. An e-value is a random number
with mean at most 1 if the null hypothesis holds, so that it exceeds 1/p with probability at most p
(Markov). Here it is a likelihood ratio of Gaussian distributions. A canary's inner product with a
vector that is independent of it is sub-Gaussian with that Gaussian's variance (Hoeffding 1963 for
random signs), so the ratio has mean at most 1 in any dimension.
"""

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IndexArray

NO_FAULT = 0.02
"""The relative deviation from a client's norm that is never called a fault: numbers are rounded."""


@dataclass(frozen=True, eq=False)
class CanaryParticipations:
    """Canaries in rounds of theirs, an entry for each canary and round.

    The unit of length is the largest norm of a client: clip norm over denominator. An
    aggregate Δ to which a canary adds a of these along its unit vector c is Δ = a c + R, and R is
    independent of c in the canary's first round. So ⟨c, Δ⟩ − a has mean 0 and, given |R|, variance
    |R|²/dim in any dimension, for c of random signs or of uniform direction.

    Attributes:
      canaries: The canary of each entry, int64 of shape (n,).
      rounds: The round of each entry, counted from 0, int64 of shape (n,).
      cosines: The cosine of the canary with the round's aggregate, float64 of shape (n,).
      aggregate_lengths: The norm of that aggregate, float64 of shape (n,); NaN if not known.
      client_lengths: The largest norm of a client in it, float64 of shape (n,); NaN if not known.
      others: The number of other included canaries in the round, float64 of shape (n,).
      is_first: Whether the round is the canary's first, before which the model cannot depend on it,
        bool of shape (n,).
      dim: The length of the vectors.
      knows_tails: Whether a canary's inner product with any vector is sub-Gaussian, as for canaries
        of random signs or of uniform direction, but not of one coordinate.
    """

    canaries: IndexArray
    rounds: IndexArray
    cosines: FloatArray
    aggregate_lengths: FloatArray
    client_lengths: FloatArray
    others: FloatArray
    is_first: npt.NDArray[np.bool_]
    dim: int
    knows_tails: bool

    def __len__(self) -> int:
        return len(self.cosines)

    def where(self, mask: npt.NDArray[np.bool_]) -> "CanaryParticipations":
        return dataclasses.replace(
            self,
            canaries=self.canaries[mask],
            rounds=self.rounds[mask],
            cosines=self.cosines[mask],
            aggregate_lengths=self.aggregate_lengths[mask],
            client_lengths=self.client_lengths[mask],
            others=self.others[mask],
            is_first=self.is_first[mask],
        )

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
    def as_cosines(self) -> "CanaryParticipations":
        """The participations, with the aggregate's norm as the unit: `along` is the cosine."""
        ones = np.ones(len(self))
        return dataclasses.replace(self, aggregate_lengths=ones, client_lengths=ones)

    @property
    def along(self) -> FloatArray:
        """The aggregate along the canary, over a client's norm, float64 of shape (n,)."""
        return np.asarray(self.cosines * self.aggregate_lengths / self.client_lengths)

    def rest(self, share: float) -> FloatArray:
        """|R|² over a client's squared norm, if canaries have this share of that norm.

        It is no less than would hide NO_FAULT: norms and cosines are rounded.
        """
        aggregate = (self.aggregate_lengths / self.client_lengths) ** 2
        rest = aggregate - 2 * share * self.along + share**2
        return np.maximum(rest, NO_FAULT**2 * self.dim)


@dataclass(frozen=True)
class Coefficient:
    """The norm of canaries in aggregates, as a share of a client's, on average."""

    ratio: float  # the share: a weighted mean of the aggregates along the canaries
    standard_error: float  # its standard error, from the known variance
    # the term that Bernstein's inequality adds to the deviation for each nat, as canaries of one
    # round disturb each other
    skew: float
    count: int

    def deviation(self, nats: float) -> float:
        """The deviation that chance exceeds with probability at most e^-nats on each side."""
        return self.standard_error * math.sqrt(2 * nats) + self.skew * nats

    def differs_by(self, expected: float, margin: float, nats: float) -> bool:
        """Whether it is farther from a value than a margin and chance together."""
        return abs(self.ratio - expected) > margin + self.deviation(nats)

    def is_within(self, expected: float, margin: float, nats: float) -> bool:
        """Whether it is nearer to a value than a margin, with room for chance."""
        return abs(self.ratio - expected) + self.deviation(nats) <= margin


def coefficient(participations: CanaryParticipations, expected: float) -> Coefficient | None:
    """The share of a client's norm that canaries have in aggregates; None without participations.

    Its mean is exactly right in any dimension if the share is the expected one, 1 for included
    canaries and 0 for others: weights depend on the rest of the aggregate alone, given which the
    canary's part of it has mean 0.

    If tails are not known, or canaries participate several times and rounds may be alike, the error
    is no less than that by the sums of canaries (Efron 1969: a sum of independent symmetric terms
    over the root of the sum of their squares is sub-Gaussian, whatever their tails).
    """
    if len(participations) == 0:
        return None
    rest = participations.rest(expected)
    # The median keeps one aggregate that a canary happens to fill from deciding alone.
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
    )


_PARTS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Fractions of the excluded canaries that are tried as sent."""

_KEPT = (0.1, 0.3, 0.5, 0.7, 0.9)
_SHARES = (0.5, 0.75, 1.0, 1.4, 2.0, 4.0)
"""Fractions of the included canaries that are tried as kept, and their norms over a client's."""

_ERRORS, _POINTS = 6.0, 25
"""Standard errors around the mean share, and points in them, that are tried as the null."""

_STEPS = 50


@dataclass(frozen=True)
class Mixture:
    """Canaries of which a part is lost."""

    arriving: float  # the fraction that reaches aggregates
    share: float  # the norm of that part in aggregates, over a client's
    log_e_value: float  # the logarithm of the e-value against canaries that are all alike


def excluded_log_e_value(excluded: CanaryParticipations) -> float:
    """The logarithm of the e-value for some of the excluded canaries having been sent.

    Aggregates are independent of canaries that were not sent, and these of each other. The
    participations are first ones, of canaries with sub-Gaussian inner products.
    """
    ratios = _log_ratios(excluded, 0.0, 1.0)
    logs = [float(np.sum(np.logaddexp(*_parted(part, ratios, 0.0)))) for part in _PARTS]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def uneven(included: CanaryParticipations, measured: Coefficient) -> Mixture:
    """The mixture of lost and whole canaries that fits best, and the evidence for it.

    The evidence is the least over all shares, near the mean one, at which all canaries might be
    alike (universal inference, Wasserman et al. 2020). Canaries that share a round push each other
    in one direction; their variance is raised by as much. The participations are first ones, of
    canaries with sub-Gaussian inner products.
    """
    width = _ERRORS * measured.standard_error
    alike = np.append(np.linspace(measured.ratio - width, measured.ratio + width, _POINTS), 1.0)
    arriving, share = _best(included, measured.ratio)
    return Mixture(arriving, share, min(_log_e_value(included, float(null)) for null in alike))


def log_ratio_lost_or_shorter(included: CanaryParticipations, measured: Coefficient) -> float:
    """The log-likelihood of canaries that are whole or lost, less that of all being shorter."""
    whole, lost = (_log_ratios(included, measured.ratio, share) for share in (1.0, 0.0))
    return float(np.sum(np.logaddexp(*_parted(min(measured.ratio, 1.0), whole, lost))))


def _log_e_value(included: CanaryParticipations, null: float) -> float:
    """The logarithm of the e-value against a share that all canaries have alike."""
    lost = _log_ratios(included, null, 0.0)
    logs = [
        float(np.sum(np.logaddexp(*_parted(arriving, ratios, lost))))
        for ratios in (_log_ratios(included, null, share) for share in _SHARES)
        for arriving in _KEPT
    ]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def _best(included: CanaryParticipations, null: float) -> tuple[float, float]:
    """The most likely part that is kept, and its share, by expectation maximisation."""
    weights = 1 / included.rest(null)
    lost = _log_ratios(included, null, 0.0)
    fits = []
    for arriving, share in itertools.product(_KEPT, _SHARES):
        ratios = _log_ratios(included, null, share)
        fits.append(
            (float(np.sum(np.logaddexp(*_parted(arriving, ratios, lost)))), arriving, share)
        )
    _, arriving, share = max(fits)
    for _ in range(_STEPS):
        whole, gone = _parted(arriving, _log_ratios(included, null, share), lost)
        is_kept = np.exp(whole - np.logaddexp(whole, gone))
        of_kept = is_kept * weights
        if np.sum(of_kept) == 0:
            break  # every canary is lost beyond doubt, and none is left to move the share
        arriving = float(np.clip(np.mean(is_kept), 1e-6, 1 - 1e-6))
        share = float(np.sum(of_kept * included.along) / np.sum(of_kept))
    return arriving, share


def _log_ratios(participations: CanaryParticipations, null: float, share: float) -> FloatArray:
    """The log-likelihood ratios of a share against another, the null's.

    Their exponentials have mean at most 1 under the null.
    """
    rest = participations.rest(null)
    crowd = np.minimum(participations.others / rest, 1.0) if null else np.zeros(len(participations))
    away = share - null
    return np.asarray(
        participations.dim
        / rest
        * (away * (participations.along - null) - (1 + crowd) * away**2 / 2)
    )


def _parted(
    part: float, first: FloatArray, second: FloatArray | float
) -> tuple[FloatArray, FloatArray | float]:
    """Logarithms of the two terms of a mixture."""
    rest = math.log1p(-part) if part < 1 else -math.inf
    return math.log(part) + first, rest + second
