"""What a run released: one frozen description, made once and read by all, that computes nothing.

A schedule and a mechanism make a `Release`. Accountants, the bounds on attackers, the verdict,
plans and reports read it. It says

- how many rounds there are, and what noise each of them adds;
- who could participate in which round, and how that was drawn: a `Sampling` for the real clients
  and one for the canaries;
- what the noised sum is divided by, and whether updates are zeroed before they are clipped.

Lengths are in clip norms throughout. So the clip norm itself, which may move from round to round,
is no part of it: what is released is as private at any clip norm.

The description and the arithmetic are apart, as in dp-accounting, whose `DpEvent`s are composed by
accountants that know them:

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

A new way to draw rounds is a subclass of `sampling.Sampling` beside its pattern, and an accountant
for it (`sampling_accountants.register_accountant`). Noise that is correlated over rounds is a distribution
of its own (`noise_distributions.NoiseDistribution`): a release says by what trees or matrix it is correlated, and
what the rounds of a party amount to under it is its `squared_sensitivity`.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fl_audit.accounting.sampling import Sampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees

ZeroingKind = Literal["none", "fixed", "adaptive"]
"""Whether updates are zeroed above a norm, and whether it adapts, without noise, to updates."""

Divisor = Literal["expected_cohort", "actual_cohort"]
"""Whether a sum is divided by the expected number of participants, or by that of those who came."""

Correlation: TypeAlias = Trees | Toeplitz
"""What correlates noise over rounds: trees with noise on their nodes, or a matrix."""


@dataclass(frozen=True)
class Party:
    """A real client or an included canary.

    Attributes:
      sampling: The rounds that it may be in, and how they are drawn.
      squared_sensitivity: The squared distance, in clip norms, by which its rounds move everything
        that the independent noise behind correlated noise is added to, such as the nodes of all
        trees, or a strategy times the rounds; None where its rounds are random, and under noise
        that every round draws anew. Where participants add the noise it is the sum over its rounds
        of one over the number of participants.
    """

    sampling: Sampling
    squared_sensitivity: float | None = None

    @property
    def participations(self) -> int | None:
        """The largest number of rounds that it participates in; None if only chance bounds it."""
        return self.sampling.most


@dataclass(frozen=True)
class Grid:
    """The grid of integers to which clients round their updates before these are summed.

    Attributes:
      cells: The clip norm in steps of the grid, or less.
      norm_inflation: The share by which rounding lengthens an update at most.
    """

    cells: float
    norm_inflation: float


@dataclass(frozen=True)
class Noise:
    """The noise of one round.

    Attributes:
      distribution: The name of the noise distribution, one that is registered with accounting.
      noise_multiplier: The effective noise multiplier, which counts everything that the round
        releases; of one node under tree aggregation, and of the independent noise that a matrix
        correlates.
      sum_noise_multiplier: The standard deviation of the noise on the sum of clipped updates, as a
        multiple of the clip norm; under tree aggregation, of the noise on each node; where every
        participant adds all of it, of the noise on an upload.
      count_noise_stddev: The standard deviation of the noise on the number of unclipped updates,
        which moves an adaptive clip norm, in clients; 0 where no number is released.
      grid: The grid of sums of integers; None where sums are of real numbers, and where the grid is
        not known because it follows a clip norm that moves.
    """

    distribution: str
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float = 0.0
    grid: Grid | None = None


@dataclass(frozen=True)
class Denominator:
    """What the noised sum of a round is divided by.

    Attributes:
      divisor: Whether that is the expected or the actual number of participants.
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
      denominator: What sums are divided by.
      client: A real client.
      canary: An included canary.
      zeroing: The kind of zeroing of updates before they are clipped.
      correlation: What correlates the noise over rounds; None where every round draws its own.
      fewest: The smallest number of participants of any round, where each of them adds noise; None
        where the server adds it.

    Raises:
      ValueError: A number is out of range, or the effective noise multiplier is not that of its
        parts.
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
        """Checks the fields, so that no accountant has to."""
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        noise = self.noise
        parts = effective_noise_multiplier(noise.sum_noise_multiplier, noise.count_noise_stddev)
        if not math.isclose(parts, noise.noise_multiplier, rel_tol=1e-6):
            raise ValueError(
                f"noise_multiplier must be {parts:.6g}, the effective one of its parts "
                f"(sum_noise_multiplier {noise.sum_noise_multiplier:.6g}, count_noise_stddev "
                f"{noise.count_noise_stddev:.6g}), got {noise.noise_multiplier:.6g}"
            )

    def with_noise(self, noise: Noise) -> "Release":
        """The release with other noise."""
        return dataclasses.replace(self, noise=noise)


def effective_noise_multiplier(sum_noise_multiplier: float, count_noise_stddev: float) -> float:
    """The noise multiplier of a round that releases a noised sum and a noised count.

    z^-2 = z_sum^-2 + (2 s)^-2, because the count has sensitivity 1/2 (Andrew et al. 2021,
    arXiv:1905.03871, theorem 1).

    Args:
      sum_noise_multiplier: The noise multiplier z_sum: the noise on the sum over the clip norm.
      count_noise_stddev: The standard deviation s of the noise on the count in clients; 0 where no
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
