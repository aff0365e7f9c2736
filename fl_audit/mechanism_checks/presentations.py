"""Canaries in rounds: how an aggregate looks along a canary, and what was promised of it."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


@dataclass(frozen=True)
class Arrival:
    """What became of the included canaries.

    Attributes:
      state: Whether they arrived in the aggregates as the mechanism promises, did not, or neither
        can be told.
      ratio: The share of the promised length at which they arrived, 1 where the promise is kept;
        None where nothing is known of the promise.
      reason: The reason for the state, as a clause.
      lacks: What would have to be known to tell that no part of them is lost, in words; None where
        that is told, or cannot be.
      fault: A significant shortfall or excess with its likely causes, as a clause; None where there
        is none. A verdict names it in its first line.
      signal: The share of a client's full signal that scored included canaries show on average, at
        the lower end of its one-sided 99.9 % confidence interval; None where it is not known. A
        verdict's power is simulated with it.
      num_scored: The number of included canaries of which a round was scored in which they took
        part; None where rounds are not known.
      num_included: The number of included canaries; None where rounds are not known.
    """

    state: Literal["arrived", "not_arrived", "cannot_tell"]
    ratio: float | None
    reason: str
    lacks: str | None = None
    fault: str | None = None
    signal: float | None = None
    num_scored: int | None = None
    num_included: int | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object of report.json."""
        return {"state": self.state, "ratio": self.ratio, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Presentations:
    """Canaries in rounds of theirs, an entry for each canary and round.

    An aggregate to which a canary adds `length` along its unit vector has, along that vector, a
    standardised cosine z = sqrt(dim) cos with mean m = sqrt(dim) length / |aggregate| and variance
    about 1, as long as the rest of the aggregate is independent of the canary.

    Attributes:
      scores: The standardised cosines z, float64 of shape (n,).
      promised: The means m that they have if canaries arrive as promised, float64 of shape (n,);
        NaN where the promise is not known.
      crowding: The share of canaries in the squared length of their round's aggregate, in [0, 1],
        float64 of shape (n,); it adds to the variance of a sum of scores.
      is_first: Whether the round is the canary's first, before which the model cannot depend on it,
        bool of shape (n,).
    """

    scores: FloatArray
    promised: FloatArray
    crowding: FloatArray
    is_first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """The number of presentations, n."""
        return len(self.scores)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Presentations":
        """Some of the presentations."""
        return Presentations(
            self.scores[mask], self.promised[mask], self.crowding[mask], self.is_first[mask]
        )

    @property
    def first(self) -> "Presentations":
        """The presentations in canaries' first rounds."""
        return self.where(self.is_first)

    @property
    def with_promise(self) -> "Presentations":
        """The presentations whose promise is known."""
        return self.where(np.isfinite(self.promised))


def presentations(
    *,
    cosines: FloatArray,
    aggregate_lengths: FloatArray,
    canary_lengths: FloatArray,
    num_canaries: FloatArray,
    is_first: npt.NDArray[np.bool_],
    dim: int,
) -> Presentations:
    """The presentations of some canaries in some rounds.

    Args:
      cosines: The cosine of the canary with the round's aggregate, float64 of shape (n,).
      aggregate_lengths: The length of that aggregate, float64 of shape (n,); NaN where not known.
      canary_lengths: The length that the mechanism promises of a canary in it, which is clip norm
        over denominator, float64 of shape (n,); NaN where not known.
      num_canaries: The number of included canaries in the round, float64 of shape (n,).
      is_first: Whether the round is the canary's first, bool of shape (n,).
      dim: The length of the vectors.
    """
    lengths = np.where(np.isfinite(canary_lengths), canary_lengths, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(aggregate_lengths == 0, 1.0, lengths / aggregate_lengths)
    crowding = np.minimum(num_canaries * share**2, 1.0)
    return Presentations(
        scores=math.sqrt(dim) * np.asarray(cosines, np.float64),
        promised=math.sqrt(dim) * share,
        crowding=np.where(np.isfinite(crowding), crowding, 1.0),
        is_first=is_first,
    )


@dataclass(frozen=True)
class Coefficient:
    """The regression of z on m through the origin: the share of the promise that arrives.

    Attributes:
      ratio: The least-squares coefficient, sum of z m over sum of m^2.
      standard_error: Its standard error, from the known variance of z.
      count: The number of presentations.
    """

    ratio: float
    standard_error: float
    count: int

    def differs_by(self, expected: float, margin: float, errors: float) -> bool:
        """Whether it is farther from a value than a margin and some standard errors together."""
        return abs(self.ratio - expected) > margin + errors * self.standard_error

    def is_within(self, expected: float, margin: float, errors: float) -> bool:
        """Whether it is nearer to a value than a margin, by some standard errors."""
        return abs(self.ratio - expected) + errors * self.standard_error <= margin


def coefficient(shown: Presentations) -> Coefficient | None:
    """The share of the promise that arrives; None where nothing is promised.

    Args:
      shown: The presentations, whose promises are known.
    """
    squares = float(np.sum(shown.promised**2))
    if squares == 0:
        return None
    variance = float(np.sum(shown.promised**2 * (1 + shown.crowding)))
    return Coefficient(
        ratio=float(np.sum(shown.scores * shown.promised)) / squares,
        standard_error=math.sqrt(variance) / squares,
        count=len(shown),
    )
