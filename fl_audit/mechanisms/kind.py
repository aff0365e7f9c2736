"""The record of what the project knows of one mechanism."""

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
    """The base of the tables of mechanisms, beside `Table`.

    Attributes:
      zeroing: The zeroing of updates before the mechanism sees them; None for no zeroing, also in a
        table without such a key.
      epsilon: The epsilon that the noise is still to be found for; None where it is known.
    """

    zeroing: Zeroing | None = None
    epsilon: float | None = None


MechanismTable = TypeVar("MechanismTable")


@dataclass(frozen=True)
class ClipAndNoise:
    """The clip norm and the noise of one round.

    Attributes:
      clip_norm: The norm that this round's updates are clipped to; infinite without clipping.
      stddev: The standard deviation of the noise on each coordinate of the sum of updates; under
        tree aggregation, of a node; of the independent noise that a matrix correlates.
    """

    clip_norm: float
    stddev: float


@dataclass(frozen=True, kw_only=True)
class MechanismKind(Generic[MechanismTable]):
    """The record of all that the project knows of one mechanism.

    Zeroing comes before every mechanism, so that these functions do not deal with it.

    Attributes:
      table: The config table.
      round_noise: The noise of a round, for a table and the expected number of participants. The
        function may raise an `InputError` for numbers that do not fit together.
      make_aggregator: TFF's aggregation, for a table, the expected number of participants and the
        number of rounds; the function imports TFF when it is called.
      clip_and_noise: The clip norm and noise of a round, for a table and the state of the
        aggregator's process when the round begins.
      canary_norm: The length that the table fixes for a canary's update; None where updates are
        clipped, so that a canary is made long enough to be clipped.
      noise_distribution: The distribution of the noise, as it is registered with accounting; it makes the `Noise` of
        a round.
      divides_by: Whether the sum is divided by the expected number of participants, which reveals
        nothing, or by that of those who came.
      correlation: The trees or the matrix that correlate noise over rounds, for a table and a
        number of rounds; None where every round draws its own noise.
      why_not_checked: The reason, in words, for which the checks of aggregates do not know this
        mechanism; None where they do: each round's aggregate is then a sum of updates no longer
        than the clip norm, with Gaussian noise on each coordinate, fresh or as `correlation` says,
        over the expected number of participants.
      why_not_replayed: The reason, in words, for which a round cannot be repeated with one seed;
        None where it can.
      clip_words: A main clause on clipping, for people, without a full stop.
      noise_words: The continuation of that clause on the noise of a run that has any.
      noise_stream: How noise that a matrix correlates is made of few vectors, for a table and a
        number of rounds; None where there is no matrix.
      adaptive_clip: How the clip norm moves, for a table, the noise of a round and what sums are
        divided by; None where it is fixed, or moves by another rule.

    Raises:
      ValueError: The noise distribution is not registered.
    """

    table: type[MechanismTable]
    round_noise: Callable[[MechanismTable, float], Noise]
    make_aggregator: Callable[
        [MechanismTable, float, int], "tff.aggregators.UnweightedAggregationFactory"
    ]
    clip_and_noise: Callable[[MechanismTable, Any], ClipAndNoise]
    canary_norm: Callable[[MechanismTable], float | None]
    noise_distribution: NoiseDistribution
    divides_by: Divisor
    correlation: Callable[[MechanismTable, int], Correlation | None]
    why_not_checked: str | None
    why_not_replayed: str | None
    clip_words: Callable[[MechanismTable], str]
    noise_words: Callable[[MechanismTable, RunRecord], str]
    noise_stream: Callable[[MechanismTable, int], NoiseStream] | None = None
    adaptive_clip: Callable[[MechanismTable, Noise, float], AdaptiveClip] | None = None

    def __post_init__(self) -> None:
        """Looks the distribution up by its name, as the report of a finished run will."""
        if noise_distribution_named(self.noise_distribution.name) is not self.noise_distribution:
            raise ValueError(
                f"another noise distribution {self.noise_distribution.name!r} is registered"
            )


def made_to_be_clipped(table: object) -> None:
    """The `canary_norm` of a mechanism that clips, which fixes no length."""


def fresh_in_each_round(table: object, num_rounds: int) -> None:
    """Returns None, the `correlation` of a mechanism whose rounds draw independent noise."""


# The keys that mechanisms with noise share: how much, or the epsilon that it is to guarantee.


class NoisyMechanism(Table, Mechanism, frozen=True, kw_only=True):
    """A mechanism whose noise is stated, or solved for once the clients are known.

    Attributes:
      noise_multiplier: Noise multiplier; 0 means no noise.
      epsilon: Target upper bound for a client, in place of `noise_multiplier`.
    """

    noise_multiplier: NonNegativeFloat | None = None
    epsilon: PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Checks that the noise is said once."""
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError("noise_multiplier and epsilon both say the noise; leave one out")
        if self.noise_multiplier is None and self.epsilon is None:
            raise ValueError("noise_multiplier (or epsilon) is missing")

    @property
    def multiplier(self) -> float:
        """The noise multiplier.

        Raises:
          ValueError: It is still to be found for an epsilon, by `config.design`.
        """
        if self.noise_multiplier is None:
            raise ValueError("the noise multiplier is not found yet")
        return self.noise_multiplier

    def with_multiplier(self, multiplier: float) -> Self:
        """This mechanism with another noise multiplier, and no epsilon to be found for."""
        return msgspec.structs.replace(self, noise_multiplier=multiplier, epsilon=None)
