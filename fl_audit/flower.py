"""An audit of a Flower server: wrap its outermost strategy, and let canary clients answer.

Neither TensorFlow nor, before a strategy is wrapped, Flower is imported. It is for strategies of
`flwr.serverapp.strategy`; examples/flower has a whole system.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.framework_adapter import (
    AdapterAudit,
    finish_audit,
    is_floating,
    keep_initial,
    moved_along,
    widened,
)
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError

_FIXED_CLIPPING = (
    "DifferentialPrivacyServerSideFixedClipping",
    "DifferentialPrivacyClientSideFixedClipping",
)
"""Flower's strategies whose noise on every coordinate is known by their attributes."""


class ScoredStrategy:
    """A strategy around another one, which scores each round's aggregate as the round ends.

    It goes outermost, around Flower's DP wrapper, so that what it scores has the noise in it. All
    else it leaves to the strategy inside. Where `start` ends, the score files are written.

    It never ends the training: what it cannot score it logs (logger `fl_audit`), notes in the
    folder, and leaves out. After a restart of the server it goes on with `RoundScorer.open`.
    """

    def __init__(
        self,
        strategy: Any,
        scorer: RoundScorer,
        canary_length: Callable[[int], float] | None = None,
        *,
        model: Sequence[Any] | None = None,
        rounds_before: int = 0,
        noise: Callable[[int], tuple[float, float | None]] | None = None,
    ) -> None:
        """Wraps a strategy.

        Args:
          strategy: The outermost strategy of the server, a `flwr.serverapp.strategy.Strategy`.
          scorer: The scorer of its rounds.
          canary_length: The length that the mechanism allows a client in the movement of the model,
            as a function of the number of replies without error; for a mean of clipped updates
            `lambda replies: clip_norm / replies`, though canaries be shorter. With it, and with the
            `canary_rounds` of the scorer, it is measured whether canaries arrive, without which no
            verdict is consistent (docs/canary_check.md).
          model: The arrays of the model as clients have them, NumPy's, in its order, whose types
            say which are audited (see `canary_arrays`); None takes those of the initial arrays.
          rounds_before: The rounds that were trained before this start, as Flower counts from 1
            again: `max(scorer.scored_rounds, default=0)` where every round was scored.
          noise: The standard deviation of the noise on each coordinate of the model's movement, and
            its largest norm without noise (None where not known), as a function of the number of
            replies without error, for the checks of the mechanism (docs/checks.md); None takes what
            a strategy of Flower's with a fixed clip states.

        Raises:
          InputError: `rounds_before` is no number of rounds for which the scorer has room.
        """
        if not 0 <= rounds_before <= scorer.num_rounds:
            raise InputError(
                f"rounds_before: must be in 0 to {scorer.num_rounds}, got {rounds_before!r}"
            )
        self.strategy = strategy
        self.scorer = scorer
        self._canary_length = canary_length
        self._model = model
        self._rounds_before = rounds_before
        self._noise = noise
        self._audit = AdapterAudit()
        self._before: Any = None

    def __getattr__(self, name: str) -> Any:
        """Whatever is not scored is the wrapped strategy's."""
        return getattr(self.strategy, name)

    def start(self, grid: Any, initial_arrays: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the wrapped strategy's rounds, then writes the scores; takes what it takes."""
        with self._harmless("the initial model"):
            self._keep_initial(initial_arrays)
        result = type(self.strategy).start(self, grid, initial_arrays, *args, **kwargs)
        with self._harmless("the score files"):
            self._finish(result.arrays if len(result.arrays) else initial_arrays)
        return result

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Remembers the model that the round starts from."""
        self._before = arrays
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Scores how the model moves in the round, unless the round has no aggregate."""
        answers = list(replies)
        after, metrics = self.strategy.aggregate_train(server_round, answers)
        number = server_round + self._rounds_before
        if after is not None:
            with self._harmless(f"round {number}"):
                new, old = self._audited(after), self._audited(self._before)
                moved = [after_it - before for after_it, before in zip(new, old, strict=True)]
                length, stated = self._promised(answers), self._stated_noise(answers)
                self.scorer.score_round(number, moved, canary_length=length, **stated)
        return after, metrics

    def _harmless(self, what: str) -> contextlib.AbstractContextManager[None]:
        return self._audit.errors_logged(what, self.scorer.folder.path)

    def _audited(self, record: Any) -> list[Any]:
        """The audited arrays of a record of arrays, in its order."""
        arrays = {name: record[name].numpy() for name in record}
        types = arrays if self._model is None else dict(zip(arrays, self._model, strict=True))
        return [widened(arrays[name]) for name in self._audit.audited_arrays(types)]

    def _keep_initial(self, initial_arrays: Any) -> None:
        """Keeps the model before the first round, which a restart does not know any more."""
        initial = flatten(self._audited(initial_arrays), self.scorer.pool.dim, "initial model")
        if not self._rounds_before and not self.scorer.scored_rounds:
            keep_initial(self.scorer, initial)

    def _finish(self, final_arrays: Any) -> None:
        """Writes the score files; against the initial model too where it was kept."""
        final = flatten(self._audited(final_arrays), self.scorer.pool.dim, "final model")
        finish_audit(self.scorer, final)

    def _promised(self, replies: list[Any]) -> float | None:
        if self._canary_length is None:
            return None
        return self._canary_length(sum(not reply.has_error() for reply in replies))

    def _stated_noise(self, replies: list[Any]) -> dict[str, float | None]:
        """What is known of the round's noise, as `RoundScorer.score_round` takes it."""
        if self._noise is not None:
            stddev, bound = self._noise(sum(not reply.has_error() for reply in replies))
            return {"noise_stddev": stddev, "norm_bound": bound}
        if type(self.strategy).__name__ not in _FIXED_CLIPPING:
            return {}
        clip = self.strategy.clipping_norm
        stddev = self.strategy.noise_multiplier * clip / self.strategy.num_sampled_clients
        # A mean of clipped updates, of whatever weights, is as long as one of them at most; what
        # another strategy inside makes of them may be longer.
        is_mean = type(self.strategy.strategy).__name__ == "FedAvg"
        return {"noise_stddev": stddev, "norm_bound": clip if is_mean else None}


def canary_arrays(
    weights: Sequence[Any],
    pool: CanaryPool,
    canary: int,
    norm: float,
    model: Sequence[Any] | None = None,
) -> list[Any]:
    """The answer of a canary client: the round's model, moved along the canary's vector.

    Arrays of floating-point numbers move, of any size, and keep their type. Others, such as the
    number of batches that a normalisation has seen (int64), stay as they are: the pool's `dim` is
    the number of values in those that move.

    Args:
      weights: The arrays of the round's model.
      pool: The canaries, the same as the server's.
      canary: The number of the canary, which is to be an included one.
      norm: How far the model moves; under a clip, far above the clip norm.
      model: The arrays of the client's own model, whose types say which move; None takes those of
        `weights`. To be given where some are integers: Flower's mean makes floats of them, so that
        from the second round on `weights` does not tell.

    Raises:
      InputError: The pool's `dim` is another number, or a moved number leaves its type's range.
    """
    types = weights if model is None else model
    if len(types) != len(weights):
        raise InputError(f"model: must have {len(weights)} arrays as weights, got {len(types)}")
    arrays = {str(index): part for index, part in enumerate(weights)}
    names = tuple(str(index) for index, part in enumerate(types) if is_floating(part))
    moved = moved_along(norm * pool.vector(canary), arrays, names)
    return [moved.get(name, part) for name, part in arrays.items()]
