"""An aggregator by itself, on vectors, in a runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array
from fl_audit.config import Mechanism
from fl_audit.mechanisms import make_aggregator


class Aggregation:
    """A mechanism's aggregation process with the state that it has reached.

    Its updates are pairs of vectors, as a model with two weights has it.
    """

    def __init__(self, config: Mechanism, cohort: float, dim: int, num_rounds: int = 5) -> None:
        """Builds it; enter a runtime first."""
        self.config = config
        self._first = dim // 4
        sizes = (self._first, dim - self._first)
        value_type = tff.to_type(tuple(tff.TensorType(np.float32, [size]) for size in sizes))
        process = make_aggregator(config, cohort, num_rounds).create(value_type)
        state_type, values_type = process.next.type_signature.parameter

        @tff.federated_computation(state_type, values_type)
        def next_fn(state: Any, values: Any) -> Any:
            output = process.next(state, values)
            return output.state, tff.federated_zip((output.result, output.measurements))

        self.next = next_fn
        self.initialize = process.initialize
        self.initial_state = self.state = process.initialize()

    def run(self, updates: Sequence[npt.NDArray[Any]]) -> Float32Array:
        """A round: the aggregate of some updates."""
        pairs = [
            (update[: self._first].astype(np.float32), update[self._first :].astype(np.float32))
            for update in updates
        ]
        self.state, (result, _) = self.next(self.state, pairs)
        return np.concatenate([np.ravel(part) for part in result])
