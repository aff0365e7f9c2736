"""What defines a mechanism: its config table and the functions that implement it."""

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import msgspec

from fl_audit.accounting.noise_distributions import NoiseDistribution, noise_distribution_named
from fl_audit.accounting.release import Correlation, Divisor, Noise
from fl_audit.config_tables.table import NonNegativeFloat, PositiveFloat, Table
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.noise_stream import NoiseStream
from fl_audit.mechanisms.zeroing import Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class Mechanism:
    """The base of the tables of mechanisms, with `Table`.

    Attributes:
      zeroing: The zeroing of updates before the mechanism; None for none.
      epsilon: A target epsilon for which noise has still to be found; None otherwise.
    """

    zeroing: Zeroing | None = None
    epsilon: float | None = None


MechanismTable = TypeVar("MechanismTable")


@dataclass(frozen=True)
class ClipAndNoise:
    """The clip norm and the noise of one round.

    Attributes:
      clip_norm: The norm that updates are clipped to; infinite without clipping.
      stddev: The standard deviation of the noise on each coordinate of the sum of updates; of a
        node under tree aggregation, and of the independent noise that a matrix correlates.
    """

    clip_norm: float
    stddev: float


def _clip_words(table: Any) -> str:
    return f"Updates are clipped to norm {table.clip_norm:g}"


def _made_to_be_clipped(table: object) -> None:
    """Returns None: a mechanism that clips accepts canaries of any norm."""


def by_multiplier(distribution: NoiseDistribution) -> Callable[[Any, float], Noise]:
    """The noise of a round that has the table's multiplier, all of it on the sum."""
    return lambda table, cohort: distribution.noise(table.multiplier, table.multiplier)


def fresh_in_each_round(table: object, num_rounds: int) -> None:
    """Returns None: noise is independent between rounds."""


@dataclass(frozen=True, kw_only=True)
class MechanismKind(Generic[MechanismTable]):
    """The definition of one mechanism.

    Zeroing comes before every mechanism, so that these functions do not deal with it.

    Attributes:
      table: The config table.
      make_aggregator: TFF's aggregation, for a table, the expected number of participants and the
        number of rounds; imports TFF when called.
      clip_and_noise: The clip norm and noise of a round, for a table and the state of the
        aggregator's process when the round begins.
      noise_distribution: The registered distribution of the noise.
      round_noise: The noise of a round, for a table and the expected number of participants; may
        raise `InputError` for numbers that do not fit together.
      divides_by: Whether the sum is divided by the expected number of participants, which reveals
        nothing, or by the actual one.
      correlation: The trees or the matrix that correlate noise over rounds, for a table and a
        number of rounds; None if noise is independent between rounds.
      why_not_checked: Why mechanism checks do not apply, in words; None if they do: each round's
        aggregate is then a sum of updates of at most the clip norm, with Gaussian noise on each
        coordinate, independent or as `correlation` says, over the expected number of participants.
      why_not_replayed: Why a round cannot be repeated with one seed, in words; None if it can.
      noise_words: The continuation of `clip_words` on the noise of a run that has any.
      clip_words: A main clause on clipping, for people, without a full stop.
      canary_norm: The norm of a canary's update, for a table; None if updates are clipped, so that
        a canary is made long enough to be clipped.
      noise_stream: How correlated noise is computed from few vectors, for a table and a number of
        rounds; None without a matrix.
      adaptive_clip: How the clip norm moves, for a table, the noise of a round and what sums are
        divided by; None, or a function that returns None, if it is fixed. The check of clip norms
        reads counts off it where mechanism checks apply.

    Raises:
      ValueError: The noise distribution is not registered.
    """

    table: type[MechanismTable]
    make_aggregator: Callable[
        [MechanismTable, float, int], "tff.aggregators.UnweightedAggregationFactory"
    ]
    clip_and_noise: Callable[[MechanismTable, Any], ClipAndNoise]
    noise_distribution: NoiseDistribution
    round_noise: Callable[[MechanismTable, float], Noise]
    divides_by: Divisor
    correlation: Callable[[MechanismTable, int], Correlation | None]
    noise_words: Callable[[MechanismTable, RunRecord], str]
    clip_words: Callable[[MechanismTable], str] = _clip_words
    canary_norm: Callable[[MechanismTable], float | None] = _made_to_be_clipped
    why_not_checked: str | None = None
    why_not_replayed: str | None = None
    noise_stream: Callable[[MechanismTable, int], NoiseStream] | None = None
    adaptive_clip: Callable[[MechanismTable, Noise, float], AdaptiveClip | None] | None = None

    def __post_init__(self) -> None:
        """Looks up the distribution by name, as a report of a finished run does."""
        known = self.noise_distribution.name
        if noise_distribution_named(known) is not self.noise_distribution:
            raise ValueError(f"another noise distribution {known!r} is registered")


WITH_FIXED_CLIP = dict.fromkeys(
    ("target_quantile", "clip_learning_rate", "clipped_count_stddev"),
    "is of a clip norm that moves; noise that later rounds cancel is in units of one clip norm, "
    "and would stay if it moved; set a fixed clip_norm, or take 'gaussian_adaptive'",
)
"""The keys of an adaptive clip norm, which mechanisms with correlated noise refuse."""


# Keys of all mechanisms with noise.


class NoisyMechanism(Table, Mechanism, frozen=True, kw_only=True):
    """A mechanism with a noise multiplier, or with a target epsilon that determines it.

    Attributes:
      noise_multiplier: Noise multiplier; 0 means no noise.
      epsilon: Target upper bound for a client, in place of `noise_multiplier`.
    """

    noise_multiplier: NonNegativeFloat | None = None
    epsilon: PositiveFloat | None = None

    def __post_init__(self) -> None:
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError("noise_multiplier and epsilon both say the noise; leave one out")
        if self.noise_multiplier is None and self.epsilon is None:
            raise ValueError("noise_multiplier (or epsilon) is missing")

    @property
    def multiplier(self) -> float:
        """The noise multiplier.

        Raises:
          ValueError: `config.design` has not yet solved for it.
        """
        if self.noise_multiplier is None:
            raise ValueError("the noise multiplier is not found yet")
        return self.noise_multiplier

    def with_multiplier(self, multiplier: float) -> Self:
        """This mechanism with a noise multiplier in place of a target epsilon."""
        return msgspec.structs.replace(self, noise_multiplier=multiplier, epsilon=None)
