"""The privacy curve of a release: Gaussian DP, zCDP, privacy profile and detection rates.

(epsilon, delta) is one point of a curve. From the dominating pair of distributions for what an
attacker sees, `full_guarantee` computes

- mu of Gaussian differential privacy (Dong, Roth & Su 2019, arXiv:1905.02383, definition 2.6);
- rho of zero-concentrated differential privacy (Bun & Steinke 2016, arXiv:1605.02065, definition
  1.1), which Google publishes for its language models;
- the privacy profile: epsilon at several deltas (Balle, Barthe & Gaboardi 2018, arXiv:1807.01647);
- the true positive rate of an attacker who guesses who participated, by false positive rate. For an
  (epsilon, delta) alone, Kairouz, Oh & Viswanath 2015 (arXiv:1311.0776, theorem 2.1) give this
  curve.

Rounds without sampling are one Gaussian release: mu is their shift sqrt(rounds) / z, and rho is
mu^2 / 2 = rounds / (2 z^2), both exact. Sampling improves neither mu nor rho. With random rounds,
the attacker sees a mixture over the possible sets of rounds (or a function of it), so the mu and
rho of the largest set hold. With some probability w > 0 that set is drawn. Where false positives
are rare, only that part of the mixture counts, and the normal quantiles of FPR = Phi(-t) and TPR >=
w Phi(mu - t) are mu apart in the limit: no smaller mu holds at all false positive rates. For the
same reason the Renyi divergence of order alpha comes close to alpha rho for large alpha (Bun,
Dwork, Rothblum & Steinke 2018, "Composable and versatile privacy via truncated CDP", section 1).

That limit lies far beyond any delta of interest. `approximate_mu` is the smallest mu whose profile
plus a tenth of delta is at least the pair's profile at every epsilon. Gomez et al. 2025 ("Gaussian
DP for reporting differential privacy guarantees in machine learning", arXiv:2503.10945) show that
such a mu describes sampled Gaussian rounds almost completely.

>>> from fl_audit.accounting.attacker_bounds import attacker_bounds
>>> from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release
>>> noise, seven = Noise("gaussian", 1.0, 1.0), Party(FixedRounds(7))
>>> release = Release(
...     rounds=100,
...     noise=noise,
...     denominator=Denominator("expected_cohort", 22.0),
...     client=seven,
...     canary=Party(FixedRounds(1)),
... )
>>> client = full_guarantee(release, seven, attacker_bounds(release, seven, 1e-5), 1e-5, True)
>>> round(client.mu, 3), round(client.rho, 3), [round(point.epsilon, 1) for point in client.profile]
(2.646, 3.5, [12.7, 14.2, 15.5, 16.7, 17.8])
>>> [f"{100 * at.true_positive_rate:.0f} % at {at.false_positive_rate:.1%}" for at in client.found]
['33 % at 0.1%', '63 % at 1.0%', '91 % at 10.0%']
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from fl_audit.accounting.attacker_bounds import (
    AttackerBounds,
    DominatingPair,
    GaussianPair,
    SeenRounds,
    attacker_bounds,
)
from fl_audit.accounting.privacy_loss import log_gaussian_deltas
from fl_audit.accounting.release import Party, Release
from fl_audit.estimators.distributions import supremum
from fl_audit.estimators.roc.summary import REPORTED_RATES

_FACTORS = (10.0, 1.0, 0.1, 0.01, 0.001)
"""The deltas of a profile, as multiples of the run's delta; `hidden_rounds` is accurate at each."""

_TAIL = 0.1
"""The tail of `approximate_mu`, as a share of delta."""

_NO_PAIR = (
    "no pair of distributions is known that dominates what the attacker sees, only (epsilon, delta)"
)

_LARGEST_EPSILON = 1e100
"""At this epsilon, delta is the mass of outcomes that one of the two distributions excludes.

No finite shift comes near: that of 10^9 rounds at a noise multiplier of 10^-9 has 10^27."""

_GRID, _PARTS = 2_000, 40
"""The number of epsilons at which two profiles are compared, and their number of batches."""

_SMALLEST_MU = 1e-9
"""Replaces a mu of 0 in a denominator."""

_LEAST_LOG_RATIO = -700.0
"""The log of the least likelihood ratio tried as a threshold: e^-700 is a float."""


@dataclass(frozen=True)
class ProfilePoint:
    """A point of a privacy profile; epsilon may be infinite."""

    delta: float
    epsilon: float


@dataclass(frozen=True)
class DetectionBound:
    """The largest true positive rate of any attacker at a false positive rate."""

    false_positive_rate: float
    true_positive_rate: float


@dataclass(frozen=True)
class FullGuarantee:
    """The privacy curve of one party against one attacker.

    Numbers are None, and tuples empty, if there is no guarantee or none is known.

    Attributes:
      mu: The smallest mu of Gaussian differential privacy.
      rho: The smallest rho of zero-concentrated differential privacy.
      unknown: Why mu and rho are None, in words; None otherwise.
      approximate_mu: For random rounds, the smallest mu whose profile plus `tail` is at least the
        profile of the dominating pair; None for other rounds, without a pair, or if no mu is large
        enough.
      tail: The delta added to the profile of `approximate_mu`; None if `approximate_mu` is None.
      profile: The least epsilon at a few deltas, the largest delta first.
      advantage: The largest TPR - FPR of any attacker. A guess about a client who participates by a
        fair coin is right with probability at most (1 + advantage) / 2.
      found: The largest true positive rates, by false positive rate.
    """

    mu: float | None
    rho: float | None
    unknown: str | None
    approximate_mu: float | None
    tail: float | None
    profile: tuple[ProfilePoint, ...]
    advantage: float | None
    found: tuple[DetectionBound, ...]


def full_guarantee(
    release: Release, party: Party, bounds: AttackerBounds, delta: float, knows_rounds: bool
) -> FullGuarantee:
    """The privacy curve of a party against an attacker who knows, or does not know, its rounds.

    Args:
      release: What was released.
      party: One of its parties.
      bounds: The party's bounds from `attacker_bounds`, at delta.
      delta: The delta of the bounds, in (0, 1).
      knows_rounds: Whether the attacker knows the party's rounds.
    """
    bound = bounds.against(knows_rounds)
    epsilon, pair = bound.guarantee.epsilon, bound.pair
    if epsilon is None or (isinstance(pair, GaussianPair) and math.isinf(pair.shift)):
        reason = bound.guarantee.by_accountant[0].reason
        reason = reason or "no noise is added, so there is no upper bound"
        return FullGuarantee(None, None, reason, None, None, (), None, ())
    # mu is the shift of the most rounds that may be drawn.
    known = bounds.knowing_rounds.pair
    mu = known.shift if isinstance(known, GaussianPair | SeenRounds) else None
    profile = _profile(release, party, bounds, delta, knows_rounds)
    is_drawn = pair is not None and not isinstance(pair, GaussianPair)
    approximate = approximate_gdp(pair, _TAIL * delta) if pair and is_drawn else None
    return FullGuarantee(
        mu=mu,
        rho=None if mu is None else mu**2 / 2,
        unknown=None if mu is not None else _NO_PAIR,
        approximate_mu=approximate,
        tail=None if approximate is None else _TAIL * delta,
        profile=profile,
        advantage=_advantage(pair, profile),
        found=tuple(
            DetectionBound(rate, largest_tpr(rate, pair, profile)) for rate in REPORTED_RATES
        ),
    )


def _profile(
    release: Release, party: Party, bounds: AttackerBounds, delta: float, knows_rounds: bool
) -> tuple[ProfilePoint, ...]:
    """The profile by the pair and, where they may be tighter, accountants; largest delta first."""
    bound = bounds.against(knows_rounds)
    # Without a pair for secret rounds, accountants are tighter than the pair for known rounds.
    hidden_otherwise = not knows_rounds and bound.pair is bounds.knowing_rounds.pair
    asks_again = bound.pair is None or (hidden_otherwise and party.participations is None)
    points = []
    for other in (_decimal(factor * delta) for factor in _FACTORS if factor * delta < 1):
        known: list[float | None] = []
        if bound.pair is not None:
            known.append(epsilon_of(bound.pair, other))
        if other == _decimal(delta):
            known.append(bound.guarantee.epsilon)
        elif asks_again:
            against = attacker_bounds(release, party, other).against(knows_rounds)
            known.append(against.guarantee.epsilon)
        least = min((e for e in known if e is not None), default=math.inf)
        points.append(ProfilePoint(other, least))
    return tuple(points)


def _decimal(delta: float) -> float:
    """Removes the rounding error of a multiplication."""
    return float(f"{delta:.12g}")


def epsilon_of(pair: DominatingPair, delta: float) -> float:
    """The smallest epsilon at which a pair is (epsilon, delta)-close in both directions."""
    if np.max(pair.deltas(_LARGEST_EPSILON)) > delta:
        return math.inf
    return supremum(lambda epsilon: bool(np.max(pair.deltas(epsilon)) > delta))


# True positive rates.


def largest_tpr(
    false_positive_rate: float, pair: DominatingPair | None, profile: tuple[ProfilePoint, ...]
) -> float:
    """The largest true positive rate of any test at a false positive rate.

    A test with rates FPR and TPR has TPR <= e^x FPR + delta(x) for every x, where delta(x) is the
    hockey-stick divergence of order e^x from Q to P. At -x it follows from delta'(x), the
    divergence from P to Q: delta(-x) = 1 - e^-x (1 - delta'(x)). By Neyman and Pearson the best x
    gives the exact trade-off curve of the pair. The bound is convex in e^x, so that one search
    finds the best x; it holds for any other x, too. Points of the profile give further bounds.
    """
    rates = [1.0]
    for point in profile:
        rates.append(math.exp(min(point.epsilon, 700)) * false_positive_rate + point.delta)
        missed = 1 - false_positive_rate - point.delta
        rates.append(1 - math.exp(-point.epsilon) * max(missed, 0.0))
    if isinstance(pair, GaussianPair):
        rates.append(float(special.ndtr(special.ndtri(false_positive_rate) + pair.shift)))
    elif pair is not None:
        rates.append(_least_line(pair, false_positive_rate))
    return min(rates)


def _least_line(pair: DominatingPair, false_positive_rate: float) -> float:
    """The least of the bounds TPR <= e^x FPR + delta(x)."""

    def bound(log_ratio: float) -> float:
        forth, back = pair.deltas(abs(log_ratio))
        delta = forth if log_ratio >= 0 else 1 - math.exp(log_ratio) * (1 - back)
        return float(math.exp(log_ratio) * false_positive_rate + delta)

    limits = (_LEAST_LOG_RATIO, -math.log(false_positive_rate))
    least = optimize.minimize_scalar(bound, bounds=limits, method="bounded")
    return min(bound(0.0), float(least.fun))


def _advantage(pair: DominatingPair | None, profile: tuple[ProfilePoint, ...]) -> float:
    """The largest TPR - FPR: the least bound by the pair's delta at 0 and by profile points."""
    slopes = [(math.tanh(point.epsilon / 2), point.delta) for point in profile]
    by_points = [slope + delta * (1 - slope) for slope, delta in slopes]
    by_pair = [] if pair is None else [float(np.min(pair.deltas(0.0)))]
    return min([1.0, *by_points, *by_pair])


# Approximate Gaussian DP.


def approximate_gdp(pair: DominatingPair, tail: float) -> float | None:
    """The smallest mu with delta(epsilon) <= delta_mu(epsilon) + tail at every epsilon >= 0.

    Here delta is the larger of the pair's two directions, and delta_mu the profile of mu-GDP.
    Between two epsilons of a grid both profiles fall. So the pair's profile at the lower epsilon is
    compared with the profile of mu-GDP at the higher one: mu is never too small and, as measured,
    at most 0.3 % too large. None if no finite mu exists.
    """
    reach = epsilon_of(pair, tail)
    if math.isinf(reach):
        return None
    epsilons = np.linspace(0.0, reach, _GRID)
    parts = np.array_split(epsilons[:-1], _PARTS)
    deltas = np.concatenate([np.maximum(*pair.deltas(part)) for part in parts])

    def is_too_small(mu: float) -> bool:
        shift = np.full(_GRID - 1, max(mu, _SMALLEST_MU))
        allowed = np.exp(log_gaussian_deltas(shift, epsilons[1:])) + tail
        return bool((deltas > allowed).any())

    return supremum(is_too_small)
