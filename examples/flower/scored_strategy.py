"""A Flower strategy around another one that scores each round's aggregate as the round ends."""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fl_audit.attacks import RoundScorer


class ScoredStrategy(Strategy):
    """A wrapper of the outermost strategy, which sees what an attacker sees, noise included."""

    def __init__(self, strategy: Strategy, scorer: RoundScorer) -> None:
        """Takes the strategy to wrap, and the scorer of its rounds."""
        self.strategy = strategy
        self.scorer = scorer
        self._before = ArrayRecord()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Remembers the model that the round starts from."""
        self._before = arrays
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Scores the change of the model in the round, unless the round has no aggregate."""
        after, metrics = self.strategy.aggregate_train(server_round, replies)
        if after is not None:
            moved = [after[key].numpy() - old.numpy() for key, old in self._before.items()]
            self.scorer.score_round(server_round, moved)
        return after, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Calls the wrapped strategy."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Calls the wrapped strategy."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Calls the wrapped strategy."""
        self.strategy.summary()
