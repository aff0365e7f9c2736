"""The release of a run, from its schedule and its mechanism."""

import numpy as np

from fl_audit.accounting.noise_distributions import noise_distribution_named
from fl_audit.accounting.release import Correlation, Denominator, Noise, Party, Release
from fl_audit.accounting.sampling import FixedRounds
from fl_audit.accounting.sampling_accountants import worst_sensitivity
from fl_audit.array_types import IndexArray
from fl_audit.mechanisms.kind import Mechanism
from fl_audit.mechanisms.mechanism_of_run import MECHANISMS
from fl_audit.mechanisms.zeroing import zeroing_kind
from fl_audit.participation.schedule import Attendance, Draw, Schedule


def describe(mechanism: Mechanism, noise: Noise, schedule: Schedule, num_canaries: int) -> Release:
    """What a run releases.

    Args:
      mechanism: The mechanism table of the run's config.
      noise: The noise of a round, from `round_noise`.
      schedule: The participation schedule.
      num_canaries: The size of the pool. If it is 0, the canary of the release is a client.
    """
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


def _cohort_sizes(schedule: Schedule) -> IndexArray:
    """The number of clients and canaries in each round, int64 of shape (rounds,)."""
    cohorts = map(schedule.cohort, range(schedule.num_rounds))
    return np.array([len(cohort.clients) + len(cohort.canaries) for cohort in cohorts], np.int64)


def _party_in_sums(attendance: Attendance, sizes: IndexArray) -> Party:
    """A party whose update moves a round's sum under noise that each participant adds.

    The squared sensitivity is the sum of 1 / participants over the rounds of the worst member, or,
    if rounds are secret, over the smallest rounds that it may be in.
    """
    weights = 1 / np.maximum(sizes, 1)
    sampling = attendance.sampling
    if not isinstance(sampling, FixedRounds):
        most = sampling.most_drawn or len(sizes)
        return Party(sampling, float(np.sort(weights)[::-1][:most].sum()))
    members, rounds = _drawn(attendance.members_in, len(sizes))
    return Party(sampling, float(np.bincount(members, weights[rounds]).max(initial=0.0)))


def _party(attendance: Attendance, correlation: Correlation | None) -> Party:
    if correlation is None:
        return Party(attendance.sampling)
    return Party(attendance.sampling, squared_sensitivity(attendance, correlation))


def squared_sensitivity(attendance: Attendance, correlation: Correlation) -> float | None:
    """The squared sensitivity to the worst rounds of one member, in squared clip norms.

    The largest of any member, or an upper bound where `correlation` gives no more, as if all coins
    said yes; None if each round samples from all members, or there is no method for trees.
    """
    worst = worst_sensitivity(attendance.sampling, correlation)
    if worst is None and isinstance(attendance.sampling, FixedRounds):
        return correlation.worst_of(*_drawn(attendance.members_in, correlation.num_rounds))
    return worst


def _drawn(draw: Draw, num_rounds: int) -> tuple[IndexArray, IndexArray]:
    """The members and the rounds of all participations."""
    cohorts = [draw(index) for index in range(num_rounds)]
    rounds = np.repeat(np.arange(num_rounds), [len(cohort) for cohort in cohorts])
    return np.concatenate(cohorts).astype(np.int64), rounds
