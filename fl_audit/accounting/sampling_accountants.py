"""Accountants of sampling: amplification of Gaussian noise by secret participation.

Each subclass of `Sampling` with amplification has a `SamplingAccountant`. To register a custom one:

    register_accountant(SamplingAccountant(MySampling, my_guarantee, my_assumption))

If an attacker may know the rounds, `fixed_participation` and `known_rounds_epsilons` apply.
"""

import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fl_audit.accounting.gaussian_accountants import (
    FixedSizeRounds,
    SampledRounds,
    account_fixed_size,
    account_gaussian,
    account_sampled,
)
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee
from fl_audit.accounting.release import Correlation, Party, Release
from fl_audit.accounting.sampling import (
    AllocatedRounds,
    BallsInBinsSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    MinSeparationSampling,
    OncePerBlock,
    OneGroup,
    PoissonSampling,
    Sampling,
)
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.registry import Registry

SamplingType = TypeVar("SamplingType", bound=Sampling)


@dataclass(frozen=True)
class SamplingAccountant(Generic[SamplingType]):
    """The accountant of one sampling, under independent Gaussian noise.

    Attributes:
      sampling: The subclass of `Sampling`.
      guarantee: The guarantee at a delta to a party under this sampling, if the rounds are secret.
        `Sampling.neighbours` is its neighbouring relation.
      assumption: A sentence on what the sampling has to fulfil.
      under_matrix: The guarantee under noise that a matrix correlates, to a party of known squared
        sensitivity; None if sampling gives no amplification there.
      least: A lower bound on epsilon under independent noise; None if not implemented.
    """

    sampling: type[SamplingType]
    guarantee: Callable[[Release, SamplingType, float], Guarantee]
    assumption: Callable[[SamplingType], str]
    under_matrix: Callable[[Release, Party, float], Guarantee] | None = None
    least: Callable[[Release, SamplingType, float], float] | None = None

    @property
    def name(self) -> str:
        return self.sampling.__name__


SAMPLING_ACCOUNTANTS = Registry[SamplingAccountant[Any]]("sampling accountant")
register_accountant = SAMPLING_ACCOUNTANTS.register
remove_accountant = SAMPLING_ACCOUNTANTS.remove


def accountant_of(sampling: Sampling) -> SamplingAccountant[Any] | None:
    """The accountant of a sampling; None if sampling gives no amplification."""
    accountant = SAMPLING_ACCOUNTANTS.get(type(sampling).__name__)
    return accountant if accountant and accountant.sampling is type(sampling) else None


def fixed_participation(release: Release, participations: int, delta: float) -> Guarantee:
    """The guarantee of independent Gaussian noise if an attacker may know the rounds."""
    by_accountant = account_gaussian(release.noise.noise_multiplier, participations, delta)
    return Guarantee(participations, by_accountant)


def _poisson(release: Release, sampling: PoissonSampling, delta: float) -> Guarantee:
    if sampling.probability == 1:
        return fixed_participation(release, release.rounds, delta)
    rounds = SampledRounds(sampling.probability, release.noise.noise_multiplier, release.rounds)
    return Guarantee(None, account_sampled(rounds, delta))


def _poisson_assumption(sampling: PoissonSampling) -> str:
    return (
        f"Each client is in each round with probability {sampling.probability:.3g}, "
        "independently, and no attacker sees who was."
    )


def _fixed_size(release: Release, sampling: FixedSizeSampling, delta: float) -> Guarantee:
    if sampling.sample_size == sampling.sampled_from:
        return fixed_participation(release, release.rounds, delta)
    rounds = FixedSizeRounds(
        sampling.sample_size, sampling.sampled_from, release.noise.noise_multiplier, release.rounds
    )
    return Guarantee(None, account_fixed_size(rounds, delta))


def _fixed_size_assumption(sampling: FixedSizeSampling) -> str:
    return (
        f"Each round samples {sampling.sample_size} of {sampling.sampled_from} uniformly without "
        "replacement. For Rényi DP no attacker sees who was sampled, and a client may even be "
        "replaced by any other; the other accountant lets the attacker see who was."
    )


def cyclic_rounds(release: Release, sampling: CyclicPoissonSampling) -> SampledRounds | None:
    """The rounds on Poisson samples that are as private as those of a group that takes turns.

    Under independent noise these are the rounds of the group. So they are under the noise of a
    matrix with no more bands than groups: rounds of one group then move what is released in
    separate places, each by as much as a column is long, and any two rounds may depend on earlier
    ones (Choquette-Choo et al. 2023, arXiv:2306.08153, algorithm 2 and theorem 4).

    None if all coins say yes, or if no result covers the correlation.
    """
    length = 1.0
    match release.correlation:
        case Toeplitz() as strategy:
            if strategy.bands > sampling.separation:
                return None
            length = math.sqrt(strategy.min_separation(1, 1))
        case None:
            pass
        case _:
            return None
    if sampling.probability == 1:
        return None
    multiplier = release.noise.noise_multiplier / length
    return SampledRounds(sampling.probability, multiplier, sampling.turns)


def _cyclic(release: Release, sampling: CyclicPoissonSampling, delta: float) -> Guarantee:
    rounds = cyclic_rounds(release, sampling)
    if rounds is None:
        return fixed_participation(release, sampling.turns, delta)
    return Guarantee(None, account_sampled(rounds, delta))


def _cyclic_under_matrix(release: Release, party: Party, delta: float) -> Guarantee:
    rounds = cyclic_rounds(release, typing.cast(CyclicPoissonSampling, party.sampling))
    if rounds is None:
        return Guarantee(None, known_rounds_epsilons(release, party, delta))
    return Guarantee(None, account_sampled(rounds, delta))


def _cyclic_assumption(sampling: CyclicPoissonSampling) -> str:
    return (
        f"Each client is in each round of its group, one of {sampling.separation} that take turns, "
        f"with probability {sampling.probability:.3g}, independently, and no attacker sees who "
        "was; its group may be known."
    )


register_accountant(
    SamplingAccountant(CyclicPoissonSampling, _cyclic, _cyclic_assumption, _cyclic_under_matrix)
)
register_accountant(SamplingAccountant(PoissonSampling, _poisson, _poisson_assumption))
register_accountant(SamplingAccountant(FixedSizeSampling, _fixed_size, _fixed_size_assumption))


def known_rounds_epsilons(
    release: Release, party: Party, delta: float
) -> tuple[AccountedEpsilon, ...]:
    """The epsilons of correlated noise if an attacker may know the rounds."""
    squared = party.squared_sensitivity or 0.0
    return account_gaussian(release.noise.noise_multiplier, squared, delta)


def worst_sensitivity(sampling: Sampling, correlation: Correlation) -> float | None:
    """The largest squared sensitivity over all possible draws of a party's rounds.

    In squared clip norms, or an upper bound where `correlation` gives no more. None if any rounds
    are possible, or if it depends on the members' rounds.
    """
    match sampling:
        case OneGroup(at_most=most, separation=groups) if most * groups < correlation.num_rounds:
            return correlation.min_separation(most, groups)
        case OncePerBlock(length=length):
            return correlation.once_per_block(length)
        case (
            OneGroup(separation=groups)
            | CyclicPoissonSampling(separation=groups)
            | BallsInBinsSampling(bins=groups)
        ):
            return correlation.one_group(groups)
        case (AllocatedRounds() | MinSeparationSampling()) as sampled:
            return correlation.min_separation(sampled.most_drawn, sampled.separation)
        case _:
            return None
