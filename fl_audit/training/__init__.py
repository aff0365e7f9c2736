"""Training: TFF learning processes with canaries, the runtimes that run them, and the round loop.

The names below are for loops of one's own (docs/any_process.md); they are imported where they are
first used, and with them TensorFlow Federated.
"""

from typing import TYPE_CHECKING

from fl_audit.public_names import imported_when_used

if TYPE_CHECKING:
    from fl_audit.training.algorithm.audited_algorithms import (
        build_audited_fed_avg as build_audited_fed_avg,
    )
    from fl_audit.training.algorithm.audited_algorithms import (
        build_audited_fed_prox as build_audited_fed_prox,
    )
    from fl_audit.training.algorithm.audited_algorithms import (
        build_audited_fed_sgd as build_audited_fed_sgd,
    )
    from fl_audit.training.algorithm.audited_process import canary_dim as canary_dim
    from fl_audit.training.algorithm.audited_process import (
        compose_audited_process as compose_audited_process,
    )
    from fl_audit.training.algorithm.audited_process import released_aggregate as released_aggregate
    from fl_audit.training.algorithm.proximal_optimizer import (
        ProximalOptimizer as ProximalOptimizer,
    )
    from fl_audit.training.algorithm.round import model_weights as model_weights
    from fl_audit.training.data.canary_clients import CanaryClients as CanaryClients
    from fl_audit.training.data.probe import probe as probe
    from fl_audit.training.replay import replay_process as replay_process
    from fl_audit.training.runtimes.native_runtime import native_runtime as native_runtime

_MODULE_OF = {
    "CanaryClients": "data.canary_clients",
    "ProximalOptimizer": "algorithm.proximal_optimizer",
    "build_audited_fed_avg": "algorithm.audited_algorithms",
    "build_audited_fed_prox": "algorithm.audited_algorithms",
    "build_audited_fed_sgd": "algorithm.audited_algorithms",
    "canary_dim": "algorithm.audited_process",
    "compose_audited_process": "algorithm.audited_process",
    "model_weights": "algorithm.round",
    "native_runtime": "runtimes.native_runtime",
    "probe": "data.probe",
    "released_aggregate": "algorithm.audited_process",
    "replay_process": "replay",
}

__all__ = [*_MODULE_OF]  # noqa: PLE0604 - names, each a string

__getattr__ = imported_when_used(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
