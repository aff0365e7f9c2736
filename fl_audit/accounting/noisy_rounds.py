"""The facts of a run that accounting needs."""

import math
from dataclasses import dataclass, fields

from fl_audit.formats.folders import Blocks, RunRecord, ZeroingKind


@dataclass(frozen=True)
class Party:
    """A real client or an included canary, as accounting sees it.

    Attributes:
      participations: The largest number of rounds that it takes part in; None if they are random.
      squared_sensitivity: Under tree aggregation, the squared distance by which it moves the nodes
        of all trees together, in clip norms; None where its rounds are random, and under other
        noise.
      blocks: The blocks of rounds, of each of which it is in one, drawn uniformly and independently
        of all else; None where its rounds are drawn otherwise.
    """

    participations: int | None
    squared_sensitivity: int | None
    blocks: Blocks | None = None


@dataclass(frozen=True)
class NoisyRounds:
    """The facts of a run that accounting needs.

    Attributes:
      rounds: The number of rounds of training.
      delta: The delta of the guarantee, in (0, 1).
      noise_multiplier: The effective noise multiplier of one round, everything released counted; of
        one node under tree aggregation.
      sum_noise_multiplier: The standard deviation of the noise on the sum of updates over the clip
        norm; of one node under tree aggregation.
      count_noise_stddev: The standard deviation of the noise on the adaptive clip's count, in
        clients; 0 without a count.
      sampling_probability: The probability of one client in one round under Poisson sampling, which
        holds for everybody whose participations are None; else None.
      client_participations: The largest number of rounds that a real client takes part in; None if
        random.
      canary_participations: The largest number of rounds that an included canary takes part in;
        None if random.
      sample_size: The number that every round draws uniformly without replacement, for everybody
        whose participations are None; else None.
      sampled_from: The number that these are drawn from; None where `sample_size` is.
      noise_law: The name of the law of the noise, one of `accounting.noise_laws`.
      zeroing: The kind of zeroing of updates before they are clipped.
      client_squared_sensitivity: Under tree aggregation, the squared distance by which a real
        client moves the nodes of all trees together, in clip norms; None where its rounds are
        random.
      canary_squared_sensitivity: The same distance for an included canary.
      canary_blocks: The blocks of rounds of each of which a canary is in one, drawn uniformly and
        independently of all else; None where canaries' rounds are drawn otherwise.

    Raises:
      ValueError: A number is out of range, or the effective noise multiplier is not that of its
        parts.
    """

    rounds: int
    delta: float
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float = 0.0
    sampling_probability: float | None = None
    client_participations: int | None = None
    canary_participations: int | None = None
    sample_size: int | None = None
    sampled_from: int | None = None
    noise_law: str = "gaussian"
    zeroing: ZeroingKind = "none"
    client_squared_sensitivity: int | None = None
    canary_squared_sensitivity: int | None = None
    canary_blocks: Blocks | None = None

    def __post_init__(self) -> None:
        """Checks the fields, so that no accountant has to."""
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be in (0, 1), got {self.delta}")
        if self.sampling_probability is not None and not 0 < self.sampling_probability <= 1:
            raise ValueError(
                f"sampling_probability must be in (0, 1], got {self.sampling_probability}"
            )
        if self.sample_size is not None and not 0 < self.sample_size <= (self.sampled_from or 0):
            raise ValueError(
                f"sample_size must be from 1 to sampled_from, which is {self.sampled_from}, got "
                f"{self.sample_size}"
            )
        parts = effective_noise_multiplier(self.sum_noise_multiplier, self.count_noise_stddev)
        if not math.isclose(parts, self.noise_multiplier, rel_tol=1e-6):
            raise ValueError(
                f"noise_multiplier must be {parts:.6g}, the effective one of its parts "
                f"(sum_noise_multiplier {self.sum_noise_multiplier:.6g}, count_noise_stddev "
                f"{self.count_noise_stddev:.6g}), got {self.noise_multiplier:.6g}"
            )

    @classmethod
    def of(cls, record: RunRecord) -> "NoisyRounds":
        """The rounds of a run.

        Raises:
          ValueError: The record's numbers do not fit together.
        """
        return cls(**{field.name: getattr(record, field.name) for field in fields(cls)})

    @property
    def client(self) -> Party:
        """A real client."""
        return Party(self.client_participations, self.client_squared_sensitivity)

    @property
    def canary(self) -> Party:
        """An included canary."""
        return Party(
            self.canary_participations, self.canary_squared_sensitivity, self.canary_blocks
        )


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
