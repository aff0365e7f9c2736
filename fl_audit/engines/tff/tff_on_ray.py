"""Rounds of a TFF process in this Python process, with the clients' work on Ray's actors."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.engine import CohortReader
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.actors import RaySession, UnreadRound, check_for_ray
from fl_audit.engines.ray.worker import Arrays
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.compiled import (
    ClientSum,
    ImportedComputation,
    LocalContext,
    local_runtime,
)
from fl_audit.engines.tff.local import at_once, client_inputs_of, process_of
from fl_audit.engines.tff.tff_engine import TffEngine
from fl_audit.engines.tff.tff_worker import CLIENT_PARTS, TffWorker
from fl_audit.engines.tff.trained_blocks import TrainedBlocks
from fl_audit.mechanisms import canary_norm


@dataclass(frozen=True, eq=False)
class _RoundOnActors:
    """A round's participants, with what the actors need to train them."""

    unread: UnreadRound
    weights: Arrays
    canary_norm: float


class RayContext(LocalContext):
    """A context with clients' work on actors, and all else in this process."""

    def __init__(self, on_ray: RaySession) -> None:
        """The actors start with the first round."""
        super().__init__()
        self.on_ray = on_ray

    def client_sum(self, form: Any) -> ClientSum:
        """The function that trains a round's clients on actors and adds their results by shard."""
        parts: dict[str, bytes] = {
            name: tff.framework.serialize_computation(getattr(form, name)).SerializeToString()
            for name in CLIENT_PARTS
        }
        merge, zero = ImportedComputation(form.merge), ImportedComputation(form.zero)

        def client_sum(prepared: Sequence[tf.Tensor], on_actors: Any) -> list[tf.Tensor]:
            total = self.on_ray.total(
                on_actors.unread,
                prepared=[np.asarray(leaf) for leaf in prepared],
                weights=on_actors.weights,
                canary_norm=on_actors.canary_norm,
                merge=lambda earlier, later: merge([*earlier, *later]),
                parts=parts,
            )
            return zero([]) if total is None else list(total)

        return client_sum


@dataclass(frozen=True)
class OnRay(TffEngine):
    """The runtime whose clients train on Ray's actors."""

    trains_in_blocks: bool  # if so, actors also get the model's weights
    context: RayContext

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        with contextlib.closing(self.context.on_ray), local_runtime(self.context):
            yield

    def reader(self, run: PreparedRun) -> CohortReader:
        """Reads nothing: actors read the data of their own clients."""
        return UnreadRound

    def participants(self, state: Any, data: UnreadRound) -> Iterable[Any]:
        """The participants as `RayContext.client_sum` takes them: one object, not iterable."""
        norm = canary_norm(self.mechanism, state.aggregator)
        weights = model_weights(state) if self.trains_in_blocks else []
        on_actors: Any = _RoundOnActors(data, weights, norm)
        return on_actors  # type: ignore[no-any-return]


def make(run: PreparedRun, worker_log: Path, why: str) -> OnRay:
    """The runtime of a run on Ray, with its process compiled; Ray starts with the first round."""
    check_for_ray(run)
    inputs = client_inputs_of(run)
    process = process_of(run, inputs)
    context = RayContext(RaySession(run, inputs.clients_per_block, TffWorker))
    context.compile(process.next)
    description = context.on_ray.words + at_once(inputs)
    in_blocks = isinstance(inputs, TrainedBlocks)
    return OnRay(description, process, run.config.mechanism, in_blocks, context)
