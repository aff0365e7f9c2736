"""Audits an NVFlare server: a wrapper of its aggregator adds canaries to the sites' answers.

The clients of an NVFlare federation are its sites, too few for an audit, so the server itself adds
the canaries::

    aggregator = ScoredAggregator(
        private_mean, folder="audit", num_rounds=20, seed=seed,
        canary_norm=100 * clip_norm, canary_length=clip_norm / denominator,
    )
    job.to_server(FedAvg(num_clients=5, num_rounds=20, aggregator=aggregator))

TensorFlow is not imported; examples/nvflare has a complete system.
"""

import contextlib
import copy
import math
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.framework_adapter import (
    AdapterAudit,
    CanaryRounds,
    Outcome,
    moved_along,
    widened,
)
from fl_audit.attacks.scorer import RoundScorer, check_stated
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks.canary_watch import check_choice
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread

try:
    from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
except ModuleNotFoundError:  # for tests: NVFlare needs a separate environment
    ModelAggregator = object


class ScoredAggregator(ModelAggregator):
    """Wraps an aggregator: adds canaries to each round, and scores the round's aggregate.

    Pass it as the `aggregator` of NVFlare's FedAvg or ScatterAndGather; it wraps the aggregator
    that clips and adds noise. Sites answer with differences
    (`params_transfer_type=TransferType.DIFF`). As NVFlare writes a job's components as JSON, each
    argument is a plain number, a string or a component, and is stored in an attribute of the same
    name.

    An error of the audit never stops the training: it is logged (logger `fl_audit`) and noted in
    the folder, and the round is left out. Lost canaries cause a warning, or end the training
    (`lost_canaries`). After a restart of the server the audit continues in its folder.
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
        lost_canaries: LostCanaries = "warn",
    ) -> None:
        """Wraps an aggregator.

        Args:
          aggregator: The aggregator of the server, an NVFlare `ModelAggregator`.
          folder: The folder of the audit on the server, created in the first round; from then on
            `fl-audit estimate` can read it.
          num_rounds: The number of rounds of training.
          seed: The seed of canaries, coins and rounds; every audit needs a new seed.
          canary_norm: The norm of a canary's answer, far above the clip norm.
          canary_length: The largest norm that one site can add to the released aggregate: clip norm
            over denominator for a mean of clipped answers, even if `canary_norm` is smaller. The
            canary check expects this norm of a canary; without the check no verdict is "consistent"
            (docs/canary_check.md).
          noise_stddev: The standard deviation of the noise on each coordinate of the released
            aggregate, for the checks of the mechanism (docs/checks.md).
          norm_bound: The largest norm of the aggregate without noise: the largest number of sites
            and canaries in a round, times clip norm over denominator.
          count: The number of canaries; coins include about half.
          repeats: The number of rounds of each canary; `num_rounds` if each site is in all rounds.
          lost_canaries: Whether canaries that do not reach the aggregate cause a warning ("warn")
            or end the training ("error").

        Raises:
          InputError: An argument is out of its range.
        """
        super().__init__()
        self.aggregator, self.folder, self.num_rounds = aggregator, folder, _plain(num_rounds)
        self.seed, self.count, self.repeats = _plain(seed), _plain(count), _plain(repeats)
        self.canary_norm, self.canary_length = _plain(canary_norm), _plain(canary_length)
        self.noise_stddev, self.norm_bound = _plain(noise_stddev), _plain(norm_bound)
        self.lost_canaries = lost_canaries
        self._check()
        self._rounds = CanaryRounds(spread(np.arange(count), seed, num_rounds, repeats), num_rounds)
        self._audit = AdapterAudit(folder)
        self._answer: Any = None
        self._scorer: RoundScorer | None = None
        self._is_over = False

    def _check(self) -> None:
        for name, most in (("num_rounds", math.inf), ("repeats", self.num_rounds)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"{name}: must be in 1 to {most}, got {getattr(self, name)!r}")
        if not 0 < self.canary_norm < math.inf:
            raise InputError(f"canary_norm: must be positive and finite, got {self.canary_norm!r}")
        check_choice(self.lost_canaries)
        check_stated(self.canary_length, self.noise_stddev, self.norm_bound)
        _ = CanaryPool(self.seed, self.count, dim=2).included  # the real dim comes with an answer

    def reset_stats(self) -> None:
        """Starts a round."""
        self._answer = None
        self.aggregator.fl_ctx = self.fl_ctx
        self.aggregator.reset_stats()

    def accept_model(self, model: Any) -> None:
        """Passes on a site's answer, and keeps it as a template for canaries."""
        self._answer = model
        self.aggregator.accept_model(model)

    def aggregate_model(self) -> Any:
        """Aggregates; adds canaries and scores, unless no site answered or the audit has failed."""
        answer = self._answer
        if answer is None or self._is_over:
            return self.aggregator.aggregate_model()
        all_added = self._add_canaries(answer)
        released = self.aggregator.aggregate_model()
        if self._scorer is None:
            self._is_over = True  # an audit that cannot start now cannot start later
        if self._scorer is None or not all_added:
            return released
        with self._harmless("a round's scores"):
            moved = [widened(released.params[n]) for n in self._audited(answer)]
            self._scorer.score_round(
                answer.current_round + 1,
                moved,
                canary_length=self.canary_length,
                noise_stddev=self.noise_stddev,
                norm_bound=self.norm_bound,
            )
        return released

    def _audited(self, answer: Any) -> tuple[str, ...]:
        """The names of the audited variables, sorted: their order may differ between sites."""
        return self._audit.audited_arrays(dict(sorted(answer.params.items())))

    def _harmless(self, what: str) -> contextlib.AbstractContextManager[Outcome]:
        number = getattr(self._answer, "current_round", None)
        return self._audit.errors_logged(f"{what} (current_round {number})")

    def _opened(self, answer: Any) -> RoundScorer:
        """The scorer of the audit: new, or continued after a restart of the server."""
        if answer.params_type != "DIFF":
            raise InputError("ScoredAggregator: sites must answer with differences (DIFF)")
        dim = sum(answer.params[name].size for name in self._audited(answer))
        pool = CanaryPool(self.seed, self.count, dim)
        return self._rounds.scorer(self.folder, pool, self.lost_canaries)

    def _add_canaries(self, answer: Any) -> bool:
        """Passes on the answers of the round's canaries; opens the scorer in the first round.

        Returns whether all were accepted; after an error some may be in the aggregate.
        """
        with self._harmless("a round's canaries") as adding:
            self._scorer = self._scorer or self._opened(answer)
            pool, names = self._scorer.pool, self._audited(answer)
            for canary in self._rounds.included_in(answer.current_round, pool):
                vector = self.canary_norm * pool.vector(canary)
                self.aggregator.accept_model(_answer_like(answer, names, vector, canary))
        return not adding.failed


def _plain(number: Any) -> Any:
    """A NumPy number as a Python number, because NVFlare writes no NumPy types."""
    return number.item() if isinstance(number, np.generic) else number


def _answer_like(answer: Any, names: tuple[str, ...], vector: Float32Array, canary: int) -> Any:
    """A canary's answer: its vector as the variables of a site's answer, all else zero."""
    canary_answer = copy.copy(answer)
    zeros = {name: np.zeros_like(part) for name, part in answer.params.items()}
    canary_answer.params = zeros | moved_along(vector, zeros, names)
    canary_answer.meta = {**answer.meta, "client_name": f"canary-{canary}"}
    return canary_answer
