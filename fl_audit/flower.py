"""Audits a Flower server: wrap its outermost strategy, and let canary clients answer.

On the server, with a strategy of `flwr.serverapp.strategy`::

    scorer = RoundScorer.create("audit", pool, num_rounds=rounds)
    strategy = ScoredStrategy(DifferentialPrivacyServerSideFixedClipping(FedAvg(), ...), scorer)
    result = strategy.start(grid, initial_arrays, num_rounds=rounds)  # writes the score files

A canary client answers with the round's model, moved along its canary:

>>> import numpy as np
>>> from fl_audit.canaries.pool import CanaryPool
>>> pool = CanaryPool(seed=1, count=200, dim=4)
>>> model = [np.ones(4, np.float32), np.array(7)]
>>> answer = canary_arrays(model, pool, canary=0, norm=100.0)
>>> float(np.linalg.norm(answer[0] - model[0])), int(answer[1])
(100.0, 7)

Neither TensorFlow nor Flower is imported here; examples/flower has a complete system.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fl_audit.attacks import framework_adapter
from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError

_FIXED_CLIPPING = (
    "DifferentialPrivacyServerSideFixedClipping",
    "DifferentialPrivacyClientSideFixedClipping",
)
"""Flower's strategies whose attributes determine the noise on every coordinate."""


class ScoredStrategy:
    """A strategy that wraps another strategy, and scores each round's aggregate as the round ends.

    It must be the outermost strategy, around Flower's DP wrapper, so that the scored aggregate
    contains the noise. Everything else is left to the wrapped strategy. After the training `start`
    writes the score files, and `claim.csv` if the strategy states its privacy (`privacy_spent`);
    `fl-audit estimate` tests that claim.

    An error of the audit never stops the training: it is logged (logger `fl_audit`) and noted in
    the folder, and the round is left out. Lost canaries cause a warning, or end the training
    (`lost_canaries` of the scorer). After a restart of the server the audit continues with
    `RoundScorer.open`.
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
          scorer: The scorer of the strategy's rounds.
          canary_length: The largest norm that one client can add to the model's movement, even if
            canaries are shorter, as a function of the number of replies without error; for a mean
            of clipped updates `lambda replies: clip_norm / replies`. The canary check expects this
            norm of a canary, and needs the `canary_rounds` of the scorer; without the check no
            verdict is "consistent" (docs/canary_check.md).
          model: The clients' model as NumPy arrays, in the model's order; arrays of floating-point
            type are audited. None to decide by the types of the initial arrays.
          rounds_before: The number of rounds trained before this start, as Flower counts from 1
            again: `max(scorer.scored_rounds, default=0)` if every round was scored.
          noise: For the checks of the mechanism (docs/checks.md), as a function of the number of
            replies without error: the standard deviation of the noise on each coordinate of the
            model's movement, and the largest norm of the movement without noise (None if not
            known). None to use the attributes of a Flower strategy with a fixed clip norm.

        Raises:
          InputError: `rounds_before` is negative or above the scorer's number of rounds.
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
        self._audit = framework_adapter.AdapterAudit(scorer.folder.path)
        self._before: Any = None

    def __getattr__(self, name: str) -> Any:
        """Delegates everything else to the wrapped strategy."""
        return getattr(self.strategy, name)

    def start(self, grid: Any, initial_arrays: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the wrapped strategy, then writes claim and scores; arguments are passed on."""
        with self._audit.errors_logged("the initial model"):
            self._keep_initial(initial_arrays)
        result = type(self.strategy).start(self, grid, initial_arrays, *args, **kwargs)
        with self._audit.errors_logged("the claim of privacy_spent"):
            self._write_claim()
        with self._audit.errors_logged("the score files"):
            # Last, so that their line in the chain covers the claim.
            self._finish(result.arrays if len(result.arrays) else initial_arrays)
        return result

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Keeps the round's initial model."""
        self._before = arrays
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Aggregates, and scores the model's movement unless the round has no aggregate."""
        answers = list(replies)
        after, metrics = self.strategy.aggregate_train(server_round, answers)
        number = server_round + self._rounds_before
        if after is not None:
            with self._audit.errors_logged(f"round {number}"):
                new, old = self._audited(after), self._audited(self._before)
                moved = [new_part - old_part for new_part, old_part in zip(new, old, strict=True)]
                sent = sum(not reply.has_error() for reply in answers)
                length = None if self._canary_length is None else self._canary_length(sent)
                stated = self._stated_noise(sent)
                self.scorer.score_round(number, moved, canary_length=length, **stated)
        return after, metrics

    def _audited(self, record: Any) -> list[Any]:
        """The audited arrays of a record of arrays, in the record's order."""
        arrays = {name: record[name].numpy() for name in record}
        types = arrays if self._model is None else dict(zip(arrays, self._model, strict=True))
        return [
            framework_adapter.widened(arrays[name]) for name in self._audit.audited_arrays(types)
        ]

    def _keep_initial(self, initial_arrays: Any) -> None:
        """Saves the initial model, unless rounds were trained or scored before this start."""
        initial = flatten(self._audited(initial_arrays), self.scorer.pool.dim, "initial model")
        if not self._rounds_before and not self.scorer.scored_rounds:
            framework_adapter.keep_initial(self.scorer, initial)

    def _finish(self, final_arrays: Any) -> None:
        """Writes the score files, also those that need the initial model if it was saved."""
        final = flatten(self._audited(final_arrays), self.scorer.pool.dim, "final model")
        framework_adapter.finish_audit(self.scorer, final)

    def _write_claim(self) -> None:
        """Writes the strategy's privacy, if stated: the accountant's curve, or one point.

        Nothing is written if no epsilon is finite. Raises InputError, without a claim, if the
        accountant has counted fewer releases than there are scored rounds.
        """
        claim, scored = self.scorer.folder.claim, len(self.scorer.scored_rounds)
        claim.unlink(missing_ok=True)  # of fewer rounds, before a restart
        spent = getattr(self.strategy, "privacy_spent", lambda: None)()
        if spent is None:
            return
        releases = getattr(spent, "num_releases", scored)
        if releases < scored:
            raise InputError(
                f"{claim.name}: not written, as the accountant counts {releases} releases and the "
                f"audit {scored} rounds; after a restart load the accountant's state "
                "(load_state_dict) before the training"
            )
        accountant = getattr(self.strategy, "accountant", None)
        points = [(spent.epsilon, spent.delta)]
        if accountant is not None and hasattr(accountant, "get_epsilon"):
            points = framework_adapter.profile_of(accountant.get_epsilon)
        framework_adapter.write_points(points, claim)

    def _stated_noise(self, number: int) -> dict[str, float | None]:
        """The noise on this number of answers, as far as known, for `RoundScorer.score_round`."""
        if self._noise is not None:
            stddev, bound = self._noise(number)
            return {"noise_stddev": stddev, "norm_bound": bound}
        if type(self.strategy).__name__ not in _FIXED_CLIPPING:
            return {}
        clip = self.strategy.clipping_norm
        stddev = self.strategy.noise_multiplier * clip / self.strategy.num_sampled_clients
        # A mean of clipped updates, with any weights, is no longer than the clip norm; other inner
        # strategies may return a longer vector.
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

    Floating-point arrays of any precision move, and keep their type. Other arrays, such as a
    normalisation layer's count of batches (int64), do not move: the pool's `dim` is the number of
    values in the arrays that move.

    Args:
      weights: The arrays of the round's model.
      pool: The canaries, the same as the server's.
      canary: The number of the canary, which must be included.
      norm: The norm of the movement; under clipping, far above the clip norm.
      model: The arrays of the client's own model; their types determine which move. None for the
        types of `weights`. Needed if some arrays are integers: Flower's mean turns them into
        floats, so from the second round on the types of `weights` are wrong.

    Raises:
      InputError: The pool's `dim` is not the number of values that move, a moved value leaves the
        range of its type, or `model` and `weights` differ in length.
    """
    types = weights if model is None else model
    if len(types) != len(weights):
        raise InputError(f"model: must have {len(weights)} arrays as weights, got {len(types)}")
    arrays = {str(index): part for index, part in enumerate(weights)}
    names = tuple(
        str(index) for index, part in enumerate(types) if framework_adapter.is_floating(part)
    )
    moved = framework_adapter.moved_along(norm * pool.vector(canary), arrays, names)
    return [moved.get(name, part) for name, part in arrays.items()]
