"""An audit of a Flower server: wrap its outermost strategy, and let canary clients answer.

Neither TensorFlow nor, before a strategy is wrapped, Flower is imported. It is for strategies of
`flwr.serverapp.strategy`; examples/flower has a whole system.
"""

from collections.abc import Callable, Iterable
from typing import Any

from fl_audit.array_types import Float32Array
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool


class ScoredStrategy:
    """A strategy around another one, which scores each round's aggregate as the round ends.

    It goes outermost, around Flower's DP wrapper, so that what it scores has the noise in it. All
    else it leaves to the strategy inside. Where `start` ends, the score files are written.
    """

    def __init__(
        self,
        strategy: Any,
        scorer: RoundScorer,
        canary_length: Callable[[int], float] | None = None,
    ) -> None:
        """Wraps a strategy.

        Args:
          strategy: The outermost strategy of the server, a `flwr.serverapp.strategy.Strategy`.
          scorer: The scorer of its rounds.
          canary_length: The length at which the mechanism promises a canary in the movement of the
            model, as a function of the number of replies without error; for a mean of clipped
            updates `lambda replies: clip_norm / replies`. With it, and with the `canary_rounds` of
            the scorer, it is measured whether canaries arrive, without which no verdict is
            consistent (docs/arrival.md).
        """
        self.strategy = strategy
        self.scorer = scorer
        self._canary_length = canary_length
        self._before: Any = None

    def __getattr__(self, name: str) -> Any:
        """Whatever is not scored is the wrapped strategy's."""
        return getattr(self.strategy, name)

    def start(self, grid: Any, initial_arrays: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the wrapped strategy's rounds, then writes the scores; takes what it takes."""
        result = type(self.strategy).start(self, grid, initial_arrays, *args, **kwargs)
        final = result.arrays if len(result.arrays) else initial_arrays
        self.scorer.finish(
            initial=[initial_arrays[key].numpy() for key in initial_arrays],
            final=[final[key].numpy() for key in initial_arrays],
        )
        return result

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Remembers the model that the round starts from."""
        self._before = arrays
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Scores how the model moves in the round, unless the round has no aggregate."""
        answers = list(replies)
        after, metrics = self.strategy.aggregate_train(server_round, answers)
        if after is not None:
            moved = [after[key].numpy() - old.numpy() for key, old in self._before.items()]
            length = self._promised(answers)
            self.scorer.score_round(server_round, moved, canary_length=length)
        return after, metrics

    def _promised(self, replies: list[Any]) -> float | None:
        if self._canary_length is None:
            return None
        return self._canary_length(sum(not reply.has_error() for reply in replies))


def canary_arrays(
    weights: list[Float32Array], pool: CanaryPool, canary: int, norm: float
) -> list[Float32Array]:
    """The answer of a canary client: the round's model, moved along the canary's vector.

    Args:
      weights: The arrays of the round's model.
      pool: The canaries, the same as the server's.
      canary: The number of the canary, which is to be an included one.
      norm: How far the model moves; under a clip, far above the clip norm.
    """
    moved = unflatten(norm * pool.vector(canary), weights)
    return [old + part for old, part in zip(weights, moved, strict=True)]
