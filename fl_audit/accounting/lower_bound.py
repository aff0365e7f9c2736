"""Lower bounds on the epsilon of a release.

Accountants give upper bounds. A claim below an upper bound may still be true; a claim below the
lower bound is false. Rounds that an attacker knows are one Gaussian mechanism, whose epsilon is
exact (Dong, Roth & Su 2019, arXiv:1905.02383, corollary 3.3). For secret rounds, one attacker gives
the lower bound (least_epsilon.py); no other is better under Poisson sampling.

>>> from fl_audit.accounting import Denominator, FixedRounds, Noise, PoissonSampling
>>> sampled, seven = Party(PoissonSampling(0.05)), Party(FixedRounds(7))
>>> release = Release(
...     rounds=60,
...     noise=Noise("gaussian", 0.8, 0.8),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=sampled,
...     canary=seven,
... )
>>> for party in (sampled, seven):
...     print(f"{epsilon_at_least(release, party, 1e-5, knows_rounds=False):.3f}")
4.742
18.934
"""

import functools
import math

import numpy as np

from fl_audit.accounting.gaussian_accountants import epsilon_seen_rounds
from fl_audit.accounting.hidden_rounds import LARGEST_SHIFT
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.noise_distributions import (
    CLIENT_GAUSSIAN,
    GAUSSIAN,
    MATRIX,
    noise_distribution_named,
)
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import (
    FixedRounds,
    OncePerBlock,
    OneGroup,
    OneRoundPerBlock,
)
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu


def exact_shift(release: Release, party: Party) -> float | None:
    """The mu of the Gaussian mechanism facing an attacker who knows the party's rounds.

    Args:
      release: What was released.
      party: One of its parties.

    Returns:
      The mu; None if the number of rounds is 0, random or unknown. Otherwise infinite without
      noise, and None if noise is not Gaussian, if zeroing is adaptive, or if only an upper bound on
      mu is known, such as that of the worst possible draw of rounds.
    """
    z = release.noise.noise_multiplier
    most, distribution = party.participations, noise_distribution_named(release.noise.distribution)
    if not isinstance(party.sampling, FixedRounds) or isinstance(party.sampling, OneGroup):
        return None  # `OneGroup` states the most rounds that a draw can give, not what it gave
    if not most:
        return None
    if z == 0:
        return math.inf
    if release.zeroing == "adaptive":
        return None
    if distribution is GAUSSIAN and release.correlation is None:
        return math.sqrt(most) / z
    squared = party.squared_sensitivity
    is_exact = distribution is CLIENT_GAUSSIAN or (
        distribution is MATRIX and _is_exact(release, party)
    )
    return math.sqrt(squared) / z if is_exact and squared is not None else None


def _is_exact(release: Release, party: Party) -> bool:
    """Whether the squared sensitivity under a matrix is exact, as stated in `Toeplitz`.

    That of `OncePerBlock` is of the worst possible shuffles, of which few clients have any.
    """
    matrix = release.correlation
    return (
        isinstance(matrix, Toeplitz)
        and matrix.is_falling
        and not isinstance(party.sampling, OncePerBlock)
    )


def uploads_as_sums(release: Release) -> Release:
    """The release of single uploads with noise of their own, with lower bounds of known rounds.

    A party's noised uploads are a Gaussian mechanism, as noised sums of known rounds are.
    """
    z = release.noise.sum_noise_multiplier
    return release.with_noise(GAUSSIAN.noise(z, z))


def epsilon_at_least(
    release: Release, party: Party, delta: float, *, knows_rounds: bool
) -> float | None:
    """A lower bound on the epsilon of a party.

    Args:
      release: What was released.
      party: One of its parties.
      delta: The delta of the guarantee, in (0, 1).
      knows_rounds: Whether the attacker knows the party's rounds.

    Returns:
      The lower bound: the exact epsilon where `exact_shift` is known (for one random round per
      block only if `knows_rounds`). Without noise, infinite if the party participates with a
      probability above delta, else 0. None if no bound is implemented, as for trees, discrete
      noise, samples of groups, or secret rounds with a noise multiplier below 1 / `LARGEST_SHIFT`.
    """
    sampling, noise = party.sampling, release.noise
    if noise.noise_multiplier == 0:
        # If all other clients send nothing, the sums differ exactly if the party participates.
        chance = sampling.chance_of_any(release.rounds)
        return None if chance is None else math.inf if chance > delta else 0.0
    shift = exact_shift(release, party)
    if shift is not None and (knows_rounds or not isinstance(sampling, OneRoundPerBlock)):
        return epsilon_of_mu(shift, delta)
    is_plain = (
        noise_distribution_named(noise.distribution) is GAUSSIAN and release.zeroing != "adaptive"
    )
    if not is_plain or release.correlation is not None:
        return None
    if not knows_rounds:
        return _least_of_secret(release, party, delta)
    if sampling.share is None or not sampling.is_share_exact:
        return None
    return epsilon_seen_rounds(sampling.share, release.rounds, noise.noise_multiplier, delta)


@functools.lru_cache(maxsize=64)
def _least_of_secret(release: Release, party: Party, delta: float) -> float | None:
    """A lower bound on epsilon for secret rounds under independent Gaussian noise.

    None if no attacker is implemented for the sampling, or one round's shift exceeds
    `LARGEST_SHIFT`.
    """
    z = release.noise.noise_multiplier
    if z < 1 / LARGEST_SHIFT:
        return None
    match party.sampling:
        case OneRoundPerBlock(blocks=((length, 1),)):
            return least_epsilon(z, np.array([0.0, 1.0]), length, delta)
        case SecretSampling() as sampling:
            return sampling.least(release, delta)
        case _:
            return None
