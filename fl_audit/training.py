"""Audits of a custom TFF process.

A sketch; docs/any_process.md has the complete program::

    process = build_audited_fed_avg(model_fn, optimizer, model_aggregator=private_sum)
    pool = CanaryPool(seed=81423, count=200, dim=canary_dim(process))
    canaries = CanaryClients(process, pool, num_rounds=20)
    scorer = RoundScorer.create("audit", pool, num_rounds=20, canary_rounds=canaries.rounds)
    ...
    output = process.next(state, canaries.join(round_number, cohort, state))

The names below are imported on first use, and with them TensorFlow Federated.
"""

from typing import TYPE_CHECKING

from fl_audit.public_names import imported_when_used

if TYPE_CHECKING:
    from fl_audit.engines.tff.algorithms import ProximalOptimizer as ProximalOptimizer
    from fl_audit.engines.tff.algorithms import build_audited_fed_avg as build_audited_fed_avg
    from fl_audit.engines.tff.algorithms import build_audited_fed_prox as build_audited_fed_prox
    from fl_audit.engines.tff.algorithms import build_audited_fed_sgd as build_audited_fed_sgd
    from fl_audit.engines.tff.canary_clients import CanaryClients as CanaryClients
    from fl_audit.engines.tff.canary_clients import probe as probe
    from fl_audit.engines.tff.canary_process import canary_dim as canary_dim
    from fl_audit.engines.tff.canary_process import (
        compose_audited_process as compose_audited_process,
    )
    from fl_audit.engines.tff.canary_process import model_weights as model_weights
    from fl_audit.engines.tff.canary_process import released_aggregate as released_aggregate
    from fl_audit.engines.tff.native_worker import native_runtime as native_runtime
    from fl_audit.engines.tff.replayed_process import replay_process as replay_process
    from fl_audit.mechanisms.mechanism_of_run import make_aggregator as make_aggregator

_MODULE_OF = {
    "CanaryClients": ".engines.tff.canary_clients",
    "ProximalOptimizer": ".engines.tff.algorithms",
    "build_audited_fed_avg": ".engines.tff.algorithms",
    "build_audited_fed_prox": ".engines.tff.algorithms",
    "build_audited_fed_sgd": ".engines.tff.algorithms",
    "canary_dim": ".engines.tff.canary_process",
    "compose_audited_process": ".engines.tff.canary_process",
    "make_aggregator": ".mechanisms.mechanism_of_run",
    "model_weights": ".engines.tff.canary_process",
    "native_runtime": ".engines.tff.native_worker",
    "probe": ".engines.tff.canary_clients",
    "released_aggregate": ".engines.tff.canary_process",
    "replay_process": ".engines.tff.replayed_process",
}

__all__ = [*_MODULE_OF]  # noqa: PLE0604 - names, each a string

__getattr__ = imported_when_used(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
