"""The definition of a mechanism: its config table and the functions that implement it."""

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import msgspec

from fl_audit.accounting.noise_distributions import NoiseDistribution, noise_distribution_named
from fl_audit.accounting.release import Correlation, Divisor, Noise
from fl_audit.config_tables.kinds import NonNegativeFloat, PositiveFloat, Table
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.zeroing import Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class Mechanism:
    """The base class of mechanisms' config tables, which also inherit from `Table`.

    Attributes:
      zeroing: The zeroing of updates before the mechanism; None for no zeroing.
      epsilon: A target epsilon from which noise has yet to be calculated; None otherwise.
    """

    zeroing: Zeroing | None = None
    epsilon: float | None = None


MechanismTable = TypeVar("MechanismTable")


@dataclass(frozen=True)
class ClipAndNoise:
    """The clip norm and the noise of one round.

    Attributes:
      clip_norm: The norm to which updates are clipped; infinite without clipping.
      stddev: The standard deviation of the noise on each coordinate of the sum of updates; under
        tree aggregation, of the noise of one node; with a matrix, of the independent noise before
        it is correlated; if each participant adds all of the noise, of the noise on one upload.
    """

    clip_norm: float
    stddev: float


@dataclass(frozen=True)
class NoiseStream:
    """Computes the noise of a round from fresh noise and kept vectors.

    The noise is the fresh noise times `fresh`, plus the kept vectors, initially zero, times
    `weights`. Then the kept vectors are updated: with `decays`, each is multiplied by its decay and
    the noise is added; without, the kept vectors are the noise (with `keeps_fresh`, the fresh
    noise) of the most recent rounds, newest first.
    """

    fresh: float
    weights: tuple[float, ...]
    decays: tuple[float, ...] | None = None
    keeps_fresh: bool = False

    @classmethod
    def from_column(cls, first_column: tuple[float, ...]) -> "NoiseStream":
        """The stream of a Toeplitz strategy with this first column, whose first entry is not 0."""
        first, *below = first_column
        return cls(1 / first, tuple(-entry / first for entry in below))


def by_multiplier(distribution: NoiseDistribution) -> Callable[[Any, float], Noise]:
    """The `round_noise` of mechanisms that release a sum but no count, by a table's multiplier."""
    return lambda table, cohort: distribution.noise(table.multiplier, table.multiplier)


def fresh_in_each_round(table: object, num_rounds: int) -> None:
    """A `correlation` for noise that is independent between rounds: None."""


def fixed_clip_and_noise(table: Any, state: object) -> ClipAndNoise:
    return ClipAndNoise(table.clip_norm, table.multiplier * table.clip_norm)


def fixed_clip_words(table: Any) -> str:
    return f"Updates are clipped to norm {table.clip_norm:g}"


@dataclass(frozen=True, kw_only=True)
class MechanismKind(Generic[MechanismTable]):
    """The definition of one mechanism.

    Zeroing precedes every mechanism, so the functions below leave it out.

    Attributes:
      table: The class of the config table.
      make_aggregator: TFF's aggregation, for a table, the expected number of participants and the
        number of rounds; imports TFF when called.
      clip_and_noise: The clip norm and noise of a round, for a table and the aggregator's state
        before the round; by default for a fixed clip norm.
      noise_distribution: The registered distribution of the noise.
      round_noise: The noise of a round, for a table and the expected number of participants; may
        raise `InputError` for numbers that do not fit together.
      divides_by: Whether the sum is divided by the expected number of participants, which reveals
        nothing, or by the actual number.
      correlation: The trees or the matrix that correlate noise over rounds, for a table and a
        number of rounds; None if noise is independent between rounds.
      why_not_checked: Why mechanism checks (`fl_audit.checks`) do not apply, in words; None if they
        apply. The checks assume that a round's aggregate is a sum of updates of at most the clip
        norm, with Gaussian noise on each coordinate (independent, or as `correlation` says),
        divided by the expected number of participants.
      why_not_replayed: Why a round cannot be repeated with the same seed, in words; None if it can
        be repeated.
      noise_words: A clause on the noise, which continues `clip_words`; for a table and the record
        of a run that has noise.
      clip_words: A main clause on clipping, for a table, without a full stop.
      canary_norm: The norm of a canary's update, for a table; None if updates are clipped, as a
        canary's norm then exceeds the clip norm (`canary_length`).
      noise_stream: How noise correlated by a matrix is computed from a few kept vectors, for a
        table and a number of rounds; None without a matrix, or if its first column says it.
      adaptive_clip: The update rule of the clip norm, for a table, the noise of a round and the
        divisor of sums; None, or a function that returns None, if the clip norm is fixed. Where
        mechanism checks apply, the check of clip norms uses this rule.

    Raises:
      ValueError: The noise distribution is not the one registered under its name.
    """

    table: type[MechanismTable]
    make_aggregator: Callable[
        [MechanismTable, float, int], "tff.aggregators.UnweightedAggregationFactory"
    ]
    noise_distribution: NoiseDistribution
    round_noise: Callable[[MechanismTable, float], Noise]
    divides_by: Divisor
    correlation: Callable[[MechanismTable, int], Correlation | None]
    noise_words: Callable[[MechanismTable, RunRecord], str]
    clip_and_noise: Callable[[MechanismTable, Any], ClipAndNoise] = fixed_clip_and_noise
    canary_norm: Callable[[MechanismTable], float | None] = lambda table: None
    why_not_checked: str | None = None
    why_not_replayed: str | None = None
    clip_words: Callable[[MechanismTable], str] = fixed_clip_words
    noise_stream: Callable[[MechanismTable, int], NoiseStream | None] = lambda table, rounds: None
    adaptive_clip: Callable[[MechanismTable, Noise, float], AdaptiveClip | None] | None = None

    def __post_init__(self) -> None:
        """Looks up the distribution by name, as the report of a finished run does."""
        known = self.noise_distribution.name
        if noise_distribution_named(known) is not self.noise_distribution:
            raise ValueError(f"another noise distribution is registered as {known!r}")


WITH_FIXED_CLIP = dict.fromkeys(
    ("target_quantile", "clip_learning_rate", "clipped_count_stddev"),
    "belongs to an adaptive clip norm; correlated noise cancels between rounds only at a fixed "
    "clip norm; set clip_norm, or take 'gaussian_adaptive'",
)
"""The keys that mechanisms with correlated noise refuse, each with the reason."""


# Keys of all mechanisms with noise.


class NoisyMechanism(Table, Mechanism, frozen=True, kw_only=True):
    """A mechanism with a noise multiplier, or with a target epsilon that determines it.

    Attributes:
      noise_multiplier: Noise multiplier; 0 means no noise.
      epsilon: Target upper bound on a client's epsilon, instead of `noise_multiplier`.
    """

    noise_multiplier: NonNegativeFloat | None = None
    epsilon: PositiveFloat | None = None

    def __post_init__(self) -> None:
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError("noise_multiplier and epsilon both determine the noise; leave one out")
        if self.noise_multiplier is None and self.epsilon is None:
            raise ValueError("noise_multiplier (or epsilon) is missing")

    @property
    def multiplier(self) -> float:
        """The noise multiplier."""
        if self.noise_multiplier is None:
            raise ValueError("the noise multiplier has not been calculated yet")
        return self.noise_multiplier

    def with_multiplier(self, multiplier: float) -> Self:
        """This mechanism with a noise multiplier instead of a target epsilon."""
        return msgspec.structs.replace(self, noise_multiplier=multiplier, epsilon=None)
