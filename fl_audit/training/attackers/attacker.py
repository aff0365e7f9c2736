"""What every attacker does while a run trains."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Weights = Sequence[npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class SeenRound:
    """What there is to see of one round; an attacker looks at what its threat model allows.

    Attributes:
      index: of the round, from 0.
      before: the model's weights when the round began.
      aggregate: the round's noised aggregate, float32 of shape (dim,), as the model moves.
      after: the model's weights when it ended.
      clip_norm: that its updates were clipped to; infinite where nothing clips.
    """

    index: int
    before: Weights
    aggregate: npt.NDArray[np.float32]
    after: Weights
    clip_norm: float


class Attacker(abc.ABC):
    """Scores canaries by what it sees; its scores are the larger, the more like a member."""

    @abc.abstractmethod
    def see_round(self, seen: SeenRound) -> None:
        """Looks at a round; after a crash it is shown the rounds since the last checkpoint anew."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what it remembers to the disk; called right before each checkpoint is saved.

        A crash in between leaves the checkpoint before: what that one needs has to stay.
        """

    @abc.abstractmethod
    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Scores by statistic, each of shape (num_canaries,), after the last round.

        Args:
          final: the trained model's weights.
        """
