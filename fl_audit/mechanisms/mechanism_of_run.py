"""The mechanism of a run: its noise, TFF's aggregator, and the clip norm in the aggregator's state.

Two noise multipliers are easy to confuse. The *effective* multiplier describes everything that a
round releases. Under an adaptive clip norm a round releases the noised sum of updates and the
noised count that moves the clip norm. The noise multiplier *of the sum* is then larger than the
effective multiplier, so that both releases together have the guarantee of one release at the
effective multiplier (Andrew et al. 2021, theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of
standard deviation s). Both multipliers describe the noise of a tree node under tree aggregation,
the independent noise before it is correlated under matrix factorisation, and the noise on one
upload if each participant adds all of the noise.
"""

import math
import typing
from typing import Any

import numpy as np

from fl_audit.accounting.analytical import guarantee_to, noise_multiplier_for
from fl_audit.accounting.noise_distributions import noise_distribution_named
from fl_audit.accounting.release import Correlation, Denominator, Noise, Party, Release
from fl_audit.accounting.sampling import FixedRounds
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.config_tables.kinds import Kinds
from fl_audit.errors import InputError
from fl_audit.mechanisms.client_gaussian import CLIENT_GAUSSIAN_KIND
from fl_audit.mechanisms.distributed import DISTRIBUTED
from fl_audit.mechanisms.independent import GAUSSIAN_ADAPTIVE, GAUSSIAN_FIXED, NO_PRIVACY
from fl_audit.mechanisms.kind import ClipAndNoise, Mechanism, MechanismKind, NoisyMechanism
from fl_audit.mechanisms.matrix import MATRIX_FACTORISATION
from fl_audit.mechanisms.tree_aggregation import TREE_AGGREGATION
from fl_audit.mechanisms.zeroing import (
    clipped_and_kept,
    inside_zeroing,
    zeroed,
    zeroing_kind,
    zeroing_norm,
)
from fl_audit.participation.schedule import Attendance, Schedule, drawn

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


MECHANISMS = Kinds[MechanismKind[Any]]("mechanism", Mechanism)

MECHANISMS.register(GAUSSIAN_ADAPTIVE)
MECHANISMS.register(GAUSSIAN_FIXED)
MECHANISMS.register(TREE_AGGREGATION)
MECHANISMS.register(MATRIX_FACTORISATION)
MECHANISMS.register(DISTRIBUTED)
MECHANISMS.register(CLIENT_GAUSSIAN_KIND)
MECHANISMS.register(NO_PRIVACY)


_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e6
"""The range of noise multipliers with exact accounting; below the range epsilon exceeds 1e11."""


def round_noise(table: Mechanism, expected_cohort: float) -> Noise:
    """The noise of a round of a mechanism; InputError if the table's values do not fit together."""
    if isinstance(table, NoisyMechanism):  # kinds calculate with the multiplier
        _check_multiplier("mechanism.noise_multiplier:", table.multiplier)
    kind = MECHANISMS.kind_of(table)
    noise = kind.round_noise(table, expected_cohort)
    if noise.distribution != kind.noise_distribution.name:
        raise ValueError(
            f"round_noise must return noise of distribution {kind.noise_distribution.name!r}, got "
            f"{noise.distribution!r}"
        )
    _check_multiplier("round_noise: the noise multiplier", noise.noise_multiplier)
    return noise


def _check_multiplier(subject: str, multiplier: float) -> None:
    if multiplier and not _LEAST_NOISE <= multiplier <= _MOST_NOISE:
        raise InputError(
            f"{subject} must be 0, for no noise, or from {_LEAST_NOISE:g} to {_MOST_NOISE:g}, got "
            f"{multiplier:g}"
        )


def make_aggregator(
    table: Mechanism, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    """The aggregation that zeroes, clips, sums, adds noise and divides; imports TFF.

    Args:
      table: The mechanism table of a config, one that `round_noise` accepts.
      expected_cohort: The expected number of clients and canaries in a round. The sum is divided by
        it, not by the actual number, so that the divisor reveals nothing; only `distributed`
        divides by the actual number.
      num_rounds: The number of rounds of training, on which a matrix depends.
    """
    factory = MECHANISMS.kind_of(table).make_aggregator(table, expected_cohort, num_rounds)
    return factory if table.zeroing is None else zeroed(table.zeroing, factory)


_CLIPPED_NORM = 1e15
"""A canary's norm if updates are clipped and not zeroed; its square fits into float32."""


def clip_and_noise(table: Mechanism, aggregator_state: Any) -> ClipAndNoise:
    """The clip norm and the noise of the round that starts from an aggregator's state."""
    state = inside_zeroing(table.zeroing, aggregator_state)
    return MECHANISMS.kind_of(table).clip_and_noise(table, state)


def canary_norm(table: Mechanism, aggregator_state: Any) -> float:
    """The norm of a canary's update in the round that starts from an aggregator's state."""
    if table.zeroing is None:
        return canary_length(table, math.inf, math.inf)
    clip_norm = clip_and_noise(table, aggregator_state).clip_norm
    return canary_length(table, clip_norm, zeroing_norm(table.zeroing, aggregator_state))


def client_lengths(
    table: Mechanism, denominator: Denominator, clip_norms: FloatArray, participants: FloatArray
) -> FloatArray:
    """The largest norm of a client in the aggregate of each round, shape (rounds,).

    Without clipping a client's norm is unbounded, so the config's `canary_norm` is used instead.
    """
    fixed = MECHANISMS.kind_of(table).canary_norm(table) or math.nan
    lengths = np.where(np.isinf(clip_norms), fixed, clip_norms)
    is_actual = denominator.divisor == "actual_cohort"
    return np.asarray(
        lengths / (np.maximum(participants, 1) if is_actual else denominator.expected)
    )


def canary_length(table: Mechanism, clip_norm: float, zeroing_norm: float) -> float:
    """The norm of a canary's update before a round zeroes and clips it.

    The update is long enough to be clipped to the round's clip norm (Andrew et al. 2023, algorithm
    1, PROJ). Zeroing depends on the largest coordinate, which is at most the norm. So under zeroing
    a canary's norm is the zeroing norm, but at least 1.001 and at most 2 clip norms. Without
    clipping, the norm is `canary_norm` in the config.
    """
    fixed = MECHANISMS.kind_of(table).canary_norm(table)
    if fixed is not None:
        return fixed
    if table.zeroing is None:
        return _CLIPPED_NORM
    return clipped_and_kept(clip_norm, zeroing_norm)


def mechanism_for_epsilon(
    mechanism: Mechanism, expected_cohort: float, release: Release, delta: float
) -> NoisyMechanism:
    """The mechanism with the least noise for which a client's epsilon meets `mechanism.epsilon`."""
    if not isinstance(mechanism, NoisyMechanism) or mechanism.epsilon is None:
        raise InputError("mechanism.epsilon: this kind of mechanism adds no noise")
    distribution = MECHANISMS.kind_of(mechanism).noise_distribution

    def epsilon_of(multiplier: float) -> float:
        try:
            noise = round_noise(mechanism.with_multiplier(multiplier), expected_cohort)
        except InputError:
            # The kind cannot add this noise; should it be the solution, `round_noise` raises below.
            noise = distribution.noise(multiplier, multiplier)
        noised = release.with_noise(noise)
        guarantee = guarantee_to(noised, noised.client, delta)
        if guarantee.epsilon is None:
            # If the kind can add no noise at all, its reason says more than accounting's.
            round_noise(mechanism.with_multiplier(0.0), expected_cohort)
            reasons = "; ".join(by.reason for by in guarantee.by_accountant if by.reason)
            raise InputError(f"no analytical epsilon is known here: {reasons}")
        return guarantee.epsilon

    try:
        solved = mechanism.with_multiplier(noise_multiplier_for(mechanism.epsilon, epsilon_of))
        round_noise(solved, expected_cohort)
    except InputError as error:
        raise InputError(f"mechanism.epsilon: {mechanism.epsilon:g}: {error}") from error
    return solved


# The release of a run, from its schedule and its mechanism.


def describe(mechanism: Mechanism, noise: Noise, schedule: Schedule, num_canaries: int) -> Release:
    """The release of a run; without canaries, `canary` equals `client`."""
    kind = MECHANISMS.kind_of(mechanism)
    correlation = kind.correlation(mechanism, schedule.num_rounds)
    distribution = noise_distribution_named(noise.distribution)
    sizes = _cohort_sizes(schedule) if distribution.is_by_participants else None
    if distribution.is_per_upload and sizes is not None:
        parties = (schedule.client_attendance, schedule.canary_attendance)
        client, canary = (_party_in_sums(attendance, sizes) for attendance in parties)
    else:
        client = _party(schedule.client_attendance, correlation)
        canary = _party(schedule.canary_attendance, correlation)
    return Release(
        rounds=schedule.num_rounds,
        noise=noise,
        denominator=Denominator(kind.divides_by, schedule.expected_cohort),
        client=client,
        canary=canary if num_canaries else client,
        zeroing=zeroing_kind(mechanism.zeroing),
        correlation=correlation,
        fewest=None if sizes is None else int(sizes.min()),
    )


def _cohort_sizes(schedule: Schedule) -> IntArray:
    """The number of clients and canaries in each round, int64 of shape (rounds,)."""
    cohorts = map(schedule.cohort, range(schedule.num_rounds))
    return np.array([len(cohort.clients) + len(cohort.canaries) for cohort in cohorts], np.int64)


def _party_in_sums(attendance: Attendance, sizes: IntArray) -> Party:
    """A party with its squared sensitivity if each participant adds all of the noise.

    That is the sum of 1 / participants over the rounds of the worst member or, if rounds are
    secret, over the rounds with the fewest participants, as many rounds as a member may have.
    """
    weights = 1 / np.maximum(sizes, 1)
    sampling = attendance.sampling
    if not isinstance(sampling, FixedRounds):
        most = sampling.most_drawn or len(sizes)
        return Party(sampling, float(np.sort(weights)[::-1][:most].sum()))
    members, rounds = drawn(attendance.members_in, len(sizes))
    return Party(sampling, float(np.bincount(members, weights[rounds]).max(initial=0.0)))


def _party(attendance: Attendance, correlation: Correlation | None) -> Party:
    if correlation is None:
        return Party(attendance.sampling)
    return Party(attendance.sampling, squared_sensitivity(attendance, correlation))


def squared_sensitivity(attendance: Attendance, correlation: Correlation) -> float | None:
    """The squared sensitivity to one member under correlated noise, in squared clip norms.

    This is the maximum, or an upper bound on the maximum, over all possible rounds of a member, or
    over the actual rounds of all members. None if rounds are unknown, or a member may be drawn in
    all rounds.
    """
    worst = attendance.sampling.worst_sensitivity(correlation)
    if worst is None and isinstance(attendance.sampling, FixedRounds):
        return correlation.worst_of(*drawn(attendance.members_in, correlation.num_rounds))
    return worst
