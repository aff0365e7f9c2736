"""An audit of an NVFlare server: wrap its aggregator, and canaries join what the sites answer.

A federation of NVFlare has as many clients as sites, too few for an audit, so the server itself
plays the canaries. TensorFlow is not imported; examples/nvflare has a whole system.
"""

import contextlib
import copy
import dataclasses
import math
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.framework_adapter import AdapterAudit, moved_along, open_audit, widened
from fl_audit.attacks.scorer import RoundScorer, StatedRound
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

    It never ends the training: what it cannot score it logs (logger `fl_audit`), notes in the
    folder, and leaves out. After a restart of the server it goes on in its folder.
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
        noise_stddev: float | None = None,
        norm_bound: float | None = None,
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
          canary_length: The length that the aggregator allows a site in what it releases: clip norm
            over denominator for a mean of clipped answers, though `canary_norm` be shorter. Without
            it no verdict is consistent (docs/canary_check.md).
          noise_stddev: The standard deviation of the noise that the aggregator puts on each
            coordinate of what it releases, for the checks of the mechanism (docs/checks.md).
          norm_bound: The largest norm of what it releases without noise: sites and canaries of a
            round at most, times clip norm over denominator.
          count: The number of canaries, of which coins include about half.
          repeats: The number of rounds of each canary; `num_rounds` where a site is in all of them.

        Raises:
          InputError: A number is out of its range.
        """
        super().__init__()
        self.aggregator, self.folder, self.num_rounds = aggregator, folder, num_rounds
        self.seed, self.count, self.repeats = seed, count, repeats
        self.canary_norm = canary_norm
        self._stated = StatedRound(canary_length, noise_stddev, norm_bound)
        self._check()
        self._dealt = spread(np.arange(count), seed, num_rounds, repeats)
        self._audit = AdapterAudit()
        self._answer: Any = None
        self._scorer: RoundScorer | None = None
        self._is_over = False

    def _check(self) -> None:
        """Raises an `InputError` where a number is out of its range."""
        for name, most in (("num_rounds", math.inf), ("repeats", self.num_rounds)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"{name}: must be in 1 to {most}, got {getattr(self, name)!r}")
        if not 0 < self.canary_norm < math.inf:
            raise InputError(f"canary_norm: must be positive and finite, got {self.canary_norm!r}")
        _ = CanaryPool(self.seed, self.count, dim=2).included  # the real dim comes with an answer

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
        if answer is None or self._is_over:
            return self.aggregator.aggregate_model()
        self._add_canaries(answer)
        released = self.aggregator.aggregate_model()
        if self._scorer is None:
            self._is_over = True  # what keeps it from a start does so in every round
            return released
        with self._harmless("a round's scores"):
            moved = [widened(released.params[n]) for n in self._audited(answer)]
            number = answer.current_round + 1
            self._scorer.score_round(number, moved, **dataclasses.asdict(self._stated))
        return released

    def _audited(self, answer: Any) -> tuple[str, ...]:
        """The names of the variables that are audited, sorted, as sites may order them anyhow."""
        return self._audit.audited_arrays(dict(sorted(answer.params.items())))

    def _harmless(self, what: str) -> contextlib.AbstractContextManager[None]:
        number = getattr(self._answer, "current_round", None)
        return self._audit.errors_logged(f"{what} (current_round {number})", self.folder)

    def _opened(self, answer: Any) -> RoundScorer:
        """The scorer of a new audit, or of this one before the server was started again.

        Raises:
          InputError: Sites do not answer with differences, or the folder is of something else.
        """
        if answer.params_type != "DIFF":
            raise InputError("ScoredAggregator: sites must answer with differences (DIFF)")
        dim = sum(answer.params[name].size for name in self._audited(answer))
        pool = CanaryPool(self.seed, self.count, dim)
        return open_audit(self.folder, pool, self.num_rounds, self._dealt.by_member(self.count))

    def _add_canaries(self, answer: Any) -> None:
        """Hands on the answers of the round's canaries; opens the scorer in the first round."""
        with self._harmless("a round's canaries"):
            self._scorer = self._scorer or self._opened(answer)
            pool, names = self._scorer.pool, self._audited(answer)
            for canary in map(int, self._dealt.members_in(answer.current_round)):
                if pool.included[canary]:
                    vector = self.canary_norm * pool.vector(canary)
                    self.aggregator.accept_model(_answer_like(answer, names, vector, canary))


def _answer_like(answer: Any, names: tuple[str, ...], vector: Float32Array, canary: int) -> Any:
    """A canary's answer: its vector in the variables of a site's answer, all else zero."""
    canary_answer = copy.copy(answer)
    zeros = {name: np.zeros_like(part) for name, part in answer.params.items()}
    canary_answer.params = zeros | moved_along(vector, zeros, names)
    canary_answer.meta = {**answer.meta, "client_name": f"canary-{canary}"}
    return canary_answer
