"""Actors that train their clients in JAX, each on one device."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.worker import Arrays, ClientWorker, Sent, WorkerSetup
from fl_audit.resources import set_jax_defaults

_USUAL_MEMORY_FRACTION = 0.75
"""The share of a GPU's memory that JAX allocates at its start by default."""


class JaxWorker(ClientWorker):
    """An actor for one device: a shard is about one block, so further devices would idle."""

    def _load_engine(self, run: PreparedRun, setup: WorkerSetup) -> None:
        if not setup.gpus:
            os.environ["JAX_PLATFORMS"] = "cpu"
        elif setup.gpus < 1:  # several actors share the GPU
            share = str(_USUAL_MEMORY_FRACTION * setup.gpus)
            os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", share)
        set_jax_defaults()
        import jax

        from fl_audit.engines.jax.jax_engine import JaxEngine

        self._engine = JaxEngine(run, jax.devices()[:1])

    def _shard_sum_of(self, sent: Sent) -> Callable[[RoundData], Arrays]:
        from jax.tree_util import tree_leaves

        from fl_audit.engines.jax.aggregation import Norms

        norms = Norms(*sent.prepared)

        def shard_sum(data: RoundData) -> Arrays:
            total = self._engine.sum_of(sent.weights, norms, data, sent.canary_norm)
            return [np.asarray(leaf) for leaf in tree_leaves(total)]

        return shard_sum

    def _merged(self, earlier: Arrays, later: Arrays) -> Arrays:
        return added(earlier, later)

    def _arrays(self, total: Arrays) -> Arrays:
        return total


def added(earlier: Sequence[Any], later: Sequence[Any]) -> Arrays:
    """The sum of two sums, array by array."""
    return [np.asarray(a + b) for a, b in zip(earlier, later, strict=True)]
