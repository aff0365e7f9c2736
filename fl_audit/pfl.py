"""Audits pfl-research: a postprocessor around its privacy mechanism adds canary users.

A canary is a user whose statistics are a random vector, longer than the clip norm. The mechanism
clips it like any other user's, and adds its noise to the sum::

    audit = CanaryUsers(
        CentrallyAppliedPrivacyMechanism(gaussian), "audit", num_iterations=iterations, seed=seed,
        sample_rate=accountant.sampling_probability,
    )
    backend = SimulatedBackend(users, users, postprocessors=[audit])
    FederatedAveraging().run(..., backend=backend, callbacks=[audit])

TensorFlow is not imported; examples/pfl has a complete simulation.
"""

import dataclasses
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.attacks import framework_adapter
from fl_audit.attacks.arrays import flatten, unflatten
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks.canary_watch import check_choice
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError

try:
    from pfl.callback.base import TrainingProcessCallback
    from pfl.postprocessor.base import Postprocessor
except ModuleNotFoundError:  # for tests: pfl needs a separate environment
    Postprocessor = type("Postprocessor", (), {})
    TrainingProcessCallback = type("TrainingProcessCallback", (), {})


class CanaryUsers(Postprocessor, TrainingProcessCallback):
    """A privacy mechanism with canaries among its users, and with every noised sum scored.

    Use it instead of the mechanism in the backend's `postprocessors`, and in the `callbacks` of
    `FederatedAlgorithm.run`, which pass it the first and the last model. The simulation must run in
    one process.

    An error of the audit never stops the training: it is logged (logger `fl_audit`) and noted in
    the folder, and the iteration is left out. Lost canaries cause a warning, or end the training
    (`lost_canaries`). After a restart the audit continues in its folder.
    """

    def __init__(
        self,
        mechanism: Any,
        folder: Path | str,
        *,
        num_iterations: int,
        seed: int,
        sample_rate: float | None = None,
        repeats: int = 1,
        count: int = 1000,
        family: str = "rademacher",
        canary_norm: float | None = None,
        lost_canaries: LostCanaries = "warn",
    ) -> None:
        """Wraps a mechanism.

        Args:
          mechanism: The postprocessor that clips users' statistics and adds noise to the sum, or to
            each user's statistics.
          folder: The folder of the audit, new, or this audit's own after a restart.
          num_iterations: The number of central iterations.
          seed: The seed of canaries, coins and iterations; every audit needs a new seed.
          sample_rate: The accountant's `sampling_probability` of a user. Canaries are Poisson
            sampled with this probability, so that the accountant's epsilon holds for them. With
            None each canary has `repeats` iterations known to the attacker; a claim must then do
            without amplification by sampling.
          repeats: The number of iterations of each canary if `sample_rate` is None.
          count: The number of canaries; coins include about half.
          family: The family of the canaries' vectors (docs/canaries.md).
          canary_norm: The norm of a canary's statistics; None for 100 times the clip norm of a
            mechanism that clips the L2 norm.
          lost_canaries: Whether canaries that do not reach the sum cause a warning ("warn") or end
            the training ("error").

        Raises:
          InputError: An argument is out of its range, or `canary_norm` is None and the mechanism
            is not known to clip the L2 norm.
        """
        clip_norm = _clip_norm(mechanism)
        if canary_norm is None and clip_norm is None:
            raise InputError(
                f"canary_norm: is required, as the mechanism ({type(mechanism).__name__}) does not "
                "bound the L2 norm"
            )
        if canary_norm is not None and not 0 < canary_norm < np.inf:
            raise InputError(f"canary_norm: must be positive and finite, got {canary_norm!r}")
        check_choice(lost_canaries)
        _ = CanaryPool(seed, count, 2, family).included  # the real dim comes with a model
        self.mechanism = mechanism
        self.folder = Path(folder)
        self.num_iterations = num_iterations
        self._canary_norm, self._lost_canaries = canary_norm, lost_canaries
        self._numbers = (seed, count)
        self._family = family
        self._rounds = framework_adapter.CanaryRounds.draw(
            seed, count, num_iterations, sample_rate, repeats
        )
        self._audit = framework_adapter.AdapterAudit(folder)
        self._scorer: RoundScorer | None = None
        self._user: Any = None
        self._weight: Any = None

    def on_train_begin(self, *, model: Any) -> Any:
        """Opens the audit, and keeps the first model of a new audit.

        Raises:
          InputError: The folder holds something else, or there are several processes.
        """
        from pfl.internal.ops.selector import get_default_framework_module
        from pfl.metrics import Metrics

        if get_default_framework_module().distributed.world_size > 1:
            raise InputError("CanaryUsers: must be in a simulation of one process")
        scorer = self._opened(model.get_parameters())
        if not scorer.folder.initial.exists() and not scorer.scored_rounds:
            framework_adapter.keep_initial(scorer, _vector(model.get_parameters(), scorer.pool.dim))
        return Metrics()

    def on_train_end(self, *, model: Any) -> None:
        """Writes the score files."""
        with self._audit.errors_logged("the score files"):
            scorer = self._opened(model.get_parameters())
            framework_adapter.finish_audit(scorer, _vector(model.get_parameters(), scorer.pool.dim))

    def postprocess_one_user(self, *, stats: Any, user_context: Any) -> Any:
        """Delegates to the mechanism, and keeps the user as a template for canaries."""
        self._user, self._weight = user_context, stats.get_weights()[0]
        return self.mechanism.postprocess_one_user(stats=stats, user_context=user_context)

    def postprocess_server(
        self, *, stats: Any, central_context: Any, aggregate_metrics: Any
    ) -> tuple[Any, Any]:
        """Adds the iteration's canaries to the sum, and scores what the mechanism then releases."""
        iteration = central_context.current_central_iteration
        users, clip_norm = central_context.cohort_size, _clip_norm(self.mechanism)
        with self._audit.errors_logged(f"the canaries of iteration {iteration}") as adding:
            stats, number = self._with_canaries(stats, iteration, clip_norm)
            users += number
        released, metrics = self.mechanism.postprocess_server(
            stats=stats,
            central_context=dataclasses.replace(central_context, cohort_size=users),
            aggregate_metrics=aggregate_metrics,
        )
        if not adding.failed:
            with self._audit.errors_logged(f"iteration {iteration}"):
                self._score(released, iteration, users, clip_norm)
        return released, metrics

    def postprocess_server_live(
        self, *, stats: Any, central_context: Any, aggregate_metrics: Any
    ) -> tuple[Any, Any]:
        """Delegates to the mechanism."""
        return self.mechanism.postprocess_server_live(  # type: ignore[no-any-return]
            stats=stats, central_context=central_context, aggregate_metrics=aggregate_metrics
        )

    def postprocess_one_user_metrics(self, *, user_context: Any) -> Any:
        """Delegates to the mechanism."""
        return self.mechanism.postprocess_one_user_metrics(user_context=user_context)

    def postprocess_server_metrics(self, *, central_context: Any, aggregate_metrics: Any) -> Any:
        """Delegates to the mechanism."""
        return self.mechanism.postprocess_server_metrics(
            central_context=central_context, aggregate_metrics=aggregate_metrics
        )

    def _opened(self, stats: Any) -> RoundScorer:
        """The scorer of the audit, opened at first use with the dimension of `stats`."""
        if self._scorer is None:
            seed, count = self._numbers
            dim = sum(part.size for part in _arrays(stats))
            pool = CanaryPool(seed, count, dim, self._family)
            self._scorer = self._rounds.scorer(self.folder, pool, self._lost_canaries)
        return self._scorer

    def _with_canaries(
        self, stats: Any, iteration: int, clip_norm: float | None
    ) -> tuple[Any, int]:
        """The sum with the iteration's included canaries, and their number."""
        from pfl.internal.ops.selector import get_default_framework_module

        scorer = self._opened(stats)
        if iteration >= self.num_iterations:
            raise InputError(f"num_iterations: the audit has room for {self.num_iterations}")
        norm = self._canary_norm or framework_adapter.TIMES_CLIP_NORM * (clip_norm or np.nan)
        canaries = self._rounds.included_in(iteration, scorer.pool)
        total, to_tensor = stats, get_default_framework_module().to_tensor
        for canary in canaries:
            parts = unflatten(norm * scorer.pool.vector(canary), _arrays(stats))
            canary_stats = stats.from_weights(self._weight, [to_tensor(part) for part in parts])
            user = dataclasses.replace(
                self._user, seed=secrets.randbits(32), user_id=f"canary-{canary}"
            )
            sent, _ = self.mechanism.postprocess_one_user(stats=canary_stats, user_context=user)
            total = total + sent
        return total, len(canaries)

    def _score(self, released: Any, iteration: int, users: int, clip_norm: float | None) -> None:
        stated: dict[str, float] = {} if clip_norm is None else {"canary_length": clip_norm}
        stddev = _noise(self.mechanism)
        if clip_norm is not None and stddev is not None:
            stated |= {"noise_stddev": stddev * clip_norm, "norm_bound": users * clip_norm}
        moved = [framework_adapter.widened(part) for part in _arrays(released)]
        self._opened(released).score_round(iteration + 1, moved, **stated)


def write_claim(accountant: Any, path: Path | str) -> None:
    """Writes the epsilon of a privacy accountant of pfl at 25 deltas.

    The file is for `fl-audit estimate --claimed-profile`. The claim assumes noise of the
    accountant's `noise_parameter`; a `noise_scale` below 1 adds less. Raises InputError if no
    epsilon is finite.
    """
    framework_adapter.write_profile(
        lambda delta: dataclasses.replace(accountant, epsilon=None, delta=delta).epsilon, path
    )


def _clipping(mechanism: Any) -> Any:
    """The mechanism that clips, possibly inside a mechanism that applies it centrally."""
    return getattr(mechanism, "underlying_mechanism", mechanism)


def _clip_norm(mechanism: Any) -> float | None:
    """A mechanism's bound on the L2 norm; None if no such bound is known."""
    clipping = _clipping(mechanism)
    if getattr(clipping, "_order", None) != 2:
        return None
    bound = clipping.clipping_bound
    return float(bound.value() if hasattr(bound, "value") else bound)


def _noise(mechanism: Any) -> float | None:
    """A sum's noise, as standard deviation over clip norm; None if unknown or correlated."""
    is_central = hasattr(mechanism, "underlying_mechanism")
    if not is_central or type(_clipping(mechanism)).__name__ != "GaussianMechanism":
        return None
    return float(_clipping(mechanism).relative_noise_stddev)


def _arrays(stats: Any) -> list[Any]:
    """The arrays of statistics as NumPy arrays, in their order."""
    from pfl.internal.ops.selector import get_default_framework_module

    to_numpy = getattr(get_default_framework_module(), "to_numpy", np.asarray)
    return [np.asarray(to_numpy(part)) for part in stats.get_weights()[1]]


def _vector(stats: Any, dim: int) -> Any:
    return flatten([framework_adapter.widened(part) for part in _arrays(stats)], dim, "model")
