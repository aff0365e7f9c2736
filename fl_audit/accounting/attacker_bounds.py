"""Upper bounds against attackers who know the participation schedule, or do not.

Both attackers see the noised aggregate of every round; an attacker who sees less, such as the final
model alone, learns no more. Where each client adds all of the noise to its upload, a third attacker
sees single uploads. An attacker who knows the rounds of a party (a client or a canary) faces the
composition of these rounds. An attacker who knows only their distribution has to find the party
among all rounds; where no better bound is known against this attacker, the bound for known rounds
applies.

The largest lower bound that an audit with a given number of canaries can show follows from the pair
of distributions that the attacker has to distinguish.
"""

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from fl_audit.accounting.analytical import check_positive_delta, guarantee_to
from fl_audit.accounting.gaussian_accountants import (
    account_gaussian,
    epsilon_seen_rounds,
    without_noise,
)
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee, none_known
from fl_audit.accounting.noise_distributions import (
    CLIENT_GAUSSIAN,
    GAUSSIAN,
    HOW_OFTEN_UNKNOWN,
    MATRIX,
    TREE,
    noise_distribution_named,
)
from fl_audit.accounting.privacy_loss import log_gaussian_deltas
from fl_audit.accounting.release import Noise, Party, Release
from fl_audit.accounting.sampling import OneRoundPerBlock, UnknownRounds, log_binomial_masses
from fl_audit.accounting.secret_sampling import SecretSampling, one_of_blocks_pair
from fl_audit.array_types import FloatArray
from fl_audit.estimators.optimal_tests import (
    NUM_TESTS,
    OptimalTests,
    gaussian_tests,
    reachable_epsilon,
    reachable_epsilon_gaussian,
)

_RELIES_ON_DRAW = "the accountant assumes that no attacker knows who is sampled into a round"

_UNLIKELY = 1e-25
"""A number of rounds less likely than this, far below any delta, counts as the largest number."""

_NO_SHIFT = 1e-9
"""Replaces a shift of 0 in a denominator."""


class DominatingPair(Protocol):
    """A dominating pair of distributions (P, Q) for what an attacker sees."""

    def optimal_tests(self) -> OptimalTests:
        """Likelihood ratio tests of P against Q."""

    def deltas(self, epsilon: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smallest deltas with which (P, Q) and (Q, P) are (epsilon, delta)-close."""


@dataclass(frozen=True)
class GaussianPair:
    """The distributions N(shift, 1) and N(0, 1); the shift may be infinite."""

    shift: float

    def optimal_tests(self) -> OptimalTests:
        if math.isinf(self.shift):
            sure = np.ones(1)
            return OptimalTests(log_fpr=-math.inf * sure, tpr=sure, tnr=sure, fnr=0 * sure)
        return gaussian_tests(self.shift)

    def deltas(self, epsilon: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        if math.isinf(self.shift):
            return np.ones(np.shape(epsilon)), np.ones(np.shape(epsilon))
        delta = np.exp(log_gaussian_deltas(np.array(max(self.shift, _NO_SHIFT)), epsilon))
        return delta, delta


@dataclass(frozen=True, eq=False)
class BothPairs:
    """A release that two pairs dominate: at each epsilon, the smaller delta of the two applies."""

    first: DominatingPair
    second: DominatingPair

    def optimal_tests(self) -> OptimalTests:
        """The tests of the pair with the smaller delta at epsilon 0."""
        better = min(self.first, self.second, key=lambda pair: float(np.max(pair.deltas(0.0))))
        return better.optimal_tests()

    def deltas(self, epsilon: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        (forth, back), (other_forth, other_back) = (
            pair.deltas(epsilon) for pair in (self.first, self.second)
        )
        return np.minimum(forth, other_forth), np.minimum(back, other_back)


@dataclass(frozen=True, eq=False)
class SeenRounds:
    """Gaussian releases in known rounds of a party whose number of rounds is random.

    `masses` are the probabilities of 0, 1, 2 ... rounds, float64 of shape (largest number + 1,).
    """

    masses: FloatArray
    noise_multiplier: float

    @classmethod
    def by_coins(cls, share: float, rounds: int, noise_multiplier: float) -> "SeenRounds":
        """A party that is in each of the rounds by an independent coin."""
        return cls(np.exp(log_binomial_masses(rounds, share)), noise_multiplier)

    @property
    def shift(self) -> float:
        """The shift of the largest number of rounds."""
        return math.sqrt(len(self.masses) - 1) / self.noise_multiplier

    def optimal_tests(self) -> OptimalTests:
        shifts, masses = self._likely_shifts
        reach = shifts[-1] * (shifts[-1] / 2 + 8)
        ratios = np.linspace(-reach, reach, NUM_TESTS)[:, None]
        above, below = ratios / shifts + shifts / 2, ratios / shifts - shifts / 2
        return OptimalTests(
            log_fpr=np.asarray(special.logsumexp(special.log_ndtr(-above), 1, masses)),
            tpr=special.ndtr(-below) @ masses,
            tnr=special.ndtr(above) @ masses,
            fnr=special.ndtr(below) @ masses,
        )

    def deltas(self, epsilon: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        shifts, masses = self._likely_shifts
        delta = np.exp(log_gaussian_deltas(shifts, np.asarray(epsilon)[..., None])) @ masses
        return delta, delta

    @functools.cached_property
    def _likely_shifts(self) -> tuple[FloatArray, FloatArray]:
        """The shifts and their probabilities; unlikely shifts are replaced by the largest."""
        numbers = np.flatnonzero(self.masses)
        shifts = np.maximum(np.sqrt(numbers) / self.noise_multiplier, _NO_SHIFT)
        masses = self.masses[numbers]
        is_likely = masses > _UNLIKELY
        return (
            np.append(shifts[is_likely], shifts[-1]),
            np.append(masses[is_likely], masses[~is_likely].sum()),
        )


@dataclass(frozen=True, eq=False)
class AttackerBound:
    """The upper bound against one attacker.

    Attributes:
      guarantee: The guarantee against the attacker.
      pair: A dominating pair of distributions for what the attacker sees; None if no such pair is
        known.
    """

    guarantee: Guarantee
    pair: DominatingPair | None


@dataclass(frozen=True, eq=False)
class AttackerBounds:
    """The upper bounds for one party, by what the attacker knows.

    Attributes:
      knowing_rounds: Against an attacker who knows the party's rounds.
      not_knowing_rounds: Against an attacker who does not know the party's rounds.
      seeing_uploads: Against an attacker who sees single uploads; None unless uploads have
        `CLIENT_GAUSSIAN` noise.
    """

    knowing_rounds: AttackerBound
    not_knowing_rounds: AttackerBound
    seeing_uploads: AttackerBound | None = None

    def against(self, knows_rounds: bool) -> AttackerBound:
        """The bound against the attacker who knows the rounds, or who does not."""
        return self.knowing_rounds if knows_rounds else self.not_knowing_rounds


def attacker_bounds(release: Release, party: Party, delta: float) -> AttackerBounds:
    """The bounds for one party against each kind of attacker.

    Args:
      release: What was released.
      party: One of its parties.
      delta: The delta of the guarantees, in (0, 1).

    Raises:
      ValueError: The release's noise distribution is not registered, or delta is out of range.
    """
    check_positive_delta(delta)
    if noise_distribution_named(release.noise.distribution) is CLIENT_GAUSSIAN:
        return _client_noise_bounds(release, party, delta)
    if release.noise.noise_multiplier == 0:
        plain = AttackerBound(without_noise(party, delta), GaussianPair(math.inf))
        return AttackerBounds(plain, plain)
    if is_gaussian(release, party):
        known = knowing_rounds(release, party, delta)
        return AttackerBounds(known, _not_knowing(release, party, known, delta))
    return _other_noise_bounds(release, party, delta)


def is_gaussian(release: Release, party: Party) -> bool:
    """Whether the rounds of a party, if known, are one Gaussian mechanism."""
    distribution = noise_distribution_named(release.noise.distribution)
    is_one_release = distribution in (TREE, MATRIX) and party.squared_sensitivity is not None
    return (distribution is GAUSSIAN or is_one_release) and release.zeroing != "adaptive"


def _client_noise_bounds(release: Release, party: Party, delta: float) -> AttackerBounds:
    """The bounds if each participant adds its own Gaussian noise."""
    z = release.noise.noise_multiplier
    most = party.sampling.most_drawn
    uploads = of_uploads(z, release.rounds if most is None else most, delta)
    if isinstance(party.sampling, UnknownRounds) and z:
        uploads = AttackerBound(none_known(None, HOW_OFTEN_UNKNOWN), None)
    squared = party.squared_sensitivity
    shift = math.sqrt(squared) / z if z and squared is not None else math.inf
    known = AttackerBound(
        guarantee_to(release, party, delta),
        None if squared is None and z else GaussianPair(shift),
    )
    return AttackerBounds(known, known, uploads)


def upload_shift(noise: Noise, uploads: int | None) -> float | None:
    """The shift of all of a canary's uploads together, in standard deviations of the noise.

    `uploads` is the largest number of a canary's uploads, None if unbounded. The result is None if
    uploads are unbounded, without noise, and for noise other than `CLIENT_GAUSSIAN`.
    """
    z = noise.noise_multiplier
    if noise.distribution != CLIENT_GAUSSIAN.name or uploads is None or z == 0:
        return None
    return math.sqrt(uploads) / z


def of_uploads(
    noise_multiplier: float, uploads: int, delta: float, *, sensitivity: float = 1.0
) -> AttackerBound:
    """The guarantee of Gaussian noise on single uploads against an attacker who sees uploads.

    An upload clip(u) + N(0, z^2 C^2 I) is a Gaussian mechanism, and so are several together
    (Balle & Wang 2018, arXiv:1805.06530, theorem 8; Dong et al. 2019, corollary 3.3).

    Args:
      noise_multiplier: The noise multiplier z of one upload; 0 for no noise.
      uploads: The number of uploads.
      delta: The delta of the guarantee, in (0, 1).
      sensitivity: The distance between the two clipped updates that are compared, in clip norms: 1
        for an update and none (zero-out), 2 for any two updates (replace one).

    >>> bound = of_uploads(1.0, 1, 1e-5)
    >>> round(bound.guarantee.epsilon, 2)
    4.38
    """
    by_accountant = account_gaussian(noise_multiplier, uploads * sensitivity**2, delta)
    shift = sensitivity * math.sqrt(uploads) / noise_multiplier if noise_multiplier else math.inf
    return AttackerBound(Guarantee(uploads, by_accountant), GaussianPair(shift))


def _other_noise_bounds(release: Release, party: Party, delta: float) -> AttackerBounds:
    """The bounds in all other cases, equal for both attackers unless they rely on secret rounds."""
    distribution = noise_distribution_named(release.noise.distribution)
    guarantee = guarantee_to(release, party, delta)
    bound = AttackerBound(guarantee, None)
    if (
        distribution.counts_drawing
        and party.participations is None
        and guarantee.epsilon is not None
    ):
        return AttackerBounds(AttackerBound(none_known(None, _RELIES_ON_DRAW), None), bound)
    return AttackerBounds(bound, bound)


def knowing_rounds(release: Release, party: Party, delta: float) -> AttackerBound:
    """The bound by composition of the party's rounds, if the release `is_gaussian` and has noise.

    It counts no amplification.
    """
    share, z = party.sampling.share, release.noise.noise_multiplier
    squared, number = party.squared_sensitivity, party.participations
    if squared is None:
        squared = number = release.rounds if share == 1 else party.sampling.most_drawn
    if squared is not None:
        guarantee = Guarantee(number, account_gaussian(z, squared, delta))
        return AttackerBound(guarantee, GaussianPair(math.sqrt(squared) / z))
    if share is not None:
        epsilon = epsilon_seen_rounds(share, release.rounds, z, delta)
        guarantee = Guarantee(None, (AccountedEpsilon("seen_samples", epsilon),))
        return AttackerBound(guarantee, SeenRounds.by_coins(share, release.rounds, z))
    if not isinstance(party.sampling, SecretSampling):
        return AttackerBound(guarantee_to(release, party, delta), None)
    return AttackerBound(none_known(None, _RELIES_ON_DRAW), None)


def _not_knowing(
    release: Release, party: Party, known: AttackerBound, delta: float
) -> AttackerBound:
    """The bound with amplification if one is known, else the bound for known rounds."""
    guarantee = guarantee_to(release, party, delta)
    sampling, pair = party.sampling, None
    if isinstance(sampling, SecretSampling):
        hidden = sampling.pair(release, party, delta)
        if hidden is None or known.pair is None or sampling.is_pair_best:
            return AttackerBound(guarantee, hidden or known.pair)
        return AttackerBound(guarantee, BothPairs(hidden, known.pair))
    if isinstance(sampling, OneRoundPerBlock) and party.squared_sensitivity is None:
        pair = one_of_blocks_pair(release.noise.noise_multiplier, sampling.blocks, delta)
    if pair is None:
        return AttackerBound(guarantee, known.pair)
    amplified = AccountedEpsilon("random_allocation", pair.epsilon(delta))
    by_accountant = (*guarantee.by_accountant, amplified)
    return AttackerBound(Guarantee(party.participations, by_accountant), pair)


# The largest lower bound that an audit can show.


_MOST_CANARIES = 10**8
"""The largest number of canaries tried."""


@dataclass(frozen=True)
class ReachableBound:
    """The median lower bounds on epsilon by the best tests.

    Attributes:
      epsilon: By methods that hold for any mechanism.
      gaussian: By methods that hold for Gaussian mechanisms; None for other mechanisms.
    """

    epsilon: float
    gaussian: float | None


def reachable_bound(
    bound: AttackerBound, num_included: int, delta: float, confidence: float
) -> ReachableBound | None:
    """The lower bounds that an ideal auditor reaches on the dominating pair.

    Args:
      bound: The upper bound against the attacker.
      num_included: The number of included canaries.
      delta: The delta of the bounds, in (0, 1).
      confidence: The confidence of the bounds, in (0, 1).

    Returns:
      The bounds, at most the upper bound; None without a pair or without canaries.
    """
    if bound.pair is None or num_included == 0:
        return None
    limit = math.inf if bound.guarantee.epsilon is None else bound.guarantee.epsilon
    epsilon = reachable_epsilon(bound.pair.optimal_tests(), num_included, delta, confidence)
    gaussian = None
    if isinstance(bound.pair, GaussianPair):
        shift = bound.pair.shift
        gaussian = min(limit, reachable_epsilon_gaussian(shift, num_included, delta, confidence))
    return ReachableBound(min(limit, epsilon), gaussian)


def canaries_to_prove(
    bound: AttackerBound, share: float, delta: float, confidence: float
) -> int | None:
    """The fewest canaries, half of them included, that can show a share of the upper bound.

    Args:
      bound: The upper bound against the attacker.
      share: The share of the upper bound, in (0, 1).
      delta: The delta of the bounds, in (0, 1).
      confidence: The confidence of the bounds, in (0, 1).

    Returns:
      The number, to 1 %; None without a pair, if the upper bound is unknown, 0 or infinite, or if
      10^8 canaries are not enough.
    """
    limit = bound.guarantee.epsilon
    if limit is None or not 0 < limit < math.inf or bound.pair is None:
        return None
    tests = bound.pair.optimal_tests()

    def is_enough(canaries: int) -> bool:
        reachable = reachable_epsilon(tests, canaries // 2, delta, confidence)
        return reachable >= share * limit

    low, high = 1, 2
    while not is_enough(high):
        if high == _MOST_CANARIES:
            return None
        low, high = high, min(2 * high, _MOST_CANARIES)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
