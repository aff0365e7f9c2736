"""Noise distributions and their accounting, by name.

A mechanism names the distribution of its noise, and a `NoiseDistribution` accounts for it. Gaussian
noise is independent between rounds (`GAUSSIAN`, or `CLIENT_GAUSSIAN` if each participant adds it)
or correlated by trees or a matrix; Skellam noise (skellam.py) is integer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.accounting.guarantee import Guarantee, none_known
from fl_audit.accounting.release import Noise, Party, Release
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.array_types import FloatArray
from fl_audit.registry import Registry


@dataclass(frozen=True)
class NoiseDistribution:
    """The accounting of one noise distribution.

    Attributes:
      name: The name of the distribution in run.json.
      guarantee: A function from a release with noise, a party and a delta to the party's guarantee
        without zeroing.
      counts_drawing: Whether the guarantee relies on samples being secret.
      release_assumptions: Sentences that define the release.
      noise_assumption: A sentence with the assumption on the noise.
      is_per_upload: Whether every participant adds all of the noise to its own upload, so that the
        sum of n uploads has sqrt(n) times the standard deviation of one.
      is_by_participants: Whether participants add the noise, all or a share each; the guarantee
        then depends on the number of participants in a round.
    """

    name: str
    guarantee: Callable[[Release, Party, float], Guarantee]
    counts_drawing: bool
    release_assumptions: tuple[str, ...]
    noise_assumption: str
    is_per_upload: bool = False
    is_by_participants: bool = False

    def noise(
        self,
        noise_multiplier: float,
        sum_noise_multiplier: float,
        count_noise_stddev: float = 0.0,
    ) -> Noise:
        """The noise of a round by this distribution; arguments as the attributes of `Noise`."""
        return Noise(self.name, noise_multiplier, sum_noise_multiplier, count_noise_stddev)


NOISE_DISTRIBUTIONS = Registry[NoiseDistribution]("noise distribution")
register_noise_distribution = NOISE_DISTRIBUTIONS.register
remove_noise_distribution = NOISE_DISTRIBUTIONS.remove


def noise_distribution_named(name: str) -> NoiseDistribution:
    """The registered distribution of this name; ValueError if there is none."""
    if name not in NOISE_DISTRIBUTIONS:
        raise ValueError(
            f"noise_distribution must be one of {', '.join(NOISE_DISTRIBUTIONS)}, got {name!r}"
        )
    return NOISE_DISTRIBUTIONS[name]


def noise_on_sum(noise: Noise, participants: npt.ArrayLike) -> FloatArray:
    """The standard deviation of the noise on the sum of a round's updates, in clip norms.

    Args:
      noise: The noise of a round.
      participants: The number of clients and canaries in the round, or in each of several rounds.

    Returns:
      Standard deviations of one coordinate, float64 of the shape of `participants`.

    Raises:
      ValueError: The noise distribution is not registered.
    """
    counts = np.asarray(participants, np.float64)
    if noise_distribution_named(noise.distribution).is_per_upload:
        return np.asarray(noise.sum_noise_multiplier * np.sqrt(counts))
    return np.full(counts.shape, noise.sum_noise_multiplier)


HOW_OFTEN_UNKNOWN = "the number of rounds in which a client or canary participates is not known"


def _independent(release: Release, party: Party, delta: float) -> Guarantee:
    """The guarantee of Gaussian noise that is independent between rounds."""
    if isinstance(party.sampling, SecretSampling):
        return party.sampling.guarantee(release, party, delta)
    number = party.participations
    if number is not None:
        return Guarantee(number, account_gaussian(release.noise.noise_multiplier, number, delta))
    return none_known(None, HOW_OFTEN_UNKNOWN)


# Other noise, and the distributions by name.


def _correlated(release: Release, party: Party, delta: float) -> Guarantee:
    """The guarantee of correlated Gaussian noise: the whole run is one release."""
    z, squared = release.noise.noise_multiplier, party.squared_sensitivity
    if squared is None:
        return none_known(
            party.participations,
            "no accountant here covers both noise that is correlated over rounds and sampled "
            "rounds",
        )
    return Guarantee(party.participations, account_gaussian(z, squared, delta))


def _in_sums(release: Release, party: Party, delta: float) -> Guarantee:
    """The guarantee of sums if each participant adds noise."""
    if party.squared_sensitivity is None:
        return none_known(
            party.participations, "the number of participants in a round is not known"
        )
    return _correlated(release, party, delta)


def _matrix(release: Release, party: Party, delta: float) -> Guarantee:
    """The guarantee of noise correlated by a matrix, amplified if the sampling allows it."""
    sampling, is_known = party.sampling, party.squared_sensitivity is not None
    if is_known and isinstance(sampling, SecretSampling) and sampling.covers_matrix:
        return sampling.guarantee(release, party, delta)
    return _correlated(release, party, delta)


GAUSSIAN = register_noise_distribution(
    NoiseDistribution(
        name="gaussian",
        guarantee=_independent,
        counts_drawing=True,
        release_assumptions=(),
        noise_assumption=(
            "Noise is exactly Gaussian: the limits of floating point are not counted."
        ),
    )
)

TREE = register_noise_distribution(
    NoiseDistribution(
        name="tree",
        guarantee=_correlated,
        counts_drawing=False,
        release_assumptions=(
            "Every noised node of a tree counts as released, which covers all sums that are made "
            "of nodes; rounds are the worst that the schedule can give.",
        ),
        noise_assumption=(
            "Noise is exactly Gaussian and cannot be guessed: the limits of floating point are not "
            "counted."
        ),
    )
)

MATRIX = register_noise_distribution(
    NoiseDistribution(
        name="matrix",
        guarantee=_matrix,
        counts_drawing=True,
        release_assumptions=(
            "All rounds together are one Gaussian release of the strategy matrix times the rounds’ "
            "sums; rounds are the worst that the schedule can give.",
        ),
        noise_assumption=(
            "Noise is exactly Gaussian and cannot be guessed: the limits of floating point are not "
            "counted."
        ),
    )
)

CLIENT_GAUSSIAN = register_noise_distribution(
    NoiseDistribution(
        name="client_gaussian",
        guarantee=_in_sums,
        counts_drawing=False,
        release_assumptions=(
            "Against attackers who see only sums, not single uploads; the number of participants "
            "is no secret. A client that sends no update still adds its noise.",
        ),
        noise_assumption=(
            "Noise is exactly Gaussian and cannot be guessed, and every participant adds its own: "
            "the limits of floating point are not counted."
        ),
        is_per_upload=True,
        is_by_participants=True,
    )
)
"""Gaussian noise that each participant adds to its upload ("weak" or distributed DP).

The sum of the n uploads of a round has noise of sqrt(n) z clip norms. Divided by sqrt(n), it is a
release with noise multiplier z, which a participant moves by 1 / sqrt(n) clip norms. So the squared
sensitivity of a party is the sum over its rounds of 1 / n, exact at the actual cohorts, and all
rounds are one Gaussian mechanism (Dong et al. 2019, corollary 3.3).
"""
