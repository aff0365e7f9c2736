"""Any Flower strategy, with what each round gives out scored as the round ends."""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fl_audit.attacks import RoundScorer


class ScoredStrategy(Strategy):
    """Goes around the outermost strategy, and so sees what an attacker would: noise included."""

    def __init__(self, strategy: Strategy, scorer: RoundScorer) -> None:
        """Scores what `strategy` gives out."""
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
        """Scores how the round moves the model; a round without an aggregate gives nothing out."""
        after, metrics = self.strategy.aggregate_train(server_round, replies)
        if after is not None:
            moved = [after[key].numpy() - old.numpy() for key, old in self._before.items()]
            self.scorer.score_round(server_round, moved)
        return after, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy does."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the strategy does."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """As the strategy does."""
        self.strategy.summary()
