"""The release that a log describes: the sampling of clients and of canaries, and the noise.

If a log states the noise, and in participation.json how clients are sampled, the same accountants
as for a run give upper bounds for the canaries, against an attacker who knows canaries' rounds and
against one who does not.

Canaries assigned to rounds by hand get no amplification by sampling. Unless the log says how
canaries are sampled, their rounds are tested against the sampling of clients.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.noise_distributions import (
    CLIENT_GAUSSIAN,
    GAUSSIAN,
    MATRIX,
    TREE,
    NoiseDistribution,
)
from fl_audit.accounting.release import Correlation, Denominator, Party, Release
from fl_audit.accounting.sampling import FixedRounds, Sampling, UnknownRounds
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.attacks.known_rounds import CorrelatedRounds
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.measured_canary_check import logged_lengths
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import RoundCosines
from fl_audit.checks.measured_rounds import read_mechanism
from fl_audit.checks.noise_rows import binomial_divergence
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation
from fl_audit.formats.participation_files import SAMPLING_OF_LOG, Participation, read_participation

_FALSE_DEPARTURE = 1e-6
"""The largest probability of rejecting rounds that were sampled as stated."""


def sampling_of(participation: Participation, num_rounds: int) -> Sampling | None:
    """The stated sampling of clients, for accounting; None if not stated in full or impossible."""
    kind = SAMPLING_OF_LOG.get(participation.sampling)
    if kind is None:
        return None
    keys = {key: getattr(participation, key) for key in kind.log_keys}
    return None if None in keys.values() else kind.from_log(num_rounds, **keys)


def correlated_rounds(folder: LogFolder, cosines: RoundCosines) -> CorrelatedRounds | None:
    """The correlated noise that a log states; None if it is independent, or no round is scored."""
    if not folder.noise_correlation.exists():
        return None
    rounds = cosines.scored_rounds()
    correlation = read_correlation(folder, int(rounds[-1]) + 1) if len(rounds) else None
    if correlation is None or correlation.is_identity:
        return None
    return CorrelatedRounds(
        correlation, lambda rounds: logged_lengths(folder, cosines.measured_lengths()).at(rounds)[0]
    )


def rounds_of_training(
    participation: Participation, rounds: Sequence[IntArray], released: Sequence[int]
) -> int:
    """The number of rounds among which clients are sampled.

    It is the stated number, or the last round that was released or has a canary, whichever is
    larger. `rounds`, of canaries, and `released`, in order, count from 0.
    """
    planned = [int(own.max()) + 1 for own in rounds if len(own)]
    seen = max([1, *planned, *(index + 1 for index in released[-1:])])
    return max(participation.rounds or 1, seen)


def are_sampled_alike(
    participation: Participation, rounds: Sequence[IntArray], released: Sequence[int]
) -> bool:
    """Whether canaries are sampled like clients, as stated or, if not stated, by a test.

    True if the sampling of neither canaries nor clients is stated. The test rejects canaries that
    are sampled like clients with probability at most 1e-6, by Chernoff's bound on the share of
    canaries in each round and on the share with each number of rounds; the bound also holds if
    canaries' rounds are negatively associated.
    """
    if participation.canaries is not None:
        return participation.canaries == "like_clients"
    num_rounds = rounds_of_training(participation, rounds, released)
    sampling = sampling_of(participation, num_rounds)
    if sampling is None:
        return True
    is_possible = all(sampling.allows(np.unique(own), num_rounds) for own in rounds)
    return is_possible and _is_likely(sampling, rounds, num_rounds)


def _is_likely(sampling: Sampling, rounds: Sequence[IntArray], num_rounds: int) -> bool:
    """Whether the shares of canaries by round and by number of rounds are as expected."""
    expected = sampling.round_share
    if expected is None:
        return True
    own = OwnRounds(tuple(np.unique(own_rounds) for own_rounds in rounds))
    canaries, in_rounds = own.participations
    observed = np.bincount(in_rounds, minlength=num_rounds) / len(rounds)
    if not sampling.is_share_exact:
        observed = np.maximum(observed, expected)
    surprises = [len(rounds) * binomial_divergence(observed, np.full(num_rounds, expected))]
    if sampling.share is not None and sampling.is_share_exact:
        from scipy import stats  # imported here because it takes half a second

        chances = stats.binom.pmf(np.arange(num_rounds + 1), num_rounds, expected)
        number = np.bincount(canaries, minlength=len(rounds))
        of_number = np.bincount(number, minlength=num_rounds + 1) / len(rounds)
        surprises.append(len(rounds) * binomial_divergence(of_number, chances))
    divergences = np.concatenate(surprises)  # minus the logs of Chernoff's bounds
    return bool(divergences.max() < np.log(2 * len(divergences) / _FALSE_DEPARTURE))


def stated_shifts(log: SeenLog) -> FloatArray | None:
    """A canary's norm over the noise's standard deviation, for each scored round with canaries.

    None if such a round lacks noise or a norm, if no such round exists, or if the canaries' rounds
    are not stated. Correlated noise counts as it is before it is correlated.
    """
    own = log.listed.own_rounds
    if own is None:
        return None
    indices = np.intersect1d(log.cosines.scored_rounds(), own.participations[1])
    if not len(indices):
        return None
    clients, stddevs = _lengths_and_stddevs(log, indices)
    is_stated = np.isfinite(clients) & (clients > 0) & np.isfinite(stddevs) & (stddevs > 0)
    return np.asarray(clients / stddevs) if is_stated.all() else None


def _noise_range(log: SeenLog) -> tuple[float, float]:
    """The smallest and the largest noise multiplier of the scored rounds.

    0 and infinity if the noise of a round is not stated. A round without a client's norm is assumed
    to have the largest, or the smallest, that other rounds state.
    """
    clients, stddevs = _lengths_and_stddevs(log, log.cosines.scored_rounds())
    is_known = np.isfinite(clients) & (clients > 0)
    if not np.isfinite(stddevs).all():
        return 0.0, math.inf
    longest = np.where(is_known, clients, clients[is_known].max())
    shortest = np.where(is_known, clients, clients[is_known].min())
    return float(np.min(stddevs / longest)), float(np.max(stddevs / shortest))


def _lengths_and_stddevs(log: SeenLog, indices: IntArray) -> tuple[FloatArray, FloatArray]:
    """A client's norm and the noise's standard deviation in some rounds; NaN where not stated."""
    _, clients = logged_lengths(log.folder, log.cosines.measured_lengths()).at(indices)
    stated = read_mechanism(log.folder)
    known = np.zeros(0) if stated is None else stated[:, 0]
    padded = np.append(known, np.full(int(indices.max(initial=0)) + 1, np.nan))
    return clients, padded[indices]


_UNKNOWN = Party(UnknownRounds())

_NOT_STATED = Participation("none")
"""The participation of clients if the log does not state it."""


@dataclass(frozen=True)
class StatedRounds:
    """The release that a log states.

    Attributes:
      release: The release for canaries; also for clients if the log states how often they
        participate, states no weight above a canary's, and states the noise of every scored round.
        The noise multiplier is the smallest of all scored rounds or, if not all of them state their
        noise, of the scored rounds with canaries.
      most_noise: The largest noise multiplier of the scored rounds; infinite if the noise of one is
        not stated.
      says_all_rounds: Whether the log states the sampling of clients or correlated noise, so that
        the release is of all rounds together; otherwise only single rounds' noise is stated.
    """

    release: Release
    most_noise: float
    says_all_rounds: bool


def stated_rounds(log: SeenLog) -> StatedRounds | None:
    """The release that a log states; None if it states too little (`why_nothing_stated`).

    The log must have a scored round with canaries. It must state the canaries' rounds and, for
    every scored round with canaries, the noise and the canaries' norm.
    """
    own, shifts = log.listed.own_rounds, stated_shifts(log)
    if own is None or own.most == 0 or shifts is None:
        return None
    least_noise, most_noise = _noise_range(log)
    noise = least_noise or 1 / float(shifts.max())
    participation = read_participation(log.folder.participation) or _NOT_STATED
    released = log.cosines.scored_rounds().tolist()
    correlated = correlated_rounds(log.folder, log.cosines)
    if correlated is not None:
        release = release_under(correlated.correlation, own, noise)
        client = _client_under(correlated.correlation, release.rounds, participation)
        release = dataclasses.replace(release, client=client if least_noise else _UNKNOWN)
        return StatedRounds(release, most_noise, says_all_rounds=True)
    sampled = release_of(participation, own, released, noise)
    if sampled is not None:
        if not _weigh_as_canaries(participation) or not least_noise:
            sampled = dataclasses.replace(sampled, client=_UNKNOWN)
        return StatedRounds(sampled, most_noise, says_all_rounds=True)
    client = _client_of(participation) if least_noise else _UNKNOWN
    num_rounds = rounds_of_training(participation, own.of_canary, released)
    release = _release(num_rounds, GAUSSIAN, noise, client, Party(FixedRounds(own.most)))
    return StatedRounds(release, most_noise, says_all_rounds=False)


def why_nothing_stated(log: SeenLog) -> str:
    """Why `stated_rounds` is None, as a clause."""
    if log.listed.own_rounds is None:
        return "the log does not state the canaries’ rounds"
    if log.listed.own_rounds.most == 0:
        return "no canary has a round"
    return "the log lacks the noise, or the canaries’ norm, in some round with canaries"


def stated_uploads(log: SeenLog) -> Release | None:
    """The release of a log's uploads; None without uploads, or if their noise is not stated."""
    participation = read_participation(log.folder.participation) or _NOT_STATED
    z = participation.upload_noise_multiplier
    if log.uploads is None or z is None:
        return None
    most = log.uploads.most
    rounds = max(participation.rounds or 1, participation.client_rounds or 1, most)
    canary = Party(FixedRounds(most))
    return _release(rounds, CLIENT_GAUSSIAN, z, _client_of(participation), canary)


def _release(
    rounds: int, distribution: NoiseDistribution, noise: float, client: Party, canary: Party
) -> Release:
    """A release with `noise` as multiple of a canary's norm in an aggregate."""
    alone = Denominator("expected_cohort", 1.0)
    return Release(
        rounds=rounds,
        noise=distribution.noise(noise, noise),
        denominator=alone,
        client=client,
        canary=canary,
    )


def _client_of(participation: Participation) -> Party:
    """A client in `client_rounds` rounds; unknown without that key or if heavier than a canary."""
    number = participation.client_rounds
    if number is None or not _weigh_as_canaries(participation):
        return _UNKNOWN
    return Party(FixedRounds(number))


def _client_under(correlation: Correlation, logged: int, participation: Participation) -> Party:
    """A client under correlated noise; `logged` is the number of rounds in the log.

    Without sampling, a client may be in any `client_rounds` rounds at least `separation` apart.
    """
    if not _weigh_as_canaries(participation):
        return _UNKNOWN
    over_all = correlation.until(max(participation.rounds or 1, logged))
    number = participation.client_rounds
    if participation.sampling == "none":
        if number is None:
            return _UNKNOWN
        squared = over_all.min_separation(number, participation.separation or 1)
        return Party(FixedRounds(number), squared)
    sampling = sampling_of(participation, over_all.num_rounds)
    worst = None if sampling is None else sampling.worst_sensitivity(over_all)
    return _UNKNOWN if sampling is None or worst is None else Party(sampling, worst)


def _weigh_as_canaries(participation: Participation) -> bool:
    return participation.client_weight is None or participation.client_weight <= 1


def release_of(
    participation: Participation, own: OwnRounds, released: Sequence[int], noise_multiplier: float
) -> Release | None:
    """The release under independent noise and sampled clients; None if no sampling is stated."""
    num_rounds = rounds_of_training(participation, own.of_canary, released)
    sampling = sampling_of(participation, num_rounds)
    if sampling is None:
        return None
    alike = are_sampled_alike(participation, own.of_canary, released)
    canary = Party(sampling) if alike else Party(FixedRounds(own.most))
    return _release(num_rounds, GAUSSIAN, noise_multiplier, Party(sampling), canary)


def release_under(correlation: Correlation, own: OwnRounds, noise_multiplier: float) -> Release:
    """The release under correlated noise, for an attacker who knows the canaries' rounds.

    `noise_multiplier` is the independent noise's, before this noise is correlated.
    """
    num_rounds = max(correlation.num_rounds, *(int(o.max()) + 1 for o in own.of_canary if len(o)))
    over_all = correlation.until(num_rounds)
    party = Party(FixedRounds(own.most), float(over_all.worst_of(*own.participations)))
    distribution = TREE if isinstance(over_all, Trees) else MATRIX
    release = _release(num_rounds, distribution, noise_multiplier, party, party)
    return dataclasses.replace(release, correlation=over_all)
