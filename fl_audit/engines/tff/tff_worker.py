"""Actors that train their clients in TensorFlow, with the parts of a TFF process."""

from collections.abc import Callable, Iterable, Sequence
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
        from fl_audit.engines.tff.local import clients_in_parallel, trained_blocks_of
        from fl_audit.engines.tff.tff_engine import data_sets_of

        self._blocks = trained_blocks_of(run)
        self._data_sets = data_sets_of(run)
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
        return lambda data: self._client_sum(prepared, self._participants(sent, data))

    def _merged(self, earlier: Sequence[Any], later: Sequence[Any]) -> Sequence[Any]:
        import tensorflow as tf

        return self._merge([*map(tf.convert_to_tensor, [*earlier, *later])])

    def _arrays(self, total: Sequence[Any]) -> Arrays:
        return [np.asarray(leaf) for leaf in total]

    def _participants(self, sent: Sent, data: RoundData) -> Iterable[Any]:
        if self._blocks is None:
            return self._data_sets.client_data(data, sent.canary_norm)
        return self._blocks.results(sent.weights, data, sent.canary_norm)
