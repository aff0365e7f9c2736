"""The release of a run: a frozen description without arithmetic.

A schedule and a mechanism make a `Release`, which states

- the number of rounds and the noise of each;
- how clients and canaries are sampled into rounds: a `Sampling` for each;
- the divisor of the noised sum, and whether updates are zeroed before they are clipped.

Norms are in clip norms throughout. The clip norm itself, which may change from round to round, is
left out: privacy does not depend on it.

Accountants compute from this description, as dp-accounting's do from `DpEvent`s:

>>> from fl_audit.accounting import FixedRounds, PoissonSampling, account
>>> release = Release(
...     rounds=100,
...     noise=Noise("gaussian", noise_multiplier=1.0, sum_noise_multiplier=1.0),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=Party(FixedRounds(7)),  # as in seven shuffled epochs
...     canary=Party(FixedRounds(1)),
... )
>>> accounting = account(release, delta=1e-5)
>>> round(accounting.client.epsilon, 2), round(accounting.canary.epsilon, 2)
(14.19, 4.38)
>>> sampled = Party(PoissonSampling(0.1))
>>> drawn = dataclasses.replace(release, client=sampled, canary=sampled)
>>> accounting = account(drawn, delta=1e-5)
>>> round(accounting.epsilon, 2), accounting.neighbours
(7.05, 'one client more or less in the population (add or remove one)')

A new sampling needs a participation pattern and a subclass of `sampling.Sampling`, or of
`secret_sampling.SecretSampling` if it amplifies privacy. Noise that is correlated over rounds is a
separate `noise_distributions.NoiseDistribution`: a release then holds the trees or the matrix, and
a party the `squared_sensitivity` of its rounds.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fl_audit.accounting.sampling import Sampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees

ZeroingKind = Literal["none", "fixed", "adaptive"]
"""Zeroing of updates above a norm; an adaptive norm follows the updates, without noise."""

Divisor = Literal["expected_cohort", "actual_cohort"]
"""Whether a sum is divided by the expected or the actual number of participants."""

Correlation: TypeAlias = Toeplitz | Trees
"""A matrix that correlates noise over rounds, or trees with noise on their nodes."""


@dataclass(frozen=True)
class Party:
    """A real client or an included canary.

    Attributes:
      sampling: How the party's rounds are drawn.
      squared_sensitivity: Under correlated noise, the squared distance, in clip norms, by which the
        party moves what has independent noise: the nodes of all trees, or the strategy matrix times
        the rounds' sums. If each participant adds all of the noise, the sum over the party's rounds
        of one over the number of participants. None if unknown, or for other noise.
    """

    sampling: Sampling
    squared_sensitivity: float | None = None

    @property
    def participations(self) -> int | None:
        """The largest number of the party's rounds; None if rounds are secret or unknown."""
        return self.sampling.most


@dataclass(frozen=True)
class Grid:
    """The grid of integers to which clients round their updates.

    Attributes:
      cells: A lower bound on the clip norm, in grid steps.
      norm_inflation: The largest relative increase of an update's norm by rounding.
    """

    cells: float
    norm_inflation: float


@dataclass(frozen=True)
class Noise:
    """The noise of one round.

    Attributes:
      distribution: The registered name of the noise distribution.
      noise_multiplier: The effective noise multiplier of everything that the round releases: under
        tree aggregation, of one node; under a matrix, of the independent noise before it is
        correlated.
      sum_noise_multiplier: The standard deviation, in clip norms, of the noise on the sum of
        clipped updates; under tree aggregation, of the noise on one node; if every participant adds
        all of the noise, of the noise on one upload.
      count_noise_stddev: The standard deviation, in clients, of the noise on the number of
        unclipped updates, which moves an adaptive clip norm; 0 if this number is not released.
      grid: The grid of sums of integers; None if sums are of real numbers, or if the grid depends
        on an adaptive clip norm.
    """

    distribution: str
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float = 0.0
    grid: Grid | None = None


@dataclass(frozen=True)
class Denominator:
    """The divisor of a round's noised sum.

    Attributes:
      divisor: The expected or the actual number of participants.
      expected: The expected number of clients and canaries in a round.
    """

    divisor: Divisor
    expected: float


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a run released.

    Attributes:
      rounds: The number of rounds of training.
      noise: The noise of each round.
      denominator: The divisor of sums.
      client: A real client.
      canary: An included canary.
      zeroing: The kind of zeroing of updates before they are clipped.
      correlation: The matrix or trees that correlate noise over rounds; None for independent noise.
      fewest: The smallest number of participants of any round if participants add the noise; None
        if the server adds the noise.

    Raises:
      ValueError: A number is out of range, or `noise_multiplier` does not follow from the noise on
        sum and count.
    """

    rounds: int
    noise: Noise
    denominator: Denominator
    client: Party
    canary: Party
    zeroing: ZeroingKind = "none"
    correlation: Correlation | None = None
    fewest: int | None = None

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        noise = self.noise
        parts = effective_noise_multiplier(noise.sum_noise_multiplier, noise.count_noise_stddev)
        if not math.isclose(parts, noise.noise_multiplier, rel_tol=1e-6):
            raise ValueError(
                f"noise_multiplier must be {parts:.6g}, the effective multiplier of both noises "
                f"(sum_noise_multiplier {noise.sum_noise_multiplier:.6g}, count_noise_stddev "
                f"{noise.count_noise_stddev:.6g}), got {noise.noise_multiplier:.6g}"
            )

    def with_noise(self, noise: Noise) -> "Release":
        return dataclasses.replace(self, noise=noise)


def effective_noise_multiplier(sum_noise_multiplier: float, count_noise_stddev: float) -> float:
    """The noise multiplier of a round that releases a noised sum and a noised count.

    z^-2 = z_sum^-2 + (2 s)^-2, because the count has sensitivity 1/2 (Andrew et al. 2021,
    arXiv:1905.03871, theorem 1).

    Args:
      sum_noise_multiplier: The noise multiplier z_sum: the noise on the sum, in clip norms.
      count_noise_stddev: The standard deviation s of the noise on the count, in clients; 0 if no
        count is released.

    Raises:
      ValueError: Either number is negative or not finite.

    >>> round(effective_noise_multiplier(1.0, 0.5), 6)  # both as noisy as z = 1
    0.707107
    """
    for name, value in (("sum", sum_noise_multiplier), ("count", count_noise_stddev)):
        if not 0 <= value < math.inf:
            raise ValueError(f"noise on the {name} must be finite and at least 0, got {value}")
    if count_noise_stddev == 0 or sum_noise_multiplier == 0:
        return sum_noise_multiplier
    return 1 / math.hypot(1 / sum_noise_multiplier, 1 / (2 * count_noise_stddev))
