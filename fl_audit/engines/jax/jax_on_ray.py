"""The engine in JAX, with clients' work on Ray's actors.

Noise, norms, the server's step and scores are computed in this process, as in `JaxEngine`; actors
train, zero, clip and sum their shards of the cohort, each on one device.
"""

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from fl_audit.config import RayCluster
from fl_audit.engines.engine import CohortReader, Weights
from fl_audit.engines.jax.aggregation import Norms
from fl_audit.engines.jax.device_blocks import CLIENTS_PER_BLOCK_ON_CPU, NO_KEY
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.jax.jax_worker import JaxWorker, added
from fl_audit.engines.jax.noise_processes import NoiseKeys
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.actors import RaySession, UnreadRound, check_for_ray
from fl_audit.errors import InputError
from fl_audit.mechanisms import Distributed
from fl_audit.resources import set_jax_defaults


class JaxOnRay(JaxEngine):
    """Rounds whose participants' updates are summed by actors."""

    first_round = (
        "before the first round each actor loads the task and compiles, which takes up to a minute"
    )

    def __init__(self, run: PreparedRun, noise_keys: NoiseKeys | None = None) -> None:
        """Creates the functions of a run; Ray starts with the run's first round."""
        size = run.config.clients_per_block or CLIENTS_PER_BLOCK_ON_CPU
        config = msgspec.structs.replace(run.config, clients_per_block=size)
        super().__init__(dataclasses.replace(run, config=config), noise_keys=noise_keys)
        self.on_ray = RaySession(run, size, JaxWorker)
        self.description = f"{self.on_ray.words}, {size} clients at once, in JAX"

    def session(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.closing(self.on_ray)

    def reader(self, run: PreparedRun) -> CohortReader:
        """Reads nothing: actors read the data of their own clients."""
        return UnreadRound

    def sum_of(
        self, weights: Weights, norms: Norms, data: UnreadRound, length: float, key: Any = NO_KEY
    ) -> Any:
        """The `Summed` of a round; the key is not used, as participants on actors add no noise."""
        nothing = self._aggregation.nothing(list(weights))
        leaves = self.on_ray.total(
            data,
            prepared=[np.asarray(norm) for norm in norms],
            weights=list(weights),
            canary_norm=length,
            merge=added,
        )
        if leaves is None:
            return nothing
        total = tree_unflatten(tree_flatten(nothing)[1], leaves)
        return jax.device_put(total, self._devices[0])


def make(run: PreparedRun, worker_log: Path, why: str) -> JaxOnRay:
    """The engine of a run on Ray's actors."""
    cluster = run.config.ray or RayCluster()
    one_device = "as each actor of engine 'jax' trains on one device; take more actors"
    if cluster.gpus_per_actor > 1:
        raise InputError(f"key `ray.gpus_per_actor`: must be at most 1, {one_device}")
    if not cluster.gpus_per_actor and cluster.cpus_per_actor > 1:
        raise InputError(f"key `ray.cpus_per_actor`: must be 1, {one_device}")
    if isinstance(run.config.mechanism, Distributed):
        # Shares of noise depend on the round's key and positions in the cohort, which actors do not
        # have.
        raise InputError(
            "mechanism.kind: 'distributed' is not for ray.engine 'jax'; must be another kind, or "
            "ray.engine 'tff', or runtime 'jax'"
        )
    check_for_ray(run)
    # Else JAX takes memory here that actors on this machine's GPUs need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    set_jax_defaults()
    return JaxOnRay(run)
