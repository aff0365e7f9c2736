"""Whether canaries arrive in part: evidence for mixtures of lost and whole ones.

An e-value is a random number with mean 1 at most where the null hypothesis holds, so that it
exceeds 1/p with probability p at most (Markov). Here it is a likelihood ratio of Gaussian
distributions. A canary's inner product with a vector that is independent of it is sub-Gaussian
with that Gaussian's variance (Hoeffding 1963 for random signs), so the ratio has mean at most 1 in
any dimension.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.canary_projections import CanaryParticipations, Coefficient

_PARTS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Fractions of the excluded canaries that are tried as sent."""

_KEPT = (0.1, 0.3, 0.5, 0.7, 0.9)
_SHARES = (0.5, 0.75, 1.0, 1.4, 2.0, 4.0)
"""Fractions of the included canaries that are tried as kept, and their lengths over a client's."""

_ERRORS, _POINTS = 6.0, 25
"""Standard errors around the mean share, and points in them, that the null is tried for."""

_STEPS = 50


@dataclass(frozen=True)
class Mixture:
    """Canaries of which a part is lost.

    Attributes:
      arriving: The part that arrives.
      share: The share of a client's length at which it does.
      log_e_value: The logarithm of the e-value against canaries that all arrive alike.
    """

    arriving: float
    share: float
    log_e_value: float


def excluded_log_e_value(excluded: CanaryParticipations) -> float:
    """The logarithm of the e-value for some of the excluded canaries having been sent.

    Aggregates are independent of canaries that were not sent, and these of each other.

    Args:
      excluded: The first participations of canaries with sub-Gaussian inner products.
    """
    ratios = _log_ratios(excluded, 0.0, 1.0)
    logs = [float(np.sum(np.logaddexp(*_parted(part, ratios, 0.0)))) for part in _PARTS]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def uneven(included: CanaryParticipations, arrived: Coefficient) -> Mixture:
    """The mixture of lost and whole canaries that fits best, and the evidence for it.

    The evidence is the least over all shares, near the mean one, at which all canaries might be
    alike (universal inference, Wasserman et al. 2020). Canaries that share a round push each other
    in one direction; their variance is raised by as much.

    Args:
      included: The first participations of canaries with sub-Gaussian inner products.
      arrived: The mean share of them.
    """
    width = _ERRORS * arrived.standard_error
    alike = np.append(np.linspace(arrived.ratio - width, arrived.ratio + width, _POINTS), 1.0)
    arriving, share = _best(included, arrived.ratio)
    return Mixture(arriving, share, min(_log_e_value(included, float(null)) for null in alike))


def log_ratio_lost_or_shorter(included: CanaryParticipations, arrived: Coefficient) -> float:
    """The log-likelihood of canaries that are whole or lost, less that of all being shorter."""
    whole, lost = (_log_ratios(included, arrived.ratio, share) for share in (1.0, 0.0))
    return float(np.sum(np.logaddexp(*_parted(min(arrived.ratio, 1.0), whole, lost))))


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
