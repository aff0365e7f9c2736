"""Upper bounds for patterns in which every client secretly draws its own rounds.

Let W_t be the likelihood ratio of round t, which under Q, without the client, is e^(z / sigma - 1 /
(2 sigma^2)) with z standard normal. The client's rounds S give the ratio R = E_S prod over t in S
of W_t, and whatever makes R larger in the convex order bounds epsilon from above (`hidden_rounds`).

- *Balls in bins* (Chua et al. 2024, arXiv:2412.16802; Choquette-Choo et al. 2024,
  arXiv:2410.06266): all k rounds of one bin of b are one release with noise sigma / sqrt(k), so
  that R is the mean of b independent ratios: random allocation of one round of b, exactly. If the
  last cycle is incomplete, each bin counts as if it had as many rounds as the first.
- *k of T* (Feldman & Shenfeld 2025, arXiv:2502.12773): S is as if one round were drawn from each
  part of a random partition of the rounds into k parts. An attacker who knows the partition faces
  k independent draws of one round of about T / k.
- *Minimum separation by coins*: given the past, the client is in round t with a probability of at
  most p, whether it rests or not. A round's factor 1 - p_t + p_t W_t is larger in the convex order
  for a larger p_t, so that Poisson sampling with p in every round bounds it.
- *Truncated Poisson sampling* of n members to B: let the attacker also see O, who else is in the
  sample. As a client that sends nothing counts too, O has one distribution with the client and
  without it. Of fewer than B - 1 others none was cut, so that the client is there by its coin q;
  of B others it is not; of B - 1 it is there with the chance q' that Bayes gives, as the client is
  one of the B with chance B / (N + 1) where N >= B others were sampled. So a round is a mixture,
  known to the attacker, of rounds with the coins q, q' and 0. Without a cut it is Poisson sampling.
  (arXiv:2508.15089 bounds truncated sampling for other neighbours.)

Under a matrix whose bands are at most the bins, the columns of one bin's rounds do not overlap, and
those of bins at least as far apart as the number of bands are orthogonal to one another. An
attacker who knows the class of such bins that the client's bin belongs to faces random allocation
among the bins of that class.
"""

import functools
import math

import numpy as np
from scipy import special

from fl_audit.accounting.gaussian_accountants import SampledRounds, account_gaussian
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee
from fl_audit.accounting.hidden_rounds import (
    LARGEST_SHIFT,
    RatioDistribution,
    mixed_rounds,
    one_round_of_each,
    sampled_rounds,
)
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import (
    AllocatedRounds,
    BallsInBinsSampling,
    Blocks,
    CyclicPoissonSampling,
    MinSeparationSampling,
    Sampling,
    TruncatedPoissonSampling,
    log_binomial_masses,
)
from fl_audit.accounting.sampling_accountants import (
    SamplingAccountant,
    accountant_of,
    cyclic_rounds,
    known_rounds_epsilons,
    register_accountant,
)
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray

# Dominating pairs.


def hidden_pair(release: Release, party: Party, delta: float) -> RatioDistribution | None:
    """The dominating pair under a secret draw of the rounds, for epsilon at this delta.

    None if none is known, the draw hides nothing, or the shift exceeds `LARGEST_SHIFT`.
    """
    z = release.noise.noise_multiplier
    match release.correlation, party.sampling:
        case None, BallsInBinsSampling(bins=bins) as sampling:
            return _one_of(z / math.sqrt(sampling.most_drawn), ((bins, 1),), delta)
        case Toeplitz(bands=bands), BallsInBinsSampling(bins=bins) if bands <= bins:
            shift = math.sqrt(party.squared_sensitivity or 0.0) / z
            return _one_of(1 / shift, ((bins_of_a_class(bins, bands), 1),), delta)
        case None, AllocatedRounds(number=number, rounds=rounds):
            return _one_of(z, parts(rounds, number), delta)
        case _:
            return _coins(release, party.sampling, delta)


def _coins(release: Release, sampling: Sampling, delta: float) -> RatioDistribution | None:
    """The dominating pair where independent coins decide, perhaps with rests or cuts."""
    sampled = None
    if isinstance(sampling, TruncatedPoissonSampling):
        z, coins = release.noise.noise_multiplier, coins_of_a_cut(sampling)
        if release.correlation is not None or coins is None or 1 / z > LARGEST_SHIFT:
            return None
        return mixed_rounds(z, coins, release.rounds, delta)
    if isinstance(sampling, CyclicPoissonSampling):
        sampled = cyclic_rounds(release, sampling)
    elif isinstance(sampling, MinSeparationSampling) and release.correlation is None:
        z, p = release.noise.noise_multiplier, sampling.probability
        sampled = SampledRounds(p, z, release.rounds) if p < 1 else None
    if sampled is None or 1 / sampled.noise_multiplier > LARGEST_SHIFT:
        return None
    return sampled_rounds(sampled.noise_multiplier, sampled.probability, sampled.rounds, delta)


def _one_of(noise_multiplier: float, blocks: Blocks, delta: float) -> RatioDistribution | None:
    number = sum(count for _, count in blocks)
    is_hidden = any(length > 1 for length, _ in blocks)
    if not is_hidden or math.sqrt(number) / noise_multiplier > LARGEST_SHIFT:
        return None
    return one_round_of_each(noise_multiplier, blocks, delta)


def parts(rounds: int, number: int) -> Blocks:
    """Divides the rounds into this number of parts, whose sizes differ by at most one."""
    length, longer = divmod(rounds, number)
    both = ((length + 1, longer), (length, number - longer))
    return tuple((size, count) for size, count in both if count)


def bins_of_a_class(bins: int, bands: int) -> int:
    """The largest size of equal classes of bins with orthogonal columns.

    Bins are on a circle; two bins of a class are at least as far apart as the number of bands.

    >>> bins_of_a_class(12, 1), bins_of_a_class(12, 5), bins_of_a_class(12, 7)
    (12, 2, 1)
    """
    return max(size for size in range(1, bins + 1) if bins % size == 0 and bins // size >= bands)


# Upper bounds, under independent noise and under a matrix.


def _guarantee(release: Release, sampling: Sampling, delta: float) -> Guarantee:
    """The upper bounds under independent noise, with and without knowledge of the rounds."""
    z, most = release.noise.noise_multiplier, sampling.most_drawn
    return _amplified(release, Party(sampling), account_gaussian(z, most or 0, delta), delta)


def _under_matrix(release: Release, party: Party, delta: float) -> Guarantee:
    return _amplified(release, party, known_rounds_epsilons(release, party, delta), delta)


def _amplified(
    release: Release, party: Party, known: tuple[AccountedEpsilon, ...], delta: float
) -> Guarantee:
    pair = None
    if release.noise.noise_multiplier > 0:
        pair = hidden_pair(release, party, delta)
    if pair is None:
        return Guarantee(None, known)
    is_allocated = not isinstance(party.sampling, MinSeparationSampling)
    name = "random_allocation" if is_allocated else "coins_without_rest"
    return Guarantee(None, (*known, AccountedEpsilon(name, pair.epsilon(delta))))


def _truncated(release: Release, sampling: TruncatedPoissonSampling, delta: float) -> Guarantee:
    z = release.noise.noise_multiplier
    pair = hidden_pair(release, Party(sampling), delta) if z > 0 else None
    if pair is None:
        return Guarantee(None, account_gaussian(z, release.rounds, delta))
    return Guarantee(None, (AccountedEpsilon("truncated_poisson", pair.epsilon(delta)),))


_SURE = 1 - 1e-9
"""A larger chance of a round hides nothing."""


def coins_of_a_cut(sampling: TruncatedPoissonSampling) -> tuple[tuple[float, float], ...] | None:
    """The chances of a round given who else is in it, each with its own; None if one is sure."""
    q, largest = sampling.probability, min(sampling.largest, sampling.members)
    others = np.exp(log_binomial_masses(sampling.members - 1, q))
    numbers = np.arange(largest, sampling.members)
    kept = q * float((others[largest:] * largest / (numbers + 1)).sum())
    just_enough = float(others[largest - 1])
    of_full = just_enough + kept
    coin = (q * just_enough + kept) / of_full if of_full > 0 else q
    if max(coin, q) > _SURE:
        return None
    fewer = float(others[: largest - 1].sum())
    return ((q, fewer), (coin, of_full), (0.0, max(1 - fewer - of_full, 0.0)))


def chance_of_a_cut(sampling: TruncatedPoissonSampling) -> float:
    """The probability that a round's sample is truncated."""
    largest = min(sampling.largest, sampling.members)
    return float(special.bdtrc(largest, sampling.members, sampling.probability))


# Lower bounds on epsilon, by one attacker.


@functools.lru_cache(maxsize=16)
def least_of(release: Release, party: Party, delta: float) -> float | None:
    """A lower bound on epsilon under a secret draw: how loose the upper bound is at most.

    None if no attacker is implemented for the sampling, noise is correlated over rounds, or the
    shift exceeds `LARGEST_SHIFT`.
    """
    accountant = accountant_of(party.sampling)
    if (
        accountant is None
        or accountant.least is None
        or release.correlation is not None
        or not release.noise.noise_multiplier >= 1 / LARGEST_SHIFT
    ):
        return None
    return accountant.least(release, party.sampling, delta)


def _least_of_bins(release: Release, sampling: BallsInBinsSampling, delta: float) -> float:
    """Leaves out the rounds of an incomplete last cycle."""
    turns = max(sampling.rounds // sampling.bins, 1)
    z = release.noise.noise_multiplier / math.sqrt(turns)
    bins = min(sampling.bins, sampling.rounds)
    share = bins / sampling.bins  # of fewer rounds than bins, some bins have none
    return least_epsilon(z, np.array([1 - share, share]), bins, delta)


def _least_of_allocated(release: Release, sampling: AllocatedRounds, delta: float) -> float:
    exactly = np.zeros(sampling.number + 1)
    exactly[-1] = 1.0
    return least_epsilon(release.noise.noise_multiplier, exactly, sampling.rounds, delta)


def _least_of_separated(release: Release, sampling: MinSeparationSampling, delta: float) -> float:
    numbers = numbers_of_rounds(sampling)
    return least_epsilon(release.noise.noise_multiplier, numbers, sampling.rounds, delta)


def _least_of_truncated(
    release: Release, sampling: TruncatedPoissonSampling, delta: float
) -> float:
    """The lower bound of Poisson sampling, with delta increased by the truncated mass."""
    numbers = np.exp(log_binomial_masses(release.rounds, sampling.probability))
    z, cut = release.noise.noise_multiplier, release.rounds * chance_of_a_cut(sampling)
    plain = least_epsilon(z, numbers, release.rounds, delta)
    hidden = cut * (1 + math.exp(min(plain, 700.0)))
    if delta + hidden >= 1:
        return 0.0
    return least_epsilon(z, numbers, release.rounds, delta + hidden) if hidden > 0 else plain


@functools.lru_cache(maxsize=4)
def numbers_of_rounds(sampling: MinSeparationSampling) -> FloatArray:
    """The probability that a member has 0, 1, 2 ... rounds, of shape (most_drawn + 1,)."""
    p, rest = sampling.probability, sampling.separation - 1
    most, rounds = sampling.most_drawn, sampling.rounds
    ready = np.zeros((rounds + 1, most + 1))  # by round, who may join it, by rounds so far
    started = 1 / (1 + rest * p)  # the share that may join before the first round
    ready[0, 0] = started
    for index in range(rounds):
        ready[index + 1] += (1 - p) * ready[index]
        if index < rest:
            ready[index + 1, 0] += p * started  # one of the last rest rounds before the first
        if index + 1 + rest <= rounds:
            ready[index + 1 + rest, 1:] += p * ready[index, :-1]
    resting = np.zeros(most + 1)
    for index in range(max(rounds - rest, 0), rounds):
        resting[1:] += p * ready[index, :-1]
    resting[0] += p * started * max(rest - rounds, 0)
    return np.asarray(ready[rounds] + resting)


# What has to hold of the draw, in words.


def _bins_assumption(sampling: BallsInBinsSampling) -> str:
    return (
        f"Each client draws one of {sampling.bins} groups that take turns, uniformly and "
        "independently, and no attacker sees which."
    )


def _allocated_assumption(sampling: AllocatedRounds) -> str:
    return (
        f"Each client draws {sampling.number} of {sampling.rounds} rounds, uniformly and "
        "independently of others, and no attacker sees which. The upper bound lets the attacker "
        "see a partition of the rounds of which it takes one each, which costs most where rounds "
        "are few."
    )


def _separated_assumption(sampling: MinSeparationSampling) -> str:
    return (
        f"Each client that was not in any of the last {sampling.separation - 1} rounds joins with "
        f"probability {sampling.probability:.3g}, independently, and no attacker sees who did. The "
        "upper bound counts no rest, for which no bound without simulation is known."
    )


def _truncated_assumption(sampling: TruncatedPoissonSampling) -> str:
    return (
        f"Each client is in each round with probability {sampling.probability:.3g}, "
        f"independently, of which {sampling.largest} at random stay where they are more, and "
        "no attacker sees who was."
    )


register_accountant(
    SamplingAccountant(
        BallsInBinsSampling, _guarantee, _bins_assumption, _under_matrix, _least_of_bins
    )
)
register_accountant(
    SamplingAccountant(
        AllocatedRounds, _guarantee, _allocated_assumption, least=_least_of_allocated
    )
)
register_accountant(
    SamplingAccountant(
        MinSeparationSampling, _guarantee, _separated_assumption, least=_least_of_separated
    )
)
register_accountant(
    SamplingAccountant(
        TruncatedPoissonSampling, _truncated, _truncated_assumption, least=_least_of_truncated
    )
)
