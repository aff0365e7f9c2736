"""Actors that train their clients in TensorFlow, with the parts of a TFF process."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.worker import Arrays, ClientWorker, Sent, WorkerSetup
from fl_audit.resources import set_tensorflow_defaults

CLIENT_PARTS = ("work", "zero", "accumulate", "merge")
"""The parts of a MapReduceForm that an actor runs."""


class TffWorker(ClientWorker):
    """An actor with the client work of the process."""

    def __init__(self) -> None:
        """Sets the same defaults as the program, before TensorFlow is imported."""
        super().__init__()
        set_tensorflow_defaults()

    def _load_engine(self, run: PreparedRun, setup: WorkerSetup) -> None:
        from tensorflow_federated import framework
        from tensorflow_federated.proto.v0 import computation_pb2

        from fl_audit.engines.tff.compiled import ImportedComputation, LocalSum
        from fl_audit.engines.tff.local import client_inputs_of, clients_in_parallel

        self._inputs = client_inputs_of(run)
        parts = {
            name: ImportedComputation(
                framework.deserialize_computation(computation_pb2.Computation.FromString(text))
            )
            for name, text in setup.parts.items()
        }
        threads = clients_in_parallel(setup.cpus)
        self._client_sum = LocalSum(parts.__getitem__, threads)
        self._merge = parts["merge"]

    def _shard_sum_of(self, sent: Sent) -> Callable[[RoundData], Sequence[Any]]:
        import tensorflow as tf

        prepared = [tf.constant(array) for array in sent.prepared]
        return lambda data: self._client_sum(
            prepared, self._inputs.inputs(sent.weights, data, sent.canary_norm)
        )

    def _merged(self, earlier: Sequence[Any], later: Sequence[Any]) -> Sequence[Any]:
        return self._merge([*earlier, *later])

    def _arrays(self, total: Sequence[Any]) -> Arrays:
        return [np.asarray(leaf) for leaf in total]
