"""An audit of an NVFlare server: wrap its aggregator, and canaries join what the sites answer.

A federation of NVFlare has as many clients as sites, too few for an audit, so the server itself
plays the canaries. TensorFlow is not imported; examples/nvflare has a whole system.
"""

import copy
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread

try:
    from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
except ModuleNotFoundError:  # NVFlare has an environment of its own; without it this can be tested
    ModelAggregator = object


class ScoredAggregator(ModelAggregator):
    """An aggregator around another one, which adds canaries to a round and scores what comes out.

    It is the `aggregator` of NVFlare's FedAvg or ScatterAndGather, around the one that clips and
    adds noise. Sites answer with differences (`params_transfer_type=TransferType.DIFF`). What it
    takes are numbers and names, as NVFlare writes a job's components as JSON.
    """

    def __init__(
        self,
        aggregator: Any,
        *,
        folder: str,
        num_rounds: int,
        seed: int,
        canary_norm: float,
        canary_length: float | None = None,
        count: int = 1000,
        repeats: int = 1,
    ) -> None:
        """Wraps an aggregator.

        Args:
          aggregator: The aggregator of the server, an NVFlare `ModelAggregator`.
          folder: The folder of the audit on the server, made anew in the first round; `fl-audit
            estimate` takes it from then on.
          num_rounds: The number of rounds of training.
          seed: The seed of canaries, coins and rounds; every audit needs a new one.
          canary_norm: The length of a canary's answer, far above the clip norm.
          canary_length: The length at which the aggregator promises a canary in what it releases:
            clip norm over denominator for a mean of clipped answers. Without it no verdict is
            consistent (docs/arrival.md).
          count: The number of canaries, of which coins include about half.
          repeats: The number of rounds of each canary; `num_rounds` where a site is in all of them.
        """
        super().__init__()
        self.aggregator, self.folder, self.num_rounds = aggregator, folder, num_rounds
        self.seed, self.count, self.repeats = seed, count, repeats
        self.canary_norm, self.canary_length = canary_norm, canary_length
        self._answer: Any = None
        self._scorer: RoundScorer | None = None

    def reset_stats(self) -> None:
        """Begins a round."""
        self._answer = None
        self.aggregator.fl_ctx = self.fl_ctx
        self.aggregator.reset_stats()

    def accept_model(self, model: Any) -> None:
        """Hands on a site's answer, and remembers it as a pattern for canaries."""
        self._answer = model
        self.aggregator.accept_model(model)

    def aggregate_model(self) -> Any:
        """Adds the round's canaries and scores what is released; a round without sites has none."""
        answer = self._answer
        if answer is None:
            return self.aggregator.aggregate_model()
        if answer.params_type != "DIFF":
            raise InputError("ScoredAggregator: sites must answer with differences (DIFF)")
        number = answer.current_round + 1
        names = sorted(name for name, part in answer.params.items() if part.dtype.kind == "f")
        scorer = self._scorer or self._start(sum(answer.params[name].size for name in names))
        for canary in self._dealt.of(number - 1):
            if scorer.pool.included[canary]:
                vector = self.canary_norm * scorer.pool.vector(int(canary))
                self.aggregator.accept_model(_answer_like(answer, names, vector, int(canary)))
        released = self.aggregator.aggregate_model()
        moved = [released.params[name] for name in names]
        scorer.score_round(number, moved, canary_length=self.canary_length)
        return released

    def _start(self, dim: int) -> RoundScorer:
        pool = CanaryPool(self.seed, self.count, dim)
        self._dealt = spread(np.arange(self.count), self.seed, self.num_rounds, self.repeats)
        rounds = self._dealt.by_member(self.count)
        self._scorer = RoundScorer.create(self.folder, pool, self.num_rounds, rounds)
        return self._scorer


def _answer_like(answer: Any, names: list[str], vector: Float32Array, canary: int) -> Any:
    """A canary's answer: its vector in the variables of a site's answer, all else zero."""
    made = copy.copy(answer)
    parts = unflatten(vector, [answer.params[name] for name in names])
    zeros = {name: np.zeros_like(part) for name, part in answer.params.items()}
    made.params = zeros | dict(zip(names, parts, strict=True))
    made.meta = {**answer.meta, "client_name": f"canary-{canary}"}
    return made
